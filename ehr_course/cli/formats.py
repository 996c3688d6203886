"""Synthetic patients in files: a MEDS dataset, MIMIC-III tables, or one parquet table.

A model writes visits in their order and gives them no dates, which MEDS and MIMIC-III ask for.
So dates are invented: the first visit is on a day from 2100 to 2149, each next one 180 days after
the one before. They say nothing about time between visits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.cli.options import Format
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.meds import write_meds
from ehr_course.sources.mimic import load
from ehr_course.sources.synthetic import write_mimic3

DAYS_BETWEEN_VISITS = 180

_FIRST_DAY, _DAYS = datetime(2100, 1, 1), 50 * 365
_TABLE = {
    "subject_id": pl.Int64,
    "sex": pl.String,
    "age": pl.Int64,
    "visit": pl.Int64,
    "seq_num": pl.Int64,
    "code": pl.String,
}


PARQUET_FILE = "patients.parquet"


def with_invented_dates(records: Sequence[PatientRecord], *, seed: int) -> list[PatientRecord]:
    """Number patients and visits from 1, and give each visit an invented admission time.

    Args:
        records: without times.
        seed: of the first days.

    >>> patient = PatientRecord(0, "F", 64, (Visit(("4280",)), Visit(("4280",))))
    >>> [dated] = with_invented_dates([patient], seed=0)
    >>> (dated.visits[1].admitted - dated.visits[0].admitted).days
    180
    """
    first_days = np.random.default_rng([seed, 1]).integers(_DAYS, size=len(records)).tolist()
    dated, n_visits = [], 0
    for number, (record, day) in enumerate(zip(records, first_days, strict=True), start=1):
        visits = []
        for place, visit in enumerate(record.visits):
            n_visits += 1
            admitted = _FIRST_DAY + timedelta(days=day + DAYS_BETWEEN_VISITS * place)
            visits.append(Visit(visit.codes, admitted, n_visits))
        dated.append(PatientRecord(number, record.sex, record.age, tuple(visits)))
    return dated


def write_formats(
    records: Sequence[PatientRecord], folder: Path, formats: Sequence[str], *, seed: int
) -> None:
    """Write patients with dates and numbers into a folder, in each format.

    Args:
        records: with times.
        folder: where each format gets a folder or a file.
        formats: names of Format.
        seed: of what MIMIC-III asks for and the records do not have.
    """
    for name in formats:
        _WRITERS[Format(name)](records, folder, seed)


def _write_parquet(records: Sequence[PatientRecord], folder: Path, seed: int) -> None:
    rows = [
        (record.subject_id, record.sex, record.age, visit_number, seq_num, code)
        for record in records
        for visit_number, visit in enumerate(record.visits, start=1)
        for seq_num, code in enumerate(visit.codes, start=1)
    ]
    pl.DataFrame(rows, schema=_TABLE, orient="row").write_parquet(folder / PARQUET_FILE)


_WRITERS: dict[str, Callable[[Sequence[PatientRecord], Path, int], object]] = {
    Format.MEDS: lambda records, folder, seed: write_meds(records, folder / "meds"),
    Format.MIMIC3: lambda records, folder, seed: write_mimic3(
        records, folder / "mimic3", seed=seed
    ),
    Format.PARQUET: _write_parquet,
}


# ------------------------------------------------------------------ reading


def read_cohort(path: str | Path) -> list[PatientRecord]:
    """Read synthetic patients in whichever format they are there.

    Args:
        path: what ``generate`` wrote (of several formats the first of MEDS, MIMIC-III and parquet
            is read), any folder of MEDS, MIMIC-III or MIMIC-IV, or a parquet file as above.

    Raises:
        InputError: if there is nothing of the kind, or something in it is malformed.
    """
    path = Path(path)
    if path.is_file() and path.suffix == ".parquet":
        return _read_parquet(path)
    if path.is_file():
        raise InputError(path, "", "this is a file", "Name a folder, or a .parquet file.")
    for name in ("meds", "mimic3"):
        if (path / name).is_dir():
            return list(load(path / name).records)
    if (path / PARQUET_FILE).is_file():
        return _read_parquet(path / PARQUET_FILE)
    return list(load(path).records)


def _read_parquet(path: Path) -> list[PatientRecord]:
    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            path, "", f"it cannot be read ({str(error).splitlines()[0]})", "Write it again."
        ) from None
    missing = [name for name in _TABLE if name not in table.columns]
    if missing:
        raise InputError(
            path,
            f"column {missing[0]!r}",
            f"it is missing (found: {', '.join(table.columns)})",
            f"Write the columns {', '.join(_TABLE)}.",
        )
    try:
        table = table.select(pl.col(name).cast(kind) for name, kind in _TABLE.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(
            path, "", f"a column is of another type ({str(error).splitlines()[0]})", _TYPES
        ) from None
    for name in _TABLE:
        if table[name].has_nulls():
            row = table[name].is_null().arg_max() + 1
            raise InputError(path, f"row {row}, column {name!r}", "it is missing", "Write it.")
    if table.is_empty():
        raise InputError(path, "", "no patient is in it", "Write at least one row.")
    rows = table.sort("subject_id", "visit", "seq_num", maintain_order=True).rows()
    return [
        _record(path, subject_id, list(rows))
        for subject_id, rows in groupby(rows, key=lambda row: row[0])
    ]


_TYPES = "Write whole numbers, and sex and code as text."


def _record(path: Path, subject_id: int, rows: list[tuple]) -> PatientRecord:
    place = f"patient {subject_id}"
    if len({row[1:3] for row in rows}) > 1:
        raise InputError(path, place, "rows of one patient differ in sex or age", "Keep one.")
    visits = groupby(rows, key=lambda row: row[3])
    try:
        each = tuple(Visit(tuple(row[5] for row in of)) for _, of in visits)
        return PatientRecord(subject_id, rows[0][1], rows[0][2], each)
    except ValueError as error:
        raise InputError(path, place, str(error), "Correct the row.") from None
