"""A class of thirty is graded: everybody gets what the answers deserve, and no attack succeeds."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from classroom import IDS, NOT_YET, NOTHING, attacks, digests, names_of_the_class

from course.grading.results import FLAGS
from course.grading.sandbox import landlock

each_student = pytest.mark.parametrize("name", names_of_the_class())
each_attack = pytest.mark.parametrize("name", attacks(Path(), Path(), Path()))
needs_landlock = pytest.mark.skipif(
    sys.platform != "linux" or landlock.version() == 0, reason="this system has no Landlock"
)


def test_there_are_thirty_and_each_has_one_result(graded_class):
    assert len(graded_class.students) >= 30
    assert graded_class.results.keys() == graded_class.students.keys()


@each_student
def test_a_student_gets_what_the_answers_deserve(name, graded_class):
    student, result = graded_class.students[name], graded_class.results[name]
    assert [one.id for one in result.exercises] == list(IDS)
    for one in result.exercises:
        wanted = student.outcomes.get(one.id, NOTHING)
        if one.id in student.misconceptions:
            assert (one.outcome, one.misconception) == (NOT_YET, student.misconceptions[one.id])
            assert len(one.message) > 40
        elif wanted is not None:
            assert one.outcome == wanted, f"{one.id}: {one.message} {one.details}"
        assert one.points == (one.out_of if one.is_solved else 0)
    assert result.points == sum(one.points for one in result.exercises)


@each_student
def test_a_student_is_flagged_where_a_teacher_should_look(name, graded_class):
    student, result = graded_class.students[name], graded_class.results[name]
    flags = {one.id: one.flags for one in result.exercises} | {"": result.flags}
    for place, flag in student.flags.items():
        assert flag in flags[place]
    found = {flag for some in flags.values() for flag in some}
    assert found <= FLAGS.keys()
    if not student.flags and name != "chance":
        assert found <= {"absent"}


@needs_landlock
@each_attack
def test_an_attack_is_not_solved_and_harms_nobody(name, graded_class):
    first, second, *rest = graded_class.results[name].exercises
    assert not first.is_solved
    assert second.is_solved  # the next answer of the same student is graded as if nothing had been
    assert all(one.outcome == NOTHING for one in rest)


def test_nothing_was_written_but_the_grades(graded_class):
    folder = graded_class.folder
    assert digests(folder / "submissions") == graded_class.submissions
    assert (folder / "secret").read_text(encoding="utf-8") == "nobody reads this"
    keys = {one.key for one in graded_class.results.values()}
    each = ("result.json", "index.html", "gradescope/results.json")
    wanted = {f"students/{key}/{name}" for key in keys for name in each}
    wanted |= {"grades.csv", "run.json", "class.html"}
    assert digests(folder / "grades").keys() == wanted


@needs_landlock
def test_the_run_says_what_kept_the_code(graded_class):
    assert graded_class.about.protection.missing == ()
    assert "Landlock" in graded_class.about.protection.files
    assert "Kept from the students' code: files (Landlock" in graded_class.said


def test_a_verdict_that_depends_on_the_seed_counts_as_the_least_favourable(graded_class):
    first = graded_class.results["chance"].exercises[0]
    assert {one.outcome for one in first.seeds} == {"solved", NOT_YET}
    assert (first.outcome, first.points) == (NOT_YET, 0)
    assert "seed" in first.flags
    assert "The verdict depends on the seed: solved with seed 5" in " ".join(first.notes)


def test_of_two_answers_the_notes_say_which_is_graded_and_why(graded_class):
    first = graded_class.results["copied"].exercises[0]
    assert "There are 2 different answers. Graded is cell" in first.notes[0]
    assert "the last one before the others" in first.notes[0]


def test_what_an_answer_uses_is_taken_along_and_nothing_else(graded_class):
    one, _, three, *_ = graded_class.results["helper"].exercises
    assert "first_id = 3\nfirst_id += 4" in one.source
    assert "def place" in one.source
    assert "chain" not in one.source
    assert "encode_visit" in three.notes[0]


def test_the_table_has_a_row_for_each_student(graded_class):
    with (graded_class.folder / "grades" / "grades.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows.keys() == graded_class.students.keys()
    for name, result in graded_class.results.items():
        assert float(rows[name]["total"]) == result.points
        assert [float(rows[name][one.id]) for one in result.exercises] == [
            one.points for one in result.exercises
        ]
    assert rows["copied"]["flags"] == "07.1 double"


def test_a_stopped_answer_names_its_limit(graded_class):
    first = graded_class.results["endless"].exercises[0]
    assert first.message.startswith("Your function was stopped: not finished after 3 seconds.")
    assert len(first.seeds) == 1  # another seed would be stopped, too


def test_too_much_memory_is_the_answers_error_alone(graded_class):
    first = graded_class.results["memory"].exercises[0]
    assert ("raised", "MemoryError") in first.details
