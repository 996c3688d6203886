"""MEDS 0.4 datasets, the parquet format that many EHR tools share, in and out.

See https://medical-event-data-standard.github.io. The names of files and codes are those of the
package ``meds``, which takes seconds to import.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import polars as pl

from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning
from ehr_course.new_folder import new_folder
from ehr_course.records import MAX_AGE, PatientRecord
from ehr_course.sources.code_table import SEXES
from ehr_course.sources.codes import (
    choose_systems,
    count_codes,
    drop_repeated_codes,
    is_coded_in,
    read_codes,
)
from ehr_course.sources.cohort import Change, Cohort, LoadOptions, Malformed, Options, Reason
from ehr_course.sources.grouping import (
    build_cohort,
    check_something_is_left,
    completed_years,
    lost_visits,
)
from ehr_course.sources.row_filter import RowFilter, is_in
from ehr_course.sources.splits import Split, check_one_record_each
from ehr_course.sources.tables import parquet_columns, read_parquet

# Reading needs no pyarrow.
if TYPE_CHECKING:
    import pyarrow as pa

DATA = "data"
CODE_METADATA = "metadata/codes.parquet"
DATASET_METADATA = "metadata/dataset.json"
SUBJECT_SPLITS = "metadata/subject_splits.parquet"
SPLITS = ("train", "tuning", "held_out")
BIRTH = "MEDS_BIRTH"

PATIENTS_PER_SHARD = 1000
_NO_EQUIVALENT = "no equivalent"
_VOCABULARIES_SHOWN = 8

# The group holds an event's value: a diagnosis code, a vocabulary or a sex. The vocabulary must
# stand first: PROCEDURE//ICD//9 is another one.
_ICD = r"(?:DIAGNOSIS/{{1,2}})?(?:ICD/{{1,2}}{0}|ICD[-_]?{0}(?:[-_]?CM)?)(?:/{{1,2}}|_|:)"
_KINDS = [
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (_ICD.format(10) + "(?!PCS|PROC)(.+)", "diagnosis"),
        (_ICD.format(9) + "(.+)", "diagnosis"),
        (r"DIAGNOSIS/{1,2}(?:([^/]+)/{1,2})?.+", "unread diagnosis"),
        (r"(?:GENDER|SEX)/{1,2}(.*)", "sex"),
        (rf"(?-i:{BIRTH})()", "birth"),
        (r"(?:HOSPITAL_)?ADMISSION(?:/.*)?()", "admission"),
        (r"(?:HOSPITAL_)?DISCHARGE(?:/.*)?()", "discharge"),
    )
]

_IS_DIAGNOSIS = pl.col("kind") == "diagnosis"
_IS_ADMISSION = pl.col("kind") == "admission"
_IS_UNREAD = pl.col("kind") == "unread diagnosis"
_IS_FACT = pl.col("kind").is_in(["birth", "sex"])


def load_meds(
    folder: str | Path, *, split: str | None = None, **options: Unpack[Options]
) -> Cohort:
    """Load patient records from the ICD diagnoses of a MEDS 0.4 dataset, in one code system.

    Besides what `write_meds` writes, it reads ADMISSION, DISCHARGE and HOSPITAL_DISCHARGE, SEX,
    and diagnoses such as DIAGNOSIS//ICD//9//4280, ICD10CM/I50.9 and ICD-9-CM/428.0, in either
    case.

    The column hadm_id tells visits apart. A diagnosis without one belongs to the patient's latest
    admission event, or to its own time if there is none. Where one stay ends in the minute in
    which the next begins, a diagnosis of that minute belongs to the stay that HOSPITAL_DISCHARGE
    ends, unless all diagnoses of the dataset stand at admissions. A visit's time is that of its
    admission event, else of its first diagnosis. Codes keep the order of the rows, which many
    datasets do not sort by importance. Age is in completed years from MEDS_BIRTH to the first
    visit; above 89 it is 90.

    Args:
        folder: the dataset, which holds data/ with parquet files at any depth.
        split: load only this split of metadata/subject_splits.parquet ("train", "tuning",
            "held_out").
        options: as in ``load_mimic3``.
    """
    return read_meds(Path(folder), LoadOptions.of("load_meds", options), split)


def read_meds(folder: Path, how: LoadOptions, split: str | None = None) -> Cohort:
    """Load a MEDS dataset, as load_meds does."""
    events, discharges = _read_events(folder, how.malformed)
    if split is not None:
        _keep_split(events, folder, split)
    counts = count_codes(events.frame)
    choice = choose_systems(DATA, counts, how)
    # Unread diagnoses are dropped later, so that a visit without others counts as lost.
    for system in CODE_SYSTEMS:
        if system not in choice.taken:
            _leave_unread(events, is_coded_in(system), system)
    notes = _vocabularies(events, counts, choice.taken)
    codes = read_codes(events, choice, how)
    _leave_unread(events, pl.col("code").is_in(codes.absent), _NO_EQUIVALENT)
    _refuse_bad_values(events)
    _add_birth_and_sex(events)
    notes += (*codes.notes, *_order_moments(events, discharges))
    _number_visits(events)

    rows = events.frame.filter(~_IS_FACT).select("visit", "line", patient="subject_id")
    kept = events.frame.filter(_IS_DIAGNOSIS).select("visit", patient="subject_id")
    lost, shortened = lost_visits(rows, kept, events, left_out=how.whole_patients)
    events.drop(_IS_UNREAD & pl.col("value").is_in(CODE_SYSTEMS), Reason.OTHER_VERSION)
    events.drop(_IS_UNREAD & (pl.col("value") == _NO_EQUIVALENT), Reason.NO_EQUIVALENT)
    events.drop(_IS_UNREAD, Reason.OTHER_VOCABULARY)
    if how.whole_patients:
        events.drop(is_in("subject_id", lost), Reason.PATIENT_DROPPED)
    of_patient, of_visit = (_IS_DIAGNOSIS.any().over(key) for key in ("subject_id", "visit"))
    events.drop(~pl.when(_IS_FACT).then(of_patient).otherwise(of_visit), Reason.NO_DIAGNOSIS)
    drop_repeated_codes(events, codes, same_row="time")
    names = " or ".join(SYSTEM_NAMES[name] for name in choice.taken)
    check_something_is_left(
        events,
        [events.account()],
        shortened,
        thing=folder,
        problem=f"no {names} diagnosis of a patient with birth and sex is in it",
        remedy="Is it coded in another vocabulary?",
        notes=notes,
    )
    first_visit = pl.col("admitted").first().over("subject_id")
    visits = (
        events.frame.filter(_IS_DIAGNOSIS)
        .unique("visit", keep="first", maintain_order=True)
        .with_columns(first_visit=first_visit)
        .with_columns(age=completed_years("birth", "first_visit").clip(upper_bound=MAX_AGE))
    )
    oldest = visits.filter(pl.col("age") == MAX_AGE)["subject_id"].n_unique()
    return build_cohort(
        events,
        visits,
        codes,
        tables=[events],
        changed={Change.AGE_90: oldest},
        shortened=shortened,
        notes=notes,
    )


# ------------------------------------------------------------------ events of all shards


def _read_events(folder: Path, malformed: Malformed) -> tuple[RowFilter, pl.DataFrame]:
    """Read the events that records need, with the time of each discharge; count all others."""
    data = folder / DATA
    if not data.is_dir():
        found = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
        raise InputError(
            folder,
            "",
            f"no folder {DATA}/ is in it (found: {found})",
            "Name the folder of a MEDS dataset.",
        )
    shards = sorted(data.rglob("*.parquet"))
    if not shards:
        raise InputError(data, "", "no parquet file is in it", "Export or copy it again.")
    names = [shard.relative_to(data).as_posix() for shard in shards]
    starts: list[int] = []

    def place(line: int) -> str:
        shard = bisect_right(starts, line) - 1
        return f"{names[shard]} row {line - starts[shard] + 1}"

    needed, unread, discharges = [], [], []
    n_rows = 0
    for shard, name in zip(shards, names, strict=True):
        frame = _read_shard(shard, name).with_row_index("line", offset=n_rows)
        starts.append(n_rows)
        n_rows += frame.height
        # A shard of a hospital has far more laboratory values than diagnoses.
        is_needed = ~pl.col("kind").is_in(["other", "discharge", "no code"])
        needed.append(frame.filter(is_needed))
        unread.append(frame.filter(~is_needed).select("line", "kind"))
        is_discharge = pl.col("kind") == "discharge"
        discharges.append(frame.filter(is_discharge).select("subject_id", "time"))
    events = RowFilter(
        DATA, pl.concat(needed), place=place, malformed=malformed, spelling={"value": "code"}
    )
    no_code = pl.col("kind") == "no code"
    for rows in unread:
        events.count_unread(Reason.NOT_NEEDED, rows.filter(~no_code)["line"])
        events.count_unread(Reason.NO_CODE, rows.filter(no_code)["line"])
    return events, pl.concat(discharges)


def _read_shard(path: Path, name: str) -> pl.DataFrame:
    types: dict[str, Any] = {
        "subject_id": pl.Int64,
        "time": pl.Datetime("us"),
        "code": pl.String,
        "hadm_id": pl.Int64,
    }
    schema = parquet_columns(path, name)
    for column in ("subject_id", "time", "code"):
        if column not in schema:
            raise InputError(
                name,
                "",
                f"column {column!r} is missing (found: {', '.join(schema)})",
                "MEDS 0.4 has subject_id, time and code in every shard.",
            )
    frame = read_parquet(path, [column for column in types if column in schema], name)
    if "hadm_id" not in schema:
        frame = frame.with_columns(hadm_id=pl.lit(None, pl.Int64))
    for column, wanted in types.items():
        try:
            frame = frame.with_columns(pl.col(column).cast(wanted))
        except pl.exceptions.PolarsError as error:
            raise InputError(
                name,
                f"column {column!r}",
                f"its type is {schema[column]}, not {wanted}",
                "MEDS 0.4 fixes the types of its columns; hadm_id is a whole number here.",
            ) from error
    lexicon = pl.DataFrame(
        [(code, *_meaning(code)) for code in frame["code"].unique()],
        schema={
            "event": pl.String,
            "kind": pl.String,
            "value": pl.String,
            "code": pl.String,
            "icd10": pl.Boolean,
        },
        orient="row",
    )
    frame = frame.rename({"code": "event"})
    return frame.join(
        lexicon, on="event", how="left", nulls_equal=True, maintain_order="left"
    ).drop("event")


def _meaning(event: str | None) -> tuple[str, str | None, str | None, bool | None]:
    """Return an event's kind, its vocabulary or sex, and its ICD code, if any, and system."""
    if event is None:
        return "no code", None, None, None
    for place, (pattern, kind) in enumerate(_KINDS):
        match = pattern.fullmatch(event)
        if match is not None:
            value = match[1]
            if kind == "diagnosis":
                return kind, None, value, place == 0
            if kind == "sex":
                value = SEXES.get(value.upper(), value)
            elif kind == "unread diagnosis":
                value = value.upper() if value else "unnamed"
            return kind, value or None, None, None
    return "other", None, None, None


