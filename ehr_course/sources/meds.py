"""MEDS 0.4 datasets, the parquet format that many EHR tools share, in and out.

A MEDS dataset is a folder of events, one per row: subject_id, time, code. Schemas and names of
files come from the package `meds`; see https://medical-event-data-standard.github.io.

What is written, in this order for each patient:

======================= ================= ======================================================
code                    time              meaning
======================= ================= ======================================================
GENDER//F, GENDER//M    none              sex
MEDS_BIRTH              see `write_meds`  birth, rebuilt from the age
HOSPITAL_ADMISSION      Visit.admitted    a visit begins
DIAGNOSIS//ICD9CM//4280 Visit.admitted    a diagnosis of the visit, most important first
======================= ================= ======================================================

What is read besides: HOSPITAL_ADMISSION and ADMISSION with anything after a slash; GENDER or SEX;
and diagnoses of any of these spellings, in upper or lower case, with dots or without:
DIAGNOSIS//ICD9CM//428.0, DIAGNOSIS//ICD//9//4280, ICD9CM//428.0, ICD9CM/428.0, ICD-9-CM/428.0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import meds
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.new_folder import new_folder
from ehr_course.records import MAX_AGE, PatientRecord
from ehr_course.sources.code_column import CodeList
from ehr_course.sources.cohort import Change, Cohort, LoadReport, Reason, Shortened, counted
from ehr_course.sources.grouping import build_records, completed_years, drop_repeated_codes
from ehr_course.sources.leading_zeros import check_leading_zeros
from ehr_course.sources.meds_events import (
    ICD10,
    IS_ADMISSION,
    IS_DIAGNOSIS,
    IS_FACT,
    IS_UNREAD,
    count_vocabularies,
    keep_split,
    read_events,
)
from ehr_course.sources.row_filter import Malformed, RowFilter, check_malformed
from ehr_course.sources.shortened import (
    KEEP_THEM,
    NOBODY_IS_WHOLE,
    account_of,
    lost_admissions,
)
from ehr_course.sources.splits import Split

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
            code is no ICD-9-CM code, or the split is not one of these records.
    """
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
            table = pa.table(splits, schema=meds.SubjectSplitSchema.schema())
            meds.SubjectSplitSchema.validate(table)
            pq.write_table(table, unfinished / meds.subject_splits_filepath)
        about = {
            "dataset_name": Path(folder).name,
            "etl_name": "ehr_course",
            "meds_version": meds.__version__,
            "raw_source_id_columns": ["hadm_id"],
        }
        meds.DatasetMetadataSchema.validate(about)
        (unfinished / meds.dataset_metadata_filepath).write_text(
            json.dumps(about, indent=2) + "\n", encoding="utf-8"
        )


def load_meds(
    folder: str | Path,
    *,
    split: str | None = None,
    malformed: Malformed = "raise",
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
) -> Cohort:
    """Load patient records from the ICD-9-CM diagnoses of a MEDS 0.4 dataset.

    Visits are told apart by the column hadm_id where there is one. A diagnosis without a hadm_id
    belongs to the patient's latest admission event, and to its own time if there is none. A
    visit's time is that of its admission event, else of its first diagnosis. Codes come in the
    order of the rows, which is the order of importance in what `write_meds` writes; many other
    datasets have no such order.

    Age is in completed years from MEDS_BIRTH to the first visit, by the calendar; above 89 it
    is 90.

    Args:
        folder: the dataset, which holds data/ with parquet files at any depth.
        split: load only this split of metadata/subject_splits.parquet ("train", "tuning",
            "held_out").
        malformed, whole_patients, zeros_lost_ok: as in `load_mimic3`.

    Returns:
        the records, and a report in which every event is used or dropped for a reason. Its one
        table is "data"; rows count from 1 in each shard. Where there are diagnoses of other
        vocabularies, the report counts them by vocabulary. A visit of which they are all is
        a visit that was dropped.

    Raises:
        InputError: naming file, place and remedy.
    """
    check_malformed(malformed)
    folder = Path(folder)
    events = read_events(folder, malformed)
    if split is not None:
        keep_split(events, folder, split)
    vocabularies = count_vocabularies(events)
    codes, notes = _normalise_codes(events, zeros_lost_ok)
    notes = (*vocabularies, *notes)
    _refuse_bad_values(events)
    _add_birth_and_sex(events)
    _number_visits(events)
    shortened = _drop_without_diagnosis(events, whole_patients)
    drop_repeated_codes(events, same_row="time", n_codes=len(codes) + 1)
    diagnoses = events.frame.filter(IS_DIAGNOSIS)
    if diagnoses.is_empty():
        report = LoadReport((events.account(),), shortened=shortened, notes=notes)
        raise InputError(
            folder,
            "",
            "no ICD-9-CM diagnosis of a patient with birth and sex is in it"
            if shortened is None
            else NOBODY_IS_WHOLE,
            f"{'Is the vocabulary another one?' if shortened is None else KEEP_THEM} "
            f"What was dropped:\n{report}",
        )
    first_visit = pl.col("admitted").first().over("subject_id")
    visits = (
        diagnoses.unique("visit", keep="first", maintain_order=True)
        .with_columns(first_visit.alias("first_visit"))
        .with_columns(
            completed_years("birth", "first_visit").clip(upper_bound=MAX_AGE).alias("age")
        )
    )
    records = build_records(visits, diagnoses.select("visit", "code"), codes)
    changed = {
        Change.AGE_90.value: sum(record.age == MAX_AGE for record in records),
        Change.CODE_RESPELLED.value: diagnoses["respelled"].sum(),
    }
    return Cohort(records, LoadReport((events.account(),), counted(changed), shortened, notes))


