"""From rows of patient, visit and code, as most tools write them, to patient records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ehr_course.records import MAX_AGE
from ehr_course.sources.codes import drop_absent, drop_repeated_codes, read_codes
from ehr_course.sources.cohort import Change, Cohort, Reason
from ehr_course.sources.grouping import (
    build_cohort,
    check_something_is_left,
    lost_visits,
)
from ehr_course.sources.options import TableOptions
from ehr_course.sources.row_filter import RowFilter, is_in, parsed_dates
from ehr_course.sources.system_choice import mark_systems, take_systems

OLDEST = 130
"""The highest plausible age: many tables write 999 for an unknown one."""

_ABOVE_89 = r"^(?:>\s*89|(?:>=|≥)\s*90|90\s*\+)$"
"""How tables that hide the highest ages write them: eICU has "> 89"."""

SEXES = {"F": "F", "FEMALE": "F", "M": "M", "MALE": "M"}
"""How sexes are written, in upper or lower case."""


def cohort_of_rows(
    rows: RowFilter,
    options: TableOptions,
    *,
    other_tables: Sequence[RowFilter] = (),
    changed: Mapping[Change, int] | None = None,
    named: pl.DataFrame | None = None,
) -> Cohort:
    """Make records of rows, one for each code of a visit, and a report of all that they name.

    Patients keep their ids if all are whole numbers, else are numbered from 1 by their first rows.
    A patient's visits are in the order of their times, which may be numbers, else of their own
    numbers, else of their first rows; codes in the order of "sequence", else of the rows. Records
    lack an age or a sex whose column is missing or empty.

    Args:
        rows: with "line" and, as text, "patient", "visit" and "code". Optional are "age" (years:
            numbers, or text such as 64 or "> 89"; that of the first visit counts), "sex", "time"
            (text or datetimes; by default visits that are all dates), "sequence" (text or whole
            numbers) and "version" (9 or 10, as text).
        options: as in ``any_cohort.load_cohort``.
        other_tables: the tables that were joined to these.
        changed: how many values of those tables were rewritten.
        named: "patient", "visit" and "line" of all rows, if some were dropped already.
    """
    counts = dict(changed or {})
    for column in ("patient", "visit", "code"):
        rows.frame = rows.frame.with_columns(pl.col(column).fill_null("").str.strip_chars())
    everyone = rows.frame.select("patient", "visit", "line")
    for column, reason in (("patient", Reason.NO_PATIENT), ("visit", Reason.NO_VISIT)):
        rows.refuse(
            pl.col(column) == "",
            reason,
            column=column,
            problem=f"stands where a row needs its {column}",
            remedy=f"Write the {column} of every code.",
        )
    rows.drop(pl.col("code") == "", Reason.NO_CODE)
    if options.code_map is not None:
        rows.drop(~pl.col("code").is_in(list(options.code_map)), Reason.UNMAPPED)
        mapped = pl.col("code").replace_strict(options.code_map, return_dtype=pl.String)
        # A version describes the codes before the mapping.
        rows.frame = rows.frame.with_columns(mapped).drop("version", strict=False)
        counts[Change.CODE_MAPPED] = rows.frame.height
    notes = mark_systems(rows, options)
    choice = take_systems(rows, "code", options)
    remedy = (
        "Keep codes as text, with their leading zeros; codes of another vocabulary need a code "
        "map."
    )
    codes = read_codes(rows, "code", choice, options, remedy=remedy)
    drop_absent(rows, codes)
    _read_sexes(rows)
    _read_ages(rows)
    notes = (*notes, *codes.notes, *_read_times(rows, options.date_format))
    has_sequence = "sequence" in rows.frame.columns
    if has_sequence:
        rows.parse_numbers("sequence", Reason.BAD_SEQ_NUM)
    accounts = [table.account() for table in other_tables]
    check_something_is_left(rows, [*accounts, rows.account()])

    visits = _named(rows, everyone, "visits", ["patient", "visit"])
    patients = _named(rows, everyone, "patients", ["patient"])
    named = everyone if named is None else named
    named = named.filter((pl.col("patient") != "") & (pl.col("visit") != ""))
    kept = rows.frame.select("patient", "visit")
    lost, shortened = lost_visits(named, kept, rows, left_out=options.whole_patients)
    if options.whole_patients:
        for table, reason in (
            (rows, Reason.PATIENT_DROPPED),
            (visits, Reason.PATIENT_DROPPED),
            (patients, Reason.SHORTENED),
        ):
            table.drop(is_in("patient", lost), reason)
        check_something_is_left(rows, [*accounts, rows.account()], shortened)

    in_order = _in_order(rows.frame)
    first_visits = in_order.unique("subject_id", keep="first")
    counts[Change.AGE_ROUNDED] = int(first_visits["rounded"].sum())
    counts[Change.AGE_90] = int(first_visits["above"].sum())
    same_row = "sequence" if has_sequence else "line"
    rows.frame = (
        rows.frame.join(in_order.select("patient", "visit", "hadm_id"), on=["patient", "visit"])
        .drop("visit")
        .rename({"hadm_id": "visit"})
        .sort("visit", same_row, "line")
    )
    drop_repeated_codes(rows, codes, same_row=same_row)
    return build_cohort(
        rows,
        in_order,
        codes,
        tables=[*other_tables, rows, visits, patients],
        changed=counts,
        shortened=shortened,
        notes=notes,
    )


def _named(rows: RowFilter, everyone: pl.DataFrame, name: str, key: list[str]) -> RowFilter:
    """The visits, or patients, named in the rows, without those whose rows are gone."""
    named = everyone.filter(pl.all_horizontal(pl.col(*key) != ""))
    firsts = named.group_by(key).agg(pl.col("line").min())
    kept = rows.frame.select(key).unique().with_columns(kept=True)
    firsts = firsts.join(kept, on=key, how="left")
    found = RowFilter(name, firsts, place=rows.place, malformed="drop")
    found.drop(pl.col("kept").is_null(), Reason.ROWS_DROPPED)
    return found


def _read_sexes(rows: RowFilter) -> None:
    """Write sexes as F and M, or nulls if the whole column is missing or empty."""
    if not _has_values(rows, "sex"):
        rows.frame = rows.frame.with_columns(sex=pl.lit(None, pl.String))
        return
    written = pl.col("sex").fill_null("").str.strip_chars().str.to_uppercase()
    rows.refuse(
        ~written.is_in(list(SEXES)),
        Reason.BAD_SEX,
        column="sex",
        problem="is not a sex that the records know",
        remedy="Write F or M, or leave the whole column out.",
    )
    rows.frame = rows.frame.with_columns(sex=written.replace_strict(SEXES, default=None))
    rows.refuse(
        pl.col("sex").n_unique().over("patient") > 1,
        Reason.ROWS_DIFFER,
        column="sex",
        problem="is not the sex of all rows of this patient",
        remedy="Keep the right one.",
    )


def _read_ages(rows: RowFilter) -> None:
    """Turn ages into whole years, or nulls if the whole column is missing or empty."""
    if not _has_values(rows, "age"):
        rows.frame = rows.frame.with_columns(
            age=pl.lit(None, pl.Int64), rounded=pl.lit(False), above=pl.lit(False)
        )
        return
    years = pl.col("age")
    if rows.frame.schema["age"] == pl.String:
        years = years.str.strip_chars().str.replace(_ABOVE_89, str(MAX_AGE + 1))
    years = years.cast(pl.Float64, strict=False)
    rows.refuse(
        years.is_null() | years.is_nan() | ~years.is_between(0, OLDEST),
        Reason.NO_AGE,
        column="age",
        problem="is not an age in years",
        remedy=f"Write 0 to {OLDEST} or > 89, or leave the whole column out.",
    )
    whole = years.floor().cast(pl.Int64)
    rows.frame = rows.frame.with_columns(
        age=whole.clip(upper_bound=MAX_AGE),
        rounded=years != years.floor(),
        above=whole > MAX_AGE,
    )
    rows.refuse(
        pl.col("age").n_unique().over("patient", "visit") > 1,
        Reason.ROWS_DIFFER,
        column="age",
        problem="is not the age in all rows of this visit",
        remedy="Keep the right one.",
    )


def _read_times(rows: RowFilter, date_format: str | None) -> tuple[str, ...]:
    """Turn times into datetimes or nulls, add "place", which orders visits, and return notes."""
    no_time = pl.lit(None, pl.Datetime("us"))
    rows.frame = rows.frame.with_columns(place=pl.col("visit").cast(pl.Float64, strict=False))
    if not _has_values(rows, "time"):
        dates = parsed_dates(rows.frame["visit"], date_format)
        rows.frame = rows.frame.with_columns(time=no_time if dates.has_nulls() else dates)
    elif rows.frame.schema["time"] == pl.String:
        rows.frame = rows.frame.with_columns(pl.col("time").fill_null("").str.strip_chars())
        numbers = rows.frame["time"].cast(pl.Float64, strict=False)
        if date_format is None and numbers.is_finite().fill_null(False).all():
            rows.frame = rows.frame.with_columns(place=numbers, time=no_time)
            return ("times are numbers: they order the visits, and are not read as dates",)
        rows.parse_dates("time", date_format)
    else:
        rows.frame = rows.frame.with_columns(pl.col("time").cast(pl.Datetime("us")))
        rows.refuse(
            pl.col("time").is_null(),
            Reason.BAD_DATE,
            column="time",
            problem="stands where a row needs its time",
            remedy="Write it, or leave the whole column out.",
        )
    return ()


def _has_values(rows: RowFilter, column: str) -> bool:
    if column not in rows.frame.columns:
        return False
    text = rows.frame[column].cast(pl.String).fill_null("").str.strip_chars()
    return bool((text != "").any())


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each visit, as build_records takes them; a hadm_id is a number from 1."""
    visits = rows.group_by("patient", "visit", maintain_order=True).agg(
        pl.col("line").min(),
        pl.col("time").min().alias("admitted"),
        pl.col("place").min(),
        pl.col("sex", "age", "rounded", "above").first(),
    )
    patients = visits["patient"]
    numbers = patients.cast(pl.Int64, strict=False)
    # "7" and "007" can be two patients.
    if numbers.has_nulls() or numbers.n_unique() < patients.n_unique():
        order = patients.unique(maintain_order=True)
        numbers = patients.replace_strict(order, range(1, len(order) + 1), return_dtype=pl.Int64)
    visits = visits.with_columns(subject_id=numbers)
    if visits["place"].has_nulls():
        visits = visits.with_columns(place=pl.lit(0.0))
    visits = visits.sort("subject_id", "admitted", "place", "line")
    return visits.with_columns(hadm_id=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
