"""Could these patients have these codes? Age and sex rule some of them out.

The rules are held against the age at the first visit. At a later one a patient may be older, so a
small share of real patients' codes comes out as impossible too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables, unknown_in
from ehr_course.evaluation.measure import (
    RESAMPLES,
    SHARE,
    Judgement,
    LeftOut,
    Measure,
    check_patients,
    generator,
    share_interval,
    too_few,
)
from ehr_course.icd import code_meaning
from ehr_course.records import MAX_AGE, AnyRecord, PatientRecord, Sex, system_of

Visits = Iterable[Iterable[str]]
"""One patient's codes, visit by visit, as CodeTokenizer.decode returns them."""


def impossible_share(
    patients: Sequence[Visits],
    ages: Sequence[float],
    sexes: Sequence[Sex],
    *,
    system: CodeSystem = "ICD9CM",
) -> float:
    """The share of all codes that age at the first visit, or sex, rules out, 0 to 1.

    It is ``nan`` when there is no code; a code without a rule, or of another system, is possible.

    >>> impossible_share([[["650", "4019"]], [["650"]]], [30, 30], ["F", "M"])
    0.3333333333333333
    """
    of = code_meaning(system)
    impossible, codes = 0, 0
    for visits, age, sex in zip(patients, ages, sexes, strict=True):
        for visit in visits:
            for code in visit:
                codes += 1
                impossible += of.is_code(code) and (
                    of.why_impossible(code, age=int(age), sex=sex) is not None
                )
    return impossible / codes if codes else float("nan")


def impossible_share_of(records: Sequence[PatientRecord]) -> float:
    """The same share for patient records, each with its own age and sex."""
    return impossible_share(
        [[visit.codes for visit in record.visits] for record in records],
        [record.age for record in records],
        [record.sex for record in records],
        system=system_of(records),
    )


NAMES = {
    "codes": "impossible codes",
    "visits": "visits with an impossible code",
    "patients": "patients with an impossible code",
}
"""The measures, by what is counted."""

MOST_WORST = 10
"""How many of the worst codes are listed."""


@dataclass(frozen=True)
class WorstCode:
    """A code that was written at ``count`` visits of patients who cannot have it.

    Attributes:
        title: the official one; "" where their system has no such code.
        reason: who alone can have it; where age and sex both rule it out, the commoner of both.
    """

    code: str
    title: str
    count: int
    reason: str


@dataclass(frozen=True)
class Validity(Judgement):
    """How much of a cohort its own ages and sexes rule out, and the codes that are worst."""

    worst: tuple[WorstCode, ...] = ()


