"""Bad tables: each fault is refused with its file, its place and a remedy."""

from __future__ import annotations

import gzip
import re

import pytest
from small_tables import ADMISSIONS, DIAGNOSES, PATIENTS, write_tables

from ehr_course.errors import InputError
from ehr_course.sources.cohort import Reason
from ehr_course.sources.mimic import load, load_mimic3


def assert_refused(folder, *parts: str) -> None:
    """Every part of the message is there, in this order."""
    with pytest.raises(InputError) as refused:
        load_mimic3(folder)
    message = str(refused.value)
    assert re.search(".*".join(map(re.escape, parts)), message, re.DOTALL), message


def test_a_missing_folder(tmp_path):
    assert_refused(tmp_path / "none", "none: there is no such folder. Check the path.")


def test_a_file_instead_of_a_folder(tmp_path):
    path = write_tables(tmp_path) / "PATIENTS.csv"
    assert_refused(path, "PATIENTS.csv: this is a file. Name the folder")


def test_an_empty_folder(tmp_path):
    assert_refused(tmp_path, "no file for PATIENTS, ADMISSIONS, DIAGNOSES_ICD", "empty")


def test_a_folder_without_tables(tmp_path):
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    (tmp_path / "more").mkdir()
    looked = "Put PATIENTS.csv or PATIENTS.csv.gz, ADMISSIONS.csv or"
    assert_refused(tmp_path, "found: more/, notes.txt", looked)


def test_a_missing_file(tmp_path):
    (write_tables(tmp_path) / "ADMISSIONS.csv").unlink()
    assert_refused(
        tmp_path,
        "no file for ADMISSIONS; found: DIAGNOSES_ICD.csv, PATIENTS.csv",
        "Put ADMISSIONS.csv or ADMISSIONS.csv.gz there",
    )


def test_a_table_beside_its_compressed_copy(tmp_path):
    write_tables(tmp_path)
    (tmp_path / "ADMISSIONS.csv.gz").write_bytes(gzip.compress(ADMISSIONS.encode()))
    assert_refused(
        tmp_path, "ADMISSIONS.csv and ADMISSIONS.csv.gz are both here. Keep one of them"
    )


def test_a_missing_column(tmp_path):
    write_tables(tmp_path, admissions=ADMISSIONS.replace("ADMITTIME", "TIME"))
    assert_refused(
        tmp_path,
        "ADMISSIONS.csv, line 1: column 'ADMITTIME' is missing",
        "(found: ROW_ID, SUBJECT_ID, HADM_ID, TIME, DIAGNOSIS)",
    )


def test_a_column_that_is_there_twice(tmp_path):
    write_tables(tmp_path, patients=PATIENTS.replace("ROW_ID", "gender"))
    assert_refused(tmp_path, "PATIENTS.csv, line 1: there are two columns 'GENDER'. Keep one")


@pytest.mark.parametrize("text", ["", "\n \n"], ids=["no bytes", "blank lines"])
def test_an_empty_file(tmp_path, text):
    write_tables(tmp_path, diagnoses=text)
    assert_refused(tmp_path, "DIAGNOSES_ICD.csv: the file is empty. Export or copy it again.")


def test_column_names_without_rows(tmp_path):
    write_tables(tmp_path, diagnoses=DIAGNOSES.splitlines()[0] + "\n\n")
    assert_refused(tmp_path, "DIAGNOSES_ICD.csv: it has column names but no rows")


def test_a_truncated_gz(tmp_path):
    (write_tables(tmp_path) / "DIAGNOSES_ICD.csv").unlink()
    whole = gzip.compress(DIAGNOSES.encode() * 100)
    (tmp_path / "DIAGNOSES_ICD.csv.gz").write_bytes(whole[:-20])
    assert_refused(tmp_path, "DIAGNOSES_ICD.csv.gz: the file is cut", "Copy or download it again.")


