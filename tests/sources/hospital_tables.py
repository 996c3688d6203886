"""The embedded hospital in MIMIC-IV's tables and in MEDS, in part coded in ICD-10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ehr_course.records import PatientRecord

ICD10_CODE = "I509"


def is_in_icd10(record: PatientRecord, place: int) -> bool:
    """Whether a visit is coded in ICD-10: of a third of the patients all, of another the later."""
    third = record.subject_id % 3
    return third == 0 or (third == 1 and place > 0)


def divided(
    records: Sequence[PatientRecord],
) -> tuple[list[PatientRecord], list[PatientRecord], int]:
    """What is in ICD-9: of everybody, of those who lost nothing, and what the others lost."""
    left, whole, lost = [], [], 0
    for record in records:
        visits = tuple(v for n, v in enumerate(record.visits) if not is_in_icd10(record, n))
        if visits:
            left.append(PatientRecord(record.subject_id, record.sex, record.age, visits))
            lost += len(record.visits) - len(visits)
            whole += [record] if len(visits) == len(record.visits) else []
    return left, whole, lost


def write_mimic4_hospital(records: Sequence[PatientRecord], folder: Path) -> Path:
    """Write MIMIC-IV's three tables; a visit in ICD-10 has one code."""
    tables = {
        "patients": ["subject_id,gender,anchor_age,anchor_year"],
        "admissions": ["subject_id,hadm_id,admittime"],
        "diagnoses_icd": ["subject_id,hadm_id,seq_num,icd_code,icd_version"],
    }
    for record in records:
        who, year = record.subject_id, record.visits[0].admitted.year
        age = 91 if record.age == 90 else record.age
        tables["patients"].append(f"{who},{record.sex},{age},{year}")
        for place, visit in enumerate(record.visits):
            tables["admissions"].append(f"{who},{visit.hadm_id},{visit.admitted}")
            codes, version = _coded(record, place)
            tables["diagnoses_icd"] += [
                f"{who},{visit.hadm_id},{number},{code},{version}"
                for number, code in enumerate(codes, start=1)
            ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder


def write_meds_hospital(records: Sequence[PatientRecord], folder: Path) -> Path:
    """Write one shard of MEDS; a visit in ICD-10 has one code."""
    rows: list[tuple[int, datetime | None, str, int | None]] = []
    for record in records:
        who, first = record.subject_id, record.visits[0].admitted
        rows.append((who, None, f"GENDER//{record.sex}", None))
        rows.append((who, datetime(first.year - record.age, 1, 1), "MEDS_BIRTH", None))
        for place, visit in enumerate(record.visits):
            codes, version = _coded(record, place)
            when, stay = visit.admitted, visit.hadm_id
            rows.append((who, when, "HOSPITAL_ADMISSION", stay))
            rows += [(who, when, f"DIAGNOSIS//ICD//{version}//{code}", stay) for code in codes]
    kinds = (pa.int64(), pa.timestamp("us"), pa.string(), pa.int64())
    arrays = [pa.array(v, k) for v, k in zip(zip(*rows, strict=True), kinds, strict=True)]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    names = ["subject_id", "time", "code", "hadm_id"]
    pq.write_table(pa.table(arrays, names=names), folder / "data" / "0.parquet")
    return folder


def _coded(record: PatientRecord, place: int) -> tuple[Sequence[str], int]:
    return ((ICD10_CODE,), 10) if is_in_icd10(record, place) else (record.visits[place].codes, 9)


def change_codes(table: Path, change: Callable[[str], str]) -> None:
    """Rewrite the last column of a MIMIC-III table that write_mimic3 wrote: the code."""
    header, *lines = table.read_text(encoding="utf-8").splitlines()
    rows = [line.rpartition(",") for line in lines]
    changed = [f"{start},{change(code)}" for start, _, code in rows]
    table.write_text("\n".join([header, *changed, ""]), encoding="utf-8")


def as_a_spreadsheet(code: str) -> str:
    """What a spreadsheet makes of a code that it takes for a number."""
    bare = code.strip('"')
    return str(int(bare)) if bare.isdigit() else code
