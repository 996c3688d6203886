"""What a learner calls: check, hint, progress."""

from __future__ import annotations

import html
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.display import display

from ehr_course.exercises import store
from ehr_course.exercises.catalogue import all_exercises, find_exercise
from ehr_course.exercises.checklist import Checklist, Form
from ehr_course.exercises.examine import examine
from ehr_course.exercises.exercise import Exercise
from ehr_course.exercises.mine import keep
from ehr_course.exercises.result import Outcome, Result


class WrongAnswerError(AssertionError):
    """An answer is wrong, and the course is being tested rather than read."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(str(result))


@dataclass(frozen=True)
class Note:
    """A short message to the learner, as text and as HTML."""

    heading: str
    text: str

    def __str__(self) -> str:
        return f"{self.heading}: {self.text}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {
            "text/plain": str(self),
            "text/html": (
                '<div role="note" style="border-left:5px solid #57606a;padding:6px 12px">'
                f"<strong>{html.escape(self.heading)}</strong> {html.escape(self.text)}</div>"
            ),
        }


def check(exercise_id: str, answer: Callable[..., Any] | Form, *, seed: int | None = None) -> None:
    """Check your answer to an exercise, show what was found, and note it in your progress.

    Args:
        exercise_id: lesson and number ("07.1").
        answer: your function or class itself, or the form that lesson 20 asks for.
        seed: repeats the random inputs of an earlier check, as its message says.

    Raises:
        ValueError: if there is no such exercise.
        WrongAnswerError: if the answer is wrong and `EHR_COURSE_RAISE` is set, as it is under
            `pytest --nbval`.
    """
    result = examine(exercise_id, answer, seed=seed)
    _show(result)
    try:
        store.record_outcome(exercise_id, result.outcome)
        if result.outcome.is_solved:
            keep(exercise_id, answer)
    except store.ProgressError as error:
        _show(Note("Your progress was not saved.", str(error)))
    _log(result)
    wrong = result.outcome in (Outcome.NOT_YET, Outcome.ERROR)
    if wrong and os.environ.get("EHR_COURSE_RAISE"):
        raise WrongAnswerError(result)


def hint(exercise_id: str, number: int | None = None) -> None:
    """Show the next hint of an exercise, or the one with this number (from 1).

    Raises:
        ValueError: if there is no such exercise or hint.
    """
    exercise = find_exercise(exercise_id)
    count = len(exercise.hints)
    if number is None:
        try:
            shown = store.read_standings().get(exercise_id, store.Standing()).hints
        except store.ProgressError:
            shown = 0
        number = min(shown + 1, count)
    if not 1 <= number <= count:
        raise ValueError(f"exercise {exercise_id} has hints 1 to {count}, not {number}")
    _show(Note(f"Hint {number} of {count} for {exercise_id}", exercise.hints[number - 1]))
    try:
        store.record_hint(exercise_id, number)
    except store.ProgressError as error:
        _show(Note("Your progress was not saved.", str(error)))


def progress() -> None:
    """Show every exercise of the course and how you stand with it."""
    try:
        standings = store.read_standings()
    except store.ProgressError as error:
        _show(Note("Your progress cannot be read.", str(error)))
        return
    rows = [(e, standings.get(e.id, store.Standing())) for e in all_exercises()]
    _show(ProgressTable(tuple(rows)))


@dataclass(frozen=True)
class ProgressTable:
    """Where a learner stands, one row an exercise: the exercise and the standing."""

    rows: tuple[tuple[Exercise | Checklist, store.Standing], ...]

    def _cells(self) -> list[tuple[str, str, str, str, str]]:
        return [
            (
                exercise.id,
                f"{exercise.title} (optional)" if exercise.optional else exercise.title,
                "solved" if standing.solved_at else standing.outcome,
                str(standing.attempts),
                str(standing.hints),
            )
            for exercise, standing in self.rows
        ]

    @property
    def summary(self) -> str:
        """Say how many exercises are solved, and how many optional ones."""
        required: list[bool] = []
        optional: list[bool] = []
        for exercise, standing in self.rows:
            (optional if exercise.optional else required).append(standing.solved_at is not None)
        summary = f"{sum(required)} of {len(required)} exercises solved"
        if optional:
            summary += f", and {sum(optional)} of {len(optional)} optional ones"
        return summary

    def __str__(self) -> str:
        cells = [("", "exercise", "standing", "attempts", "hints"), *self._cells()]
        widths = [max(len(row[column]) for row in cells) for column in range(5)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([*lines, self.summary])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        head = "".join(
            f'<th scope="col" style="text-align:left">{name}</th>'
            for name in ("", "exercise", "standing", "attempts", "hints")
        )
        body = "".join(
            "<tr>"
            + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row)
            + "</tr>"
            for row in self._cells()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return {
            "text/plain": str(self),
            "text/html": f"{table}<p>{html.escape(self.summary)}</p>",
        }


def _show(thing: Result | Note | ProgressTable) -> None:
    if get_ipython() is not None:
        display(thing)
    else:
        sys.stdout.write(f"{thing}\n")


def _log(result: Result) -> None:
    """Append the result to the log of a test run, where there is one."""
    path = os.environ.get("EHR_COURSE_RUN_LOG")
    if path:
        line = json.dumps(
            {
                "exercise": result.exercise_id,
                "outcome": str(result.outcome),
                "name": result.misconception,
                "message": result.message,
            }
        )
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
