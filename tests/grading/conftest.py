"""A class that is graded once, by the command, for every test that looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from classroom import Student, digests, run_grader, write_class

from course.grading.results import RunAbout, StudentResult, read_results, read_run

SEED = 5
"""With this seed the verdict on the student `chance` depends on it."""


@dataclass(frozen=True)
class GradedClass:
    """A class and what the grader made of it.

    Attributes:
        students: what is to be found, by name.
        results: what was found, by name.
        about: how the run was made.
        folder: what holds `submissions`, `grades` and the file `secret`.
        submissions: the digests of the submissions before the run.
        said: what the command wrote to the terminal.
    """

    students: dict[str, Student]
    results: dict[str, StudentResult]
    about: RunAbout
    folder: Path
    submissions: dict[str, str]
    said: str


@pytest.fixture(scope="session")
def graded_class(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    folder = tmp_path_factory.mktemp("class")
    secret, grades = folder / "secret", folder / "grades"
    secret.write_text("nobody reads this", encoding="utf-8")
    students = write_class(folder / "submissions", secret=secret, grades=grades)
    before = digests(folder / "submissions")
    options = ["--out", grades, "--seed", SEED, "--seconds", 3]
    ran = run_grader(folder / "submissions", *options)
    assert ran.returncode == 0, ran.stderr
    results = {one.student: one for one in read_results(grades)}
    return GradedClass(
        {one.name: one for one in students},
        results,
        read_run(grades),
        folder,
        before,
        ran.stdout,
    )
