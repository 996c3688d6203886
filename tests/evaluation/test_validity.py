"""Codes that age or sex rules out, counted."""

from __future__ import annotations

import math

from ehr_course.evaluation.validity import impossible_share, impossible_share_of
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort


def test_codes_are_counted_one_by_one_over_all_patients() -> None:
    # 650 is a delivery, 185 a cancer of the prostate, 4019 hypertension, V3001 a newborn.
    patients = [[["650", "4019"], ["185"]], [["V3001"]], []]
    assert impossible_share(patients, [30, 30, 30], ["F", "F", "M"]) == 2 / 4


def test_the_same_code_is_possible_for_another_patient() -> None:
    assert impossible_share([[["185"]]], [70], ["M"]) == 0.0
    assert impossible_share([[["185"]]], [70], ["F"]) == 1.0


def test_a_code_without_a_rule_counts_as_possible_even_when_it_is_unknown() -> None:
    assert impossible_share([[["99999", "I509"]]], [40], ["M"]) == 0.0


def test_no_code_at_all_has_no_share() -> None:
    assert math.isnan(impossible_share([[]], [40], ["M"]))


def test_records_carry_their_own_age_and_sex() -> None:
    record = PatientRecord(1, "M", 70, (Visit(("650", "4019")),))
    assert impossible_share_of([record]) == 0.5
    assert impossible_share_of(make_cohort(200, seed=3)) == 0.0
