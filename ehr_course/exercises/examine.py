"""Examine an answer: try it, compare it, and name the wrong idea where there is a known one.

Nothing here displays, records or raises; `check` does that with the result.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.checklist import Checklist, Form
from ehr_course.exercises.compare import (
    Difference,
    cut,
    first_difference,
    kind_of,
    shorten,
    shorten_both,
    text_of,
)
from ehr_course.exercises.diagnose import diagnose, same, visible, visible_in_all
from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.learner_code import (
    SECONDS_A_CALL,
    Call,
    DistantAnswer,
    NotFinishedError,
    call,
    call_own,
    is_untouched_stub,
    names_used,
    own_line,
)
from ehr_course.exercises.module_to_try import is_module_class
from ehr_course.exercises.result import Outcome, Result

INPUTS_LOOKED_AT = 8
"""On how many of the failing inputs something visible is looked for."""


ARRAY_FOR_TENSOR = (
    "You returned a NumPy array where the task asks for a tensor. The code around it works with "
    "tensors, and torch.from_numpy makes one of your array."
)
TENSOR_FOR_ARRAY = (
    "You returned a tensor where the task asks for a NumPy array. Its numpy() method makes one."
)
NARROW_NUMBERS = (
    "You returned whole numbers of a narrow type, such as uint8. An embedding takes int32 and "
    "int64 only, and as an index uint8 is read as a mask. The tensor's long() method makes int64."
)
ARRAY_FOR_LIST = (
    "You returned an array or a tensor where the task asks for a list. Its tolist() method makes "
    "one, of Python's own numbers."
)
EXTREME = (
    "On extreme inputs, which no model should produce, your function gives another value than the "
    "definition does. One of them is shown below."
)


@dataclass(frozen=True)
class Trial:
    """An answer and what it did.

    Attributes:
        exercise: whose answer it is.
        answer: the learner's function.
        seed: makes the random inputs.
        probes: the inputs.
        sizes: how many characters each takes in a message.
        expected: what the right answer does with each.
        calls: what the learner's did.
    """

    exercise: Exercise
    answer: Callable[..., Any]
    seed: int
    probes: Sequence[Arguments]
    sizes: Sequence[int]
    expected: Sequence[Call]
    calls: Sequence[Call]

    def result(self, outcome: Outcome, message: str, **more: Any) -> Result:
        """Make a result with the call that tries the same inputs again."""
        name = getattr(self.answer, "__name__", "")
        name = name if name.isidentifier() else "your_function"
        exercise = self.exercise
        repeat = f'check("{exercise.id}", {name}, seed={self.seed})'
        return Result(exercise.id, exercise.title, outcome, message, repeat=repeat, **more)

    def failing(self) -> list[int]:
        """The indices of the inputs on which the answer is wrong, the smallest input first."""
        indices = [i for i in range(len(self.probes)) if self.difference(i) is not None]
        return sorted(indices, key=self.sizes.__getitem__)

    def difference(self, index: int) -> Difference | None:
        """How what the answer did differs from what the right one does with one input."""
        expected, made = self.expected[index], self.calls[index]
        if expected.error is not None:
            wanted = type(expected.error)
            if isinstance(made.error, wanted):
                return None
            text = f"expected {wanted.__name__}, got {shorten(made.value)}"
            return Difference("value", "", text)
        if made.error is not None:
            return Difference("value", "", f"raised {type(made.error).__name__}")
        return _first_difference(expected.value, made.value, self.exercise.tolerance)

    def details(self, index: int) -> tuple[tuple[str, str], ...]:
        """One input, what is expected of it, and what the answer did, as labelled lines."""
        expected, made = self.expected[index], self.calls[index]
        if expected.error is not None:
            wanted, got = f"an exception: {type(expected.error).__name__}", shorten(made.value)
        elif made.error is not None:
            is_module = is_module_class(self.exercise.worked_answer)
            wanted = shorten(expected.value["output"] if is_module else expected.value)
            got = ""
        else:
            wanted, got = shorten_both(expected.value, made.value, self.exercise.tolerance)
        details = [("input", _arguments(self.exercise, self.probes[index])), ("expected", wanted)]
        if made.error is not None:
            details.append(("raised", _exception(made.error)))
            details.append(("your line", own_line(self.answer, made.error)))
        else:
            details.append(("got", got))
        if made.changed_input and not isinstance(made.error, SystemExit):
            details.append(("besides", "your function changed its input"))
        return (*details, *_printed(made))


@lru_cache(maxsize=256)
def _inputs(exercise_id: str, seed: int) -> tuple[list[Arguments], list[int], list[Call]]:
    """The inputs of a check, their sizes, and what is expected: the same for every answer."""
    exercise = find_exercise(exercise_id)
    assert isinstance(exercise, Exercise)  # a form has no inputs
    return _with_expected(exercise, exercise.probes(seed))


def _with_expected(
    exercise: Exercise, probes: Sequence[Arguments]
) -> tuple[list[Arguments], list[int], list[Call]]:
    expected = [call_own(exercise.worked_answer, probe) for probe in probes]
    return list(probes), [len(repr(probe)) for probe in probes], expected


def prepare(exercise_id: str, seed: int) -> None:
    """Make the inputs of a check and what is expected of them, so that later checks have them.

    A grader does it once for many answers. A form has no inputs.
    """
    if not isinstance(find_exercise(exercise_id), Checklist):
        _inputs(exercise_id, seed)


def examine(
    exercise_id: str, answer: Callable[..., Any] | Form, *, seed: int | None = None
) -> Result:
    """Try an answer on chosen and on fresh random inputs, or read a form.

    Args:
        exercise_id: lesson and number ("07.1").
        answer: the learner's function itself, not the value of a call; for a checklist the form.
        seed: makes the random inputs; a random one when None, so that no answer can be fitted to
            them. The message of a failure names it.

    Returns:
        The result, with one of five outcomes.

    Raises:
        ValueError: if there is no such exercise.
        InputError: if a teacher's own misconceptions cannot be read.
    """
    exercise = find_exercise(exercise_id)
    if isinstance(exercise, Checklist):
        return exercise.examine(answer)
    if seed is None:
        fixed = os.environ.get("EHR_COURSE_PROBE_SEED")
        seed = int(fixed) if fixed else secrets.randbelow(100_000)
    if not callable(answer):
        return _not_a_function(exercise, answer)
    if is_module_class(exercise.worked_answer) and not (
        is_module_class(answer) or isinstance(answer, DistantAnswer)
    ):
        return _not_a_function(exercise, answer, "class")
    probes, sizes, expected = _inputs(exercise_id, seed)
    calls: list[Call] = []
    for probe in probes:
        calls.append(call(answer, probe, seconds=SECONDS_A_CALL))
        if isinstance(calls[-1].error, NotFinishedError):
            return _judge_unfinished(Trial(exercise, answer, seed, probes, sizes, expected, calls))
    if is_untouched_stub(answer, calls[0].error):
        return Result(
            exercise.id,
            exercise.title,
            Outcome.NOT_ATTEMPTED,
            f'Replace the line that raises NotImplementedError. hint("{exercise.id}") helps.',
        )
    return _judge(Trial(exercise, answer, seed, probes, sizes, expected, calls))


def _judge_unfinished(trial: Trial) -> Result:
    """Judge the calls before the one that was stopped; where they are right, name the stop."""
    *finished, stopped = trial.calls
    count = len(finished)
    if finished:
        result = _judge(
            replace(
                trial,
                probes=trial.probes[:count],
                sizes=trial.sizes[:count],
                expected=trial.expected[:count],
                calls=finished,
            )
        )
        if not result.outcome.is_solved and result.misconception != "changes_input":
            return result
    details = [("input", _arguments(trial.exercise, trial.probes[count]))]
    assert stopped.error is not None
    details.append(("stopped at", own_line(trial.answer, stopped.error)))
    return trial.result(
        Outcome.NOT_YET,
        f"Your function was stopped: {stopped.error}. Either "
        "a loop never ends, or the number of steps grows too fast with the length of the input.",
        details=(*details, *_printed(stopped)),
        misconception="takes_too_long",
    )


def _judge(trial: Trial) -> Result:
    failing = trial.failing()
    if not failing:
        return _right(trial, ())
    smallest = failing[0]
    made = trial.calls[smallest]
    known = diagnose(trial.exercise, trial.probes, trial.calls, failing)
    if known is None or len(known.names) > 1:  # two mistakes may undo one another
        converted, remarks = _in_expected_containers(trial)
        if remarks and not converted.failing():
            return _right(converted, remarks)
        if known is None and _remembers(trial):
            return _remembering(trial, smallest)
    shown = smallest
    if known is not None:
        message, shown = known.text, known.shown
        made = trial.calls[shown]
    elif made.error is not None:
        message = getattr(made.error, "reason", "") or "Your function raised an exception."
    else:
        message, shown = _describe(trial, failing)
    return trial.result(
        Outcome.ERROR if made.error is not None else Outcome.NOT_YET,
        message,
        details=trial.details(shown),
        misconception=" + ".join(known.names) if known is not None else None,
    )


def _first_difference(expected: Any, actual: Any, tolerance: float) -> Difference | None:
    """Compare with a value that may be anything: the comparison itself may raise."""
    try:
        return first_difference(expected, actual, tolerance)
    except Exception as error:
        text = f"comparing it with the expected one raised {type(error).__name__}"
        return Difference("value", "", text)


def _right(trial: Trial, remarks: Sequence[str]) -> Result:
    """Judge an answer that is right on every ordinary input; `remarks` are made already."""
    exercise = trial.exercise
    changed = [i for i, made in enumerate(trial.calls) if made.changed_input]
    if changed:
        smallest = min(changed, key=trial.sizes.__getitem__)
        return trial.result(
            Outcome.NOT_YET,
            "The value is right, but your function changed its input. Work on a copy: the caller "
            "still needs the original.",
            details=(("input", _arguments(exercise, trial.probes[smallest])),),
            misconception="changes_input",
        )
    probes, sizes, expected = _with_expected(exercise, exercise.extreme)
    extreme = replace(
        trial,
        probes=probes,
        sizes=sizes,
        expected=expected,
        calls=[call(trial.answer, probe, seconds=SECONDS_A_CALL) for probe in exercise.extreme],
    )
    if remarks:
        extreme, _ = _in_expected_containers(extreme)
    failing = extreme.failing()
    made = [*remarks, *remarks_on(exercise, trial.answer, extreme.calls, failing)]
    ordinary = len(trial.probes) - len(exercise.chosen)
    message = f"Right on {len(exercise.chosen)} chosen and {ordinary} random inputs."
    if not made:
        return Result(exercise.id, exercise.title, Outcome.SOLVED, message)
    return Result(
        exercise.id,
        exercise.title,
        Outcome.REMARK,
        " ".join([message, "One thing to know:" if len(made) == 1 else "To know:", *made]),
        details=extreme.details(failing[0]) if failing else (),
    )


def _in_expected_containers(trial: Trial) -> tuple[Trial, list[str]]:
    """The same trial with arrays, tensors and lists exchanged where that alone was wrong."""
    calls, remarks = [], {}
    for expected, made in zip(trial.expected, trial.calls, strict=True):
        try:
            value, found = in_other_containers(expected.value, made.value)
        except Exception:  # what an answer returns may be anything
            value, found = made.value, []
        calls.append(replace(made, value=value))
        remarks.update(dict.fromkeys(found))
    return replace(trial, calls=calls), list(remarks)


def _remembers(trial: Trial) -> bool:
    """Say whether one call changes what another returns, or has returned already."""
    answer, probes = trial.answer, trial.probes
    again = call(answer, probes[0], seconds=SECONDS_A_CALL)
    text = text_of(again.value)
    call(answer, probes[-1], seconds=SECONDS_A_CALL)
    return text_of(trial.calls[0].value) != text or text_of(again.value) != text


def _remembering(trial: Trial, index: int) -> Result:
    return trial.result(
        Outcome.NOT_YET,
        "The same input does not always give the same value. Either your function draws random "
        "numbers of its own (a generator without a seed, or a layer with weights that nobody "
        "gave it), or something outlives the call: a list, set or dictionary that is made outside "
        "the function, or as the default value of a parameter, is made once, and every call works "
        "on that one.",
        details=trial.details(index),
        misconception="remembers_earlier_calls",
    )


def _describe(trial: Trial, failing: Sequence[int]) -> tuple[str, int]:
    """Say how a value is wrong, on the smallest input on which anything can be seen."""
    smallest = failing[0]
    plain = _plainly(trial, smallest)
    difference = trial.difference(smallest)
    assert difference is not None  # as the answer fails there
    if difference.kind == "type" and not difference.place:
        return plain, smallest
    for index in failing[:INPUTS_LOOKED_AT]:
        seen = visible(
            trial.exercise,
            trial.answer,
            trial.probes[index],
            trial.expected[index],
            trial.calls[index],
            trial.expected,
        )
        if seen is not None:
            return f"{seen} {_plainly(trial, index)}", index
    seen = visible_in_all(trial.expected, trial.calls)
    return (f"{seen} {plain}" if seen else plain), smallest


def _plainly(trial: Trial, index: int) -> str:
    """Say where a value first differs from the expected one."""
    made, difference = trial.calls[index], trial.difference(index)
    assert difference is not None  # as the answer fails there
    if made.value is None and difference.kind == "type" and not difference.place:
        if made.printed:
            return (
                "Your function printed something and returned None. What print shows is lost to "
                "the program; is a return statement missing?"
            )
        return (
            "Your function returned None. Is a return statement missing, or is it inside a branch "
            "that was not taken? Methods that change a list, such as append, return None too."
        )
    if difference.kind == "type" and not difference.place:
        return f"The value has the wrong type: {difference.text}."
    if difference.place.startswith("['parameters']"):
        place = difference.place.removeprefix("['parameters']")
        what = f"at {place}, {difference.text}" if place else difference.text
        return (
            "Your module was not run, because its parameters have other names or shapes than the "
            f"task gives them: {what.removeprefix('keys: ')}."
        )
    where = f" at {difference.place}" if difference.place else ""
    return f"The value differs{where}: {difference.text}."


def _exception(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its message cannot be shown: {type(broken).__name__})"
    return f"{type(error).__name__}: {cut(text, 400)}" if text else type(error).__name__


def _printed(made: Call) -> list[tuple[str, str]]:
    text = made.printed.strip("\n")
    return [("printed", text if len(text) <= 400 else f"... {text[-396:]}")] if text else []


def _arguments(exercise: Exercise, probe: Arguments) -> str:
    named = zip(exercise.parameters, probe, strict=True)
    return "\n".join(f"{name} = {shorten(value)}" for name, value in named)


def _not_a_function(exercise: Exercise, answer: object, wanted: str = "function") -> Result:
    return Result(
        exercise.id,
        exercise.title,
        Outcome.NOT_YET,
        f"check needs your {wanted} itself, and got {kind_of(answer)}. Write its name without "
        "parentheses and without quotes.",
        misconception=f"not_a_{wanted}",
    )


def in_other_containers(expected: Any, actual: Any) -> tuple[Any, list[str]]:
    """Put right values into the containers that were asked for.

    Args:
        expected: the right value.
        actual: an answer's.

    Returns:
        The answer's value, its arrays and tensors changed to what stands at the same place of
        the right value; and what there is to say about that, a remark for each kind of change.

    >>> in_other_containers([3, 4], np.array([3, 4]))[0]
    [3, 4]
    """
    remarks: dict[str, None] = {}

    def convert(left: Any, right: Any) -> Any:
        if isinstance(left, torch.Tensor) and type(right) is np.ndarray:
            if right.dtype.kind in "biuf":
                remarks[ARRAY_FOR_TENSOR] = None
                return torch.tensor(right)
        elif isinstance(left, torch.Tensor) and type(right) is torch.Tensor:
            if left.dtype == torch.int64 and right.dtype in _NARROW:
                remarks[NARROW_NUMBERS] = None
                return right.long()
        elif isinstance(left, np.ndarray) and type(right) is torch.Tensor:
            remarks[TENSOR_FOR_ARRAY] = None
            return right.detach().cpu().numpy()
        elif isinstance(left, list | tuple) and _has_rows(right):
            remarks[ARRAY_FOR_LIST] = None
            if any(isinstance(item, torch.Tensor | np.ndarray) for item in left):
                return [convert(a, b) for a, b in zip(left, right, strict=False)]
            return right.tolist()
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) == len(right):
                return [convert(a, b) for a, b in zip(left, right, strict=True)]
        elif isinstance(left, Mapping) and isinstance(right, Mapping):
            return {key: convert(left.get(key), value) for key, value in right.items()}
        return right

    return convert(expected, actual), list(remarks)


_NARROW = (torch.uint8, torch.int8, torch.int16)


def _has_rows(value: Any) -> bool:
    return type(value) in (torch.Tensor, np.ndarray) and value.ndim > 0


def remarks_on(
    exercise: Exercise, answer: Callable[..., Any], extreme: Sequence[Call], failing: Sequence[int]
) -> list[str]:
    """Return what there is to say about an answer that is right on all ordinary inputs.

    Args:
        exercise: whose answer it is.
        answer: the learner's function.
        extreme: what it did on the extreme inputs of the exercise.
        failing: the indices of those on which it is wrong.
    """
    used = names_used(answer)
    found = [
        remark.remark for remark in exercise.remarks.values() if used.intersection(remark.uses)
    ]
    return [*found, _about_the_extremes(exercise, extreme)] if failing else found


def _about_the_extremes(exercise: Exercise, extreme: Sequence[Call]) -> str:
    for remark in exercise.remarks.values():
        for change in remark.changes or ():
            function = exercise.changed_answer(change)
            if all(
                same(call_own(function, probe), made, exercise.tolerance)
                for probe, made in zip(exercise.extreme, extreme, strict=True)
            ):
                return remark.remark
    return EXTREME
