"""The nouns of the course: a visit, a patient as visits, and a note with its summary.

A code is text, without its dot and in upper case: ``"4280"`` for 428.0, ``"0389"`` for 038.9
(the leading zero is part of it), ``"E8497"``, ``"V3001"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

Sex = Literal["F", "M"]

MAX_AGE = 90
"""The largest age a record holds: 90 stands for every age above 89, as HIPAA asks."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One hospital admission and its diagnoses.

    Attributes:
        codes: at least one code, most important first (by sequence number), none twice.
        admitted: when the admission began, or None when no time is known.
        hadm_id: the hospital's number for the admission, or None.

    Raises:
        ValueError: if codes is empty, has a repetition, or holds something that is not an
            undotted code in upper case.

    >>> Visit(("4280", "42731")).codes
    ('4280', '42731')
    >>> Visit(("428.0",))
    Traceback (most recent call last):
    ValueError: '428.0' is not an undotted code in upper case; use icd9.normalize first
    """

    codes: tuple[str, ...]
    admitted: datetime | None = None
    hadm_id: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.codes, tuple):
            raise ValueError(f"codes must be a tuple of text, not {type(self.codes).__name__}")
        if not self.codes:
            raise ValueError("a visit has at least one code")
        for code in self.codes:
            if not (isinstance(code, str) and code.isascii() and code.isalnum()) or (
                code != code.upper()
            ):
                raise ValueError(
                    f"{code!r} is not an undotted code in upper case; use icd9.normalize first"
                )
        if len(set(self.codes)) != len(self.codes):
            twice = next(code for code in self.codes if self.codes.count(code) > 1)
            raise ValueError(f"code {twice!r} occurs twice in one visit")


@dataclass(frozen=True, slots=True)
class PatientRecord:
    """One patient: who they are, and their visits in time order.

    Attributes:
        subject_id: the hospital's number for the patient.
        sex: "F" or "M", as the hospital recorded it.
        age: completed years at the first admission, 0 to 90; 90 means above 89.
        visits: at least one, in the order of their admission times where those are known.

    Raises:
        ValueError: if any of these does not hold.

    >>> PatientRecord(7, "F", 64, (Visit(("4280", "42731")), Visit(("4280",)))).codes
    ('4280', '42731', '4280')
    """

    subject_id: int
    sex: Sex
    age: int
    visits: tuple[Visit, ...]

    def __post_init__(self) -> None:
        _check_patient(self.subject_id, self.sex, self.age, self.visits)

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes of all visits, in order; a code of two visits stands twice."""
        return _codes_of(self.visits)


@dataclass(frozen=True, slots=True)
class PartialRecord:
    """One patient of whom the sex or the age is not known.

    Cohorts of other tools are often codes alone. They can be judged, but no model of the course
    learns from them: the models ask for both.

    Attributes:
        subject_id, visits: as in PatientRecord.
        sex, age: as in PatientRecord, or None where it is not known.

    Raises:
        ValueError: if any of these does not hold.

    >>> PartialRecord(7, None, 64, (Visit(("4280", "42731")),)).codes
    ('4280', '42731')
    """

    subject_id: int
    sex: Sex | None
    age: int | None
    visits: tuple[Visit, ...]

    def __post_init__(self) -> None:
        # What is not known is replaced by a value that passes, so that the rest is checked.
        sex, age = ("F" if self.sex is None else self.sex), (0 if self.age is None else self.age)
        _check_patient(self.subject_id, sex, age, self.visits)

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes of all visits, in order; a code of two visits stands twice."""
        return _codes_of(self.visits)


AnyRecord = PatientRecord | PartialRecord
"""A patient to be judged: with sex and age, or without."""


def _check_patient(subject_id: int, sex: str, age: int, visits: tuple[Visit, ...]) -> None:
    who = f"patient {subject_id}"
    if sex not in ("F", "M"):
        raise ValueError(f"{who}: sex is 'F' or 'M', not {sex!r}")
    if not isinstance(age, int) or not 0 <= age <= MAX_AGE:
        raise ValueError(f"{who}: age is a whole number from 0 to {MAX_AGE}, not {age!r}")
    if not isinstance(visits, tuple) or not visits:
        raise ValueError(f"{who}: visits is a tuple of at least one Visit")
    times = [visit.admitted for visit in visits if visit.admitted is not None]
    if any(later < earlier for earlier, later in pairwise(times)):
        raise ValueError(f"{who}: visits are not in the order of their admission times")


def _codes_of(visits: tuple[Visit, ...]) -> tuple[str, ...]:
    return tuple(code for visit in visits for code in visit.codes)


@dataclass(frozen=True, slots=True)
class NotePair:
    """A clinical note, and the summary that somebody wrote of it.

    Attributes:
        note: what is read; text that is not blank.
        summary: what is to be written; text that is not blank.
        subject_id: whose note it is, or None when that is not known.

    Raises:
        ValueError: if note or summary is no text, or blank.

    >>> NotePair("admitted with a cough, given amoxicillin.", "cough, amoxicillin.").subject_id
    """

    note: str
    summary: str
    subject_id: int | str | None = None

    def __post_init__(self) -> None:
        for name in ("note", "summary"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{name} must be text that is not blank, not {text!r}")
