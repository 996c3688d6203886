"""A class that is released, graded and reported once, by the commands, for every test of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from classroom import Student, write_class
from handed_in import digests, run_course

from course.console import duration
from course.grading.results import RunAbout, StudentResult, read_results, read_run

SEED = 5
"""With this seed the verdict on the student `chance` depends on it."""

DECISIONS = """\
ada:
  share: 0.5
  note: A day late.
copied:
  points: {"07.1": 0.5}
untouched:
  excused: all
"""


@dataclass(frozen=True)
class GradedClass:
    """A class and what the commands made of it.

    Attributes:
        students: what is to be found, by name.
        results: what was found, by name.
        about: how the run was made.
        folder: what holds `week1`, `submissions`, `grades` and the file `secret`.
        released: the digests of the released folder before the run.
        submissions: the digests of the submissions before the run.
        graded: the digests of the grades before the report with decisions.
        pages: the class page and the table before that report.
        said: what each command wrote to the terminal, by its name.
        seconds: how long each command took.
    """

    students: dict[str, Student]
    results: dict[str, StudentResult]
    about: RunAbout
    folder: Path
    released: dict[str, str]
    submissions: dict[str, str]
    graded: dict[str, str]
    pages: dict[str, str]
    said: dict[str, str]
    seconds: dict[str, float]


@pytest.fixture(scope="session")
def class_of_thirty(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    folder = tmp_path_factory.mktemp("class")
    secret, grades, week = folder / "secret", folder / "grades", folder / "week1"
    secret.write_text("nobody reads this", encoding="utf-8")
    said: dict[str, str] = {}
    seconds: dict[str, float] = {}

    def course(command: str, *arguments: str | Path) -> None:
        began = time.monotonic()
        ran = run_course(command, *arguments)
        seconds[command] = time.monotonic() - began
        assert ran.returncode == 0, ran.stdout + ran.stderr
        said[command] = ran.stdout

    course("release", "07", "08", "--out", week)
    students = write_class(folder / "submissions", released=week, secret=secret, grades=grades)
    before = digests(week), digests(folder / "submissions")
    options: Sequence[str | Path] = ("--lessons", "07", "--seed", str(SEED), "--seconds", "3")
    course("grade", folder / "submissions", "--out", grades, *options)
    graded = digests(grades)
    results = {one.student: one for one in read_results(grades)}
    pages = {
        name: (grades / name).read_text(encoding="utf-8") for name in ("class.html", "grades.csv")
    }
    (grades / "decisions.yml").write_text(DECISIONS, encoding="utf-8")
    points = folder / "points.yml"
    points.write_text("".join(f'"07.{n}": 2\n' for n in range(1, 7)), encoding="utf-8")
    course("report", grades, "--points", points, "--term", folder / "term.csv")
    print("; ".join(f"{name}: {duration(spent)}" for name, spent in seconds.items()))
    return GradedClass(
        {one.name: one for one in students},
        results,
        read_run(grades),
        folder,
        *before,
        graded,
        pages,
        said,
        seconds,
    )
