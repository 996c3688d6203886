"""The MIMIC-III demo, translated to ICD-10-CM, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ehr_course.cli.app import app
from ehr_course.cli.prepare import open_prepared
from ehr_course.records import system_of
from ehr_course.sources.cohort import Equivalence, Reason
from ehr_course.sources.meds import load_meds, write_meds
from ehr_course.sources.mimic import load_mimic3

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"

pytestmark = pytest.mark.skipif(
    not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
)


def test_no_admission_is_lost_to_translation():
    plain = load_mimic3(DEMO)
    cohort = load_mimic3(DEMO, map_to="ICD10CM")
    assert system_of(cohort.records) == "ICD10CM"
    assert [[v.hadm_id for v in r.visits] for r in cohort.records] == [
        [v.hadm_id for v in r.visits] for r in plain.records
    ]
    translated = cohort.report.translated
    assert translated.counts[Equivalence.ABSENT] == (77, 37)
    assert translated.rows == sum(len(record.codes) for record in plain.records) == 1761
    assert cohort.report.dropped["DIAGNOSES_ICD", Reason.NO_EQUIVALENT] == 77


def test_most_codes_come_back(tmp_path):
    plain = load_mimic3(DEMO).records
    write_meds(load_mimic3(DEMO, map_to="ICD10CM").records, tmp_path / "meds")
    back = load_meds(tmp_path / "meds", map_to="ICD9CM").records
    found = {visit.hadm_id: {*visit.codes} for record in back for visit in record.visits}
    visits = [visit for record in plain for visit in record.visits]
    kept = sum(len({*visit.codes} & found.get(visit.hadm_id, set())) for visit in visits)
    assert kept / sum(len(visit.codes) for visit in visits) > 0.8


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_from_tables_to_a_report_in_icd10(tmp_path):
    prepared, run, written = (tmp_path / name for name in ("prepared", "run", "written"))
    data = ("--data", DEMO, "--map", "icd10", "--test", 0.3)
    assert "absent 77 of 37)" in call("prepare", *data, "--out", prepared)
    assert open_prepared(prepared).tokenizer().system == "ICD10CM"
    tiny = ("--steps", 4, "--batch-size", 16, "--profile", "narrow")
    call("train", prepared, "--out", run, *tiny, "--quiet")
    call("generate", run, "--patients", 40, "--eligible-only", "--out", written, "--quiet")
    said = call(
        *("evaluate", "--real", prepared, "--synthetic", written, "--model", run),
        *("--out", tmp_path / "report"),
    )
    assert "codes are ICD-10-CM" in said
    assert (tmp_path / "report" / "report.html").is_file()
