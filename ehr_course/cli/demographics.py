"""Whom a trained model is to write: ages and sexes of those it learned from, counted."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ehr_course.errors import InputError
from ehr_course.generation.patients import Wanted
from ehr_course.records import MAX_AGE, PatientRecord

DEMOGRAPHICS = "demographics.csv"
"""The name of the file in a run's folder."""

_COLUMNS = ["age", "sex", "count"]


def write_demographics(records: Iterable[PatientRecord], path: Path) -> None:
    """Write how many patients there are of each age and sex."""
    counts = Counter((record.age, record.sex) for record in records)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows((age, sex, count) for (age, sex), count in sorted(counts.items()))


def read_demographics(path: Path) -> list[Wanted]:
    """One patient to write for each that was counted; to be drawn from.

    Raises:
        InputError: if the file is missing or something in it is no age, sex or count.
    """
    if not path.is_file():
        raise InputError(
            path, "", "there is no such file", "Train again, or put back the file of this run."
        )
    wanted: list[Wanted] = []
    # What is no UTF-8 is no number either: the line is named below.
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != _COLUMNS:
            raise InputError(
                path, "line 1", f"the columns are {rows.fieldnames}", "Write age,sex,count."
            )
        for row in rows:
            place, age, count = f"line {rows.line_num}", _number(row["age"]), _number(row["count"])
            if age is None or age > MAX_AGE or row["sex"] not in ("F", "M") or count is None:
                raise InputError(
                    path,
                    place,
                    "this is no age, sex and count",
                    f"Write completed years from 0 to {MAX_AGE}, F or M, and a whole number.",
                )
            wanted += [Wanted(age, row["sex"])] * count
    if not wanted:
        raise InputError(path, "", "nobody is counted in it", "Write at least one line.")
    return wanted


def _number(text: str | None) -> int | None:
    """A whole number of at most eight digits: more than anybody trains on."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= 8
    return int(text) if is_number else None
