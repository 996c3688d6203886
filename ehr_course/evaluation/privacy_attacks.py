"""The attacks that privacy makes, one function each, and what each of their numbers says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import binomtest

from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.evaluation.disclosure import (
    Disclosure,
    attribute_disclosure,
    chance_of_absence,
    common_columns,
    copies_by_group,
    rare_columns,
)
from ehr_course.evaluation.measure import (
    FEWEST,
    GROUPS,
    RESAMPLES,
    SHARE,
    Measure,
    drawn_counts,
    interval_around,
    jackknife_error,
    random_groups,
    too_few,
)
from ehr_course.evaluation.membership import (
    distance_scores,
    likelihood_scores,
    membership_auroc,
    membership_interval,
)
from ehr_course.evaluation.nearest_neighbours import adversarial_accuracies
from ehr_course.records import AnyRecord

if TYPE_CHECKING:
    from ehr_course.models.prefix_tuning import PrefixTuned
    from ehr_course.models.prompt_bart import PromptBart
    from ehr_course.tokenizers.codes import CodeTokenizer


NAMES = ("training", "held-out", "synthetic")
"""What the three cohorts are called."""

MOST = 10_000
"""At most so many patients of a cohort are compared with each other; more are drawn from."""

TARGETS = 2_000
"""At most so many patients are attacked by attribute disclosure and by likelihood."""

ERROR_TARGETS = 500
"""Of those, so many at most are attacked again and again to see how far the luck of the cohorts
goes."""

LONG = 5
"""From so many codes on, a record counts as long: two patients rarely share it by chance."""

RARE = 5
"""A code of at most so many training patients is rare."""


@dataclass
class Case:
    """The three cohorts, as records and as tables, and what is noticed on the way."""

    train: Sequence[AnyRecord]
    held_out: Sequence[AnyRecord]
    synthetic: Sequence[AnyRecord]
    seed: int
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tables = code_tables(self.train, self.held_out, self.synthetic)
        for name, table in zip(NAMES, self.tables, strict=True):
            self.warnings += too_few(f"{name} cohort", len(table))
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
    unit = SHARE if name in SHARES else ""
    return Measure(name, value, *span, floor=floor, unit=unit, better=better, meaning=meaning)


def _some(table: CodeTable, n: int, rng: np.random.Generator) -> CodeTable:
    """As many patients of a table, drawn without replacement; all of them in their order."""
    return table if n >= len(table) else table.select(np.sort(rng.permutation(len(table))[:n]))


# ------------------------------------------------------------------ adversarial accuracy


def adversarial(case: Case) -> list[Measure]:
    """Adversarial accuracy against both, and the privacy loss."""
    names = ("adversarial accuracy, train", "adversarial accuracy, held-out", "privacy loss")
    floors = (0.5, 0.5, 0.0)
    rng = case.rng(0)
    size = min(MOST, *map(len, case.tables))
    if size < 2:
        small = NAMES[list(map(len, case.tables)).index(size)]
        case.warnings.append(
            f"Adversarial accuracy needs two patients in each cohort: the {small} cohort has one."
        )
        return [_measure(name, math.nan) for name in names]
    train, held_out, synthetic = (_some(table, size, rng) for table in case.tables)
    groups = random_groups(size, rng) if size >= FEWEST else None
    of_train, of_held_out = adversarial_accuracies((train, held_out), synthetic, groups=groups)
    parts = (
        (of_train.value, of_train.left_out),
        (of_held_out.value, of_held_out.left_out),
        (of_held_out.value - of_train.value, of_held_out.left_out - of_train.left_out),
    )
    measures = []
    for name, floor, (value, left_out) in zip(names, floors, parts, strict=True):
        span = (math.nan, math.nan)
        if groups is not None:
            span = interval_around(value, jackknife_error(left_out))
        measures.append(_measure(name, value, span, floor))
    return measures


# ------------------------------------------------------------------ membership inference


def by_distance(case: Case) -> list[Measure]:
    """Membership inference from the synthetic cohort."""
    rng = case.rng(1)
    train, held_out, synthetic = case.tables
    size = min(MOST, len(train), len(held_out))
    members, others = (_some(table, size, rng) for table in (train, held_out))
    scores = [distance_scores(patients, synthetic) for patients in (members, others)]
    span = membership_interval(*scores, rng=rng)
    return [_measure("membership by distance", membership_auroc(*scores), span, 0.5)]


def by_likelihood(
    case: Case, model: PromptBart | PrefixTuned, tokenizer: CodeTokenizer
) -> list[Measure]:
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
    span = membership_interval(members, others, rng=rng)
    return [_measure(name, membership_auroc(members, others), span, 0.5)]


# ------------------------------------------------------------------ codes


def attributes(case: Case) -> list[Measure]:
    """Attribute disclosure: F1 and sensitivity."""
    rng = case.rng(3)
    train, held_out, synthetic = case.tables
    known = common_columns(train)
    size = min(MOST, len(held_out), len(synthetic))
    targets = _some(train, TARGETS, rng)
    # The held-out ones first: whom the floor asks does not depend on the synthetic cohort.
    by_chance = _some(held_out, size, rng)
    asked = (_some(synthetic, size, rng), by_chance)
    attack, floor = (attribute_disclosure(targets, cohort, known) for cohort in asked)
    if math.isnan(attack.sensitivity):
        case.warnings.append("No training patient has a code that could be disclosed.")
    errors = [[math.nan], [math.nan]]
    if min(size, len(targets)) >= FEWEST:
        errors = _attribute_errors(targets, asked, known, rng)
    values = (attack.f1, floor.f1), (attack.sensitivity, floor.sensitivity)
    names = "attribute disclosure F1", "attribute disclosure sensitivity"
    return [
        _measure(name, value, interval_around(value, *error), real)
        for name, (value, real), error in zip(names, values, errors, strict=True)
    ]


def _attribute_errors(
    targets: CodeTable,
    asked: tuple[CodeTable, CodeTable],
    known: np.ndarray,
    rng: np.random.Generator,
) -> list[list[float]]:
    """How far F1 and sensitivity lie from their floors by the luck of targets, and of cohorts."""
    some = _some(targets, ERROR_TARGETS, rng)
    groups = random_groups(len(asked[0]), rng)
    left_out = []
    for group in range(GROUPS):
        kept = np.flatnonzero(groups != group)
        found = [attribute_disclosure(some, cohort.select(kept), known) for cohort in asked]
        left_out.append([of[0] - of[1] for of in zip(*map(_scores, found), strict=True)])
    of_cohorts = [jackknife_error(values) for values in zip(*left_out, strict=True)]
    found = [attribute_disclosure(some, cohort, known) for cohort in asked]
    drawn = drawn_counts(len(some), RESAMPLES, rng).astype(np.float64)
    parts = [(of.f1_parts(), of.sensitivity_parts()) for of in found]
    errors = []
    for kind, error in enumerate(of_cohorts):
        with np.errstate(divide="ignore", invalid="ignore"):
            ours, real = ((drawn @ of[kind][0]) / (drawn @ of[kind][1]) for of in parts)
        differences = ours - real
        of_targets = float(differences.std()) if np.isfinite(differences).all() else math.nan
        errors.append([error, math.sqrt(len(some) / len(targets)) * of_targets])
    return errors


def _scores(found: Disclosure) -> tuple[float, float]:
    return found.f1, found.sensitivity


def copies(case: Case) -> list[Measure]:
    """Exact copies, of all records and of long ones."""
    rng = case.rng(4)
    cohorts = (case.train, case.held_out, case.synthetic)
    groups = [random_groups(len(cohort), rng) for cohort in cohorts]
    known = copies_by_group(case.synthetic, case.train, groups[0])
    by_chance = copies_by_group(case.held_out, case.train, groups[0])
    long, long_held_out = (
        np.array([len(record.codes) >= LONG for record in cohort])
        for cohort in (case.synthetic, case.held_out)
    )
    if not long.any():
        case.warnings.append(f"No synthetic patient has {LONG} codes or more.")
    measures = []
    for name, chosen, of_held_out in (
        ("exact copies", np.ones_like(long), np.ones_like(long_held_out)),
        ("exact copies of long records", long, long_held_out),
    ):
        parts = (
            (known[chosen], groups[2][chosen]),
            (by_chance[of_held_out], groups[1][of_held_out]),
        )
        value, floor = (_copied(copied, of, None) for copied, of in parts)
        span = (math.nan, math.nan)
        if min(map(len, (*cohorts, known[chosen], by_chance[of_held_out]))) >= FEWEST:
            left_out = [
                _copied(*parts[0], group) - _copied(*parts[1], group) for group in range(GROUPS)
            ]
            span = interval_around(value, jackknife_error(left_out))
            if value == 0:  # leaving out finds nothing either
                high = binomtest(0, int(chosen.sum())).proportion_ci().high
                span = span[0], max(span[1], high)
            span = max(0.0, span[0]), span[1]
        measures.append(_measure(name, value, span, floor))
    return measures


def _copied(copied: np.ndarray, groups: np.ndarray, without: int | None) -> float:
    """The share of patients who are copies, one group of all cohorts left out."""
    rows, columns = groups != without, np.arange(GROUPS) != without
    return _mean(copied[rows][:, columns].any(axis=1))


def rare_codes(case: Case) -> list[Measure]:
    """Rare codes that are absent."""
    name = "rare codes absent"
    train, held_out, synthetic = case.tables
    rare = rare_columns(train, most=RARE)
    if not len(rare):
        case.warnings.append(f"No code has {RARE} training patients or fewer.")
        return [_measure(name, math.nan)]
    size = min(len(held_out), len(synthetic))
    absent, by_chance = (chance_of_absence(table, rare, size) for table in (synthetic, held_out))
    span = (math.nan, math.nan)
    if len(rare) >= FEWEST and size >= FEWEST:
        error = float((absent - by_chance).std(ddof=1)) / math.sqrt(len(rare))
        span = interval_around(absent.mean(), error)
    elif size >= FEWEST:
        case.warnings.append(
            f"{len(rare)} codes have {RARE} training patients or fewer: no interval is given for "
            f"{name} below {FEWEST} codes."
        )
    return [_measure(name, absent.mean(), span, by_chance.mean())]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


# ------------------------------------------------------------------ meanings


SHARES = (
    "attribute disclosure sensitivity",
    "exact copies",
    "exact copies of long records",
    "rare codes absent",
)
"""The measures that are shares of patients or of codes; the others are scores without a unit."""

MEANINGS: dict[str, tuple[Literal["low", "high", "near"], str]] = {
    "adversarial accuracy, train": (
        "near",
        "How well synthetic and training patients are told apart by their nearest neighbour. 0.5: "
        "not at all; near 1: they lie apart; near 0: the synthetic ones lie on the training ones.",
    ),
    "adversarial accuracy, held-out": (
        "near",
        "The same against patients that the model never saw.",
    ),
    "privacy loss": (
        "near",
        "The adversarial accuracy against held-out patients minus that against training "
        "patients. Above 0 the synthetic patients lie nearer to those whom the model learned "
        "from.",
    ),
    "membership by distance": (
        "near",
        "How well an attacker who has the synthetic cohort tells training patients from "
        "held-out ones, by the distance to the nearest synthetic patient. AUROC: 0.5 is a guess, "
        "1 is certainty.",
    ),
    "membership by likelihood": (
        "near",
        "How well an attacker who has the model itself, not only its patients, tells training "
        "from held-out patients by the log-likelihood of their record per token. AUROC: 0.5 is a "
        "guess.",
    ),
    "attribute disclosure F1": (
        "low",
        "An attacker knows a training patient's frequent codes and guesses the others from the "
        "synthetic patients nearest in them. The floor is what the same attack gets from as many "
        "held-out patients: statistics alone.",
    ),
    "attribute disclosure sensitivity": (
        "low",
        "The share of the training patients' less frequent codes that this attack guesses.",
    ),
    "exact copies": (
        "low",
        "The share of synthetic patients with exactly the visits of a training patient. The floor "
        "is the share of held-out patients with them: short records meet by chance.",
    ),
    "exact copies of long records": (
        "low",
        "The same among patients with five codes or more, where chance explains little.",
    ),
    "rare codes absent": (
        "near",
        "The share of codes of at most five training patients that are absent from as many "
        "synthetic patients as are compared. Far above the floor rare diseases are lost, far "
        "below it they were learned by heart. The interval is over codes.",
    ),
}