def _keep_split(events: RowFilter, folder: Path, split: str) -> None:
    """Drop the events of patients outside a split such as "train"."""
    path = folder / SUBJECT_SPLITS
    if not path.is_file():
        problem = "there is no such file"
        raise InputError(SUBJECT_SPLITS, "", problem, "Load without split=.")
    splits = read_parquet(path, ["subject_id", "split"], SUBJECT_SPLITS)
    known = splits["split"].drop_nulls().unique().sort().to_list()
    if split not in known:
        problem = f"there is no split {split!r} (found: {', '.join(known)})"
        raise InputError(SUBJECT_SPLITS, "", problem, "Name one of these.")
    ids = splits.filter(pl.col("split") == split)["subject_id"]
    events.drop(~is_in("subject_id", ids), Reason.OTHER_SPLIT)


def _leave_unread(events: RowFilter, which: pl.Expr, value: str) -> None:
    """Turn some diagnoses into unread ones with this value."""
    which = which.fill_null(False)
    events.frame = events.frame.with_columns(
        pl.when(~which).then(pl.col("^(code|icd10)$")),
        value=pl.when(which).then(pl.lit(value)).otherwise("value"),
        kind=pl.when(which).then(pl.lit("unread diagnosis")).otherwise("kind"),
    )


def _vocabularies(
    events: RowFilter, counts: Mapping[CodeSystem, int], taken: Sequence[CodeSystem]
) -> tuple[str, ...]:
    """Count diagnoses by vocabulary for the report, where there are several."""
    unread = events.frame.filter(_IS_UNREAD)["value"].value_counts()
    read = [(system, counts[system]) for system in taken if counts[system]]
    if unread.is_empty() and len(read) < 2:
        return ()
    by_size = unread.sort("count", "value", descending=[True, False])
    all_counts = [*(read or [(taken[0], 0)]), *by_size.iter_rows()]
    shown = [f"{name} {count:,}" for name, count in all_counts[:_VOCABULARIES_SHOWN]]
    others = [count for _, count in all_counts[_VOCABULARIES_SHOWN:]]
    if others:
        shown.append(f"{len(others)} others {sum(others):,}")
    names = " and ".join(name for name, _ in read) or taken[0]
    return (f"diagnoses by vocabulary: {', '.join(shown)}; those in {names} are read",)


