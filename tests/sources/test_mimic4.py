"""MIMIC-IV tables become records of one ICD version."""

from __future__ import annotations

from datetime import datetime

import pytest
from small_tables import DIAGNOSES_4, write_tables_4

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.cohort import Reason
from ehr_course.sources.mimic import load_mimic4

RECORDS_9 = (
    PatientRecord(1, "F", 54, (Visit(("4280",), datetime(2182, 5, 6, 22, 23), hadm_id=11),)),
    PatientRecord(2, "M", 90, (Visit(("0389",), datetime(2150, 3, 4, 5, 6), hadm_id=21),)),
)


def test_icd9_is_read_and_icd10_counted(tmp_path):
    cohort = load_mimic4(write_tables_4(tmp_path), system="ICD9CM")
    assert cohort.records == RECORDS_9
    assert cohort.report.dropped == {
        ("DIAGNOSES_ICD", Reason.OTHER_VERSION): 2,
        ("ADMISSIONS", Reason.DIAGNOSES_DROPPED): 1,
    }
    for table in cohort.report.tables:
        assert table.rows_read == table.rows_used + table.rows_dropped


def test_icd10_is_read_on_request(tmp_path):
    cohort = load_mimic4(write_tables_4(tmp_path), system="ICD10CM")
    assert cohort.records == (
        PatientRecord(
            1,
            "F",
            54,
            (
                Visit(("I509",), datetime(2182, 5, 6, 22, 23), hadm_id=11, system="ICD10CM"),
                Visit(("U071",), datetime(2184, 1, 2, 1), hadm_id=12, system="ICD10CM"),
            ),
        ),
    )
    assert cohort.report.dropped["DIAGNOSES_ICD", Reason.OTHER_VERSION] == 2
    assert cohort.report.dropped["PATIENTS", Reason.ADMISSIONS_DROPPED] == 1


def test_the_tables_may_lie_in_hosp(tmp_path):
    write_tables_4(tmp_path / "hosp")
    assert load_mimic4(tmp_path, system="ICD9CM").records == RECORDS_9
    assert load_cohort(tmp_path, system="ICD9CM").records == RECORDS_9


def test_the_kind_of_folder_is_recognised(tmp_path):
    assert load_cohort(write_tables_4(tmp_path), system="ICD9CM").records == RECORDS_9


@pytest.mark.parametrize(
    ("anchor_age", "year", "age"),
    [(52, 2180, 52), (52, 2182, 54), (52, 2179, 51), (89, 2180, 89), (89, 2182, 90), (0, 2180, 0)],
)
def test_age_counts_the_years_from_the_anchor(tmp_path, anchor_age, year, age):
    folder = write_tables_4(
        tmp_path,
        patients=f"subject_id,gender,anchor_age,anchor_year\n1,F,{anchor_age},2180\n",
        admissions=f"subject_id,hadm_id,admittime\n1,11,{year}-05-06 22:23:00\n",
    )
    assert load_mimic4(folder).records[0].age == age


@pytest.mark.parametrize("year", [2175, 2180, 2190])
def test_an_anchor_age_of_91_is_above_89_in_every_year(tmp_path, year):
    folder = write_tables_4(
        tmp_path,
        patients="subject_id,gender,anchor_age,anchor_year\n1,F,91,2180\n",
        admissions=f"subject_id,hadm_id,admittime\n1,11,{year}-05-06 22:23:00\n",
    )
    cohort = load_mimic4(folder)
    assert cohort.records[0].age == 90
    assert cohort.report.changed["ages above 89 recorded as 90"] == 1


def test_an_icd10_code_of_no_such_shape_is_refused(tmp_path):
    write_tables_4(tmp_path, diagnoses=DIAGNOSES_4.replace("U071", "4280"))
    with pytest.raises(
        InputError, match="line 4, column 'icd_code': '4280' does not have the shape"
    ):
        load_mimic4(tmp_path, system="ICD10CM")


def test_a_system_that_is_none(tmp_path):
    with pytest.raises(InputError, match=r"code system: '9' is neither 'ICD9CM' nor 'ICD10CM'\."):
        load_mimic4(write_tables_4(tmp_path), system="9")
