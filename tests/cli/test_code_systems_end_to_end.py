"""From tables to the report, in ICD-10-CM and translated, where it is known what must come out.

The embedded hospital comes twice: always in ICD-10-CM, and changing to it in mid-course. Each is
written as MIMIC-IV's tables, with faults planted, and as MEDS.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ehr_course.cli.prepare import open_prepared
from ehr_course.code_system import CodeSystem
from ehr_course.records import PatientRecord, Visit, system_of
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.codes import equivalent
from ehr_course.sources.meds import write_meds
from ehr_course.sources.synthetic import Dirt, make_cohort, write_mimic4

DIRT = Dirt(
    dotted=25,
    lower_case=6,
    padded=12,
    missing=8,
    malformed=14,
    duplicates=15,
    empty_admissions=6,
    unknown_patients=5,
    unknown_admissions=4,
    shuffled=True,
)
COHORTS = {
    "new": make_cohort(300, seed=6, system="ICD10CM"),
    "changed": make_cohort(300, seed=6, changed=True),
}
SYSTEMS: dict[str, CodeSystem] = {"icd9": "ICD9CM", "icd10": "ICD10CM"}
NAMES = {"icd9": "ICD-9-CM", "icd10": "ICD-10-CM"}
OTHER = {"icd9": "icd10", "icd10": "icd9"}
TINY = ("--steps", 4, "--batch-size", 16, "--profile", "narrow")
WAYS = [("--codes", "icd9"), ("--codes", "icd10"), ("--map", "icd9"), ("--map", "icd10")]


def done(result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))["result"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both hospitals in both formats: new/mimic-iv, new/meds, changed/mimic-iv, changed/meds."""
    place = tmp_path_factory.mktemp("hospitals")
    for name, records in COHORTS.items():
        planted = write_mimic4(records, place / name / "mimic-iv", dirt=DIRT, seed=6).counts
        assert min(planted[kind] for kind in ("dotted", "malformed", "rows_out_of_order")) > 0
        write_meds(records, place / name / "meds")
    return place


@pytest.fixture(scope="module")
def prepare(ehr_course, data, tmp_path_factory: pytest.TempPathFactory):
    """Prepares a hospital in a format and a way once; returns the folder and what was said."""
    made: dict[tuple[str, ...], tuple[Path, str]] = {}

    def prepare_once(*of: str) -> tuple[Path, str]:
        if of not in made:
            hospital, form, *way = of
            out = tmp_path_factory.mktemp("prepared") / "out"
            arguments = ("--data", data / hospital / form, *way, "--malformed", "drop")
            made[of] = out, done(ehr_course("prepare", *arguments, "--test", 0.2, "--out", out))
        return made[of]

    return prepare_once


def records_in(folder: Path) -> list[PatientRecord]:
    """All that was prepared, in the order of make_cohort."""
    parts = open_prepared(folder).split()
    return sorted((r for part in parts for r in part), key=lambda record: record.subject_id)


def those_in(records: Sequence[PatientRecord], system: CodeSystem, form: str):
    """The visits of one system, and the age at the first of them as the format tells it."""
    kept = []
    for record in records:
        visits = tuple(visit for visit in record.visits if visit.system == system)
        if not visits:
            continue
        before, first = record.visits[0].admitted, visits[0].admitted
        years = first.year - before.year
        # MEDS knows the birthday; MIMIC-IV counts the years from an anchor.
        if form == "meds" and (first.month, first.day) < (before.month, before.day):
            years -= 1
        kept.append(replace(record, age=min(90, record.age + years), visits=visits))
    return kept


def translated(visit: Visit, system: CodeSystem) -> tuple[str, ...]:
    """The codes of a visit in a system, each by itself, in the place where it stood."""
    if visit.system == system:
        return visit.codes
    found = (equivalent(code, source=visit.system).codes for code in visit.codes)
    return tuple(dict.fromkeys(code for codes in found for code in codes))


