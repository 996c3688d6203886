"""The attacks that privacy makes, one function each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ehr_course.evaluation.adversarial_accuracy import adversarial_accuracies
from ehr_course.evaluation.attribute_disclosure import attribute_disclosure, common_columns
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.evaluation.copies import chance_of_absence, is_copy, rare_columns
from ehr_course.evaluation.measure import (
    FEWEST,
    RESAMPLES,
    Measure,
    drawn_counts,
    interval,
    share_interval,
)
from ehr_course.evaluation.membership import (
    distance_scores,
    likelihood_scores,
    membership_auroc,
    membership_interval,
)
from ehr_course.evaluation.privacy_meanings import MEANINGS
from ehr_course.records import PatientRecord

if TYPE_CHECKING:
    from ehr_course.models.prompt_bart import PromptBart
    from ehr_course.tokenizers.codes import CodeTokenizer


MOST = 10_000
"""At most so many patients of a cohort are compared with each other; more are drawn from."""

TARGETS = 2_000
"""At most so many patients are attacked by attribute disclosure and by likelihood."""

SPLITS = 5
"""Over so many random halves of the held-out patients a floor is the mean: one half stands in for
the synthetic cohort, the other for the patients that were never seen."""

MOST_IN_HALF = 2_000
"""So many patients of a half at most: of larger cohorts the splits hardly overlap."""

LONG = 5
"""From so many codes on, a record counts as long: two patients rarely share it by chance."""

RARE = 5
"""A code of at most so many training patients is rare."""


@dataclass
class Case:
    """The three cohorts, as records and as tables, and what is noticed on the way."""

    train: Sequence[PatientRecord]
    held_out: Sequence[PatientRecord]
    synthetic: Sequence[PatientRecord]
    seed: int
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tables = code_tables(self.train, self.held_out, self.synthetic)
        for name, table in zip(("train", "held-out", "synthetic"), self.tables, strict=True):
            if len(table) < FEWEST:
                n = "1 patient" if len(table) == 1 else f"{len(table)} patients"
                self.warnings.append(
                    f"The {name} cohort has {n}: no interval is given below {FEWEST}, "
                    "and the numbers say little."
                )
        real, _, written = (table.patients.sum(axis=0) > 0 for table in self.tables)
        if not (real & written).any():
            self.warnings.append(
                "The training and the synthetic patients have no code in common: every distance "
                "is at its largest. Are the codes written in the same way?"
            )
        both = len(set(self.train) & set(self.held_out))
        if both:
            self.warnings.append(
                f"{both} training patient{'s stand' if both > 1 else ' stands'} among the "
                "held-out ones too: memberships and floors say too little. Split by patient."
            )

    def rng(self, stream: int) -> np.random.Generator:
        """Random numbers of one attack, which no other attack disturbs."""
        return np.random.default_rng([self.seed, stream])


def _measure(
    name: str,
    value: float,
    span: tuple[float, float] = (math.nan, math.nan),
    floor: float = math.nan,
) -> Measure:
    better, meaning = MEANINGS[name]
    return Measure(name, value, *span, floor=floor, better=better, meaning=meaning)


def _some(table: CodeTable, n: int, rng: np.random.Generator) -> CodeTable:
    """As many patients of a table, drawn without replacement; all of them in their order."""
    return table if n >= len(table) else table.select(np.sort(rng.permutation(len(table))[:n]))


def _halves(table: CodeTable, rng: np.random.Generator) -> tuple[CodeTable, CodeTable]:
    """Two parts without a common patient, of equal size: halves, or what of them is compared."""
    order = rng.permutation(len(table))
    half = min(len(table) // 2, MOST_IN_HALF)
    return table.select(order[:half]), table.select(order[half : 2 * half])


# ------------------------------------------------------------------ adversarial accuracy


def adversarial(case: Case) -> list[Measure]:
    """Adversarial accuracy against both, and the privacy loss."""
    names = ("adversarial accuracy, train", "adversarial accuracy, held-out", "privacy loss")
    rng = case.rng(0)
    size = min(MOST, *map(len, case.tables))
    if size < 2:
        case.warnings.append("Adversarial accuracy needs two patients in each cohort.")
        return [_measure(name, math.nan) for name in names]
    train, held_out, synthetic = (_some(table, size, rng) for table in case.tables)
    values = adversarial_accuracies((train, held_out), synthetic)
    floors = [math.nan] * 3
    if size >= 4:
        found = []
        for _ in range(SPLITS):
            stand_in, others = _halves(held_out, rng)
            as_many = _some(train, len(others), rng)
            pair = adversarial_accuracies((as_many, others), stand_in)
            found.append([one.value for one in pair])
        of_train, of_others = np.mean(found, axis=0)
        floors = [of_train, of_others, of_others - of_train]
    spans = [(math.nan, math.nan)] * 3
    if size >= FEWEST:
        of_train, of_held_out, of_synthetic = (
            drawn_counts(size, RESAMPLES, rng) for _ in range(3)
        )
        drawn = [
            values[0].resampled(of_train, of_synthetic),
            values[1].resampled(of_held_out, of_synthetic),
        ]
        spans = [interval(resampled) for resampled in (*drawn, drawn[1] - drawn[0])]
    results = (values[0].value, values[1].value, values[1].value - values[0].value)
    return [_measure(*parts) for parts in zip(names, results, spans, floors, strict=True)]


# ------------------------------------------------------------------ membership inference


def by_distance(case: Case) -> list[Measure]:
    """Membership inference from the synthetic cohort."""
    rng = case.rng(1)
    train, held_out, synthetic = case.tables
    size = min(MOST, len(train), len(held_out))
    members, others = (_some(table, size, rng) for table in (train, held_out))
    scores = [distance_scores(patients, synthetic) for patients in (members, others)]
    floors = []
    for _ in range(SPLITS if len(others) >= 2 else 0):
        stand_in, asked = _halves(others, rng)
        as_many = _some(members, len(asked), rng)
        floors.append(
            membership_auroc(
                *(distance_scores(patients, stand_in) for patients in (as_many, asked))
            )
        )
    floor = _mean(np.array(floors))
    span = membership_interval(*scores, rng=rng)
    return [_measure("membership by distance", membership_auroc(*scores), span, floor)]


def by_likelihood(case: Case, model: PromptBart, tokenizer: CodeTokenizer) -> list[Measure]:
    """Membership inference from the model."""
    name, rng = "membership by likelihood", case.rng(2)
    cohorts = []
    for cohort in (case.train, case.held_out):
        readable = [
            record
            for record in cohort
            if all(code in tokenizer for code in record.codes)
            and 2 + len(record.codes) + 2 * len(record.visits) <= model.max_tokens
        ]
        chosen = np.sort(rng.permutation(len(readable))[:TARGETS]).tolist()
        cohorts.append([readable[row] for row in chosen])
        if len(readable) < len(cohort):
            what = "training" if cohort is case.train else "held-out"
            case.warnings.append(
                f"{name.capitalize()} leaves out {len(cohort) - len(readable)} of {len(cohort)} "
                f"{what} patients: they have codes that the model does not know, or are longer "
                "than it reads."
            )
    if not all(cohorts):
        case.warnings.append(f"No patients are left for {name}.")
        return [_measure(name, math.nan)]
    members, others = (likelihood_scores(model, tokenizer, cohort) for cohort in cohorts)
    floor = math.nan
    if len(others) >= 2:
        order = rng.permutation(len(others))
        floor = membership_auroc(*np.array_split(others[order], 2))
    span = membership_interval(members, others, rng=rng)
    return [_measure(name, membership_auroc(members, others), span, floor)]


# ------------------------------------------------------------------ codes


def attributes(case: Case) -> list[Measure]:
    """Attribute disclosure: F1 and sensitivity."""
    rng = case.rng(3)
    train, held_out, synthetic = case.tables
    known = common_columns(train)
    size = min(MOST, len(held_out), len(synthetic))
    targets = _some(train, TARGETS, rng)
    attack, floor = (
        attribute_disclosure(targets, _some(cohort, size, rng), known)
        for cohort in (synthetic, held_out)
    )
    if math.isnan(attack.sensitivity):
        case.warnings.append("No training patient has a code that could be disclosed.")
    spans = [
        share_interval(*parts, rng=rng)
        for parts in (attack.f1_parts(), attack.sensitivity_parts())
    ]
    return [
        _measure("attribute disclosure F1", attack.f1, spans[0], floor.f1),
        _measure(
            "attribute disclosure sensitivity", attack.sensitivity, spans[1], floor.sensitivity
        ),
    ]


def copies(case: Case) -> list[Measure]:
    """Exact copies, of all records and of long ones."""
    rng = case.rng(4)
    copied = is_copy(case.synthetic, case.train)
    by_chance = is_copy(case.held_out, case.train)
    every = np.ones(len(copied), dtype=bool)
    long, long_held_out = (
        np.array([len(record.codes) >= LONG for record in cohort])
        for cohort in (case.synthetic, case.held_out)
    )
    if not long.any():
        case.warnings.append(f"No synthetic patient has {LONG} codes or more.")
    measures = []
    for name, chosen, of_held_out in (
        ("exact copies", every, np.ones(len(by_chance), dtype=bool)),
        ("exact copies of long records", long, long_held_out),
    ):
        span = (math.nan, math.nan)
        if chosen.sum() >= FEWEST:
            span = share_interval(copied[chosen], every[chosen], rng=rng)
        measures.append(_measure(name, _mean(copied[chosen]), span, _mean(by_chance[of_held_out])))
    return measures


def rare_codes(case: Case) -> list[Measure]:
    """Rare codes that are absent."""
    name = "rare codes absent"
    train, held_out, synthetic = case.tables
    rare = rare_columns(train, most=RARE)
    if not len(rare):
        case.warnings.append(f"No code has {RARE} training patients or fewer.")
        return [_measure(name, math.nan)]
    if len(rare) < FEWEST:
        case.warnings.append(f"{len(rare)} codes are rare: no interval is given below {FEWEST}.")
    size = min(len(held_out), len(synthetic))
    absent = chance_of_absence(synthetic, rare, size)
    span = share_interval(absent, np.ones(len(rare)), rng=case.rng(5))
    return [
        _measure(name, absent.mean(), span, chance_of_absence(held_out, rare, size).mean()),
    ]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
