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

A visit in ICD-10-CM has DIAGNOSIS//ICD10CM//I509 in its place.

What is read besides: HOSPITAL_ADMISSION, ADMISSION, HOSPITAL_DISCHARGE and DISCHARGE with anything
after a slash; GENDER or SEX; and diagnoses of any of these spellings, in upper or lower case, with
dots or without:
DIAGNOSIS//ICD9CM//428.0, DIAGNOSIS//ICD//9//4280, ICD9CM//428.0, ICD9CM/428.0, ICD-9-CM/428.0,
and the same with 10 for 9.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl

from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.sources import meds_format as meds
from ehr_course.sources.code_column import IS_ICD10, SHAPES, CodeList, count_codes, spellings_of
from ehr_course.sources.code_translation import Plan, plan_translation, row_counts, translate_rows
from ehr_course.sources.cohort import Change, Cohort, LoadReport, Reason, Shortened, counted
from ehr_course.sources.grouping import build_records, completed_years, drop_repeated_codes
from ehr_course.sources.leading_zeros import check_leading_zeros
from ehr_course.sources.meds_events import (
    IS_ADMISSION,
    IS_DIAGNOSIS,
    IS_FACT,
    IS_UNREAD,
    NO_EQUIVALENT,
    count_vocabularies,
    keep_split,
    leave_unread,
    read_events,
)
from ehr_course.sources.meds_writing import write_meds
from ehr_course.sources.row_filter import Malformed, RowFilter, check_malformed
from ehr_course.sources.shortened import (
    KEEP_THEM,
    NOBODY_IS_WHOLE,
    account_of,
    lost_admissions,
)
from ehr_course.sources.system_choice import choose_systems

__all__ = ["load_meds", "write_meds"]

_UNTOLD = (
    "diagnoses at the time of an admission that no discharge gives to a stay, taken in the order "
    "of the rows"
)