def _refuse_bad_values(events: RowFilter) -> None:
    no_patient = pl.col("subject_id").is_null() & ~_IS_UNREAD
    problem = "stands where an event needs its patient"
    remedy = "Give every event a subject_id."
    events.refuse(no_patient, Reason.BAD_ID, "subject_id", problem, remedy)
    remedy = "Only facts that never change, such as sex, have no time."
    for is_kind, reason, name in (
        (_IS_DIAGNOSIS, Reason.NO_TIME, "a diagnosis"),
        (_IS_ADMISSION, Reason.BAD_DATE, "an admission"),
        (pl.col("kind") == "birth", Reason.BAD_DATE, "a birth"),
    ):
        no_time = is_kind & pl.col("time").is_null()
        problem = f"stands where {name} needs a time"
        events.refuse(no_time, reason, "time", problem, remedy, among=is_kind)
    is_sex = pl.col("kind") == "sex"
    is_known = pl.col("value").is_in(["F", "M"]).fill_null(False)
    remedy = "Write GENDER//F or GENDER//M."
    events.refuse(is_sex & ~is_known, Reason.BAD_SEX, "value", remedy=remedy, among=is_sex)


# ------------------------------------------------------------------ patients and visits


def _add_birth_and_sex(events: RowFilter) -> None:
    """Give every event its patient's birth and sex; drop patients who lack one."""
    value = pl.coalesce("value", pl.col("time").cast(pl.String))
    fact = pl.struct("subject_id", "kind", value)
    events.drop(_IS_FACT & ~fact.is_first_distinct(), Reason.SAME_ROW)
    differ = _IS_FACT & pl.struct("subject_id", "kind").is_duplicated()
    problem = "is a patient with two births or sexes that differ"
    events.refuse(differ, Reason.ROWS_DIFFER, "subject_id", problem, among=_IS_FACT)
    births = events.frame.filter(pl.col("kind") == "birth").select("subject_id", birth="time")
    sexes = events.frame.filter(pl.col("kind") == "sex").select("subject_id", sex="value")
    for known in (births, sexes):
        events.frame = events.frame.join(known, on="subject_id", how="left")
    events.drop(pl.col("birth").is_null(), Reason.NO_BIRTH)
    events.drop(pl.col("sex").is_null(), Reason.NO_SEX)


