"""Results as Gradescope reads them: `results.json`, one test for each exercise.

The form is that of https://gradescope-autograders.readthedocs.io/en/latest/specs/. What is for the
teacher alone, notes and flags, stands under `extra_data`, and not in what a test shows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from course.grading.results import ExerciseResult, StudentResult, write_whole
from ehr_course.exercises.result import Outcome

FOLDER = "gradescope"
FILE = "results.json"

_ABSENT = "The notebook has no answer to this exercise, not even the empty one."
_EMPTY = "There is no answer yet."


def write_gradescope(folder: Path, result: StudentResult) -> None:
    """Write `gradescope/results.json` into a student's folder, whole or not at all."""
    write_whole(folder / FOLDER / FILE, written(gradescope_results(result)))


def written(content: dict[str, Any]) -> str:
    """Return the text of a `results.json`."""
    return json.dumps(content, ensure_ascii=True, indent=1, allow_nan=False) + "\n"


def gradescope_results(result: StudentResult) -> dict[str, Any]:
    """Return a student's result in Gradescope's form.

    The sum of the tests is the score. Every test can be seen by the student, and what the grader
    printed cannot.
    """
    return {
        "score": result.points,
        "execution_time": round(result.seconds),
        "output": _summary(result),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(one) for one in result.exercises],
        "extra_data": {"flags": list(result.all_flags), "notes": list(result.notes)},
    }


def _summary(result: StudentResult) -> str:
    solved = sum(one.is_solved for one in result.exercises)
    lines = [f"Solved: {solved} of {len(result.exercises)}."]
    lines += [
        f"{file.path} cannot be read: {file.problem}." for file in result.files if file.problem
    ]
    if "not_graded" in result.flags:
        lines.append("Grading failed, which says nothing of the answers. Ask your teacher.")
    return "\n".join(lines)


def _test(one: ExerciseResult) -> dict[str, Any]:
    return {
        "number": one.id,
        "name": f"{one.id} {one.title}",
        "score": one.points,
        "max_score": one.out_of,
        "status": "passed" if one.is_solved else "failed",
        "output": _output(one),
        "output_format": "text",
        "visibility": "visible",
        "extra_data": {
            "outcome": str(one.outcome),
            "misconception": one.misconception,
            "flags": list(one.flags),
            "notes": list(one.notes),
        },
    }


def _output(one: ExerciseResult) -> str:
    if "not_graded" in one.flags:
        return "Grading failed, which says nothing of the answer."
    if one.outcome == Outcome.NOT_ATTEMPTED:
        return _ABSENT if "absent" in one.flags else _EMPTY
    lines = [f"{one.outcome[:1].upper()}{one.outcome[1:]}."]
    lines += [one.message] if one.message else []
    lines += [f"{label}: {text}" for label, text in one.details]
    lines += [f"The same inputs again: {one.repeat}"] if one.repeat else []
    return "\n".join(lines)
