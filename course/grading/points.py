"""What each exercise gives: by its difficulty in the syllabus, or as the teacher's file says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from course.grading.results import StudentResult
from course.syllabus import Lesson
from ehr_course.yaml_file import YamlFile

BY_DIFFICULTY = {1: 1.0, 2: 2.0, 3: 3.0}
"""One point for each star. An optional exercise gives nothing, and is graded all the same."""


def points_of(lessons: Sequence[Lesson], file: Path | None = None) -> dict[str, float]:
    """Return the points of every exercise of some lessons, by id, in the syllabus's order.

    Args:
        lessons: the lessons that are graded.
        file: a YAML file of ids and points, `"07.1": 2`. An exercise that it does not name gives
            nothing, and is graded all the same.

    Raises:
        InputError: if the file cannot be read, names an unknown exercise, or gives less than 0.
    """
    by_stars = {
        exercise.id: 0.0 if exercise.optional else BY_DIFFICULTY[exercise.difficulty]
        for lesson in lessons
        for exercise in lesson.exercises
    }
    if file is None:
        return by_stars
    opened = YamlFile.open(file)
    given = opened.read_as(dict[str, float])
    for exercise, points in given.items():
        if not (math.isfinite(points) and points >= 0):
            problem = f"{points:g} is not a number of points"
            raise opened.error((exercise,), problem, "Give 0 or more.")
        if exercise not in by_stars:
            problem = f"none of the graded lessons has an exercise {exercise!r}"
            known = ", ".join(by_stars)
            raise opened.error((exercise,), problem, f"They have {known}.")
    return {exercise: given.get(exercise, 0.0) for exercise in by_stars}


def repointed(result: StudentResult, points: Mapping[str, float]) -> StudentResult:
    """Return a student's result with other points for each exercise: all where it is solved."""
    exercises = tuple(
        one.model_copy(
            update={
                "out_of": points[one.id],
                "points": points[one.id] if one.is_solved else 0.0,
            }
        )
        for one in result.exercises
    )
    sums = {
        "points": sum(one.points for one in exercises),
        "out_of": sum(one.out_of for one in exercises),
    }
    return result.model_copy(update={"exercises": exercises} | sums)
