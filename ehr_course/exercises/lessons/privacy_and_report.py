"""Exercises 19.5 and 19.6: what a cohort gives away, and what its report says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ehr_course.exercises.exercise import Arguments, Exercise

# 19.5 Nearest neighbours and membership


def _privacy(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    """The reference: scikit-learn's neighbours and its area under the curve."""
    from sklearn.metrics import roc_auc_score  # a second, so only here
    from sklearn.neighbors import NearestNeighbors

    train, held_out, synthetic = (part.astype(bool) for part in (train, held_out, synthetic))
    trees = [
        NearestNeighbors(n_neighbors=1, metric="jaccard", algorithm="brute").fit(part)
        for part in (train, synthetic)
    ]
    of_train, of_synthetic = [tree.kneighbors()[0][:, 0] for tree in trees]  # not itself
    to_synthetic = trees[1].kneighbors(train)[0][:, 0]
    to_train = trees[0].kneighbors(synthetic)[0][:, 0]
    sides = [
        np.heaviside(other - own, 0.5).mean()
        for own, other in ((of_train, to_synthetic), (of_synthetic, to_train))
    ]
    others = trees[1].kneighbors(held_out)[0][:, 0]
    labels = [1] * len(train) + [0] * len(held_out)
    auroc = roc_auc_score(labels, -np.concatenate([to_synthetic, others]))
    return float(np.mean(sides)), float(auroc)


def _patients(rng: random.Random, n: int, n_codes: int) -> np.ndarray:
    """Patients with at least one code each."""
    patients = np.array([[int(rng.random() < 0.5) for _ in range(n_codes)] for _ in range(n)])
    for row in patients:
        row[rng.randrange(n_codes)] = 1
    return patients


def _fresh_cohorts(rng: random.Random) -> Arguments:
    n, n_codes = rng.randint(2, 4), rng.randint(4, 6)
    train, synthetic = _patients(rng, n, n_codes), _patients(rng, n, n_codes)
    if rng.random() < 0.5:
        synthetic[rng.randrange(n)] = train[rng.randrange(n)]
    return train, _patients(rng, rng.randint(2, 4), n_codes), synthetic


PRIVACY = Exercise(
    id="19.5",
    reference=_privacy,
    chosen=(
        (
            np.array([[1, 1, 0, 0], [0, 0, 1, 1]]),
            np.array([[1, 0, 1, 0], [0, 1, 0, 1]]),
            np.array([[1, 1, 0, 0], [0, 0, 1, 1]]),
        ),
        (
            np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]),
            np.array([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]]),
            np.array([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]),
        ),
        (
            np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]]),
            np.array([[1, 0, 0, 0], [0, 0, 0, 1]]),
            np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]]),
        ),
        (
            np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]),
            np.array([[1, 1, 1, 1], [0, 0, 0, 1]]),
            np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]]),
        ),
        (
            np.array([[1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]]),
            np.array([[0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 0]]),
            np.array([[1, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]]),
        ),
        (  # 4/7 is nearer than 3/5, and rounding to a tenth hides it
            np.array([[1, 1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0]]),
            np.array([[0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]),
            np.array([[0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1]]),
        ),
    ),
    fresh=_fresh_cohorts,
    tolerance=1e-6,
)


# 19.6 A report on a synthetic cohort

MeasureRow = tuple[str, float, float, float, float, str]
Uses = Mapping[str, Sequence[str]]
Said = tuple[dict[str, str], list[str]]

_AT, _WORSE, _BETTER = "at the floor", "worse than the floor", "better than the floor"
_TOO_FEW = "too few to say"


def _verdict(row: MeasureRow) -> str:
    _, value, low, high, floor, better = row
    if any(math.isnan(number) for number in (value, low, high, floor)):
        return _TOO_FEW
    return _compared(low, high, floor, better)


def _compared(low: float, high: float, floor: float, better: str) -> str:
    if low > floor:
        return {"low": _WORSE, "high": _BETTER, "near": _WORSE}[better]
    if high < floor:
        return {"low": _BETTER, "high": _WORSE, "near": _WORSE}[better]
    return _AT


