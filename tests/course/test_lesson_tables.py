"""The tables of lessons in README.md and in lesson 00 are those of the syllabus."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from course import build
from course.command_error import CommandError
from course.lesson_tables import BEGIN, END, stale, up_to_date
from course.syllabus import load_syllabus

ROOT = Path(__file__).resolve().parents[2]
README, START = Path("README.md"), Path("lessons", "00_start_here.py")
ROW = re.compile(r"^(?:# )?\| \[(\d\d) ([^]]+)\]\(([^)]+)\) \| (\d+) \| (.+) \|$", re.MULTILINE)


def rows(file: Path) -> list[tuple[str, str, int, str]]:
    """Return (number, title, minutes, what you build) of each row; its link must lead on."""
    found = []
    for number, title, link, minutes, builds in ROW.findall(file.read_text(encoding="utf-8")):
        assert (file.parent / link).is_file(), link
        found.append((number, title, int(minutes), builds))
    return found


@pytest.mark.parametrize("file", [README, START], ids=str)
def test_a_table_lists_the_lessons_of_the_syllabus(file):
    expected = [(one.number, one.title, one.minutes, one.builds) for one in load_syllabus()]
    assert rows(ROOT / file) == expected, "run: python3 -m course build 00"


@pytest.fixture
def course_folder(tmp_path) -> Path:
    """Copy the syllabus and the two files with a table."""
    for folder in ("course", "lessons"):
        (tmp_path / folder).mkdir()
    for file in (README, START, Path("course", "syllabus.yml")):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def change_minutes(course_folder: Path) -> tuple[int, int]:
    """Give the second lesson a minute more; return its minutes before and after."""
    syllabus = course_folder / "course" / "syllabus.yml"
    lesson = load_syllabus(syllabus)[1]
    before, after = lesson.minutes, lesson.minutes + 1
    start, found, rest = syllabus.read_text(encoding="utf-8").partition(f"slug: {lesson.slug}\n")
    assert found
    rest = rest.replace(f"    minutes: {before}\n", f"    minutes: {after}\n", 1)
    syllabus.write_text(start + found + rest, encoding="utf-8")
    assert load_syllabus(syllabus)[1].minutes == after
    return before, after


def test_a_change_of_the_syllabus_makes_both_tables_stale_until_they_are_written(course_folder):
    assert stale(course_folder) == []
    old, new = change_minutes(course_folder)
    assert stale(course_folder) == [course_folder / README, course_folder / START]
    before = ROW.findall((course_folder / START).read_text(encoding="utf-8"))
    assert build.write_tables(course_folder) == [course_folder / README, course_folder / START]
    assert stale(course_folder) == []
    after = ROW.findall((course_folder / START).read_text(encoding="utf-8"))
    assert (before[1][3], after[1][3]) == (str(old), str(new))
    assert after[:1] + after[2:] == before[:1] + before[2:]


def test_build_check_names_a_stale_table(course_folder, capsys):
    (course_folder / START).rename(course_folder / "lessons" / "07_other.py")
    change_minutes(course_folder)
    assert build.main(["--check"], root=course_folder) == 1
    said = capsys.readouterr().out
    assert "README.md: its table of lessons is not the syllabus's." in said
    assert "lessons/07_other.py: its table of lessons is not the syllabus's." in said


@pytest.mark.parametrize("change", [(END, ""), (BEGIN, f"{BEGIN}\n{BEGIN}"), (BEGIN, "")])
def test_a_table_without_a_clear_place_is_named(course_folder, change):
    readme = course_folder / README
    readme.write_text(readme.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    with pytest.raises(CommandError, match=r"README\.md has no clear place") as error:
        up_to_date(course_folder)
    assert BEGIN in str(error.value)
    assert END in str(error.value)
