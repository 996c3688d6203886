"""Synthetic patients in files: a MEDS dataset, MIMIC-III tables, or one parquet table.

A model writes visits in their order and gives them no dates, which MEDS and MIMIC-III ask for.
So dates are invented: the first visit is on a day from 2100 to 2149, each next one 180 days after
the one before. They say nothing about time between visits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.cli.options import Format
from ehr_course.records import PatientRecord, Visit, system_of
from ehr_course.sources.any_cohort import PARQUET_FILE
from ehr_course.sources.meds import write_meds
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
            visits.append(Visit(visit.codes, admitted, n_visits, visit.system))
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
    table = pl.DataFrame(rows, schema=_TABLE, orient="row")
    # Codes that are no ICD-9-CM say so, for many have the shape of both.
    if system_of(records) == "ICD10CM":
        table = table.with_columns(icd_version=pl.lit(10, pl.Int64))
    table.write_parquet(folder / PARQUET_FILE)


_WRITERS: dict[str, Callable[[Sequence[PatientRecord], Path, int], object]] = {
    Format.MEDS: lambda records, folder, seed: write_meds(records, folder / "meds"),
    Format.MIMIC3: lambda records, folder, seed: write_mimic3(
        records, folder / "mimic3", seed=seed
    ),
    Format.PARQUET: _write_parquet,
}
