"""`ehr-course generate` under torchrun: several processes write what one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from long_runs import takes_minutes

from ehr_course.cli.run_record import read_run

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("--patients", 43, "--batch-size", 8, "--seed", 3, "--eligible-only")
FORMATS = ("--format", "meds", "--format", "mimic3", "--format", "parquet")

DIES = """
import os, signal
from ehr_course.generation.patients import _Batch

write = _Batch.write

def write_or_die(self):
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self)

_Batch.write = write_or_die
from ehr_course.cli.app import app
app()
"""
"""The command line, of which the second process is killed while it writes."""


def torchrun(n: int, *arguments: object, place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={n}"]
    command += ["--standalone", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, timeout=240, text=True, cwd=place
    )


def files_in(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def alone(ehr_course, run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What one process wrote, and what it said."""
    out = tmp_path_factory.mktemp("shared") / "synthetic"
    done = ehr_course("generate", run, *OPTIONS, *FORMATS, "--out", out)
    assert done.exit_code == 0, done.output
    return out, done.stdout


@pytest.mark.parametrize("n", [pytest.param(2, marks=takes_minutes), 3])
def test_any_number_of_processes_writes_the_same_bytes(alone, run, tmp_path, n):
    out, said = alone
    there = tmp_path / "synthetic"
    command = ("-m", "ehr_course.cli", "generate", run, *OPTIONS, *FORMATS, "--out", there)
    done = torchrun(n, *command, place=tmp_path)
    assert done.returncode == 0, done.stderr
    found = files_in(there)
    assert {"run.json", "patients.parquet", "mimic3/DIAGNOSES_ICD.csv"} <= set(found)
    assert found == files_in(out)
    # One process alone speaks, and leaves nothing beside the folder.
    assert done.stdout == said.replace(str(out), str(there))
    assert [path.name for path in tmp_path.iterdir()] == ["synthetic"]


def test_a_run_of_several_is_repeated_by_one(ehr_course, alone, tmp_path):
    out, _ = alone
    assert "processes" not in read_run(out).result
    done = ehr_course("repeat", out, "--out", tmp_path / "again", "--quiet")
    assert done.exit_code == 0
    assert files_in(tmp_path / "again") == files_in(out)


def test_a_process_that_dies_leaves_nothing_half_written(run, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text(DIES, encoding="utf-8")
    place = tmp_path / "place"
    arguments = ("generate", run, *OPTIONS, "--out", place / "synthetic")
    done = torchrun(2, script, *arguments, place=tmp_path)
    assert done.returncode != 0
    assert "synthetic patients" not in done.stdout
    assert list(place.iterdir()) == []  # not even a hidden folder


def test_a_place_that_is_taken_is_refused_by_all(alone, run, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine", encoding="utf-8")
    command = ("-m", "ehr_course.cli", "generate", run, "--out", tmp_path / "taken")
    done = torchrun(2, *command, place=tmp_path)
    assert done.returncode != 0
    assert (
        f"\n{tmp_path / 'taken'}: the folder is not empty. Name a new one, or give --overwrite to "
        "replace what a run wrote here.\n"
    ) in f"\n{done.stderr}"
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine.txt"]
