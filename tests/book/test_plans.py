"""The teachers' plans add up, and no lesson comes before one that it needs."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from course.syllabus import load_syllabus

PAGE = Path(__file__).resolve().parents[2] / "course" / "book" / "for_teachers.md"
ROW = re.compile(r"^\| (a \w+) \| [^|]+ \| ([\d, ]+) \| (\d+) \|$", re.MULTILINE)
ROWS = [
    (plan, lessons.split(", "), int(minutes))
    for plan, lessons, minutes in ROW.findall(PAGE.read_text(encoding="utf-8"))
]
LESSONS = {lesson.number: lesson for lesson in load_syllabus()}


def plans() -> dict[str, list[str]]:
    return {
        plan: [number for _, lessons, _ in rows for number in lessons]
        for plan, rows in groupby(ROWS, key=lambda row: row[0])
    }


def test_there_are_plans_for_a_day_a_week_and_a_term() -> None:
    assert list(plans()) == ["a day", "a week", "a term"]
    assert plans()["a term"] == list(LESSONS)


def test_minutes_are_those_of_the_syllabus() -> None:
    for _, lessons, minutes in ROWS:
        assert minutes == sum(LESSONS[number].minutes for number in lessons), lessons


def test_a_day_is_not_longer_than_six_hours() -> None:
    assert all(minutes <= 360 for _, _, minutes in ROWS)


def test_what_a_lesson_needs_comes_before_it() -> None:
    for lessons in plans().values():
        for place, number in enumerate(lessons):
            assert set(LESSONS[number].prerequisites) <= set(lessons[:place]), number
