"""What an exercise cost, where a notebook's execution counts or a learner's progress file tell.

Neither is the grader's own measure, and both can be changed by the student. A progress file says
how often an answer was checked, but is rarely handed in. An execution count says how many cells
had run in the session when the answer's cell last ran: what goes beyond one run of each cell since
the exercise before is work on this exercise, or on the cells between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter

from course.grading.results import ExerciseResult, StudentResult, write_whole
from ehr_course.errors import InputError

PROGRESS = "progress.json"
ATTEMPTS = "attempts.json"
_MOST_BYTES = 1 << 20
_MOST_TIMES = 100_000


@dataclass(frozen=True)
class Cost:
    """What one exercise cost the class.

    Attributes:
        checks: how often its answer was checked, of each student whose progress file says so.
        runs: how many runs of cells beyond one each, of each student whose notebook says so.
    """

    checks: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()

    @property
    def typical_checks(self) -> float | None:
        """The median of the checks, or None where nobody's file tells."""
        return float(median(self.checks)) if self.checks else None

    @property
    def typical_runs(self) -> float | None:
        """The median of the further runs, or None where nobody's notebook tells."""
        return float(median(self.runs)) if self.runs else None


def costs(
    results: Sequence[StudentResult],
    places: Mapping[str, int],
    checks: Mapping[str, Mapping[str, int]],
) -> dict[str, Cost]:
    """Return what each exercise cost, by id; those of which nothing is known are left out.

    Args:
        results: of the class.
        places: of each exercise its cell's number among the lesson's code cells, from 1.
        checks: by the student's key and the exercise: what the progress files say.
    """
    runs: dict[str, list[int]] = {}
    tried: dict[str, list[int]] = {}
    for result in results:
        for exercise, more in further_runs(result.exercises, places).items():
            runs.setdefault(exercise, []).append(more)
        for one in result.exercises:
            times = checks.get(result.key, {}).get(one.id, 0)
            if times:
                tried.setdefault(one.id, []).append(times)
    return {
        exercise: Cost(tuple(tried.get(exercise, ())), tuple(runs.get(exercise, ())))
        for exercise in places
        if exercise in tried or exercise in runs
    }


def further_runs(exercises: Sequence[ExerciseResult], places: Mapping[str, int]) -> dict[str, int]:
    """Return how many runs of cells went beyond one each before an attempted answer, by exercise.

    A notebook whose counts are those of one run from above to below tells nothing, and where a
    count is lower than that, cells ran in another order or the session was restarted: neither is
    returned.
    """
    found: dict[str, int] = {}
    before: dict[str, tuple[int, int]] = {}
    for one in exercises:
        lesson = f"{one.id.partition('.')[0]} {one.file}"
        if one.runs is None or one.id not in places:
            continue
        ran, place = before.get(lesson, (0, 0))
        more = (one.runs - ran) - (places[one.id] - place)
        before[lesson] = one.runs, places[one.id]
        if more >= 0 and one.outcome != "not attempted":
            found[one.id] = more
    return found if any(found.values()) else {}


def checks_handed_in(
    submissions: Path, results: Sequence[StudentResult]
) -> dict[str, dict[str, int]]:
    """Read the progress files that lie in a folder of submissions, beside the notebooks.

    A file that is too large or not a progress file is passed over.

    Returns:
        How often each answer was checked, by the student's key and the exercise.
    """
    found: dict[str, dict[str, int]] = {}
    if not submissions.is_dir():
        return found
    for result in results:
        for file in _progress_files(submissions, result):
            for exercise, times in _checks_in(file).items():
                own = found.setdefault(result.key, {})
                own[exercise] = max(times, own.get(exercise, 0))
    return found


def write_checks(folder: Path, checks: Mapping[str, Mapping[str, int]]) -> None:
    """Keep in a folder of grades what the progress files said."""
    if checks:
        write_whole(folder / ATTEMPTS, json.dumps(checks, indent=1) + "\n")
    else:
        (folder / ATTEMPTS).unlink(missing_ok=True)


def read_checks(folder: Path) -> dict[str, dict[str, int]]:
    """Read what `write_checks` kept; nothing where there is no file.

    Raises:
        InputError: if the file does not have that form.
    """
    file = folder / ATTEMPTS
    if not file.exists():
        return {}
    try:
        return TypeAdapter(dict[str, dict[str, int]]).validate_json(file.read_bytes())
    except (OSError, ValueError):
        problem = "it is not what this version writes"
        raise InputError(file, "", problem, "Delete it; it says what was checked.") from None


def _progress_files(submissions: Path, result: StudentResult) -> Iterator[Path]:
    folder = submissions.resolve()
    starts = [folder]
    inside = [one for one in folder.iterdir() if not one.name.startswith((".", "__"))]
    if len(inside) == 1 and inside[0].is_dir():
        starts.append(inside[0])  # a folder that wraps all others
    seen = set()
    for start in starts:
        for one in result.files:
            parents = [start / part for part in Path(one.path).parents if part.parts]
            for place in parents:
                file = place / PROGRESS
                is_inside = file.resolve().is_relative_to(folder)
                if file not in seen and is_inside and file.is_file():
                    seen.add(file)
                    yield file


def _checks_in(file: Path) -> dict[str, int]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
        standings = content["exercises"].items()
        times = {exercise: standing["attempts"] for exercise, standing in standings}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {
        exercise: count
        for exercise, count in times.items()
        if type(count) is int and 0 < count <= _MOST_TIMES
    }
