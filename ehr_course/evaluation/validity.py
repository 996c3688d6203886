"""Could these patients have these codes? Age and sex rule some of them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ehr_course import icd9
from ehr_course.records import PatientRecord, Sex

Visits = Iterable[Iterable[str]]
"""One patient's codes, visit by visit, as CodeTokenizer.decode returns them."""


def impossible_share(
    patients: Sequence[Visits], ages: Sequence[float], sexes: Sequence[Sex]
) -> float:
    """The share of all codes that their patient's age or sex rules out.

    Args:
        patients: the visits of each patient.
        ages: the age of each patient at the first visit, in years.
        sexes: "F" or "M" for each patient.

    Returns:
        0 to 1; ``nan`` when there is no code at all. A code without a rule counts as
        possible, and so does one that is no ICD-9-CM code.

    >>> impossible_share([[["650", "4019"]], [["650"]]], [30, 30], ["F", "M"])
    0.3333333333333333
    """
    impossible, codes = 0, 0
    for visits, age, sex in zip(patients, ages, sexes, strict=True):
        for visit in visits:
            for code in visit:
                codes += 1
                impossible += icd9.is_code(code) and (
                    icd9.why_impossible(code, age=int(age), sex=sex) is not None
                )
    return impossible / codes if codes else float("nan")


def impossible_share_of(records: Sequence[PatientRecord]) -> float:
    """The same share for patient records, each with its own age and sex."""
    return impossible_share(
        [[visit.codes for visit in record.visits] for record in records],
        [record.age for record in records],
        [record.sex for record in records],
    )
