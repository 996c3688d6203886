"""Codes that age or sex rules out, counted."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats

from ehr_course.evaluation import validity as module
from ehr_course.evaluation.validity import (
    Validity,
    impossible_share,
    impossible_share_of,
    validity,
)
from ehr_course.icd import icd9
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort


def test_codes_are_counted_one_by_one_over_all_patients() -> None:
    # 650 is a delivery, 185 a cancer of the prostate, 4019 hypertension, V3001 a newborn.
    patients = [[["650", "4019"], ["185"]], [["V3001"]], []]
    assert impossible_share(patients, [30, 30, 30], ["F", "F", "M"]) == 2 / 4


def test_a_code_without_a_rule_counts_as_possible_even_when_it_is_unknown() -> None:
    assert impossible_share([[["99999", "I509"]]], [40], ["M"]) == 0.0


def test_records_carry_their_own_age_and_sex() -> None:
    record = PatientRecord(1, "M", 70, (Visit(("650", "4019")),))
    assert impossible_share_of([record]) == 0.5
    assert impossible_share_of(make_cohort(200, seed=3)) == 0.0


# ---------------------------------------------------------------------- by code, visit, patient


def patient(age: int, sex: str, *visits: tuple[str, ...]) -> PatientRecord:
    return PatientRecord(1, sex, age, tuple(Visit(codes) for codes in visits))


def shares(found: Validity) -> list[float]:
    return [measure.value for measure in found.measures]


def with_other_patients_codes(n: int, seed: int) -> list[PatientRecord]:
    """Patients who got the visits of others: many of them cannot be."""
    cohort = make_cohort(n, seed=seed)
    return [
        PatientRecord(record.subject_id, record.sex, record.age, other.visits)
        for record, other in zip(cohort, cohort[1:] + cohort[:1], strict=True)
    ]


def test_codes_visits_and_patients_are_counted_by_hand() -> None:
    found = validity(
        [
            patient(30, "M", ("650", "4019"), ("V3001", "650")),  # 3 of 4, 2 of 2 visits
            patient(30, "F", ("650", "185"), ("4019",), ("4280",)),  # 1 of 4, 1 of 3
            patient(70, "M", ("185",)),  # none
        ]
    )
    assert [measure.name for measure in found.measures] == [
        "impossible codes",
        "visits with an impossible code",
        "patients with an impossible code",
    ]
    assert np.allclose(shares(found), [4 / 9, 3 / 6, 2 / 3])
    assert {measure.unit for measure in found.measures} == {"share"}


def test_the_share_of_codes_is_that_of_the_slow_loop() -> None:
    mixed = with_other_patients_codes(300, seed=0)
    slow = impossible_share_of(mixed)
    assert slow > 0.05
    assert validity(mixed)["impossible codes"].value == pytest.approx(slow)


def test_the_age_at_the_first_visit_counts_at_all_visits() -> None:
    found = validity([patient(11, "F", ("4019",), ("650",))])
    assert found["impossible codes"].value == 0.5


def test_the_worst_codes_come_with_title_count_and_rule() -> None:
    found = validity(
        [
            patient(30, "M", ("650", "V3001"), ("650",)),
            patient(4, "F", ("650",)),
            patient(30, "F", ("V3001", "185")),
            patient(30, "F", ("V3001", "650")),
        ]
    )
    assert tuple(map(astuple, found.worst[:2])) == (
        # Two men and a child: the commoner reason is told.
        (
            "650",
            "Normal delivery",
            3,
            "recorded for females only: pregnancy, childbirth and the puerperium",
        ),
        (
            "V3001",
            "Single liveborn, born in hospital, delivered by cesarean section",
            3,
            "recorded at age 0 only: the birth of this patient",
        ),
    )
    assert [row.code for row in found.worst] == ["650", "V3001", "185"]


def test_the_worst_codes_add_up_and_the_list_can_be_shorter(monkeypatch) -> None:
    mixed = with_other_patients_codes(300, seed=0)
    monkeypatch.setattr(module, "MOST_WORST", 10_000)
    every = validity(mixed).worst
    slow = Counter(
        code
        for record in mixed
        for code in record.codes
        if icd9.why_impossible(code, age=record.age, sex=record.sex)
    )
    assert {row.code: row.count for row in every} == slow
    assert [row.count for row in every] == sorted(slow.values(), reverse=True)
    monkeypatch.setattr(module, "MOST_WORST", 3)
    assert validity(mixed).worst == every[:3]


def test_a_code_that_does_not_exist_has_no_title() -> None:
    found = validity([patient(30, "M", ("6509",))])  # in the range of deliveries
    assert (found.worst[0].code, found.worst[0].title, found.worst[0].count) == ("6509", "", 1)


def test_a_code_of_another_classification_counts_as_possible() -> None:
    assert shares(validity([patient(30, "M", ("O80A", "I509"))])) == [0, 0, 0]


def test_the_floor_is_the_share_of_real_patients() -> None:
    real = [patient(30, "F", ("650",))] * 9 + [patient(30, "M", ("650", "4019"))]
    found = validity([patient(30, "F", ("650",))], real=real)
    floors = [measure.floor for measure in found.measures]
    assert np.allclose(floors, [1 / 11, 0.1, 0.1])
    assert all(math.isnan(measure.floor) for measure in validity(real).measures)


def test_intervals_are_those_of_scipys_bootstrap_over_patients() -> None:
    mixed = with_other_patients_codes(200, seed=1)
    found = validity(mixed, resamples=3000)
    bad = [
        [
            [
                icd9.why_impossible(c, age=record.age, sex=record.sex) is not None
                for c in visit.codes
            ]
            for visit in record.visits
        ]
        for record in mixed
    ]
    pairs = (
        [(sum(map(sum, visits)), sum(map(len, visits))) for visits in bad],
        [(sum(map(any, visits)), len(visits)) for visits in bad],
        [(any(map(any, visits)), 1) for visits in bad],
    )
    for measure, sums in zip(found.measures, pairs, strict=True):
        oracle = stats.bootstrap(
            np.array(sums, dtype=float).T,
            lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
            paired=True,
            n_resamples=3000,
            method="percentile",
            rng=0,
        ).confidence_interval
        assert (measure.low, measure.high) == pytest.approx(tuple(oracle), abs=0.006)


def test_nothing_found_in_100_patients_leaves_room_for_some() -> None:
    for measure in validity(make_cohort(100, seed=0)).measures:
        assert (measure.value, measure.low) == (0, 0)
        # Clopper and Pearson: the share at which nothing in 100 has a chance of 2.5 percent.
        assert (1 - measure.high) ** 100 == pytest.approx(0.025)


def test_with_too_few_patients_there_is_no_interval_and_a_warning() -> None:
    found = validity(make_cohort(29, seed=0))
    assert not any(measure.known for measure in found.measures)
    assert "has 29 patients" in found.warnings[0]
    assert validity(make_cohort(30, seed=0)).warnings == ()
