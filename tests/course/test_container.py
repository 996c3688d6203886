"""The container: what the Dockerfile names is there, and its commands are the course's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from course.lab import _parser, server_command

ROOT = Path(__file__).resolve().parents[2]
LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()


def instructions(name: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")]


def test_it_runs_as_a_user_who_is_not_root() -> None:
    [user] = instructions("USER")
    assert user not in ("root", "0")
    assert f"useradd --create-home --uid 1000 {user}" in instructions("RUN")
    copied = [line for line in LINES if line.startswith("COPY")]
    assert all(f"--chown={user} " in line for line in copied)


def test_its_commands_are_commands_of_the_course() -> None:
    _, prepare = instructions("RUN")
    assert (
        _parser().parse_args(prepare.removeprefix("python3 -m course lab ").split()).prepare_only
    )
    [start] = map(json.loads, instructions("CMD"))
    assert start[:4] == ["python3", "-m", "course", "lab"]
    options = _parser().parse_args(start[4:])
    assert (options.no_browser, options.ip) == (True, "0.0.0.0")
    assert instructions("EXPOSE") == [str(options.port)]


def test_jupyterlab_listens_where_it_is_told_and_on_this_machine_alone_unless_told() -> None:
    lesson = ROOT / "lessons" / "00_start_here.ipynb"
    assert "--ServerApp.ip=127.0.0.1" in server_command(ROOT, lesson)
    assert "--ServerApp.ip=0.0.0.0" in server_command(ROOT, lesson, ip="0.0.0.0")


def test_what_a_clone_makes_for_itself_is_not_copied() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "build", "dist"} <= set(ignored)
    assert not {"course", "ehr_course", "lessons", "solutions", "pyproject.toml"} & set(ignored)


def _has_daemon() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _has_daemon(), reason="no Docker daemon answers here")
def test_the_image_is_built_and_runs_without_a_network() -> None:
    subprocess.run(["docker", "build", "--tag", "ehr-course-test", "."], cwd=ROOT, check=True)
    command = "docker run --rm --network none ehr-course-test python3 -m course lab --prepare-only"
    ran = subprocess.run(command.split(), capture_output=True, text=True, check=True)
    assert "Ready." in ran.stdout
