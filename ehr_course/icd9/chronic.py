"""Which categories are chronic: those of which every code is.

``chronic.csv`` holds them as ranges of categories, each from ``first`` to ``last``. It was made
from the Chronic Condition Indicator for ICD-9-CM, 2015, of the Healthcare Cost and Utilization
Project (https://hcup-us.ahrq.gov/toolssoftware/chronic/chronic.jsp). The indicator calls a
condition chronic if it lasts a year or longer and either limits daily life or needs continuing
treatment. It speaks of single codes. A category stands in the table if the indicator calls all
of its codes chronic; one in which acute and chronic codes meet, such as 530, diseases of the
esophagus, is left out. External causes (E codes) are never chronic.
"""

from __future__ import annotations

from functools import cache

from ehr_course.code_rules import category_ranges
from ehr_course.icd9.codes import category


@cache
def _ranges() -> tuple[tuple[str, str], ...]:
    return category_ranges("ehr_course.icd9", "chronic.csv")


def in_chronic_category(code: str) -> bool:
    """Say whether every code of this code's category is a chronic condition.

    It goes by the shape of the code, whether or not the code exists.

    Args:
        code: with or without its dot.

    Raises:
        InputError: if code is not text in the shape of an ICD-9-CM diagnosis code.

    >>> [in_chronic_category(code) for code in ("428.0", "4019", "486", "E849.7")]
    [True, True, False, False]
    """
    of = category(code)
    return any(first <= of <= last for first, last in _ranges())
