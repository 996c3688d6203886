"""Does a synthetic cohort give away the patients that it was made from?

At the floor it gives away no more than real patients outside the training data do, or theory says
0.5 or 0. Other attacks may do better: only differential privacy gives a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import binomtest
from tqdm import tqdm

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.evaluation.disclosure import (
    attribute_disclosure,
    chance_of_absence,
    common_columns,
    copies_by_group,
    distance_scores,
    likelihood_scores,
    membership_auroc,
    membership_interval,
    rare_columns,
    ratio,
    visits_of,
)
from ehr_course.evaluation.distances import adversarial_accuracies
from ehr_course.evaluation.measure import (
    FEWEST,
    GROUPS,
    RESAMPLES,
    SHARE,
    Judgement,
    Measure,
    check_patients,
    drawn_counts,
    interval_around,
    jackknife_error,
    random_groups,
    too_few,
)
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
"""At most so many of them are attacked again and again, to see how much luck the cohorts have."""

LONG = 5
"""From so many codes on, a record counts as long: two patients rarely share it by chance."""

RARE = 5
"""A code of at most so many training patients is rare."""

UNKNOWN = (math.nan, math.nan)
"""The interval where there are too few patients."""


def privacy(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    model: PromptBart | PrefixTuned | None = None,
    tokenizer: CodeTokenizer | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Judgement:
    """Attack a synthetic cohort, as MEANINGS says of each measure.

    At most 10,000 patients of a cohort are compared with each other, and 2,000 are attacked one by
    one. Adversarial accuracy (Yale et al. 2020) and rare codes compare cohorts at the size of the
    smallest; where that is small beside the cohorts, accuracy sees copies less well. Intervals
    reflect the luck of all patients concerned, by leaving out a tenth of them at a time, for
    membership by drawing them again, and for rare codes from the spread over codes.

    Args:
        held_out: patients of the same hospital that the model never saw.
        model, tokenizer: the trained model, to attack it by likelihood too.

    Returns:
        The measures. A number that cannot be had from so few patients is ``nan``, and a warning
        says so; with fewer than 30 patients no interval is given.
    """
    check_patients("privacy", {"train": train, "held_out": held_out, "synthetic": synthetic})
    if (model is None) != (tokenizer is None):
        raise InputError(
            "privacy",
            "tokenizer" if tokenizer is None else "model",
            "it is missing",
            "Give a model and its tokenizer, or neither.",
        )
    case = _Case(train, held_out, synthetic, seed)
    attacks = [_adversarial, _by_distance, _attributes, _copies, _rare_codes]
    if model is not None and tokenizer is not None:
        attacks.insert(2, lambda case: _by_likelihood(case, model, tokenizer))
    measures: list[Measure] = []
    hidden = {} if progress else {"disable": True}
    for attack in tqdm(attacks, desc="privacy", **hidden):
        measures += attack(case)
    return Judgement(tuple(measures), tuple(case.warnings))


@dataclass
class _Case:
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
        """The random numbers of one attack, which no other attack disturbs."""
        return np.random.default_rng([self.seed, stream])


def _measure(
    name: str, value: float, span: tuple[float, float] = UNKNOWN, floor: float = math.nan
) -> Measure:
    better, unit, meaning = MEANINGS[name]
    return Measure(name, value, *span, floor=floor, unit=unit, better=better, meaning=meaning)


def _adversarial(case: _Case) -> list[Measure]:
    """Adversarial accuracy against both real cohorts, and the privacy loss."""
    names = ("adversarial accuracy, train", "adversarial accuracy, held-out", "privacy loss")
    rng = case.rng(0)
    size = min(MOST, *map(len, case.tables))
    if size < 2:
        small = NAMES[list(map(len, case.tables)).index(size)]
        case.warnings.append(
            f"Adversarial accuracy needs two patients in each cohort: the {small} cohort has one."
        )
        return [_measure(name, math.nan) for name in names]
    train, held_out, synthetic = (table.draw(size, rng) for table in case.tables)
    groups = random_groups(size, rng) if size >= FEWEST else None
    of_train, of_held_out = adversarial_accuracies((train, held_out), synthetic, groups=groups)
    parts = (
        (0.5, of_train.value, of_train.left_out),
        (0.5, of_held_out.value, of_held_out.left_out),
        (0.0, of_held_out.value - of_train.value, of_held_out.left_out - of_train.left_out),
    )
    return [
        _measure(
            name,
            value,
            UNKNOWN if groups is None else interval_around(value, jackknife_error(left_out)),
            floor,
        )
        for name, (floor, value, left_out) in zip(names, parts, strict=True)
    ]


def _by_distance(case: _Case) -> list[Measure]:
    """Membership inference from the synthetic cohort."""
    rng = case.rng(1)
    train, held_out, synthetic = case.tables
    size = min(MOST, len(train), len(held_out))
    members, others = (table.draw(size, rng) for table in (train, held_out))
    scores = [distance_scores(patients, synthetic) for patients in (members, others)]
    span = membership_interval(*scores, rng=rng)
    return [_measure("membership by distance", membership_auroc(*scores), span, 0.5)]


def _by_likelihood(
    case: _Case, model: PromptBart | PrefixTuned, tokenizer: CodeTokenizer
) -> list[Measure]:
    """Membership inference from the model."""
    name, rng = "membership by likelihood", case.rng(2)
    cohorts = []
    for what, cohort in (("training", case.train), ("held-out", case.held_out)):
        readable = [
            record
            for record in cohort
            if all(code in tokenizer for code in record.codes)
            and 2 + len(record.codes) + 2 * len(record.visits) <= model.max_tokens
        ]
        chosen = np.sort(rng.permutation(len(readable))[:TARGETS]).tolist()
        cohorts.append([readable[row] for row in chosen])
        if len(readable) < len(cohort):
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


def _attributes(case: _Case) -> list[Measure]:
    """Attribute disclosure: F1 and sensitivity."""
    rng = case.rng(3)
    train, held_out, synthetic = case.tables
    known = common_columns(train)
    size = min(MOST, len(held_out), len(synthetic))
    targets = train.draw(TARGETS, rng)
    # The held-out ones first: whom the floor asks does not depend on the synthetic cohort.
    by_chance = held_out.draw(size, rng)
    asked = (synthetic.draw(size, rng), by_chance)
    attack, floor = (attribute_disclosure(targets, cohort, known) for cohort in asked)
    if math.isnan(ratio(attack.sensitivity)):
        case.warnings.append("No training patient has a code that could be disclosed.")
    errors = [[math.nan], [math.nan]]
    if min(size, len(targets)) >= FEWEST:
        errors = _attribute_errors(targets, asked, known, rng)
    values = [
        (ratio(attack.f1), ratio(floor.f1)),
        (ratio(attack.sensitivity), ratio(floor.sensitivity)),
    ]
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
    """How far F1 and sensitivity lie from their floors by the luck of cohorts, and of targets."""
    some = targets.draw(ERROR_TARGETS, rng)
    groups = random_groups(len(asked[0]), rng)
    left_out = []
    for group in range(GROUPS):
        kept = np.flatnonzero(groups != group)
        ours, real = (attribute_disclosure(some, cohort.select(kept), known) for cohort in asked)
        left_out.append(
            (
                ratio(ours.f1) - ratio(real.f1),
                ratio(ours.sensitivity) - ratio(real.sensitivity),
            )
        )
    of_cohorts = [jackknife_error(values) for values in zip(*left_out, strict=True)]
    ours, real = (attribute_disclosure(some, cohort, known) for cohort in asked)
    drawn = drawn_counts(len(some), RESAMPLES, rng).astype(np.float64)
    errors = []
    for error, *parts in zip(
        of_cohorts, (ours.f1, ours.sensitivity), (real.f1, real.sensitivity), strict=True
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            of_ours, of_real = ((drawn @ above) / (drawn @ below) for above, below in parts)
        differences = of_ours - of_real
        of_targets = float(differences.std()) if np.isfinite(differences).all() else math.nan
        errors.append([error, math.sqrt(len(some) / len(targets)) * of_targets])
    return errors


def _copies(case: _Case) -> list[Measure]:
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
        ours = known[chosen], groups[2][chosen]
        real = by_chance[of_held_out], groups[1][of_held_out]
        value, floor = _copied(*ours, None), _copied(*real, None)
        span = UNKNOWN
        if min(map(len, (*cohorts, *ours, *real))) >= FEWEST:
            left_out = [_copied(*ours, group) - _copied(*real, group) for group in range(GROUPS)]
            low, high = interval_around(value, jackknife_error(left_out))
            if value == 0:  # leaving out finds nothing either
                high = max(high, binomtest(0, int(chosen.sum())).proportion_ci().high)
            span = max(0.0, low), high
        measures.append(_measure(name, value, span, floor))
    return measures


def _copied(copied: np.ndarray, groups: np.ndarray, without: int | None) -> float:
    """The share of patients who are copies, one group of all cohorts left out."""
    rows, columns = groups != without, np.arange(GROUPS) != without
    found = copied[rows][:, columns].any(axis=1)
    return float(found.mean()) if len(found) else math.nan


def _rare_codes(case: _Case) -> list[Measure]:
    """Rare codes that are absent."""
    name = "rare codes absent"
    train, held_out, synthetic = case.tables
    rare = rare_columns(train, most=RARE)
    if not len(rare):
        case.warnings.append(f"No code has {RARE} training patients or fewer.")
        return [_measure(name, math.nan)]
    size = min(len(held_out), len(synthetic))
    absent, by_chance = (chance_of_absence(table, rare, size) for table in (synthetic, held_out))
    span = UNKNOWN
    if len(rare) >= FEWEST and size >= FEWEST:
        error = float((absent - by_chance).std(ddof=1)) / math.sqrt(len(rare))
        span = interval_around(absent.mean(), error)
    elif size >= FEWEST:
        case.warnings.append(
            f"{len(rare)} codes have {RARE} training patients or fewer: no interval is given for "
            f"{name} below {FEWEST} codes."
        )
    return [_measure(name, absent.mean(), span, by_chance.mean())]


MEANINGS: dict[str, tuple[Literal["low", "high", "near"], str, str]] = {
    "adversarial accuracy, train": (
        "near",
        "",
        "How well synthetic and training patients are told apart by their nearest neighbour. 0.5: "
        "not at all; near 1: they lie apart; near 0: the synthetic ones lie on the training ones.",
    ),
    "adversarial accuracy, held-out": (
        "near",
        "",
        "The same against patients that the model never saw.",
    ),
    "privacy loss": (
        "near",
        "",
        "The adversarial accuracy against held-out patients minus that against training "
        "patients. Above 0 the synthetic patients lie nearer to those whom the model learned "
        "from.",
    ),
    "membership by distance": (
        "near",
        "",
        "How well an attacker who has the synthetic cohort tells training patients from "
        "held-out ones, by the distance to the nearest synthetic patient. AUROC: 0.5 is a guess, "
        "1 is certainty.",
    ),
    "membership by likelihood": (
        "near",
        "",
        "How well an attacker who has the model itself, not only its patients, tells training "
        "from held-out patients by the log-likelihood of their record per token. AUROC: 0.5 is a "
        "guess.",
    ),
    "attribute disclosure F1": (
        "low",
        "",
        "An attacker knows a training patient's frequent codes and guesses the others from the "
        "synthetic patients nearest in them. The floor is what the same attack gets from as many "
        "held-out patients: statistics alone.",
    ),
    "attribute disclosure sensitivity": (
        "low",
        SHARE,
        "The share of the training patients' less frequent codes that this attack guesses.",
    ),
    "exact copies": (
        "low",
        SHARE,
        "The share of synthetic patients with exactly the visits of a training patient. The floor "
        "is the share of held-out patients with them: short records meet by chance.",
    ),
    "exact copies of long records": (
        "low",
        SHARE,
        "The same among patients with five codes or more, where chance explains little.",
    ),
    "rare codes absent": (
        "near",
        SHARE,
        "The share of codes of at most five training patients that are absent from as many "
        "synthetic patients as are compared. Far above the floor rare diseases are lost, far "
        "below it they were learned by heart. The interval is over codes.",
    ),
}
"""Of each measure which values are better, the unit, and what it says."""

# ------------------------------------------------------------------ copies by chance


WITH_A_COPY = "training patients with a copy"
"""What the measure is called."""


def patients_with_a_copy(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    confidence: float = 0.95,
) -> Measure:
    """The share of training patients with a twin in a cohort, 0 to 1; the floor is held-out ones'.

    Short records have twins in every hospital. The same synthetic patients are looked up for both
    cohorts, so only what training patients have above held-out ones is memory, even if the model
    writes too many short records. The interval is that of the difference of two shares (Newcombe
    1998, method 10), moved to the value; with fewer than 30 patients in a cohort there is none.
    """
    cohorts = {"train": train, "held_out": held_out, "synthetic": synthetic}
    check_patients("patients_with_a_copy", cohorts)
    written = {visits_of(record) for record in synthetic}
    shares, reaches = [], []
    for cohort in (train, held_out):
        copied = sum(visits_of(record) in written for record in cohort)
        span = binomtest(copied, len(cohort)).proportion_ci(confidence, method="wilson")
        share = copied / len(cohort)
        shares.append(share)
        reaches.append((share - span.low, span.high - share))
    value, floor = shares
    low = high = math.nan
    if min(map(len, cohorts.values())) >= FEWEST:
        (below, above), (floor_below, floor_above) = reaches
        low = max(0.0, value - math.hypot(below, floor_above))
        high = min(1.0, value + math.hypot(above, floor_below))
    meaning = (
        "The share of training patients whose visits are exactly those of a synthetic patient; "
        "the floor is the same of held-out patients, which is what chance makes."
    )
    return Measure(WITH_A_COPY, value, low, high, floor, SHARE, "low", meaning)
