"""Training, validation and test parts that share no patient."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord


class Split(NamedTuple):
    """The parts of a cohort; no patient is in two of them."""

    train: list[PatientRecord]
    validation: list[PatientRecord]
    test: list[PatientRecord]


def split_by_patient(
    records: Sequence[PatientRecord],
    *,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> Split:
    """Split records at random into parts for training, validation and test.

    All visits of a patient go to one part, which depends on the seed and the set of subject_ids,
    not on the order of the records. Each part keeps that order.

    Args:
        records: the patients, each subject_id once.
        fractions: of patients, for training, validation and test; at least 0, 1 in all. A fraction
            above 0 must give at least one patient.
        seed: of the draw.
    """
    check_one_record_each(records)
    subject_ids = sorted(record.subject_id for record in records)
    drawn = draw_parts(len(subject_ids), fractions, seed, of="patients")
    parts = [{subject_ids[place] for place in part} for part in drawn]
    return Split(*([record for record in records if record.subject_id in part] for part in parts))


def check_one_record_each(records: Sequence[PatientRecord]) -> None:
    """Raise an InputError if a patient has two records."""
    for subject_id, count in Counter(record.subject_id for record in records).items():
        if count > 1:
            raise InputError(
                f"patient {subject_id}",
                "",
                "there are two records of this patient",
                "Put all visits of a patient into one record.",
            )


def draw_parts(
    count: int, fractions: tuple[float, float, float], seed: int, *, of: str
) -> list[list[int]]:
    """Draw the places 0 to count - 1 into three parts; of says what they are the places of.

    Raises:
        InputError: if fractions are not three shares of one whole, or a part would be empty.
    """
    if (
        len(fractions) != 3
        or not all(0 <= fraction <= 1 for fraction in fractions)
        or not math.isclose(math.fsum(fractions), 1)
    ):
        raise InputError(
            "fractions",
            "",
            f"{tuple(fractions)!r} are not three shares of one whole",
            "Give three numbers of at least 0 that add up to 1, as (0.8, 0.1, 0.1).",
        )
    ends = [round(math.fsum(fractions[: part + 1]) * count) for part in range(2)]
    parts = np.split(np.random.default_rng(seed).permutation(count), ends)
    for part, fraction in zip(parts, fractions, strict=True):
        if fraction > 0 and not len(part):
            problem = f"{count} {of} are too few for a part of {fraction:g}"
            raise InputError("split", "", problem, f"Take more {of}, or a larger fraction.")
    return [part.tolist() for part in parts]
