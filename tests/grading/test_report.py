"""`course report`: points, excuses and a term's table, from what the grader found."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from made_results import ABOUT, Page, solved, student, wrong

from course.grading.attempts import read_checks, write_checks
from course.grading.decisions import DECISIONS
from course.grading.report import main, report, term_table
from course.grading.results import (
    StudentResult,
    as_json,
    of_json,
    read_results,
    read_run,
    write_result,
    write_run,
)
from ehr_course.errors import InputError

ADA = student("Ada", exercises={"07.1": solved(), "07.2": solved(), "07.4": wrong()})
BEN = student("Ben", exercises={"07.1": wrong("forgets_offset")})


@pytest.fixture
def grades(tmp_path: Path) -> Path:
    folder = tmp_path / "grades"
    for one in (ADA, BEN):
        write_result(folder, one)
    write_run(folder, ABOUT.model_copy(update={"students": ("Ada", "Ben")}))
    return folder


def decide(grades: Path, text: str) -> dict[str, StudentResult]:
    (grades / DECISIONS).write_text(text, encoding="utf-8")
    return {one.student: one for one in report(grades)[0]}


def test_without_decisions_the_table_is_the_graders(grades, capsys):
    assert main([str(grades)]) == 0
    table = (grades / "grades.csv").read_text(encoding="utf-8")
    assert table.splitlines()[1:] == ["Ada,2,2,0,0,4,8,", "Ben,0,0,0,0,0,8,"]
    said = capsys.readouterr().out
    assert "2 students, lesson 07: 4 of 16 points." in said
    assert "1 of 2: forgets offset (07.1 The token id of a code)" in said


def test_other_points_are_kept_and_given_for_what_is_solved(grades, tmp_path):
    points = tmp_path / "points.yml"
    points.write_text('"07.1": 5\n"07.4": 1\n', encoding="utf-8")
    about = ABOUT.model_copy(update={"points": dict.fromkeys(ABOUT.points, 0.0) | {"07.1": 5.0}})
    ada, ben = report(grades, about.model_copy(update={"students": ("Ada", "Ben")}))[0]
    assert [(one.points, one.out_of) for one in (ada, ben)] == [(5, 5), (0, 5)]
    assert read_run(grades).points["07.1"] == 5
    assert report(grades)[0] == [ada, ben]  # those of the last time
    assert {one.student: one.points for one in read_results(grades)} == {"Ada": 4, "Ben": 0}


def test_an_excuse_a_share_and_points_by_hand(grades):
    found = decide(
        grades,
        'Ada:\n  share: 0.5\n  note: A day late.\nBen:\n  excused: ["07.5"]\n'
        '  points: {"07.1": 1.5}\n',
    )
    assert (found["Ada"].points, found["Ada"].out_of) == (2, 8)
    assert found["Ada"].notes == ("Of the points 50% count.", "A day late.")
    assert (found["Ben"].points, found["Ben"].out_of) == (1.5, 6)
    assert found["Ben"].all_flags == ("07.1 by_hand", "07.5 excused")
    page = Page((grades / "students" / "Ben" / "index.html").read_text(encoding="utf-8"))
    assert "1.5 of 6 points" in page.text


def test_whoever_is_excused_is_not_counted(grades):
    (grades / DECISIONS).write_text("Ben:\n  excused: all\n", encoding="utf-8")
    _, found = report(grades)
    assert {one.id: one.students for one in found.exercises} == {
        **{"07.1": 2, "07.2": 1},  # Ben tried 07.1
        **{"07.4": 1, "07.5": 1},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Adda:\n  share: 1\n", "line 1, Adda: no student is called 'Adda'. Did you mean 'Ada'"),
        ('Ada:\n  excused: ["07.9"]\n', "no exercise|has an exercise '07.9'"),
        ('Ada:\n  points: {"07.1": -1}\n', "-1 is not a number of points"),
        ("Ada:\n  share: 90\n", "90 is not a share"),
        ("Ada:\n  excuse: all\n", "excuse"),
        ("Ada: [\n", "is not YAML"),
    ],
)
def test_a_decision_that_cannot_be_used_is_named_and_nothing_changes(text, problem, grades):
    report(grades)
    before = (grades / "grades.csv").read_bytes()
    with pytest.raises(InputError, match=problem):
        decide(grades, text)
    assert (grades / "grades.csv").read_bytes() == before


def test_an_empty_file_of_decisions_decides_nothing(grades):
    assert decide(grades, "# nothing yet\n")["Ada"].points == 4


def test_an_unfinished_run_and_no_run_are_named(grades, tmp_path):
    (grades / "students" / "Ben" / "result.json").unlink()
    with pytest.raises(InputError, match="1 of 2 students are not graded yet"):
        report(grades)
    with pytest.raises(InputError, match=r"run\.json"):
        main([str(tmp_path)])


def test_a_student_of_an_earlier_run_is_left_out(grades):
    write_result(grades, student("Zoe"))
    assert [one.student for one in report(grades)[0]] == ["Ada", "Ben"]


def test_a_term_counts_nothing_for_a_week_that_is_missing():
    asa = student("A\u030asa", key="asa", exercises={"07.1": solved()})
    again = student("\u00c5sa", key="asa", exercises={"07.2": solved(), "07.1": solved()})
    table, said = term_table([("week1", [ADA, asa], 8.0), ("week2", [again], 10.0)])
    assert list(csv.reader(io.StringIO(table))) == [
        ["student", "week1", "week2", "total", "out of"],
        ["Ada", "4", "", "4", "18"],
        ["A\u030asa", "2", "4", "6", "16"],
    ]
    assert said == ["Ada is not in week2: 0 points."]


def test_a_term_does_not_write_over_another_file(grades, tmp_path):
    mine = tmp_path / "term.csv"
    mine.write_text("name;mark\n", encoding="utf-8")
    with pytest.raises(InputError, match="not a table of a term"):
        main([str(grades), "--term", str(mine)])
    mine.unlink()
    for _ in range(2):  # its own table it writes again
        assert main([str(grades), "--term", str(mine)]) == 0
    assert mine.read_text(encoding="utf-8").startswith(f"student,{grades},total,out of\nAda,4,")


def test_one_file_of_points_is_for_one_folder(grades):
    with pytest.raises(InputError, match="one folder of grades"):
        main([str(grades), str(grades), "--points", "points.yml"])


def test_what_progress_files_said_is_kept(tmp_path):
    assert read_checks(tmp_path) == {}
    write_checks(tmp_path, {"ada": {"07.1": 3}})
    assert read_checks(tmp_path) == {"ada": {"07.1": 3}}
    (tmp_path / "attempts.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match=r"attempts\.json"):
        read_checks(tmp_path)
    write_checks(tmp_path, {})
    assert not list(tmp_path.iterdir())


def test_a_result_with_half_a_character_is_written_and_read():
    strange = student("ada", exercises={"07.1": wrong(source="x = '\ud800'")})
    assert of_json(as_json(strange).encode(), StudentResult) == strange
