"""Diagnoses of one code system brought into the other, each different code translated once.

The General Equivalence Mappings say what a code may become; see ``ehr_course.icd.equivalence``.
Where they name several alternatives, a rule that looks at nothing but the code takes one, so that
a code becomes the same thing in every table and in every run:

1. one that leads back to the code when it is translated itself;
2. then one of the fewest codes;
3. then one in the categories of the first alternative, which is an exact one where there is any;
4. then one that says least: its titles say "unspecified" most often;
5. then one that agrees best when it leads back;
6. of what is left, the first in the order of the codes.

All codes of the alternative are recorded, in the place of the one code.

An ICD-10-CM code that is newer than the mappings is mostly a division of one that they list:
A04.72 was a part of A04.7. Its longest beginning that they list is translated in its place.
"""

from __future__ import annotations

from typing import NamedTuple

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import Translation, code_meaning, translate
from ehr_course.sources.cohort import Equivalence


class Equivalent(NamedTuple):
    """What a code is recorded as in the other system, and how well that agrees with it."""

    codes: tuple[str, ...]
    how: Equivalence | None  # None where the code is of that system already


def equivalent(code: str, *, source: CodeSystem) -> Equivalent:
    """Choose what an undotted code of the source system is recorded as in the other one.

    >>> equivalent("4280", source="ICD9CM")
    Equivalent(codes=('I509',), how=<Equivalence.APPROXIMATE: 'approximate'>)
    >>> equivalent("R6521", source="ICD10CM").codes
    ('78552', '99592')
    >>> equivalent("A0472", source="ICD10CM")
    Equivalent(codes=('00845',), how=<Equivalence.PARENT: 'through a shorter code'>)
    >>> equivalent("U071", source="ICD10CM").codes
    ()
    """
    found = translate(code, source=source)
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
    """One of the alternatives, by the rule at the head of this module."""
    if len(found.alternatives) < 2:
        return next(iter(found.alternatives), ())
    category = code_meaning(found.target).category
    first = {category(code) for code in found.alternatives[0]}

    def rank(alternative: tuple[str, ...]) -> tuple:
        back = [translate(code, source=found.target) for code in alternative]
        leads_back = all(found.code in each.codes for each in back)
        return (
            not leads_back,
            len(alternative),
            not first.issuperset(map(category, alternative)),
            -sum(_n_unspecified(code, found.target) for code in alternative),
            max(_AGREEMENT[each.kind] for each in back) if leads_back else 0,
        )

    # min takes the first of those that are even.
    return min(found.alternatives, key=rank)


_AGREEMENT = {"exact": 0, "approximate": 1, "one to many": 2}


def _n_unspecified(code: str, system: CodeSystem) -> int:
    try:
        return code_meaning(system).title(code).lower().count("unspecified")
    except InputError:
        # Withdrawn since the mappings were made.
        return 0
