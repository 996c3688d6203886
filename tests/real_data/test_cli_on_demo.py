"""From the raw tables of the MIMIC-III demo to a report, as the book's page shows it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ehr_course.cli.app import app
from ehr_course.cli.prepare import open_prepared
from ehr_course.evaluation.privacy import visits_of
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.mimic import load_mimic3
from ehr_course.sources.splits import split_by_patient

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"
NOTES = DEMO.with_name("mts-dialog") / "MTS-Dialog-TestSet-1-MEDIQA-Chat-2023.csv"

pytestmark = pytest.mark.skipif(
    not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
)


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with prepared/, run/, synthetic/, report/ and what the terminal said."""
    place = tmp_path_factory.mktemp("demo")
    prepared, run, synthetic = (place / name for name in ("prepared", "run", "synthetic"))
    commands = [
        ("prepare", "--data", DEMO, "--validation", 0.1, "--test", 0.3, "--out", prepared),
        ("train", prepared, "--profile", "narrow", "--out", run),
        ("generate", run, "--patients", 60, "--format", "mimic3", "--out", synthetic),
        ("evaluate", "--real", prepared, "--synthetic", synthetic, "--model", run),
    ]
    commands[-1] += ("--out", place / "report")
    said = "".join(call(*command).stdout for command in commands)
    (place / "said.txt").write_text(said, encoding="utf-8")
    return place


def test_all_hundred_patients_are_in_the_prepared_folder_as_they_were(place):
    cohort = load_mimic3(DEMO)
    expected = split_by_patient(cohort.records, fractions=(0.6, 0.1, 0.3), seed=0)
    assert open_prepared(place / "prepared").split() == expected
    assert sum(map(len, expected)) == 100


def test_the_report_of_the_loader_is_kept(place):
    report = (place / "prepared" / "load_report.txt").read_text(encoding="utf-8")
    n = "100 patients, 129 visits, 1,761 diagnoses"
    assert report == f"{load_mimic3(DEMO).report}\nin the records: {n}\n"


def test_sixty_patients_are_written_and_read_back(place):
    records = load_cohort(place / "synthetic").records
    assert len(records) == 60
    ages = {record.age for record in open_prepared(place / "prepared").split().train}
    assert {record.age for record in records} <= ages


def test_the_report_compares_the_three_cohorts(place):
    report = json.loads((place / "report" / "report.json").read_text(encoding="utf-8"))
    sizes = {name: size["patients"] for name, size in report["sizes"].items()}
    assert sizes == {"train": 60, "held out": 30, "synthetic": 60}
    assert (place / "report" / "report.html").stat().st_size > 10_000


def test_training_stops_before_patients_are_copied(place):
    split = open_prepared(place / "prepared").split()
    learned = {visits_of(record) for record in split.train}
    shares = [
        sum(visits_of(record) in learned for record in records) / len(records)
        for records in (load_cohort(place / "synthetic").records, split.validation + split.test)
    ]
    written, held_out = shares
    assert written <= held_out
    said = (place / "said.txt").read_text(encoding="utf-8")
    assert "the loss on validation patients had not fallen for 5 evaluations" in said


def test_no_number_of_a_patient_or_an_admission_is_said(place):
    words = set((place / "said.txt").read_text(encoding="utf-8").replace(",", "").split())
    split = open_prepared(place / "prepared").split()
    records = [record for part in split for record in part]
    subjects = {str(record.subject_id) for record in records}
    admissions = {str(visit.hadm_id) for record in records for visit in record.visits}
    assert not words & (subjects | admissions)


@pytest.mark.skipif(not NOTES.is_file(), reason="MTS-Dialog is not at ../shared/data/mts-dialog")
def test_dialogues_are_summarised_and_scored(tmp_path):
    few = tmp_path / "few.csv"
    with NOTES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:30]
    with few.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    prepared, run, out = tmp_path / "prepared", tmp_path / "run", tmp_path / "summaries.csv"
    call("prepare", "--notes", few, "--max-source", 200, "--out", prepared)
    call("train", prepared, "--steps", 2, "--batch-size", 4, "--out", run)
    done = call("summarize", run, few, "--out", out, "--beams", 1, "--max-length", 8)
    assert f"{out}: 30 summaries." in done.stdout
    assert "rouge1" in done.stdout
