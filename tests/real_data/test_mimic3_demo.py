"""The MIMIC-III demo: 100 real patients, checked against the raw tables."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

import pytest

from ehr_course import icd9
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.mimic import load_mimic3

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"

pytestmark = pytest.mark.skipif(
    not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
)


def raw_rows(table: str) -> list[dict[str, str]]:
    with (DEMO / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S")


@pytest.fixture(scope="module")
def cohort():
    return load_mimic3(DEMO)


@pytest.fixture(scope="module")
def raw_ages() -> dict[int, int]:
    """Completed years at the first admission, before anything is capped."""
    first = {}
    for row in raw_rows("ADMISSIONS"):
        who, when = int(row["subject_id"]), day(row["admittime"])
        first[who] = min(when, first.get(who, when))
    ages = {}
    for row in raw_rows("PATIENTS"):
        born, came = day(row["dob"]), first[int(row["subject_id"])]
        had_birthday = (came.month, came.day) >= (born.month, born.day)
        ages[int(row["subject_id"])] = came.year - born.year - (not had_birthday)
    return ages


def test_the_demo_has_its_published_size(cohort):
    visits = [visit for record in cohort.records for visit in record.visits]
    codes = [code for record in cohort.records for code in record.codes]
    assert len(cohort.records) == len(raw_rows("PATIENTS")) == 100
    assert len(visits) == len(raw_rows("ADMISSIONS")) == 129
    assert len(codes) == len(raw_rows("DIAGNOSES_ICD")) == 1761
    assert len(set(codes)) == 581
    assert sum(record.sex == "F" for record in cohort.records) == 55
    assert cohort.report.dropped == {}


def test_visits_and_codes_per_patient(cohort):
    visits = Counter(len(record.visits) for record in cohort.records)
    assert visits[1] == 86
    assert max(visits) == 15
    codes = [len(visit.codes) for record in cohort.records for visit in record.visits]
    assert (min(codes), max(codes)) == (3, 37)


def test_every_visit_holds_the_codes_of_its_rows_in_order(cohort):
    expected = defaultdict(list)
    for row in raw_rows("DIAGNOSES_ICD"):
        expected[int(row["hadm_id"])].append((int(row["seq_num"]), row["icd9_code"]))
    loaded = {visit.hadm_id: visit.codes for r in cohort.records for visit in r.visits}
    assert loaded == {h: tuple(code for _, code in sorted(rows)) for h, rows in expected.items()}


def test_visits_are_in_time_order_with_their_times(cohort):
    expected = defaultdict(list)
    for row in raw_rows("ADMISSIONS"):
        expected[int(row["subject_id"])].append((day(row["admittime"]), int(row["hadm_id"])))
    for record in cohort.records:
        loaded = [(visit.admitted, visit.hadm_id) for visit in record.visits]
        assert loaded == sorted(expected[record.subject_id])


def test_ages_are_completed_years_and_90_above_89(cohort, raw_ages):
    assert {r.subject_id: r.age for r in cohort.records} == {
        who: min(age, 90) for who, age in raw_ages.items()
    }
    assert sum(age > 89 for age in raw_ages.values()) == 8
    assert max(raw_ages.values()) == 300
    assert cohort.report.changed == {"ages above 89 recorded as 90": 8}


def test_the_difference_of_years_is_a_wrong_age_for_41_patients(raw_ages):
    born = {int(row["subject_id"]): day(row["dob"]).year for row in raw_rows("PATIENTS")}
    came = {}
    for row in raw_rows("ADMISSIONS"):
        who, year = int(row["subject_id"]), day(row["admittime"]).year
        came[who] = min(year, came.get(who, year))
    assert sum(came[who] - born[who] != age for who, age in raw_ages.items()) == 41


def test_patient_10006_is_a_woman_of_70(cohort):
    record = next(record for record in cohort.records if record.subject_id == 10006)
    assert (record.sex, record.age) == ("F", 70)


def test_codes_keep_their_leading_zeros(cohort):
    raw = [row["icd9_code"] for row in raw_rows("DIAGNOSES_ICD")]
    loaded = [code for record in cohort.records for code in record.codes]
    assert sum(code.startswith("0") for code in raw) == 71
    assert sorted(loaded) == sorted(raw)


def test_more_than_half_of_the_codes_are_seen_once(cohort):
    seen = Counter(code for record in cohort.records for code in record.codes)
    assert sum(count == 1 for count in seen.values()) == 322


def test_categories_need_four_characters_of_an_e_code(cohort):
    codes = {code for record in cohort.records for code in record.codes}
    assert len({icd9.category(code) for code in codes}) == 275
    assert len({code[:3] for code in codes}) == 263


def test_the_demo_is_recognised(cohort):
    assert load_cohort(DEMO) == cohort
