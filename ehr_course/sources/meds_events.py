"""The events of a MEDS dataset that patient records are made of, from all of its shards.

Events stand in one frame with a column "kind". "value" is a sex, a diagnosis code, or the
vocabulary of a diagnosis that is not read; "icd10" says whether a code is ICD-10-CM.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.code_system import CODE_SYSTEMS, CodeSystem
from ehr_course.errors import InputError
from ehr_course.sources import meds_format as meds
from ehr_course.sources.code_column import IS_ICD10
from ehr_course.sources.cohort import Reason
from ehr_course.sources.parquet_files import parquet_columns, read_parquet
from ehr_course.sources.row_filter import Malformed, RowFilter
from ehr_course.sources.system_choice import Choice

NO_EQUIVALENT = "no equivalent"
"""The value of a diagnosis that is not read because the other code system has no such code."""

_VOCABULARIES_SHOWN = 8

# The vocabulary, then whatever separates it from the code. PROCEDURE//ICD//9 is another.
_DIAGNOSIS = re.compile(
    r"(?:DIAGNOSIS/{1,2})?(?:ICD/{1,2}9|ICD[-_]?9(?:[-_]?CM)?)(?:/{1,2}|_|:)(.+)", re.IGNORECASE
)
_ICD10 = re.compile(
    r"(?:DIAGNOSIS/{1,2})?(?:ICD/{1,2}10|ICD[-_]?10(?:[-_]?CM)?)(?:/{1,2}|_|:)(?!PCS|PROC)(.+)",
    re.IGNORECASE,
)
_OTHER_DIAGNOSIS = re.compile(r"DIAGNOSIS/{1,2}(?:([^/]+)/{1,2})?.+", re.IGNORECASE)
_SEX = re.compile(r"(?:GENDER|SEX)/{1,2}(.*)", re.IGNORECASE)
_ADMISSION = re.compile(r"(?:HOSPITAL_)?ADMISSION(?:/.*)?", re.IGNORECASE)
_DISCHARGE = re.compile(r"(?:HOSPITAL_)?DISCHARGE(?:/.*)?", re.IGNORECASE)
_SEXES = {"F": "F", "FEMALE": "F", "M": "M", "MALE": "M"}

IS_DIAGNOSIS = pl.col("kind") == "diagnosis"
IS_ADMISSION = pl.col("kind") == "admission"
IS_UNREAD = pl.col("kind") == "unread diagnosis"
IS_FACT = pl.col("kind").is_in(["birth", "sex"])


def _kind(code: str | None) -> tuple[str, str | None, bool]:
    """Return what an event is, its value, and whether that is a code of ICD-10-CM."""
    if code is not None and (match := _ICD10.fullmatch(code)):
        return "diagnosis", match[1], True
    return *_other_kind(code), False


def _other_kind(code: str | None) -> tuple[str, str | None]:
    if code is None:
        return "no code", None
    if code == meds.birth_code:
        return "birth", None
    if match := _DIAGNOSIS.fullmatch(code):
        return "diagnosis", match[1]
    if match := _OTHER_DIAGNOSIS.fullmatch(code):
        return "unread diagnosis", match[1].upper() if match[1] else "unnamed"
    if match := _SEX.fullmatch(code):
        return "sex", _SEXES.get(match[1].upper(), match[1])
    if _ADMISSION.fullmatch(code):
        return "admission", None
    return ("discharge" if _DISCHARGE.fullmatch(code) else "other"), None


def read_events(folder: Path, malformed: Malformed) -> tuple[RowFilter, pl.DataFrame]:
    """Read what records need of every shard, and count all other events.

    Args:
        folder: the dataset, which holds data/ with parquet files at any depth.
        malformed: what the rows' `refuse` does.

    Returns:
        rows of "line", "subject_id", "time", "hadm_id", "kind", "value" and "icd10", whose places
        are such as "train/0.parquet row 17"; and "subject_id" and "time" of discharges, which
        are in no record.

    Raises:
        InputError: naming the shard, if one cannot be read, or the folder, if there is none.
    """
    data = folder / meds.data_subdirectory
    if not data.is_dir():
        found = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
        raise InputError(
            folder,
            "",
            f"no folder {meds.data_subdirectory}/ is in it (found: {found})",
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
        needed.append(frame.filter(is_needed).drop("code"))
        unread.append(frame.filter(~is_needed).select("line", "kind"))
        is_discharge = pl.col("kind") == "discharge"
        discharges.append(frame.filter(is_discharge).select("subject_id", "time"))
    events = RowFilter(
        "data",
        pl.concat(needed),
        file=meds.data_subdirectory,
        place=place,
        malformed=malformed,
        spelling={"value": "code"},
    )
    for rows in unread:
        no_code = pl.col("kind") == "no code"
        for its, reason in ((~no_code, Reason.NOT_NEEDED), (no_code, Reason.NO_CODE)):
            events.count_unread(reason, rows.filter(its)["line"])
    return events, pl.concat(discharges)


def _read_shard(path: Path, name: str) -> pl.DataFrame:
    try:
        schema = parquet_columns(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            name,
            "",
            f"it is cut or no parquet file ({str(error).splitlines()[0]})",
            "Export or copy it again.",
        ) from error
    missing = [column for column in ("subject_id", "time", "code") if column not in schema]
    if missing:
        raise InputError(
            name,
            "",
            f"column {missing[0]!r} is missing (found: {', '.join(schema)})",
            "MEDS 0.4 has subject_id, time and code in every shard.",
        )
    columns = ["subject_id", "time", "code"] + ["hadm_id"] * ("hadm_id" in schema)
    types: dict[str, Any] = {"subject_id": pl.Int64, "time": pl.Datetime("us"), "code": pl.String}
    try:
        frame = read_parquet(path, columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            name, "", f"it is cut ({str(error).splitlines()[0]})", "Export or copy it again."
        ) from error
    if "hadm_id" not in schema:
        frame = frame.with_columns(hadm_id=pl.lit(None, pl.Int64))
    for column, wanted in {**types, "hadm_id": pl.Int64}.items():
        try:
            frame = frame.with_columns(pl.col(column).cast(wanted))
        except pl.exceptions.PolarsError as error:
            raise InputError(
                name,
                f"column {column!r}",
                f"its type is {schema[column]}, not {wanted}",
                "MEDS 0.4 fixes the types of its columns; hadm_id is a whole number here.",
            ) from error
    spellings = frame["code"].unique()
    kinds = [_kind(code) for code in spellings]
    lexicon = pl.DataFrame(
        {
            "code": spellings,
            "kind": [kind for kind, _, _ in kinds],
            "value": [value for _, value, _ in kinds],
            "icd10": [icd10 for _, _, icd10 in kinds],
        },
        schema={"code": pl.String, "kind": pl.String, "value": pl.String, "icd10": pl.Boolean},
    )
    return frame.join(lexicon, on="code", how="left", nulls_equal=True, maintain_order="left")


def keep_split(events: RowFilter, folder: Path, split: str) -> None:
    """Drop the events of all patients but those of a split, as "train".

    Raises:
        InputError: if the dataset has no such split.
    """
    path = folder / meds.subject_splits_filepath
    if not path.is_file():
        raise InputError(
            meds.subject_splits_filepath, "", "there is no such file", "Load without split=."
        )
    try:
        splits = read_parquet(path, ["subject_id", "split"])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            path,
            "",
            f"it has no subject_id and split to read ({str(error).splitlines()[0]})",
            "Export or copy it again.",
        ) from None
    known = splits["split"].drop_nulls().unique().sort().to_list()
    if split not in known:
        raise InputError(
            meds.subject_splits_filepath,
            "",
            f"there is no split {split!r} (found: {', '.join(known)})",
            "Name one of these.",
        )
    ids = splits.filter(pl.col("split") == split)["subject_id"]
    events.drop(~pl.col("subject_id").is_in(ids.implode()), Reason.OTHER_SPLIT)


def leave_unread(events: RowFilter, choice: Choice) -> None:
    """Make diagnoses of a system that is not taken such as are not read."""
    for system, its in zip(CODE_SYSTEMS, (~IS_ICD10, IS_ICD10), strict=True):
        if system not in choice.taken:
            unread = IS_DIAGNOSIS & its
            events.frame = events.frame.with_columns(
                value=pl.when(unread).then(pl.lit(system)).otherwise("value"),
                kind=pl.when(unread).then(pl.lit("unread diagnosis")).otherwise("kind"),
            )


def count_vocabularies(
    events: RowFilter, counts: Mapping[CodeSystem, int], taken: Sequence[CodeSystem]
) -> tuple[str, ...]:
    """Count diagnoses by vocabulary, for the report, where there are several.

    Args:
        events: all of them, those that are not taken left unread.
        counts: of each code system.
        taken: the systems that are read.
    """
    unread = events.frame.filter(IS_UNREAD)["value"].value_counts()
    read = [(system, counts[system]) for system in taken if counts[system]]
    if unread.is_empty() and len(read) < 2:
        return ()
    all_counts = [
        *(read or [(taken[0], 0)]),
        *unread.sort("count", "value", descending=[True, False]).rows(),
    ]
    shown = [f"{name} {count:,}" for name, count in all_counts[:_VOCABULARIES_SHOWN]]
    if len(all_counts) > len(shown):
        more = sum(count for _, count in all_counts[len(shown) :])
        shown.append(f"{len(all_counts) - len(shown)} others {more:,}")
    names = " and ".join(name for name, _ in read) or taken[0]
    return (f"diagnoses by vocabulary: {', '.join(shown)}; those in {names} are read",)
