"""From rows of patient, visit and code, as most tools write them, to patient records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.sources.code_column import IS_ICD10, count_codes, map_codes, normalise_codes
from ehr_course.sources.code_translation import drop_absent, plan_translation, translate_rows
from ehr_course.sources.cohort import (
    Change,
    Cohort,
    Drop,
    LoadReport,
    Reason,
    TableReport,
    counted,
)
from ehr_course.sources.grouping import build_records, drop_repeated_codes
from ehr_course.sources.row_filter import EXAMPLES, RowFilter, parsed_dates
from ehr_course.sources.shortened import (
    KEEP_THEM,
    NOBODY_IS_WHOLE,
    account_of,
    lost_admissions,
)
from ehr_course.sources.system_choice import check_choice, choose_systems
from ehr_course.sources.unmarked_codes import mark_systems

OLDEST = 130
"""A larger age is none: many tables write 999 where an age is not known."""

_OTHER_CODES = (
    "Keep codes as text, with their leading zeros; codes of another vocabulary need a code map."
)

_ABOVE_89 = r"^(?:>\s*89|(?:>=|≥)\s*90|90\s*\+)$"
"""How tables that hide the highest ages write them: eICU has "> 89"."""

SEXES = {"F": "F", "FEMALE": "F", "M": "M", "MALE": "M"}
"""How sexes are written, in upper or lower case."""


def cohort_of_rows(
    rows: RowFilter,
    *,
    date_format: str | None = None,
    code_map: Mapping[str, str] | None = None,
    other_tables: Sequence[TableReport] = (),
    changed: Mapping[str, int] | None = None,
    named: pl.DataFrame | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Make records of rows, one for each code of a visit.

    Patients keep their numbers where all of them have whole ones, and are numbered from 1 in the
    order of their first rows elsewhere. Visits of a patient stand in the order of their times,
    which may be numbers, else of their own numbers, else of their first rows; codes of a visit
    in the order of "sequence", else of the rows.

    Args:
        rows: with "line" and, as text, "patient", "visit" and "code". Optional are "age" (years,
            numbers, or text such as 64 or "> 89"), "sex", "time" (text or datetimes) and
            "sequence" (text or whole numbers), and "version" (9 or 10, as text). An age is taken
            from a patient's first visit. Without a version, the shapes of the codes tell their
            system. Without times, visits that are all dates are times.
        date_format: a format of strptime that dates may have beside those of ISO 8601.
        code_map: ICD-9-CM or ICD-10-CM codes by the codes that the rows have.
        other_tables: what became of the rows of the tables that were joined to these.
        changed: how many values of those tables were rewritten, by what was done.
        named: "patient", "visit" and "line" of all rows, if some were dropped already.
        whole_patients: whether to leave out the patients of whom some visits are dropped.
        zeros_lost_ok: whether to go on where codes seem to have lost their leading zeros.
        system: take the visits that are coded in this system alone; it is also what is believed
            where every code could be of either.
        map_to: translate the codes of the other system into this one. Where neither is given, a
            table in one system is read in it, and one with both as ``choose_systems`` says.

    Returns:
        the records, without an age or a sex where the rows have no such column or nothing in it.
        The report accounts for rows, visits and patients.

    Raises:
        InputError: naming place and remedy, if a row is malformed and such rows are not to be
            dropped, if leading zeros seem to be lost, if nothing tells the code system, or if no
            row can be used.
    """
    check_choice(rows.file, system=system, map_to=map_to)
    counts = dict(changed or {})
    for column in ("patient", "visit", "code"):
        rows.frame = rows.frame.with_columns(pl.col(column).fill_null("").str.strip_chars())
    everyone = rows.frame.select("patient", "visit", "line")
    _refuse_missing(rows)
    if code_map is not None:
        counts[Change.CODE_MAPPED.value] = map_codes(rows, "code", code_map)
        # A version is that of the codes that were there before.
        rows.frame = rows.frame.drop("version", strict=False)
    notes = mark_systems(rows, system=system, map_to=map_to)
    choice = choose_systems(
        rows.file, count_codes(rows.frame, "code"), system=system, map_to=map_to
    )
    for name, its in (("ICD9CM", ~IS_ICD10), ("ICD10CM", IS_ICD10)):
        if name not in choice.taken:
            rows.drop(its, Reason.OTHER_VERSION)
    codes = normalise_codes(rows, "code", remedy=_OTHER_CODES, zeros_lost_ok=zeros_lost_ok)
    rows.frame = rows.frame.drop("icd10")
    notes = (*notes, *choice.notes, *codes.notes)
    plan = plan_translation(codes, choice.system)
    absent = drop_absent(rows, plan)
    _read_sexes(rows)
    _read_ages(rows)
    notes = (*notes, *_read_times(rows, date_format))
    has_sequence = "sequence" in rows.frame.columns
    if has_sequence:
        rows.parse_numbers("sequence", Reason.BAD_SEQ_NUM)
    if rows.frame.is_empty():
        report = LoadReport((*other_tables, rows.account()))
        raise InputError(rows.file, "", "no row of it can be used", f"What was dropped:\n{report}")
    named = everyone if named is None else named
    named = named.filter((pl.col("patient") != "") & (pl.col("visit") != ""))
    lost = lost_admissions(named, rows.frame)
    shortened = account_of(lost, rows.place, are_left_out=whole_patients)
    # Patients who are dropped now, and their visits.
    cut = rows.frame.clear()
    if whole_patients and shortened is not None:
        cut = rows.frame.join(lost, on="patient", how="semi")
        rows.drop(pl.col("patient").is_in(lost["patient"].implode()), Reason.PATIENT_DROPPED)
        if rows.frame.is_empty():
            report = LoadReport((*other_tables, rows.account()), shortened=shortened)
            remedy = f"{KEEP_THEM} What was dropped:\n{report}"
            raise InputError(rows.file, "", NOBODY_IS_WHOLE, remedy)
    visits = _visits_of(rows.frame)
    rows.frame = (
        rows.frame.join(
            visits.select("patient", visit="name", number="number"), on=["patient", "visit"]
        )
        .drop("visit")
        .rename({"number": "visit"})
        .sort("visit", "sequence" if has_sequence else "line", "line")
    )
    same_row = "sequence" if has_sequence else "line"
    drop_repeated_codes(rows, same_row=same_row, n_codes=len(codes.codes))
    coded, translated = translate_rows(rows, plan, absent)
    records = build_records(visits, coded, plan.codes, system=choice.system)
    first_visits = visits.unique("subject_id", keep="first")
    counts |= {
        Change.AGE_ROUNDED.value: int(first_visits["rounded"].sum()),
        Change.AGE_90.value: int(first_visits["above"].sum()),
        Change.CODE_RESPELLED.value: int(rows.frame["respelled"].sum()),
    }
    tables = (
        *other_tables,
        rows.account(),
        _account(
            *("visits", everyone, ["patient", "visit"], rows, visits.height),
            because=(Reason.PATIENT_DROPPED, cut),
        ),
        _account(
            *("patients", everyone, ["patient"], rows, len(records)),
            because=(Reason.SHORTENED, cut),
        ),
    )
    return Cohort(records, LoadReport(tables, counted(counts), shortened, notes, translated))


