"""The zip file for Gradescope: what is in it, and what its `run_autograder` writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from handed_in import LESSON, ROOT, notebook_with, right, wrong

from course.command_error import CommandError
from course.grading.autograder import pack
from course.grading.command import main
from ehr_course.errors import InputError

needs_bash = pytest.mark.skipif(sys.platform == "win32", reason="Gradescope runs Linux")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    out = tmp_path_factory.mktemp("zip") / "auto.zip"
    assert main(["--autograder", str(out), "07"]) == 0
    return out


def test_the_two_scripts_lie_at_the_root_and_can_be_run(archive):
    with zipfile.ZipFile(archive) as opened:
        modes = {name: opened.getinfo(name).external_attr >> 16 for name in opened.namelist()}
    assert {modes["setup.sh"], modes["run_autograder"]} == {0o100755}
    assert modes["pyproject.toml"] == 0o100644


def test_it_holds_what_grading_needs_of_the_lesson_and_no_other_solution(archive):
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
    assert {f"solutions/{LESSON}.py", f"lessons/{LESSON}.py", "course/__main__.py"} <= names
    assert {"README.md", "setup.py", "constraints.txt"} <= names
    assert [name for name in names if name.startswith("solutions/")] == [f"solutions/{LESSON}.py"]
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


def test_setup_asks_for_no_secret_and_makes_the_environment(archive):
    with zipfile.ZipFile(archive) as opened:
        setup = opened.read("setup.sh").decode()
    assert "-m course lab --prepare-only" in setup
    assert not [word for word in ("token", "ssh", "git clone", "PASSWORD") if word in setup]


def test_an_unknown_lesson_and_a_file_that_is_there_are_refused(archive, tmp_path):
    with pytest.raises(CommandError, match="no lesson 77"):
        pack(ROOT, ["77"], tmp_path / "new.zip")
    with pytest.raises(CommandError, match="is there already"):
        pack(ROOT, ["07"], archive)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_points_is_packed_and_one_that_cannot_be_used_is_refused(tmp_path):
    points = tmp_path / "mine.yml"
    points.write_text('"07.1": 5\n', encoding="utf-8")
    pack(ROOT, ["7"], tmp_path / "a.zip", points)
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        assert opened.read("points.yml") == points.read_bytes()
        assert b"--lessons 07 --points points.yml" in opened.read("run_autograder")
    points.write_text('"08.1": 5\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"08\.1"):
        pack(ROOT, ["07"], tmp_path / "b.zip", points)
    assert not (tmp_path / "b.zip").exists()


def unpacked(archive: Path, at: Path) -> None:
    (at / "submission" / "work").mkdir(parents=True)
    (at / "results").mkdir()
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(at / "source")


@needs_bash
def test_run_autograder_grades_the_submission(archive, tmp_path):
    unpacked(archive, tmp_path)
    name, answer = wrong("07.1", 0)
    text = json.dumps(notebook_with(right("07.2") | right("07.4") | {"07.1": answer}))
    (tmp_path / "submission" / "work" / "mine.ipynb").write_text(text, encoding="utf-8")
    (tmp_path / "submission" / "notes").mkdir()
    ran = subprocess.run(
        ["bash", str(tmp_path / "source" / "run_autograder")],
        env=os.environ | {"AUTOGRADER": str(tmp_path), "COURSE_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    read = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    assert (read["score"], sum(test["max_score"] for test in read["tests"])) == (3, 6)
    first, second, *_ = read["tests"]
    assert first["extra_data"]["misconception"] == name
    assert (second["name"], second["status"]) == ("07.2 Encode a patient", "passed")


@needs_bash
@pytest.mark.parametrize("script", ["setup.sh", "run_autograder"])
def test_bash_can_read_the_scripts(script, archive, tmp_path):
    with zipfile.ZipFile(archive) as opened:
        opened.extract(script, tmp_path)
    subprocess.run(["bash", "-n", str(tmp_path / script)], check=True)
