"""Say what is wrong with an answer: a known idea, two at once, or what its value shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ehr_course.exercises.compare import alike, shorten
from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.learner_code import SECONDS_A_CALL, Call, call, call_own
from ehr_course.exercises.loop_to_try import Run
from ehr_course.exercises.worked_answers import ChangeError

NEAR = 1e-4
"""The tolerance of what can be seen: coarser than that of a check."""

PAIR_SECONDS = 0.5
"""How long two mistakes at once are looked for, in processor time."""

PAIR_CALL_SECONDS = 0.5
"""How long one call of an answer with two changes may take: together they may never end."""

RANKING_INPUTS = 6
"""On how many failing inputs at most single ideas are compared, to find the likeliest pairs."""


NamedChange = tuple[str, Mapping[str, str]]
"""A change of the worked answer, with the name of its misconception."""


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
        if any(fits(exercise.changed_answer(change)) for change in misconception.changes):
            return Diagnosis((name,), misconception.diagnosis, failing[0])
    if isinstance(probes[0][0], Run):
        return _of_one_run(exercise, probes, calls, failing[0])
    if threading.current_thread() is not threading.main_thread():
        return None  # nothing could stop a pair that does not end
    began = time.process_time()
    for pair, function in _pairs_of_changes(exercise, probes, calls, failing[:RANKING_INPUTS]):
        if time.process_time() - began > PAIR_SECONDS:
            return None
        if fits(function, PAIR_CALL_SECONDS):
            names = pair[0][0], pair[1][0]
            first, second = (exercise.misconceptions[name].diagnosis for name in names)
            text = f"Two mistakes at once. First: {first} Second: {second}"
            alone = [exercise.changed_answer(change) for _, change in pair]
            return Diagnosis(names, text, _where_both_act(exercise, alone, probes, calls, failing))
    return None


def _of_one_run(
    exercise: Exercise, probes: Sequence[Arguments], calls: Sequence[Call], shown: int
) -> Diagnosis | None:
    """Of the misconceptions that explain one run, the one that explains most of the others, too.

    Each run asks for something else, so several mistakes of a training loop seldom meet in one.
    """
    found: list[tuple[int, str]] = []
    for name, misconception in exercise.misconceptions.items():
        for function in map(exercise.changed_answer, misconception.changes):
            if same(call_own(function, probes[shown]), calls[shown], exercise.tolerance):
                made = [call_own(function, probe) for probe in probes]
                pairs = zip(made, calls, strict=True)
                agrees = sum(same(one, other, exercise.tolerance) for one, other in pairs)
                found.append((agrees, name))
    if not found or calls[shown].error is not None:
        return None
    _, name = max(found, key=lambda one: one[0])
    text = (
        f"There is more than one thing to mend. First: {exercise.misconceptions[name].diagnosis}"
    )
    return Diagnosis((name,), text, shown)


def same(left: Call, right: Call, tolerance: float) -> bool:
    """Say whether two calls did the same: like values, or the same kind of exception."""
    if left.error is not None or right.error is not None:
        return type(left.error) is type(right.error)
    return alike(left.value, right.value, tolerance)


def _where_both_act(
    exercise: Exercise,
    alone: Sequence[Callable[..., Any]],
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    failing: Sequence[int],
) -> int:
    """The smallest failing input on which neither mistake alone does what the answer did."""
    for i in failing[:RANKING_INPUTS]:
        made = (call_own(one, probes[i], seconds=PAIR_CALL_SECONDS) for one in alone)
        if not any(same(of_one, calls[i], exercise.tolerance) for of_one in made):
            return i
    return failing[0]


def _pairs_of_changes(
    exercise: Exercise,
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    inputs: Sequence[int],
) -> Iterator[tuple[tuple[NamedChange, NamedChange], Callable[..., Any]]]:
    """Every pair of changes that can be made together, the likeliest first.

    An answer with two mistakes does what each of them does where the other has no effect: so
    those come first that agree with it on the most inputs.
    """
    changes = [
        (name, change)
        for name, misconception in exercise.misconceptions.items()
        for change in misconception.changes
    ]
    functions = [exercise.changed_answer(change) for _, change in changes]
    agrees = [0] * len(changes)
    began = time.process_time()
    for i in inputs:
        if time.process_time() - began > PAIR_SECONDS / 4:
            break
        for place, function in enumerate(functions):
            made = call_own(function, probes[i], seconds=PAIR_CALL_SECONDS)
            agrees[place] += same(made, calls[i], exercise.tolerance)
    places = combinations(range(len(changes)), 2)
    for i, j in sorted(places, key=lambda pair: -agrees[pair[0]] - agrees[pair[1]]):
        first, second = changes[i], changes[j]
        if first[0] == second[0]:
            continue
        for one, other in ((first, second), (second, first)):
            try:
                function = exercise.changed_answer(one[1], other[1])
            except (ChangeError, SyntaxError):
                continue
            yield (first, second), function
            break


# ---------------------------------------------------------------------- what can be seen


@dataclass(frozen=True)
class Pair:
    """An expected part of a value, and the answer's part at the same place, as tensors."""

    place: str
    expected: Tensor
    actual: Tensor

    @property
    def name(self) -> str:
        """The part in words."""
        return f"your result{self.place}"


