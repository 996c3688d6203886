"""Who can have a code: the ages and the sex that ``eligibility.csv`` allows.

A row covers the codes from ``first`` to ``last``, each with all of its detail; a code takes the
one row that fits it most closely, whole, so that an exception repeats what it keeps. The columns
are those of ``ehr_course.icd9.eligibility``:

- ``first``, ``last``: dotted codes of equal length, both inside the range;
- ``min_age``, ``max_age``: completed years, both inside the range; 0 and 124 mean no limit;
- ``sex``: F, M, or nothing;
- ``reason``: why, in words;
- ``source``: where the row comes from.

"MCE" is the Medicare Code Editor for ICD-10, the program that checks hospital claims in the
United States. It has lists of codes for females and for males, and of four age categories:
newborn (0), pediatric (0-17), maternity (9-64) and adult (15-124). Maternity ended at 55 and
began at 12 in its early versions and in those for ICD-9; the wider bounds hold here. The lists of
the sexes stand in its versions up to 41.1 and have been switched off since October 2024.

The table covers the categories that the editor lists, not its whole lists code by code: it gives
them as ranges, rounds some up to the category that the codes come from, and takes in codes that
were added to a category later. The age lists and the male list were gone through category by
category in an edition of about 2019; the female list was not at hand whole, and its rows follow
the male ones, the ICD-9 list and the titles. Of the 74,044 codes of 2024, rows of these sources
take in so many, and the editor's lists of that year, version 41.1, have so many lines:

============ ======= =========
 list         rows    editor
============ ======= =========
 newborn      42      42
 pediatric    114     125
 maternity    2,542   2,543
 adult        855     855
 female       3,378   3,431
 male         539     529
============ ======= =========

Where a row departs from the editor, its source says so:

- "Course": a bound of this course where the editor has none or says no more than "adult". The
  bounds of dementia are those for ICD-9. The editor lists no perinatal code (P00-P96) as one of
  newborns, because the guidelines keep such a code for life where the condition persists. The
  rows for P codes name those conditions alone that end with the first year of life.
- "Tabular": a note in the classification itself.
- "Title": the title of the code names the sex or its organ. "Anatomy": the condition implies it.

A rule says what cannot be, not what is rare. It compares with the age that you pass, as in
``ehr_course.icd9.eligibility``, where more is said of ages at later visits.
"""

from __future__ import annotations

from ehr_course.code_rules import OLDEST, Eligibility, EligibilityTable, why_not
from ehr_course.icd10.codes import dotted, normalize
from ehr_course.records import Sex

__all__ = ["OLDEST", "Eligibility", "who_can_have", "why_impossible"]

# Letters follow digits in base 36 as they do in codes.
_TABLE = EligibilityTable(
    "ehr_course.icd10", normalize=normalize, number=lambda code: int(code, 36)
)


def who_can_have(code: str) -> Eligibility | None:
    """Return the ages and the sex that can have a code, or None where no rule speaks of it.

    Args:
        code: dotted or not; a code that does not exist goes by the range it would lie in.

    Raises:
        InputError: if code is not the shape of an ICD-10-CM diagnosis code.

    >>> who_can_have("Z38.01")
    Eligibility(min_age=0, max_age=0, sex=None, reason='the birth of this patient')
    >>> who_can_have("C61").sex
    'M'
    >>> who_can_have("I50.9") is None
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

    >>> why_impossible("Z38.01", age=30, sex="F")
    'Z38.01 is recorded at age 0 only, not at 30: the birth of this patient'
    >>> why_impossible("I50.9", age=30, sex="F") is None
    True
    """
    why = why_not(who_can_have(code), age=age, sex=sex)
    return None if why is None else f"{dotted(code)} {why}"
