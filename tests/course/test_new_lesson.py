"""`course new` makes a lesson that passes the course's tests, or leaves everything as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course import new_lesson
from course.command_error import CommandError
from course.notebook import LessonError
from course.syllabus import load_syllabus
from ehr_course.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
NAME = "21_survival_analysis"
FOR_THE_NEW_LESSON = (
    "tests/lessons",
    "tests/exercises",
    "tests/course/test_course_syllabus.py",
    "tests/course/test_lesson_tables.py",
    "tests/book/test_book.py::test_the_table_of_times_has_every_lesson",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """Copy the course and make a lesson in the copy, as the command does."""
    copy = tmp_path_factory.mktemp("copy") / "course"
    ignored = shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=ignored)
    done = in_copy(copy, "course.new_lesson", "21", "survival_analysis")
    assert done.returncode == 0, done.stderr
    return copy


def in_copy(copy: Path, *module: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *module],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=500,
    )


def passed(done: subprocess.CompletedProcess) -> int:
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) passed", done.stdout)[1])


def test_the_new_lesson_stands_in_the_syllabus_and_in_both_tables(copy):
    *_, last = load_syllabus(copy / "course" / "syllabus.yml")
    assert (last.name, last.title) == (NAME, "Survival analysis")
    for file in ("README.md", "lessons/00_start_here.py"):
        assert "[21 Survival analysis](" in (copy / file).read_text(encoding="utf-8")


def test_the_new_lesson_passes_the_tests_of_every_lesson(copy):
    about = "survival_analysis or 21.1 or 00_start_here or syllabus or tables or table_of_times"
    slow = "not test_solved or survival_analysis"
    done = in_copy(copy, "pytest", "-q", *FOR_THE_NEW_LESSON, "-k", f"({about}) and ({slow})")
    assert passed(done) > 100


def test_the_new_lesson_passes_under_nbval(copy):
    cells = in_copy(copy, "pytest", "-q", "--nbval", f"lessons/{NAME}.ipynb")
    assert passed(cells) == 7
    assert "21.1   The share of visits with a code  not attempted" in cells.stdout


@pytest.mark.parametrize("check", [("check", "."), ("format", "--check", ".")])
def test_the_new_files_have_the_style_of_the_others(copy, check):
    done = in_copy(copy, "ruff", *check)
    assert done.returncode == 0, done.stdout


def test_course_build_would_change_nothing(copy):
    done = in_copy(copy, "course.build", "--check")
    new_or_table = [line for line in done.stdout.splitlines() if re.search("21_|00_|table", line)]
    assert new_or_table == [], done.stdout


@pytest.fixture
def course_folder(tmp_path) -> Path:
    """Copy the files that `course new` reads or changes."""
    for file in (
        "README.md",
        "course/syllabus.yml",
        "course/book/lesson_times.csv",
        "lessons/00_start_here.py",
        "lessons/00_start_here.ipynb",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for folder in ("solutions", "ehr_course/exercises/lessons"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("07", "other"), "There is a lesson 07_tokenization already.\nNumbers from .* are free"),
        (("7", "other"), "There is a lesson 07_tokenization already"),
        (("21", "tokenization"), "There is a lesson 07_tokenization already.\nChoose another sl"),
        (("200", "other"), "'200' is not a lesson's number"),
        (("x", "other"), "'x' is not a lesson's number"),
        (("٢٠", "other"), "is not a lesson's number"),
        (("21", "Other"), "'Other' cannot be part of a file's name.\nUse lower-case"),
        (("21", "../other"), "cannot be part of a file's name"),
        (("21", ""), "'' cannot be part of a file's name"),
    ],
)
def test_a_number_or_slug_that_will_not_do_is_refused(course_folder, arguments, message):
    before = files(course_folder)
    with pytest.raises(CommandError, match=message) as error:
        new_lesson.main([*arguments], root=course_folder)
    assert error.value.exit_code == 2
    assert files(course_folder) == before


@pytest.mark.parametrize(
    "there",
    [
        f"lessons/{NAME}.ipynb",
        f"solutions/{NAME}.py",
        "ehr_course/exercises/lessons/lesson_21.yml",
    ],
)
def test_a_file_that_is_there_is_not_overwritten(course_folder, there):
    (course_folder / there).write_text("an author's work", encoding="utf-8")
    before = files(course_folder)
    with pytest.raises(CommandError, match=f"{re.escape(there)} is there already"):
        new_lesson.main(["21", "survival_analysis"], root=course_folder)
    assert files(course_folder) == before


@pytest.mark.parametrize("raised", [LessonError("cell 3: it broke"), KeyboardInterrupt()])
@pytest.mark.parametrize("good_builds", [0, 1, 2])
def test_a_failure_on_the_way_leaves_everything_as_it_was(
    course_folder, monkeypatch, good_builds, raised
):
    before = files(course_folder)
    written = []

    def build(source: Path, target: Path) -> None:
        assert source.is_file()
        if len(written) == good_builds:
            raise raised
        target.write_text("a notebook", encoding="utf-8")
        written.append(target)

    monkeypatch.setattr(new_lesson, "build_notebook", build)
    expected = CommandError if isinstance(raised, LessonError) else KeyboardInterrupt
    with pytest.raises(expected):
        new_lesson.main(["21", "survival_analysis"], root=course_folder)
    assert len(written) == good_builds
    assert files(course_folder) == before


def test_a_syllabus_that_is_wrong_is_named_before_anything_is_written(course_folder):
    syllabus = course_folder / "course" / "syllabus.yml"
    text = syllabus.read_text(encoding="utf-8")
    syllabus.write_text(text.replace("difficulty: 1", "difficulty: 9", 1), encoding="utf-8")
    before = files(course_folder)
    with pytest.raises(InputError, match="difficulty is 9"):
        new_lesson.main(["21", "survival_analysis"], root=course_folder)
    assert files(course_folder) == before


def test_a_lesson_can_stand_between_two_others(course_folder, monkeypatch):
    def build(source: Path, target: Path) -> new_lesson.Built:
        target.write_text("a notebook", encoding="utf-8")
        return new_lesson.Built(target, seconds=1.0, changed=True)

    monkeypatch.setattr(new_lesson, "build_notebook", build)
    old = load_syllabus(course_folder / "course" / "syllabus.yml")
    assert new_lesson.main(["3", "yes"], root=course_folder) == 0
    first, new, *rest = load_syllabus(course_folder / "course" / "syllabus.yml")
    assert (first, *rest) == old
    assert (new.name, new.title, new.prerequisites) == ("03_yes", "Yes", ("00",))
