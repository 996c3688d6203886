"""Who can have a code: the ages and the sex that ``eligibility.csv`` allows.

The table is short enough to read. A row covers the codes from ``first`` to ``last``, each
with all of its detail; a code takes the one row that fits it most closely, whole, so that an
exception repeats what it keeps. Its columns:

- ``first``, ``last``: dotted codes, both inside the range;
- ``min_age``, ``max_age``: completed years, both inside the range; 0 and 124 mean no limit;
- ``sex``: F, M, or nothing;
- ``reason``: why, in words;
- ``source``: where the row comes from.

"MCE" is the Medicare Code Editor, version 32, the program that checks hospital claims in the
United States. It lists codes for males and for females, and in four age categories: newborn
(0), pediatric (0-17), maternity (12-55) and adult (15-124). The table gives its lists as
ranges, without a few rare single codes, and rounds some up to the whole category that they
come from. Where it departs from the editor, the source says so:

- "Course": a bound of this course where the editor has none or says no more than "adult".
  Dementia starts at 30, where the earliest inherited forms begin, and at 50 where the title
  says "senile": no real early case is called impossible, and a child's is.
- "Guidelines": the ICD-9-CM Official Guidelines keep a perinatal code (760-779) for life where
  the condition persists. Damage before birth (760.7, 771.0-771.2), injured nerves (767.4-767.7),
  chronic lung disease (770.7) and lost brain tissue (779.7) have no age limit; every other
  perinatal condition is for age 0.
- "Tabular": a note in the classification itself. "Anatomy": a sex that the organ implies.

A rule says what cannot be, not what is rare. It compares with the age that you pass. A
`PatientRecord` holds the age at the first admission; at a later visit the patient may be a
few years older, so a limit can be passed in between: a girl of 11 may give birth at 15. The
synthetic hospital keeps to the rules at both ages; for a real visit, pass the age at that visit.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ehr_course.errors import InputError
from ehr_course.icd9.codes import dotted, normalize
from ehr_course.records import Sex

OLDEST = 124
"""The upper age of the Medicare Code Editor: as good as no limit."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Who can have a code.

    Attributes:
        min_age: lowest age in completed years.
        max_age: highest age in completed years; 124 means no limit.
        sex: "F" or "M", or None for both.
        reason: why, in words.
    """

    min_age: int
    max_age: int
    sex: Sex | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Row:
    first: str
    last: str
    who: Eligibility

    def covers(self, code: str) -> bool:
        return self.first <= code and (code <= self.last or code.startswith(self.last))

    @property
    def closeness(self) -> tuple[int, int]:
        # More digits fit closer; among ranges of equally many digits, the shorter one.
        span = int(self.last.lstrip("EV")) - int(self.first.lstrip("EV"))
        return len(self.first), -span


@cache
def _rows() -> tuple[_Row, ...]:
    table = resources.files("ehr_course.icd9") / "eligibility.csv"
    with table.open(encoding="utf-8", newline="") as lines:
        return tuple(
            _Row(
                normalize(row["first"]),
                normalize(row["last"]),
                Eligibility(
                    int(row["min_age"]),
                    int(row["max_age"]),
                    row["sex"] or None,
                    row["reason"],
                ),
            )
            for row in csv.DictReader(lines)
        )


@cache
def _who(code: str) -> Eligibility | None:
    rows = [row for row in _rows() if row.covers(code)]
    return max(rows, key=lambda row: row.closeness).who if rows else None


def who_can_have(code: str) -> Eligibility | None:
    """Return the ages and the sex that can have a code, or None where no rule speaks of it.

    Args:
        code: dotted or not; a code that does not exist goes by the range it would lie in.

    Raises:
        InputError: if code is not the shape of an ICD-9-CM diagnosis code.

    >>> who_can_have("V30.01")
    Eligibility(min_age=0, max_age=0, sex=None, reason='the birth of this patient')
    >>> who_can_have("185").sex
    'M'
    >>> who_can_have("428.0") is None
    True
    """
    return _who(normalize(code))


def why_impossible(code: str, *, age: int, sex: Sex) -> str | None:
    """Return why a patient of this age and sex cannot have the code, or None if they can.

    Args:
        code: dotted or not.
        age: completed years, 0 to 124; 90 may stand for every age above 89.
        sex: "F" or "M".

    Raises:
        InputError: if code is no code, age is out of range, or sex is neither "F" nor "M".

    >>> why_impossible("V30.01", age=30, sex="F")
    'V30.01 is recorded at age 0 only, not at 30: the birth of this patient'
    >>> why_impossible("428.0", age=30, sex="F") is None
    True
    """
    who = who_can_have(code)
    if sex not in ("F", "M"):
        raise InputError("sex", "", f"{sex!r} is neither 'F' nor 'M'", "Pass 'F' or 'M'.")
    if not 0 <= age <= OLDEST:
        raise InputError(
            "age",
            "",
            f"{age!r} is not an age in completed years",
            f"Pass a whole number from 0 to {OLDEST}.",
        )
    if who is None:
        return None
    if who.sex not in (None, sex):
        whose = "females" if who.sex == "F" else "males"
        return f"{dotted(code)} is recorded for {whose} only: {who.reason}"
    if not who.min_age <= age <= who.max_age:
        if who.min_age == who.max_age:
            ages = f"at age {who.min_age} only"
        elif who.max_age == OLDEST:
            ages = f"from age {who.min_age} only"
        elif who.min_age == 0:
            ages = f"up to age {who.max_age} only"
        else:
            ages = f"from age {who.min_age} to {who.max_age} only"
        return f"{dotted(code)} is recorded {ages}, not at {age}: {who.reason}"
    return None
