"""Copies of training patients compared with those that chance makes of held-out ones."""

from __future__ import annotations

import math

import pytest

from ehr_course.evaluation.privacy import patients_with_a_copy
from ehr_course.records import PatientRecord, Visit
from ehr_course.report.verdicts import Verdict, verdict
from ehr_course.sources.synthetic import make_cohort


def patients(first: int, n: int, code: str) -> list[PatientRecord]:
    return [PatientRecord(first + i, "F", 50, (Visit((code,)),)) for i in range(n)]


def test_the_interval_is_that_of_newcombe():
    # The example of his paper: 56 of 70 against 48 of 80, method 10.
    train = patients(0, 56, "4019") + patients(100, 14, "486")
    held_out = patients(200, 48, "4019") + patients(300, 32, "486")
    found = patients_with_a_copy(train, held_out, patients(400, 30, "4019"))
    assert (found.value, found.floor) == (0.8, 0.6)
    assert found.low - found.floor == pytest.approx(0.0524, abs=5e-5)
    assert found.high - found.floor == pytest.approx(0.3339, abs=5e-5)


@pytest.mark.parametrize("n_held_out", [40, 400])
def test_another_draw_of_the_hospital_copies_by_chance_alone(n_held_out):
    real = (make_cohort(400, seed=1), make_cohort(n_held_out, seed=2))
    alarms = [
        verdict(patients_with_a_copy(*real, make_cohort(400, seed=10 + seed))) is Verdict.WORSE
        for seed in range(20)
    ]
    # The real patients are the same each time, so the draws are not independent.
    assert sum(alarms) <= 2


def test_short_records_are_copies_that_chance_makes():
    short = [record for record in make_cohort(3000, seed=5) if len(record.codes) <= 3]
    found = patients_with_a_copy(make_cohort(500, seed=1), make_cohort(500, seed=2), short)
    assert found.value > 0.05 and verdict(found) is Verdict.AT_FLOOR


@pytest.mark.parametrize("n_held_out", [40, 400])
def test_one_training_patient_in_five_who_is_copied_is_found(n_held_out):
    train = make_cohort(400, seed=1)
    cohort = train[:80] + make_cohort(320, seed=3)
    found = patients_with_a_copy(train, make_cohort(n_held_out, seed=2), cohort)
    assert found.value >= 0.2 and verdict(found) is Verdict.WORSE


def test_with_fewer_than_30_patients_there_is_no_interval():
    parts = (patients(0, 40, "486"), patients(50, 29, "486"), patients(90, 30, "486"))
    found = patients_with_a_copy(*parts)
    assert (found.value, found.floor) == (1, 1)
    assert math.isnan(found.low) and math.isnan(found.high)