def _refuse_missing(rows: RowFilter) -> None:
    for column, reason in (("patient", Reason.NO_PATIENT), ("visit", Reason.NO_VISIT)):
        rows.refuse(
            pl.col(column) == "",
            reason,
            column=column,
            problem=f"stands where a row needs its {column}",
            remedy=f"Write the {column} of every code.",
        )
    rows.drop(pl.col("code") == "", Reason.NO_CODE)


def _read_sexes(rows: RowFilter) -> None:
    """Write sexes as F and M, or nulls where the whole column is missing or empty."""
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
    several = pl.col("sex").n_unique().over("patient") > 1
    rows.refuse(
        several,
        Reason.ROWS_DIFFER,
        column="sex",
        problem="is not the sex of all rows of this patient",
        remedy="Keep the right one.",
    )


def _read_ages(rows: RowFilter) -> None:
    """Turn ages into whole years, or nulls where the whole column is missing or empty."""
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
        whole.clip(upper_bound=MAX_AGE).alias("age"),
        (years != years.floor()).alias("rounded"),
        (whole > MAX_AGE).alias("above"),
    )
    rows.refuse(
        pl.col("age").n_unique().over("patient", "visit") > 1,
        Reason.ROWS_DIFFER,
        column="age",
        problem="is not the age in all rows of this visit",
        remedy="Keep the right one.",
    )


def _read_times(rows: RowFilter, date_format: str | None) -> tuple[str, ...]:
    """Turn times into datetimes, or nulls, and add "place", the number that orders visits.

    Returns:
        what the report is to say.
    """
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


def _visits_of(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each visit, patients and visits in their order, numbered from 1.

    Returns:
        patient and name, as the rows call them; number, from 1; and what build_records wants:
        subject_id, sex, age, hadm_id, admitted.
    """
    visits = rows.group_by("patient", "visit", maintain_order=True).agg(
        pl.col("line").min(),
        pl.col("time").min().alias("admitted"),
        pl.col("place").min(),
        pl.col("sex", "age", "rounded", "above").first(),
    )
    visits = visits.with_columns(_numbers_of(visits["patient"]).alias("subject_id"))
    if visits["place"].has_nulls():
        visits = visits.with_columns(pl.lit(0.0).alias("place"))
    visits = visits.sort("subject_id", "admitted", "place", "line").rename({"visit": "name"})
    number = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    return visits.with_columns(number.alias("number"), number.alias("hadm_id"))


def _numbers_of(patients: pl.Series) -> pl.Series:
    """Whole numbers for patients: their own, or those of their first rows."""
    numbers = patients.cast(pl.Int64, strict=False)
    # "7" and "007" can be two patients.
    if not numbers.has_nulls() and numbers.n_unique() == patients.n_unique():
        return numbers
    order = patients.unique(maintain_order=True)
    return patients.replace_strict(order, range(1, len(order) + 1), return_dtype=pl.Int64)


def _account(
    name: str,
    read: pl.DataFrame,
    key: list[str],
    rows: RowFilter,
    used: int,
    *,
    because: tuple[Reason, pl.DataFrame],
) -> TableReport:
    """How many visits, or patients, were named in the rows, and how many have a record.

    Args:
        name, read, key: what is counted, in which rows, and by which columns.
        rows: those that are kept.
        used: how many have a record.
        because: a reason, and rows of those who were dropped for it; all others have no row.
    """
    named = read.filter(pl.all_horizontal(pl.col(*key) != ""))
    firsts = named.group_by(key).agg(pl.col("line").min())
    if used == firsts.height:
        return TableReport(name, used, used)
    alive = named.filter(pl.col("line").is_in(rows.frame["line"].implode()))
    lost = firsts.join(alive, on=key, how="anti")
    reason, theirs = because
    drops = []
    for why, some in (
        (Reason.ROWS_DROPPED, lost.join(theirs, on=key, how="anti")),
        (reason, lost.join(theirs, on=key, how="semi")),
    ):
        lines = some["line"].sort()
        if len(lines):
            drops.append(Drop(why, len(lines), tuple(map(rows.place, lines.head(EXAMPLES)))))
    return TableReport(name, firsts.height, used, tuple(drops))
