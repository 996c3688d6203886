"""One folder, one training at a time; and nothing half-written where the disk is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from ehr_course.cli import trained_run
from ehr_course.cli.trained_run import LOCK
from ehr_course.training import checkpoints
from ehr_course.training.history import TrainingHistory

ROOT = Path(__file__).resolve().parents[2]
TINY = ("--steps", 12, "--batch-size", 16, "--profile", "narrow", "--checkpoint-every", 4)


def no_space(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# ------------------------------------------------------------------ two at once


def busy(out: Path) -> str:
    return (
        f"{out}: another training is running in this folder. Wait until it has ended, or name "
        "another folder with --out.\n"
    )


@pytest.mark.parametrize("changes", [(), ("--lr", 0.1)], ids=["the same", "another"])
def test_a_second_training_in_a_folder_is_refused_and_the_first_keeps_it(
    ehr_course, prepared, tmp_path, monkeypatch, changes
):
    out, said, shown = tmp_path / "run", [], TrainingHistory.loss

    def meanwhile(self: TrainingHistory) -> float:
        if not said:
            said.append("")
            second = ehr_course("train", prepared, "--out", out, *TINY, *changes)
            said[0] = (second.exit_code, second.stdout, second.stderr)
        return shown(self)

    monkeypatch.setattr(TrainingHistory, "loss", meanwhile)
    first = ehr_course("train", prepared, "--out", out, *TINY)
    assert first.exit_code == 0, first.output
    assert said == [(1, "", busy(out))]
    assert (out / "model").is_dir() and not (out / LOCK).exists()


def test_a_training_of_another_process_holds_the_folder_until_it_is_killed(
    ehr_course, prepared, tmp_path
):
    out = tmp_path / "run"
    forever = ("--steps", "100000", "--profile", "narrow", "--checkpoint-every", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "ehr_course.cli", "train", prepared, "--out", out, *forever, "-q"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    try:
        until = time.monotonic() + 120
        while not list(out.glob("checkpoints/step-*")) and time.monotonic() < until:
            time.sleep(0.05)
        second = ehr_course("train", prepared, "--out", out, *TINY)
        assert (second.exit_code, second.stderr) == (1, busy(out))
    finally:
        process.kill()
        process.wait(timeout=60)
    third = ehr_course("train", prepared, "--out", out, *TINY)
    assert "steps: it was 100000 in the training that wrote this, and is 12 now" in third.stderr


def test_a_folder_of_something_else_gets_no_lock(ehr_course, prepared, tmp_path):
    (tmp_path / "thesis.txt").touch()
    assert ehr_course("train", prepared, "--out", tmp_path, *TINY).exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_lock_that_nobody_holds_is_in_nobodys_way(ehr_course, prepared, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).touch()
    assert ehr_course("train", prepared, "--out", tmp_path / "run", *TINY).exit_code == 0


# ------------------------------------------------------------------ a full disk


def test_a_full_disk_at_the_start_leaves_no_folder(ehr_course, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", no_space)
    out = tmp_path / "run"
    done = ehr_course("train", prepared, "--out", out, *TINY)
    assert done.exit_code == 1
    assert done.stderr == (
        f"{out}: no space is left on its disk. Make room and run the same command again, or name "
        "another place.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_for_the_lock_leaves_no_folder(ehr_course, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(FileLock, "acquire", no_space)
    done = ehr_course("train", prepared, "--out", tmp_path / "run", *TINY)
    assert "it cannot be written ([Errno 28] No space left on device)" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_first_checkpoint_leaves_no_folder(
    ehr_course, prepared, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoints, "save_file", no_space)
    done = ehr_course("train", prepared, "--out", tmp_path / "run", *TINY)
    assert done.exit_code == 1
    assert "the checkpoint cannot be written ([Errno 28] No space left on device)" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_that_was_there_is_empty_again(
    ehr_course, prepared, tmp_path, monkeypatch
):
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(checkpoints, "save_file", no_space)
    assert ehr_course("train", prepared, "--out", tmp_path / "run", *TINY).exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert list((tmp_path / "run").iterdir()) == []


def test_a_full_disk_at_the_end_keeps_the_checkpoints_and_the_training_goes_on(
    ehr_course, prepared, run, tmp_path, monkeypatch
):
    out = tmp_path / "run"

    class FullDisk(type(trained_run.csv)):
        @staticmethod
        def writer(file: object, **options: object) -> None:
            file.write("age,")
            no_space()

    monkeypatch.setattr(trained_run, "csv", FullDisk("csv"))
    done = ehr_course("train", prepared, "--out", out, *TINY)
    assert done.exit_code == 1
    assert done.stderr.endswith(
        f"{out}: no space is left on its disk. Make room and run the same command again, or name "
        "another place.\n"
    )
    assert sorted(path.name for path in out.iterdir()) == ["checkpoints", "run.json"]
    monkeypatch.undo()
    assert ehr_course("train", prepared, "--out", out, *TINY).exit_code == 0
    assert files(out / "model") == files(run / "model")


def test_what_another_training_wrote_stays_when_the_disk_is_full(
    ehr_course, prepared, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    assert ehr_course("train", prepared, "--out", out, *TINY).exit_code == 0
    before = files(out)
    monkeypatch.setattr(trained_run, "_begin", no_space)
    assert ehr_course("train", prepared, "--out", out, *TINY).exit_code == 1
    assert files(out) == before
