"""`ehr-course train` under torchrun: two processes share a training and write one model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ehr_course.models.saved import load_model

ROOT = Path(__file__).resolve().parents[2]


OPTIONS = ("--profile", "narrow", "--batch-size", 8, "--lr", 0.5, "--evaluate-every", 2)
"""Of a training that stops after some steps: its rate is too high to get far."""


@pytest.fixture(scope="module")
def torchrun(prepared: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder that two processes trained into, and what they said."""
    out = prepared.with_name("two-processes")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command += ["--standalone", "-m", "ehr_course.cli", "train", str(prepared)]
    command += ["--out", str(out), *map(str, OPTIONS)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, timeout=240, text=True, cwd=out.parent
    )
    return out, done


def test_both_finish(torchrun):
    _, done = torchrun
    assert done.returncode == 0, done.stderr


def test_the_first_one_alone_speaks_and_writes(torchrun):
    out, done = torchrun
    assert done.stdout.count("the loss on validation patients had not fallen") == 1
    assert done.stdout.count("last losses") == 1
    assert sorted(path.name for path in out.iterdir()) == [
        "checkpoints",
        "demographics.csv",
        "model",
        "run.json",
    ]


def test_the_record_says_how_many_they_were(torchrun):
    out, _ = torchrun
    result = json.loads((out / "run.json").read_text(encoding="utf-8"))["result"]
    assert result["processes"] == 2
    assert result["stopped"].startswith(f"Stopped after {result['steps']} steps: the loss on")
    assert result["steps"] < 100


def test_their_model_can_be_used(ehr_course, torchrun, tmp_path):
    out, _ = torchrun
    assert load_model(out / "model").metrics["processes"] == 2
    done = ehr_course("generate", out, "--out", tmp_path / "s", "--patients", 3)
    assert done.exit_code == 0


def test_one_process_does_not_go_on_with_the_training_of_two(ehr_course, prepared, torchrun):
    out, _ = torchrun
    result = ehr_course("train", prepared, "--out", out, *OPTIONS)
    assert result.exit_code == 1
    assert "processes: it was 2 in the training that wrote this, and is 1 now" in result.stderr