def validity(
    records: Sequence[AnyRecord],
    *,
    real: Sequence[AnyRecord] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Validity:
    """Count the codes, the visits and the patients that cannot be.

    Where nothing impossible is found, the interval ends at the exact binomial bound for patients.

    Args:
        real: patients of the same hospital, whose shares become the floor.

    >>> from ehr_course.records import Visit
    >>> found = validity([PatientRecord(1, "M", 30, (Visit(("650", "4019")), Visit(("4019",))))])
    >>> [round(measure.value, 2) for measure in found.measures]
    [0.33, 0.5, 1.0]
    >>> found.worst[0].code, found.worst[0].title, found.worst[0].count
    ('650', 'Normal delivery', 1)
    >>> found.worst[0].reason
    'recorded for females only: pregnancy, childbirth and the puerperium'
    """
    check_patients("validity", {"records": records, "real": real})
    (table,) = code_tables(records)
    rng = generator(seed)
    warnings = tuple(too_few("synthetic cohort", len(records)))
    unknown = unknown_in({"synthetic": table})
    if unknown:
        reason = f"the synthetic cohort has {' and '.join(f'no {what}' for what in unknown)}"
        return Validity((), warnings, tuple(LeftOut(name, reason) for name in NAMES.values()))
    counts = _Counts(table)
    floors = [math.nan] * 3
    if real is not None:
        (of_real,) = code_tables(real)
        if not unknown_in({"real": of_real}):
            floors = _Counts(of_real).shares()
    measures = []
    for name, share, floor, (found, of) in zip(
        NAMES, counts.shares(), floors, counts.by_patient(), strict=True
    ):
        low, high = share_interval(found, of, rng=rng, resamples=resamples)
        if share == 0 and not math.isnan(high):
            high = binomtest(0, len(records)).proportion_ci().high
        measures.append(
            Measure(
                NAMES[name],
                share,
                low,
                high,
                floor,
                SHARE,
                "low",
                f"The share of all {name} "
                + ("that are" if name == "codes" else "with at least one code that is")
                + " ruled out by the patient's sex or age at the first visit; the floor is that "
                "of real patients.",
            )
        )
    return Validity(tuple(measures), warnings, worst=counts.worst())


class _Counts:
    """What is impossible in a cohort, one entry for each code of each visit."""

    def __init__(self, table: CodeTable) -> None:
        self.table, self.of = table, code_meaning(table.system)
        entries = table.visits.tocoo()
        # A rule speaks of few codes; the rest need not be asked about one by one.
        ruled = [self.of.is_code(c) and self.of.who_can_have(c) is not None for c in table.codes]
        asked = np.array(ruled)[entries.col]
        visit, column = entries.row[asked], entries.col[asked].astype(np.int64)
        owner = table.owner[visit]
        assert table.ages is not None  # callers have asked `unknown_in` before
        assert table.sexes is not None
        who = (column * (MAX_AGE + 1) + table.ages[owner]) * 2 + (table.sexes[owner] == "F")
        cases, case = np.unique(who, return_inverse=True)
        reasons = [self._reason(number) for number in cases.tolist()]
        impossible = np.array([reason is not None for reason in reasons], dtype=bool)[case]
        self.visit, self.column = visit[impossible], column[impossible]
        self.reasons = [reasons[number] for number in case[impossible].tolist()]

    def _reason(self, case: int) -> str | None:
        case, female = divmod(case, 2)
        column, age = divmod(case, MAX_AGE + 1)
        code = self.table.codes[column]
        return self.of.why_impossible(code, age=age, sex="F" if female else "M")

    def by_patient(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For codes, visits, patients: how many of each patient's are impossible, of how many."""
        table = self.table
        n_visits, n_patients = len(table.owner), len(table)
        codes = np.bincount(self.visit, minlength=n_visits)
        n_codes = np.diff(table.visits.indptr)
        found = np.stack([codes, codes > 0, n_codes, np.ones(n_visits)])
        bad_codes, bad_visits, n_codes, n_of_visits = (
            np.bincount(table.owner, weights=each, minlength=n_patients) for each in found
        )
        return [
            (bad_codes, n_codes),
            (bad_visits, n_of_visits),
            ((bad_visits > 0).astype(float), np.ones(n_patients)),
        ]

    def shares(self) -> list[float]:
        """The three shares."""
        return [float(found.sum() / of.sum()) for found, of in self.by_patient()]

    def worst(self) -> tuple[WorstCode, ...]:
        """The codes that are impossible most often."""
        reasons: dict[int, Counter[str]] = {}
        for column, reason in zip(self.column.tolist(), self.reasons, strict=True):
            # Without the code and without one patient's age.
            rule = re.sub(r", not at \d+:", ":", reason.partition(" is ")[2])
            reasons.setdefault(column, Counter())[rule] += 1
        columns = sorted(reasons, key=lambda column: (-reasons[column].total(), column))
        worst = []
        for column in columns[:MOST_WORST]:
            code, of = self.table.codes[column], reasons[column]
            try:
                title = self.of.title(code)
            except InputError:
                title = ""
            worst.append(WorstCode(code, title, of.total(), of.most_common(1)[0][0]))
        return tuple(worst)
