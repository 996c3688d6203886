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

from ehr_course.code_rules import OLDEST, Eligibility, EligibilityTable, why_not
from ehr_course.icd9.codes import dotted, normalize
from ehr_course.records import Sex

__all__ = ["OLDEST", "Eligibility", "who_can_have", "why_impossible"]

_TABLE = EligibilityTable(
    "ehr_course.icd9", normalize=normalize, number=lambda code: int(code.lstrip("EV"))
)


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
    return _TABLE.who(normalize(code))


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
    why = why_not(who_can_have(code), age=age, sex=sex)
    return None if why is None else f"{dotted(code)} {why}"
