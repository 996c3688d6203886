"""From rows of codes and a row for each visit to patient records, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ehr_course.errors import InputError
from ehr_course.records import PartialRecord, PatientRecord, Visit
from ehr_course.sources.codes import Codes, translate_rows
from ehr_course.sources.cohort import Change, Cohort, LoadReport, Shortened, TableReport
from ehr_course.sources.row_filter import RowFilter, is_in


def build_cohort(
    rows: RowFilter,
    visits: pl.DataFrame,
    codes: Codes,
    *,
    tables: Sequence[RowFilter],
    changed: Mapping[Change, int],
    shortened: Shortened | None,
    notes: tuple[str, ...] = (),
) -> Cohort:
    """Build the records of all rows that are left, and the report.

    Sorted columns are cut into visits, and visits into patients, in one pass.

    Args:
        rows: one per code of a visit: "visit", any number in the order of visits, "code", a
            position in codes.codes, and "respelled"; sorted by visit, then by importance. Every
            visit has one.
        visits: one row per visit: subject_id, sex, age, hadm_id, admitted; a patient's rows are
            adjacent, in time order. A null sex or age makes a PartialRecord.
        codes: those of the rows.
        tables: the report's tables, in order.
        changed: how many values were rewritten, besides respelled codes.
    """
    coded, translated = translate_rows(rows, codes)
    # Indexing an array of objects copies references, not texts.
    each_code = np.array(codes.codes, dtype=object)[coded["code"].to_numpy()].tolist()
    starts = _run_starts(coded["visit"])
    each_visit = [
        Visit(tuple(each_code[start:end]), admitted, hadm_id, codes.system)
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
    records = tuple(
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
    counts = {**changed, Change.CODE_RESPELLED: int(rows.frame["respelled"].sum())}
    happened = {change.value: count for change, count in counts.items() if count}
    accounts = tuple(table.account() for table in tables)
    return Cohort(records, LoadReport(accounts, happened, shortened, notes, translated))


def _run_starts(values: pl.Series) -> list[int]:
    """The rows where a run of equal neighbours begins."""
    return (values != values.shift(1)).fill_null(True).arg_true().to_list()


def completed_years(birth: str, date: str) -> pl.Expr:
    """Return the completed years from one column of times to another, by the calendar.

    Someone born on 29 February completes a common year on 1 March. Years are subtracted, not
    durations: a span of 300 years is more nanoseconds than 64 bits hold.
    """
    born, at = pl.col(birth).dt, pl.col(date).dt
    birthday_to_come = (at.month() < born.month()) | (
        (at.month() == born.month()) & (at.day() < born.day())
    )
    return at.year().cast(pl.Int64) - born.year() - birthday_to_come.cast(pl.Int64)


# ------------------------------------------------------------------ shortened histories


def lost_visits(
    read: pl.DataFrame, kept: pl.DataFrame, rows: RowFilter, *, left_out: bool
) -> tuple[pl.Series, Shortened | None]:
    """Find the dropped visits of patients who keep others, whose history now looks shorter.

    Args:
        read: "patient", "visit" and "line" of rows as read, perhaps several per visit; rows with a
            null patient are ignored, a null visit was dropped.
        kept: "patient" and "visit" of rows that are kept.
        rows: names the places of the lines.
        left_out: whether these patients are dropped.
    """
    lost = (
        read.filter(is_in("patient", kept["patient"]))
        .join(kept, on=["patient", "visit"], how="anti")
        .group_by("patient", "visit")
        .agg(pl.col("line").min())
        .sort("line")
    )
    patients = lost["patient"].unique()
    if lost.is_empty():
        return patients, None
    examples = rows.examples(lost["line"])
    return patients, Shortened(len(patients), lost.height, examples, left_out)


def check_something_is_left(
    rows: RowFilter,
    tables: Sequence[TableReport],
    shortened: Shortened | None = None,
    *,
    thing: object = None,
    problem: str = "no row of it can be used",
    remedy: str = "",
    notes: tuple[str, ...] = (),
) -> None:
    """Raise an InputError with the account of the tables if no row is left.

    If shortened is given, that is the cause; otherwise problem and remedy say it. The error names
    the thing, or else the rows' file.
    """
    if not rows.frame.is_empty():
        return
    if shortened is not None:
        problem = "every patient of it lost an admission, so that no whole patient is left"
        remedy = "Keep such patients: leave --whole-patients, or whole_patients=True, out."
    report = LoadReport(tuple(tables), shortened=shortened, notes=notes)
    raise InputError(
        thing or rows.file, "", problem, f"{remedy} What was dropped:\n{report}".lstrip()
    )
