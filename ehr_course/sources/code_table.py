"""Tables with a row for each code of a visit: a CSV or parquet file, or a data frame.

Other tools' tables are brought into this form, and become records here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.sources.codes import drop_repeated_codes, mark_systems, read_codes, take_systems
from ehr_course.sources.cohort import Change, Cohort, LoadOptions, Malformed, Options, Reason
from ehr_course.sources.grouping import build_cohort, check_something_is_left, lost_visits
from ehr_course.sources.row_filter import OLDEST, RowFilter, is_in, parsed_dates
from ehr_course.sources.tables import (
    check_is_header,
    parquet_columns,
    read_header,
    read_parquet,
    read_table,
)

KNOWN_COLUMNS = {
    "patient": ("patient", "patient_id", "subject_id", "person_id"),
    "visit": ("visit", "visit_id", "hadm_id", "encounter", "encounter_id", "visit_occurrence_id"),
    "code": ("code", "icd9_code", "icd_code"),
    "age": ("age",),
    "sex": ("sex", "gender"),
    "time": ("time", "admittime"),
    "sequence": ("sequence", "seq_num"),
    "version": ("icd_version",),
}
"""What a table can say, and its recognised column names, in either case."""

_NEEDED = ("patient", "visit", "code")

_PYHEALTH = {"patient": "id", "visit": "time", "code": "visit_codes"}
"""The columns of PyHealth's flat table, whose times number the visits: 0, 1, 2."""


_OVER_89 = r"^(?:>\s*89|(?:>=|≥)\s*90|90\s*\+)$"
"""How tables that hide the highest ages write them: eICU has "> 89"."""

SEXES = {"F": "F", "FEMALE": "F", "M": "M", "MALE": "M"}
"""How sexes are written, in upper or lower case."""


def load_code_table(
    path: Path, how: LoadOptions, *, columns: Mapping[str, str] | None = None
) -> Cohort:
    """Load records from a file with a row for each code; columns as in ``load_cohort``."""
    return cohort_of_rows(_open_table(path, how.malformed, columns), how)


def load_frame(
    frame: Any,
    *,
    name: str = "data frame",
    columns: Mapping[str, str] | None = None,
    code_map: Mapping[str, str] | None = None,
    **options: Unpack[Options],
) -> Cohort:
    """Load patient records from a data frame with a row for each code.

    Args:
        frame: of polars or pandas, or a mapping of columns to lists.
        name: what errors call it; they count its rows from 1.
        columns, code_map, options: as in ``load_cohort``.

    >>> frame = {"patient": ["a", "a"], "visit": [0, 1], "code": ["428.0", "401.9"]}
    >>> load_frame(frame).records[0].codes
    ('4280', '4019')
    """
    how = LoadOptions.of("load_frame", options, code_map=code_map)
    chosen = _columns_of(frame, name, columns)
    table = pl.DataFrame({role: _series(frame, role, column) for role, column in chosen.items()})
    return cohort_of_rows(_rows(table, chosen, name, how.malformed), how)


def patients_of(frame: Any, *, columns: Mapping[str, str] | None = None) -> set[str]:
    """The ids of the patients in a data frame, as text; arguments as in load_frame."""
    chosen = _columns_of(frame, "data frame", columns)
    return set(_series(frame, "patient", chosen["patient"]).cast(pl.String).drop_nulls())


# ------------------------------------------------------------------ which column says what


