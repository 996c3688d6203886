"""Lesson 19 and the report: a real cohort beside a synthetic one, measures and floors."""

from __future__ import annotations

import math

from registry import drawing

from ehr_course.evaluation.measure import Measure
from ehr_course.plots.cohort_dashboard import draw_dashboard, draw_looks, looks_of
from ehr_course.plots.measures import draw_measures
from ehr_course.records import PartialRecord, PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

REAL, SYNTHETIC = make_cohort(300, seed=0), make_cohort(200, seed=1)


def patient(*visits, sex="F", age=64):
    return PatientRecord(1, sex, age, tuple(Visit(codes) for codes in visits))


@drawing("200 synthetic beside 300 real patients.", "Most frequent of all codes: ")
def two_cohorts():
    return draw_dashboard(REAL, SYNTHETIC)


@drawing("temperature 0.7, top-k 40, top-p 0.9: R² of", "Most frequent of codes of Circulatory")
def a_chapter_is_marked():
    looks = looks_of(REAL, SYNTHETIC)
    return draw_looks(*looks, name="temperature 0.7, top-k 40, top-p 0.9", chapter=7)


@drawing(
    # prevalences 1 and 1/2 against 0 and 1: 1 - (1 + 1/4) / (1/8)
    "R² of prevalences -9.00; 1.00 visits a patient, real 1.00. 1 synthetic beside 2 real "
    "patients. Codes per visit: 1.00, real 1.50. Most frequent of all codes: 428.0 100.0% real "
    "and 0.0% synthetic, 486 50.0% real and 100.0% synthetic. Aged 60 or more: 100.0%, real "
    "50.0%. Female: 100.0%, real 50.0%."
)
def three_patients():
    real = [patient(("4280",)), patient(("4280", "486"), age=30, sex="M")]
    return draw_dashboard(real, [patient(("486",))])


@drawing("R² of prevalences nan")
def one_code():
    return draw_dashboard([patient(("4280",))], [patient(("4280",))])


@drawing("1 synthetic beside 300 real patients.")
def one_synthetic_patient():
    return draw_dashboard(REAL, [patient(("4280",))])


@drawing("Left out: ages by sex, which a cohort does not have.")
def ages_are_not_known():
    partial = [PartialRecord(r.subject_id, None, r.age, r.visits) for r in SYNTHETIC]
    return draw_dashboard(REAL, partial)


# ---------------------------------------------------------------------- measures

MEASURES = [
    Measure("near it", 0.5, low=0.4, high=0.6, floor=0.5),
    Measure("below zero", -0.3, low=-0.6, high=0.1, floor=-0.2),
    Measure("without an interval", 2.0, floor=1.0),
    Measure("without a floor", 3.0),
    Measure("nothing", math.nan),
]


@drawing(
    "near it 0.5, floor 0.5, better: low: at the floor; below zero -0.3, floor -0.2, better: low; "
    "without an interval 2, floor 1, better: low; without a floor 3, floor none, better: low."
)
def measures_and_their_floors():
    return draw_measures(MEASURES, {"near it": "at the floor"})


@drawing("No measure has a value.")
def no_measure():
    return draw_measures(MEASURES[-1:])
