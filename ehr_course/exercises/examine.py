"""Examine an answer: try it, compare it, and name the wrong idea where there is a known one.

Nothing here displays, records or raises; `check` does that with the result.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.compare import (
    Difference,
    cut,
    first_difference,
    kind_of,
    shorten,
    text_of,
)
from ehr_course.exercises.exercise import FRESH_INPUTS, Arguments, Exercise, Misconception
from ehr_course.exercises.learner_code import (
    SECONDS_A_CALL,
    Call,
    NotFinishedError,
    call,
    is_untouched_stub,
    own_line,
)
from ehr_course.exercises.result import Outcome, Result


def examine(exercise_id: str, answer: Callable[..., Any], *, seed: int | None = None) -> Result:
    """Try an answer on chosen and on fresh random inputs.

    Args:
        exercise_id: lesson and number ("07.1").
        answer: the learner's function itself, not the value of a call.
        seed: makes the random inputs; drawn anew when None, so that no answer can be fitted to
            them. The message of a failure names it.

    Returns:
        The result, with one of four outcomes.

    Raises:
        ValueError: if there is no such exercise.
    """
    exercise = find_exercise(exercise_id)
    if seed is None:
        fixed = os.environ.get("EHR_COURSE_PROBE_SEED")
        seed = int(fixed) if fixed else secrets.randbelow(100_000)
    if not callable(answer):
        return _not_a_function(exercise, answer)
    probes = exercise.probes(seed)
    calls = []
    for probe in probes:
        calls.append(call(answer, probe, seconds=SECONDS_A_CALL))
        if isinstance(calls[-1].error, NotFinishedError):
            return _judge_unfinished(exercise, answer, probes, calls, seed)
    if is_untouched_stub(answer, calls[0].error):
        return Result(
            exercise.id,
            exercise.title,
            Outcome.NOT_ATTEMPTED,
            f'Replace the line that raises NotImplementedError. hint("{exercise.id}") helps.',
        )
    return _judge(exercise, answer, probes, calls, seed)


def _judge_unfinished(
    exercise: Exercise,
    answer: Callable[..., Any],
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    seed: int,
) -> Result:
    """Judge the calls before the one that was stopped; where they are right, name the stop."""
    *finished, stopped = calls
    tried = probes[: len(finished)]
    result = _judge(exercise, answer, tried, finished, seed)
    if result.outcome is not Outcome.SOLVED and result.misconception != "changes_input":
        return result
    return _not_finished(exercise, answer, probes[len(tried)], stopped, seed)


def _judge(
    exercise: Exercise,
    answer: Callable[..., Any],
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    seed: int,
) -> Result:
    expected = [call(exercise.reference, probe) for probe in probes]
    differences = [
        _difference(exercise, right, made) for right, made in zip(expected, calls, strict=True)
    ]
    failing = [i for i, difference in enumerate(differences) if difference is not None]
    if not failing:
        return _solved_unless_input_changed(exercise, answer, probes, calls, seed)
    smallest = min(failing, key=lambda i: len(repr(probes[i])))
    known = _recognise(exercise, probes, calls)
    if known is None and _remembers(answer, probes, calls):
        details = _details(exercise, answer, probes[smallest], expected[smallest], calls[smallest])
        return _remembering(exercise, answer, details, seed)
    raised = calls[smallest].error
    if known is not None:
        message = known.diagnosis
    elif raised is not None:
        message = "Your function raised an exception."
    else:
        message = _describe(differences[smallest], calls[smallest])
    return Result(
        exercise.id,
        exercise.title,
        Outcome.ERROR if raised is not None else Outcome.NOT_YET,
        message,
        _details(exercise, answer, probes[smallest], expected[smallest], calls[smallest]),
        _repeat(exercise, answer, seed),
        known.name if known is not None else None,
    )


def _difference(exercise: Exercise, expected: Call, made: Call) -> Difference | None:
    if expected.error is not None:
        wanted = type(expected.error)
        if isinstance(made.error, wanted):
            return None
        return Difference("value", "", f"expected {wanted.__name__}, got {shorten(made.value)}")
    if made.error is not None:
        return Difference("value", "", f"raised {type(made.error).__name__}")
    return _first_difference(expected.value, made.value, exercise.tolerance)


def _first_difference(expected: Any, actual: Any, tolerance: float) -> Difference | None:
    """Compare with a value that may be anything: the comparison itself may raise."""
    try:
        return first_difference(expected, actual, tolerance)
    except Exception as error:
        text = f"comparing it with the expected one raised {type(error).__name__}"
        return Difference("value", "", text)


def _solved_unless_input_changed(
    exercise: Exercise,
    answer: Callable[..., Any],
    probes: Sequence[Arguments],
    calls: Sequence[Call],
    seed: int,
) -> Result:
    changed = [i for i, made in enumerate(calls) if made.changed_input]
    if not changed:
        count = f"{len(exercise.chosen)} chosen and {FRESH_INPUTS} random inputs"
        return Result(exercise.id, exercise.title, Outcome.SOLVED, f"Right on {count}.")
    smallest = min(changed, key=lambda i: len(repr(probes[i])))
    return Result(
        exercise.id,
        exercise.title,
        Outcome.NOT_YET,
        "The value is right, but your function changed its input. Work on a copy: the caller "
        "still needs the original.",
        (("input", _arguments(exercise, probes[smallest])),),
        _repeat(exercise, answer, seed),
        "changes_input",
    )


def _recognise(
    exercise: Exercise, probes: Sequence[Arguments], calls: Sequence[Call]
) -> Misconception | None:
    if all(made.error is not None for made in calls):
        return None  # an exception on every input says nothing of the idea behind it
    for misconception in exercise.misconceptions:
        if all(
            same(call(misconception.wrong, probe), made, exercise.tolerance)
            for probe, made in zip(probes, calls, strict=True)
        ):
            return misconception
    return None


def same(left: Call, right: Call, tolerance: float) -> bool:
    """Say whether two calls did the same: equal values, or the same kind of exception."""
    if left.error is not None or right.error is not None:
        return type(left.error) is type(right.error)
    return _first_difference(left.value, right.value, tolerance) is None


def _remembers(
    answer: Callable[..., Any], probes: Sequence[Arguments], calls: Sequence[Call]
) -> bool:
    """Say whether one call changes what another returns, or has returned already."""
    again = call(answer, probes[0], seconds=SECONDS_A_CALL)
    text = text_of(again.value)
    call(answer, probes[-1], seconds=SECONDS_A_CALL)
    return text_of(calls[0].value) != text or text_of(again.value) != text


def _remembering(
    exercise: Exercise,
    answer: Callable[..., Any],
    details: tuple[tuple[str, str], ...],
    seed: int,
) -> Result:
    return Result(
        exercise.id,
        exercise.title,
        Outcome.NOT_YET,
        "The same input does not always give the same value. Either your function draws random "
        "numbers of its own (a generator without a seed, or a layer with weights that nobody "
        "gave it), or something outlives the call: a list, set or dictionary that is made outside "
        "the function, or as the default value of a parameter, is made once, and every call works "
        "on that one.",
        details,
        _repeat(exercise, answer, seed),
        "remembers_earlier_calls",
    )


def _not_finished(
    exercise: Exercise, answer: Callable[..., Any], probe: Arguments, made: Call, seed: int
) -> Result:
    details = [("input", _arguments(exercise, probe))]
    details.append(("stopped at", own_line(answer, made.error)))
    details += _printed(made)
    return Result(
        exercise.id,
        exercise.title,
        Outcome.NOT_YET,
        f"Your function was stopped: it had not finished after {SECONDS_A_CALL:g} seconds. Either "
        "a loop never ends, or the number of steps grows too fast with the length of the input.",
        tuple(details),
        _repeat(exercise, answer, seed),
        "takes_too_long",
    )


def _describe(difference: Difference, made: Call) -> str:
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
    where = f" at {difference.place}" if difference.place else ""
    return f"The value differs{where}: {difference.text}."


def _details(
    exercise: Exercise, answer: Callable[..., Any], probe: Arguments, expected: Call, made: Call
) -> tuple[tuple[str, str], ...]:
    wanted = (
        shorten(expected.value)
        if expected.error is None
        else f"an exception: {type(expected.error).__name__}"
    )
    details = [("input", _arguments(exercise, probe)), ("expected", wanted)]
    if made.error is not None:
        details.append(("raised", _exception(made.error)))
        details.append(("your line", own_line(answer, made.error)))
    else:
        details.append(("got", shorten(made.value)))
    if made.changed_input:
        details.append(("besides", "your function changed its input"))
    return (*details, *_printed(made))


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


def _repeat(exercise: Exercise, answer: Callable[..., Any], seed: int) -> str:
    name = getattr(answer, "__name__", "")
    name = name if name.isidentifier() else "your_function"
    return f'check("{exercise.id}", {name}, seed={seed})'


def _not_a_function(exercise: Exercise, answer: object) -> Result:
    return Result(
        exercise.id,
        exercise.title,
        Outcome.NOT_YET,
        f"check needs your function itself, and got {kind_of(answer)}. Write its name without "
        "parentheses and without quotes.",
        misconception="not_a_function",
    )
