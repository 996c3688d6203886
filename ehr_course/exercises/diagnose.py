"""Name the wrong idea behind an answer that fails, or the two of them that act at once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ehr_course.exercises.compare import alike
from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.learner_code import Call, call_own
from ehr_course.exercises.worked_answers import ChangeError

PAIR_SECONDS = 0.5
"""How long two mistakes at once are looked for, in processor time."""

PAIR_CALL_SECONDS = 0.5
"""How long one call of an answer with two changes may take: together they may never end."""

RANKING_INPUTS = 6
"""On how many failing inputs at most single ideas are compared, to find the likeliest pairs."""


@dataclass(frozen=True)
class Diagnosis:
    """The wrong ideas that were recognised.

    Attributes:
        names: one or two names of misconceptions.
        text: what to tell the learner.
        shown: the index of the input that shows it best: of two ideas, one on which both act.
    """

    names: tuple[str, ...]
    text: str
    shown: int


def diagnose(
    exercise: Exercise,
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    failing: Sequence[int],
) -> Diagnosis | None:
    """Find the misconception, or the pair, that does what an answer did on every input.

    So a diagnosis is shown only where it describes what the learner's code really did.

    Args:
        exercise: whose answer it is.
        probes: the inputs.
        calls: what the answer did on each of them.
        failing: the indices of the inputs on which it is wrong, the smallest input first.

    Returns:
        None where nothing fits, and for an answer that raises on every input: that says nothing
        about the idea behind it.
    """
    if all(made.error is not None for made in calls):
        return None
    others = set(range(len(probes))) - set(failing)
    order = [
        *failing,
        *sorted(others),
    ]  # a wrong guess shows itself soonest where the answer fails

    def fits(function: Callable[..., Any], seconds: float | None = None) -> bool:
        return all(
            same(call_own(function, probes[i], seconds=seconds), calls[i], exercise.tolerance)
            for i in order
        )

    for name, misconception in exercise.misconceptions.items():
        if fits(exercise.changed_answer(misconception.change)):
            return Diagnosis((name,), misconception.diagnosis, failing[0])
    if threading.current_thread() is not threading.main_thread():
        return None  # nothing could stop a pair that does not end
    began = time.process_time()
    for names, function in _pairs(exercise, probes, calls, failing[:RANKING_INPUTS]):
        if time.process_time() - began > PAIR_SECONDS:
            return None
        if fits(function, PAIR_CALL_SECONDS):
            first, second = (exercise.misconceptions[name].diagnosis for name in names)
            text = f"Two mistakes at once. First: {first} Second: {second}"
            return Diagnosis(names, text, _where_both_act(exercise, names, probes, calls, failing))
    return None


def same(left: Call, right: Call, tolerance: float) -> bool:
    """Say whether two calls did the same: like values, or the same kind of exception."""
    if left.error is not None or right.error is not None:
        return type(left.error) is type(right.error)
    return alike(left.value, right.value, tolerance)


def _where_both_act(
    exercise: Exercise,
    names: Sequence[str],
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    failing: Sequence[int],
) -> int:
    """The smallest failing input on which neither mistake alone does what the answer did."""
    alone = [exercise.changed_answer(exercise.misconceptions[name].change) for name in names]
    for i in failing[:RANKING_INPUTS]:
        made = (call_own(one, probes[i], seconds=PAIR_CALL_SECONDS) for one in alone)
        if not any(same(of_one, calls[i], exercise.tolerance) for of_one in made):
            return i
    return failing[0]


def _pairs(
    exercise: Exercise,
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    inputs: Sequence[int],
) -> Iterator[tuple[tuple[str, str], Callable[..., Any]]]:
    """Every pair of changes that can be made together, the likeliest first.

    An answer with two mistakes does what each of them does where the other has no effect: so
    those come first that agree with it on the most inputs.
    """

    changes = {name: found.change for name, found in exercise.misconceptions.items()}
    functions = {name: exercise.changed_answer(change) for name, change in changes.items()}
    agrees: Counter[str] = Counter()
    began = time.process_time()
    for i in inputs:
        if time.process_time() - began > PAIR_SECONDS / 4:
            break
        for name, function in functions.items():
            made = call_own(function, probes[i], seconds=PAIR_CALL_SECONDS)
            agrees[name] += same(made, calls[i], exercise.tolerance)
    pairs = sorted(combinations(changes, 2), key=lambda pair: -sum(agrees[name] for name in pair))
    for first, second in pairs:
        for one, other in ((first, second), (second, first)):
            try:
                function = exercise.changed_answer(changes[one], changes[other])
            except (ChangeError, SyntaxError):
                continue
            yield (first, second), function
            break
