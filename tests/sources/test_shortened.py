"""Patients of whom some admissions are dropped: counted, named so, and left out on request."""

from __future__ import annotations

import pytest
from hospital_tables import divided, write_meds_hospital, write_mimic4_hospital
from small_tables import ADMISSIONS, DIAGNOSES, write_tables

from ehr_course.errors import InputError
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.code_table import load_frame
from ehr_course.sources.cohort import Reason
from ehr_course.sources.meds import load_meds
from ehr_course.sources.mimic import load_mimic3, load_mimic4
from ehr_course.sources.synthetic import make_cohort

RECORDS = make_cohort(300, seed=1)
LEFT, WHOLE, LOST = divided(RECORDS)
WRITERS = {"mimic4": write_mimic4_hospital, "meds": write_meds_hospital}


def visits(records) -> list[tuple]:
    return [(record.subject_id, record.sex, record.visits) for record in records]


@pytest.mark.parametrize("kind", WRITERS)
def test_they_are_kept_with_what_is_left_and_counted(tmp_path, kind):
    cohort = load_cohort(WRITERS[kind](RECORDS, tmp_path / kind), system="ICD9CM")
    assert visits(cohort.records) == visits(LEFT)
    found = cohort.report.shortened
    assert (found.patients, found.admissions) == (len(LEFT) - len(WHOLE), LOST)
    assert LOST > found.patients > 20
    line = f"patients kept without some of their admissions: {found.patients} ({LOST} admissions: "
    assert line in str(cohort.report)
    assert any(loss.startswith(line) for loss in cohort.report.losses)
    assert line in cohort.report._repr_html_()


@pytest.mark.parametrize("kind", WRITERS)
def test_they_are_left_out_on_request(tmp_path, kind):
    data = WRITERS[kind](RECORDS, tmp_path / kind)
    cohort = load_cohort(data, whole_patients=True, system="ICD9CM")
    assert visits(cohort.records) == visits(WHOLE)
    n = len(LEFT) - len(WHOLE)
    said = f"patients left out because some of their admissions were dropped: {n} ({LOST} adm"
    assert said in str(cohort.report)
    for table in cohort.report.tables:
        assert table.rows_read == table.rows_used + table.rows_dropped


def test_the_account_of_mimic_says_what_became_of_every_row(tmp_path):
    folder = write_mimic4_hospital(RECORDS, tmp_path)
    dropped = load_mimic4(folder, whole_patients=True, system="ICD9CM").report.dropped
    n = len(LEFT) - len(WHOLE)
    kept_visits = sum(len(record.visits) for record in LEFT)
    whole_visits = sum(len(record.visits) for record in WHOLE)
    assert dropped["PATIENTS", Reason.SHORTENED] == n
    assert dropped["PATIENTS", Reason.ADMISSIONS_DROPPED] == len(RECORDS) - len(LEFT)
    assert dropped["ADMISSIONS", Reason.PATIENT_DROPPED] == kept_visits - whole_visits


def test_where_the_lost_admissions_stand(tmp_path):
    diagnoses = DIAGNOSES.replace("3,20,200,1,E8497\n", "")
    said = str(load_mimic3(write_tables(tmp_path, diagnoses=diagnoses)).report)
    assert said.endswith("patients kept without some of their admissions: 1 (1 admission: line 3)")


def test_an_admission_that_stands_twice_is_not_lost(tmp_path):
    again = ADMISSIONS + "4,20,200,2165-01-02 08:00:00,FALL\n"
    report = load_mimic3(write_tables(tmp_path, admissions=again)).report
    assert report.dropped == {("ADMISSIONS", Reason.SAME_ROW): 1}
    assert report.shortened is None


def test_a_malformed_admission_is_lost(tmp_path):
    wrong = ADMISSIONS.replace("2165-01-02 08:00:00", "soon")
    report = load_mimic3(write_tables(tmp_path, admissions=wrong), malformed="drop").report
    assert (report.shortened.patients, report.shortened.examples) == (1, ("line 3",))


