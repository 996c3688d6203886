"""The nouns of the course: a visit, a patient as visits, and a note with its summary.

A code is text without its dot and in upper case, leading zeros included: ``"4280"``, ``"0389"``,
``"E8497"``. It does not tell ICD-9-CM from ICD-10-CM, so every visit names its system.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError

Sex = Literal["F", "M"]

MAX_AGE = 90
"""The largest age of a record: 90 stands for every age above 89, as HIPAA requires."""


@dataclass(frozen=True, slots=True, repr=False)
class Visit:
    """One hospital admission and its diagnoses.

    Attributes:
        codes: one or more distinct codes, most important first (by sequence number).
        admitted: when the admission began, or None if unknown.
        hadm_id: the hospital's number for the admission, or None.
        system: the code system of all its codes, "ICD9CM" or "ICD10CM".

    Raises:
        ValueError: if any of these does not hold.

    >>> Visit(("428.0",))
    Traceback (most recent call last):
    ValueError: '428.0' is not an undotted code in upper case; use icd9.normalize first
    """

    codes: tuple[str, ...]
    admitted: datetime | None = None
    hadm_id: int | None = None
    system: CodeSystem = "ICD9CM"

    def __repr__(self) -> str:
        """The fields; the system only where it is not ICD-9-CM.

        >>> Visit(("E119",), system="ICD10CM")
        Visit(codes=('E119',), admitted=None, hadm_id=None, system='ICD10CM')
        """
        system = "" if self.system == "ICD9CM" else f", system={self.system!r}"
        known = f"admitted={self.admitted!r}, hadm_id={self.hadm_id!r}{system}"
        return f"Visit(codes={self.codes!r}, {known})"

    def __post_init__(self) -> None:
        if self.system not in CODE_SYSTEMS:
            raise ValueError(f"system is 'ICD9CM' or 'ICD10CM', not {self.system!r}")
        if not isinstance(self.codes, tuple):
            raise ValueError(f"codes must be a tuple of text, not {type(self.codes).__name__}")
        if not self.codes:
            raise ValueError("a visit has at least one code")
        for code in self.codes:
            if not (isinstance(code, str) and code.isascii() and code.isalnum()) or (
                code != code.upper()
            ):
                icd = "icd9" if self.system == "ICD9CM" else "icd10"
                raise ValueError(
                    f"{code!r} is not an undotted code in upper case; use {icd}.normalize first"
                )
        if len(set(self.codes)) != len(self.codes):
            twice = next(code for code in self.codes if self.codes.count(code) > 1)
            raise ValueError(f"code {twice!r} occurs twice in one visit")


@dataclass(frozen=True, slots=True)
class PartialRecord:
    """One patient whose sex or age may be unknown, as in cohorts that hold codes alone.

    Such patients can be evaluated, but no model of the course learns from them.

    Attributes:
        subject_id: the hospital's number for the patient.
        sex: "F" or "M", or None.
        age: completed years at the first admission, 0 to 90; 90 means above 89; or None.
        visits: at least one, in the order of their admission times where those are known.

    Raises:
        ValueError: if any of these does not hold.
    """

    subject_id: int
    sex: Sex | None
    age: int | None
    visits: tuple[Visit, ...]

    def __post_init__(self) -> None:
        who, age = f"patient {self.subject_id}", self.age
        if self.sex not in ("F", "M", None):
            raise ValueError(f"{who}: sex is 'F' or 'M', not {self.sex!r}")
        if age is not None and not (isinstance(age, int) and 0 <= age <= MAX_AGE):
            raise ValueError(f"{who}: age is a whole number from 0 to {MAX_AGE}, not {age!r}")
        if not isinstance(self.visits, tuple) or not self.visits:
            raise ValueError(f"{who}: visits is a tuple of at least one Visit")
        times = [visit.admitted for visit in self.visits if visit.admitted is not None]
        if any(later < earlier for earlier, later in pairwise(times)):
            raise ValueError(f"{who}: visits are not in the order of their admission times")

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes of all visits, in order; a code of two visits occurs twice."""
        return tuple(code for visit in self.visits for code in visit.codes)


@dataclass(frozen=True, slots=True)
class PatientRecord(PartialRecord):
    """One patient whose sex and age are known, as models need them.

    >>> PatientRecord(7, "F", 64, (Visit(("4280", "42731")), Visit(("4280",)))).codes
    ('4280', '42731', '4280')
    """

    sex: Sex
    age: int

    def __post_init__(self) -> None:
        for name in ("sex", "age"):
            if getattr(self, name) is None:
                raise ValueError(f"patient {self.subject_id}: {name} must be known, not None")
        PartialRecord.__post_init__(self)


AnyRecord = PatientRecord | PartialRecord
"""A patient to evaluate, with sex and age or without."""


def complete_records(records: Iterable[AnyRecord]) -> list[PatientRecord]:
    """Return the patients as records that models can learn from.

    Raises:
        InputError: if a sex or an age is unknown.
    """
    complete = []
    for record in records:
        if not isinstance(record, PatientRecord):
            raise InputError(
                f"patient {record.subject_id}",
                "",
                "the sex or the age is not known, and a model needs both",
                "Give both, or leave the patient out.",
            )
        complete.append(record)
    return complete


def system_of(records: Iterable[AnyRecord]) -> CodeSystem:
    """Return the code system of all visits of these patients; ICD-9-CM if there are no patients.

    Raises:
        InputError: if they mix the systems: E8859 is a fall in one, a metabolic disease in the
            other.
    """
    system: CodeSystem | None = None
    for record in records:
        for number, visit in enumerate(record.visits, start=1):
            if system is None:
                system = visit.system
            elif visit.system != system:
                raise InputError(
                    f"patient {record.subject_id}",
                    f"visit {number}",
                    f"it is coded in {SYSTEM_NAMES[visit.system]}, and visits before it in "
                    f"{SYSTEM_NAMES[system]}",
                    "Keep the visits of one system, or translate the others: "
                    "ehr-course prepare --codes icd10 or --map icd10.",
                )
    return "ICD9CM" if system is None else system


@dataclass(frozen=True, slots=True)
class NotePair:
    """A clinical note, and the summary that somebody wrote of it.

    Attributes:
        note: text that is not blank.
        summary: text that is not blank.
        subject_id: the patient, or None if unknown.

    Raises:
        ValueError: if note or summary is not text, or blank.
    """

    note: str
    summary: str
    subject_id: int | str | None = None

    def __post_init__(self) -> None:
        for name in ("note", "summary"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{name} must be text that is not blank, not {text!r}")