def empty_admissions_of(tables: Path) -> Counter[int]:
    """How many admissions without a diagnosis were planted, by patient."""
    hosp = tables / "hosp"
    admissions = pl.read_csv(hosp / "admissions.csv")
    patients = pl.read_csv(hosp / "patients.csv")["subject_id"]
    diagnosed = pl.read_csv(hosp / "diagnoses_icd.csv", infer_schema=False)["hadm_id"]
    empty = admissions.filter(
        pl.col("subject_id").is_in(patients.implode())
        & ~pl.col("hadm_id").cast(pl.String).is_in(diagnosed.implode())
    )
    assert empty.height == DIRT.empty_admissions
    return Counter(empty["subject_id"].to_list())


# ------------------------------------------------------------------ what is prepared


@pytest.mark.parametrize("form", ["mimic-iv", "meds"])
@pytest.mark.parametrize("way", [("--codes", "icd10"), ("--map", "icd10")])
def test_a_hospital_always_in_icd10_is_read_as_it_was_made(prepare, form, way):
    folder, said = prepare("new", form, *way)
    assert records_in(folder) == COHORTS["new"]
    assert "codes are ICD-10-CM" in said
    assert about(folder)["system"] == "ICD10CM"
    assert "translated" not in about(folder)


@pytest.mark.parametrize("form", ["mimic-iv", "meds"])
def test_nothing_of_it_is_in_icd9(ehr_course, data, tmp_path, form):
    source = data / "new" / form
    arguments = ("--data", source, "--codes", "icd9", "--malformed", "drop")
    result = ehr_course("prepare", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "no diagnosis in it is coded in ICD-9-CM; 2,5" in result.stderr
    assert "Take them (--codes icd10, " in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["mimic-iv", "meds"])
@pytest.mark.parametrize("kept", ["icd9", "icd10"])
def test_of_a_hospital_that_changed_the_visits_of_one_system_are_taken(prepare, form, kept):
    folder, said = prepare("changed", form, "--codes", kept)
    expected = those_in(COHORTS["changed"], SYSTEMS[kept], form)
    assert 100 < len(expected) < 200
    assert records_in(folder) == expected
    assert "coded in the other ICD version" in said


@pytest.mark.parametrize("form", ["mimic-iv", "meds"])
@pytest.mark.parametrize("kept", ["icd9", "icd10"])
def test_patients_with_a_shorter_history_are_counted(prepare, data, form, kept):
    folder, said = prepare("changed", form, "--codes", kept)
    lost = {
        record.subject_id: sum(visit.system != SYSTEMS[kept] for visit in record.visits)
        for record in COHORTS["changed"]
        if any(visit.system == SYSTEMS[kept] for visit in record.visits)
    }
    if form == "mimic-iv":
        for subject_id, count in empty_admissions_of(data / "changed" / form).items():
            if subject_id in lost:
                lost[subject_id] += count
    patients, admissions = sum(n > 0 for n in lost.values()), sum(lost.values())
    assert 10 < patients < admissions
    assert about(folder)["shortened"] == {"patients": patients, "admissions": admissions}
    assert (
        f"patients kept without some of their admissions: {patients} ({admissions} admissions: "
    ) in said


@pytest.mark.parametrize("form", ["mimic-iv", "meds"])
@pytest.mark.parametrize("kept", ["icd9", "icd10"])
def test_whole_patients_have_all_their_visits(ehr_course, data, tmp_path, form, kept):
    options = ("--codes", kept, "--whole-patients", "--malformed", "drop", "--quiet")
    out = tmp_path / "out"
    done(ehr_course("prepare", "--data", data / "changed" / form, *options, "--out", out))
    empty = empty_admissions_of(data / "changed" / form) if form == "mimic-iv" else {}
    assert records_in(out) == [
        record
        for record in COHORTS["changed"]
        if record.subject_id not in empty
        and all(visit.system == SYSTEMS[kept] for visit in record.visits)
    ]


