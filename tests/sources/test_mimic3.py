"""MIMIC-III tables become records, and every row is accounted for."""

from __future__ import annotations

import csv
import gzip
from datetime import date, datetime
from pathlib import Path

import pytest
from small_tables import ADMISSIONS, DIAGNOSES, PATIENTS, write_tables

from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.cohort import Cohort, Reason
from ehr_course.sources.mimic import load_mimic3
from ehr_course.sources.synthetic import Dirt, make_cohort, write_mimic3

RECORDS = (
    PatientRecord(
        10, "M", 69, (Visit(("4280", "V3001"), datetime(2120, 6, 30, 23, 59), hadm_id=100),)
    ),
    PatientRecord(
        20,
        "F",
        70,
        (
            Visit(("99591", "0389"), datetime(2164, 10, 23, 21, 9), hadm_id=300),
            Visit(("E8497",), datetime(2165, 1, 2, 8), hadm_id=200),
        ),
    ),
)


def assert_every_row_is_accounted_for(cohort: Cohort, folder: Path) -> None:
    for name, rows_read in cohort.report.rows_read.items():
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            assert rows_read == sum(1 for row in csv.reader(file) if row) - 1
        dropped = [n for (table, _), n in cohort.report.dropped.items() if table == name]
        assert rows_read == cohort.report.rows_used[name] + sum(dropped)
    assert cohort.report.rows_used == {
        "PATIENTS": len(cohort.records),
        "ADMISSIONS": sum(len(record.visits) for record in cohort.records),
        "DIAGNOSES_ICD": sum(len(record.codes) for record in cohort.records),
    }


def test_three_tables_become_records(tmp_path):
    cohort = load_mimic3(write_tables(tmp_path))
    assert cohort.records == RECORDS
    assert cohort.report.dropped == {}
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_the_kind_of_folder_is_recognised(tmp_path):
    assert load_cohort(write_tables(tmp_path)).records == RECORDS


def test_names_of_files_and_columns_may_be_in_lower_case(tmp_path):
    for name, text in (
        ("patients", PATIENTS),
        ("Admissions", ADMISSIONS),
        ("diagnoses_icd", DIAGNOSES),
    ):
        header, rows = text.split("\n", 1)
        (tmp_path / f"{name}.csv").write_text(header.lower() + "\n" + rows, encoding="utf-8")
    assert load_mimic3(tmp_path).records == RECORDS


def test_compressed_tables_read_alike(tmp_path):
    write_tables(tmp_path)
    for path in list(tmp_path.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert load_mimic3(tmp_path).records == RECORDS


@pytest.mark.parametrize(
    "respell",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("\n", "\r\n\r\n"),
        lambda text: "".join(
            ",".join(f'"{value}"' for value in line.split(",")) + "\n"
            for line in text.splitlines()
        ),
    ],
    ids=["CRLF", "byte order mark", "no last line end", "blank lines", "blank CRLF", "quoted"],
)
def test_other_ways_to_write_csv_read_alike(tmp_path, respell):
    folder = write_tables(tmp_path, patients=respell(PATIENTS), diagnoses=respell(DIAGNOSES))
    cohort = load_mimic3(folder)
    assert cohort.records == RECORDS
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_columns_may_stand_in_any_order(tmp_path):
    rows = [line.split(",") for line in DIAGNOSES.splitlines()]
    turned = "\n".join(",".join(reversed(row)) for row in rows)
    assert load_mimic3(write_tables(tmp_path, diagnoses=turned)).records == RECORDS


def test_a_quoted_value_may_hold_line_ends(tmp_path):
    folder = write_tables(tmp_path, admissions=ADMISSIONS.replace("SEPSIS, ", "SEPSIS,\n\n"))
    assert load_mimic3(folder).records == RECORDS


@pytest.mark.parametrize(
    ("born", "admitted", "age"),
    [
        ("2100-06-15", "2150-06-14 23:59:59", 49),
        ("2100-06-15", "2150-06-15 00:00:00", 50),
        ("2100-06-15", "2150-07-01 00:00:00", 50),
        ("2100-06-15", "2150-05-30 00:00:00", 49),
        ("2096-02-29", "2121-02-28 12:00:00", 24),
        ("2096-02-29", "2121-03-01 12:00:00", 25),
        ("2096-02-29", "2116-02-29 12:00:00", 20),
        ("2150-06-14", "2150-06-14 00:00:00", 0),
        ("2060-06-15", "2150-06-14 12:00:00", 89),
        ("2060-06-15", "2150-06-15 12:00:00", 90),
        ("2050-06-15", "2150-06-15 12:00:00", 90),
        ("1850-06-15", "2150-06-15 12:00:00", 90),
    ],
)
def test_age_is_in_completed_years_and_90_above_89(tmp_path, born, admitted, age):
    folder = write_tables(
        tmp_path,
        patients=f"SUBJECT_ID,GENDER,DOB\n1,F,{born} 00:00:00\n",
        admissions=f"SUBJECT_ID,HADM_ID,ADMITTIME\n1,5,{admitted}\n",
        diagnoses="SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n1,5,1,4280\n",
    )
    assert load_mimic3(folder).records[0].age == age


