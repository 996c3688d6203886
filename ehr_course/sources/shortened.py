"""Patients of whom some admissions were dropped: what is left looks like a shorter history."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from ehr_course.sources.cohort import Shortened
from ehr_course.sources.row_filter import EXAMPLES

NOBODY_IS_WHOLE = "every patient of it lost an admission, so that no whole patient is left"
KEEP_THEM = "Keep such patients: leave --whole-patients, or whole_patients=True, out."


def lost_admissions(read: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Find the admissions that were dropped, of patients who keep at least one.

    Args:
        read: "patient", "visit" and "line" of rows as they were read; an admission may have
            several. A patient that is null is nobody, a visit that is null was dropped.
        kept: "patient" and "visit" of rows that are kept.

    Returns:
        "patient", "visit" and "line", the first, of each admission that was dropped, by rising
        line.

    >>> read = {"patient": [1, 1, 2], "visit": [7, 8, 9], "line": [2, 3, 4]}
    >>> lost_admissions(pl.DataFrame(read), pl.DataFrame({"patient": [1], "visit": [8]})).rows()
    [(1, 7, 2)]
    """
    return (
        read.filter(pl.col("patient").is_in(kept["patient"].unique().implode()))
        .join(kept.select("patient", "visit"), on=["patient", "visit"], how="anti")
        .group_by("patient", "visit")
        .agg(pl.col("line").min())
        .sort("line")
    )


def account_of(
    lost: pl.DataFrame, place: Callable[[int], str], *, are_left_out: bool
) -> Shortened | None:
    """Count what lost_admissions found, or return None where it found nothing.

    Args:
        lost: what it returned.
        place: turns a line into words.
        are_left_out: whether these patients were dropped.
    """
    if lost.is_empty():
        return None
    return Shortened(
        lost["patient"].n_unique(),
        lost.height,
        tuple(map(place, lost["line"].head(EXAMPLES))),
        are_left_out,
    )
