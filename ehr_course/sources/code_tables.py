"""Tables with a row for each code of a visit: a CSV or parquet file, or a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.code_rows import cohort_of_rows
from ehr_course.sources.cohort import Cohort
from ehr_course.sources.options import Malformed, TableOptions
from ehr_course.sources.row_filter import RowFilter
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


def load_code_table(
    path: str | Path, *, columns: Mapping[str, str] | None = None, **options: Any
) -> Cohort:
    """Load records from a file with a row for each code; arguments as in ``load_cohort``."""
    how = TableOptions(**options)
    return cohort_of_rows(_open_table(Path(path), how.malformed, columns), how)


def load_frame(
    frame: Any,
    *,
    name: str = "data frame",
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Cohort:
    """Load patient records from a data frame with a row for each code.

    Args:
        frame: of polars or pandas, or a mapping of columns to lists.
        name: what errors call it; they count its rows from 1.
        columns, options: as in ``load_cohort``.

    >>> frame = {"patient": ["a", "a"], "visit": [0, 1], "code": ["428.0", "401.9"]}
    >>> load_frame(frame).records[0].codes
    ('4280', '4019')
    """
    how = TableOptions(**options)
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
    if not path.is_file():
        problem = "this is a folder" if path.is_dir() else "there is no such file"
        raise InputError(path, "", problem, "Name a .csv or .parquet file.")
    if path.suffix.lower() == ".parquet":
        try:
            chosen = choose_columns(path.name, "", parquet_columns(path), columns)
            table = read_parquet(path, list(dict.fromkeys(chosen.values())))
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = f"it cannot be read ({str(error).splitlines()[0]})"
            raise InputError(path.name, "", problem, "Write it again.") from None
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