# Writing.


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
    rows: list[tuple[int, datetime | None, str, int | None]] = []
    for record in records:
        for number, visit in enumerate(record.visits, start=1):
            if visit.admitted is None:
                raise InputError(
                    f"patient {record.subject_id}",
                    f"visit {number}",
                    "it has no admission time, and a MEDS event needs one",
                    "Give each Visit a time as admitted=.",
                )
        who = record.subject_id
        rows.append((who, None, f"GENDER//{record.sex}", None))
        rows.append((who, _birth(record), meds.birth_code, None))
        for visit in record.visits:
            rows.append((who, visit.admitted, "HOSPITAL_ADMISSION", visit.hadm_id))
            rows += [(who, visit.admitted, _meds_code(c), visit.hadm_id) for c in visit.codes]
    subject_id, time, code, hadm_id = zip(*rows, strict=True)
    table = pa.table(
        {
            "subject_id": pa.array(subject_id, pa.int64()),
            "time": pa.array(time, pa.timestamp("us")),
            "code": pa.array(code, pa.string()),
            "hadm_id": pa.array(hadm_id, pa.int64()),
        }
    )
    table = meds.DataSchema.align(table)
    meds.DataSchema.validate(table)
    return table


def _birth(record: PatientRecord) -> datetime:
    """Return midnight of the day `age` years before the first visit."""
    first = record.visits[0].admitted
    year = first.year - record.age
    try:
        return datetime(year, first.month, first.day)
    except ValueError:
        # 29 February of a year that has none: a birthday on the 28th is over by then.
        return datetime(year, first.month, first.day - 1)


def _meds_code(code: str) -> str:
    return f"DIAGNOSIS//ICD9CM//{icd9.normalize(code)}"


def _code_metadata(records: Sequence[PatientRecord]) -> pa.Table:
    diagnoses = sorted({code for record in records for code in record.codes})
    sexes = sorted({record.sex for record in records})
    described = [
        *((f"GENDER//{sex}", {"F": "female", "M": "male"}[sex], None) for sex in sexes),
        (meds.birth_code, "birth, rebuilt from the age at the first admission", None),
        ("HOSPITAL_ADMISSION", "a hospital admission begins", None),
        *((_meds_code(c), _title(c), [f"ICD9CM/{icd9.dotted(c)}"]) for c in diagnoses),
    ]
    code, description, parent_codes = zip(*described, strict=True)
    table = pa.table(
        {"code": code, "description": description, "parent_codes": parent_codes},
        schema=meds.CodeMetadataSchema.schema(),
    )
    meds.CodeMetadataSchema.validate(table)
    return table


def _title(code: str) -> str | None:
    try:
        return icd9.title(code)
    except InputError:
        # The shape is right, so the code can be written; no one has described it.
        return None


# Reading; see meds_events.


def _normalise_codes(events: RowFilter, zeros_lost_ok: bool) -> CodeList:
    """Give diagnoses their positions in the list that is returned, each code once."""
    spellings = events.frame.filter(IS_DIAGNOSIS)["value"].unique().sort()
    normal = [icd9.normalize(text) if icd9.is_code(text) else None for text in spellings]
    codes = sorted({code for code in normal if code is not None})
    position = {code: number for number, code in enumerate(codes)}
    lexicon = pl.DataFrame(
        {
            "kind": ["diagnosis"] * len(spellings),
            "value": spellings,
            "code": pl.Series([position.get(code) for code in normal], dtype=pl.UInt32),
            "respelled": [text != code for text, code in zip(spellings, normal, strict=True)],
        },
        schema_overrides={"kind": pl.String},
    )
    events.frame = events.frame.join(
        lexicon, on=["kind", "value"], how="left", maintain_order="left"
    )
    note = check_leading_zeros(
        events.file,
        "code",
        codes,
        events.frame.filter(IS_DIAGNOSIS)["code"],
        zeros_lost_ok=zeros_lost_ok,
    )
    events.refuse(
        IS_DIAGNOSIS & pl.col("code").is_null(),
        Reason.BAD_CODE,
        column="value",
        problem="does not have the shape of an ICD-9 diagnosis code",
        remedy="Keep codes as text, with their leading zeros.",
    )
    return CodeList(codes, () if note is None else (note,))


