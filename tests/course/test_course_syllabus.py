"""The syllabus holds what the course promises, and refuses what it could not mean."""

from __future__ import annotations

import copy

import pytest
import yaml

from course.syllabus import SYLLABUS_FILE, load_syllabus
from ehr_course.errors import InputError
from ehr_course.exercises.catalogue import all_exercises

CHECKABLE_VERBS = {
    "Assemble", "Attack",
    "Block", "Build", "Check", "Compare", "Compute", "Corrupt", "Count", "Decode", "Describe",
    "Detect", "Draw", "Encode", "Fold", "Give", "Judge", "Measure", "Name", "Normalise", "Order",
    "Pad", "Predict", "Prepend", "Reduce", "Repair", "Report", "Reshape", "Show", "Split", "Take",
    "Tell", "Test", "Train", "Turn", "Verify", "Write",
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


def test_each_objective_begins_with_a_verb_that_can_be_checked():
    verbs = {text.split()[0] for lesson in load_syllabus() for text in lesson.objectives}
    assert verbs <= CHECKABLE_VERBS


def test_the_exercises_are_those_that_have_checks_under_the_same_titles():
    written = {e.id: e.title for lesson in load_syllabus() for e in lesson.exercises}
    assert written == {exercise.id: exercise.title for exercise in all_exercises()}


def test_loading_what_was_written_gives_the_same(load, content):
    assert load(content) == load_syllabus()


EXERCISE_MINUTES = sum(exercise.minutes for exercise in load_syllabus()[1].exercises)
"""Of the second lesson."""


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
        (_set([1, "number"], 7), "lessons > 2 > number: .* string, and it is 7. Write text"),
        (_set([1, "number"], "7"), "lessons > 2 > number: number is '7'. Write two digits"),
        (_set([1, "number"], "٠٧"), "Write two digits"),
        (_set([1, "number"], "00"), "lessons > 2 > number: lesson 00 does not come after"),
        (_set([1, "slug"], "Token ization"), "lessons > 2 > slug: slug is 'Token ization'"),
        (_set([1, "title"], ""), "lessons > 2 > title: '' does not fit into a table"),
        (_set([1, "builds"], "a | b"), "lessons > 2 > builds: 'a | b' does not fit"),
        (_set([1, "minutes"], "75"), "lessons > 2 > minutes: .*'75'. Write a whole number"),
        (_set([1, "minutes"], True), "lessons > 2 > minutes: .*True. Write a whole number"),
        (
            _set([1, "minutes"], 10),
            f"lessons > 2: its exercises take {EXERCISE_MINUTES} minutes, the lesson 10",
        ),
        (_set([1, "prerequisites"], ["08"]), "prerequisites > 1: 08 is not an earlier lesson"),
        (_set([1, "prerequisites"], [0]), "prerequisites > 1: .* Write text"),
        (_set([1, "objectives"], ["Compute one."]), "1 objectives. Write three to six"),
        (_set([1, "objectives"], [1, 2, 3]), "objectives > 1: .* Write text"),
        (_set([1, "exercises"], []), "lessons > 2 > exercises: no exercises. Write at least"),
        (_set([1, "exercises", 2, "id"], "07.4"), "exercises > 3 > id: id is '07.4'. .*07.3"),
        (_set([1, "exercises", 0, "difficulty"], 4), "exercises > 1 > difficulty: .* is 4"),
        (_set([1, "exercises", 0, "minutes"], 0), "exercises > 1 > minutes: minutes is 0"),
        (_set([1, "hours"], 1), "lessons > 2 > hours: extra .* Check its spelling"),
        (_set([1], "text"), "lessons > 2: .* Write `key: value` lines"),
    ],
)
def test_a_wrong_entry_is_named_with_its_place(load, content, change, message):
    wrong = copy.deepcopy(content)
    change(wrong)
    with pytest.raises(InputError, match=message):
        load(wrong)


def test_the_line_of_what_is_wrong_is_named(tmp_path):
    file = tmp_path / "syllabus.yml"
    lines = SYLLABUS_FILE.read_text(encoding="utf-8").splitlines()
    wrong = lines.index('  - number: "08"')
    lines[wrong] = '  - number: "06"'
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=rf"^{file}, line {wrong + 1}, lessons > 3 > number: "):
        load_syllabus(file)


def test_a_missing_key_is_named(load, content):
    del content["lessons"][0]["title"]
    with pytest.raises(InputError, match="lessons > 1 > title: field required"):
        load(content)


def test_a_file_that_is_not_yaml_is_named(tmp_path):
    file = tmp_path / "syllabus.yml"
    file.write_text("lessons: [", encoding="utf-8")
    with pytest.raises(InputError, match=r"syllabus\.yml, line \d+: is not YAML"):
        load_syllabus(file)
