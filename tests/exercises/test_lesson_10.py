"""Lesson 10's budget of places: its reference against every division, and answers to it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from ehr_course.exercises import examine
from ehr_course.exercises.lessons import lesson_10
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import as_function, worked_answer


def divisions(lengths: list[int]) -> Iterator[list[list[int]]]:
    """Every way to put records into batches."""
    if not lengths:
        yield []
        return
    first, *rest = lengths
    for division in divisions(rest):
        yield [[first], *division]
        for i, batch in enumerate(division):
            yield [*division[:i], [first, *batch], *division[i + 1 :]]


def lowest_of_all(lengths: list[int], budget: int, overhead: int) -> int:
    return min(
        sum(len(batch) * max(batch) + overhead for batch in division)
        for division in divisions(lengths)
        if all(len(batch) * max(batch) <= budget for batch in division)
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_division_costs_less_than_the_reference_says(seed):
    rng = random.Random(seed)
    fresh = [lesson_10.BUDGET.fresh(rng) for _ in range(20)]
    probes = [probe for probe in [*lesson_10.BUDGET.chosen, *fresh] if len(probe[0]) <= 8]
    assert len(probes) > 20
    for probe in probes:
        assert lesson_10.BUDGET.worked_answer(*probe) == lowest_of_all(*probe), probe


# Not made from the worked answer.

RIGHT = {
    "by the number of batches, backwards": """
def lowest_cost(lengths, budget, overhead):
    a = sorted(lengths)
    n = len(a)
    cost = {n: 0}
    for start in range(n - 1, -1, -1):
        cost[start] = min(
            (end - start) * a[end - 1] + overhead + cost[end]
            for end in range(start + 1, n + 1)
            if (end - start) * a[end - 1] <= budget
        )
    return cost[0]
""",
    "by padding instead of places": """
def lowest_cost(lengths, budget, overhead):
    a = sorted(lengths)
    waste = [0] + [float("inf")] * len(a)
    for i in range(len(a)):
        padding = 0
        for j in range(i, -1, -1):
            padding += a[i] - a[j]
            if (i - j + 1) * a[i] > budget:
                break
            waste[i + 1] = min(waste[i + 1], waste[j] + padding + overhead)
    return sum(a) + waste[-1]
""",
    "a shortest path": """