def load_meds(
    folder: str | Path,
    *,
    split: str | None = None,
    malformed: Malformed = "raise",
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records from the ICD diagnoses of a MEDS 0.4 dataset, in one code system.

    Visits are told apart by the column hadm_id where there is one. A diagnosis without a hadm_id
    belongs to the patient's latest admission event, and to its own time if there is none. Where
    one stay ends in the minute in which the next begins, a diagnosis of that minute belongs to the
    stay that HOSPITAL_DISCHARGE ends, unless all diagnoses of the dataset stand at admissions. A
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
        system, map_to: as in `load_mimic4`.

    Returns:
        the records, and a report in which every event is used or dropped for a reason. Its one
        table is "data"; rows count from 1 in each shard. Where there are diagnoses of several
        vocabularies, the report counts them by vocabulary. A visit of which they are all is
        a visit that was dropped.

    Raises:
        InputError: naming file, place and remedy.
    """
    check_malformed(malformed)
    folder = Path(folder)
    events, discharges = read_events(folder, malformed)
    if split is not None:
        keep_split(events, folder, split)
    counts = count_codes(events.frame.filter(IS_DIAGNOSIS), "value")
    choice = choose_systems(meds.data_subdirectory, counts, system=system, map_to=map_to)
    leave_unread(events, choice)
    vocabularies = count_vocabularies(events, counts, choice.taken)
    codes = _normalise_codes(events, zeros_lost_ok)
    notes = (*vocabularies, *choice.notes, *codes.notes)
    plan = plan_translation(codes, choice.system)
    absent = _leave_absent(events, plan)
    _refuse_bad_values(events)
    _add_birth_and_sex(events)
    notes += _order_moments(events, discharges)
    _number_visits(events)
    shortened = _drop_without_diagnosis(events, whole_patients)
    drop_repeated_codes(events, same_row="time", n_codes=len(codes.codes) + 1)
    coded, translated = translate_rows(events, plan, absent)
    diagnoses = events.frame.filter(IS_DIAGNOSIS)
    if diagnoses.is_empty():
        report = LoadReport((events.account(),), shortened=shortened, notes=notes)
        names = " or ".join(SYSTEM_NAMES[name] for name in choice.taken)
        raise InputError(
            folder,
            "",
            f"no {names} diagnosis of a patient with birth and sex is in it"
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
    records = build_records(visits, coded, plan.codes, system=choice.system)
    changed = {
        Change.AGE_90.value: sum(record.age == MAX_AGE for record in records),
        Change.CODE_RESPELLED.value: int(diagnoses["respelled"].sum()),
    }
    report = LoadReport((events.account(),), counted(changed), shortened, notes, translated)
    return Cohort(records, report)


def _normalise_codes(events: RowFilter, zeros_lost_ok: bool) -> CodeList:
    """Give diagnoses their positions in the list that is returned, each code once."""
    lexicons: list[pl.DataFrame] = []
    codes: list[str] = []
    n_icd9 = 0
    for system, its in zip(CODE_SYSTEMS, (~IS_ICD10, IS_ICD10), strict=True):
        texts = events.frame.filter(IS_DIAGNOSIS & its)["value"]
        found = spellings_of(texts, system, first=len(codes))
        codes += found.codes
        n_icd9 = n_icd9 or len(codes) * (system == "ICD9CM")
        lexicons.append(
            pl.DataFrame(
                {
                    "kind": ["diagnosis"] * len(found.texts),
                    "value": found.texts,
                    "icd10": [system == "ICD10CM"] * len(found.texts),
                    "code": found.positions,
                    "respelled": found.texts.is_in(found.respelled.implode()),
                },
                schema_overrides={"kind": pl.String, "icd10": pl.Boolean},
            )
        )
    events.frame = events.frame.join(
        pl.concat(lexicons), on=["kind", "value", "icd10"], how="left", maintain_order="left"
    )
    note = check_leading_zeros(
        events.file,
        "code",
        codes[:n_icd9],
        events.frame.filter(IS_DIAGNOSIS & ~IS_ICD10)["code"],
        zeros_lost_ok=zeros_lost_ok,
    )
    for system, its in zip(CODE_SYSTEMS, (~IS_ICD10, IS_ICD10), strict=True):
        events.refuse(
            IS_DIAGNOSIS & its & pl.col("code").is_null(),
            Reason.BAD_CODE,
            column="value",
            problem=f"does not have the shape of an {SHAPES[system]} diagnosis code",
            remedy="Keep codes as text, with their leading zeros.",
            among=IS_DIAGNOSIS & its,
        )
    return CodeList(codes, n_icd9, () if note is None else (note,))


def _leave_absent(events: RowFilter, plan: Plan) -> Counter[int]:
    """Leave diagnoses unread whose code has no equivalent, and count them by their position.

    They are dropped later, so that a visit of which they are all is a visit that was lost.
    """
    if not plan.absent:
        return Counter()
    counts = row_counts(events.frame["code"], plan.absent)
    unread = pl.col("code").is_in(plan.absent).fill_null(False)
    events.frame = events.frame.with_columns(
        value=pl.when(unread).then(pl.lit(NO_EQUIVALENT)).otherwise("value"),
        kind=pl.when(unread).then(pl.lit("unread diagnosis")).otherwise("kind"),
        code=pl.when(unread).then(None).otherwise("code"),
    )
    return counts


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
            among=is_kind,
        )
    events.refuse(
        (pl.col("kind") == "sex") & ~pl.col("value").is_in(["F", "M"]),
        Reason.BAD_SEX,
        column="value",
        problem="is not a sex that records use",
        remedy="Write GENDER//F or GENDER//M.",
        among=pl.col("kind") == "sex",
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
        among=IS_FACT,
    )
    births = events.frame.filter(pl.col("kind") == "birth")
    sexes = events.frame.filter(pl.col("kind") == "sex")
    events.frame = events.frame.join(
        births.select("subject_id", birth="time"), on="subject_id", how="left"
    ).join(sexes.select("subject_id", sex="value"), on="subject_id", how="left")
    events.drop(pl.col("birth").is_null(), Reason.NO_BIRTH)
    events.drop(pl.col("sex").is_null(), Reason.NO_SEX)


def _order_moments(events: RowFilter, discharges: pl.DataFrame) -> tuple[str, ...]:
    """Add "turn", which says whether an event comes before admissions of the same time, or after.

    Args:
        events: the kept ones. Their turn is 0 before the admissions, 2 after them, and 1 where
            nothing but the order of the rows tells.
        discharges: "subject_id" and "time".

    Returns:
        what the report is to say.
    """
    moment = ["subject_id", "time"]
    began = events.frame.filter(IS_ADMISSION).select(*moment, begin=pl.lit(1), end=pl.lit(0))
    ended = discharges.select(*moment, begin=pl.lit(0), end=pl.lit(1))
    # A moment of as many admissions as discharges leaves a stay open if one was open before.
    opens = pl.when(pl.col("begin") != pl.col("end")).then(pl.col("begin") > pl.col("end"))
    moments = (
        pl.concat([began, ended])
        .group_by(moment)
        .agg(pl.col("begin", "end").sum())
        .sort(moment)
        .with_columns(is_open=opens.forward_fill().shift(1).over("subject_id").fill_null(False))
        .filter(pl.col("begin") > 0)
    )
    unnumbered = IS_DIAGNOSIS & pl.col("hadm_id").is_null() & IS_ADMISSION.any().over("subject_id")
    at_admission = pl.col("begin").is_not_null()
    frame = events.frame.join(moments, on=moment, how="left", maintain_order="left")
    # Where all diagnoses stand at admissions, they are those of the stay that begins.
    others = frame.select((unnumbered & ~at_admission).any()).item()
    is_open = pl.col("is_open") & pl.lit(others)
    turn = (
        pl.when(IS_ADMISSION | ~at_admission)
        .then(1)
        .when(is_open & (pl.col("end") == 1))
        .then(0)
        .when(~is_open & (pl.col("begin") == 1))
        .then(2)
        .otherwise(1)
    )
    frame = frame.with_columns(turn=turn)
    untold = frame.select((unnumbered & at_admission & (pl.col("turn") == 1)).sum()).item()
    events.frame = frame.drop("begin", "end", "is_open")
    return (f"{_UNTOLD}: {untold:,}",) if others and untold else ()


def _number_visits(events: RowFilter) -> None:
    """Tell visits apart, give each its time, and bring events into the order of the records."""
    # The latest admission event begins a stay; the stay gives its hadm_id to events without one.
    events.frame = (
        events.frame.sort("subject_id", "time", "turn", "line")
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
    events.drop(IS_UNREAD & pl.col("value").is_in(CODE_SYSTEMS), Reason.OTHER_VERSION)
    events.drop(IS_UNREAD & (pl.col("value") == NO_EQUIVALENT), Reason.NO_EQUIVALENT)
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
