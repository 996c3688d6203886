"""`ehr-course` with hospitals in ICD-10-CM, and with one that changed in mid-course."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ehr_course.cli.prepare import open_prepared
from ehr_course.cli.run_record import fingerprint_of_records
from ehr_course.records import PatientRecord, Visit, system_of
from ehr_course.sources.synthetic import make_cohort, write_mimic3, write_mimic4

CHANGED = make_cohort(240, seed=4, changed=True)
TINY = ("--steps", 4, "--batch-size", 16, "--profile", "narrow")


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def done(result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(result) -> str:
    assert result.exit_code == 1, result.output
    return result.stderr


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems") / "mimic-iv"
    write_mimic4(CHANGED, folder)
    return folder


@pytest.fixture(scope="module")
def newer(ehr_course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded hospital in ICD-10-CM, prepared, with a model and patients that it wrote."""
    place = tmp_path_factory.mktemp("newer")
    arguments = ("prepare", "--codes", "icd10", "--patients", 200)
    done(ehr_course(*arguments, "--out", place / "prepared", "--quiet"))
    done(ehr_course("train", place / "prepared", "--out", place / "run", *TINY, "--quiet"))
    formats = ("--format", "meds", "--format", "parquet", "--patients", 30)
    done(ehr_course("generate", place / "run", *formats, "--out", place / "synthetic", "--quiet"))
    return place


@pytest.mark.parametrize(
    ("options", "system"),
    [
        (("--codes", "icd9"), "ICD9CM"),
        (("--codes", "icd10"), "ICD10CM"),
        (("--map", "icd9"), "ICD9CM"),
        (("--map", "icd10"), "ICD10CM"),
        ((), "ICD9CM"),
    ],
)
def test_prepare_says_what_it_took_and_translated(ehr_course, tmp_path, hospital, options, system):
    out = tmp_path / "out"
    said = done(ehr_course("prepare", "--data", hospital, *options, "--out", out))
    prepared = open_prepared(out)
    assert prepared.tokenizer().system == system
    assert {system_of(part) for part in prepared.split()} == {system}
    result = about(out)["result"]
    assert result.get("system") == (None if system == "ICD9CM" else system)
    n_patients = sum(map(len, prepared.split()))
    if "--codes" in options:
        assert "translated" not in result
        assert n_patients < len(CHANGED)
        assert "coded in the other ICD version" in said
    else:
        translated = result["translated"]
        n_10 = sum(len(v.codes) for r in CHANGED for v in r.visits if v.system != system)
        assert sum(translated["rows"].values()) == n_10
        assert translated["to"] == system
        assert n_patients == len(CHANGED)
        assert f": {n_10:,} rows of {sum(translated['codes'].values())} codes (exact " in said
    by_default = "without --codes or --map, those in ICD-10-CM are translated"
    assert (by_default in said) == (not options)
    again = tmp_path / "again"
    done(ehr_course("repeat", out, "--out", again, "--quiet"))
    assert about(again) == about(out)


def test_two_systems_are_not_compared(ehr_course, newer, synthetic, tmp_path):
    old = synthetic / "meds"
    arguments = ("evaluate", "--real", newer / "prepared", "--synthetic", old)
    assert refused(ehr_course(*arguments, "--out", tmp_path / "report")) == (
        f"{old}: its codes are ICD-9-CM, and those of the real patients are ICD-10-CM: the same "
        "letters and digits mean other diseases. Translate them with --map icd10, or prepare the "
        "real patients with --map icd9.\n"
    )
    assert not (tmp_path / "report").exists()
    said = done(ehr_course(*arguments, "--map", "icd10", "--out", tmp_path / "report"))
    assert "translated from ICD-9-CM to ICD-10-CM: " in said
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "translated from ICD-9-CM to ICD-10-CM: " in page


def test_a_model_is_not_adapted_to_the_other_system(ehr_course, newer, run, tmp_path):
    prepared = newer / "prepared"
    arguments = ("train", prepared, "--adapt", run, "--steps", 2, "--out", tmp_path / "out")
    assert refused(ehr_course(*arguments)) == (
        f"{prepared}: its codes are ICD-10-CM, and those of the model in {run} are ICD-9-CM. "
        "Prepare the data with --map icd9, or train a new model: leave --adapt out.\n"
    )


def test_the_tables_of_mimic3_are_not_written_in_icd10(ehr_course, newer, tmp_path):
    run = newer / "run"
    arguments = ("generate", run, "--format", "mimic3", "--out", tmp_path / "out")
    assert refused(ehr_course(*arguments)) == (
        f"{run}: this model writes ICD-10-CM, and the tables of MIMIC-III hold ICD-9-CM alone. "
        "Leave --format mimic3 out; take meds or parquet.\n"
    )


def test_mimic3_is_prepared_in_icd10(ehr_course, tmp_path):
    write_mimic3(make_cohort(200, seed=4), tmp_path / "tables")
    arguments = ("prepare", "--data", tmp_path / "tables", "--out", tmp_path / "out")
    assert refused(ehr_course(*arguments, "--codes", "icd10")).startswith(
        "MIMIC-III: its diagnoses are all coded in ICD-9-CM. Leave --codes icd10, or "
    )
    said = done(ehr_course(*arguments, "--map", "icd10"))
    assert "translated from ICD-9-CM to ICD-10-CM: " in said
    assert open_prepared(tmp_path / "out").tokenizer().system == "ICD10CM"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--map", "icd10"),
            "prepare, --map: no data are named. Give --data too. For the embedded hospital, "
            "--codes names the system of codes.\n",
        ),
        (
            ("--notes", "embedded", "--codes", "icd10"),
            "prepare, --codes: notes have no codes. Leave it out.\n",
        ),
    ],
)
def test_options_that_have_nothing_to_say(ehr_course, tmp_path, arguments, said):
    assert refused(ehr_course("prepare", *arguments, "--out", tmp_path / "out")) == said


def test_the_same_letters_in_the_other_system_are_other_data():
    older, newer = (
        [PatientRecord(1, "F", 50, (Visit(("E8859", "V304"), system=system),))]
        for system in ("ICD9CM", "ICD10CM")
    )
    assert fingerprint_of_records(older) != fingerprint_of_records(newer)
