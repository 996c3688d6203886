"""Which categories are chronic: those of which every code is.

``chronic.csv`` holds them as ranges of categories, each from ``first`` to ``last``. It was made
by the rule of ``ehr_course.icd9.chronic`` from the Chronic Condition Indicator Refined for
ICD-10-CM, version 2023.1, of the Healthcare Cost and Utilization Project
(https://hcup-us.ahrq.gov/toolssoftware/chronic_icd10/chronic_icd10.jsp). It calls 12,504 of its
74,549 codes chronic. Of its 1,914 categories, 476 hold chronic codes alone, 8,161 in all: these
stand in the table. The other chronic codes belong to categories in which acute and chronic codes
meet, such as F32, depressive episode. Codes of which the indicator makes no determination, those
of external causes and of the health status among them, are never chronic.

The categories of the two systems are cut differently, and this indicator was made anew for
ICD-10-CM, so hold the carry-over of one system against that of the other with care. In 2,000
patients of the embedded hospital, translated with the General Equivalence Mappings, the two tables
agree about 92% of the diagnoses. Reflux (530.81, K21.9) is chronic in ICD-10-CM alone; gout
(274.9, M10.9) and depression (311, F32.9) are chronic in ICD-9-CM alone.
"""

from __future__ import annotations

from functools import cache

from ehr_course.code_rules import category_ranges
from ehr_course.icd10.codes import category


@cache
def _ranges() -> tuple[tuple[str, str], ...]:
    return category_ranges("ehr_course.icd10", "chronic.csv")


def in_chronic_category(code: str) -> bool:
    """Say whether every code of this code's category is a chronic condition.

    It goes by the shape of the code, whether or not the code exists.

    Args:
        code: with or without its dot.

    Raises:
        InputError: if code is not text in the shape of an ICD-10-CM diagnosis code.

    >>> [in_chronic_category(code) for code in ("I50.9", "I10", "J18.9", "V30.4XXA")]
    [True, True, False, False]
    """
    of = category(code)
    return any(first <= of <= last for first, last in _ranges())
