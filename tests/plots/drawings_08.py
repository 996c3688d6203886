"""The drawings of lesson 08."""

from __future__ import annotations

from datetime import datetime

import polars as pl
from registry import drawing

from ehr_course.plots.lesson_08 import draw_lost_zeros, draw_tables
from ehr_course.records import PatientRecord, Visit

THREE = PatientRecord(
    7, "M", 28,
    (
        Visit(("80707", "E8495"), datetime(2169, 11, 22), 21),
        Visit(("57400",), datetime(2170, 6, 22), 23),
        Visit(("82101", "E8120"), datetime(2170, 7, 20), 22),
    ),
)  # fmt: skip
MANY_CODES = tuple(f"{n}" for n in range(40100, 40118))
LONG = PatientRecord(
    98_765_432, "F", 90,
    tuple(Visit(MANY_CODES, datetime(2150, 1, n), 12_345_670 + n) for n in range(1, 8)),
)  # fmt: skip


def tables_of(record: PatientRecord, others: int = 0) -> list[pl.DataFrame]:
    """The rows of a patient in three tables, last ones first, with stays of nobody before them."""
    person = {"subject_id": [record.subject_id], "gender": [record.sex], "dob": ["2101-03-04"]}
    stays = [(record.subject_id, v.hadm_id, f"{v.admitted}") for v in record.visits]
    stays += [(1, n, "2100-01-01 00:00:00") for n in range(others)]
    codes = [(v.hadm_id, str(n), code) for v in record.visits for n, code in enumerate(v.codes, 1)]
    return [
        pl.DataFrame(person),
        pl.DataFrame(stays[::-1], ["subject_id", "hadm_id", "admittime"], orient="row"),
        pl.DataFrame(codes[::-1], ["hadm_id", "seq_num", "icd9_code"], orient="row"),
    ]


@drawing("Patient 7 in three tables: 1 row of PATIENTS, 3 of ADMISSIONS, 5 of DIAGNOSES_ICD.",
         "man, 28, 3 visits", shown=["80707", "E8495", "57400", "2169-11-22"])  # fmt: skip
def three_stays():
    return draw_tables(*tables_of(THREE), THREE)


@drawing("7 of ADMISSIONS, 126 of DIAGNOSES_ICD", shown=["and 117 more rows", "and 3 more"])
def tables_and_visits_that_are_cut_short():
    return draw_tables(*tables_of(LONG, others=3), LONG)


@drawing("00845 (an infection) becomes 845.0 (a sprain)", "nothing (missing) becomes nan")
def lost_zeros():
    long = "a meaning with more words than there is room for beside the other one"
    return draw_lost_zeros(
        [
            ("00845", "an infection", "845.0", "a sprain"),
            ("04149", long, "4149.0", long),
            ("4280", "heart failure", "4280.0", "not a valid code"),
            ("", "missing", "nan", "not a valid code"),
        ]
    )
