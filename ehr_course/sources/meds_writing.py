"""Write records as a MEDS 0.4 dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ehr_course.code_system import CODE_SYSTEMS, CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning
from ehr_course.new_folder import new_folder
from ehr_course.records import PatientRecord
from ehr_course.sources import meds_format as meds
from ehr_course.sources.splits import Split, check_one_record_each

# meds.py imports this module too, and reading needs no pyarrow.
if TYPE_CHECKING:
    import pyarrow as pa

PATIENTS_PER_SHARD = 1000


def write_meds(
    records: Sequence[PatientRecord],
    folder: str | Path,
    *,
    split: Split | None = None,
    patients_per_shard: int = PATIENTS_PER_SHARD,
) -> None:
    """Write records as a MEDS 0.4 dataset.

    Each patient has GENDER//F or GENDER//M without a time, MEDS_BIRTH, and for each visit, at its
    time, HOSPITAL_ADMISSION and DIAGNOSIS//ICD9CM//4280 or DIAGNOSIS//ICD10CM//I509, most
    important first. MEDS_BIRTH is midnight of the day `age` years before the first admission, so
    that the age reads back the same; its month and day are not the patient's.

    Args:
        records: each patient once; every visit has a time.
        folder: a new or empty folder; it appears when all of it is written.
        split: writes shards to data/train, data/tuning and data/held_out (MEDS's names for
            training, validation and test), with metadata/subject_splits.parquet.
        patients_per_shard: patients in one parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if patients_per_shard < 1:
        problem = f"{patients_per_shard} is not a size"
        raise InputError("patients_per_shard", "", problem, "Give 1 or more.")
    split_names = _split_names(records, split)
    with new_folder(folder) as unfinished:
        (unfinished / "metadata").mkdir()
        for name in dict.fromkeys(split_names.values()):
            part = [record for record in records if split_names[record.subject_id] == name]
            shards = unfinished / meds.data_subdirectory / name
            shards.mkdir(parents=True)
            for number, start in enumerate(range(0, len(part), patients_per_shard)):
                events = _events(part[start : start + patients_per_shard])
                pq.write_table(events, shards / f"{number}.parquet")
        pq.write_table(_code_metadata(records), unfinished / meds.code_metadata_filepath)
        if split is not None:
            splits = {"subject_id": list(split_names), "split": list(split_names.values())}
            schema = pa.schema({"subject_id": pa.int64(), "split": pa.string()})
            table = pa.table(splits, schema=schema)
            pq.write_table(table, unfinished / meds.subject_splits_filepath)
        about = {
            "dataset_name": Path(folder).name,
            "etl_name": "ehr_course",
            "meds_version": version("meds"),
            "raw_source_id_columns": ["hadm_id"],
        }
        text = json.dumps(about, indent=2) + "\n"
        (unfinished / meds.dataset_metadata_filepath).write_text(text, encoding="utf-8")


def _split_names(records: Sequence[PatientRecord], split: Split | None) -> dict[int, str]:
    """Return each patient's split, "" without splits."""
    if not records:
        raise InputError("records", "", "the list is empty", "Give at least one patient.")
    check_one_record_each(records)
    ids = [record.subject_id for record in records]
    if split is None:
        return dict.fromkeys(ids, "")
    parts = zip((meds.train_split, meds.tuning_split, meds.held_out_split), split, strict=True)
    names = {record.subject_id: name for name, part in parts for record in part}
    if sum(map(len, split)) != len(names) or names.keys() != set(ids):
        raise InputError(
            "split",
            "",
            "its parts are not the patients of the records, each once",
            "Split the same records that you write.",
        )
    return {subject_id: names[subject_id] for subject_id in ids}


def _events(records: Sequence[PatientRecord]) -> pa.Table:
    import pyarrow as pa

    # A hospital has millions of diagnoses, so patient, time and number stand here once per visit.
    moments: list[tuple[int, datetime | None, int | None]] = []
    n_events: list[int] = []
    codes: list[str] = []

    def add(who: int, time: datetime | None, hadm_id: int | None, *events: str) -> None:
        moments.append((who, time, hadm_id))
        n_events.append(len(events))
        codes.extend(events)

    for record in records:
        who = record.subject_id
        for number, visit in enumerate(record.visits, start=1):
            if visit.admitted is None:
                raise InputError(
                    f"patient {who}",
                    f"visit {number}",
                    "it has no admission time, and a MEDS event needs one",
                    "Give each Visit a time as admitted=.",
                )
        add(who, None, None, f"GENDER//{record.sex}")
        add(who, _birth(record), None, meds.birth_code)
        for visit in record.visits:
            diagnoses = (_meds_code(code, visit.system) for code in visit.codes)
            add(who, visit.admitted, visit.hadm_id, "HOSPITAL_ADMISSION", *diagnoses)
    of = pa.array(np.repeat(np.arange(len(moments)), n_events))
    subject_id, time, hadm_id = zip(*moments, strict=True)
    return pa.table(
        {
            "subject_id": pa.array(subject_id, pa.int64()).take(of),
            "time": pa.array(time, pa.timestamp("us")).take(of),
            "code": pa.array(codes, pa.string()),
            "hadm_id": pa.array(hadm_id, pa.int64()).take(of),
        }
    )


def _birth(record: PatientRecord) -> datetime:
    """Return midnight of the day `age` years before the first visit."""
    first = record.visits[0].admitted
    assert first is not None  # `_events` has refused visits without a time
    year = first.year - record.age
    try:
        return datetime(year, first.month, first.day)
    except ValueError:
        # 29 February in a common year: a birthday on the 28th is over by then.
        return datetime(year, first.month, first.day - 1)


@cache
def _meds_code(code: str, system: CodeSystem) -> str:
    return f"DIAGNOSIS//{system}//{code_meaning(system).normalize(code)}"


def _code_metadata(records: Sequence[PatientRecord]) -> pa.Table:
    import pyarrow as pa

    sexes = sorted({record.sex for record in records})
    described: list[tuple[str, str | None, list[str] | None]] = [
        *((f"GENDER//{sex}", {"F": "female", "M": "male"}[sex], None) for sex in sexes),
        (meds.birth_code, "birth, rebuilt from the age at the first admission", None),
        ("HOSPITAL_ADMISSION", "a hospital admission begins", None),
    ]
    visits = [visit for record in records for visit in record.visits]
    for system in CODE_SYSTEMS:
        meaning = code_meaning(system)
        in_use = {code for visit in visits if visit.system == system for code in visit.codes}
        for code in sorted(in_use):
            try:
                title = meaning.title(code)
            except InputError:
                title = None  # the right shape, but in no classification
            parents = [f"{system}/{meaning.dotted(code)}"]
            described.append((_meds_code(code, system), title, parents))
    kinds = (pa.string(), pa.string(), pa.list_(pa.string()))
    columns = zip(*described, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["code", "description", "parent_codes"])
