"""Whom to write: ages and sexes as a cohort has them, together."""

from __future__ import annotations

from collections import Counter

import pytest

from ehr_course.errors import InputError
from ehr_course.generation.demographics import wanted_like
from ehr_course.generation.patients import Wanted
from ehr_course.records import PatientRecord, Visit


def patient(number, sex, age):
    return PatientRecord(number, sex, age, (Visit(("4280",)),))


COHORT = [patient(1, "F", 30), patient(2, "F", 30), patient(3, "F", 30), patient(4, "M", 80)]


def test_ages_and_sexes_come_together_as_often_as_in_the_cohort():
    drawn = Counter((w.sex, w.age) for w in wanted_like(COHORT, 10_000, seed=1))
    assert set(drawn) == {("F", 30), ("M", 80)}
    assert drawn["F", 30] == pytest.approx(7_500, abs=200)


def test_nothing_of_a_visit_is_taken():
    assert set(wanted_like(COHORT, 50)) <= {Wanted(30, "F"), Wanted(80, "M")}


def test_the_seed_decides():
    assert wanted_like(COHORT, 50, seed=1) == wanted_like(COHORT, 50, seed=1)
    assert wanted_like(COHORT, 50, seed=1) != wanted_like(COHORT, 50, seed=2)


def test_no_cohort_is_refused():
    with pytest.raises(InputError, match="there are none"):
        wanted_like([], 5)


@pytest.mark.parametrize("n", [0, -1])
def test_no_patients_to_draw_are_refused(n):
    with pytest.raises(InputError, match="no number of patients"):
        wanted_like(COHORT, n)