def test_ages_agree_with_the_calendar_of_python(tmp_path):
    born = [date(1990 + n % 120, 1 + n % 12, 1 + n * 7 % 28) for n in range(400)]
    came = [date(2110 + n % 60, 1 + n * 5 % 12, 1 + n * 11 % 28) for n in range(400)]
    folder = write_tables(
        tmp_path,
        patients="SUBJECT_ID,GENDER,DOB\n" + "".join(f"{n},F,{b}\n" for n, b in enumerate(born)),
        admissions="SUBJECT_ID,HADM_ID,ADMITTIME\n"
        + "".join(f"{n},{n},{a} 10:00:00\n" for n, a in enumerate(came)),
        diagnoses="SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n"
        + "".join(f"{n},{n},1,4280\n" for n in range(400)),
    )
    # The oracle counts birthdays.
    expected = [
        min(90, sum(b.replace(year=year) <= a for year in range(b.year + 1, a.year + 1)))
        for b, a in zip(born, came, strict=True)
    ]
    assert [record.age for record in load_mimic3(folder).records] == expected


def test_age_is_that_at_the_first_admission_with_a_diagnosis(tmp_path):
    admissions = ADMISSIONS + "4,10,50,2090-01-01 00:00:00,NO DIAGNOSIS\n"
    cohort = load_mimic3(write_tables(tmp_path, admissions=admissions))
    assert cohort.records == RECORDS
    assert cohort.report.dropped == {("ADMISSIONS", Reason.NO_DIAGNOSIS): 1}


def test_visits_come_by_time_and_then_by_hadm_id(tmp_path):
    admissions = """\
SUBJECT_ID,HADM_ID,ADMITTIME
20,9,2101-01-02 00:00:00
20,3,2101-01-10 00:00:00
20,7,2101-01-02 00:00:00
10,1,2101-01-01 00:00:00
"""
    diagnoses = "SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n20,3,1,4280\n20,9,1,4280\n20,7,1,4280\n"
    cohort = load_mimic3(write_tables(tmp_path, admissions=admissions, diagnoses=diagnoses))
    assert [visit.hadm_id for visit in cohort.records[0].visits] == [7, 9, 3]


def test_sequence_numbers_are_compared_as_numbers(tmp_path):
    diagnoses = """\
SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE
10,100,10,4010
10,100,9,4009
10,100,2,4002
"""
    cohort = load_mimic3(write_tables(tmp_path, diagnoses=diagnoses))
    assert cohort.records[0].codes == ("4002", "4009", "4010")


def test_codes_lose_dots_spaces_and_lower_case_but_no_zeros(tmp_path):
    diagnoses = """\
SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE
10,100,1,038.9
10,100,2, e849.7
10,100,3,v30.01
10,100,4,00845
"""
    cohort = load_mimic3(write_tables(tmp_path, diagnoses=diagnoses))
    assert cohort.records[0].codes == ("0389", "E8497", "V3001", "00845")
    assert list(cohort.report.changed.values()) == [3]


def test_a_code_is_one_text_in_all_records(tmp_path):
    cohort = load_mimic3(write_tables(tmp_path, diagnoses=DIAGNOSES.replace("0389", "4280")))
    same = [code for record in cohort.records for code in record.codes if code == "4280"]
    assert len(same) == 2
    assert same[0] is same[1]


INCOMPLETE = {
    Reason.NO_CODE: ("DIAGNOSES_ICD", "diagnoses", "6,20,300,,\n"),
    Reason.SAME_ROW: ("DIAGNOSES_ICD", "diagnoses", "1,20,300,1,995.91\n"),
    Reason.SAME_CODE: ("DIAGNOSES_ICD", "diagnoses", "6,20,300,3,99591\n"),
    Reason.UNKNOWN_ADMISSION: ("DIAGNOSES_ICD", "diagnoses", "6,20,999,1,4280\n"),
    Reason.UNKNOWN_PATIENT: ("ADMISSIONS", "admissions", "4,99,400,2101-01-01 00:00:00,\n"),
    Reason.NO_DIAGNOSIS: ("ADMISSIONS", "admissions", "4,20,400,2101-01-01 00:00:00,\n"),
    Reason.NO_ADMISSION: ("PATIENTS", "patients", "3,30,F,2101-01-01,\n"),
}
SMALL = {"patients": PATIENTS, "admissions": ADMISSIONS, "diagnoses": DIAGNOSES}


