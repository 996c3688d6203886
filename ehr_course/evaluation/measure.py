"""One measured number, its interval, and what real patients score in its place (the floor).

Sums over patients are bootstrapped by patient (Efron and Tibshirani 1993), nearest neighbours left
out by groups (jackknife, Shao and Wu 1989): a patient drawn twice is their own nearest neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ehr_course.errors import InputError

FEWEST = 30
"""With fewer patients than this no interval is given: it would say more than is known."""

SHARE = "share"
"""The unit of a share, from 0 to 1, and of a difference of two; no measure is in percent."""

RESAMPLES = 200
"""How often patients are drawn again, unless another number is asked for."""

CONFIDENCE = 0.95
"""How many of 100 intervals hold the true number, as a share."""

UNKNOWN = (math.nan, math.nan)
"""The interval where there are too few patients."""


@dataclass(frozen=True)
class Measure:
    """One measured number and what to compare it with.

    Attributes:
        name: unique in a report, such as "visit prevalence RMSE".
        value: ``nan`` where nothing could be measured.
        low, high: the interval; both ``nan`` where there are too few patients.
        floor: what real patients score in place of synthetic ones; ``nan`` when unknown.
        unit: such as "bits" or "share", a number from 0 to 1; "" for a plain number.
        better: "low", "high", or "near", where the best value is the floor itself.
        meaning: what the number says and how it was made.
        against_training: the value with training patients in place of held-out ones, or ``nan``.
    """

    name: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    floor: float = math.nan
    unit: str = ""
    better: Literal["low", "high", "near"] = "low"
    meaning: str = ""
    against_training: float = math.nan

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "floor", "against_training"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def known(self) -> bool:
        """Whether the value has an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def to_json(self) -> dict[str, Any]:
        """The fields by name; None where a number is not finite."""
        return {
            name: None if isinstance(field, float) and not math.isfinite(field) else field
            for name, field in asdict(self).items()
        }


class LeftOut(NamedTuple):
    """A measure that a cohort could not be judged by; ``reason`` says what is missing."""

    name: str
    reason: str


