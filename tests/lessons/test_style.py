"""Every lesson has the parts that the course promises, in code that fits the page."""

from __future__ import annotations

import re

import pytest
from lesson_files import LESSONS, SOLUTIONS, WHAT_HOLDS, cells_tagged, name, read_source, tags

from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.checklist import Checklist

LONGEST_CODE_LINE = 75  # a longer line is clipped on the book's page

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=name)
each_source = pytest.mark.parametrize("source", [*LESSONS, WHAT_HOLDS, *SOLUTIONS], ids=name)


def prose(lesson) -> str:
    return "\n\n".join(c.source for c in read_source(lesson).cells if c.cell_type == "markdown")


@each_source
def test_code_lines_fit_the_page(source):
    code = [cell.source for cell in read_source(source).cells if cell.cell_type == "code"]
    long = [line for text in code for line in text.splitlines() if len(line) > LONGEST_CODE_LINE]
    assert long == []


@each_lesson
def test_the_parameters_come_before_all_other_code_of_the_lesson(lesson):
    code = [cell for cell in read_source(lesson).cells if cell.cell_type == "code"]
    assert [tags(cell) for cell in code[:2]] == [["opened-alone", "hide-input"], ["parameters"]]


@each_lesson
def test_a_lesson_has_an_interactive_widget(lesson):
    assert any("widget" in tags(cell) for cell in read_source(lesson).cells)


@each_lesson
@pytest.mark.parametrize("heading", ["Recap", "Test yourself", "What comes next"])
def test_a_lesson_ends_in_recap_questions_and_outlook(lesson, heading):
    assert f"## {heading}" in prose(lesson).splitlines()


@each_lesson
def test_three_questions_have_folded_answers(lesson):
    section = prose(lesson).split("## Test yourself")[1].split("\n## ")[0]
    folded = re.findall(r"<details>.*?<summary>.+?</summary>.+?</details>", section, re.DOTALL)
    assert len(folded) == 3


@each_lesson
def test_the_recap_answers_every_objective(lesson):
    head = read_source(lesson).cells[0].source
    recap = prose(lesson).split("## Recap")[1].split("\n## ")[0]
    objectives, answers = (re.findall(r"^- ", text, re.MULTILINE) for text in (head, recap))
    assert len(answers) == len(objectives)


@each_lesson
def test_what_stands_between_html_tags_is_written_as_html(lesson):
    folded = re.findall(r"<details>.*?</details>", prose(lesson), re.DOTALL)
    assert [text for text in folded if "`" in text.split("\n\n")[0]] == []


@each_lesson
def test_an_exercise_is_a_stub_and_its_check(lesson):
    for exercise, cell in cells_tagged(read_source(lesson), "exercise").items():
        assert tags(cell) == [f"exercise:{exercise}", "nbval-ignore-output"]
        is_form = isinstance(find_exercise(exercise), Checklist)
        assert is_form or "raise NotImplementedError" in cell.source
        assert re.search(rf'^check\("{re.escape(exercise)}", \w+\)$', cell.source, re.MULTILINE)


@each_source
def test_a_claim_is_measured_with_an_assertion(source):
    for claim, cell in cells_tagged(read_source(source), "claim").items():
        assert re.search(r"^ *assert ", cell.source, re.MULTILINE), f"claim {claim}"
