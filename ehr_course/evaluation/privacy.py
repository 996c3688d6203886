"""Does a synthetic cohort, or its model, give away the patients that it was made from?

At the floor it gives away no more than real patients outside the training data do, or theory says
0.5 or 0. Other attacks may do better: only differential privacy gives a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.evaluation.distances import (
    adversarial_accuracies,
    nearest_distances,
    similarities,
)
from ehr_course.evaluation.measure import (
    FEWEST,
    GROUPS,
    RESAMPLES,
    SHARE,
    UNKNOWN,
    Judgement,
    Measure,
    check_patients,
    drawn_counts,
    interval,
    interval_around,
    jackknife_error,
    random_groups,
    rows_at_random,
    too_few,
    weighted_ranking,
)
from ehr_course.evaluation.perplexity import ScoredRecords
from ehr_course.records import AnyRecord, PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

MOST = 10_000
"""The most patients of a cohort compared with each other; of more, a sample is drawn."""

TARGETS = 2_000
"""The most patients attacked by attribute disclosure and by likelihood."""

ERROR_TARGETS = 500
"""The most of them attacked repeatedly, to see how much luck the cohorts have."""

LONG = 5
"""The fewest codes of a long record, which two patients rarely share by chance."""

RARE = 5
"""The most training patients that a rare code may have."""


def privacy(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    model: Any = None,
    tokenizer: CodeTokenizer | None = None,
    seed: int = 0,
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
            "it is missing, and the other one is given",
            "Give a model and its tokenizer, or neither.",
        )
    case = _Case({"training": train, "held-out": held_out, "synthetic": synthetic}, seed)
    measures = [*_adversarial(case), *_by_distance(case)]
    if model is not None and tokenizer is not None:
        measures += _by_likelihood(case, model, tokenizer)
    measures += [*_attributes(case), *_copies(case), *_rare_codes(case)]
    return Judgement(tuple(measures), tuple(case.warnings))


@dataclass
class _Case:
    """The training, the held-out and the synthetic patients, and what is noticed on the way."""

    cohorts: dict[str, Sequence[AnyRecord]]
    seed: int
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        train, held_out, _ = self.cohorts.values()
        self.tables = code_tables(*self.cohorts.values())
        for name, cohort in self.cohorts.items():
            self.warnings += too_few(f"{name} cohort", len(cohort))
        real, _, written = (table.patients.sum(axis=0) > 0 for table in self.tables)
        if not (real & written).any():
            self.warnings.append(
                "The training and the synthetic patients have no code in common: every distance "
                "is at its largest. Are the codes written in the same way?"
            )
        both = len(set(train) & set(held_out))
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
        small = next(name for name, cohort in case.cohorts.items() if len(cohort) == size)
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


# ------------------------------------------------------------------ membership


def _by_distance(case: _Case) -> list[Measure]:
    """Membership inference from the synthetic cohort."""
    rng = case.rng(1)
    train, held_out, synthetic = case.tables
    size = min(MOST, len(train), len(held_out))
    members, others = (table.draw(size, rng) for table in (train, held_out))
    scores = [distance_scores(patients, synthetic) for patients in (members, others)]
    span = membership_interval(*scores, rng=rng)
    return [_measure("membership by distance", membership_auroc(*scores), span, 0.5)]


def _by_likelihood(case: _Case, model: Any, tokenizer: CodeTokenizer) -> list[Measure]:
    """Membership inference from the model."""
    name, rng = "membership by likelihood", case.rng(2)
    cohorts = []
    for what in ("training", "held-out"):
        cohort = case.cohorts[what]
        readable = [
            record
            for record in cohort
            if all(code in tokenizer for code in record.codes)
            and 2 + len(record.codes) + 2 * len(record.visits) <= model.max_tokens
        ]
        chosen = rows_at_random(TARGETS, len(readable), rng).tolist()
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


def distance_scores(patients: CodeTable, synthetic: CodeTable) -> np.ndarray:
    """Minus the distance to the nearest synthetic patient: larger for a likelier member.

    Both tables are from one call of ``code_tables``; the result is float64 (patients,), 0 or less.
    """
    return -nearest_distances(patients, synthetic)[0]


def likelihood_scores(
    model: Any, tokenizer: CodeTokenizer, records: Sequence[PatientRecord]
) -> np.ndarray:
    """The model's log-likelihood of each record in nats per token: larger for a likelier member.

    Float64 (records,), 0 or less. Per token, because long records are less likely as a whole. The
    tokenizer must know every code.
    """
    scored = ScoredRecords(model, tokenizer, records)
    nats = np.add.reduceat(scored.nats_in_order(), scored.tokens.offsets[:-1])
    return -nats / (scored.tokens.lengths - 1)  # <BOS> is given, all other tokens are scored


def membership_auroc(members: np.ndarray, others: np.ndarray) -> float:
    """How well a score tells members from others: the area under the ROC curve, 0.5 for a guess.

    It is the probability, 0 to 1, that a patient that the model learned from, float (members,),
    scores higher than another, float (others,); equal scores count a half.

    >>> membership_auroc(np.array([-0.1, -0.4]), np.array([-0.4, -0.9]))
    0.875
    """
    scores, labels = _labelled(members, others)
    return float(roc_auc_score(labels, scores))


def membership_interval(
    members: np.ndarray, others: np.ndarray, *, rng: np.random.Generator
) -> tuple[float, float]:
    """The 95 % bootstrap interval of ``membership_auroc``; ``nan`` below 30 members or others."""
    scores, labels = _labelled(members, others)
    if min(len(members), len(others)) < FEWEST:
        return UNKNOWN
    values = []
    for _ in range(0, RESAMPLES, 50):  # bounds the memory
        weights = [drawn_counts(len(part), 50, rng).T for part in (members, others)]
        values.append(weighted_ranking(scores, labels, np.concatenate(weights))[0])
    return interval(np.concatenate(values))


def _labelled(members: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    check_patients("membership inference", {"members": members, "others": others})
    labels = np.arange(len(members) + len(others)) < len(members)
    return np.concatenate([members, others]), labels


# ------------------------------------------------------------------ attributes


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
    values, floors = (ratios(attribute_disclosure(targets, cohort, known)) for cohort in asked)
    if math.isnan(values[1]):
        case.warnings.append("No training patient has a code that could be disclosed.")
    errors = [[math.nan], [math.nan]]
    if min(size, len(targets)) >= FEWEST:
        errors = _attribute_errors(targets, asked, known, rng)
    names = "attribute disclosure F1", "attribute disclosure sensitivity"
    return [
        _measure(name, value, interval_around(value, *error), floor)
        for name, value, floor, error in zip(names, values, floors, errors, strict=True)
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
        ours, real = (
            ratios(attribute_disclosure(some, cohort.select(kept), known)) for cohort in asked
        )
        left_out.append(ours - real)
    drawn = drawn_counts(len(some), RESAMPLES, rng).astype(np.float64)
    ours, real = (
        ratios(attribute_disclosure(some, cohort, known), drawn=drawn) for cohort in asked
    )
    errors = []
    for of_cohorts, differences in zip(np.array(left_out).T, ours - real, strict=True):
        of_targets = float(differences.std()) if np.isfinite(differences).all() else math.nan
        luck_of_targets = math.sqrt(len(some) / len(targets)) * of_targets
        errors.append([jackknife_error(of_cohorts), luck_of_targets])
    return errors


def common_columns(table: CodeTable) -> np.ndarray:
    """The columns of the most frequent codes that make up half of all codes of patients.

    Int64 (common,), rising, at least one; each patient counts once for a code.
    """
    carriers = table.patients.sum(axis=0, dtype=np.float64)
    order = np.argsort(-carriers, kind="stable")
    enough = np.searchsorted(np.cumsum(carriers[order]), carriers.sum() / 2) + 1
    return np.sort(order[:enough])


def attribute_disclosure(targets: CodeTable, cohort: CodeTable, known: np.ndarray) -> np.ndarray:
    """Guess the hidden codes of the targets from the nearest patients of a cohort.

    All patients at the smallest distance are asked, where Choi et al. 2017
    (https://arxiv.org/abs/1703.06490) ask k; a code that at least half of them have is guessed.
    The attacker knows the columns ``known``, int64 (known,), of each target.

    Returns:
        int64 (3, targets): the codes of each target that are guessed rightly, those that are
        guessed and that the patient does not have, and those that the patient has and that are
        not guessed.
    """
    hidden = np.setdiff1d(np.arange(len(targets.codes)), known)
    answers = cohort.patients[:, hidden]
    best = np.full(len(targets), -np.inf, dtype=np.float32)
    asked = np.zeros(len(targets), dtype=np.float32)
    votes = np.zeros((len(targets), len(hidden)), dtype=np.float32)
    for rows, columns, similarity in similarities(
        targets.patients[:, known], cohort.patients[:, known]
    ):
        nearest = similarity.max(axis=1)
        better = nearest > best[rows]
        best[rows] = np.maximum(best[rows], nearest)
        asked[rows][better] = 0  # those whom a nearer one has replaced
        votes[rows][better] = 0
        near = similarity == best[rows, None]
        asked[rows] += near.sum(axis=1)
        votes[rows] += (csr_array(near.astype(np.float32)) @ answers[columns]).toarray()
    guessed = 2 * votes >= asked[:, None]
    true = targets.patients[:, hidden].toarray() > 0
    return np.stack(
        [each.sum(axis=1) for each in (guessed & true, guessed & ~true, ~guessed & true)]
    )


def ratios(found: np.ndarray, *, drawn: np.ndarray | None = None) -> np.ndarray:
    """F1, 2 right / (2 right + wrong + missed), and sensitivity, right / (right + missed).

    Args:
        found: int64 (3, targets), as attribute_disclosure returns it.
        drawn: float64 (resamples, targets): how often each target counts; by default once.

    Returns:
        float64 (2,) or (2, resamples), 0 to 1; ``nan`` without any code.
    """
    right, wrong, missed = found.sum(axis=1) if drawn is None else found @ drawn.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([2 * right / (2 * right + wrong + missed), right / (right + missed)])


# ------------------------------------------------------------------ copies and rare codes


def visits_of(record: AnyRecord) -> tuple[tuple[str, ...], ...]:
    """What a copy is compared by: the codes of each visit, sorted, visits in their order."""
    return tuple(tuple(sorted(visit.codes)) for visit in record.visits)


def _copies(case: _Case) -> list[Measure]:
    """Exact copies, of all records and of long ones."""
    rng = case.rng(4)
    train, held_out, synthetic = cohorts = tuple(case.cohorts.values())
    groups = [random_groups(len(cohort), rng) for cohort in cohorts]
    twins_of_each = [
        (cohort, copies_by_group(cohort, train, groups[0]), own_groups)
        for cohort, own_groups in ((synthetic, groups[2]), (held_out, groups[1]))
    ]
    measures = []
    for name, least in (("exact copies", 0), ("exact copies of long records", LONG)):
        sides = []
        for cohort, twins, own_groups in twins_of_each:
            chosen = np.array([len(record.codes) >= least for record in cohort])
            sides.append((twins[chosen], own_groups[chosen]))
        ours, real = sides
        if not len(ours[0]):
            case.warnings.append(f"No synthetic patient has {LONG} codes or more.")
        value, floor = _copied(*ours, None), _copied(*real, None)
        span = UNKNOWN
        if min(map(len, (*cohorts, *ours, *real))) >= FEWEST:
            left_out = [_copied(*ours, group) - _copied(*real, group) for group in range(GROUPS)]
            low, high = interval_around(value, jackknife_error(left_out))
            if value == 0:  # leaving out finds nothing either
                high = max(high, binomtest(0, len(ours[0])).proportion_ci().high)
            span = max(0.0, low), high
        measures.append(_measure(name, value, span, floor))
    return measures


def copies_by_group(
    written: Sequence[AnyRecord], train: Sequence[AnyRecord], groups: np.ndarray
) -> np.ndarray:
    """In which training groups each written patient has a twin: bool (written, groups).

    A twin has exactly the same visits in the same order; the order of codes within a visit, age,
    sex and times do not matter. ``groups`` is int64 (train,).
    """
    known: dict[tuple[tuple[str, ...], ...], np.ndarray] = {}
    for record, group in zip(train, groups.tolist(), strict=True):
        known.setdefault(visits_of(record), np.zeros(GROUPS, dtype=bool))[group] = True
    nowhere = np.zeros(GROUPS, dtype=bool)
    return np.array([known.get(visits_of(record), nowhere) for record in written])


def _copied(copied: np.ndarray, groups: np.ndarray, without: int | None) -> float:
    """The share of patients who are copies, one group of all cohorts left out."""
    rows, columns = groups != without, np.arange(GROUPS) != without
    found = copied[rows][:, columns].any(axis=1)
    return float(found.mean()) if len(found) else math.nan


WITH_A_COPY = "training patients with a copy"


def patients_with_a_copy(
    train: Sequence[AnyRecord], held_out: Sequence[AnyRecord], synthetic: Sequence[AnyRecord]
) -> Measure:
    """The share of training patients with a twin in a cohort, 0 to 1; the floor is held-out ones'.

    Short records have twins in every hospital. The same synthetic patients are looked up for both
    cohorts, so only what training patients have above held-out ones is memory, even if the model
    writes too many short records. The interval is that of the difference of two shares (Newcombe
    1998, method 10), moved to the value; it is ``nan`` with fewer than 30 patients in a cohort.
    """
    cohorts = {"train": train, "held_out": held_out, "synthetic": synthetic}
    check_patients("patients_with_a_copy", cohorts)
    written = {visits_of(record) for record in synthetic}
    shares, reaches = [], []
    for cohort in (train, held_out):
        copied = sum(visits_of(record) in written for record in cohort)
        span = binomtest(copied, len(cohort)).proportion_ci(method="wilson")
        share = copied / len(cohort)
        shares.append(share)
        reaches.append((share - span.low, span.high - share))
    value, floor = shares
    low, high = UNKNOWN
    if min(map(len, (train, held_out, synthetic))) >= FEWEST:
        (below, above), (floor_below, floor_above) = reaches
        low = max(0.0, value - math.hypot(below, floor_above))
        high = min(1.0, value + math.hypot(above, floor_below))
    return _measure(WITH_A_COPY, value, (low, high), floor)


def _rare_codes(case: _Case) -> list[Measure]:
    """Rare codes that are absent."""
    name = "rare codes absent"
    train, held_out, synthetic = case.tables
    carriers = train.patients.sum(axis=0)
    rare = np.flatnonzero((carriers >= 1) & (carriers <= RARE))
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


def chance_of_absence(table: CodeTable, columns: np.ndarray, n_patients: int) -> np.ndarray:
    """How likely each code is to be absent from n patients drawn at random: float64 (codes,).

    Of N patients with c carriers, n drawn without replacement hold none with the probability
    C(N - c, n) / C(N, n). So cohorts of different sizes are compared at one size.
    """
    total = len(table)
    without = total - table.patients.sum(axis=0)[columns].astype(np.float64)

    def log_choose(n: np.ndarray | int) -> np.ndarray:
        # C(n, k) is 0 below k: there the argument is kept in range and the answer set below.
        n = np.maximum(n, n_patients)
        return gammaln(n + 1) - gammaln(n_patients + 1) - gammaln(n - n_patients + 1)

    chance = np.exp(log_choose(without) - log_choose(total))
    return np.where(without < n_patients, 0.0, np.minimum(chance, 1.0))


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
    WITH_A_COPY: (
        "low",
        SHARE,
        "The share of training patients whose visits are exactly those of a synthetic patient; "
        "the floor is the same of held-out patients, which is what chance makes.",
    ),
}
"""Of each measure which values are better, the unit, and what it says."""
