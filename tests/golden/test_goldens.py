"""What the commands and the public functions give is what is stored here.

``EHR_COURSE_WRITE_GOLDENS=1`` stores what they give now. Texts, counts and codes are compared as
they are, floating point numbers with a tolerance.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.cli import main
from ehr_course.course_files import checkpoint_folder
from ehr_course.errors import InputError
from ehr_course.generation.patients import generate_patients, sample_profiles
from ehr_course.models.saved import load_checkpoint
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.note_corpus import read_notes
from ehr_course.sources.synthetic import make_cohort, make_notes

HERE = Path(__file__).parent
WRITING = bool(os.environ.get("EHR_COURSE_WRITE_GOLDENS"))
TOLERANCE = 1e-4

CHECKPOINTS = ["tiny_prompt_bart", "prompt_bart_with_history"]


def assert_golden(name: str, value: Any) -> None:
    """Compare a value of JSON's types with the stored one, or store it."""
    path = HERE / f"{name}.json"
    value = json.loads(json.dumps(value))
    if WRITING:
        text = json.dumps(value, indent=1, ensure_ascii=False)
        # Lists of numbers and short words take a line each.
        text = re.sub(r"\[[^\[\]{}]*\]", _on_one_line, text)
        path.write_text(f"{text}\n", encoding="utf-8")
    assert_alike(value, json.loads(path.read_text(encoding="utf-8")), name)


def _on_one_line(found: re.Match) -> str:
    return re.sub(r"\n *", " ", found[0])


def assert_alike(value: Any, stored: Any, place: str) -> None:
    if isinstance(stored, float) and isinstance(value, int | float):
        assert value == pytest.approx(stored, rel=TOLERANCE, abs=1e-6), place
    elif isinstance(stored, dict) and isinstance(value, dict):
        assert list(value) == list(stored), place
        for key in stored:
            assert_alike(value[key], stored[key], f"{place} > {key}")
    elif isinstance(stored, list) and isinstance(value, list):
        assert len(value) == len(stored), place
        for number, (ours, theirs) in enumerate(zip(value, stored, strict=True)):
            assert_alike(ours, theirs, f"{place} > {number}")
    else:
        assert value == stored, place


def run_command(*arguments: object, exit_code: int = 0) -> str:
    """Run ehr-course with these arguments, and return what it printed."""
    printed = io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.raises(SystemExit) as left,
    ):
        patch.setattr("sys.argv", ["ehr-course", *map(str, arguments)])
        main()
    signal.signal(signal.SIGTERM, before)
    assert (left.value.code or 0) == exit_code, printed.getvalue()
    return printed.getvalue()


def as_rows(records: list) -> list:
    """Patients as lists: number, sex, age, and of each visit its time and codes."""
    return [
        [
            record.subject_id,
            record.sex,
            record.age,
            *(f"{v.admitted or ''} {v.system} {' '.join(v.codes)}" for v in record.visits),
        ]
        for record in records
    ]


def checksum(content: Any) -> str:
    return f"{zlib.crc32(json.dumps(content).encode()):08x}"


def meds_rows(folder: Path) -> list[str]:
    """Every row of the shards of a MEDS dataset, as CSV."""
    rows = []
    for shard in sorted((folder / "data").rglob("*.parquet")):
        csv = pl.read_parquet(shard).write_csv()
        rows += [shard.relative_to(folder).as_posix(), *csv.splitlines()]
    return rows


def settled(record: dict) -> dict:
    """A run.json without versions; they are those of the environment."""
    return {key: value for key, value in record.items() if key != "versions"}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------ cohorts of every format

COHORTS = yaml.safe_load((HERE / "cohorts.yml").read_text(encoding="utf-8"))


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            table = pl.read_csv(io.StringIO(text), try_parse_dates=True)
            if "time" in table.columns:
                table = table.with_columns(pl.col("time").cast(pl.Datetime("us")))
            table.write_parquet(path)
        else:
            path.write_text(text, encoding="utf-8")


def loaded(path: Path, way: dict) -> dict:
    try:
        cohort = load_cohort(path, **way)
    except InputError as error:
        return {"refused": str(error)}
    report = cohort.report
    return {
        "report": str(report).splitlines(),
        "dropped": report.dropped_by_name,
        "records": as_rows(cohort.records),
    }


