"""A run that is stopped goes on; systems without forks grade too; bad input is named."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from handed_in import LESSON, ROOT, digests, notebook_with, right, run_grader, wrong

import course.grading.command as command
from course.grading.command import protection_lines
from course.grading.points import points_of
from course.grading.results import Protection, RunAbout, read_results, read_run, result_file
from course.grading.run import Wishes, grade
from course.grading.submissions import find_submissions
from course.syllabus import load_syllabus
from ehr_course.errors import InputError


def hand_in(folder: Path, student: str, answers: dict[str, str]) -> Path:
    """Write a student's notebook, and return it."""
    file = folder / student / f"{LESSON}.ipynb"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(notebook_with(answers)), encoding="utf-8")
    return file


def when(grades: Path) -> dict[str, str]:
    """When each student was graded."""
    return {one.student: one.graded_at for one in read_results(grades)}


def test_a_run_that_was_killed_goes_on_and_keeps_what_is_done(tmp_path):
    slow = "import time\n\n\ndef token_id(code, vocabulary):\n    time.sleep(60)\n    return 7"
    for student in ("ann", "ben"):
        hand_in(tmp_path / "all", student, right("07.1"))
    last = hand_in(tmp_path / "all", "cid", {"07.1": slow})
    grades = tmp_path / "grades"
    options = ["--out", str(grades), "--jobs", "1", "--seeds", "1", "--seconds", "60"]
    running = subprocess.Popen(
        [sys.executable, "-m", "course.grading.command", str(tmp_path / "all"), *options],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not result_file(grades, "ben").is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = when(grades)
    assert before.keys() == {"ann", "ben"}
    assert not (grades / "grades.csv").exists()
    assert not [file for file in grades.rglob(".*") if file.is_file()]
    seeds = read_run(grades).seeds

    last.write_text(json.dumps(notebook_with(right("07.1"))), encoding="utf-8")
    hand_in(tmp_path / "all", "ann", {"07.1": wrong("07.1", 0)[1]})
    again = run_grader(tmp_path / "all", *options, "--resume")
    assert again.returncode == 0, again.stderr
    assert "Of 1 the result of the earlier run still holds." in again.stdout
    assert read_run(grades).seeds == seeds
    assert [one.points for one in read_results(grades)] == [0, 1, 1]
    assert when(grades)["ben"] == before["ben"]


def test_a_zip_of_zips_is_read_and_nothing_gets_out_of_its_folder(tmp_path):
    inner = tmp_path / "ann.zip"
    with zipfile.ZipFile(inner, "w") as packed:
        packed.writestr(f"work/{LESSON}.ipynb", json.dumps(notebook_with(right("07.1", "07.2"))))
        packed.writestr("../../escaped.ipynb", "{}")
        packed.writestr("/escaped.ipynb", "{}")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.write(inner, "ann.zip")
        packed.writestr("bob.zip", "no zip file")
    ann, bob = find_submissions(tmp_path / "all.zip", [], tmp_path / "unpacked")
    assert (ann.student, list(ann.files)) == ("ann", [f"ann.zip/work/{LESSON}.ipynb"])
    assert "bob.zip: it cannot be unpacked" in bob.notes[0]
    assert not list(tmp_path.parent.glob("**/escaped.ipynb"))


def test_points_come_from_the_stars_or_from_a_file(tmp_path):
    (lesson,) = (one for one in load_syllabus() if one.number == "07")
    by_stars = points_of([lesson])
    assert by_stars == {one.id: 0 if one.optional else one.difficulty for one in lesson.exercises}
    assert by_stars["07.3"] == 2 and by_stars["07.5"] == 0
    file = tmp_path / "points.yml"
    file.write_text('"07.1": 2.5\n"07.6": 4\n', encoding="utf-8")
    assert points_of([lesson], file) == dict.fromkeys(by_stars, 0) | {"07.1": 2.5, "07.6": 4}


@pytest.mark.skipif(sys.platform == "win32", reason="what Windows does is done here on purpose")
def test_a_system_without_forks_grades_as_well(tmp_path):
    hand_in(tmp_path / "all", "ann", right("07.1"))
    wishes = Wishes(tmp_path / "all", tmp_path / "grades", seeds=2, jobs=1, forks=False)
    graded = grade(wishes)
    first = graded.results[0].exercises[0]
    assert (first.outcome, len(first.seeds)) == ("solved", 2)


def test_where_only_python_itself_keeps_the_code_the_run_says_so():
    held = Protection(files="an audit hook", network="an audit hook", processes="an audit hook")
    about = RunAbout(seeds=(1,), lessons=("07",), points={}, protection=held)
    text = "\n".join(protection_lines(about))
    assert "nothing but Python itself keeps a student's code from your files" in text
    assert "the memory of a student's code has no bound" in text


def refused(arguments: list[str]) -> str:
    with pytest.raises(InputError) as caught:
        command.main(arguments)
    return str(caught.value)


def test_bad_input_is_named(tmp_path):
    hand_in(tmp_path / "all", "ann", {})
    given, grades = str(tmp_path / "all"), str(tmp_path / "grades")
    assert "there is no such folder" in refused([str(tmp_path / "al"), "--out", grades])
    assert "lie in one another" in refused([given, "--out", f"{given}/grades"])
    assert "there is no lesson '06'" in refused([given, "--out", grades, "--lessons", "6"])
    (tmp_path / "empty").mkdir()
    assert "no notebook is in it" in refused([str(tmp_path / "empty"), "--out", grades])
    points = tmp_path / "points.yml"
    points.write_text('"07.1": 1\n"08.1": 2\n', encoding="utf-8")
    options = [given, "--out", grades, "--points", str(points)]
    assert "points.yml, line 2, 08.1: none of the graded lessons" in refused(options)
    points.write_text('"07.1": -1\n', encoding="utf-8")
    assert "line 1, 07.1: -1 is not a number of points" in refused(options)
    (tmp_path / "grades").mkdir()
    (tmp_path / "grades" / "mine").touch()
    assert "something here already" in refused([given, "--out", grades])
    assert digests(tmp_path / "grades").keys() == {"mine"}


@pytest.mark.parametrize("option", [("--seeds", "0"), ("--jobs", "x"), ("--seconds", "-1")])
def test_a_wrong_option_is_refused(option, capsys):
    with pytest.raises(SystemExit):
        command.main(["all", *option])
    assert option[1] in capsys.readouterr().err
