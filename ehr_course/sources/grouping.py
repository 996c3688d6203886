"""From sorted columns to patient records, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.records import AnyRecord, PartialRecord, PatientRecord, Visit
from ehr_course.sources.cohort import Reason
from ehr_course.sources.row_filter import RowFilter


def drop_repeated_codes(diagnoses: RowFilter, *, same_row: str, n_codes: int) -> None:
    """Keep each code of a visit once, where it stands first.

    Args:
        diagnoses: rows with visit and code (both numbers), sorted by visit and importance.
        same_row: the column that tells a repeated row, where it agrees, from a repeated code.
        n_codes: more than the largest code.
    """
    # Few codes are repeated, if any; sorting numbers finds them in less memory than comparing
    # rows.
    pair = pl.col("visit").cast(pl.Int64) * n_codes + pl.col("code")
    pairs = diagnoses.frame.select(pair.alias("pair"))["pair"].sort()
    twice = pairs.filter(pairs == pairs.shift(1)).unique()
    if twice.is_empty():
        return
    repeats = diagnoses.frame.filter(pair.is_in(twice.implode()))
    for columns, reason in (
        (("visit", same_row, "code"), Reason.SAME_ROW),
        (("visit", "code"), Reason.SAME_CODE),
    ):
        again = ~pl.struct(*columns).is_first_distinct()
        diagnoses.drop(pl.col("line").is_in(repeats.filter(again)["line"].implode()), reason)
        repeats = repeats.filter(~again)


def build_records(
    visits: pl.DataFrame,
    diagnoses: pl.DataFrame,
    codes: Sequence[str],
    *,
    system: CodeSystem = "ICD9CM",
) -> tuple[AnyRecord, ...]:
    """Cut sorted columns into visits, and visits into patients.

    Grouping happens here and nowhere else, and without a dataframe operation per patient: rows
    are sorted, so a visit is a slice of the diagnoses and a patient a slice of the visits.

    Args:
        visits: one row per visit: subject_id, sex, age, hadm_id, admitted; a patient's rows are
            neighbours, in time order. Where a sex or an age is null, PartialRecords are made.
        diagnoses: one row per code of a visit: visit (any number that orders visits as the rows
            of visits are ordered), code (position in codes); sorted by visit, then by
            importance. Every visit has at least one.
        codes: each code once; all records share these texts, so that a code that occurs a
            hundred thousand times is kept once.
        system: the one that all of them are coded in.
    """
    # Indexing an array of objects repeats references, not texts.
    each_code = np.array(codes, dtype=object)[diagnoses["code"].to_numpy()].tolist()
    starts = _run_starts(diagnoses["visit"])
    each_visit = [
        Visit(tuple(each_code[start:end]), admitted, hadm_id, system)
        for start, end, admitted, hadm_id in zip(
            starts,
            [*starts[1:], len(each_code)],
            visits["admitted"].to_list(),
            visits["hadm_id"].to_list(),
            strict=True,
        )
    ]
    starts = _run_starts(visits["subject_id"])
    patients = visits[starts]
    known = not (patients["sex"].has_nulls() or patients["age"].has_nulls())
    record = PatientRecord if known else PartialRecord
    return tuple(
        record(subject_id, sex, age, tuple(each_visit[start:end]))
        for subject_id, sex, age, start, end in zip(
            patients["subject_id"].to_list(),
            patients["sex"].to_list(),
            patients["age"].to_list(),
            starts,
            [*starts[1:], len(each_visit)],
            strict=True,
        )
    )


def _run_starts(values: pl.Series) -> list[int]:
    """Return the rows where a run of equal neighbours begins."""
    return (values != values.shift(1)).fill_null(True).arg_true().to_list()


def completed_years(birth: str, date: str) -> pl.Expr:
    """Return the completed years from one column of times to another, by the calendar.

    A year is complete on the birthday; someone born on 29 February completes it on 1 March
    where there is no such day. Years are subtracted, not durations: a span of 300 years is more
    nanoseconds than 64 bits hold.

    >>> import datetime as dt
    >>> frame = pl.DataFrame({"dob": [dt.date(1960, 2, 29)], "at": [dt.date(2001, 2, 28)]})
    >>> frame.select(age=completed_years("dob", "at"))["age"].to_list()
    [40]
    """
    born, at = pl.col(birth).dt, pl.col(date).dt
    birthday_to_come = (at.month() < born.month()) | (
        (at.month() == born.month()) & (at.day() < born.day())
    )
    return at.year().cast(pl.Int64) - born.year() - birthday_to_come.cast(pl.Int64)
