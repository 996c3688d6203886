"""One measured number, its interval, and what real patients score in its place (the floor).

Sums over patients have bootstrap intervals (Efron and Tibshirani 1993): patients are drawn with
replacement, each with all of their codes, because the codes of one patient do not vary
independently.

A number that depends on all patients at once, such as a nearest neighbour, has an interval from
the delete-a-group jackknife (Shao and Wu 1989, https://doi.org/10.1214/aos/1176347263): a tenth
of the patients of all cohorts is left out at a time. A bootstrap fails there, because it makes
every patient that is drawn twice their own nearest neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
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


@dataclass(frozen=True)
class Measure:
    """One measured number and what to hold it against.

    Attributes:
        name: such as "visit prevalence RMSE"; no two measures of a report share one.
        value: ``nan`` where nothing could be measured.
        low, high: the interval; both ``nan`` where there are too few patients.
        floor: what real patients score in place of synthetic ones; ``nan`` when unknown.
        unit: such as "bits" or "share", a number from 0 to 1; "" for a plain number.
        better: "low", "high", or "near", where the best value is the floor itself.
        meaning: what the number says and how it was made, in one or two sentences.
        against_training: the value with training patients in place of held-out ones; ``nan``
            where that was not asked for.
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
    """What was found about one question.

    Attributes:
        measures: each with its interval and its floor.
        warnings: what the reader must know before using the numbers.
        left_out: the measures that nothing could be said about.
    """

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
        raise InputError("seed", "", f"{seed!r} is no seed", "Use a whole number, 0 or more.")
    return np.random.default_rng(seed)


def too_few(name: str, n_patients: int) -> list[str]:
    """A warning where a cohort is too small for an interval, in a list; or an empty list."""
    if n_patients >= FEWEST:
        return []
    n = "1 patient" if n_patients == 1 else f"{n_patients} patients"
    return [
        f"The {name} has {n}: no interval is given below {FEWEST}, and the numbers say little."
    ]


def which_are_too_few(sizes: Mapping[str, int]) -> str:
    """Which cohorts, by their names, are too small to be judged.

    >>> which_are_too_few({"training": 60, "held-out": 29, "synthetic": 1})
    '30 patients of each cohort are needed, but the held-out cohort has 29 and the synthetic cohort
     has 1'
    """
    few = [f"the {name} cohort has {n}" for name, n in sizes.items() if n < FEWEST]
    return f"{FEWEST} patients of each cohort are needed, but {' and '.join(few)}"


# ------------------------------------------------------------------ the bootstrap


def drawn_counts(
    n_patients: int, resamples: int, rng: np.random.Generator, *, size: int | None = None
) -> np.ndarray:
    """How often each patient is drawn, when patients are drawn with replacement.

    Args:
        size: how many are drawn each time; by default as many as there are.

    Returns:
        float32 (resamples, n_patients), each row summing to size. Times a matrix of what each
        patient adds, (n_patients, k), these are the sums of all resamples at once.
    """
    size = n_patients if size is None else size
    counts = np.empty((resamples, n_patients), dtype=np.float32)
    for row in counts:
        row[:] = np.bincount(rng.integers(n_patients, size=size), minlength=n_patients)
    return counts


def interval(
    values: ArrayLike, *, confidence: float = 0.95, centre: float | None = None
) -> tuple[float, float]:
    """The percentile interval of what the resamples gave.

    Args:
        values: float (resamples,); those that are ``nan`` are left out.
        confidence: the share of resamples inside, above 0 and below 1.
        centre: where the mean of the resamples is moved to. Drawing adds noise, and noise can
            only increase a distance between two samples: its plain percentiles can lie above the
            distance itself. With the measured distance as the centre, the interval keeps the
            spread of the resamples without their bias.

    Returns:
        low and high; both ``nan`` where less than half of the resamples have a value.

    >>> interval(np.arange(101), confidence=0.5)
    (25.0, 75.0)
    >>> interval(np.arange(101), confidence=0.5, centre=10)
    (-15.0, 35.0)
    """
    if not 0 < confidence < 1:
        raise InputError(
            "interval", "confidence", f"{confidence!r} is no share", "Use a number such as 0.95."
        )
    values = np.asarray(values, dtype=np.float64)
    finite = values[np.isfinite(values)]
    if 2 * len(finite) < len(values) or not len(finite):
        return math.nan, math.nan
    outside = (1 - confidence) / 2
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
    confidence: float = 0.95,
) -> tuple[float, float]:
    """The bootstrap interval of one sum over patients divided by another.

    Args:
        numerators: float (patients,), such as each patient's impossible codes.
        denominators: float (patients,), such as each patient's codes.

    Returns:
        low and high; both ``nan`` with fewer than 30 patients.
    """
    sums = np.stack([np.asarray(numerators), np.asarray(denominators)], axis=1).astype(np.float64)
    if len(sums) < FEWEST:
        return math.nan, math.nan
    upper, lower = (drawn_counts(len(sums), resamples, rng) @ sums).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(upper / lower, confidence=confidence)


# ------------------------------------------------------------------ the jackknife


GROUPS = 10
"""Into so many groups each cohort is cut; each is left out once."""


def random_groups(n: int, rng: np.random.Generator) -> np.ndarray:
    """A random group for each of n patients, int64 (n,), 0 to 9; all groups of nearly one size."""
    return rng.permutation(np.arange(n) % GROUPS)


def jackknife_error(left_out: ArrayLike) -> float:
    """The standard error of a number, from its values without each group: float (groups,)."""
    values = np.asarray(left_out, dtype=np.float64)
    share = (len(values) - 1) / len(values)
    return float(np.sqrt(share * ((values - values.mean()) ** 2).sum()))


def interval_around(value: float, *errors: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a number with several independent standard errors.

    It reaches as far as Student's t with 9 degrees of freedom says, because an error from ten
    groups is itself known only roughly; both ends are ``nan`` if an error is.
    """
    error = math.hypot(*errors)
    if math.isnan(error):
        return math.nan, math.nan
    reach = float(stats.t.ppf((1 + confidence) / 2, GROUPS - 1)) * error
    return value - reach, value + reach


# ------------------------------------------------------------------ rankings under weights


def weighted_ranking(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Area under the ROC curve and average precision, for each column of weights.

    These are ``roc_auc_score`` and ``average_precision_score`` of scikit-learn with
    ``sample_weight``, but the scores are sorted once for all columns, which makes a bootstrap
    cheap. Equal scores count as one threshold.

    Args:
        scores: float (n,): larger where a one is expected.
        labels: bool (n,).
        weights: float (n, resamples), 0 or more: how often each is drawn.

    Returns:
        Two arrays, float64 (resamples,); ``nan`` where only ones or only zeros were drawn (for
        average precision: where no one was).
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
