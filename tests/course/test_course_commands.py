"""`python3 -m course` answers in words, whatever it is asked and wherever it is started."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "lab",
    "test",
    "progress",
    "doctor",
    "new",
    "build",
    "book",
    "checkpoint",
    "release",
    "grade",
    "wheelhouse",
)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_names_every_command(clone, arguments):
    done = clone.course(*arguments)
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


def test_a_reader_that_leaves_early_is_no_error(clone):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "course", "help"],
        cwd=clone.root,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_unknown_command_is_named_with_the_nearest_one(clone):
    done = clone.course("labb")
    assert done.returncode == 2
    assert "There is no command 'labb'.\nDid you mean lab?" in done.stderr


@pytest.mark.parametrize("file", ["__init__.py", "__main__.py"])
def test_what_an_old_python_reads_first_parses_on_python_3_6(file):
    source = (ROOT / "course" / file).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__ import annotations" not in source


def test_an_old_python_is_told_which_one_is_needed(clone):
    program = (
        "import runpy, sys; sys.version_info = (3, 8, 10, 'final', 0); "
        "runpy.run_module('course', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=clone.root,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    assert "this is Python 3.8; the course needs Python 3.11 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_folder_is_answered_with_the_way_to_the_root(clone):
    done = subprocess.run(
        [sys.executable, "-m", "course", "lab"],
        cwd=clone.root / "lessons",
        env=clone.environment(PYTHONPATH=str(clone.root)),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2
    assert f'Go there first: cd "{clone.root}"' in done.stderr


def test_the_folder_started_as_a_program_is_answered_with_the_right_command(clone):
    done = subprocess.run(
        [sys.executable, "course", "lab"],
        cwd=clone.root,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    assert "python3 -m course lab" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_incomplete_clone_is_named(clone):
    (clone.root / "constraints.txt").unlink()
    done = clone.course("lab")
    assert done.returncode == 1
    assert "This is not a whole clone: constraints.txt missing" in done.stderr


def test_lab_becomes_jupyterlab_at_the_first_lesson_on_this_machine_only(clone):
    done = clone.with_uv().course("lab", "--no-browser", "--port", "8899")
    assert done.returncode == 0, done.stderr
    call = clone.calls("python")[-1]
    assert call.startswith("-m jupyterlab --ServerApp.ip=127.0.0.1 ")
    assert f"--ServerApp.root_dir={clone.root} " in call
    assert "--LabApp.default_url=/lab/tree/lessons/00_start_here.ipynb" in call
    assert "--LabApp.extension_manager=readonly" in call
    assert "--ServerApp.port=8899" in call
    assert "--no-browser" in call


@pytest.mark.parametrize("number", ["07", "7"])
def test_lab_opens_the_lesson_that_was_asked_for(clone, number):
    done = clone.with_uv().course("lab", "--lesson", number)
    assert "Opening lessons/07_tokenization.ipynb in JupyterLab" in done.stdout
    assert "lessons/07_tokenization.ipynb" in clone.calls("python")[-1]


def test_lab_names_the_lessons_when_there_is_no_such_one(clone):
    done = clone.with_uv().course("lab", "--lesson", "99")
    assert done.returncode == 2
    assert "There is no lesson 99 in lessons/.\nThe lessons are: 00, 07." in done.stderr
    assert clone.calls("uv") == []


def test_lab_without_notebooks_says_how_to_get_them(clone):
    for notebook in (clone.root / "lessons").iterdir():
        notebook.unlink()
    done = clone.with_uv().course("lab")
    assert "python3 -m course build" in done.stderr


@pytest.mark.parametrize("command", ["build", "book"])
def test_build_and_book_go_on_in_the_environment_with_their_arguments(clone, command):
    done = clone.with_uv().course(command, "--some", "argument")
    assert done.returncode == 0, done.stderr
    assert clone.calls("python")[-1] == f"-m course {command} --some argument"


def test_progress_goes_on_in_the_environment(clone):
    clone.with_uv().course("progress")
    assert clone.calls("python")[-1] == "-m course progress"


def test_output_that_the_terminal_cannot_encode_is_escaped(clone):
    done = clone.with_uv().course("doctor", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "my cl\\xf6ne" in done.stdout


@pytest.mark.parametrize("name", ["checks", "command_error", "console", "doctor", "syllabus"])
def test_docstring_examples_run(name):
    results = doctest.testmod(importlib.import_module(f"course.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
