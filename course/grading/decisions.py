"""What a teacher decides beside the grader: excuses, points given by hand, a share for lateness.

It stands in `decisions.yml` in the folder of grades, by the students' names::

    Ada Lovelace:
      excused: ["07.6"]         # or: all
      points: {"07.2": 1.5}
      share: 0.9
      note: Handed in on Tuesday, a day late.

The students' `result.json` keep what the grader found. The table and the pages show the decisions.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from course.grading.results import ExerciseResult, StudentResult, harmless
from ehr_course.yaml_file import YamlFile

DECISIONS = "decisions.yml"


class Decision(BaseModel):
    """What is decided for one student.

    Attributes:
        excused: the exercises that do not count, or "all".
        points: by exercise, what the answer gets, whatever the grader found.
        share: which part of the other points counts, from 0 to 1.
        note: to the student and to all who read the pages, or "".
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    excused: Literal["all"] | tuple[str, ...] = ()
    points: dict[str, float] = Field(default_factory=dict)
    share: float = 1.0
    note: str = ""


def read_decisions(file: Path, results: Sequence[StudentResult]) -> dict[str, Decision]:
    """Read a file of decisions, by the students' keys; none where there is no file.

    Args:
        file: the file.
        results: of the class, to which each name and exercise has to belong.

    Raises:
        InputError: if it cannot be read, or names an unknown student or exercise, or a number that
            cannot be points.
    """
    if not file.exists():
        return {}
    opened = YamlFile.open(file)
    if opened.content is None:
        return {}
    given = opened.read_as(dict[str, Decision])
    by_name = {name: one for one in results for name in (harmless(one.student), one.student)}
    found = {}
    for name, decision in given.items():
        result = by_name.get(name)
        if result is None:
            near = difflib.get_close_matches(name, by_name, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "grades.csv has the names."
            raise opened.error((name,), f"no student is called {name!r}", remedy)
        known = [one.id for one in result.exercises]
        excused = () if decision.excused == "all" else decision.excused
        for exercise in (*excused, *decision.points):
            if exercise not in known:
                problem = f"none of the graded lessons has an exercise {exercise!r}"
                raise opened.error((name,), problem, f"They have {', '.join(known)}.")
        for points in decision.points.values():
            if not (math.isfinite(points) and points >= 0):
                problem = f"{points:g} is not a number of points"
                raise opened.error((name, "points"), problem, "Give 0 or more.")
        if not 0 <= decision.share <= 1:
            problem = f"{decision.share:g} is not a share"
            raise opened.error((name, "share"), problem, "Give 0.9 where 90% count.")
        found[result.key] = decision
    return found


def decided(result: StudentResult, decision: Decision) -> StudentResult:
    """Return a student's result as the teacher has decided it."""
    exercises = tuple(_decided(one, decision) for one in result.exercises)
    flags, notes = result.flags, result.notes
    if decision.share < 1:
        flags = (*flags, "share")
        notes = (*notes, f"Of the points {100 * decision.share:g}% count.")
    if decision.note:
        notes = (*notes, decision.note)
    return result.model_copy(
        update={
            "exercises": exercises,
            "points": sum(one.points for one in exercises),
            "out_of": sum(one.out_of for one in exercises),
            "flags": flags,
            "notes": notes,
        }
    )


def _decided(one: ExerciseResult, decision: Decision) -> ExerciseResult:
    if decision.excused == "all" or one.id in decision.excused:
        how = {"points": 0.0, "out_of": 0.0, "flags": (*one.flags, "excused")}
    elif one.id in decision.points:
        how = {"points": decision.points[one.id], "flags": (*one.flags, "by_hand")}
    else:
        how = {"points": one.points * decision.share}
    return one.model_copy(update=how)