@dataclass(frozen=True)
class Judgement:
    """What was found about one question, with warnings and the measures that were left out."""

    measures: tuple[Measure, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __getitem__(self, name: str) -> Measure:
        """The measure of a name."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        known = ", ".join(measure.name for measure in self.measures)
        raise InputError(
            f"measure {name!r}", "", "there is no such measure", f"There are: {known}."
        )


# ------------------------------------------------------------------ arguments and warnings


def check_patients(where: str, cohorts: Mapping[str, Sized | None]) -> None:
    """Refuse a cohort without patients; None stands for a cohort that was left out."""
    for name, cohort in cohorts.items():
        if cohort is not None and not len(cohort):
            raise InputError(where, name, "it has no patients", "Give at least one patient.")


def generator(seed: int) -> np.random.Generator:
    """The random numbers of a seed, a whole number from 0."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError("seed", "", f"{seed!r} is not a seed", "Use a whole number, 0 or more.")
    return np.random.default_rng(seed)


def rows_at_random(n: int, of: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n of the rows 0, 1, ..., without replacement, or all if there are fewer: rising."""
    return np.sort(rng.permutation(of)[:n])


def too_few(name: str, n_patients: int) -> list[str]:
    """A warning where a cohort is too small for an interval, in a list; or an empty list."""
    if n_patients >= FEWEST:
        return []
    n = "1 patient" if n_patients == 1 else f"{n_patients} patients"
    return [
        f"The {name} has {n}: no interval is given below {FEWEST}, and the numbers say little."
    ]


def which_are_too_few(sizes: Mapping[str, int]) -> str:
    """Which cohorts, by their names, are too small to be judged."""
    few = [f"the {name} cohort has {n}" for name, n in sizes.items() if n < FEWEST]
    return f"{FEWEST} patients of each cohort are needed, but {' and '.join(few)}"


# ------------------------------------------------------------------ several runs


def what_is_shown(
    model: Sequence[float] | np.ndarray,
    baseline: Sequence[float] | np.ndarray,
    better: str,
    interval: Sequence[float] | None = None,
) -> str:
    """Return "better", "worse" or "not shown", of a model beside a baseline.

    A difference is shown only where no score of one lies among the other's.

    Args:
        model: one score a seed.
        baseline: as many, or a single one where nothing in it is random.
        interval: of the model's mean less the baseline's; if given, it has to lie on the same side
            of zero as the scores.

    >>> what_is_shown([0.02, 0.03], [0.05, 0.04], "lower")
    'better'
    >>> what_is_shown([0.02, 0.045], [0.05, 0.04], "lower")
    'not shown'
    """
    below, above = max(model) < min(baseline), min(model) > max(baseline)
    if interval is not None:
        low, high = interval
        below, above = below and high < 0, above and low > 0
    if not below and not above:
        return "not shown"
    return "better" if below == (better == "lower") else "worse"


# ------------------------------------------------------------------ the bootstrap


def drawn_counts(
    n_patients: int, resamples: int, rng: np.random.Generator, *, size: int | None = None
) -> np.ndarray:
    """How often each patient is drawn with replacement: float32 (resamples, n_patients).

    Each row sums to ``size``, by default n_patients. Times a matrix of what each patient adds,
    (n_patients, k), it gives the sums of all resamples at once.
    """
    size = n_patients if size is None else size
    counts = np.empty((resamples, n_patients), dtype=np.float32)
    for row in counts:
        row[:] = np.bincount(rng.integers(n_patients, size=size), minlength=n_patients)
    return counts


def interval(values: ArrayLike, *, centre: float | None = None) -> tuple[float, float]:
    """The percentile interval of what the resamples gave: low and high.

    Args:
        values: float (resamples,); ``nan`` is left out, and the ends are ``nan`` if most are.
        centre: where the mean of the resamples is moved to: the noise of drawing can put the plain
            percentiles of a distance above the distance itself.
    """
    values = np.asarray(values, dtype=np.float64)
    finite = values[np.isfinite(values)]
    if 2 * len(finite) < len(values) or not len(finite):
        return UNKNOWN
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(finite, [outside, 1 - outside])
    if centre is None:
        return float(low), float(high)
    shift = centre - finite.mean()
    # Rounding must not leave the centre just outside.
    return float(min(low + shift, centre)), float(max(high + shift, centre))


def share_interval(
    numerators: ArrayLike,
    denominators: ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """The bootstrap interval of one sum over patients divided by another: low and high.

    Both are float (patients,), such as each patient's impossible codes and codes; with fewer than
    30 patients the ends are ``nan``.
    """
    sums = np.stack([np.asarray(numerators), np.asarray(denominators)], axis=1).astype(np.float64)
    if len(sums) < FEWEST:
        return UNKNOWN
    upper, lower = (drawn_counts(len(sums), resamples, rng) @ sums).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(upper / lower)


# ------------------------------------------------------------------ the jackknife


GROUPS = 10
"""The number of groups each cohort is cut into; each group is left out once."""


def random_groups(n: int, rng: np.random.Generator) -> np.ndarray:
    """A random group for each of n patients, int64 (n,), 0 to 9; all groups of nearly one size."""
    return rng.permutation(np.arange(n) % GROUPS)


def jackknife_error(left_out: ArrayLike) -> float:
    """The standard error of a number, from its values without each group: float (groups,)."""
    values = np.asarray(left_out, dtype=np.float64)
    share = (len(values) - 1) / len(values)
    return float(np.sqrt(share * ((values - values.mean()) ** 2).sum()))


def interval_around(value: float, *errors: float) -> tuple[float, float]:
    """The interval of a number with several independent standard errors.

    It uses Student's t with 9 degrees of freedom, because an error comes from ten groups.
    """
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, GROUPS - 1)) * math.hypot(*errors)
    return value - reach, value + reach


# ------------------------------------------------------------------ rankings under weights


def weighted_ranking(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Area under the ROC curve and average precision, for each column of weights.

    They equal scikit-learn's ``roc_auc_score`` and ``average_precision_score`` with
    ``sample_weight``, but sort once for all columns. Equal scores count as one threshold.

    Args:
        scores: float (n,): larger where a one is expected.
        labels: bool (n,).
        weights: float (n, resamples), 0 or more: how often each is drawn.

    Returns:
        Two arrays, float64 (resamples,); ``nan`` where no one, or for the AUROC no zero, was
        drawn.
    """
    if not labels.any():
        return (np.full(weights.shape[1], np.nan),) * 2
    order = np.argsort(-scores, kind="stable")
    of_ones = order[labels[order]]
    # Only thresholds at which a one stands add to either area, and only sums between them are
    # needed: ones are few, so this is a fraction of the running sums over all n.
    first, last = (np.searchsorted(-scores[order], -scores[of_ones], s) for s in ("left", "right"))
    first, group = np.unique(first, return_index=True)
    last = last[group]
    hits = np.add.reduceat(weights[of_ones], group, axis=0).cumsum(axis=0, dtype=np.float64)
    bounds = np.unique(np.concatenate([[0], first, last]))
    between = np.add.reduceat(weights[order], bounds[bounds < len(order)], axis=0)
    so_far = between.cumsum(axis=0, dtype=np.float64)
    seen = np.concatenate([np.zeros((1, weights.shape[1])), so_far])
    above = seen[np.searchsorted(bounds, first)]
    within = seen[np.searchsorted(bounds, last)]
    new_hits = np.diff(hits, axis=0, prepend=0)
    misses_above, misses_within = above - (hits - new_hits), within - hits
    ones = hits[-1]
    zeros = seen[-1] - ones
    with np.errstate(divide="ignore", invalid="ignore"):
        # Each one beats the zeros below it, and half of those at its own score.
        beaten = zeros - (misses_above + misses_within) / 2
        auroc = (new_hits * beaten).sum(axis=0) / (ones * zeros)
        precision = np.where(new_hits > 0, hits / within, 0.0)
        average_precision = (new_hits * precision).sum(axis=0) / ones
    return auroc, average_precision
