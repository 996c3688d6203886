"""The three modes of a lesson under nbval: not attempted, solved, and wrong.

Unsolved, every cell of every lesson runs under ``pytest --nbval lessons/``. Here the first lesson
runs in each mode.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import nbformat
import pytest
from lesson_files import LESSONS, ROOT, cells_tagged, read_stored, tags, with_answers

from course.syllabus import load_syllabus

EXERCISE = "00.1"
WRONG_CHANGE = ("return len(seen)", "return len(visits)")
WRONG_DIAGNOSIS = "You counted the visits."


@pytest.fixture
def empty_course(tmp_path):
    """Copy what a course is besides its lessons; a source that is collected as a test raises."""
    for file in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    shutil.copytree(ROOT / "course", tmp_path / "course", ignore=shutil.ignore_patterns("book"))
    (tmp_path / "lessons").mkdir()
    source = tmp_path / "lessons" / "00_collected.py"
    source.write_text('raise AssertionError("a source was collected")', encoding="utf-8")
    return tmp_path


def pytest_nbval(folder, path, *options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", path, *options],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.fixture
def nbval_of_first_lesson(empty_course):
    """Run ``pytest --nbval lessons/`` where lesson 00's imports and some exercises stand alone."""

    def run(notebook, *options, exercises=(EXERCISE,)) -> subprocess.CompletedProcess:
        kept = {f"exercise:{exercise}" for exercise in exercises}
        notebook.cells = [
            cell
            for cell in notebook.cells
            if kept & {*tags(cell)} or "from ehr_course.exercises" in cell.source
        ]
        assert [cell.cell_type for cell in notebook.cells] == ["code"] * (1 + len(exercises))
        nbformat.write(notebook, empty_course / "lessons" / f"{LESSONS[0].stem}.ipynb")
        return pytest_nbval(empty_course, "lessons/", *options)

    return run


def row_of_the_table(run: subprocess.CompletedProcess, exercise: str = EXERCISE) -> str:
    """Return the exercise's row in the table that ends the run, its spaces narrowed."""
    table = run.stdout.rpartition(" exercises ")[2]
    rows = [" ".join(line.split()) for line in table.splitlines()]
    return next((row for row in rows if row.startswith(f"{exercise} ")), run.stdout)


def expected_row(outcome: str, exercise: str = EXERCISE) -> str:
    exercises = [one for lesson in load_syllabus() for one in lesson.exercises]
    (title,) = [one.title for one in exercises if one.id == exercise]
    return f"{exercise} {title} {outcome}"


def test_nbval_passes_an_exercise_that_is_not_attempted(nbval_of_first_lesson):
    run = nbval_of_first_lesson(read_stored(LESSONS[0]))
    assert run.returncode == 0, run.stdout
    assert row_of_the_table(run) == expected_row("not attempted")


def test_nbval_passes_a_right_answer_although_the_stored_output_says_otherwise(
    nbval_of_first_lesson,
):
    run = nbval_of_first_lesson(with_answers(LESSONS[0]))
    assert run.returncode == 0, run.stdout
    assert row_of_the_table(run) == expected_row("solved")


def test_nbval_fails_a_wrong_answer_with_its_diagnosis(nbval_of_first_lesson):
    notebook = with_answers(LESSONS[0])
    cell = cells_tagged(notebook, "exercise")[EXERCISE]
    right, wrong = WRONG_CHANGE
    assert right in cell.source
    cell.source = cell.source.replace(right, wrong)
    run = nbval_of_first_lesson(notebook)
    assert run.returncode == 1, run.stdout
    assert WRONG_DIAGNOSIS in run.stdout
    assert row_of_the_table(run) == expected_row("not yet")


@pytest.mark.parametrize(
    ("options", "other"),
    [((), "not attempted"), (("-k", "not (Cell and 2)"), "not run")],
    ids=["all cells", "without the last cell"],
)
def test_nbval_tells_which_exercise_is_not_checked(nbval_of_first_lesson, options, other):
    notebook = read_stored(LESSONS[0])
    cell = cells_tagged(notebook, "exercise")[EXERCISE]
    cell.source = cell.source.replace(f'check("{EXERCISE}"', f'# check("{EXERCISE}"')
    run = nbval_of_first_lesson(notebook, *options, exercises=(EXERCISE, "00.2"))
    assert run.returncode == 0, run.stdout
    missing = f'not checked: the lesson has no check("{EXERCISE}") line'
    assert row_of_the_table(run) == expected_row(missing)
    assert row_of_the_table(run, "00.2") == expected_row(other, "00.2")
    assert f"1 not checked, 1 {other}" in run.stdout


def test_nbval_forgives_a_last_digit_shows_what_else_differs_and_misses_a_live_view(empty_course):
    """Run from inside lessons/, the other way that the course promises."""
    notebook = nbformat.v4.new_notebook()
    for source, stored in (("print(1.235)", "1.234\n"), ('print("18 codes")', "17 codes\n")):
        output = nbformat.v4.new_output("stream", name="stdout", text=stored)
        notebook.cells.append(
            nbformat.v4.new_code_cell(source, execution_count=1, outputs=[output])
        )
    no_view = {"tags": ["widget", "nbval-ignore-output"]}
    notebook.cells.append(nbformat.v4.new_code_cell("18", execution_count=1, metadata=no_view))
    nbformat.write(notebook, empty_course / "lessons" / "07_example.ipynb")
    run = pytest_nbval(empty_course / "lessons", ".")
    assert "2 failed, 1 passed" in run.stdout
    assert "The widget has no live view" in run.stdout
    assert "stored: 17 codes\n  now:    18 codes\n" in run.stdout
    assert "python3 -m course build 07" in run.stdout
