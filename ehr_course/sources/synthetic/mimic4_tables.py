"""Write a cohort as MIMIC-IV tables, in either code system or in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import icd9, icd10
from ehr_course.records import MAX_AGE, PatientRecord
from ehr_course.sources.synthetic.dirt import Dirt, Planted, Tables, plant
from ehr_course.sources.synthetic.draws import hashed
from ehr_course.sources.synthetic.icd10_coding import first_day
from ehr_course.sources.synthetic.mimic3_tables import (
    admissions_table,
    count_planted,
    diagnoses_table,
)
from ehr_course.sources.synthetic.table_files import (
    check_can_be_written,
    check_folder,
    write_tables,
)

ABOVE_89 = 91
"""The anchor_age that MIMIC-IV writes for everyone older than 89."""

_OLDEST = 89  # whose age MIMIC-IV still tells
_VERSIONS: dict[CodeSystem, int] = {"ICD9CM": 9, "ICD10CM": 10}
_ANCHORS = 40  # stream of random numbers
_NAMES = ("patients", "admissions", "diagnoses_icd", "d_icd_diagnoses")
_ADMISSION_TYPES = {"NEWBORN": "URGENT", "ELECTIVE": "ELECTIVE", "EMERGENCY": "EW EMER."}


def write_mimic4(
    records: Iterable[PatientRecord],
    folder: str | Path,
    *,
    dirt: Dirt | None = None,
    seed: int = 0,
    compress: bool = False,
    overwrite: bool = False,
) -> Planted:
    """Write patients, admissions, diagnoses_icd and d_icd_diagnoses as MIMIC-IV has them.

    Columns, their order and dates are those of MIMIC-IV v2.2, in the subfolder hosp. The column
    icd_version says of each diagnosis whether it is ICD-9 or ICD-10. What a record does not hold
    is made up or left empty.

    MIMIC-IV gives no births. It gives an age in an anchor year; that year is the first
    admission's, or one of the three that follow where the age is still told by then.
    anchor_year_group says when the year really was; see ``icd10_coding.first_day``.

    Args:
        records: at least one patient; every visit with its admission time and hadm_id.
        folder: the folder above hosp; both are made if they do not exist.
        dirt, seed, compress, overwrite: as in write_mimic3.

    Returns:
        what was planted, as write_mimic3 does; besides ``in_icd9`` and ``in_icd10``, the
        diagnoses of records in each, none of which was planted.

    Raises:
        InputError: if a record lacks a time or a number, an id occurs twice, there are no
            records, the folder is a file, tables are there already, or the dirt asks for more
            rows than there are.
    """
    records = list(records)
    check_can_be_written("write_mimic4", records, seed)
    hosp = Path(folder) / "hosp"
    check_folder(hosp, _NAMES, overwrite=overwrite)
    dirt = dirt or Dirt()
    versions = [_VERSIONS[v.system] for r in records for v in r.visits for _ in v.codes]
    tables: Tables = {
        "PATIENTS": _patients(records, seed),
        "ADMISSIONS": admissions_table(records, seed),
        "DIAGNOSES_ICD": diagnoses_table(records).with_columns(
            ICD_VERSION=pl.Series(versions, dtype=pl.Int64)
        ),
    }
    tables = plant(tables, dirt, seed=seed)
    planted = count_planted(tables, dirt, records).counts
    planted = {
        **planted,
        "in_icd9": versions.count(9),
        "in_icd10": versions.count(10),
    }
    write_tables(
        {
            "patients": tables["PATIENTS"].rename(str.lower),
            "admissions": _as_in_mimic4(tables["ADMISSIONS"]),
            "diagnoses_icd": tables["DIAGNOSES_ICD"].select(
                subject_id="SUBJECT_ID",
                hadm_id="HADM_ID",
                seq_num="SEQ_NUM",
                icd_code="ICD9_CODE",
                icd_version="ICD_VERSION",
            ),
            "d_icd_diagnoses": _titles(records),
        },
        hosp,
        compress=compress,
        overwrite=overwrite,
        quote=False,
    )
    return Planted(planted)


def _patients(records: Sequence[PatientRecord], seed: int) -> pl.DataFrame:
    ids = [record.subject_id for record in records]
    drawn = (hashed(seed, _ANCHORS, np.array(ids)) * 4).astype(np.int64).tolist()
    rows = []
    for record, later in zip(records, drawn, strict=True):
        first = record.visits[0].admitted
        assert first is not None  # every visit of the embedded hospital has a time
        years = max(0, min(later, _OLDEST - record.age))
        age = ABOVE_89 if record.age == MAX_AGE else record.age + years
        group = 3 * ((first_day(record.subject_id, seed=seed).year + years - 2008) // 3) + 2008
        rows.append(
            {
                "SUBJECT_ID": record.subject_id,
                "GENDER": record.sex,
                "ANCHOR_AGE": age,
                "ANCHOR_YEAR": first.year + years,
                "ANCHOR_YEAR_GROUP": f"{group} - {group + 2}",
                "DOD": None,
            }
        )
    return pl.DataFrame(rows, schema_overrides={"DOD": pl.Date})


def _as_in_mimic4(admissions: pl.DataFrame) -> pl.DataFrame:
    nothing = pl.lit(None, dtype=pl.String)
    return admissions.select(
        subject_id="SUBJECT_ID",
        hadm_id="HADM_ID",
        admittime="ADMITTIME",
        dischtime="DISCHTIME",
        deathtime="DEATHTIME",
        admission_type=pl.col("ADMISSION_TYPE").replace_strict(_ADMISSION_TYPES),
        admit_provider_id=nothing,
        admission_location=nothing,
        discharge_location=nothing,
        insurance=nothing,
        language=nothing,
        marital_status=nothing,
        race=nothing,
        edregtime="EDREGTIME",
        edouttime="EDOUTTIME",
        hospital_expire_flag="HOSPITAL_EXPIRE_FLAG",
    )


def _titles(records: Sequence[PatientRecord]) -> pl.DataFrame:
    known = sorted(
        {(v.system, code) for record in records for v in record.visits for code in v.codes}
    )
    rows = [(code, _VERSIONS[system], _title(code, system)) for system, code in known]
    schema = {"icd_code": pl.String, "icd_version": pl.Int64, "long_title": pl.String}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.filter(pl.col("long_title") != "").sort("icd_code", "icd_version")


def _title(code: str, system: CodeSystem) -> str:
    try:
        return icd9.title(code) if system == "ICD9CM" else icd10.title(code)
    except InputError:
        return ""  # a code that the classification does not have: MIMIC-IV holds some as well
