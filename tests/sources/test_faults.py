"""What is wrong with tables is refused with its file, its place and a remedy; see faults.yml."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest
import yaml
from small_tables import ADMISSIONS, PATIENTS, write_tables, write_tables_4

from ehr_course.errors import InputError
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.cohort import Reason
from ehr_course.sources.mimic import load_mimic3, load_mimic4
from ehr_course.sources.tables import LONGEST_LINE

FAULTS = yaml.safe_load((Path(__file__).parent / "faults.yml").read_text(encoding="utf-8"))


def assert_refused(folder: Path, *parts: str) -> None:
    """Every part of the message is there, in this order."""
    with pytest.raises(InputError) as refused:
        load_cohort(folder)
    message = str(refused.value)
    assert re.search(".*".join(map(re.escape, parts)), message, re.DOTALL), message


def write_fault(folder: Path, fault: dict) -> Path:
    write = {"mimic3": write_tables, "mimic4": write_tables_4}[fault["of"]]
    text = fault.get("text")
    if text is None:
        right, wrong = fault["change"]
        whole = write.__kwdefaults__[fault["in"]]
        assert right in whole
        text = whole.replace(right, wrong)
    return write(folder, **{fault["in"]: text})


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["says"][:60])
def test_a_fault_is_refused_where_it_stands(tmp_path, fault):
    can_be_left_out = ['malformed="drop"'] if "counts" in fault else []
    assert_refused(write_fault(tmp_path, fault), fault["says"], *can_be_left_out)


@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if "counts" in f], ids=lambda fault: fault["says"][:60]
)
def test_a_malformed_value_is_dropped_and_counted_on_request(tmp_path, fault):
    report = load_cohort(write_fault(tmp_path, fault), malformed="drop").report
    dropped = {why: count for (_, why), count in report.dropped.items()}
    assert dropped[fault["counts"]] == (2 if fault["counts"] == Reason.ROWS_DIFFER else 1)
    for table in report.tables:
        assert table.rows_read == table.rows_used + table.rows_dropped


def test_a_folder_that_holds_no_tables(tmp_path):
    assert_refused(tmp_path / "none", "none: there is no such folder. Check the path.")
    assert_refused(tmp_path, "no file for PATIENTS, ADMISSIONS, DIAGNOSES_ICD", "empty")
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    (tmp_path / "more").mkdir()
    looked = "Put PATIENTS.csv or PATIENTS.csv.gz, ADMISSIONS.csv or"
    assert_refused(tmp_path, "found: more/, notes.txt", looked)
    assert_refused(tmp_path / "notes.txt", "notes.txt: this kind of file is not read. Name a .csv")
    with pytest.raises(InputError, match=r"notes\.txt: this is a file\. Name the folder"):
        load_mimic3(tmp_path / "notes.txt")


def test_an_option_that_no_loader_has_names_the_loader(tmp_path):
    with pytest.raises(TypeError, match=r"^load_mimic4\(\) got .* argument 'icd_version'"):
        load_mimic4(tmp_path, icd_version=9)


@pytest.mark.parametrize("mark", ["", '"'])
def test_a_line_that_is_too_long_is_refused_without_its_value(tmp_path, mark):
    limit = csv.field_size_limit()
    value = f"{mark}{'secret' * (LONGEST_LINE // 6 + 1)}{mark}"
    with pytest.raises(InputError) as refused:
        load_cohort(write_tables(tmp_path, admissions=ADMISSIONS.replace("FALL", value)))
    assert str(refused.value).startswith("ADMISSIONS.csv, line 3: the row that begins here is")
    assert "secret" not in str(refused.value)
    assert csv.field_size_limit() == limit


def test_a_long_value_is_shown_in_part(tmp_path):
    folder = write_tables(tmp_path, patients=PATIENTS.replace("M,2050", f"{'x' * 300},2050"))
    assert_refused(folder, f"'{'x' * 200}' is not a sex")


def test_line_ends_that_windows_wrote_twice(tmp_path):
    folder = write_tables(tmp_path, admissions=ADMISSIONS.replace("\n", "\r\r\n"))
    assert load_cohort(folder).records == load_cohort(write_tables(tmp_path / "plain")).records


def test_a_table_that_is_missing_or_there_twice(tmp_path):
    admissions = write_tables(tmp_path) / "ADMISSIONS.csv"
    (tmp_path / "ADMISSIONS.csv.gz").write_bytes(gzip.compress(ADMISSIONS.encode()))
    assert_refused(
        tmp_path, "ADMISSIONS.csv and ADMISSIONS.csv.gz are both here. Keep one of them"
    )
    admissions.unlink()
    (tmp_path / "ADMISSIONS.csv.gz").unlink()
    assert_refused(
        tmp_path,
        "no file for ADMISSIONS; found: DIAGNOSES_ICD.csv, PATIENTS.csv",
        "Put ADMISSIONS.csv or ADMISSIONS.csv.gz there",
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "PATIENTS.csv.gz",
            gzip.compress(PATIENTS.encode() * 100, mtime=0)[:-20],
            "PATIENTS.csv.gz: the file is cut: it ends before its end mark. Copy or download it",
        ),
        (
            "PATIENTS.csv.gz",
            PATIENTS.encode(),
            "PATIENTS.csv.gz: this is not a sound gzip file. Copy or download it again.",
        ),
        (
            "PATIENTS.csv",
            gzip.compress(PATIENTS.encode(), mtime=0),
            "PATIENTS.csv: it is compressed. Rename it to PATIENTS.csv.gz",
        ),
        (
            "PATIENTS.csv",
            PATIENTS.replace("10,M", "10,É").encode("latin-1"),
            "PATIENTS.csv, line 3: the byte 0xC9 ('É' in Latin-1) is not UTF-8. Save the file as",
        ),
        (
            "PATIENTS.csv",
            PATIENTS.encode("utf-16"),
            "PATIENTS.csv: it is UTF-16 text. Save it as UTF-8.",
        ),
        (
            "PATIENTS.csv",
            PATIENTS.replace("\n", "\r").encode(),
            "PATIENTS.csv: its lines end in carriage returns. Save it with line feeds.",
        ),
    ],
)
def test_bytes_that_are_no_text(tmp_path, name, content, said):
    (write_tables(tmp_path) / "PATIENTS.csv").unlink()
    (tmp_path / name).write_bytes(content)
    assert_refused(tmp_path, said)


def test_utf8_beyond_ascii_is_fine(tmp_path):
    folder = write_tables(tmp_path, admissions=ADMISSIONS.replace("FALL", "CAFÉ"))
    assert len(load_mimic3(folder).records) == 2


def test_a_wrong_row_behind_quoted_line_ends(tmp_path):
    row = '4,99,400,2101-01-01 00:00:00,"ONE, TWO\nTHREE"\n'
    write_tables(tmp_path, admissions=ADMISSIONS + row * 60_000 + "5,99\n")
    assert_refused(tmp_path, "ADMISSIONS.csv, line 120005: 2 values")


def test_dates_that_a_spreadsheet_wrote_are_read_on_request(tmp_path):
    patients = re.sub(r"(\d+)-0(\d)-0(\d) 00:00:00", r"\2/\3/\1 0:00", PATIENTS)
    folder = write_tables(tmp_path, patients=patients)
    assert_refused(
        folder,
        "PATIENTS.csv, line 2, column 'DOB': '3/5/2094 0:00' is not a date",
        'date_format="%m/%d/%Y %H:%M" (it could also be "%d/%m/%Y %H:%M")',
        "2 of 2 rows have this fault, too many to leave out.",
    )
    found = load_cohort(folder, date_format="%m/%d/%Y %H:%M").records
    assert found == load_cohort(write_tables(tmp_path / "iso")).records


def test_tables_without_a_single_code(tmp_path):
    write_tables(tmp_path, diagnoses="SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n10,100,1,?\n")
    with pytest.raises(InputError, match=r"DIAGNOSES_ICD\.csv: no row of it can be used"):
        load_mimic3(tmp_path, malformed="drop")


def test_a_policy_that_is_none(tmp_path):
    with pytest.raises(InputError, match="malformed: 'ignore' is not a policy"):
        load_mimic3(write_tables(tmp_path), malformed="ignore")