def parse_columns(text: str) -> dict[str, str]:
    """Read which column holds what, as a command line says it.

    >>> parse_columns("patient=subject, code=icd")
    {'patient': 'subject', 'code': 'icd'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not (equals and name) or role not in KNOWN_COLUMNS or role in columns:
            again = "is named twice" if role in columns else "does not say which column holds what"
            raise InputError(
                "--columns",
                "",
                f"{part.strip()!r} {again}",
                "Write patient=NAME,visit=NAME,code=NAME; besides these there are "
                f"{', '.join(list(KNOWN_COLUMNS)[len(_NEEDED) :])}.",
            )
        columns[role] = name
    return columns


def choose_columns(
    file: str, place: str, names: Iterable[str], columns: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the table's column for each thing it says; those not in columns are recognised."""
    names, columns = list(names), dict(columns or {})
    folded = [name.strip().lower() for name in names]
    if set(folded).issuperset(_PYHEALTH.values()):
        columns = _PYHEALTH | columns
    asked_for = {name.lower() for name in columns.values()}
    found: dict[str, str] = {}
    for role, known in KNOWN_COLUMNS.items():
        wanted = [name for name in known if name not in asked_for]
        if role in columns:
            wanted = [columns[role].lower()]
        there = next((name for name in wanted if name in folded), None)
        if there is not None:
            found[role] = names[folded.index(there)]
            if folded.count(there) > 1:
                problem = f"there are two columns {found[role]!r}"
                raise InputError(file, place, problem, "Keep one.")
        elif role in columns or role in _NEEDED:
            check_is_header(file, place, names)
            problem = f"no column is known to hold the {role}"
            if role in columns:
                problem = f"there is no column {columns[role]!r}"
            raise InputError(
                file,
                place,
                f"{problem} (found: {', '.join(names)})",
                f"Name the right one: --columns {role}=NAME, or columns={{{role!r}: NAME}}.",
            )
    return found


def _columns_of(frame: Any, name: str, columns: Mapping[str, str] | None) -> dict[str, str]:
    try:
        names = [str(column) for column in getattr(frame, "columns", frame)]
    except TypeError:
        raise InputError(
            name,
            "",
            f"it is of type {type(frame).__name__}, which has no columns",
            "Give a data frame of polars or pandas.",
        ) from None
    return choose_columns(name, "", names, columns)


# ------------------------------------------------------------------ the rows


def _open_table(path: Path, malformed: Malformed, columns: Mapping[str, str] | None) -> RowFilter:
    """Read the known columns of a CSV or parquet file, named by what they say."""
    if path.suffix.lower() == ".parquet":
        chosen = choose_columns(path.name, "", parquet_columns(path), columns)
        table = read_parquet(path, list(dict.fromkeys(chosen.values())))
        return _rows(table.select(**chosen), chosen, path.name, malformed)
    chosen = choose_columns(path.name, "line 1", read_header(path), columns)
    return read_table(path, text=chosen, malformed=malformed)


def _rows(
    table: pl.DataFrame, spelling: Mapping[str, str], name: str, malformed: Malformed
) -> RowFilter:
    """The rows of a table of any types, as those of a CSV file; they count from 1."""
    if table.is_empty():
        raise InputError(name, "", "no row is in it", "Write at least one row.")
    if table.schema["code"].is_numeric():
        raise InputError(
            name,
            f"column {spelling['code']!r}",
            "its codes are numbers, which have lost their leading zeros",
            "Write codes as text: '038.9', not 38.9.",
        )
    as_text = [
        pl.col(role).cast(pl.String)
        for role, kind in table.schema.items()
        if not (role == "time" and kind.is_temporal())
        and not (role == "age" and kind.is_numeric())
    ]
    try:
        table = table.with_columns(as_text)
    except pl.exceptions.PolarsError as error:
        problem = f"a column is of a type that cannot be read ({str(error).splitlines()[0]})"
        raise InputError(name, "", problem, "Write text and numbers.") from None
    table = table.with_row_index("line", offset=1)
    return RowFilter(name, table, place="row {}".format, malformed=malformed, spelling=spelling)


def _series(frame: Any, role: str, column: str) -> pl.Series:
    """A column of a data frame of any kind, with nulls for missing values."""
    values = frame[column]
    if isinstance(values, pl.Series):
        return values.alias(role)
    missing = values.isna() if hasattr(values, "isna") else [value is None for value in values]
    values = [None if lost else v for v, lost in zip(values, missing, strict=True)]
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and role != "age":
        values = [None if value is None else str(value) for value in values]
    return pl.Series(role, values, strict=False)


# ------------------------------------------------------------------ from rows to records

_KEEP_TEXT_OR_MAP = (
    "Keep codes as text, with their leading zeros; codes of another vocabulary need a code map."
)


