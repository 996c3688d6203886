"""Write a cohort as MIMIC-III tables."""

from __future__ import annotations

import datetime as dt
import gzip
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE, PatientRecord
from ehr_course.sources.synthetic.dirt import Dirt, Planted, Tables, plant
from ehr_course.sources.synthetic.draws import hashed

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
        InputError: if a record lacks a time or a number, an id occurs twice, there are no
            records, the folder is a file, tables are there already, or the dirt asks for more
            rows than there are.
    """
    records = list(records)
    _check(records, seed)
    folder = Path(folder)
    suffix = ".csv.gz" if compress else ".csv"
    _check_folder(folder, overwrite)

    tables: Tables = {
        "PATIENTS": _patients(records, seed),
        "ADMISSIONS": _admissions(records, seed),
        "DIAGNOSES_ICD": _diagnoses(records),
    }
    dirt = dirt or Dirt()
    tables = plant(tables, dirt, seed=seed)
    planted = _count(tables, dirt, records)
    codes = {code for record in records for code in record.codes}
    tables["D_ICD_DIAGNOSES"] = _titles(sorted(codes))

    files = {name: _csv(table, compress=compress) for name, table in tables.items()}
    folder.mkdir(parents=True, exist_ok=True)
    # Under names of their own first: a reader never finds half a table.
    parts = {name: folder / f".{name}{suffix}.part" for name in files}
    try:
        for name, content in files.items():
            parts[name].write_bytes(content)
        for name, part in parts.items():
            for old in _files(folder, name):
                old.unlink()
            part.replace(folder / f"{name}{suffix}")
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    return planted


def _check(records: Sequence[PatientRecord], seed: int) -> None:
    if not records:
        raise InputError("write_mimic3", "", "there is no patient to write", "Pass some records.")
    if not isinstance(seed, int) or seed < 0:
        raise InputError(
            "write_mimic3",
            "argument seed",
            f"{seed!r} is not a seed",
            "Pass a whole number, 0 or more.",
        )
    subject_ids, hadm_ids = set(), set()
    for record in records:
        patient = f"patient {record.subject_id}"
        if record.subject_id in subject_ids:
            raise InputError("records", patient, "two records have this subject_id", "Keep one.")
        subject_ids.add(record.subject_id)
        for visit in record.visits:
            if visit.admitted is None or visit.hadm_id is None:
                raise InputError(
                    "records",
                    patient,
                    "a visit has no admission time or no hadm_id",
                    "MIMIC-III tables need both.",
                )
            if visit.hadm_id in hadm_ids:
                raise InputError(
                    "records", patient, f"hadm_id {visit.hadm_id} occurs twice", "Number anew."
                )
            hadm_ids.add(visit.hadm_id)


_NAMES = ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD", "D_ICD_DIAGNOSES")


def _files(folder: Path, name: str) -> list[Path]:
    return [path for s in (".csv", ".csv.gz") if (path := folder / f"{name}{s}").exists()]


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(folder, "", "this is a file, not a folder", "Name another folder.")
    there = [path.name for name in _NAMES for path in _files(folder, name)]
    if there and not overwrite:
        raise InputError(
            folder,
            "",
            f"it already holds {', '.join(there)}",
            "Name another folder, or pass overwrite=True to replace them.",
        )


def _years_before(day: dt.date, years: int) -> dt.date:
    try:
        return day.replace(year=day.year - years)
    except ValueError:  # 29 February of a year that has none
        return day.replace(year=day.year - years, day=28)


def _birth(record: PatientRecord, days_since_birthday: int) -> dt.date:
    first = record.visits[0]
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


def _admissions(records: Sequence[PatientRecord], seed: int) -> pl.DataFrame:
    visits = [(record.subject_id, visit) for record in records for visit in record.visits]
    first_codes = [visit.codes[0] for _, visit in visits]
    born = [code.startswith("V3") for code in first_codes]
    elective = [code.startswith("V") for code in first_codes]
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


def _diagnoses(records: Sequence[PatientRecord]) -> pl.DataFrame:
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


def _count(tables: Tables, dirt: Dirt, records: Sequence[PatientRecord]) -> Planted:
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


def _csv(table: pl.DataFrame, *, compress: bool) -> bytes:
    """Write text in quotation marks and everything else without, as MIMIC-III does."""
    mark = pl.lit('"')
    quoted = table.with_columns(
        pl.concat_str(mark, pl.col(name).str.replace_all('"', '""'), mark).alias(name)
        for name, kind in table.schema.items()
        if kind == pl.String
    )
    buffer = io.BytesIO()
    buffer.write((",".join(f'"{name}"' for name in table.columns) + "\n").encode())
    quoted.write_csv(
        buffer, include_header=False, quote_style="never", datetime_format="%Y-%m-%d %H:%M:%S"
    )
    # No time stamp inside: the same tables give the same bytes.
    return gzip.compress(buffer.getvalue(), mtime=0) if compress else buffer.getvalue()
