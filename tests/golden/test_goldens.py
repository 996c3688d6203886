"""What the commands and the public functions give is what is stored here.

``EHR_COURSE_WRITE_GOLDENS=1`` stores what they give now. Texts, counts and codes are compared as
they are, floating point numbers with a tolerance.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.cli.app import app
from ehr_course.course_files import checkpoint_folder
from ehr_course.generation.patients import generate_patients, sample_profiles
from ehr_course.models.saved import load_checkpoint
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.synthetic import make_cohort, make_notes

HERE = Path(__file__).parent
CHECKPOINTS = ["tiny_prompt_bart", "prompt_bart_with_history"]


def assert_golden(name: str, value: Any) -> None:
    """Compare a value of JSON's types with the stored one, or store it."""
    path = HERE / f"{name}.yml"
    value = json.loads(json.dumps(value))
    if os.environ.get("EHR_COURSE_WRITE_GOLDENS"):
        text = yaml.safe_dump(
            value, default_flow_style=None, allow_unicode=True, sort_keys=False, width=99
        )
        path.write_text(text, encoding="utf-8")
    assert_alike(value, read_yaml(path), name)


def assert_alike(value: Any, stored: Any, place: str) -> None:
    if isinstance(stored, float):
        assert value == pytest.approx(stored, rel=1e-4, abs=1e-6), place
    elif isinstance(stored, dict):
        assert list(value) == list(stored), place
        for key, inner in stored.items():
            assert_alike(value[key], inner, f"{place} > {key}")
    elif isinstance(stored, list):
        assert len(value) == len(stored), place
        for number, inner in enumerate(stored):
            assert_alike(value[number], inner, f"{place} > {number}")
    else:
        assert value == stored, place


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def run_command(*arguments: object) -> str:
    """Run ehr-course with these arguments, and return what it printed."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def as_rows(records: list) -> list:
    """Patients as lists: number, sex, age, and of each visit its time and codes."""
    return [
        [
            *(record.subject_id, record.sex, record.age),
            *(f"{v.admitted or ''} {v.system} {' '.join(v.codes)}" for v in record.visits),
        ]
        for record in records
    ]


def checksum(content: Any) -> str:
    return f"{zlib.crc32(json.dumps(content).encode()):08x}"


def test_cohorts_in_every_format(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, cohort in read_yaml(HERE / "cohort_files.yml").items():
        for file, text in cohort["files"].items():
            path = Path(name, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".parquet":
                table = pl.read_csv(io.StringIO(text), try_parse_dates=True)
                table.with_columns(pl.col("time").cast(pl.Datetime("us"))).write_parquet(path)
            else:
                path.write_text(text, encoding="utf-8")
        loaded = load_cohort(Path(name, cohort.get("path", "")), **cohort["options"])
        report = str(loaded.report).splitlines()
        found[name] = {"report": report, "records": as_rows(loaded.records)}
    assert_golden("cohorts", found)


def test_the_embedded_hospital():
    found = {}
    for hospital, system in (("general", "ICD9CM"), ("heart", "ICD10CM")):
        rows = as_rows(make_cohort(400, seed=3, hospital=hospital, system=system))
        found[f"{hospital} {system}"] = {"first": rows[:4], "checksum": checksum(rows)}
    pairs = [[p.note, p.summary] for p in make_notes(make_cohort(60, seed=3), seed=4)]
    found["notes"] = {"first": pairs[:2], "checksum": checksum(pairs)}
    assert_golden("hospital", found)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_numbers_and_patients_of_a_checkpoint(name):
    model, tokenizer = load_checkpoint(name).of_patients()
    model.eval()
    corruption = Corruption(p_visit=0.5, p_empty=0.5)
    dataset = RecordDataset(make_cohort(24, seed=11), tokenizer, corruption=corruption, seed=5)
    batch = dataset.batch(range(len(dataset)))
    with torch.no_grad():
        output = model(**batch)
    logits = output.logits.double()
    wanted = sample_profiles(make_cohort(50, seed=2), 30, seed=3)
    patients = as_rows(generate_patients(model, tokenizer, wanted, seed=4))
    found = {
        "batch": {key: checksum(value.tolist()) for key, value in sorted(batch.items())},
        "loss": output.loss.item(),
        "mean of squares": logits.square().mean().item(),
        "some logits": logits.flatten()[:: logits.numel() // 12].tolist(),
        "patients": patients[:10],
        "checksum": checksum(patients),
    }
    assert_golden(name, found)


TRAINING = (
    *("--steps", 6, "--batch-size", 8, "--profile", "narrow", "--checkpoint-every", 2),
    *("--evaluate-every", 2, "--gradient-accumulation-steps", 2, "--average", 0.5),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    """A folder with prepared patients and notes, and runs that learned from them for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("golden"))
        # Enough are held out for everything to be judged.
        shares = ("--validation", 0.2, "--test", 0.4)
        run_command("prepare", "--patients", 250, *shares, "--out", "prepared")
        run_command("prepare", "--notes", "embedded", "--patients", 120, "--out", "notes")
        steps = ("--steps", 3, "--batch-size", 8, "--coverage", "--quiet")
        run_command("train", "notes", "--out", "notes-run", *steps)
        run_command("train", "prepared", "--out", "run", *TRAINING)
        yield


def test_a_stopped_training_goes_on_to_the_same_weights(runs):
    whole, stopped = Path("run"), Path("stopped")
    shutil.copytree(whole, stopped)
    # What a kill after the last checkpoint but one leaves.
    shutil.rmtree(stopped / "model")
    shutil.rmtree(sorted((stopped / "checkpoints").glob("step-*"))[-1])
    said = run_command("train", "prepared", "--out", stopped, *TRAINING)
    assert "Going on after step 4 of" in said
    ours, theirs = (load_file(run / "model/model.safetensors") for run in (stopped, whole))
    assert ours.keys() == theirs.keys()
    for key, weight in ours.items():
        assert torch.equal(weight, theirs[key]), key
    assert (stopped / "run.json").read_bytes() == (whole / "run.json").read_bytes()


def test_training_generating_and_judging(runs):
    shutil.copytree("run", "checkpoint")
    shutil.rmtree("checkpoint/model")
    shutil.copytree(checkpoint_folder(CHECKPOINTS[0]), "checkpoint/model")
    ways = ("--top-k", 20, "--top-p", 0.9, "--temperature", 1.5, "--eligible-only")
    formats = ("--format", "meds", "--format", "mimic3", "--format", "parquet")
    common = ("--patients", 60, "--batch-size", 16, "--out", "synthetic")
    said = run_command("generate", "checkpoint", *common, *ways, *formats)
    patients = as_rows(load_cohort("synthetic").records)
    found = {
        "trained": [read_yaml(Path(f"{run}/run.json"))["result"] for run in ("run", "notes-run")],
        "said": said,
        "first": patients[:6],
        "checksum": checksum(patients),
        "mimic3": {
            path.name: checksum(path.read_text(encoding="utf-8"))
            for path in sorted(Path("synthetic/mimic3").iterdir())
        },
        "parquet": checksum(pl.read_parquet("synthetic/patients.parquet").write_csv()),
    }
    compared = ("--real", "prepared", "--synthetic", "synthetic", "--model", "checkpoint")
    found["judged"] = run_command("evaluate", *compared, "--limit", 100, "--out", "report")
    found["report"] = read_yaml(Path("report/report.json"))
    assert_golden("report", found)