def cohort_of_rows(
    rows: RowFilter,
    options: LoadOptions,
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
        rows.add(**{column: pl.col(column).fill_null("").str.strip_chars()})
    everyone = rows.frame.select("patient", "visit", "line")
    rows.refuse(pl.col("patient") == "", Reason.NO_PATIENT, "patient")
    rows.refuse(pl.col("visit") == "", Reason.NO_VISIT, "visit")
    rows.drop(pl.col("code") == "", Reason.NO_CODE)
    if options.code_map is not None:
        rows.drop(~pl.col("code").is_in(list(options.code_map)), Reason.UNMAPPED)
        mapped = pl.col("code").replace_strict(options.code_map, return_dtype=pl.String)
        # A version describes the codes before the mapping.
        rows.frame = rows.frame.with_columns(mapped).drop("version", strict=False)
        counts[Change.CODE_MAPPED] = rows.frame.height
    notes = mark_systems(rows, options)
    codes = read_codes(rows, take_systems(rows, options), options, remedy=_KEEP_TEXT_OR_MAP)
    rows.drop(pl.col("code").is_in(codes.absent), Reason.NO_EQUIVALENT)
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
        rows.add(sex=pl.lit(None, pl.String))
        return
    written = pl.col("sex").fill_null("").str.strip_chars().str.to_uppercase()
    remedy = "Write F or M, or leave the whole column out."
    rows.refuse(~written.is_in(list(SEXES)), Reason.BAD_SEX, "sex", remedy=remedy)
    rows.add(sex=written.replace_strict(SEXES, default=None))
    differs = pl.col("sex").n_unique().over("patient") > 1
    problem = "is not the sex of all rows of this patient"
    rows.refuse(differs, Reason.ROWS_DIFFER, "sex", problem)


def _read_ages(rows: RowFilter) -> None:
    """Turn ages into whole years, or nulls if the whole column is missing or empty."""
    if not _has_values(rows, "age"):
        rows.add(age=pl.lit(None, pl.Int64), rounded=pl.lit(False), above=pl.lit(False))
        return
    years = pl.col("age")
    if rows.frame.schema["age"] == pl.String:
        years = years.str.strip_chars().str.replace(_OVER_89, str(MAX_AGE + 1))
    years = years.cast(pl.Float64, strict=False)
    is_age = years.is_not_nan() & years.is_between(0, OLDEST)
    rows.refuse(~is_age.fill_null(False), Reason.NO_AGE, "age")
    whole = years.floor().cast(pl.Int64)
    rows.add(
        age=whole.clip(upper_bound=MAX_AGE),
        rounded=years != years.floor(),
        above=whole > MAX_AGE,
    )
    differs = pl.col("age").n_unique().over("patient", "visit") > 1
    problem = "is not the age in all rows of this visit"
    rows.refuse(differs, Reason.ROWS_DIFFER, "age", problem)


def _read_times(rows: RowFilter, date_format: str | None) -> tuple[str, ...]:
    """Turn times into datetimes or nulls, add "place", which orders visits, and return notes."""
    no_time = pl.lit(None, pl.Datetime("us"))
    rows.add(place=pl.col("visit").cast(pl.Float64, strict=False))
    if not _has_values(rows, "time"):
        dates = parsed_dates(rows.frame["visit"], date_format)
        rows.add(time=no_time if dates.has_nulls() else dates)
    elif rows.frame.schema["time"] == pl.String:
        rows.add(time=pl.col("time").fill_null("").str.strip_chars())
        numbers = rows.frame["time"].cast(pl.Float64, strict=False)
        if date_format is None and numbers.is_finite().fill_null(False).all():
            rows.add(place=numbers, time=no_time)
            return ("times are numbers: they order the visits, and are not read as dates",)
        rows.parse_dates("time", date_format)
    else:
        rows.add(time=pl.col("time").cast(pl.Datetime("us")))
        problem, remedy = "stands where a row needs its time", "Write it, or leave the column out."
        rows.refuse(pl.col("time").is_null(), Reason.BAD_DATE, "time", problem, remedy)
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