def test_a_gz_that_is_none(tmp_path):
    path = write_tables(tmp_path) / "PATIENTS.csv"
    path.rename(tmp_path / "PATIENTS.csv.gz")
    assert_refused(tmp_path, "PATIENTS.csv.gz: this is not a sound gzip file")


def test_a_compressed_table_named_csv(tmp_path):
    write_tables(tmp_path)
    (tmp_path / "PATIENTS.csv").write_bytes(gzip.compress(PATIENTS.encode()))
    assert_refused(tmp_path, "PATIENTS.csv: it is compressed. Rename it to PATIENTS.csv.gz")


@pytest.mark.parametrize(
    ("delimiter", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")]
)
def test_a_wrong_delimiter(tmp_path, delimiter, name):
    write_tables(tmp_path, patients=PATIENTS.replace(",", delimiter))
    assert_refused(
        tmp_path, f"PATIENTS.csv, line 1: its columns are separated by {name}, not by commas"
    )


def test_a_byte_that_is_not_utf8(tmp_path):
    write_tables(tmp_path)
    latin = ADMISSIONS.replace("FALL", "CAFÉ").encode("latin-1")
    (tmp_path / "ADMISSIONS.csv").write_bytes(latin)
    assert_refused(
        tmp_path,
        "ADMISSIONS.csv, line 3: the byte 0xC9 ('É' in Latin-1) is not UTF-8",
        "Save the file as UTF-8.",
    )


def test_utf16_text(tmp_path):
    write_tables(tmp_path)
    (tmp_path / "PATIENTS.csv").write_bytes(PATIENTS.encode("utf-16"))
    assert_refused(tmp_path, "PATIENTS.csv: it is UTF-16 text. Save it as UTF-8.")


def test_utf8_beyond_ascii_is_fine(tmp_path):
    folder = write_tables(tmp_path, admissions=ADMISSIONS.replace("FALL", "CAFÉ"))
    assert len(load_mimic3(folder).records) == 2


def test_a_row_with_too_few_values(tmp_path):
    write_tables(tmp_path, diagnoses=DIAGNOSES.removesuffix(",V3001\n"))
    assert_refused(
        tmp_path,
        "DIAGNOSES_ICD.csv, line 6: 4 values, where line 1 names 5 columns",
        "if it is cut there",
    )


def test_a_row_with_too_many_values(tmp_path):
    write_tables(tmp_path, admissions=ADMISSIONS.replace("FALL", "FALL, AGAIN"))
    assert_refused(tmp_path, "ADMISSIONS.csv, line 3: 6 values, where line 1 names 5")


def test_short_and_long_rows_do_not_make_up_for_each_other(tmp_path):
    rows = DIAGNOSES.replace("300,2,0389", "300,2").replace("100,1,4280", "100,1,4280,")
    write_tables(tmp_path, diagnoses=rows)
    assert_refused(tmp_path, "DIAGNOSES_ICD.csv, line 3: 4 values")


def test_a_quotation_mark_that_is_never_closed(tmp_path):
    write_tables(tmp_path, admissions=ADMISSIONS.replace("FALL", '"FALL'))
    assert_refused(tmp_path, "ADMISSIONS.csv, line 3: a quotation mark is opened and never closed")


def test_a_wrong_row_behind_quoted_line_ends(tmp_path):
    row = '4,99,400,2101-01-01 00:00:00,"ONE, TWO\nTHREE"\n'
    many = ADMISSIONS + row * 60_000
    write_tables(tmp_path, admissions=many + "5,99\n")
    assert_refused(tmp_path, "ADMISSIONS.csv, line 120005: 2 values")


SMALL = {"patients": PATIENTS, "admissions": ADMISSIONS, "diagnoses": DIAGNOSES}

# What is wrong: table, what is replaced, by what, the message, and the report's reason.
MALFORMED = {
    "unparsable date": (
        "admissions",
        "2164-10-23 21:09:00",
        "soon",
        "ADMISSIONS.csv, line 2, column 'ADMITTIME': 'soon' is not a date. "
        "Write it as 2101-01-31 17:05:00.",
        Reason.BAD_DATE,
    ),
    "day that no month has": (
        "patients",
        "2094-03-05",
        "2094-02-30",
        "PATIENTS.csv, line 2, column 'DOB': '2094-02-30 00:00:00' is not a date",
        Reason.BAD_DATE,
    ),
    "day before month": (
        "admissions",
        "2165-01-02 08:00:00",
        "31/01/2165 08:00",
        "ADMISSIONS.csv, line 3, column 'ADMITTIME': '31/01/2165 08:00' is not a date",
        Reason.BAD_DATE,
    ),
    "no date": (
        "patients",
        "2094-03-05 00:00:00",
        "",
        "PATIENTS.csv, line 2, column 'DOB': an empty value is not a date",
        Reason.BAD_DATE,
    ),
    "negative age": (
        "admissions",
        "2120-06-30",
        "2050-06-30",
        "ADMISSIONS.csv, line 4, column 'ADMITTIME': '2050-06-30 23:59:00' is before the "
        "patient's birth by DOB in PATIENTS: the age would be negative",
        Reason.BEFORE_BIRTH,
    ),
    "no ICD-9 code": (
        "diagnoses",
        "0389",
        "I50.9",
        "DIAGNOSES_ICD.csv, line 3, column 'ICD9_CODE': 'I50.9' does not have the shape of an "
        "ICD-9 diagnosis code",
        Reason.BAD_CODE,
    ),
    "code that lost its zeros": (
        "diagnoses",
        "0389",
        "38",
        "DIAGNOSES_ICD.csv, line 3, column 'ICD9_CODE': '38' does not have the shape",
        Reason.BAD_CODE,
    ),
    "missing code that became text": (
        "diagnoses",
        "0389",
        "nan",
        "DIAGNOSES_ICD.csv, line 3, column 'ICD9_CODE': 'nan' does not have the shape",
        Reason.BAD_CODE,
    ),
    "id of a patient": (
        "patients",
        "2,10,M",
        "2,ten,M",
        "PATIENTS.csv, line 3, column 'SUBJECT_ID': 'ten' is not a whole number",
        Reason.BAD_ID,
    ),
    "id with a fraction": (
        "admissions",
        "20,200,",
        "20,200.0,",
        "ADMISSIONS.csv, line 3, column 'HADM_ID': '200.0' is not a whole number",
        Reason.BAD_ID,
    ),
    "no id": (
        "diagnoses",
        "20,200,",
        "20,,",
        "DIAGNOSES_ICD.csv, line 4, column 'HADM_ID': an empty value is not a whole number",
        Reason.BAD_ID,
    ),
    "id too large": (
        "diagnoses",
        "20,200,",
        "20,99999999999999999999,",
        "column 'HADM_ID': '99999999999999999999' is not a whole number",
        Reason.BAD_ID,
    ),
    "sequence number": (
        "diagnoses",
        "300,2,",
        "300,second,",
        "DIAGNOSES_ICD.csv, line 3, column 'SEQ_NUM': 'second' is not a whole number",
        Reason.BAD_SEQ_NUM,
    ),
    "sex": (
        "patients",
        "10,M",
        "10,X",
        "PATIENTS.csv, line 3, column 'GENDER': 'X' is not a sex that the tables use. "
        "Write F or M.",
        Reason.BAD_SEX,
    ),
    "two rows of a patient": (
        "patients",
        "2,10,",
        "3,10,F,2050-07-01 00:00:00,\n4,30,F,2050-07-01 00:00:00,\n2,10,",
        "PATIENTS.csv, line 3, column 'SUBJECT_ID': '10' is a patient with two rows that "
        "differ (line 3 and line 5)",
        Reason.ROWS_DIFFER,
    ),
    "an admission of two patients": (
        "admissions",
        "10,100,2120-06-30 23:59:00,CHEST PAIN\n",
        "10,100,2120-06-30 23:59:00,\n4,20,100,2120-06-30 23:59:00,\n",
        "ADMISSIONS.csv, line 4, column 'HADM_ID': '100' is an admission with two rows that "
        "differ, in patient or time (line 4 and line 5)",
        Reason.ROWS_DIFFER,
    ),
    "a diagnosis of another patient": (
        "diagnoses",
        "3,20,200",
        "3,10,200",
        "DIAGNOSES_ICD.csv, line 4, column 'SUBJECT_ID': '10' is not the patient whom "
        "ADMISSIONS names for this admission",
        Reason.WRONG_PATIENT,
    ),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_value_is_refused_where_it_stands(tmp_path, fault):
    table, right, wrong, message, _ = MALFORMED[fault]
    assert right in SMALL[table]
    write_tables(tmp_path, **{table: SMALL[table].replace(right, wrong, 1)})
    assert_refused(tmp_path, message, 'malformed="drop"')


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_value_is_dropped_and_counted_on_request(tmp_path, fault):
    table, right, wrong, _, reason = MALFORMED[fault]
    write_tables(tmp_path, **{table: SMALL[table].replace(right, wrong, 1)})
    report = load_mimic3(tmp_path, malformed="drop").report
    dropped = {why: count for (_, why), count in report.dropped.items()}
    assert dropped[reason] == (2 if reason is Reason.ROWS_DIFFER else 1)
    for sifted in report.tables:
        assert sifted.rows_read == sifted.rows_used + sifted.rows_dropped


def test_dates_that_a_spreadsheet_wrote_are_read_on_request(tmp_path):
    patients = re.sub(r"(\d+)-0(\d)-0(\d) 00:00:00", r"\2/\3/\1 0:00", PATIENTS)
    folder = write_tables(tmp_path, patients=patients)
    assert_refused(
        folder,
        "PATIENTS.csv, line 2, column 'DOB': '3/5/2094 0:00' is not a date",
        'date_format="%m/%d/%Y %H:%M" (it could also be "%d/%m/%Y %H:%M")',
        "2 of 2 rows have this fault, too many to leave out.",
    )
    found = load(folder, date_format="%m/%d/%Y %H:%M").records
    assert found == load(write_tables(tmp_path / "iso")).records


def test_the_spelling_of_the_file_is_that_of_the_error(tmp_path):
    header, rows = DIAGNOSES.split("\n", 1)
    write_tables(tmp_path, diagnoses=header.lower() + "\n" + rows.replace("0389", "?"))
    assert_refused(tmp_path, "DIAGNOSES_ICD.csv, line 3, column 'icd9_code': '?'")


def test_tables_of_different_databases(tmp_path):
    write_tables(tmp_path, diagnoses="SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n1,2,3,4280\n")
    assert_refused(
        tmp_path,
        "DIAGNOSES_ICD.csv: no row of it can be used",
        "Are the three tables from one database?",
        "1  its admission is unknown (line 2)",
    )


def test_tables_without_a_single_code(tmp_path):
    write_tables(tmp_path, diagnoses="SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n10,100,1,?\n")
    with pytest.raises(InputError, match=r"DIAGNOSES_ICD\.csv: no row of it can be used"):
        load_mimic3(tmp_path, malformed="drop")


def test_a_policy_that_is_none(tmp_path):
    with pytest.raises(InputError, match="malformed: 'ignore' is no policy"):
        load_mimic3(write_tables(tmp_path), malformed="ignore")


def test_tables_of_no_known_kind(tmp_path):
    write_tables(tmp_path, patients=PATIENTS.replace("DOB", "BIRTHDAY"))
    with pytest.raises(InputError, match=r"neither 'DOB' \(MIMIC-III\) nor 'anchor_age'"):
        load(tmp_path)
