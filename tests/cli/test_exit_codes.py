"""What a shell sees of `python -m ehr_course.cli`: exit codes, and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "ehr_course.cli")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_0_when_all_is_done_and_records_are_prepared_without_pytorch(tmp_path):
    done = run("prepare", "--patients", 40, "--out", tmp_path / "out", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("tokens.\n")
    assert " ehr_course.sources.synthetic\n" in done.stderr
    assert " torch\n" not in done.stderr


def test_0_with_the_version_of_the_package_and_nothing_else():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ehr-course {version('ehr-course')}\n"


def test_1_with_one_line_when_the_input_cannot_be_used(tmp_path):
    done = run("prepare", "--data", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"{tmp_path}: no file for PATIENTS")
    assert len(done.stderr.splitlines()) == 1


def test_2_when_the_usage_is_wrong():
    done = run("train", "prepared", "--steps", "many", "--out", "run")
    assert done.returncode == 2
    assert "--steps" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_command_shows_the_help():
    done = run()
    assert done.returncode == 2
    assert "prepare" in done.stdout + done.stderr


def test_help_imports_nothing_heavy():
    done = run("train", "--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert "ehr_course.cli.settings" in done.stderr
    assert " torch\n" not in done.stderr
    assert " polars\n" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without asking it")
def test_143_and_nothing_left_when_another_process_ends_it(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "prepare", "--patients", "10000000", "--out", str(tmp_path / "out")],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while not list(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without asking it")
def test_143_when_the_signal_comes_during_an_import_that_ignores_errors(tmp_path):
    (tmp_path / "ignoring.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGTERM)\nexcept:\n    pass\n"
    )
    started = (
        "import sys, time\n"
        "from ehr_course import cli\n"
        "from ehr_course.cli import app\n"
        "def work(**_):\n"
        "    import ignoring\n"
        "    print('imported', flush=True)\n"
        "    time.sleep(60)\n"
        "app.app = work\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", started],
        env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 143, done.stderr
    assert done.stdout == "imported\n"
    assert done.stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_130_when_it_is_interrupted(prepared, tmp_path):
    process = subprocess.Popen(
        [
            *(*COMMAND, "train", prepared, "--out", tmp_path / "run"),
            *("--steps", "100000", "--checkpoint-every", "2", "--profile", "narrow"),
        ],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while not list(tmp_path.glob("run/checkpoints/step-*")) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run the same command again: it goes on from the last checkpoint." in stderr
    assert "Traceback" not in stderr