def visible(
    exercise: Exercise,
    answer: Callable[..., Any],
    probe: Arguments,
    expected: Call,
    made: Call,
    all_expected: Sequence[Call],
) -> str | None:
    """Return a sentence on what is plainly wrong with a value, or None.

    Args:
        exercise: whose answer it is.
        answer: the learner's function: it may be called once more, with other padding.
        probe: the input.
        expected: what the right answer does with it.
        made: what the learner's did.
        all_expected: what the right answer does with all inputs of the check. Only where each of
            them is a distribution is it no accident that one is.
    """
    if expected.error is not None or made.error is not None:
        return None
    try:
        pairs = list(_pairs(expected.value, made.value))
        for look in (_not_finite, _without_gradient):
            for pair in pairs:
                if (seen := look(pair)) is not None:
                    return seen
        for pair in pairs:
            seen = _rows_without_sum_one(pair)
            if seen is not None and _always_a_distribution(pair.place, all_expected):
                return seen
        if (seen := _uses_padding(exercise, answer, probe, made)) is not None:
            return seen
        for look in (_in_another_shape, _in_another_order, _zero_everywhere, _off_by_a_constant):
            for pair in pairs:
                if (seen := look(pair)) is not None:
                    return seen
        return (
            _of_lists(expected.value, made.value)
            or _unknown_key(exercise, probe, expected, made)
            or _names_missing_or_besides(expected.value, made.value)
        )
    except Exception:
        return None  # an answer's value may be anything, and the comparison must go on


def visible_in_all(expected: Sequence[Call], calls: Sequence[Call]) -> str | None:
    """Return a sentence on answers of one number each that are all off by the same factor or sum.

    Args:
        expected: what the right answer does with each input.
        calls: what the learner's did.
    """
    values = [(right.value, made.value) for right, made in zip(expected, calls, strict=True)]
    if not all(_is_number(right) and _is_number(made) for right, made in values):
        return None
    try:
        wanted, given = torch.tensor(values, dtype=torch.float64).T
    except OverflowError:  # a whole number may be larger than any float
        return None
    seen = _off_by_a_constant(Pair("", wanted, given))
    return seen and seen.replace("Each value of your result", "On every input, your value")


def _is_number(value: Any) -> bool:
    if type(value) in (Tensor, np.ndarray) and value.ndim == 0:
        value = value.item()
    return isinstance(value, Number) and not isinstance(value, bool | complex)


def _pairs(expected: Any, actual: Any, place: str = "") -> Iterator[Pair]:
    if isinstance(expected, Tensor | np.ndarray):
        if isinstance(actual, Tensor | np.ndarray):
            yield Pair(place, torch.as_tensor(expected), torch.as_tensor(actual))
    elif isinstance(expected, float):
        if isinstance(actual, Number) or (isinstance(actual, Tensor) and actual.ndim == 0):
            yield Pair(place, torch.tensor(expected), torch.as_tensor(actual))
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in expected.keys() & actual.keys():
            yield from _pairs(expected[key], actual[key], f"{place}[{key!r}]")
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if _are_floats(expected) and _are_floats(actual):
            yield Pair(place, torch.tensor(expected), torch.tensor(actual))
        elif len(expected) == len(actual):
            for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
                yield from _pairs(left, right, f"{place}[{index}]")