def test_cohorts_of_every_format(tmp_path, monkeypatch):
    found = {}
    for name, cohort in COHORTS.items():
        folder = tmp_path / name.replace(" ", "-").replace(",", "")
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_files(folder, cohort["files"])
        (only, *others) = cohort["files"]
        is_file = not others and not only.startswith(("data/", "condition_occurrence"))
        places = list(cohort["files"]) if cohort.get("each") else [only if is_file else "."]
        for place in places:
            for way in cohort["ways"]:
                found[f"{name}: {place} {json.dumps(way)}"] = loaded(Path(place), way)
    assert_golden("cohorts", found)


def test_prepared_cohorts(tmp_path, monkeypatch):
    """Of what can be trained on, the account that ``prepare`` gives and the records it writes."""
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, options in (
        ("mimic3", ["--malformed", "drop"]),
        ("mimic4 in both systems", ["--map", "icd10"]),
        ("meds", ["--malformed", "drop", "--codes", "icd9"]),
        ("synthea", ["--map", "icd10"]),
        ("omop without person", []),
    ):
        shutil.rmtree("tables", ignore_errors=True)
        write_files(Path("tables"), COHORTS[name]["files"])
        shares = ("--validation", 0, "--test", 0, "--overwrite")
        is_complete = name != "omop without person"
        command = ("prepare", "--data", "tables", "--out", "prepared", *shares, *options)
        found[name] = {"said": run_command(*command, exit_code=0 if is_complete else 1)}
        if is_complete:
            found[name]["run"] = settled(read_json(Path("prepared/run.json")))
            found[name]["records"] = meds_rows(Path("prepared/records"))
            found[name]["tokenizer"] = read_json(Path("prepared/tokenizer.json"))
    assert_golden("prepared", found)


NOTES = """\
note_id,subject_id,Input,Target
n1,7,"admitted with a cough, then ""fever"".
given amoxicillin.","cough, amoxicillin."
n2,7,short,s.
n3,8,,nothing to read.
n4,9,a fall from a ladder. x-ray of the left wrist.,"fall, wrist."
n5,9,a fall from a ladder. x-ray of the left wrist.,"fall, wrist."
n6,10,chest pain for two hours. troponin was normal.,
"""


def test_notes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pl.read_csv(io.StringIO(NOTES))
    Path("notes.csv").write_text(NOTES, encoding="utf-8")
    table.write_parquet("notes.parquet")
    lines = "".join(f"{json.dumps(row)}\n" for row in table.to_dicts())
    Path("notes.jsonl").write_text(lines, encoding="utf-8")
    Path("other.csv").write_text(NOTES.replace("Target", "Brief"), encoding="utf-8")
    found = {}
    for name in ("notes.csv", "notes.parquet", "notes.jsonl", "other.csv"):
        for way in ({}, {"min_note": 10}, {"summary": "brief", "patient": "note_id"}):
            try:
                corpus = read_notes(name, **way)
            except InputError as error:
                found[f"{name} {json.dumps(way)}"] = {"refused": str(error)}
                continue
            pairs = [[pair.note, pair.summary, pair.subject_id] for pair in corpus.pairs]
            report = str(corpus.report).splitlines()
            found[f"{name} {json.dumps(way)}"] = {"report": report, "pairs": pairs}
    for tokenizer in ("words", "pieces"):
        options = ("--min-count", 1, "--tokenizer", tokenizer, "--vocabulary", 40)
        cut = ("--max-source", 6, "--max-target", 4, "--validation", 0, "--test", 0)
        command = ("prepare", "--notes", "notes.csv", "--out", "prepared", "--overwrite")
        said = run_command(*command, *options, *cut)
        found[tokenizer] = {"said": said, "run": settled(read_json(Path("prepared/run.json")))}
    assert_golden("notes", found)


