"""Whom to write: ages and sexes as a cohort has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ehr_course.errors import InputError
from ehr_course.generation.patients import Wanted
from ehr_course.records import PatientRecord


def wanted_like(
    records: Sequence[PatientRecord | Wanted], n: int, *, seed: int = 0
) -> list[Wanted]:
    """Draw the age and sex of patients to write from those of a cohort, together.

    Each of the ``n`` is drawn with replacement, so an age and a sex come as often as in the
    cohort. Ages and sexes alone are taken, never a code.

    Args:
        records: the cohort, at least one patient; or ages and sexes alone, as Wanted.
        n: how many to draw, 1 or more.
        seed: 0 or more.

    Raises:
        InputError: if there are no records, or n is below 1.

    >>> from ehr_course.records import Visit
    >>> wanted_like([PatientRecord(1, "F", 64, (Visit(("4280",)),))], 2)
    [Wanted(age=64, sex='F', visits=()), Wanted(age=64, sex='F', visits=())]
    """
    if not records:
        raise InputError("wanted_like", "records", "there are none", "Give a cohort.")
    if n < 1:
        raise InputError("wanted_like", "n", f"{n!r} is no number of patients", "Use 1 or more.")
    rows = np.random.default_rng(seed).integers(len(records), size=n)
    return [Wanted(records[row].age, records[row].sex) for row in rows.tolist()]