def _are_floats(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(
        isinstance(value, Number) and not isinstance(value, bool | complex) for value in values
    )


def _same_shape(pair: Pair) -> bool:
    return pair.expected.shape == pair.actual.shape


def _near(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and bool(
        torch.isclose(left.double(), right.double(), rtol=NEAR, atol=NEAR, equal_nan=True).all()
    )


def _telling(values: Tensor) -> bool:
    """Whether values are different enough that equal ones cannot be an accident."""
    return values.is_floating_point() and values.unique().numel() > 2


def _not_finite(pair: Pair) -> str | None:
    if not _same_shape(pair) or not pair.actual.is_floating_point():
        return None
    bad = pair.expected.isfinite() & ~pair.actual.isfinite()
    if not bad.any():
        return None
    index = bad.nonzero()[0].tolist()
    where = pair.place + "".join(f"[{i}]" for i in index)
    value = float(pair.actual[tuple(index)])
    kind = "nan" if value != value else "infinite"
    at = f" at {where}" if where else ""
    cause = (
        "It comes from 0 / 0, from infinity minus infinity, or from an earlier nan."
        if kind == "nan"
        else "It comes from a division by 0, a logarithm of 0, or a number too large for its type."
    )
    return f"Your value is {kind}{at}, where an ordinary number is expected. {cause}"


def _without_gradient(pair: Pair) -> str | None:
    if not pair.expected.requires_grad or pair.actual.requires_grad:
        return None
    return (
        f"No gradient can flow through {pair.name}. detach, item, no_grad, argmax and "
        "torch.tensor(...) cut a value off from what it was computed from."
    )


def _rows_without_sum_one(pair: Pair) -> str | None:
    if not _same_shape(pair) or not _is_distribution(pair.expected):
        return None
    found = _sums(pair.actual, -1)
    if _are_one(found).all():
        return None
    index = (~_are_one(found)).nonzero()[0].tolist()
    row = "".join(f"[{i}]" for i in index)
    total = float(found[tuple(index)])
    text = (
        f"Each row of {pair.name} is to be a distribution, and row {row} sums to {total:.4g}, not "
        "to 1."
        if row
        else f"The values of {pair.name} are to sum to 1, and they sum to {total:.4g}."
    )
    dims = range(pair.actual.ndim - 1)
    if any(_are_one(_sums(pair.actual, dim)).all() for dim in dims):
        text += " The sums over another dimension are 1."
    return text


def _is_distribution(values: Tensor) -> bool:
    """Whether the last dimension holds probabilities that sum to 1."""
    if not values.is_floating_point() or values.ndim == 0 or bool((values < -NEAR).any()):
        return False
    return bool(_are_one(_sums(values, -1)).all())


def _always_a_distribution(place: str, expected: Sequence[Call]) -> bool:
    parts = [
        pair.expected
        for call_ in expected
        for pair in _pairs(call_.value, call_.value)
        if pair.place == place
    ]
    return len(parts) > 5 and all(map(_is_distribution, parts))


def _sums(values: Tensor, dim: int) -> Tensor:
    return values.detach().double().sum(dim)


def _are_one(totals: Tensor) -> Tensor:
    return (totals - 1).abs() < 1e-3


def _uses_padding(
    exercise: Exercise, answer: Callable[..., Any], probe: Arguments, made: Call
) -> str | None:
    """Change what a mask hides: if the right answer does not care and this one does, say so."""
    named = dict(zip(exercise.parameters, range(len(probe)), strict=True))
    for mask_name, mask_index in named.items():
        mask = _as_mask(mask_name, probe[mask_index])
        if mask is None:
            continue
        for name, index in named.items():
            values = probe[index]
            if (
                not isinstance(values, Tensor)
                or not values.is_floating_point()
                or values.ndim != 3
                or values.shape[:2] != mask.shape
            ):
                continue
            other = values.clone()
            other[~mask] += 0.75
            changed = (*probe[:index], other, *probe[index + 1 :])
            right, right_changed = (
                call_own(exercise.worked_answer, probe),
                call_own(exercise.worked_answer, changed),
            )
            again = call(answer, changed, seconds=SECONDS_A_CALL)
            if (
                right_changed.error is None
                and alike(right.value, right_changed.value, exercise.tolerance)
                and again.error is None
                and not alike(made.value, again.value, exercise.tolerance)
            ):
                row, place = (~mask).nonzero()[0].tolist()
                return (
                    f"Your value depends on padding: another number at {name}[{row}][{place}], "
                    f"which {mask_name} says is padding, changes it."
                )
    return None


def _as_mask(name: str, value: Any) -> Tensor | None:
    """A mask (batch, length), True on what is real, if an argument is one that hides something."""
    if not isinstance(value, Tensor) or value.ndim != 2:
        return None
    if not (name.endswith("mask") or name in ("real", "scored")):
        return None
    if value.dtype != torch.bool and not bool(((value == 0) | (value == 1)).all()):
        return None
    real = value.bool()
    return real if bool(real.any()) and not bool(real.all()) else None


def _in_another_shape(pair: Pair) -> str | None:
    left, right = pair.expected, pair.actual
    if _same_shape(pair) or left.numel() != right.numel() or not _telling(left):
        return None
    shapes = f"expected shape {tuple(left.shape)}, got {tuple(right.shape)}"
    if left.ndim == right.ndim == 2 and _near(left.T, right):
        return f"The values of {pair.name} are right, with its two dimensions exchanged: {shapes}."
    if _near(left.flatten(), right.flatten()):
        return f"The values of {pair.name} are right, in another shape: {shapes}."
    return None


def _in_another_order(pair: Pair) -> str | None:
    left, right = pair.expected, pair.actual
    if not _same_shape(pair) or not _telling(left) or _near(left, right):
        return None
    if not _near(left.flatten().sort().values, right.detach().flatten().sort().values):
        return None
    if _near(left.flip(0), right):
        return f"The values of {pair.name} are right, in reverse order."
    if left.ndim == 2 and _near(left.T, right):
        return f"The values of {pair.name} are right, with its rows and columns exchanged."
    return f"The values of {pair.name} are the right ones, in another order."


def _zero_everywhere(pair: Pair) -> str | None:
    if not _same_shape(pair) or pair.expected.numel() < 2 or pair.actual.any():
        return None
    return f"The values of {pair.name} are all 0." if bool(pair.expected.any()) else None


def _off_by_a_constant(pair: Pair) -> str | None:
    left, right = pair.expected.detach().double(), pair.actual.detach().double()
    if not _same_shape(pair) or not _telling(pair.expected) or not left.isfinite().all():
        return None
    if _near(left, right):
        return None
    nonzero = left.abs() > NEAR
    ratio = (right[nonzero] / left[nonzero])[:1]
    if nonzero.sum() > 2 and _near(left * ratio, right):
        if _near(ratio, -torch.ones(1)):
            return f"Each value of {pair.name} has the opposite sign."
        return f"Each value of {pair.name} is {float(ratio):.4g} times the right one."
    shift = (right - left).flatten()[:1]
    if _near(left + shift, right):
        side = "above" if float(shift) > 0 else "below"
        return f"Each value of {pair.name} is {abs(float(shift)):.4g} {side} the right one."
    return None


def _of_lists(expected: Any, actual: Any) -> str | None:
    """Lists of whole numbers or of text: the right items in another order."""
    if not isinstance(expected, list | tuple) or not isinstance(actual, list | tuple):
        return None
    left, right = list(expected), list(actual)
    if len(left) < 3 or left == right or len(left) != len(right):
        return None
    if left[::-1] == right:
        return "The items of your result are right, in reverse order."
    if sorted(map(repr, left)) == sorted(map(repr, right)):
        return "The items of your result are the right ones, in another order."
    return None


def _unknown_key(exercise: Exercise, probe: Arguments, expected: Call, made: Call) -> str | None:
    """An item that no table knows: a piece that is not in the vocabulary, for example."""
    wanted, given = set(_texts(expected.value)), list(_texts(made.value))
    for name, table in zip(exercise.parameters, probe, strict=True):
        if not isinstance(table, Mapping | list) or not wanted or not wanted <= _keys(table):
            continue
        unknown = [text for text in given if text not in _keys(table)]
        if unknown:
            return f"{shorten(unknown[0], 40)} is in your result, and {name} does not have it."
    return None


def _names_missing_or_besides(expected: Any, actual: Any) -> str | None:
    """A list of names, some of which are missing, or which has some besides."""
    if not isinstance(expected, list) or not isinstance(actual, list):
        return None
    if not all(isinstance(item, str) for item in [*expected, *actual]):
        return None
    missing, besides = set(expected) - set(actual), set(actual) - set(expected)
    if missing and not besides:
        return f"Your result lacks {', '.join(map(shorten, sorted(missing)))}."
    if besides and not missing:
        return f"Your result has {', '.join(map(shorten, sorted(besides)))} besides."
    return None


def _keys(table: Mapping[Any, Any] | list[Any]) -> set[str]:
    return {key for key in table if isinstance(key, str)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