def test_a_cohort_in_which_nobody_is_whole_is_refused(tmp_path):
    some = [r for r in RECORDS if r.subject_id % 3 == 1 and len(r.visits) > 1]
    for kind, write in WRITERS.items():
        with pytest.raises(InputError) as refused:
            load_cohort(write(some, tmp_path / kind), whole_patients=True, system="ICD9CM")
        assert (
            "every patient of it lost an admission, so that no whole patient is left. Keep such "
            "patients: leave --whole-patients, or whole_patients=True, out. What was dropped:\n"
        ) in str(refused.value)


def table(*rows: tuple) -> dict:
    return dict(zip(("patient", "visit", "code"), map(list, zip(*rows, strict=True)), strict=True))


ROWS = table(
    *[("a", "1", "428.0"), ("a", "2", ""), ("a", "3", "401.9")],
    *[("b", "1", "486"), ("c", "1", "")],
)


def test_a_table_of_codes():
    cohort = load_frame(ROWS)
    assert [record.codes for record in cohort.records] == [("4280", "4019"), ("486",)]
    assert (cohort.report.shortened.patients, cohort.report.shortened.admissions) == (1, 1)
    assert cohort.report.shortened.examples == ("row 2",)


def test_a_table_of_codes_without_them():
    cohort = load_frame(ROWS, whole_patients=True)
    assert [record.codes for record in cohort.records] == [("486",)]
    assert cohort.report.dropped == {
        ("data frame", Reason.NO_CODE): 2,
        ("data frame", Reason.PATIENT_DROPPED): 2,
        ("visits", Reason.ROWS_DROPPED): 2,
        ("visits", Reason.PATIENT_DROPPED): 2,
        ("patients", Reason.ROWS_DROPPED): 1,
        ("patients", Reason.SHORTENED): 1,
    }
    for part in cohort.report.tables:
        assert part.rows_read == part.rows_used + part.rows_dropped


def test_a_table_of_codes_in_which_nobody_is_whole():
    with pytest.raises(InputError, match="so that no whole patient is left"):
        load_frame(table(("a", "1", "428.0"), ("a", "2", "")), whole_patients=True)


def test_omop_and_its_visits_without_a_code(tmp_path):
    (tmp_path / "condition_occurrence.csv").write_text(
        "person_id,visit_occurrence_id,condition_source_value,condition_start_date\n"
        "1,10,428.0,2101-01-01\n1,11,,2101-02-01\n1,,401.9,2101-02-01\n2,20,486,2101-01-01\n",
        encoding="utf-8",
    )
    report = load_cohort(tmp_path).report
    assert str(report.shortened) == (
        "patients kept without some of their admissions: 1 (1 admission: line 3)"
    )
    assert len(load_cohort(tmp_path, whole_patients=True).records) == 1


# ------------------------------------------------------------------ vocabularies of MEDS


def test_meds_counts_its_diagnoses_by_vocabulary(tmp_path):
    report = load_meds(write_meds_hospital(RECORDS, tmp_path), system="ICD9CM").report
    n_visits = sum(len(record.visits) for record in RECORDS)
    n_10 = n_visits - sum(len(record.visits) for record in LEFT)
    n_9 = sum(len(record.codes) for record in LEFT)
    line = f"diagnoses by vocabulary: ICD9CM {n_9:,}, ICD10CM {n_10:,}; those in ICD9CM are read"
    assert line in str(report).splitlines()
    assert line in report.losses
    assert report.dropped["data", Reason.OTHER_VERSION] == n_10
    assert ("data", Reason.NOT_NEEDED) not in report.dropped


def test_a_dataset_in_icd9_alone_says_nothing_of_vocabularies(tmp_path):
    some = [record for record in RECORDS if record.subject_id % 3 == 2]
    assert load_meds(write_meds_hospital(some, tmp_path)).report.notes == ()
