"""The syllabus holds what the course promises, and refuses what it could not mean."""

from __future__ import annotations

import copy

import pytest
import yaml

from course.syllabus import SYLLABUS_FILE, load_syllabus
from ehr_course.errors import InputError
from ehr_course.exercises.catalogue import all_exercises

CHECKABLE_VERBS = {
    "Block", "Build", "Check", "Compare", "Compute", "Corrupt", "Count", "Decode", "Describe",
    "Detect", "Draw", "Encode", "Fold", "Give", "Measure", "Name", "Normalise", "Order", "Pad",
    "Predict", "Prepend", "Reduce", "Repair", "Report", "Reshape", "Show", "Split", "Take", "Tell",
    "Test", "Train", "Turn", "Verify", "Write",
}  # fmt: skip


@pytest.fixture
def content() -> dict:
    return yaml.safe_load(SYLLABUS_FILE.read_text(encoding="utf-8"))


@pytest.fixture
def load(tmp_path):
    def write_and_load(content):
        file = tmp_path / "syllabus.yml"
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        return load_syllabus(file)

    return write_and_load


def test_lessons_stand_in_order_with_their_minutes():
    assert [(lesson.number, lesson.minutes) for lesson in load_syllabus()] == [
        ("00", 20),
        ("07", 75),
        ("08", 60),
        ("09", 90),
        ("10", 60),
        ("11", 105),
        ("12", 95),
        ("13", 75),
        ("14", 80),
        ("15", 110),
        ("16", 100),
        ("17", 95),
        ("18", 80),
        ("19", 110),
    ]


def test_each_objective_begins_with_a_verb_that_can_be_checked():
    verbs = {text.split()[0] for lesson in load_syllabus() for text in lesson.objectives}
    assert verbs <= CHECKABLE_VERBS


def test_the_exercises_are_those_that_have_checks_under_the_same_titles():
    written = {e.id: e.title for lesson in load_syllabus() for e in lesson.exercises}
    assert written == {exercise.id: exercise.title for exercise in all_exercises()}


def test_loading_what_was_written_gives_the_same(load, content):
    assert load(content) == load_syllabus()


def _set(path, value):
    def change(content):
        *way, last = path
        target = content["lessons"]
        for step in way:
            target = target[step]
        target[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set([1, "number"], 7), r"lesson 2 of the list: number is 7\. Write text"),
        (_set([1, "number"], "7"), "Write two digits"),
        (_set([1, "number"], "00"), "lesson 00: it does not come after"),
        (_set([1, "slug"], "Token ization"), "lesson 07: slug is"),
        (_set([1, "minutes"], "75"), "minutes is '75'. Write a whole number"),
        (_set([1, "minutes"], True), "minutes is True. Write a whole number"),
        (_set([1, "minutes"], 10), "its exercises take 44 minutes, the lesson 10"),
        (_set([1, "prerequisites"], ["08"]), r"prerequisites \['08'\] are no earlier lessons"),
        (_set([1, "objectives"], ["Compute one."]), "1 objectives. Write three to six"),
        (_set([1, "objectives"], [1, 2, 3]), "Write three to six sentences"),
        (_set([1, "exercises"], []), "lesson 07: no exercises"),
        (_set([1, "exercises", 2, "id"], "07.4"), "exercise 07.3: id is '07.4'"),
        (_set([1, "exercises", 0, "difficulty"], 4), "exercise 07.1: difficulty is 4"),
        (_set([1, "exercises", 0, "minutes"], 0), "exercise 07.1: minutes is 0"),
        (_set([1, "hours"], 1), "unknown: hours"),
        (_set([1], "text"), "lesson 2 of the list: not a mapping"),
    ],
)
def test_a_wrong_entry_is_named_with_its_place(load, content, change, message):
    wrong = copy.deepcopy(content)
    change(wrong)
    with pytest.raises(InputError, match=message):
        load(wrong)


def test_a_missing_key_is_named(load, content):
    del content["lessons"][0]["title"]
    with pytest.raises(InputError, match="lesson 1 of the list: missing: title"):
        load(content)


def test_a_file_that_is_not_yaml_is_named(tmp_path):
    file = tmp_path / "syllabus.yml"
    file.write_text("lessons: [", encoding="utf-8")
    with pytest.raises(InputError, match=r"syllabus\.yml: not YAML"):
        load_syllabus(file)
