"""Find an exercise by its id. Each lesson's exercises live in a module of their own."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from ehr_course.exercises import lessons, packed
from ehr_course.exercises.checklist import Checklist
from ehr_course.exercises.exercise import Exercise

Task = Exercise | Checklist
"""What can be checked: a function on many inputs, or a form."""


@cache
def lesson_exercises(lesson: str) -> tuple[Task, ...]:
    """Return the exercises of one lesson ("07"), in order.

    Raises:
        ValueError: if the lesson has no exercises.
    """
    if lesson not in lessons_with_exercises():
        known = ", ".join(lessons_with_exercises())
        raise ValueError(f"lesson {lesson!r} has no exercises; lessons that have: {known}")
    packed.find_packed_modules()
    return importlib.import_module(f"{lessons.__name__}.lesson_{lesson}").EXERCISES


@cache
def lessons_with_exercises() -> tuple[str, ...]:
    """Return the numbers of the lessons that have exercises, in order."""
    names = [module.name for module in pkgutil.iter_modules(lessons.__path__)]
    names += [Path(name).stem for name in packed.texts() or () if name.endswith(".py")]
    return tuple(sorted({n.removeprefix("lesson_") for n in names if n.startswith("lesson_")}))


def all_exercises() -> tuple[Task, ...]:
    """Return every exercise of the course, in order."""
    return tuple(e for lesson in lessons_with_exercises() for e in lesson_exercises(lesson))


def find_exercise(exercise_id: str) -> Task:
    """Return the exercise with this id ("07.1").

    Raises:
        ValueError: if there is none; the message lists those of the same lesson.
    """
    if not isinstance(exercise_id, str):
        raise ValueError(f'an exercise id is text such as "07.1", not {exercise_id!r}')
    exercises = lesson_exercises(exercise_id.partition(".")[0])
    for exercise in exercises:
        if exercise.id == exercise_id:
            return exercise
    known = ", ".join(exercise.id for exercise in exercises)
    raise ValueError(f"there is no exercise {exercise_id!r}; this lesson has {known}")
