"""How `course test` shares its tests out to two processes: what stays together, what comes first.

Tests of one file stay together, because they share what is slow to make. But what makes a run of
one lesson needs no other lesson, nor do its exercises, and the browser tests of all lessons share
one JupyterLab.
"""

from __future__ import annotations

import csv
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

LESSON_BY_LESSON = (
    "tests/lessons/test_solved.py",
    "tests/real_data/test_lessons_on_demo.py",
    "tests/real_data/test_lessons_on_mts_dialog.py",
)
EVERY_EXERCISE = "tests/exercises/test_every_exercise.py"
BROWSER = "tests/browser/"

# A process that takes one of these up last would be waited for by the other.
SLOWEST_FIRST = (
    BROWSER,
    "tests/exercises/",
    "tests/real_data/",
    "tests/lessons/test_solved.py",
    "tests/training/test_processes.py",
    "tests/book/",
    "tests/grading/",
    "tests/course/",
    "tests/cli/",
    "tests/evaluation/",
    "tests/lessons/test_modes.py",
)


def scope_of(nodeid: str) -> str:
    """Return the name of the tests that stay together with this one.

    >>> scope_of("tests/test_losses.py::test_a_sum[mean]")
    'tests/test_losses.py'
    >>> scope_of("tests/lessons/test_solved.py::test_it_runs[lessons/07_tokenization]")
    'tests/lessons/test_solved.py[lessons/07_tokenization]'
    >>> scope_of("tests/exercises/test_every_exercise.py::test_it_is_solved[07.1-sorts_codes]")
    'tests/exercises/test_every_exercise.py[07]'
    """
    file, _, test = nodeid.partition("::")
    if file.startswith(BROWSER):
        return BROWSER
    if file == EVERY_EXERCISE and "[" in test:
        return f"{file}[{test.partition('[')[2].partition('.')[0]}]"
    if file in LESSON_BY_LESSON:
        return f"{file}[{test.partition('[')[2]}"
    return file


def slowness(nodeid: str, lesson_times: dict[str, int]) -> tuple[int, int]:
    """Return a key that sorts tests: the slowest first, those that are quick as they stand.

    Args:
        nodeid: of a test, or of a notebook's cell.
        lesson_times: the seconds of each lesson's run, by the lesson's name.

    >>> times = {"07_tokenization": 6, "09_corruption": 32}
    >>> cells = ["lessons/07_tokenization.ipynb::Cell 0", "lessons/09_corruption.ipynb::Cell 0"]
    >>> sorted(cells, key=lambda nodeid: slowness(nodeid, times))[0]
    'lessons/09_corruption.ipynb::Cell 0'
    """
    file = nodeid.partition("::")[0]
    slow = (n for n, start in enumerate(SLOWEST_FIRST) if file.startswith(start))
    seconds = next((time for name, time in lesson_times.items() if name in nodeid), 0)
    return next(slow, len(SLOWEST_FIRST)), -seconds


def read_lesson_times(root: Path) -> dict[str, int]:
    """Return the seconds of each lesson's run from the book's table; none if there is no table."""
    table = root / "course" / "book" / "lesson_times.csv"
    if not table.exists():
        return {}
    with table.open(encoding="utf-8", newline="") as file:
        return {row["lesson"]: int(row["seconds"]) for row in csv.DictReader(file)}


class TwoProcesses(LoadScopeScheduling):
    """Gives each process that is free the next tests that stay together."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