@pytest.mark.parametrize("reason", INCOMPLETE, ids=str)
def test_an_incomplete_row_is_dropped_counted_and_located(tmp_path, reason):
    table, argument, row = INCOMPLETE[reason]
    folder = write_tables(tmp_path, **{argument: SMALL[argument] + row})
    cohort = load_mimic3(folder)
    assert cohort.records == RECORDS
    assert cohort.report.dropped == {(table, reason.value): 1}
    line = SMALL[argument].count("\n") + 1
    assert f"1  {reason.value} (line {line})" in str(cohort.report)
    assert_every_row_is_accounted_for(cohort, tmp_path)


@pytest.mark.parametrize("argument", SMALL)
def test_a_row_that_stands_twice_counts_once(tmp_path, argument):
    table = SMALL[argument]
    cohort = load_mimic3(
        write_tables(tmp_path, **{argument: table + table.splitlines()[1] + "\n"})
    )
    assert cohort.records == RECORDS
    assert list(cohort.report.dropped.values()) == [1]
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_a_dropped_row_takes_along_what_hangs_on_it(tmp_path):
    folder = write_tables(
        tmp_path,
        patients=PATIENTS + "3,30,F,2080-01-01,\n",
        admissions=ADMISSIONS
        + "4,99,400,2101-01-01 00:00:00,\n"
        + "5,30,500,2101-01-01 00:00:00,\n",
        diagnoses=DIAGNOSES + "6,99,400,1,4280\n7,30,500,,\n",
    )
    cohort = load_mimic3(folder)
    assert cohort.records == RECORDS
    assert cohort.report.dropped == {
        ("PATIENTS", Reason.ADMISSIONS_DROPPED): 1,
        ("ADMISSIONS", Reason.UNKNOWN_PATIENT): 1,
        ("ADMISSIONS", Reason.DIAGNOSES_DROPPED): 1,
        ("DIAGNOSES_ICD", Reason.NO_CODE): 1,
        ("DIAGNOSES_ICD", Reason.ADMISSION_DROPPED): 1,
    }
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_the_report_names_the_first_lines_and_the_count(tmp_path):
    folder = write_tables(tmp_path, diagnoses=DIAGNOSES + "6,20,300,,\n" * 12)
    report = load_mimic3(folder).report
    assert "12  no code (line 7, line 8, line 9, ...)" in str(report)
    assert "<td>no code (line 7, line 8, line 9, ...)</td>" in report._repr_html_()


def test_lines_are_those_an_editor_shows(tmp_path):
    admissions = ADMISSIONS.replace("FALL", '"FALL\nFROM A\nLADDER"')
    folder = write_tables(tmp_path, admissions=admissions + "\n4,99,400,2101-01-01 00:00:00,\n")
    text = (folder / "ADMISSIONS.csv").read_text(encoding="utf-8")
    line = text.splitlines().index("4,99,400,2101-01-01 00:00:00,") + 1
    assert f"(line {line})" in str(load_mimic3(folder).report)


def test_a_row_without_values_is_not_a_blank_row(tmp_path):
    admissions = ADMISSIONS.replace("FALL", '"FALL\n\nFROM A LADDER"') + "\n"
    folder = write_tables(tmp_path, admissions=f"{admissions}4,,,,\n\n")
    report = load_mimic3(folder, malformed="drop").report
    assert report.rows_read["ADMISSIONS"] == 4
    assert report.tables[1].drops[0].examples == ("line 8",)


def test_the_synthetic_hospital_comes_back_as_it_was_written(tmp_path):
    records = make_cohort(400, seed=5)
    write_mimic3(records, tmp_path)
    cohort = load_mimic3(tmp_path)
    assert list(cohort.records) == records
    assert cohort.report.dropped == {}


def test_planted_dirt_is_found_and_changes_no_record(tmp_path):
    records = make_cohort(400, seed=6)
    dirt = Dirt(
        dotted=20,
        padded=10,
        missing=15,
        malformed=14,
        duplicates=25,
        empty_admissions=9,
        unknown_patients=4,
        unknown_admissions=6,
        shuffled=True,
    )
    write_mimic3(records, tmp_path, dirt=dirt, seed=1)
    cohort = load_mimic3(tmp_path, malformed="drop")
    assert list(cohort.records) == records
    dropped = cohort.report.dropped
    assert dropped["DIAGNOSES_ICD", Reason.BAD_CODE] == 14
    assert dropped["ADMISSIONS", Reason.NO_DIAGNOSIS] == 9
    assert dropped["ADMISSIONS", Reason.UNKNOWN_PATIENT] == 4
    assert dropped["DIAGNOSES_ICD", Reason.ADMISSION_DROPPED] == 8
    # A duplicate may repeat a row that is dropped for its own reason.
    assert sum(n for (table, _), n in dropped.items() if table == "DIAGNOSES_ICD") == (
        15 + 14 + 25 + 6 + 8
    )
    assert_every_row_is_accounted_for(cohort, tmp_path)
