"""The syllabus is the one place: lessons, solutions and checks say what it says."""

from __future__ import annotations

import re

import pytest
from lesson_files import LESSONS, SOLUTIONS, cells_tagged, name, number, read_source

from course.syllabus import Lesson, load_syllabus
from ehr_course.exercises.catalogue import lesson_exercises
from ehr_course.exercises.exercise import Exercise

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=name)


def about(lesson) -> Lesson:
    """Return a lesson's entry in the syllabus."""
    (entry,) = [entry for entry in load_syllabus() if entry.number == number(lesson)]
    return entry


def test_syllabus_and_folder_list_the_same_lessons():
    assert [lesson.stem for lesson in LESSONS] == [entry.name for entry in load_syllabus()]


@each_lesson
def test_the_head_says_title_minutes_and_prerequisites(lesson):
    entry = about(lesson)
    lines = read_source(lesson).cells[0].source.splitlines()
    needed = ", ".join(entry.prerequisites) or "none"
    assert lines[0] == f"# {entry.number} · {entry.title}"
    assert f"{entry.minutes} minutes · Prerequisites: {needed}" in lines


@each_lesson
def test_the_head_lists_the_objectives(lesson):
    head = read_source(lesson).cells[0].source
    items = re.findall(r"^- (.+(?:\n  .+)*)", head, re.MULTILINE)
    assert tuple(" ".join(item.split()) for item in items) == about(lesson).objectives


@each_lesson
def test_the_lesson_holds_its_exercises_in_order(lesson):
    ids = [exercise.id for exercise in about(lesson).exercises]
    assert list(cells_tagged(read_source(lesson), "exercise")) == ids


@each_lesson
def test_each_exercise_has_a_heading_with_its_title(lesson):
    prose = [cell.source for cell in read_source(lesson).cells if cell.cell_type == "markdown"]
    headings = re.findall(r"^#+ (\d\d\.\d+ .+)$", "\n".join(prose), re.MULTILINE)
    assert headings == [f"{exercise.id} {exercise.title}" for exercise in about(lesson).exercises]


@each_lesson
def test_the_optional_exercises_are_those_that_stand_in_an_aside(lesson):
    prose = [cell.source for cell in read_source(lesson).cells if cell.cell_type == "markdown"]
    inside = re.findall(r"^#### (\d\d\.\d+) ", "\n".join(prose), re.MULTILINE)
    assert inside == [one.id for one in about(lesson).exercises if one.optional]


@each_lesson
def test_no_exercise_speaks_of_an_optional_one_that_may_have_been_left_out(lesson):
    """Only an optional exercise may, and of its own lesson."""
    optional = {one.id for entry in load_syllabus() for one in entry.exercises if one.optional}
    for one in lesson_exercises(number(lesson)):
        words = [*one.hints]
        if isinstance(one, Exercise):
            words += [idea.diagnosis for idea in one.words.misconceptions.values()]
            words += [remark.remark for remark in one.words.remarks.values()]
        own = {other for other in optional if one.optional and other[:2] == one.id[:2]}
        named = re.findall(r"\b\d\d\.\d+\b(?! years)", " ".join(words))
        assert optional.intersection(named) <= own, one.id


@each_lesson
def test_each_exercise_says_its_difficulty_and_minutes(lesson):
    prose = [cell.source for cell in read_source(lesson).cells if cell.cell_type == "markdown"]
    lines = re.findall(r"^Try It Yourself · .+$", "\n".join(prose), re.MULTILINE)
    assert lines == [
        f"Try It Yourself · {'★' * exercise.difficulty} · {exercise.minutes} minutes"
        for exercise in about(lesson).exercises
    ]


@pytest.mark.parametrize("solution", SOLUTIONS, ids=name)
def test_the_solutions_answer_every_exercise(solution):
    ids = [exercise.id for exercise in about(solution).exercises]
    cells = read_source(solution)
    assert list(cells_tagged(cells, "answer")) == ids
    assert list(cells_tagged(cells, "alternative")) == ids


@each_lesson
def test_the_checks_have_the_same_ids_and_titles(lesson):
    checked = [(one.id, one.title, one.optional) for one in lesson_exercises(number(lesson))]
    expected = [(one.id, one.title, one.optional) for one in about(lesson).exercises]
    assert checked == expected
