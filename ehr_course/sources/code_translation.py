"""Diagnoses of one code system brought into the other, each different code translated once.

The General Equivalence Mappings say what a code may become; see ``ehr_course.icd10.mapping``.
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

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from ehr_course.code_meaning import code_meaning
from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd10 import Translation, translate
from ehr_course.sources.code_column import CodeList
from ehr_course.sources.cohort import Equivalence, Reason, Translated
from ehr_course.sources.row_filter import RowFilter


class Equivalent(NamedTuple):
    """What a code is recorded as in the other system.

    Attributes:
        codes: one code; several that are recorded together; or none.
        how: how well they agree with it; None where the code is of that system already.
    """

    codes: tuple[str, ...]
    how: Equivalence | None


def equivalent(code: str, *, source: CodeSystem) -> Equivalent:
    """Choose what a code is recorded as in the other system.

    Args:
        code: undotted.
        source: the system that it belongs to.

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


class Plan(NamedTuple):
    """What becomes of each position of a list of codes.

    Attributes:
        codes: the codes of the system that all of them are brought into, each once.
        targets: for each position of the old list, positions in codes; empty where the code has
            no equivalent.
        how: for each position of the old list, how well they agree; None where the code is of
            that system already.
        old: the old list.
        system: the system of codes.
    """

    codes: list[str]
    targets: list[list[int]]
    how: list[Equivalence | None]
    old: CodeList
    system: CodeSystem

    @property
    def absent(self) -> list[int]:
        """The old positions whose codes have no equivalent."""
        return [number for number, targets in enumerate(self.targets) if not targets]


def plan_translation(old: CodeList, system: CodeSystem) -> Plan:
    """Look every code up once.

    Args:
        old: codes of both systems, or of one.
        system: what they are to become.
    """
    found = [
        Equivalent((code,), None)
        if old.system_at(number) == system
        else equivalent(code, source=old.system_at(number))
        for number, code in enumerate(old.codes)
    ]
    codes = sorted({code for each in found for code in each.codes})
    position = {code: number for number, code in enumerate(codes)}
    targets = [[position[code] for code in each.codes] for each in found]
    return Plan(codes, targets, [each.how for each in found], old, system)


def drop_absent(diagnoses: RowFilter, plan: Plan) -> Counter[int]:
    """Drop rows whose code has no equivalent, and count them by their old position."""
    counts = row_counts(diagnoses.frame["code"], plan.absent)
    diagnoses.drop(pl.col("code").is_in(plan.absent), Reason.NO_EQUIVALENT)
    return counts


def row_counts(codes: pl.Series, positions: Sequence[int]) -> Counter[int]:
    """Count rows by position, of the positions that are asked for."""
    wanted = codes.filter(codes.is_in(positions))
    return Counter(dict(wanted.value_counts(name="n").rows()))


def translate_rows(
    diagnoses: RowFilter, plan: Plan, absent: Counter[int]
) -> tuple[pl.DataFrame, Translated | None]:
    """Give each row the codes that its code becomes.

    Of two codes of a visit that become the same, the first is kept; a row of which no code is
    left is dropped and counted.

    Args:
        diagnoses: rows of "visit", "code" (an old position), "line" and others, in the order of
            the records; every code has an equivalent. Rows that are no diagnosis have no code.
        plan: what becomes of the codes.
        absent: the rows that were dropped already, by old position.

    Returns:
        "visit" and "code" (a new position) in the same order; and the account, or None where
        all codes are of the system already.
    """
    rows = diagnoses.frame.filter(pl.col("code").is_not_null())
    account = _account(plan, rows["code"], absent)
    if all(len(targets) == 1 for targets in plan.targets):
        becomes = pl.Series([targets[0] for targets in plan.targets], dtype=pl.UInt32)
        new = rows.select("line", "visit", code=becomes.gather(rows["code"]))
    else:
        several = pl.Series(plan.targets, dtype=pl.List(pl.UInt32))
        new = rows.select("line", "visit", code=several.gather(rows["code"])).explode("code")
    if account is None:
        return new.select("visit", "code"), None
    pair = pl.col("visit").cast(pl.Int64) * len(plan.codes) + pl.col("code")
    new = new.with_columns(pair.alias("pair"))
    pairs = new["pair"].sort()
    twice = pairs.filter(pairs == pairs.shift(1)).unique()
    if not twice.is_empty():
        again = new["pair"].is_in(twice.implode())
        repeats = new.filter(again)
        first = repeats["pair"].is_first_distinct()
        kept = again.not_()
        kept = kept.scatter(again.arg_true(), first)
        lost = repeats["line"].filter(~first).unique()
        new = new.filter(kept)
        lost = lost.filter(~lost.is_in(new["line"].implode()))
        diagnoses.drop(
            pl.col("line").is_in(lost.implode()) & pl.col("code").is_not_null(),
            Reason.SAME_TRANSLATED,
        )
    return new.select("visit", "code"), account


def _account(plan: Plan, codes: pl.Series, absent: Counter[int]) -> Translated | None:
    foreign = [number for number, how in enumerate(plan.how) if how is not None]
    if not foreign:
        return None
    counts = row_counts(codes, foreign) + absent
    n_rows: Counter[Equivalence] = Counter()
    n_codes: Counter[Equivalence] = Counter()
    for number, count in counts.items():
        how = plan.how[number]
        if how is not None:
            n_rows[how] += count
            n_codes[how] += 1
    if not counts:
        return None
    source = plan.old.system_at(foreign[0])
    without = {
        code_meaning(source).dotted(plan.old.codes[number]): count
        for number, count in absent.most_common()
    }
    return Translated(
        source,
        plan.system,
        {how: (n_rows[how], n_codes[how]) for how in Equivalence if n_codes[how]},
        without,
    )
