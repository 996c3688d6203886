"""Three commands release a lesson, grade a class of thirty and report on it.

Everybody gets what the answers deserve, the page counts them, and no attack succeeds.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from pathlib import Path

import pytest
from attacks import NOT_YET, attacks
from classroom import NOTHING, SOLVED, names_of_the_class
from handed_in import IDS, LESSON, digests
from made_results import Page

from course.grading.results import FLAGS, harmless, read_results
from course.grading.sandbox import landlock
from course.syllabus import load_syllabus
from ehr_course.exercises.catalogue import find_exercise

COUNT = 30
STARS = {one.id: one.difficulty for lesson in load_syllabus() for one in lesson.exercises}
POINTS = {
    one.id: 0 if one.optional else one.difficulty
    for lesson in load_syllabus()
    for one in lesson.exercises
}
each_student = pytest.mark.parametrize("name", names_of_the_class())
each_attack = pytest.mark.parametrize("name", attacks(Path(), Path(), Path()))
needs_landlock = pytest.mark.skipif(
    sys.platform != "linux" or landlock.version() == 0, reason="this system has no Landlock"
)


@pytest.fixture(scope="module")
def page(class_of_thirty):
    return Page(class_of_thirty.pages["class.html"])


def rows(table: str) -> dict[str, dict[str, str]]:
    return {row["student"]: row for row in csv.DictReader(io.StringIO(table))}


def test_there_are_thirty_and_each_has_one_result(class_of_thirty):
    assert len(class_of_thirty.students) == COUNT
    assert class_of_thirty.results.keys() == class_of_thirty.students.keys()
    assert f"Graded {COUNT} students in lesson 07" in class_of_thirty.said["grade"]


def test_the_commands_take_less_than_ten_minutes(class_of_thirty):
    assert sum(class_of_thirty.seconds.values()) < 600


def test_students_open_the_released_notebooks(class_of_thirty):
    said = class_of_thirty.said["release"]
    assert "hold lesson 07, 08 for students." in said
    assert {f"lessons/{LESSON}.ipynb", "lessons/08_data_loading.ipynb"} <= (
        class_of_thirty.released.keys()
    )
    assert not [name for name in class_of_thirty.released if name.startswith("solutions")]


@each_student
def test_a_student_gets_what_the_answers_deserve(name, class_of_thirty):
    student, result = class_of_thirty.students[name], class_of_thirty.results[name]
    assert [one.id for one in result.exercises] == list(IDS)
    for one in result.exercises:
        wanted, idea = student.outcome(one.id), student.misconceptions.get(one.id)
        assert one.outcome == wanted, f"{one.id}: {one.message} {one.details}"
        if idea is not None:
            assert one.misconception == idea
            assert len(one.message) > 40
    assert result.out_of == sum(POINTS[one] for one in IDS) == 6
    assert result.points == sum(POINTS[one] for one in IDS if student.outcome(one) == SOLVED)


@each_student
def test_a_student_is_flagged_where_a_teacher_should_look(name, class_of_thirty):
    student, result = class_of_thirty.students[name], class_of_thirty.results[name]
    flags = {one.id: one.flags for one in result.exercises} | {"": result.flags}
    for place, flag in student.flags.items():
        assert flag in flags[place]
    found = {flag for some in flags.values() for flag in some}
    assert found <= FLAGS.keys()
    if not student.flags:
        assert found <= {"absent"}


@needs_landlock
@each_attack
def test_an_attack_is_not_solved_and_harms_nobody(name, class_of_thirty):
    first, second, *rest = class_of_thirty.results[name].exercises
    assert not first.is_solved
    assert second.is_solved  # the next answer of the same student is graded as if nothing had been
    assert all(one.outcome == NOTHING for one in rest)


def test_nothing_was_written_but_the_grades(class_of_thirty):
    folder = class_of_thirty.folder
    assert digests(folder / "week1") == class_of_thirty.released
    assert digests(folder / "submissions") == class_of_thirty.submissions
    assert (folder / "secret").read_text(encoding="utf-8") == "nobody reads this"
    assert {one.name for one in folder.iterdir()} == {
        *("week1", "week1.zip", "submissions", "secret", "grades", "points.yml", "term.csv")
    }
    keys = {one.key for one in class_of_thirty.results.values()}
    each = ("result.json", "index.html", "gradescope/results.json")
    wanted = {f"students/{key}/{name}" for key in keys for name in each}
    wanted |= {"grades.csv", "run.json", "class.html"}
    assert class_of_thirty.graded.keys() == wanted
    assert digests(folder / "grades").keys() == wanted | {"decisions.yml"}


@needs_landlock
def test_the_run_says_what_kept_the_code(class_of_thirty):
    assert class_of_thirty.about.protection.missing == ()
    assert "Landlock" in class_of_thirty.about.protection.files
    assert "Kept from the students' code: files (Landlock" in class_of_thirty.said["grade"]


def test_a_verdict_that_depends_on_the_seed_counts_as_the_least_favourable(class_of_thirty):
    first = class_of_thirty.results["chance"].exercises[0]
    assert {one.outcome for one in first.seeds} == {SOLVED, NOT_YET}
    assert "The verdict depends on the seed: solved with seed 5" in " ".join(first.notes)


def test_of_two_answers_the_notes_say_which_is_graded_and_why(class_of_thirty):
    first = class_of_thirty.results["copied"].exercises[0]
    assert "There are 2 different answers. Graded is cell" in first.notes[0]
    assert "the last one before the others" in first.notes[0]
    later = class_of_thirty.results["twice"].exercises[0]
    assert later.file == "twice/try 2/a.ipynb"


def test_what_an_answer_uses_is_taken_along_and_nothing_else(class_of_thirty):
    one, _, three, *_ = class_of_thirty.results["helper"].exercises
    assert "first_id = 3\nfirst_id += 4" in one.source
    assert "def place_of" in one.source
    assert "chain" not in one.source
    assert "token_id" in three.notes[0]
    beside = class_of_thirty.results["Åsa Öst"].exercises[0]
    assert beside.notes == ("It imports what was handed in beside it: my_place.",)


def test_a_whole_folder_handed_in_is_read_without_the_courses_own_files(class_of_thirty):
    eve = class_of_thirty.results["eve"]
    lessons = "eve_LATE_123_456_w.zip/week1/lessons"
    assert {one.path.rpartition("/")[0] for one in eve.files} == {lessons}
    assert {one.file for one in eve.exercises[:2]} == {f"{lessons}/{LESSON}.ipynb"}


def test_a_broken_file_says_why(class_of_thirty):
    notes = " ".join(class_of_thirty.results["broken"].notes)
    assert "two versions are mixed in it" in notes
    assert "it is empty" in " ".join(class_of_thirty.results["blank"].notes)


def test_the_table_has_a_row_for_each_student(class_of_thirty):
    found = rows(class_of_thirty.pages["grades.csv"])
    assert found.keys() == {harmless(name) for name in class_of_thirty.students}
    for name, result in class_of_thirty.results.items():
        row = found[harmless(name)]
        assert float(row["total"]) == result.points
        assert [float(row[one.id]) for one in result.exercises] == [
            one.points for one in result.exercises
        ]
    assert found["copied"]["flags"] == "07.1 double"


def test_a_stopped_answer_names_its_limit(class_of_thirty):
    first = class_of_thirty.results["endless"].exercises[0]
    assert first.message.startswith("Your function was stopped: not finished after 3 seconds.")
    assert len(first.seeds) == 1  # another seed would be stopped, too


def test_too_much_memory_is_the_answers_error_alone(class_of_thirty):
    first = class_of_thirty.results["memory"].exercises[0]
    assert ("raised", "MemoryError") in first.details


@pytest.mark.parametrize("exercise", IDS)
def test_the_page_counts_the_solved(exercise, class_of_thirty, page):
    solved = sum(
        student.outcome(exercise) == SOLVED for student in class_of_thirty.students.values()
    )
    task = find_exercise(exercise)
    share = f"{round(100 * solved / COUNT)}% {solved} of {COUNT}"
    assert f"{exercise} {task.title} {'★' * STARS[exercise]} {share}" in page.text


def test_the_page_counts_the_wrong_ideas(class_of_thirty, page):
    ideas = Counter(
        (exercise, idea)
        for student in class_of_thirty.students.values()
        for exercise, idea in student.misconceptions.items()
    )
    (exercise, idea), count = ideas.most_common(1)[0]
    assert count > 1
    told = find_exercise(exercise).misconceptions[idea].diagnosis
    words = f"{count} of {COUNT}: {idea.replace('_', ' ')}"
    assert f"{words} {' '.join(told.split())}" in page.text
    assert words in class_of_thirty.said["report"]
    for (exercise, idea), _ in ideas.items():
        assert f"{exercise} {find_exercise(exercise).title}" in page.text
        assert idea.replace("_", " ") in page.text


def test_a_report_has_other_points_and_the_teachers_decisions(class_of_thirty):
    grades = class_of_thirty.folder / "grades"
    found = rows((grades / "grades.csv").read_text(encoding="utf-8"))
    solved = {
        name: sum(student.outcome(one) == SOLVED for one in IDS)
        for name, student in class_of_thirty.students.items()
    }
    wanted = {name: 2.0 * count for name, count in solved.items()}
    wanted |= {"ada": 6.0, "copied": 0.5}
    assert {name: float(found[harmless(name)]["total"]) for name in wanted} == wanted
    outs = {name: row["out of"] for name, row in found.items()}
    assert outs.pop("untouched") == "0"
    assert set(outs.values()) == {"12"}
    ada = Page((grades / "students" / "ada" / "index.html").read_text(encoding="utf-8"))
    assert "6 of 12 points" in ada.text
    assert "Of the points 50% count. A day late." in ada.text
    page = Page((grades / "class.html").read_text(encoding="utf-8"))
    assert f" of {COUNT - 1}" in page.text  # who is excused is no student of these exercises
    term = rows((class_of_thirty.folder / "term.csv").read_text(encoding="utf-8"))
    assert {name: float(row["total"]) for name, row in term.items()} == {
        harmless(name): points for name, points in wanted.items()
    }


def test_a_report_keeps_what_the_grader_found(class_of_thirty):
    kept = {one.student: one for one in read_results(class_of_thirty.folder / "grades")}
    assert kept == class_of_thirty.results