def _forbidden(verdicts: Mapping[str, str], uses: Uses) -> list[str]:
    """The reference: look for one reason against each use."""
    found = []
    for use, names in uses.items():
        reasons = [name for name in names if verdicts.get(name) not in (_AT, _BETTER)]
        if reasons or len(names) == 0:
            found.append(use)
    return found


def _judged(
    verdict: Callable[[MeasureRow], str] = _verdict,
    forbidden: Callable[[Mapping[str, str], Uses], list[str]] = _forbidden,
) -> Callable[[Sequence[MeasureRow], Uses], Said]:
    def report(measures: Sequence[MeasureRow], uses: Uses) -> Said:
        verdicts = {row[0]: verdict(row) for row in measures}
        return verdicts, forbidden(verdicts, uses)

    return report


def _nan() -> float:
    """A nan that is no other object, so that asking with ``in`` does not find it."""
    return float("nan")


def _fresh_measures(rng: random.Random) -> Arguments:
    names = rng.sample(("codes", "pairs", "visits", "copies", "age", "sex"), rng.randint(2, 4))
    measures = []
    for name in names:
        low, value, high = sorted(rng.sample(range(1, 20), 3))
        floor = rng.choice((low, high, rng.randint(0, 21)))
        numbers = [number / 10 for number in (value, low, high, floor)]
        if rng.random() < 0.2:
            for place in rng.choice(((0,), (1,), (2,), (1, 2), (3,))):
                numbers[place] = _nan()
        measures.append((name, *numbers, rng.choice(("low", "high", "near"))))
    known = (*names, "utility")
    uses = {
        use: rng.sample(known, rng.randint(0, 2))
        for use in ("teaching", "counting", "training", "sharing")
    }
    return measures, uses


REPORT = Exercise(
    id="19.6",
    reference=_judged(),
    chosen=(
        ([("codes", 0.2, 0.1, 0.3, 0.2, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, 0.1, 0.3, 0.05, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, 0.1, 0.3, 0.1, "low")], {"counting": ["codes"]}),
        ([("hits", 0.7, 0.6, 0.8, 0.8, "high")], {"training": ["hits"]}),
        ([("hits", 0.7, 0.6, 0.8, 0.9, "high")], {"training": ["hits"]}),
        ([("hits", 0.7, 0.6, 0.8, 0.5, "high")], {"training": ["hits"]}),
        ([("members", 0.4, 0.3, 0.45, 0.5, "near")], {"sharing": ["members"]}),
        ([("members", 0.6, 0.55, 0.7, 0.5, "near")], {"sharing": ["members"]}),
        ([("codes", 0.2, 0.1, 0.3, 0.5, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, _nan(), _nan(), 0.1, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, 0.1, 0.3, _nan(), "low")], {"counting": ["codes"]}),
        ([("codes", _nan(), 0.1, 0.3, 0.05, "low")], {"counting": ["codes"]}),
        ([("hits", 0.7, 0.6, 0.8, _nan(), "high")], {"training": ["hits"]}),
        ([("hits", 0.7, _nan(), 0.8, 0.7, "high")], {"training": ["hits"]}),
        ([("hits", 0.7, 0.6, _nan(), 0.7, "high")], {"training": ["hits"]}),
        ([("copies", 0.0, 0.0, 0.0, 0.0, "low")], {"sharing": ["copies"]}),
        ([("members", 0.52, 0.51, 0.53, 0.5, "near")], {"sharing": ["members"]}),
        # An interval need not contain its value: a bootstrap moves a divergence upwards.
        ([("codes", 0.25, 0.3, 0.4, 0.28, "low")], {"counting": ["codes"]}),
        (
            [("codes", 0.2, 0.1, 0.3, 0.2, "low"), ("copies", 0.5, 0.4, 0.6, 0.1, "low")],
            {"counting": ["codes"], "sharing": ["codes", "copies"], "treating": []},
        ),
        (
            [("codes", 0.2, 0.1, 0.3, 0.2, "low")],
            {"sharing": ["copies"], "training": ["codes", "hits"], "counting": ["codes"]},
        ),
    ),
    fresh=_fresh_measures,
)

EXERCISES = (PRIVACY, REPORT)