def _order_moments(events: RowFilter, discharges: pl.DataFrame) -> tuple[str, ...]:
    """Add "turn": 0 before admissions of the same time, 2 after, 1 if only row order tells."""
    moment = ["subject_id", "time"]
    began = events.frame.filter(_IS_ADMISSION).select(*moment, begin=pl.lit(1), end=pl.lit(0))
    ended = discharges.select(*moment, begin=pl.lit(0), end=pl.lit(1))
    # As many admissions as discharges at one moment leave a stay open if one was open before.
    opens = pl.when(pl.col("begin") != pl.col("end")).then(pl.col("begin") > pl.col("end"))
    moments = (
        pl.concat([began, ended])
        .group_by(moment)
        .agg(pl.col("begin", "end").sum())
        .sort(moment)
        .with_columns(is_open=opens.forward_fill().shift(1).over("subject_id").fill_null(False))
        .filter(pl.col("begin") > 0)
    )
    unnumbered = (
        _IS_DIAGNOSIS & pl.col("hadm_id").is_null() & _IS_ADMISSION.any().over("subject_id")
    )
    at_admission = pl.col("begin").is_not_null()
    frame = events.frame.join(moments, on=moment, how="left", maintain_order="left")
    # Where all diagnoses stand at admissions, they are those of the stay that begins.
    others = frame.select((unnumbered & ~at_admission).any()).item()
    is_open = pl.col("is_open") & pl.lit(others)
    turn = (
        pl.when(_IS_ADMISSION | ~at_admission)
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
    said = (
        "diagnoses at the time of an admission that no discharge gives to a stay, taken in the "
        f"order of the rows: {untold:,}"
    )
    return (said,) if others and untold else ()


def _number_visits(events: RowFilter) -> None:
    """Tell visits apart, give each its time, and sort events as records have them."""
    # The latest admission event begins a stay; the stay gives its hadm_id to events without one.
    of_stay = pl.col("hadm_id").first().over("subject_id", "stay")
    events.frame = (
        events.frame.sort("subject_id", "time", "turn", "line")
        .with_columns(stay=_IS_ADMISSION.cum_sum().over("subject_id"))
        .with_columns(hadm_id=pl.coalesce("hadm_id", pl.when(pl.col("stay") > 0).then(of_stay)))
    )
    unnumbered = pl.col("hadm_id").is_null()
    key = (
        pl.col("subject_id"),
        pl.col("hadm_id"),
        pl.when(unnumbered).then("stay"),
        pl.when(unnumbered & (pl.col("stay") == 0)).then("time"),
        # Births and sexes belong to no visit.
        _IS_FACT,
    )
    admission_time = pl.when(_IS_ADMISSION).then("time").min().over(*key)
    # Unread diagnoses do not move the time of a visit that has others.
    read_time = pl.when(~_IS_UNREAD).then("time").min().over(*key)
    read_line = pl.when(~_IS_UNREAD).then("line").min().over(*key)
    events.frame = (
        events.frame.with_columns(
            admitted=pl.coalesce(admission_time, read_time, pl.col("time").min().over(*key)),
            visit_begins=pl.coalesce(read_line, pl.col("line").min().over(*key)),
        )
        .sort("subject_id", "admitted", "visit_begins", "time", "line")
        .with_columns(visit=pl.struct("visit_begins", _IS_FACT.alias("fact")).rle_id())
    )
    is_before = pl.col("admitted").dt.date() < pl.col("birth").dt.date()
    events.refuse(~_IS_FACT & ~_IS_UNREAD & is_before, Reason.BEFORE_BIRTH, "time")


# ------------------------------------------------------------------ writing


def write_meds(
    records: Sequence[PatientRecord],
    folder: str | Path,
    *,
    split: Split | None = None,
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
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    split_names = _split_names(records, split)
    with new_folder(folder) as unfinished:
        (unfinished / "metadata").mkdir()
        for name in dict.fromkeys(split_names.values()):
            part = [record for record in records if split_names[record.subject_id] == name]
            shards = unfinished / DATA / name
            shards.mkdir(parents=True)
            for number, start in enumerate(range(0, len(part), PATIENTS_PER_SHARD)):
                events = _events(part[start : start + PATIENTS_PER_SHARD])
                pq.write_table(events, shards / f"{number}.parquet")
        pq.write_table(_code_metadata(records), unfinished / CODE_METADATA)
        if split is not None:
            splits = {"subject_id": list(split_names), "split": list(split_names.values())}
            schema = pa.schema({"subject_id": pa.int64(), "split": pa.string()})
            table = pa.table(splits, schema=schema)
            pq.write_table(table, unfinished / SUBJECT_SPLITS)
        about = {
            "dataset_name": Path(folder).name,
            "etl_name": "ehr_course",
            "meds_version": version("meds"),
            "raw_source_id_columns": ["hadm_id"],
        }
        text = json.dumps(about, indent=2) + "\n"
        (unfinished / DATASET_METADATA).write_text(text, encoding="utf-8")


def _split_names(records: Sequence[PatientRecord], split: Split | None) -> dict[int, str]:
    """Return each patient's split, "" without splits."""
    if not records:
        raise InputError("records", "", "the list is empty", "Give at least one patient.")
    check_one_record_each(records)
    ids = [record.subject_id for record in records]
    if split is None:
        return dict.fromkeys(ids, "")
    parts = zip(SPLITS, split, strict=True)
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
        add(who, _birth(record), None, BIRTH)
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
        (BIRTH, "birth, rebuilt from the age at the first admission", None),
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
