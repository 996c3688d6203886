"""Records as a MEDS 0.4 dataset; ``ehr_course.sources.meds`` says what is written and reads it."""

from __future__ import annotations

import json
from collections import Counter
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
from ehr_course.sources.splits import Split

# Readers of MEDS import this too, and need no pyarrow.
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

    A record knows an age, not a birth. MEDS_BIRTH is written as midnight of the day that lies
    `age` years before the first admission, so that the age in completed years is the same when
    it is read again; the month and day of birth are not the patient's.

    The folder appears when all of it is written: it is made under another name beside its place
    and then renamed.

    Args:
        records: each patient once; every visit has a time.
        folder: where to write; a folder that is not there yet, or empty.
        split: which records are for training, validation and test. Shards then go to
            data/train, data/tuning and data/held_out, the names that MEDS uses, and
            metadata/subject_splits.parquet says who is where. Without it, shards go to data.
        patients_per_shard: patients in one parquet file.

    Raises:
        InputError: if the folder is not empty, a patient occurs twice, a visit has no time, a
            code is none of its visit's system, or the split is not one of these records.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if patients_per_shard < 1:
        raise InputError(
            "patients_per_shard", "", f"{patients_per_shard} is no size", "Give 1 or more."
        )
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
            pq.write_table(
                pa.table(splits, schema=schema), unfinished / meds.subject_splits_filepath
            )
        about = {
            "dataset_name": Path(folder).name,
            "etl_name": "ehr_course",
            "meds_version": version("meds"),
            "raw_source_id_columns": ["hadm_id"],
        }
        (unfinished / meds.dataset_metadata_filepath).write_text(
            json.dumps(about, indent=2) + "\n", encoding="utf-8"
        )


def _split_names(records: Sequence[PatientRecord], split: Split | None) -> dict[int, str]:
    """Return the name of each patient's split, "" where nothing was split."""
    ids = [record.subject_id for record in records]
    if not ids:
        raise InputError("records", "", "there are none", "Give at least one patient.")
    if len(set(ids)) != len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InputError(
            f"patient {twice}",
            "",
            "there are two records of this patient",
            "Put all visits of a patient into one record.",
        )
    if split is None:
        return dict.fromkeys(ids, "")
    names = {
        record.subject_id: name
        for name, part in zip(
            (meds.train_split, meds.tuning_split, meds.held_out_split), split, strict=True
        )
        for record in part
    }
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

    # A hospital has millions of diagnoses: patient, time and number are kept once for all events
    # of a visit, and spread over them at the end.
    who: list[int] = []
    time: list[datetime | None] = []
    hadm_id: list[int | None] = []
    n_events: list[int] = []
    code: list[str] = []

    def add(record: PatientRecord, at: datetime | None, number: int | None, n: int) -> None:
        who.append(record.subject_id)
        time.append(at)
        hadm_id.append(number)
        n_events.append(n)

    for record in records:
        for number, visit in enumerate(record.visits, start=1):
            if visit.admitted is None:
                raise InputError(
                    f"patient {record.subject_id}",
                    f"visit {number}",
                    "it has no admission time, and a MEDS event needs one",
                    "Give each Visit a time as admitted=.",
                )
        add(record, None, None, 1)
        add(record, _birth(record), None, 1)
        code += (f"GENDER//{record.sex}", meds.birth_code)
        for visit in record.visits:
            add(record, visit.admitted, visit.hadm_id, 1 + len(visit.codes))
            code.append("HOSPITAL_ADMISSION")
            code += [_meds_code(each, visit.system) for each in visit.codes]
    of = pa.array(np.repeat(np.arange(len(who)), n_events))
    return pa.table(
        {
            "subject_id": pa.array(who, pa.int64()).take(of),
            "time": pa.array(time, pa.timestamp("us")).take(of),
            "code": pa.array(code, pa.string()),
            "hadm_id": pa.array(hadm_id, pa.int64()).take(of),
        }
    )


def _birth(record: PatientRecord) -> datetime:
    """Return midnight of the day `age` years before the first visit."""
    first = record.visits[0].admitted
    assert first is not None  # `write_meds` has refused visits without a time
    year = first.year - record.age
    try:
        return datetime(year, first.month, first.day)
    except ValueError:
        # 29 February of a year that has none: a birthday on the 28th is over by then.
        return datetime(year, first.month, first.day - 1)


@cache
def _meds_code(code: str, system: CodeSystem) -> str:
    return f"DIAGNOSIS//{system}//{code_meaning(system).normalize(code)}"


def _code_metadata(records: Sequence[PatientRecord]) -> pa.Table:
    import pyarrow as pa

    diagnoses = sorted(
        {
            (visit.system, code)
            for record in records
            for visit in record.visits
            for code in visit.codes
        },
        # ICD-9-CM comes first.
        key=lambda pair: (CODE_SYSTEMS.index(pair[0]), pair[1]),
    )
    sexes = sorted({record.sex for record in records})
    described = [
        *((f"GENDER//{sex}", {"F": "female", "M": "male"}[sex], None) for sex in sexes),
        (meds.birth_code, "birth, rebuilt from the age at the first admission", None),
        ("HOSPITAL_ADMISSION", "a hospital admission begins", None),
        *(_described(code, system) for system, code in diagnoses),
    ]
    code, description, parent_codes = zip(*described, strict=True)
    return pa.table(
        {
            "code": pa.array(code, pa.string()),
            "description": pa.array(description, pa.string()),
            "parent_codes": pa.array(parent_codes, pa.list_(pa.string())),
        }
    )


def _described(code: str, system: CodeSystem) -> tuple[str, str | None, list[str]]:
    """The event of a diagnosis, its title, and the code as it is commonly written."""
    dotted = code_meaning(system).dotted(code)
    return _meds_code(code, system), _title(code, system), [f"{system}/{dotted}"]


def _title(code: str, system: CodeSystem) -> str | None:
    try:
        return code_meaning(system).title(code)
    except InputError:
        # The shape is right, so the code can be written; no one has described it.
        return None
