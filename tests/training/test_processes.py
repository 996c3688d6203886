"""A training that is killed, and one that is shared by two processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest
import small
import torch
from safetensors.torch import load_file

from ehr_course.training.checkpoints import checkpoints, read_checkpoint

SMALL = Path(__file__).with_name("small.py")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def processes() -> Iterator[BaseContext]:
    """Processes that begin with everything imported, and have nothing else of this one."""
    context = multiprocessing.get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:
        # The server of these processes does not know this one's sys.path.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(SMALL.parent)]))
        context.set_forkserver_preload(["small"])
        yield context


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(folder)[-1] / "model.safetensors")


def last_step(folder: Path) -> int:
    found = checkpoints(folder)
    return int(found[-1].name.removeprefix("step-")) if found else 0


def test_a_training_killed_twenty_times_ends_with_the_same_weights(
    tmp_path: Path, processes: BaseContext
) -> None:
    settings = {"steps": 400, "checkpoint_every": 1}
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    rng = random.Random(0)
    killed = 0
    while True:
        process = processes.Process(target=small.train_into, args=(folder,), kwargs=settings)
        before = last_step(folder)
        process.start()
        if killed < 20:
            while process.is_alive() and last_step(folder) == before:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.08))  # anywhere in a step, or in a checkpoint
            process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        killed += 1
        for path in checkpoints(folder):
            read_checkpoint(path)  # raises where it cannot be read
    assert killed == 20
    small.train_into(whole, **settings)
    expected, made = final_weights(whole), final_weights(folder)
    assert expected.keys() == made.keys()
    for name, weight in expected.items():
        assert torch.equal(weight, made[name]), name


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def torchrun(folder: Path, *settings: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command += ["--standalone", str(SMALL), str(folder), *settings]
    return subprocess.run(command, env=environment(), capture_output=True, timeout=240, text=True)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_two_processes_do_what_one_does(tmp_path: Path, precision: str) -> None:
    # 70 patients in batches of 16: the last batch of an epoch has 6.
    two = torchrun(tmp_path / "two", "dropout=0.0", f"precision={precision}")
    assert two.returncode == 0, two.stderr
    small.train_into(tmp_path / "one", dropout=0.0, precision=precision)
    one, two = (final_weights(tmp_path / name) for name in ("one", "two"))
    difference = sum(float((one[name] - two[name]).square().sum()) for name in one) ** 0.5
    moved = sum(
        float((one[name] - start).square().sum())
        for name, start in small.model(dropout=0.0).named_parameters()
        if name in one
    )
    # The gradient of a key's bias is zero but for rounding, and AdamW makes whole steps of it: so
    # the weights are compared as one, with the way that they have come.
    assert difference < (1e-3 if precision == "float32" else 5e-2) * moved**0.5
    losses = [
        [
            row["loss"]
            for row in read_checkpoint(checkpoints(tmp_path / name)[-1]).numbers["history"]
        ]
        for name in ("one", "two")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5 if precision == "float32" else 1e-3)