def _refuse_bad_values(events: RowFilter) -> None:
    events.refuse(
        pl.col("subject_id").is_null() & ~IS_UNREAD,
        Reason.BAD_ID,
        column="subject_id",
        problem="stands where an event needs its patient",
        remedy="Give every event a subject_id.",
    )
    no_time = pl.col("time").is_null()
    for is_kind, reason, name in (
        (IS_DIAGNOSIS, Reason.NO_TIME, "a diagnosis"),
        (IS_ADMISSION, Reason.BAD_DATE, "an admission"),
        (pl.col("kind") == "birth", Reason.BAD_DATE, "a birth"),
    ):
        events.refuse(
            is_kind & no_time,
            reason,
            column="time",
            problem=f"stands where {name} needs a time",
            remedy="Only what never changes, as the sex, has no time.",
        )
    events.refuse(
        (pl.col("kind") == "sex") & ~pl.col("value").is_in(["F", "M"]),
        Reason.BAD_SEX,
        column="value",
        problem="is not a sex that records use",
        remedy="Write GENDER//F or GENDER//M.",
    )


def _add_birth_and_sex(events: RowFilter) -> None:
    """Give every event its patient's birth and sex; drop patients who lack one."""
    value = pl.coalesce("value", pl.col("time").cast(pl.String))
    fact = pl.struct("subject_id", "kind", value)
    events.drop(IS_FACT & ~fact.is_first_distinct(), Reason.SAME_ROW)
    events.refuse(
        IS_FACT & pl.struct("subject_id", "kind").is_duplicated(),
        Reason.ROWS_DIFFER,
        column="subject_id",
        problem="is a patient with two births or sexes that differ",
        remedy="Keep the right one.",
    )
    births = events.frame.filter(pl.col("kind") == "birth")
    sexes = events.frame.filter(pl.col("kind") == "sex")
    events.frame = events.frame.join(
        births.select("subject_id", birth="time"), on="subject_id", how="left"
    ).join(sexes.select("subject_id", sex="value"), on="subject_id", how="left")
    events.drop(pl.col("birth").is_null(), Reason.NO_BIRTH)
    events.drop(pl.col("sex").is_null(), Reason.NO_SEX)


def _number_visits(events: RowFilter) -> None:
    """Tell visits apart, give each its time, and bring events into the order of the records."""
    # The latest admission event begins a stay; the stay gives its hadm_id to events without one.
    events.frame = (
        events.frame.sort("subject_id", "time", "line")
        .with_columns(stay=IS_ADMISSION.cum_sum().over("subject_id"))
        .with_columns(stay_hadm_id=pl.col("hadm_id").first().over("subject_id", "stay"))
        .with_columns(
            hadm_id=pl.when(pl.col("stay") > 0)
            .then(pl.coalesce("hadm_id", "stay_hadm_id"))
            .otherwise("hadm_id")
        )
    )
    unnumbered = pl.col("hadm_id").is_null()
    key = (
        pl.col("subject_id"),
        pl.col("hadm_id"),
        pl.when(unnumbered).then("stay"),
        pl.when(unnumbered & (pl.col("stay") == 0)).then("time"),
        # Births and sexes are in no visit.
        IS_FACT,
    )
    admission_time = pl.when(IS_ADMISSION).then("time").min().over(*key)
    # Diagnoses that are not read change nothing about a visit of which others are.
    read_time = pl.when(~IS_UNREAD).then("time").min().over(*key)
    read_line = pl.when(~IS_UNREAD).then("line").min().over(*key)
    events.frame = (
        events.frame.with_columns(
            admitted=pl.coalesce(admission_time, read_time, pl.col("time").min().over(*key)),
            visit_begins=pl.coalesce(read_line, pl.col("line").min().over(*key)),
        )
        .sort("subject_id", "admitted", "visit_begins", "time", "line")
        .with_columns(visit=pl.struct("visit_begins", IS_FACT.alias("fact")).rle_id())
    )
    events.refuse(
        ~IS_FACT & ~IS_UNREAD & (pl.col("admitted").dt.date() < pl.col("birth").dt.date()),
        Reason.BEFORE_BIRTH,
        column="time",
        problem="belongs to a visit before the patient's MEDS_BIRTH: the age would be negative",
        remedy="Correct either.",
    )


def _drop_without_diagnosis(events: RowFilter, whole_patients: bool) -> Shortened | None:
    """Drop what belongs to no diagnosis that is read, and count the visits that are lost so."""
    visits = events.frame.filter(~IS_FACT).select("visit", "line", patient="subject_id")
    kept = events.frame.filter(IS_DIAGNOSIS).select("visit", patient="subject_id")
    lost = lost_admissions(visits, kept)
    events.drop(IS_UNREAD & (pl.col("value") == ICD10), Reason.OTHER_VERSION)
    events.drop(IS_UNREAD, Reason.OTHER_VOCABULARY)
    if whole_patients:
        ids = lost["patient"].unique()
        events.drop(pl.col("subject_id").is_in(ids.implode()), Reason.PATIENT_DROPPED)
    in_use = (
        pl.when(IS_FACT)
        .then(IS_DIAGNOSIS.any().over("subject_id"))
        .otherwise(IS_DIAGNOSIS.any().over("visit"))
    )
    events.drop(~in_use, Reason.NO_DIAGNOSIS)
    return account_of(lost, events.place, are_left_out=whole_patients)
