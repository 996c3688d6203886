"""`course lab` shows a learner the lessons, and keeps the panels as the learner leaves them."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
from jupyter_server.services.contents.manager import ContentsManager
from jupyterlab_server.workspaces_handler import WORKSPACE_EXTENSION, slugify

from course.environment import LAB_SETTINGS
from course.lab import NOT_LISTED, SETTINGS, WORKSPACE, server_command

ROOT = Path(__file__).resolve().parents[2]


def listed(name: str) -> bool:
    return not any(fnmatch(name, pattern) for pattern in NOT_LISTED)


@pytest.mark.parametrize("folder", ["lessons", "solutions"])
def test_of_each_lesson_the_notebook_is_listed_and_its_py_is_not(folder: str) -> None:
    names = {path.name for path in (ROOT / folder).glob("[0-9]*.*")}
    notebooks = {name for name in names if name.endswith(".ipynb")}
    assert notebooks
    assert {name for name in names if listed(name)} == notebooks


@pytest.mark.parametrize("name", ["__pycache__", "ehr_course.egg-info", "lab.cpython-311.pyc"])
def test_what_python_leaves_behind_is_not_listed(name: str) -> None:
    assert not listed(name)


@pytest.mark.parametrize("name", ["my_notes.py", "2024_notes.py", "lessons", "notes.ipynb"])
def test_a_learners_own_files_are_listed(name: str) -> None:
    assert listed(name)


def test_what_jupyterlab_itself_does_not_list_stays_unlisted() -> None:
    assert set(ContentsManager.hide_globs.default()) < set(NOT_LISTED)


def test_the_command_names_the_settings_the_panels_and_what_is_not_listed(tmp_path: Path) -> None:
    root = tmp_path / "my clone"
    command = server_command(root, root / "lessons" / "07_tokenization.ipynb")
    assert command[:2] == ["-m", "jupyterlab"]
    assert f"--LabApp.app_settings_dir={SETTINGS}" in command
    assert f"--LabApp.workspaces_dir={root / 'build' / 'lab' / 'workspaces'}" in command
    assert "--LabApp.default_url=/lab/tree/lessons/07_tokenization.ipynb" in command
    assert "--ContentsManager.hide_globs=[0-9][0-9]_*.py" in command
    assert not any("port" in part or "browser" in part for part in command)


def test_the_command_names_the_port_and_opens_no_browser_when_asked(tmp_path: Path) -> None:
    lesson = tmp_path / "lessons" / "07_tokenization.ipynb"
    command = server_command(tmp_path, lesson, port=8899, open_browser=False)
    assert "--ServerApp.port=8899" in command
    assert "--no-browser" in command


def test_the_courses_settings_include_those_of_the_environment() -> None:
    settings = json.loads((SETTINGS / "overrides.json").read_text(encoding="utf-8"))
    assert LAB_SETTINGS.items() <= settings.items()


def test_the_panels_are_stored_under_the_name_that_jupyterlab_gives_them() -> None:
    panels = json.loads((SETTINGS / WORKSPACE).read_text(encoding="utf-8"))
    assert slugify(panels["metadata"]["id"]) + WORKSPACE_EXTENSION == WORKSPACE


def test_the_panels_are_arranged_at_the_first_start_and_then_left_alone(clone) -> None:
    clone.with_uv().course("lab", "--no-browser")
    file = clone.root / "build" / "lab" / "workspaces" / WORKSPACE
    assert file.read_bytes() == (SETTINGS / WORKSPACE).read_bytes()
    file.write_text("the learner's own", encoding="utf-8")
    assert clone.course("lab", "--lesson", "07").returncode == 0
    assert file.read_text(encoding="utf-8") == "the learner's own"


def test_preparing_only_arranges_nothing(clone) -> None:
    assert clone.with_uv().course("lab", "--prepare-only").returncode == 0
    assert not (clone.root / "build" / "lab").exists()


def test_a_file_in_the_way_of_the_panels_is_named(clone) -> None:
    (clone.root / "build").mkdir()
    (clone.root / "build" / "lab").write_text("", encoding="utf-8")
    done = clone.with_uv().course("lab")
    assert done.returncode == 1
    assert "JupyterLab's panels cannot be kept in build/lab" in done.stderr
    assert "Delete build/lab" in done.stderr
