"""Tables with a row for each code of a visit: a CSV or parquet file, or a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.sources.code_rows import cohort_of_rows
from ehr_course.sources.cohort import Cohort
from ehr_course.sources.column_names import choose_columns
from ehr_course.sources.parquet_files import parquet_columns, read_parquet
from ehr_course.sources.row_filter import Malformed, RowFilter, check_malformed
from ehr_course.sources.tables import Table, read_header


def load_code_table(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    code_map: Mapping[str, str] | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records from a file with a row for each code.

    Args:
        path: a .csv, .csv.gz or .parquet file.
        columns: the column of "patient", "visit", "code", "age", "sex", "time", "sequence" and
            "version" (of ICD), in upper or lower case; those that are not given are looked for
            under KNOWN_COLUMNS. The last five may be absent.
        malformed: whether a malformed row raises, or is dropped and counted.
        date_format: a format of strptime that dates may have beside those of ISO 8601.
        code_map: ICD-9-CM or ICD-10-CM codes by the codes of the file.
        whole_patients, zeros_lost_ok, system, map_to: as in cohort_of_rows.

    Returns:
        the records, and a report of all rows; see cohort_of_rows.

    Raises:
        InputError: naming file, place and remedy. The columns are looked at before any row.
    """
    check_malformed(malformed)
    path = Path(path)
    rows = open_table(path, malformed=malformed, columns=columns)
    return cohort_of_rows(
        rows,
        date_format=date_format,
        code_map=code_map,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        system=system,
        map_to=map_to,
    )


def load_frame(
    frame: Any,
    *,
    name: str = "data frame",
    columns: Mapping[str, str] | None = None,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    code_map: Mapping[str, str] | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records from a data frame with a row for each code.

    Args:
        frame: of polars or pandas, or a mapping of columns to lists.
        name: what errors call it; they count its rows from 1.
        columns, malformed, date_format, code_map, whole_patients, zeros_lost_ok, system, map_to:
            as in load_code_table.

    Returns:
        the records, and a report of all rows; see cohort_of_rows.

    Raises:
        InputError: naming place and remedy.

    >>> frame = {"patient": ["a", "a"], "visit": [0, 1], "code": ["428.0", "401.9"]}
    >>> load_frame(frame).records[0].codes
    ('4280', '4019')
    """
    check_malformed(malformed)
    chosen = _columns_of(frame, name, columns)
    table = pl.DataFrame({role: _series(frame, role, column) for role, column in chosen.items()})
    rows = _rows(table, chosen, name=name, malformed=malformed)
    return cohort_of_rows(
        rows,
        date_format=date_format,
        code_map=code_map,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        system=system,
        map_to=map_to,
    )


def patients_of(frame: Any, *, columns: Mapping[str, str] | None = None) -> set[str]:
    """The names of the patients in a data frame, as text; arguments as in load_frame.

    >>> sorted(patients_of({"patient": [7, 8, 7], "visit": [1, 1, 2], "code": ["486"] * 3}))
    ['7', '8']
    """
    chosen = _columns_of(frame, "data frame", columns)
    return set(_series(frame, "patient", chosen["patient"]).cast(pl.String).drop_nulls())


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


def open_table(
    path: Path, *, malformed: Malformed, columns: Mapping[str, str] | None = None
) -> RowFilter:
    """Read the columns that are known of a CSV or parquet file, under the names of what they say.

    Raises:
        InputError: if it is no such file, lacks a column, or cannot be read.
    """
    if not path.is_file():
        problem = "this is a folder" if path.is_dir() else "there is no such file"
        raise InputError(path, "", problem, "Name a .csv or .parquet file.")
    if path.suffix.lower() == ".parquet":
        return _open_parquet(path, malformed, columns)
    header = read_header(path)
    chosen = choose_columns(path.name, "line 1", header, columns)
    text = list(dict.fromkeys(name.lower() for name in chosen.values()))
    rows = Table(path.name, path, text=text, malformed=malformed)
    rows.take({role: name.lower() for role, name in chosen.items()})
    return rows


def _open_parquet(
    path: Path, malformed: Malformed, columns: Mapping[str, str] | None
) -> RowFilter:
    try:
        names = list(parquet_columns(path))
        chosen = choose_columns(path.name, "", names, columns)
        wanted = list(dict.fromkeys(chosen.values()))
        table = read_parquet(path, wanted)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            path.name, "", f"it cannot be read ({str(error).splitlines()[0]})", "Write it again."
        ) from None
    table = table.select(pl.col(column).alias(role) for role, column in chosen.items())
    return _rows(table, chosen, name=path.name, malformed=malformed)


def _rows(
    table: pl.DataFrame, spelling: Mapping[str, str], *, name: str, malformed: Malformed
) -> RowFilter:
    """The rows of a table of any types as those of a CSV file; rows count from 1."""
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
        for role in table.columns
        if not (role == "time" and table.schema[role].is_temporal())
        and not (role == "age" and table.schema[role].is_numeric())
    ]
    try:
        table = table.with_columns(as_text)
    except pl.exceptions.PolarsError as error:
        problem = f"a column is of a type that cannot be read ({str(error).splitlines()[0]})"
        raise InputError(name, "", problem, "Write text and numbers.") from None
    return RowFilter(
        name,
        table.with_row_index("line", offset=1),
        file=name,
        place="row {}".format,
        malformed=malformed,
        spelling=spelling,
    )


def _series(frame: Any, role: str, column: str) -> pl.Series:
    """A column of a data frame of any kind; a missing value is null."""
    values = frame[column]
    if isinstance(values, pl.Series):
        return values.alias(role)
    missing = values.isna() if hasattr(values, "isna") else [value is None for value in values]
    values = [None if lost else v for v, lost in zip(values, missing, strict=True)]
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and role != "age":
        values = [None if value is None else str(value) for value in values]
    return pl.Series(role, values, strict=False)