def lowest_cost(lengths, budget, overhead):
    import heapq
    a = sorted(lengths, reverse=True)
    heap, done = [(0, 0)], set()
    while heap:
        cost, at = heapq.heappop(heap)
        if at == len(a):
            return cost
        if at in done:
            continue
        done.add(at)
        for rows in range(1, min(budget // a[at], len(a) - at) + 1):
            heapq.heappush(heap, (cost + rows * a[at] + overhead, at + rows))
""",
    "whole arrays": """
def lowest_cost(lengths, budget, overhead):
    import numpy as np
    a = np.sort(lengths)
    best = np.zeros(len(a) + 1, dtype=int)
    for end in range(1, len(a) + 1):
        rows = np.arange(end, 0, -1)
        cost = np.where(rows * a[end - 1] <= budget, best[:end] + rows * a[end - 1], 10**9)
        best[end] = cost.min() + overhead
    return best[-1]
""",
}


@pytest.mark.parametrize("source", RIGHT.values(), ids=RIGHT)
def test_a_right_answer_of_another_kind_is_solved(source):
    for seed in range(3):
        result = examine("10.4", as_function("10.4", source), seed=seed)
        assert result.outcome.is_solved, str(result)


GREEDY = """
def lowest_cost(lengths, budget, overhead):
    a = {order}
    total, rows, width = 0, 0, 0
    for length in a:
        if (rows + 1) * max(width, length) <= budget:
            rows, width = rows + 1, max(width, length)
        else:
            total += rows * width + overhead
            rows, width = 1, length
    return total + rows * width + overhead
"""

CLOSURE = """
def lowest_cost(lengths, budget, overhead):
    a = sorted(lengths)
    def rest(i):
        if i == len(a):
            return 0
        return min({term}
                   for j in range(i + 1, len(a) + 1) if {allowed})
    from functools import cache
    rest = cache(rest)
    return rest(0)
"""

PLACES = "(j - i) * a[j - 1]"


def closure(term: str = f"{PLACES} + overhead + rest(j)", allowed: str = f"{PLACES} <= budget"):
    return CLOSURE.format(term=term, allowed=allowed)


# A wrong answer, and its misconception, or None where no known one does the same.
WRONG = {
    "greedy, shortest first": (GREEDY.format(order="sorted(lengths)"), "fills_from_the_shortest"),
    "greedy, longest first": (
        GREEDY.format(order="sorted(lengths)[::-1]"), "fills_from_the_longest"),
    "greedy, as they come": (GREEDY.format(order="lengths"), "fills_in_the_given_order"),
    "no overhead": (closure(f"{PLACES} + rest(j)"), "forgets_the_overhead"),
    "tokens against the budget": (closure(allowed="sum(a[i:j]) <= budget"), "budget_of_tokens"),
    "tokens as the cost": (closure("sum(a[i:j]) + overhead + rest(j)"), "padding_is_free"),
    "below the budget": (closure(allowed=f"{PLACES} < budget"), "below_the_budget"),
    "no budget": (closure(allowed="True"), "ignores_the_budget"),
    "overhead for each record": (closure(f"{PLACES} + (j - i) * overhead + rest(j)"),
                                 "overhead_added_afterwards"),
    "overhead once": (closure(f"{PLACES} + rest(j)").replace("rest(0)", "rest(0) + overhead"),
                      "overhead_once"),
    "no places in the cost": (closure("overhead + rest(j)"), "overhead_alone"),
    "the same number in each": (
        "def lowest_cost(lengths, budget, overhead):\n    a = sorted(lengths)\n"
        "    r = budget // a[-1]\n    b = [a[i:i + r] for i in range(0, len(a), r)]\n"
        "    return sum(len(x) * x[-1] + overhead for x in b)", "the_same_number_in_each_batch"),
    "merge while it is cheap": (
        GREEDY.format(order="sorted(lengths)").replace(
            "<= budget", "<= budget and rows * (length - width) <= overhead"),
        "merges_while_padding_is_cheap"),
    "merge while it is cheap, longest first": (
        GREEDY.format(order="sorted(lengths)[::-1]").replace(
            "<= budget", "<= budget and (rows == 0 or width - length <= overhead)"),
        "merges_while_padding_is_cheap_longest_first"),
    "at most two batches": (
        "def lowest_cost(lengths, budget, overhead):\n    a = sorted(lengths)\n"
        "    return min([i * a[i - 1] * (i > 0) + (len(a) - i) * a[-1] + overhead * (1 + (i > 0))"
        " for i in range(len(a))])", None),
    "greedy, or else one batch for each": (
        GREEDY.format(order="sorted(lengths)").replace(
            "return total", "return min(sum(a) + overhead * len(a), total").replace(
            "* width + overhead\n", "* width + overhead)\n").replace(
            "width + overhead)\n            rows", "width + overhead\n            rows"), None),
}  # fmt: skip


@pytest.mark.parametrize(("source", "misconception"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_not_solved_and_told_its_own_mistake(source, misconception):
    for seed in range(3):
        result = examine("10.4", as_function("10.4", source), seed=seed)
        assert result.outcome is Outcome.NOT_YET, str(result)
        assert result.misconception == misconception, str(result)


INFINITE = """
def lowest_cost(lengths, budget, overhead):
    a = sorted(lengths)
    best = [0] + [float("inf")] * len(a)
    for i in range(len(a)):
        for j in range(i, -1, -1):
            places = (i - j + 1) * a[i]
            if places {limit}:
                best[i + 1] = min(best[i + 1], best[j] + places + overhead)
    return best[-1]
"""


@pytest.mark.parametrize(
    ("limit", "misconception"),
    [
        ("<= budget - overhead", "overhead_within_the_budget_and_infinite"),
        ("<= budget and j < i", "no_batch_of_one"),
    ],
)
def test_an_infinite_cost_is_explained(limit, misconception):
    for seed in range(3):
        source = INFINITE.format(limit=limit)
        result = examine("10.4", as_function("10.4", source), seed=seed)
        assert result.misconception == misconception, str(result)
        assert "infinite" in result.message


SHAPES_OF_X = {
    "len(x_num) != batch or len(x_cat) != batch": "rows_of_x_counted_only",
    "x_num.shape[0] != batch or x_cat.shape[0] != batch": "rows_of_x_counted_only",
    "len(x_num) != batch or x_cat.shape != (batch, 1)": "rows_of_x_num_counted_only",
    "len(x_num) != batch": "rows_of_x_num_counted_and_x_cat_forgotten",
    "len(x_cat) != batch or x_num.shape != (batch, 1)": "rows_of_x_cat_counted_only",
    "x_num.dim() < 2 or x_cat.dim() < 2 or len(x_num) != batch or len(x_cat) != batch":
        "width_of_x_not_looked_at",
    "x_num.shape != (batch, 1)": "x_cat_of_any_shape",
    "x_cat.size() != (batch, 1)": "x_num_of_any_shape",
    "x_num.numel() != batch or x_cat.numel() != batch": "numbers_of_x_counted_only",
}  # fmt: skip


@pytest.mark.parametrize(("test", "misconception"), SHAPES_OF_X.items())
def test_a_check_that_lets_a_shape_of_x_pass_is_told_which(test, misconception):
    source = worked_answer("10.3")
    whole = "any(t.shape != (batch, 1) for t in of_patient)"
    assert whole in source
    for seed in range(3):
        answer = as_function("10.3", source.replace(whole, test))
        result = examine("10.3", answer, seed=seed)
        assert result.misconception == misconception, str(result)


NOISE = """
def loader_noise(seed, epoch, start, n_batches, n_workers):
    return [int(np.random.default_rng({list}).integers(1000)) for number in range({range})]
"""
OF_THE_NOISE = {
    "workers": ("[seed, epoch, n_workers, number]", "start, n_batches",
                "depends_on_the_number_of_workers"),
    "start": ("[seed, epoch, start, number]", "start, n_batches", "start_in_the_key"),
    "batches": ("[seed, epoch, n_batches, number]", "start, n_batches",
                "depends_on_the_number_of_batches"),
    "too many": ("[seed, epoch, number]", "start, start + n_batches", "n_batches_from_the_start"),
    "restarted": ("[seed, epoch, number - start]", "start, n_batches", "counts_from_the_start"),
}  # fmt: skip


@pytest.mark.parametrize(("noise", "numbers", "misconception"), OF_THE_NOISE.values(),
                         ids=OF_THE_NOISE)  # fmt: skip
def test_noise_that_depends_on_too_much_is_told_so(noise, numbers, misconception):
    source = "import numpy as np\n" + NOISE.format(list=noise, range=numbers)
    result = examine("10.2", as_function("10.2", source), seed=1)
    assert result.outcome is Outcome.NOT_YET
    assert result.misconception == misconception, str(result)
    assert re.search(r"start += 2\n.*n_batches += 6\n.*n_workers += 2\n", str(result))
