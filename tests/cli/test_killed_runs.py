"""The hidden folder of a killed run is mentioned by the next command, and never a living one's."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ehr_course.new_folder import left_behind, new_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def killed(tmp_path) -> Path:
    """What a killed prepare has left, in a folder whose name has a space."""
    place = tmp_path / "my results"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ehr_course.cli", "prepare", "--patients", "10000000"),
            *("--out", place / "prepared"),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    until = time.monotonic() + 120
    while not list(place.glob(".prepared-*/prepared")) and time.monotonic() < until:
        time.sleep(0.05)
    assert left_behind(place) == []  # it lives, and its folder is its own
    process.kill()
    process.wait(timeout=60)
    (hidden,) = place.iterdir()
    return hidden


@pytest.mark.skipif(os.name == "nt", reason="the command is another on Windows")
def test_the_next_command_mentions_it_with_the_command_that_removes_it(ehr_course, killed):
    out = killed.parent / "other"
    done = ehr_course("prepare", "--patients", 40, "--out", out, "--quiet")
    assert done.exit_code == 0
    command = f"rm -r '{killed}'"
    assert done.stderr == (
        f"Warning: a run that was killed left {killed}, which is unfinished and may hold "
        f"patients' data. Remove it with: {command}\n"
    )
    subprocess.run(shlex.split(command), check=True)
    again = ehr_course("prepare", "--patients", 40, "--out", out, "--quiet", "--overwrite")
    assert (again.exit_code, again.stderr) == (0, "")


def test_a_command_that_is_refused_mentions_it_too(ehr_course, killed):
    done = ehr_course("train", killed.parent / "prepared", "--out", killed.parent / "run")
    assert done.exit_code == 1
    warning, error = done.stderr.splitlines()
    assert warning.startswith(f"Warning: a run that was killed left {killed}, ")
    assert "there is no such folder" in error


CUT_OFF = """
import os, signal, sys
from pathlib import Path
from ehr_course.new_folder import new_folder
rename = Path.rename
def killed_after(self, target):
    rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)
Path.rename = killed_after
with new_folder(sys.argv[1], overwrite=True) as unfinished:
    (unfinished / "new.txt").touch()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_what_was_there_is_put_back_with_the_command_that_is_shown(ehr_course, tmp_path):
    out = tmp_path / "prepared"
    assert ehr_course("prepare", "--patients", 40, "--out", out).exit_code == 0
    before = sorted(path.name for path in out.iterdir())
    subprocess.run(
        [sys.executable, "-c", CUT_OFF, out], env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    (hidden,) = tmp_path.iterdir()
    done = ehr_course("train", out, "--out", tmp_path / "run")
    command = f"mv {hidden / 'old'} {out}"
    assert done.stderr.splitlines()[0] == (
        f"Warning: a run was killed while it replaced {out}, and what was there is in "
        f"{hidden / 'old'}. Put it back with: {command}"
    )
    subprocess.run(shlex.split(command), check=True)
    assert sorted(path.name for path in out.iterdir()) == before
    assert [(found.path, found.old) for found in left_behind(tmp_path)] == [(hidden, None)]


def test_a_living_run_and_what_others_have_made_are_not_mentioned(tmp_path):
    (tmp_path / ".cache-abcdefgh" / "cache").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    with new_folder(tmp_path / "prepared"):
        assert left_behind(tmp_path) == []
    assert left_behind(tmp_path) == []
    assert left_behind(tmp_path / "nowhere") == []
