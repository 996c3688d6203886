"""Codes that lost their leading zeros stop every loader, and codes that have none do not."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hospital_tables import (
    as_a_spreadsheet,
    change_codes,
    write_meds_hospital,
    write_mimic4_hospital,
)

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.code_table import load_frame
from ehr_course.sources.codes import (
    MANY_CODES,
    MANY_ROWS,
    SHARE_OF_CODES,
    SHARE_OF_ROWS,
    check_leading_zeros,
)
from ehr_course.sources.mimic import load_mimic3
from ehr_course.sources.synthetic import make_cohort, write_mimic3

HOSPITALS = {name: make_cohort(600, seed=3, hospital=name) for name in ("general", "heart")}
RECORDS = HOSPITALS["general"]


def tables(folder: Path, change=as_a_spreadsheet) -> Path:
    write_mimic3(RECORDS, folder)
    change_codes(folder / "DIAGNOSES_ICD.csv", change)
    return folder


def lost(code: str) -> bool:
    return code.startswith("0")


def test_a_table_from_a_spreadsheet_is_refused(tmp_path):
    n = sum(code[0].isdigit() for record in RECORDS for code in record.codes)
    short = sum(len(as_a_spreadsheet(code)) < 3 for record in RECORDS for code in record.codes)
    with pytest.raises(InputError) as refused:
        load_mimic3(tables(tmp_path / "tables"))
    said = str(refused.value)
    assert said.startswith(
        "DIAGNOSES_ICD.csv, column 'ICD9_CODE': it seems that codes have lost their leading "
        f"zeros, as in a spreadsheet: none of its {n - short:,} codes that are numbers begins "
        "with 0, and "
    )
    assert "different ones are not complete codes but would be with zeros in front (" in said
    assert "389 for 038.9" in said
    assert said.endswith(
        "038.9 is septicemia, and 389 is hearing loss. Export the table again, with codes as "
        "text. If no code should begin with 0, go on with --zeros-lost-ok, or zeros_lost_ok=True."
    )


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_every_format_is_looked_at(tmp_path, hospital):
    records = HOSPITALS[hospital]
    rows = [
        (record.subject_id, number, as_a_spreadsheet(code))
        for record in records
        for number, visit in enumerate(record.visits)
        for code in visit.codes
    ]
    frame = pl.DataFrame(rows, schema=["patient", "visit", "code"], orient="row")
    frame.write_csv(tmp_path / "codes.csv")
    frame.write_parquet(tmp_path / "codes.parquet")
    some = [r for r in records if r.subject_id % 3 == 2]
    write_mimic4_hospital(some, tmp_path / "mimic4")
    change_codes_4(tmp_path / "mimic4" / "diagnoses_icd.csv")
    for name in ("codes.csv", "codes.parquet", "mimic4"):
        with pytest.raises(InputError, match="codes have lost their leading zeros"):
            load_cohort(tmp_path / name)


def change_codes_4(table: Path) -> None:
    frame = pl.read_csv(table, infer_schema=False)
    code = pl.col("icd_code").map_elements(as_a_spreadsheet, return_dtype=pl.String)
    frame.with_columns(code).write_csv(table)


def test_meds_is_looked_at(tmp_path):
    some = [r for r in RECORDS if r.subject_id % 3 == 2]
    write_meds_hospital(some, tmp_path)
    path = tmp_path / "data" / "0.parquet"
    code = pl.col("code").str.replace("//9//0+", "//9//")
    pl.read_parquet(path).with_columns(code).write_parquet(path)
    with pytest.raises(InputError, match="data, column 'code': it seems that codes have lost"):
        load_cohort(tmp_path)


def test_whoever_says_so_goes_on_and_the_account_says_it(tmp_path):
    folder = tables(tmp_path / "tables")
    cohort = load_mimic3(folder, zeros_lost_ok=True, malformed="drop")
    (note,) = cohort.report.notes
    assert note.startswith("leading zeros of codes may be lost: none of its ")
    assert note in str(cohort.report).splitlines()
    assert note in cohort.report.losses


@pytest.mark.parametrize("hospital", HOSPITALS)
@pytest.mark.parametrize("n", [1, 10, 100, 600])
def test_codes_that_kept_their_zeros_are_read(hospital, n):
    assert load(HOSPITALS[hospital][:n]).report.notes == ()


def load(records: list[PatientRecord], change=str, **options):
    rows = [
        (record.subject_id, number, change(code))
        for record in records
        for number, visit in enumerate(record.visits)
        for code in visit.codes
    ]
    patient, visit, code = map(list, zip(*rows, strict=True))
    return load_frame({"patient": patient, "visit": visit, "code": code}, **options)


def test_a_large_table_without_any_is_refused_whatever_its_codes_are():
    codes = [code for code in complete_codes() if not lost(code)][: MANY_CODES + 1]
    many = pl.Series(range(len(codes))).extend(pl.Series([0] * MANY_ROWS))
    with pytest.raises(InputError) as refused:
        check_leading_zeros("codes.csv", "code", codes, many)
    assert (
        f"none of its {len(many):,} codes that are numbers begins with 0, as 2 to 5 in 100 do "
        "elsewhere. 038.9"
    ) in str(refused.value)
    few_rows = pl.Series(range(len(codes)))
    few_codes = many.filter(many < MANY_CODES - 1)
    assert check_leading_zeros("codes.csv", "code", codes, few_rows) is None
    assert check_leading_zeros("codes.csv", "code", codes[: MANY_CODES - 1], few_codes) is None
    assert check_leading_zeros("codes.csv", "code", [*codes, "0389"], many) is None


def complete_codes() -> list[str]:
    return sorted({code for record in RECORDS for code in record.codes if code[0].isdigit()})


def test_so_many_rows_and_codes_show_nothing_in_fewer_than_1_in_1000():
    for number, share in ((MANY_ROWS, SHARE_OF_ROWS), (MANY_CODES, SHARE_OF_CODES)):
        assert (1 - share) ** number < 0.001 <= (1 - share) ** (number - 1)


def test_a_hospital_that_has_no_such_patient_has_no_sign_of_it_in_a_small_table():
    some = [r for r in HOSPITALS["heart"] if not any(map(lost, r.codes))][:70]
    n = sum(code[0].isdigit() for record in some for code in record.codes)
    assert 100 < n < MANY_ROWS
    assert load(some).report.notes == ()


def test_a_table_of_categories_is_no_table_of_lost_zeros():
    some = [r for r in HOSPITALS["heart"] if not any(map(lost, r.codes))][:70]
    assert load(some, change=icd9.category).report.notes == ()


def test_a_small_table_has_enough_headings():
    some = RECORDS[:120]
    with pytest.raises(InputError, match=r"are not complete codes but would be with zeros"):
        load(some, change=as_a_spreadsheet)


def test_codes_of_icd10_say_nothing():
    codes = ["I509", "E119", "V0190", "E1165"]
    rows = pl.Series([0, 1, 2, 3] * MANY_ROWS)
    assert check_leading_zeros("codes.csv", "code", codes, rows) is None
