"""Exercise 11.10: machines that end a program, and answers that no misconception names."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest

from ehr_course.errors import InputError
from ehr_course.exercises import examine
from ehr_course.exercises.machine_to_fill import (
    MOST_STEPS,
    Machine,
    OutOfMemory,
    TooManySteps,
    largest_batch_of,
)
from ehr_course.exercises.result import Outcome

Peak = Callable[[int], int]


def machine(**changes: int) -> Machine:
    return Machine(**({"update": 40, "held": 30, "record": 4, "memory": 161} | changes))


# ---------------------------------------------------------------------- the machine


def test_the_peak_is_that_of_the_update_or_of_the_activations() -> None:
    assert [machine()(n) for n in (1, 2, 3, 32)] == [40, 40, 42, 158]


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    largest = largest_batch_of(machine())
    assert machine()(largest) <= 161
    with pytest.raises(OutOfMemory, match="33 records needs 162 bytes of 161"):
        machine()(largest + 1)


def test_after_the_end_no_step_runs() -> None:
    ended = machine()
    for n in (100, 1):
        with pytest.raises(OutOfMemory):
            ended(n)
    assert copy.deepcopy(ended)(1) == 40


def test_steps_are_counted() -> None:
    peak_of = machine()
    for _ in range(MOST_STEPS):
        peak_of(1)
    with pytest.raises(TooManySteps, match="this is step 13; 12 may be run"):
        peak_of(1)


@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_what_is_no_batch_is_refused(n: float) -> None:
    with pytest.raises(InputError, match="is not a batch size"):
        machine()(n)


# ---------------------------------------------------------------------- answers


def one_by_one(peak_of: Peak, memory: int) -> int:
    n = 1
    while peak_of(n + 1) <= memory:
        n += 1
    return n


def until_it_fails(peak_of: Peak, memory: int) -> int:
    n = 1
    try:
        while True:
            peak_of(2 * n)
            n *= 2
    except Exception:
        return n


def by_halves(peak_of: Peak, memory: int) -> int:
    low, high = 1, 4096
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peak_of(middle) <= memory else (low, middle)
    return low


def survives_everything(peak_of: Peak, memory: int) -> int:
    peaks, n = [peak_of(1)], 1
    try:
        while True:
            peaks.append(peak_of(2 * n))
            n *= 2
    except BaseException:
        each = (peaks[-1] - peaks[-2]) / (n - n // 2)
        return int(n + (memory - peaks[-1]) / each)


def line_through_two_and_four(peak_of: Peak, memory: int) -> int:
    two, four = peak_of(2), peak_of(4)
    return int(4 + (memory - four) / ((four - two) / 2)) if four > two else 4


def in_steps_of_proportion(peak_of: Peak, memory: int) -> int:
    n, peak = 1, peak_of(1)
    while n * memory // peak > n:
        n = n * memory // peak
        peak = peak_of(n)
    return n


def one_too_few(peak_of: Peak, memory: int) -> int:
    return doubles_and_divides(peak_of, memory) - 1


def doubles_and_divides(peak_of: Peak, memory: int) -> int:
    sizes = [(1, peak_of(1))]
    while sizes[-1][1] <= memory / 2:
        n = 2 * sizes[-1][0]
        sizes.append((n, peak_of(n)))
    (small, below), (large, above) = sizes[-2:]
    each = (above - below) / (large - small)
    return int((memory - above + large * each) / each)


def goes_near_and_looks_back(peak_of: Peak, memory: int) -> int:
    n, peak = 1, peak_of(1)
    for _ in range(4):
        n = n * memory // peak
        peak = peak_of(n)
    half = n - n // 3
    each = (peak - peak_of(half)) / (n - half)
    return int(n + (memory - peak) / each)


def looks_whether_it_fits(peak_of: Peak, memory: int) -> int:
    found = doubles_and_divides(peak_of, memory)
    peak_of(found)
    return found


@pytest.mark.parametrize(
    "answer",
    [
        one_by_one,
        until_it_fails,
        by_halves,
        survives_everything,
        one_too_few,
    ],
)
def test_a_wrong_answer_does_not_pass(answer: Callable[[Peak, int], int]) -> None:
    for seed in range(3):
        result = examine("11.10", answer, seed=seed)
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR), str(result)
        assert result.misconception in (None, "changes_input")


@pytest.mark.parametrize(
    ("answer", "said"), [(one_by_one, "TooManySteps"), (by_halves, "OutOfMemory")]
)
def test_what_ended_the_program_is_said(answer: Callable[[Peak, int], int], said: str) -> None:
    result = examine("11.10", answer, seed=0)
    assert "raised an exception" not in result.message
    details = dict(result.details)
    assert said in details["raised"] and "besides" not in details


def line(first: int, second: int, flat: int | None) -> Callable[[Peak, int], int]:
    def answer(peak_of: Peak, memory: int) -> int:
        one, other = peak_of(first), peak_of(second)
        each = (other - one) / (second - first)
        if flat is not None and not each:
            return flat
        return int(second + (memory - other) / each)

    return answer


def line_or_in_proportion(first: int, second: int) -> Callable[[Peak, int], int]:
    def answer(peak_of: Peak, memory: int) -> int:
        one, other = peak_of(first), peak_of(second)
        if one == other:
            return (1 if second == 2 else second) * memory // other
        return second + int((memory - other) / ((other - one) / (second - first)))

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (line(1, 2, None), "one and two records"),
        (line(1, 2, 1), "one and two records"),
        (line(1, 2, 2), "one and two records"),
        (line_through_two_and_four, "two and four records"),
        (line(2, 4, None), "two and four records"),
        (line(1, 4, None), "one and four records"),
        (line(1, 4, 4), "one and four records"),
        (line(3, 4, None), "three and four records"),
        (line(3, 4, 4), "three and four records"),
        (line_or_in_proportion(1, 2), "one and two records"),
        (line_or_in_proportion(1, 4), "one and four records"),
    ],
)
def test_a_line_through_small_batches_is_named(
    answer: Callable[[Peak, int], int], said: str
) -> None:
    for seed in range(4):
        assert said in examine("11.10", answer, seed=seed).message


def as_often_as_it_goes_in(peak_of: Peak, memory: int) -> int:
    n, peak = 1, peak_of(1)
    while memory // peak >= 2:
        n = n * (memory // peak)
        peak = peak_of(n)
    return n


def rounds_pairs(peak_of: Peak, memory: int) -> int:
    two, four = peak_of(2), peak_of(4)
    return 4 + (memory - four) // (four - two) * 2


def rounds_early(peak_of: Peak, memory: int) -> int:
    sizes = [(1, peak_of(1))]
    while sizes[-1][1] <= memory / 2:
        n = 2 * sizes[-1][0]
        sizes.append((n, peak_of(n)))
    (small, below), (large, above) = sizes[-2:]
    return large + (memory - above) // (above - below) * (large - small)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (in_steps_of_proportion, "no longer gives a larger batch"),
        (as_often_as_it_goes_in, "no longer goes into the memory twice"),
        (rounds_early, "multiplied afterwards"),
        (rounds_pairs, "an odd record that fits is lost"),
    ],
)
def test_what_stops_or_rounds_too_early_is_named(
    answer: Callable[[Peak, int], int], said: str
) -> None:
    for seed in range(4):
        result = examine("11.10", answer, seed=seed)
        assert result.outcome is Outcome.NOT_YET and said in result.message, result.message


def while_it_fits(peak_of: Peak, memory: int) -> int:
    n = 4
    while peak_of(2 * n) <= memory:
        n *= 2
    return n


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (by_halves, r"^You began with a batch of \d+, before you had measured any other"),
        (while_it_fits, r"^You ran a batch of \d+ after one of \d+, which took [\d,]+ of [\d,]+"),
        (one_by_one, r"^You counted up one by one: 12 steps, and 13 records"),
    ],
)
def test_what_led_to_the_end_is_said(answer: Callable[[Peak, int], int], said: str) -> None:
    for seed in range(4):
        assert re.search(said, examine("11.10", answer, seed=seed).message)


def test_two_linear_layers_in_an_attention_are_named() -> None:
    def count(vocab: int, d: int, encoder: int, decoder: int, heads: int, f: int, p: int) -> int:
        attention, norm, ffn = 2 * (d * d + d), 2 * d, 2 * d * f + f + d
        layers = encoder * (attention + ffn + 2 * norm) + decoder * (
            2 * attention + ffn + 3 * norm
        )
        return vocab * d + 2 * ((p + 2) * d + norm) + layers

    assert examine("11.9", count, seed=0).misconception == "two_projections"


def test_the_largest_batch_stands_beside_the_machine() -> None:
    result = examine("11.10", lambda peak_of, memory: 4, seed=0)
    assert "16 records fit, 17 do not" in " ".join(str(result).split())


# ---------------------------------------------------------------------- 11.8, another record


def exchanged_by(order: Callable[[int], list[int]], *names: str) -> Callable[..., dict]:
    return lambda batch: {
        name: value[order(len(value))] if name in names else value for name, value in batch.items()
    }


def before(n: int) -> list[int]:
    return [n - 1, *range(n - 1)]


READ = ("input_ids", "attention_mask")


def test_an_exchange_by_index_passes() -> None:
    assert examine("11.8", exchanged_by(before, *READ), seed=0).outcome is Outcome.SOLVED


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (exchanged_by(before, "input_ids"), "forgets_the_mask"),
        (exchanged_by(before, *READ, "labels"), "exchanges_the_labels_too"),
        (exchanged_by(before, *READ, "x_num", "x_cat"), "age_and_sex_go_along"),
        (exchanged_by(lambda n: [*range(n)], *READ), "nothing_exchanged"),
        (exchanged_by(lambda n: [*range(1, n), 0], *READ), "the_other_way"),
        (exchanged_by(lambda n: [*range(n)][::-1], *READ), "turns_the_rows_around"),
        (exchanged_by(before, "attention_mask"), None),
        (exchanged_by(before, *READ, "x_num"), None),
    ],
)
def test_a_wrong_exchange_is_named(answer: Callable[..., dict], misconception: str | None) -> None:
    for seed in range(3):
        result = examine("11.8", answer, seed=seed)
        assert result.outcome is Outcome.NOT_YET
        assert result.misconception == misconception


def test_an_exchange_in_place_is_refused() -> None:
    def in_place(batch: dict) -> dict:
        for name in READ:
            batch[name] = batch[name].roll(1, dims=0)
        return batch

    result = examine("11.8", in_place, seed=0)
    assert result.outcome is Outcome.NOT_YET and "changed its input" in str(result)


@pytest.mark.parametrize(
    "answer", [doubles_and_divides, goes_near_and_looks_back, looks_whether_it_fits]
)
def test_a_right_answer_passes(answer: Callable[[Peak, int], int]) -> None:
    for seed in range(5):
        result = examine("11.10", answer, seed=seed)
        assert result.outcome is Outcome.SOLVED, str(result)