@pytest.mark.parametrize("form", ["mimic-iv", "meds"])
@pytest.mark.parametrize(
    ("hospital", "to"), [("new", "icd9"), ("changed", "icd9"), ("changed", "icd10")]
)
def test_every_diagnosis_is_translated_or_counted(prepare, hospital, form, to):
    folder, said = prepare(hospital, form, "--map", to)
    cohort, system = COHORTS[hospital], SYSTEMS[to]
    expected = [
        replace(
            record,
            visits=tuple(
                replace(visit, codes=translated(visit, system), system=system)
                for visit in record.visits
            ),
        )
        for record in cohort
    ]
    assert records_in(folder) == expected
    assert {system_of(part) for part in open_prepared(folder).split()} == {system}

    foreign = [code for r in cohort for v in r.visits if v.system != system for code in v.codes]
    counts = about(folder)["translated"]
    assert sum(counts["rows"].values()) == len(foreign)
    assert sum(counts["codes"].values()) == len(set(foreign))
    assert (counts["from"], counts["to"]) == (SYSTEMS[OTHER[to]], system)
    lost = Counter(c for c in foreign if not equivalent(c, source=counts["from"]).codes)
    assert counts["rows"]["absent"] == lost.total() > 0
    assert sorted(counts["absent"].values()) == sorted(lost.values())
    assert (
        f"translated from {NAMES[OTHER[to]]} to {NAMES[to]}: {len(foreign):,} rows of "
        f"{len(set(foreign))} codes (exact "
    ) in said


@pytest.mark.parametrize("hospital", COHORTS)
def test_both_formats_tell_of_the_same_patients(prepare, hospital):
    one, other = (
        records_in(prepare(hospital, form, "--map", "icd9")[0]) for form in ("mimic-iv", "meds")
    )
    assert one == other


# ------------------------------------------------------------------ to the report


@pytest.mark.parametrize(
    ("hospital", "form", "way"),
    [
        ("new", "mimic-iv", ("--codes", "icd10")),
        ("new", "meds", ("--map", "icd9")),
        ("changed", "mimic-iv", ("--codes", "icd9")),
        ("changed", "meds", ("--codes", "icd10")),
        ("changed", "mimic-iv", ("--map", "icd10")),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else value,
)
def test_from_tables_to_the_report(ehr_course, prepare, tmp_path, hospital, form, way):
    prepared, _ = prepare(hospital, form, *way)
    run, written, report = (tmp_path / name for name in ("run", "written", "report"))
    system = SYSTEMS[way[1]]
    done(ehr_course("train", prepared, "--out", run, *TINY, "--quiet"))
    formats = ("--format", "meds", "--format", "parquet")
    done(ehr_course("generate", run, "--patients", 40, *formats, "--out", written, "--quiet"))
    cohorts = [load_cohort(written / name).records for name in ("meds", "patients.parquet")]
    assert [system_of(records) for records in cohorts] == [system] * 2
    known = {code for record in records_in(prepared) for code in record.codes}
    assert {code for records in cohorts for record in records for code in record.codes} <= known
    said = done(
        ehr_course(
            *("evaluate", "--real", prepared, "--synthetic", written / "meds", "--model", run),
            *("--out", report),
        )
    )
    page = (report / "report.html").read_text(encoding="utf-8")
    for text in (said, page):
        assert ("codes are ICD-10-CM" in text) == (system == "ICD10CM")
    parts = about(prepared)["parts"]
    assert (
        f"Judging {parts['train']} train, {parts['test']} held out, 40 synthetic patients." in said
    )
    judged = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert judged.get("code_system", "ICD9CM") == system
    sections = [section["key"] for section in judged["sections"] if section["measures"]]
    assert sections[:4] == ["fidelity", "validity", "perplexity", "privacy"]
