"""Diagnoses of one code system translated into the other by the General Equivalence Mappings.

The result depends on the code alone, so a code becomes the same in every table and every run. All
codes of the chosen alternative are recorded.
"""

from __future__ import annotations

from typing import NamedTuple

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import Translation, code_meaning, translate
from ehr_course.sources.cohort import Equivalence


class Equivalent(NamedTuple):
    """What a code is recorded as in the other system, and how well they agree."""

    codes: tuple[str, ...]
    how: Equivalence | None  # None if the code is of that system already


def equivalent(code: str, *, source: CodeSystem) -> Equivalent:
    """Choose what an undotted code of the source system is recorded as in the other one.

    >>> equivalent("R6521", source="ICD10CM").codes
    ('78552', '99592')
    >>> equivalent("A0472", source="ICD10CM")
    Equivalent(codes=('00845',), how=<Equivalence.PARENT: 'through a shorter code'>)
    """
    found = translate(code, source=source)
    # A code newer than the mappings is mostly a division of one that they list.
    if found.kind == "absent" and not found.listed and source == "ICD10CM":
        for length in range(len(code) - 1, 2, -1):
            shorter = translate(code[:length], source=source)
            if shorter.listed:
                return Equivalent(
                    _chosen(shorter),
                    Equivalence.PARENT if shorter.alternatives else Equivalence.ABSENT,
                )
    return Equivalent(_chosen(found), Equivalence(found.kind))


def _chosen(found: Translation) -> tuple[str, ...]:
    """Choose the alternative with the lowest rank; of equal ones, the first."""
    if len(found.alternatives) < 2:
        return next(iter(found.alternatives), ())
    category = code_meaning(found.target).category
    # The first alternative is an exact one if there is any.
    first = {category(code) for code in found.alternatives[0]}

    def rank(alternative: tuple[str, ...]) -> tuple:
        back = [translate(code, source=found.target) for code in alternative]
        leads_back = all(found.code in each.codes for each in back)
        # "Unspecified" in the titles marks the alternative that claims least.
        return (
            not leads_back,
            len(alternative),
            not first.issuperset(map(category, alternative)),
            -sum(_n_unspecified(code, found.target) for code in alternative),
            max(_AGREEMENT[each.kind] for each in back) if leads_back else 0,
        )

    return min(found.alternatives, key=rank)


_AGREEMENT = {"exact": 0, "approximate": 1, "one to many": 2}


def _n_unspecified(code: str, system: CodeSystem) -> int:
    try:
        return code_meaning(system).title(code).lower().count("unspecified")
    except InputError:
        # Withdrawn since the mappings were published.
        return 0
