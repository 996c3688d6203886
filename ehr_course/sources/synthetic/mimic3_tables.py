"""Write a cohort as MIMIC-III tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.icd import icd9
from ehr_course.records import MAX_AGE, PatientRecord
from ehr_course.sources.synthetic.dirt import Dirt, Planted, Tables, plant
from ehr_course.sources.synthetic.draws import hashed
from ehr_course.sources.synthetic.table_files import (
    check_can_be_written,
    check_folder,
    write_tables,
)

ABOVE_89_YEARS = 300
"""MIMIC-III writes the birth of a patient above 89 this long before the first admission."""

_BIRTHDAYS, _STAYS = 10, 11  # streams of random numbers
_LONGEST_STAY = 12.0  # days


def write_mimic3(
    records: Iterable[PatientRecord],
    folder: str | Path,
    *,
    dirt: Dirt | None = None,
    seed: int = 0,
    compress: bool = False,
    overwrite: bool = False,
) -> Planted:
    """Write PATIENTS, ADMISSIONS, DIAGNOSES_ICD and D_ICD_DIAGNOSES as MIMIC-III has them.

    Columns, their order, quotation marks and dates are those of MIMIC-III v1.4. What a record
    does not hold is made up (discharge, kind of admission) or left empty (death, insurance).

    A birth date is made from the seed and the subject_id so that the completed years at the
    first admission are the age of the record; birthdays are spread over the year. A patient of
    age 0 whose first visit holds a birth (V30 to V39) is born on that day, and one above 89 was,
    as in MIMIC-III, born 300 years before.

    Args:
        records: at least one patient; every visit with its admission time and hadm_id.
        folder: where to write; it is made if it does not exist.
        dirt: faults to plant, or None for clean tables.
        seed: 0 or more; the same records and seed give the same files.
        compress: write .csv.gz instead of .csv.
        overwrite: replace tables that are there already.

    Returns:
        what was planted, to be compared with a loader's report.

    Raises:
        InputError: if a record lacks a time or a number or is not in ICD-9-CM, an id occurs twice,
            there are no records, the folder is a file, tables are there already, or the dirt asks
            for more rows than there are.
    """
    records = list(records)
    check_can_be_written("write_mimic3", records, seed)
    _check_system(records)
    check_folder(folder, _NAMES, overwrite=overwrite)

    tables: Tables = {
        "PATIENTS": _patients(records, seed),
        "ADMISSIONS": admissions_table(records, seed),
        "DIAGNOSES_ICD": diagnoses_table(records),
    }
    dirt = dirt or Dirt()
    tables = plant(tables, dirt, seed=seed)
    planted = count_planted(tables, dirt, records)
    codes = {code for record in records for code in record.codes}
    tables["D_ICD_DIAGNOSES"] = _titles(sorted(codes))

    write_tables(tables, folder, compress=compress, overwrite=overwrite)
    return planted


_NAMES = ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD", "D_ICD_DIAGNOSES")


def _check_system(records: Sequence[PatientRecord]) -> None:
    for record in records:
        for number, visit in enumerate(record.visits, start=1):
            if visit.system != "ICD9CM":
                raise InputError(
                    f"patient {record.subject_id}",
                    f"visit {number}",
                    f"it is coded in {SYSTEM_NAMES[visit.system]}, and MIMIC-III knows "
                    "ICD-9-CM alone",
                    "Use write_mimic4.",
                )


def _years_before(day: dt.date, years: int) -> dt.date:
    try:
        return day.replace(year=day.year - years)
    except ValueError:  # 29 February of a year that has none
        return day.replace(year=day.year - years, day=28)


def _birth(record: PatientRecord, days_since_birthday: int) -> dt.date:
    first = record.visits[0]
    assert first.admitted is not None  # every visit of the embedded hospital has a time
    day = first.admitted.date()
    if record.age == MAX_AGE:
        return _years_before(day, ABOVE_89_YEARS)
    if record.age == 0 and any("V30" <= code < "V40" for code in first.codes):
        return day
    return _years_before(day, record.age) - dt.timedelta(days=days_since_birthday)


def _patients(records: Sequence[PatientRecord], seed: int) -> pl.DataFrame:
    ids = [record.subject_id for record in records]
    # 0 to 364 days: one more could complete another year.
    days = (hashed(seed, _BIRTHDAYS, np.array(ids)) * 365).astype(np.int64).tolist()
    births = [_birth(record, since) for record, since in zip(records, days, strict=True)]
    nothing = pl.lit(None, dtype=pl.Datetime("us"))
    return pl.DataFrame(
        {
            "ROW_ID": range(1, len(ids) + 1),
            "SUBJECT_ID": ids,
            "GENDER": [record.sex for record in records],
            "DOB": births,
        },
        schema_overrides={"DOB": pl.Date},
    ).with_columns(
        pl.col("DOB").cast(pl.Datetime("us")),
        DOD=nothing,
        DOD_HOSP=nothing,
        DOD_SSN=nothing,
        EXPIRE_FLAG=pl.lit(0),
    )


def admissions_table(records: Sequence[PatientRecord], seed: int) -> pl.DataFrame:
    """ADMISSIONS as MIMIC-III has it, a row a visit, patient after patient."""
    visits = [(record.subject_id, visit) for record in records for visit in record.visits]
    first_codes = [visit.codes[0] for _, visit in visits]
    born = [code.startswith(("V3", "Z38")) for code in first_codes]
    elective = [code.startswith(("V", "Z")) for code in first_codes]
    kinds = np.select([born, elective], ["NEWBORN", "ELECTIVE"], "EMERGENCY")
    hadm_ids = np.array([visit.hadm_id for _, visit in visits])
    titles = {code: _short_title(code) for code in set(first_codes)}
    text = pl.lit(None, dtype=pl.String)
    time = pl.lit(None, dtype=pl.Datetime("us"))
    frame = pl.DataFrame(
        {
            "SUBJECT_ID": [subject_id for subject_id, _ in visits],
            "HADM_ID": hadm_ids,
            "ADMITTIME": [visit.admitted for _, visit in visits],
            "ADMISSION_TYPE": kinds,
            "DIAGNOSIS": [titles[code].upper() for code in first_codes],
            "days": hashed(seed, _STAYS, hadm_ids) * _LONGEST_STAY,
        },
        schema_overrides={"ADMITTIME": pl.Datetime("us")},
    )
    # A stay ends before the next one begins.
    room = pl.col("ADMITTIME").shift(-1).over("SUBJECT_ID") - pl.col("ADMITTIME")
    minutes = pl.min_horizontal(
        pl.col("days") * 24 * 60, room.dt.total_minutes().cast(pl.Float64) * 0.9
    )
    return frame.with_columns(
        DISCHTIME=pl.col("ADMITTIME") + pl.duration(minutes=minutes.cast(pl.Int64))
    ).select(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("ROW_ID"),
        "SUBJECT_ID",
        "HADM_ID",
        "ADMITTIME",
        "DISCHTIME",
        time.alias("DEATHTIME"),
        "ADMISSION_TYPE",
        *(text.alias(name) for name in ("ADMISSION_LOCATION", "DISCHARGE_LOCATION")),
        *(text.alias(name) for name in ("INSURANCE", "LANGUAGE", "RELIGION")),
        *(text.alias(name) for name in ("MARITAL_STATUS", "ETHNICITY")),
        *(time.alias(name) for name in ("EDREGTIME", "EDOUTTIME")),
        "DIAGNOSIS",
        pl.lit(0).alias("HOSPITAL_EXPIRE_FLAG"),
        pl.lit(0).alias("HAS_CHARTEVENTS_DATA"),
    )


def diagnoses_table(records: Sequence[PatientRecord]) -> pl.DataFrame:
    """DIAGNOSES_ICD as MIMIC-III has it, a row a code."""
    visits = [(record.subject_id, visit) for record in records for visit in record.visits]
    frame = pl.DataFrame(
        {
            "SUBJECT_ID": [subject_id for subject_id, _ in visits],
            "HADM_ID": [visit.hadm_id for _, visit in visits],
            "ICD9_CODE": [visit.codes for _, visit in visits],
        },
        schema_overrides={"ICD9_CODE": pl.List(pl.String)},
    )
    return (
        frame.with_columns(SEQ_NUM=pl.int_ranges(1, pl.col("ICD9_CODE").list.len() + 1))
        .explode("ICD9_CODE", "SEQ_NUM")
        .select(
            pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("ROW_ID"),
            "SUBJECT_ID",
            "HADM_ID",
            pl.col("SEQ_NUM").cast(pl.Int64),
            "ICD9_CODE",
        )
    )


def _short_title(code: str) -> str:
    try:
        return icd9.short_title(code)
    except InputError:
        return ""  # a code that the classification does not have: MIMIC-III holds some as well


def _titles(codes: Sequence[str]) -> pl.DataFrame:
    known = [code for code in codes if _short_title(code)]
    return pl.DataFrame(
        {
            "ROW_ID": range(1, len(known) + 1),
            "ICD9_CODE": known,
            "SHORT_TITLE": [icd9.short_title(code) for code in known],
            "LONG_TITLE": [icd9.title(code) for code in known],
        },
        schema_overrides=dict.fromkeys(("ICD9_CODE", "SHORT_TITLE", "LONG_TITLE"), pl.String),
    )


def count_planted(tables: Tables, dirt: Dirt, records: Sequence[PatientRecord]) -> Planted:
    """Count what the tables hold that a loader must see through."""
    counts = {
        field.name: getattr(dirt, field.name) for field in fields(dirt) if field.name != "shuffled"
    }
    times = pl.col("ADMITTIME")
    early = times < times.cum_max().over("SUBJECT_ID")
    counts["diagnoses_of_unknown_patients"] = 2 * dirt.unknown_patients
    counts["rows_out_of_order"] = tables["ADMISSIONS"].filter(early).height
    codes = tables["DIAGNOSES_ICD"]["ICD9_CODE"].str.strip_chars()
    counts["leading_zeros"] = int(codes.str.starts_with("0").sum())
    counts["ages_above_89"] = sum(record.age == MAX_AGE for record in records)
    return Planted(counts)