# ------------------------------------------------------------------ the embedded hospital


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A folder with prepared patients and notes, and runs that learned from them for a moment."""
    place = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        said = {
            # Enough are held out for everything to be judged.
            "prepare": run_command(
                *("prepare", "--patients", 250, "--validation", 0.2, "--test", 0.4),
                *("--out", "prepared"),
            ),
            "notes": run_command(
                *("prepare", "--notes", "embedded", "--patients", 120, "--out", "notes"),
            ),
            "train": run_command("train", "prepared", "--out", "run", *TINY),
            "train notes": run_command(
                *("train", "notes", "--out", "notes-run", "--steps", 3, "--batch-size", 8),
                *("--coverage", "--quiet"),
            ),
        }
        yield said


TINY = ("--steps", 12, "--batch-size", 16, "--profile", "narrow", "--checkpoint-every", 4)


def test_the_embedded_hospital():
    found = {}
    for hospital in ("general", "heart"):
        for system in ("ICD9CM", "ICD10CM"):
            rows = as_rows(make_cohort(400, seed=3, hospital=hospital, system=system))
            found[f"{hospital} {system}"] = {"first": rows[:8], "checksum": checksum(rows)}
    pairs = [[p.note, p.summary] for p in make_notes(make_cohort(60, seed=3), seed=4)]
    found["notes"] = {"first": pairs[:3], "checksum": checksum(pairs)}
    assert_golden("hospital", found)


def test_prepared_and_trained(place):
    found = {"said": {name: text.splitlines()[:1] for name, text in place.items()}}
    for name in ("prepared", "notes", "run", "notes-run"):
        found[name] = settled(read_json(Path(name) / "run.json"))
    found["records"] = checksum(meds_rows(Path("prepared/records")))
    found["demographics"] = checksum(Path("run/demographics.csv").read_text(encoding="utf-8"))
    assert_golden("trained", found)


STOPPED = {
    "run": ("prepared", TINY),
    "evaluated": (
        "prepared",
        (
            *("--steps", 6, "--batch-size", 8, "--profile", "narrow", "--checkpoint-every", 2),
            *("--evaluate-every", 2, "--gradient-accumulation-steps", 2, "--average", 0.5),
        ),
    ),
    "adapted": (
        "prepared",
        ("--adapt", "run", "--steps", 4, "--batch-size", 8, "--checkpoint-every", 2),
    ),
    "summariser": ("notes", ("--steps", 4, "--batch-size", 4, "--checkpoint-every", 2)),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_training_goes_on_to_the_same_weights(place, name):
    source, options = STOPPED[name]
    whole, stopped = Path(name), Path(f"stopped-{name}")
    if name != "run":
        run_command("train", source, "--out", whole, *options)
    shutil.copytree(whole, stopped)
    # What a kill after the last checkpoint but one leaves.
    shutil.rmtree(stopped / "model")
    shutil.rmtree(stopped / "prefix", ignore_errors=True)
    kept, last = sorted((stopped / "checkpoints").glob("step-*"))
    shutil.rmtree(last)
    said = run_command("train", source, "--out", stopped, *options)
    assert f"Going on after step {int(kept.name.removeprefix('step-'))} of" in said
    for weights in ("model/model.safetensors", "prefix/prefix.safetensors"):
        if not (whole / weights).exists():
            continue
        ours, theirs = load_file(stopped / weights), load_file(whole / weights)
        assert ours.keys() == theirs.keys()
        for key, weight in ours.items():
            assert torch.equal(weight, theirs[key]), key
    assert (stopped / "run.json").read_bytes() == (whole / "run.json").read_bytes()


# ------------------------------------------------------------------ the course's checkpoints


def in_numbers(tensor: torch.Tensor) -> dict:
    """A few numbers of a tensor, and what all of it comes to."""
    values = tensor.detach().double()
    return {
        "shape": list(values.shape),
        "mean": values.mean().item(),
        "mean of squares": values.square().mean().item(),
        "some": values.flatten()[:: max(1, values.numel() // 12)].tolist(),
    }


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_numbers_of_a_checkpoint(name):
    model, tokenizer = load_checkpoint(name).of_patients()
    model.eval()
    records = make_cohort(24, seed=11)
    found = {}
    for p_visit in (0.0, 0.5):
        corruption = Corruption(p_visit=p_visit, p_empty=p_visit)
        dataset = RecordDataset(records, tokenizer, corruption=corruption, seed=5)
        batch = dataset.batch(range(len(dataset)))
        with torch.no_grad():
            output = model(**batch)
            logits = model(**{k: v for k, v in batch.items() if k != "labels"}).logits
        found[f"p_visit {p_visit}"] = {
            "batch": {key: checksum(value.tolist()) for key, value in sorted(batch.items())},
            "loss": output.loss.item(),
            "logits": in_numbers(logits),
        }
    assert_golden(f"logits_{name}", found)


def run_of(name: str) -> Path:
    """A run whose model is a checkpoint."""
    folder = Path(f"run-of-{name}")
    shutil.copytree("run", folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "model")
    shutil.copytree(checkpoint_folder(name), folder / "model")
    return folder


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_patients_of_a_checkpoint(place, name):
    model, tokenizer = load_checkpoint(name).of_patients()
    wanted = sample_profiles(make_cohort(50, seed=2), 30, seed=3)
    found = {"function": as_rows(generate_patients(model, tokenizer, wanted, seed=4))}
    formats = ("--format", "meds", "--format", "mimic3", "--format", "parquet")
    for way, options in (
        ("by default", formats),
        ("eligible", ("--eligible-only", "--temperature", 1.5, "--format", "parquet")),
        ("top k", ("--top-k", 20, "--top-p", 0.9, "--seed", 9, "--format", "parquet")),
    ):
        out = f"patients-{name}-{way.replace(' ', '-')}"
        common = ("--patients", 40, "--batch-size", 16, "--out", out)
        said = run_command("generate", run_of(name), *common, *options)
        patients = as_rows(load_cohort(out).records)
        found[way] = {
            "said": said,
            "result": read_json(Path(out) / "run.json")["result"],
            "first": patients[:6],
            "checksum": checksum(patients),
        }
    out = Path(f"patients-{name}-by-default")
    found["meds"] = checksum(meds_rows(next(out.rglob("data")).parent))
    found["parquet"] = checksum(pl.read_parquet(out / "patients.parquet").write_csv())
    found["mimic3"] = {
        path.name: checksum(path.read_text(encoding="utf-8"))
        for path in sorted((out / "mimic3").iterdir())
    }
    assert_golden(f"patients_{name}", found)


# ------------------------------------------------------------------ evaluate and summarize


def test_a_report(place):
    run = run_of(CHECKPOINTS[0])
    run_command("generate", run, "--patients", 60, "--out", "synthetic", "--quiet")
    others = json.dumps([[["4280", "4019"]], [["486"], ["4019"]]] * 20)
    Path("others.json").write_text(others, encoding="utf-8")
    found = {}
    common = ("evaluate", "--real", "prepared", "--synthetic", "synthetic", "--limit", 100)
    for name, options in (
        ("one", ("--model", run)),
        ("two", ("--synthetic", "other=others.json")),
    ):
        said = run_command(*common, "--out", f"report-{name}", *options)
        found[name] = {
            "said": said,
            "run": settled(read_json(Path(f"report-{name}/run.json"))),
            "report": read_json(Path(f"report-{name}/report.json")),
        }
    assert_golden("report", found)


def with_drawn_weights(run: str) -> Path:
    """A run whose weights are drawn by their names: no step of a training changes them."""
    folder = Path(f"{run}-drawn")
    shutil.copytree(run, folder)
    path = folder / "model" / "model.safetensors"
    weights = load_file(path)
    for name, weight in weights.items():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        weights[name] = torch.randn(weight.shape, generator=generator) * 0.3
    save_file(weights, path, metadata={"format": "pt"})
    return folder


def test_summaries(place):
    pairs = make_notes(make_cohort(8, seed=21), seed=22)[:8]
    rows = pl.DataFrame({"note": [p.note for p in pairs], "summary": [p.summary for p in pairs]})
    rows.write_csv("to-summarise.csv")
    run = with_drawn_weights("notes-run")
    found = {}
    for name, options in (
        ("greedy", ("--beams", 1)),
        ("beams", ("--beams", 4)),
        ("repeating", ("--beams", 3, "--no-repeat-ngram-size", 0, "--length-penalty", 0)),
        ("long", ("--beams", 2, "--min-length", 20)),
    ):
        out = f"summaries-{name}.csv"
        limits = ("--max-length", 24, "--batch-size", 3)
        said = run_command("summarize", run, "to-summarise.csv", "--out", out, *limits, *options)
        found[name] = {
            "said": said,
            "result": read_json(Path(f"summaries-{name}.run.json"))["result"],
            "summaries": Path(out).read_text(encoding="utf-8").splitlines(),
        }
    assert_golden("summaries", found)
