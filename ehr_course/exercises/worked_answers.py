"""Read the worked answers of `solutions/`, change them, and run them as functions.

A misconception is written as a change of the worked answer, so what it does is made here from the
answer itself, and two of them can be put together.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ehr_course.course_files import solutions_folder
from ehr_course.errors import InputError
from ehr_course.exercises.module_to_try import INPUTS, is_module_class
from ehr_course.exercises.packed import packed_text, texts

_CELL = re.compile(r"^# %%(.*)$", re.MULTILINE)


class ChangeError(ValueError):
    """A change cannot be made: an old text does not stand exactly once in the answer.

    Attributes:
        old: that text.
        count: how often it stands there.

    Args:
        exercise_id: whose answer it is, where that is known.
    """

    def __init__(self, old: str, count: int, exercise_id: str = "") -> None:
        self.old, self.count = old, count
        whose = f"the worked answer of {exercise_id}" if exercise_id else "the worked answer"
        super().__init__(
            f"{old!r} stands {count} times in {whose}, not once. Copy a piece of the answer in "
            "solutions/ that stands there once."
        )


def worked_answer(exercise_id: str, kind: str = "answer") -> str:
    """Return the source of a worked answer, its helpers included, without its call of `check`.

    Args:
        exercise_id: lesson and number ("07.1").
        kind: "answer", or "alternative" for the second one.

    Raises:
        InputError: if `solutions/` has no such answer.
    """
    return _answer_cell(exercise_id, kind).rpartition("\ncheck(")[0]


def answer_name(exercise_id: str) -> str:
    """Return the name of what a worked answer hands to `check`: a function or a class."""
    call = _answer_cell(exercise_id, "answer").rpartition("\ncheck(")[2]
    return call.partition(",")[2].strip().rstrip(")")


def changed(source: str, change: Mapping[str, str]) -> str:
    """Replace each old text, one after the other, by its new one.

    Raises:
        ChangeError: if an old text does not stand exactly once in what is there by then.

    >>> changed("return 7 + place", {"7 + ": ""})
    'return place'
    """
    for old, new in change.items():
        count = source.count(old)
        if count != 1:
            raise ChangeError(old, count)
        source = source.replace(old, new)
    return source


def as_function(exercise_id: str, source: str, name: str = "answer") -> Callable[..., Any]:
    """Run a source as a cell of the solutions, and return what goes to `check`.

    Args:
        exercise_id: lesson and number ("07.1").
        source: as `worked_answer` gives it, changed or not.
        name: of the source, for tracebacks.

    Raises:
        Exception: whatever the source raises when it is run, such as a SyntaxError.
    """
    return names_of(exercise_id, source, name)[answer_name(exercise_id)]


def names_of(exercise_id: str, source: str, name: str = "answer") -> dict[str, Any]:
    """Run a source as a cell of the solutions, and return all that it defines or imports.

    What it takes from other exercises with `mine` are worked answers, never a learner's own.
    """
    filename = f"<{exercise_id} {name}>"
    if texts() is None:
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = dict(_imports(_lesson_of(exercise_id)))
    if "mine" in namespace:
        namespace["mine"] = worked
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def worked(exercise_id: str, name: str | None = None) -> Any:
    """Return a worked answer, or something else of this name that its cell defines."""
    return _worked_names(exercise_id)[name or answer_name(exercise_id)]


@cache
def _worked_names(exercise_id: str) -> dict[str, Any]:
    return names_of(exercise_id, worked_answer(exercise_id), "worked answer")


@cache
def parameters(exercise_id: str) -> tuple[str, ...]:
    """Return the names of the inputs of an exercise: its function's parameters."""
    function = as_function(exercise_id, worked_answer(exercise_id), "worked answer")
    if is_module_class(function):
        return INPUTS
    return tuple(inspect.signature(function).parameters)


def _lesson_of(exercise_id: str) -> str:
    return exercise_id.partition(".")[0]


@cache
def _answer_cell(exercise_id: str, kind: str) -> str:
    tag = f'"{kind}:{exercise_id}"'
    lesson = _lesson_of(exercise_id)
    found = [source for options, source in _cells(lesson) if tag in options]
    if len(found) != 1:
        path = _solutions_file(lesson)
        problem = f"{len(found)} cells have the tag {tag}"
        raise InputError(path, "", problem, "One cell has to have it.")
    return found[0]


@cache
def _imports(lesson: str) -> dict[str, Any]:
    """What the first code cell of a lesson's solutions imports, after the one that installs."""
    others = ("[markdown]", '"opened-alone"')
    first = next(
        source
        for options, source in _cells(lesson)
        if not any(other in options for other in others)
    )
    namespace: dict[str, Any] = {"__name__": f"solutions_{lesson}"}
    exec(compile(first, f"<solutions of lesson {lesson}>", "exec"), namespace)
    return namespace


@cache
def _cells(lesson: str) -> tuple[tuple[str, str], ...]:
    """The cells of a lesson's solutions: what stands behind their `# %%`, and their source."""
    text = packed_text(f"solutions_{lesson}.txt")
    if text is None:
        text = _solutions_file(lesson).read_text(encoding="utf-8")
    _, *parts = _CELL.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple((options, source.strip("\n") + "\n") for options, source in pairs)


@cache
def _solutions_file(lesson: str) -> Path:
    folder = solutions_folder()
    found = list(folder.glob(f"{lesson}_*.py"))
    if len(found) != 1:
        problem = f"it has {len(found)} files {lesson}_*.py"
        raise InputError(folder, "", problem, "It has to have one for each lesson.")
    return found[0]
