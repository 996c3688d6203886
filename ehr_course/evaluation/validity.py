"""Could these patients have these codes? Age and sex rule some of them out.

The rules are applied to the age at the first visit. At a later one a patient may be older, so a
small share of real patients' codes comes out as impossible too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import binomtest

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
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
from ehr_course.records import AnyRecord, PatientRecord, Sex, system_of

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

    It is ``nan`` without any code; a code without a rule, or of another system, is possible.

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
    >>> [round(measure.value, 2) for measure in found.measures], found.worst[0].title
    ([0.33, 0.5, 1.0], 'Normal delivery')
    """
    check_patients("validity", {"records": records, "real": real})
    rng = generator(seed)
    warnings = tuple(too_few("synthetic cohort", len(records)))
    unknown = _unknown_in(records)
    if unknown:
        reason = f"the synthetic cohort has {' and '.join(f'no {what}' for what in unknown)}"
        return Validity((), warnings, tuple(LeftOut(name, reason) for name in NAMES.values()))
    counts, broken = _impossible_in(records)
    shares, floors = _shares(counts), [math.nan] * 3
    if real is not None and not _unknown_in(real):
        floors = _shares(_impossible_in(real)[0])
    measures = []
    for (things, name), share, floor, (found, of) in zip(
        NAMES.items(), shares, floors, counts, strict=True
    ):
        low, high = share_interval(found, of, rng=rng, resamples=resamples)
        if share == 0 and not math.isnan(high):
            high = binomtest(0, len(records)).proportion_ci().high
        meaning = (
            f"The share of all {things} "
            + ("that are" if things == "codes" else "with at least one code that is")
            + " ruled out by the patient's sex or age at the first visit; the floor is that of "
            "real patients."
        )
        measures.append(Measure(name, share, low, high, floor, SHARE, "low", meaning))
    worst = _worst(broken, system_of(records))
    return Validity(tuple(measures), warnings, worst=worst)


def _unknown_in(records: Sequence[AnyRecord]) -> list[str]:
    """Which of age and sex is not known of all patients."""
    return [what for what in ("age", "sex") if any(getattr(r, what) is None for r in records)]


def _impossible_in(records: Sequence[AnyRecord]) -> tuple[np.ndarray, dict[str, Counter[str]]]:
    """Count what cannot be.

    Returns:
        float64 (3, 2, patients): of codes, of visits and of patients how many are impossible, and
        of how many.
        Of each impossible code, how often each rule was broken.
    """
    of = code_meaning(system_of(records))

    @cache
    def has_rule(code: str) -> bool:
        return of.is_code(code) and of.who_can_have(code) is not None

    counts = []
    broken: dict[str, Counter[str]] = {}
    for record in records:
        assert record.age is not None and record.sex is not None
        bad_codes = bad_visits = n_codes = 0
        for visit in record.visits:
            n_bad = 0
            for code in visit.codes:
                if not has_rule(code):
                    continue
                reason = of.why_impossible(code, age=record.age, sex=record.sex)
                if reason is not None:
                    n_bad += 1
                    broken.setdefault(code, Counter())[reason] += 1
            n_codes += len(visit.codes)
            bad_codes += n_bad
            bad_visits += n_bad > 0
        n_visits = len(record.visits)
        counts.append(((bad_codes, n_codes), (bad_visits, n_visits), (bad_visits > 0, 1)))
    return np.array(counts, dtype=np.float64).transpose(1, 2, 0), broken


def _shares(counts: np.ndarray) -> list[float]:
    return [float(found.sum() / of.sum()) for found, of in counts]


def _worst(broken: dict[str, Counter[str]], system: CodeSystem) -> tuple[WorstCode, ...]:
    """The codes that are impossible most often."""
    of = code_meaning(system)
    worst = []
    for code in sorted(broken, key=lambda code: (-broken[code].total(), code))[:MOST_WORST]:
        rules: Counter[str] = Counter()
        for reason, count in broken[code].items():
            # Without the code and without one patient's age.
            rules[re.sub(r", not at \d+:", ":", reason.partition(" is ")[2])] += count
        try:
            title = of.title(code)
        except InputError:
            title = ""
        worst.append(WorstCode(code, title, rules.total(), rules.most_common(1)[0][0]))
    return tuple(worst)
