"""`course release`: a folder for students runs by itself, and browsing it shows no answer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from course import checks
from course.command_error import CommandError
from course.lab import _notebook
from course.release import main, release
from ehr_course.errors import InputError
from ehr_course.exercises.catalogue import lesson_exercises
from ehr_course.exercises.packed import unpacked
from ehr_course.exercises.worked_answers import worked_answer

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ("07", "17")
LINK = re.compile(r"\]\(([^()\s]+\.(?:ipynb|md|png))(?:#[^()\s]*)?\)")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "week1"
    said = release(ROOT, LESSONS, folder)
    assert said[0].endswith("hold lesson 07, 17 for students.")
    assert "Lesson 07 builds on 00, which the folder does not have." in said
    return folder


def in_week(week: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Python with the folder's library and tool, as its own environment would."""
    environment = os.environ | {"PYTHONPATH": str(week), "OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=week,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_it_has_the_lessons_and_nothing_for_teachers(week):
    files = files_of(week)
    lessons = {name for name in files if name.startswith("lessons/")}
    stems = ("07_tokenization", "17_coverage_and_beam_search")
    assert lessons == {f"lessons/{stem}{ending}" for stem in stems for ending in (".py", ".ipynb")}
    tops = {name.partition("/")[0] for name in files}
    assert not tops & {"solutions", "tests", "benchmarks", ".ci", "build", ".venv", ".git"}
    references = [name for name in files if name.startswith("ehr_course/exercises/lessons/")]
    assert references == ["ehr_course/exercises/lessons/__init__.py"]
    assert not [name for name in files if name.startswith("course/grading")]
    assert "Hand in" in files["README.md"].decode() or "hand in" in files["README.md"].decode()


def test_no_file_shows_an_answer_or_a_diagnosis(week):
    # What the library computes for everybody, it computes in a clone, too.
    library = re.compile(r"ehr_course/(?!exercises)")
    shown = b"\n".join(data for name, data in files_of(week).items() if not library.match(name))
    checked = 0
    for number in LESSONS:
        (lesson,) = (ROOT / "lessons").glob(f"{number}_*.py")
        given = lesson.read_text(encoding="utf-8")  # the stubs, with their signatures
        for exercise in lesson_exercises(number):
            for line in map(str.strip, worked_answer(exercise.id).splitlines()):
                if len(line) > 30 and line not in given:
                    checked += 1
                    assert line.encode() not in shown, line
    assert checked > 20
    assert b"belong to the special tokens, so your" not in shown
    pack = unpacked((week / "ehr_course/exercises/exercises.pack").read_bytes())
    assert worked_answer("07.2") in pack["solutions_07.txt"]
    assert {name for name in pack if name.endswith(".yml")} == {"lesson_07.yml", "lesson_17.yml"}


def test_every_link_leads_somewhere(week):
    pages = [*week.rglob("*.md"), *(week / "lessons").glob("*.py")]
    found = 0
    for page in pages:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target:
                found += 1
                assert (page.parent / target).exists(), f"{page}: {target}"
    assert found > 10
    # A lesson that is not released keeps its name and loses its link.
    assert "](08_data" not in (week / "lessons/07_tokenization.py").read_text(encoding="utf-8")
    assert "](08_data" not in (week / "course/book/glossary.md").read_text(encoding="utf-8")


def test_the_zip_file_is_the_folder_and_has_the_same_bytes_again(week, tmp_path):
    release(ROOT, LESSONS, tmp_path / "week1")
    archive = week.with_name("week1.zip")
    assert archive.read_bytes() == (tmp_path / "week1.zip").read_bytes()
    with zipfile.ZipFile(archive) as opened:
        inside = {name.removeprefix("week1/"): opened.read(name) for name in opened.namelist()}
    assert inside == files_of(tmp_path / "week1")


ASK = """
import inspect, sys
from ehr_course.exercises import check, hint, progress
import ehr_course
assert ehr_course.__file__.startswith(sys.argv[1]), ehr_course.__file__
check("07.1", lambda code, vocabulary: vocabulary.index(code), seed=1)
hint("17.1", 1)
progress()
from ehr_course.exercises.catalogue import find_exercise
exercise = find_exercise("07.1")
for thing in (exercise.worked_answer, sys.modules["ehr_course.exercises.lessons.lesson_07"]):
    try:
        print("SHOWN", inspect.getsource(thing))
    except (OSError, TypeError):
        pass
help(sys.modules["ehr_course.exercises.lessons.lesson_07"])
"""


def test_checks_hints_and_progress_work_and_help_shows_no_answer(week, tmp_path):
    ran = in_week(week, "-c", ASK, str(week), EHR_COURSE_HOME=str(tmp_path), PAGER="cat")
    assert ran.returncode == 0, ran.stderr
    assert "You returned the vocabulary index." in ran.stdout
    assert "Hint 1 of" in ran.stdout
    assert "0 of 7 exercises solved, and 0 of 6 optional ones" in ran.stdout
    assert "SHOWN" not in ran.stdout
    assert "def " not in ran.stdout.partition("Help on module")[2]
    assert "return" not in ran.stdout.partition("Help on module")[2].partition("DATA")[0]


def test_every_module_of_the_tool_can_be_imported(week):
    names = sorted(path.stem for path in (week / "course").glob("[a-z]*.py"))
    code = f"import importlib\nfor name in {names}: importlib.import_module('course.' + name)"
    ran = in_week(week, "-c", code)
    assert ran.returncode == 0, ran.stderr
    shown = in_week(week, "-m", "course", "--help").stdout
    assert "\n  lab " in shown
    assert "\n  grade " not in shown
    assert "\n  build " not in shown


def test_the_lessons_pass_nbval_there(week, tmp_path):
    options = ("-q", "--nbval", "lessons/07_tokenization.ipynb", "-p", "no:cacheprovider")
    ran = in_week(week, "-m", "pytest", *options, EHR_COURSE_HOME=str(tmp_path))
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert "6 not attempted" in ran.stdout


def test_course_test_runs_what_is_there(week, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(checks, "ensure", lambda root: sys.executable)

    def visibly(command, *, cwd, environment):
        assert environment["OMP_NUM_THREADS"] == "1"
        ran.append(command)
        return 0

    monkeypatch.setattr(checks, "run_visibly", visibly)
    folder = week.parent / "checked"
    shutil.copytree(week, folder)
    assert checks.main(folder, []) == 0
    assert len(ran) == 1
    assert "--nbval" in ran[0]
    assert "not in this folder" in capsys.readouterr().out
    with pytest.raises(CommandError, match="This folder has no tests"):
        checks.main(folder, ["--oldest"])


def test_lab_opens_the_first_lesson_that_is_there(week):
    assert _notebook(week, None).name == "07_tokenization.ipynb"
    with pytest.raises(CommandError, match=r"There is no lesson 08 in lessons/"):
        _notebook(week, "08")


def test_an_unknown_lesson_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"There is no lesson 06\.\nThe lessons are: 00, 07"):
        main(["6", "08", "--out", str(tmp_path / "week1")])
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_left_alone(tmp_path):
    (tmp_path / "week1").mkdir()
    (tmp_path / "week1" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="something here already"):
        main(["08", "--out", str(tmp_path / "week1")])
    (tmp_path / "week2.zip").write_text("mine", encoding="utf-8")
    with pytest.raises(CommandError, match=r"week2\.zip is there already"):
        main(["08", "--out", str(tmp_path / "week2")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["week1", "week2.zip"]


def test_a_notebook_that_is_not_its_sources_is_not_released(tmp_path):
    for name in ("course/syllabus.yml", "lessons/07_tokenization.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    with pytest.raises(CommandError, match="python3 -m course build 07"):
        release(tmp_path, ["07"], tmp_path / "week1")


def test_a_damaged_pack_says_what_to_do(week, tmp_path):
    folder = tmp_path / "week1"
    shutil.copytree(week, folder)
    pack = folder / "ehr_course" / "exercises" / "exercises.pack"
    pack.write_bytes(pack.read_bytes()[:-40])
    code = "from ehr_course.exercises import hint\nhint('07.2')"
    ran = in_week(folder, "-c", code)
    assert "it is damaged. Get the folder again from your teacher." in ran.stderr
