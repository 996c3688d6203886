"""Exercises 19.5 and 19.6: what a cohort gives away, and what its report says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

# 19.5 Nearest neighbours and membership

Distances = Callable[[np.ndarray, np.ndarray], np.ndarray]


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


def _jaccard(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    shared = a @ b.T
    return 1 - shared / (a.sum(1)[:, None] + b.sum(1) - shared)


def _hamming(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a[:, None] != b).sum(-1).astype(float)


def _minus_shared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return -(a @ b.T).astype(float)


def _without_self(distances: np.ndarray) -> np.ndarray:
    return distances + np.diag(np.full(len(distances), np.inf))


def _without_twins(distances: np.ndarray) -> np.ndarray:
    return np.where(distances == 0, np.inf, distances)


def _wins(own: np.ndarray, other: np.ndarray, tie: float = 0.5) -> float:
    return float(np.where(own == other, tie, own < other).mean())


def _mean_over_others(distances: np.ndarray) -> np.ndarray:
    """The mean of each row, of finite values."""
    finite = np.isfinite(distances)
    return np.where(finite, distances, 0).sum(1) / finite.sum(1)


def _auroc(members: np.ndarray, others: np.ndarray, tie: float = 0.5) -> float:
    return _wins(members[:, None], others, tie)


def _attack(
    *,
    metric: Distances = _jaccard,
    alone: Callable[[np.ndarray], np.ndarray] = _without_self,
    nearest: Callable[[np.ndarray], np.ndarray] = lambda distances: distances.min(1),
    tie: float = 0.5,
    tie_of_auroc: float = 0.5,
    sides: Callable[[float, float], float] = lambda train, synthetic: (train + synthetic) / 2,
) -> Callable[..., tuple[float, float]]:
    """Both attacks, with any step replaced."""

    def attack(
        train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
    ) -> tuple[float, float]:
        of_train, of_synthetic = (
            nearest(alone(metric(part, part))) for part in (train, synthetic)
        )
        to_synthetic, to_train = (
            nearest(metric(train, synthetic)),
            nearest(metric(synthetic, train)),
        )
        accuracy = sides(_wins(of_train, to_synthetic, tie), _wins(of_synthetic, to_train, tie))
        return accuracy, _auroc(to_synthetic, nearest(metric(held_out, synthetic)), tie_of_auroc)

    return attack


def _same_place_left_out(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    """The patient at the same place is left out of the other cohort as well."""
    own = [_without_self(_jaccard(part, part)).min(1) for part in (train, synthetic)]
    across = _without_self(_jaccard(train, synthetic))
    accuracy = (_wins(own[0], across.min(1)) + _wins(own[1], across.min(0))) / 2
    return accuracy, _attack()(train, held_out, synthetic)[1]


def _accuracy_on_held_out(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    accuracy, _ = _attack()(held_out, held_out, synthetic)
    return accuracy, _attack()(train, held_out, synthetic)[1]


def _auroc_of(
    members: Callable[..., np.ndarray], others: Callable[..., np.ndarray]
) -> Callable[..., tuple[float, float]]:
    """The right accuracy, and an AUROC from other distances."""

    def attack(
        train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
    ) -> tuple[float, float]:
        parts = train, held_out, synthetic
        return _attack()(*parts)[0], _auroc(members(*parts).min(1), others(*parts).min(1))

    return attack


def _reversed_auroc(*parts: np.ndarray) -> tuple[float, float]:
    accuracy, auroc = _attack()(*parts)
    return accuracy, 1 - auroc


def _reversed_accuracy(*parts: np.ndarray) -> tuple[float, float]:
    accuracy, auroc = _attack()(*parts)
    return 1 - accuracy, auroc


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


_TIE = (
    "Where the nearest patient of the other cohort is exactly as near as the nearest of one's "
    "own, you count {}. Such ties are common, for codes are counted. They count a half."
)
_AUROC_TIE = (
    "Your AUROC counts {} where a member and another patient are equally near to the synthetic "
    "ones. Such a pair tells an attacker nothing, and counts a half."
)

PRIVACY = Exercise(
    id="19.5",
    title="Nearest neighbours and membership",
    parameters=("train", "held_out", "synthetic"),
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
    misconceptions=(
        Misconception(
            "own_nearest_neighbour",
            "Each patient is their own nearest neighbour, at distance 0. So one's own cohort "
            "always looks nearer. Leave the patient out who asks.",
            _attack(alone=lambda distances: distances),
        ),
        Misconception(
            "twins_left_out",
            "You left out every patient at distance 0 of one's own cohort. Two different patients "
            "can have the same codes: leave out the one who asks, by their place, not by the "
            "distance.",
            _attack(alone=_without_twins),
        ),
        Misconception("tie_as_own", _TIE.format("it for one's own cohort"), _attack(tie=1.0)),
        Misconception("tie_as_other", _TIE.format("it for the other cohort"), _attack(tie=0.0)),
        Misconception("tie_of_auroc_as_member", _AUROC_TIE.format("1"), _attack(tie_of_auroc=1.0)),
        Misconception(
            "tie_of_auroc_as_other", _AUROC_TIE.format("nothing"), _attack(tie_of_auroc=0.0)
        ),
        Misconception(
            "all_ties_as_nearer",
            "Your shares count 1 where two distances are equal, in the accuracy and in the AUROC. "
            "Such ties are common, for codes are counted. They count a half.",
            _attack(tie=1.0, tie_of_auroc=1.0),
        ),
        Misconception(
            "all_ties_as_farther",
            "Your shares count nothing where two distances are equal, in the accuracy and in the "
            "AUROC. Such ties are common, for codes are counted. They count a half.",
            _attack(tie=0.0, tie_of_auroc=0.0),
        ),
        Misconception(
            "same_place_left_out",
            "You left out the patient at the same place in the other cohort as well. Nobody "
            "stands there twice: only within one's own cohort there is a patient to leave out.",
            _same_place_left_out,
        ),
        Misconception(
            "auroc_of_the_distance",
            "Your AUROC takes a large distance for a sign of membership. The attacker takes a "
            "patient with a near synthetic one for a member.",
            _reversed_auroc,
        ),
        Misconception(
            "other_cohort_nearer",
            "Your accuracy counts the patients whose nearest neighbour is of the other cohort. "
            "One's own cohort is the right guess.",
            _reversed_accuracy,
        ),
        Misconception(
            "training_patients_alone",
            "Your accuracy asks the training patients alone. It is the mean over both sides: also "
            "whether synthetic patients have their nearest among themselves.",
            _attack(sides=lambda train, synthetic: train),
        ),
        Misconception(
            "synthetic_patients_alone",
            "Your accuracy asks the synthetic patients alone. It is the mean over both sides: "
            "also whether training patients have their nearest among themselves.",
            _attack(sides=lambda train, synthetic: synthetic),
        ),
        Misconception(
            "sum_of_both_sides",
            "You added up both sides. Their mean is a number from 0 to 1.",
            _attack(sides=lambda train, synthetic: train + synthetic),
        ),
        Misconception(
            "accuracy_on_held_out_patients",
            "Your accuracy compares synthetic with held-out patients. Copies of training patients "
            "do not show there.",
            _accuracy_on_held_out,
        ),
        Misconception(
            "mean_distance",
            "You took the mean distance to all patients. A copy hides in it: one patient at "
            "distance 0 hardly changes a mean. Take the nearest.",
            _attack(nearest=_mean_over_others),
        ),
        Misconception(
            "farthest_patient",
            "You took the farthest patient. Take the nearest, the smallest distance of a row.",
            _attack(nearest=lambda d: np.where(np.isfinite(d), d, -np.inf).max(1)),
        ),
        Misconception(
            "number_of_codes_that_differ",
            "You counted the codes in which two patients differ. By that, patients with few codes "
            "are near to everybody. Here the distance is 1 minus the common codes over all codes "
            "of the two.",
            _attack(metric=_hamming),
        ),
        Misconception(
            "number_of_codes_in_common",
            "You went by the number of common codes. By that, patients with many codes are near "
            "to everybody. Divide by the number of codes that either of the two has.",
            _attack(metric=_minus_shared),
        ),
        Misconception(
            "nearest_training_patient",
            "Your AUROC looks for the nearest training patient. A member finds itself there. The "
            "attacker has the synthetic cohort.",
            _auroc_of(
                lambda train, held_out, synthetic: _jaccard(train, train),
                lambda train, held_out, synthetic: _jaccard(held_out, train),
            ),
        ),
        Misconception(
            "asks_the_synthetic_patients",
            "Your AUROC asks synthetic patients how near they are to members and to others. The "
            "attacker asks about a real patient: for each member and each other patient, how near "
            "is the nearest synthetic one?",
            _auroc_of(
                lambda train, held_out, synthetic: _jaccard(synthetic, train),
                lambda train, held_out, synthetic: _jaccard(synthetic, held_out),
            ),
        ),
        Misconception(
            "auroc_first",
            "Your two numbers are right and stand in the opposite order: the task asks for the "
            "accuracy first.",
            lambda *parts: tuple(reversed(_attack()(*parts))),
        ),
    ),
    hints=(
        "One helper does most of it: the distance of each patient of one cohort to the nearest of "
        "another. a @ b.T counts common codes of all pairs at once.",
        "Four distances for the accuracy: train to train and synthetic to synthetic, each patient "
        "without themselves, and both ways across. On each side count who has the nearer "
        "neighbour among their own, ties a half, and take the mean of both sides.",
        "The AUROC is a share of pairs: of a member and a held-out patient, how often is the "
        "member nearer to the synthetic cohort? Equally near counts a half.",
    ),
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


def _changed(
    change: Callable[[float, float, float, float, str], tuple[float, float, float, str]],
) -> Callable[[MeasureRow], str]:
    """A verdict from another interval, floor or direction."""

    def verdict(row: MeasureRow) -> str:
        if any(math.isnan(number) for number in row[1:5]):
            return _TOO_FEW
        return _compared(*change(*row[1:]))

    return verdict


def _strictly_inside(row: MeasureRow) -> str:
    said = _verdict(row)
    _, _, low, high, floor, better = row
    if said != _AT or low < floor < high:
        return said
    if better == "near":
        return _WORSE
    return _WORSE if (floor == low) == (better == "low") else _BETTER


def _side_of_the_value(row: MeasureRow) -> str:
    said = _verdict(row)
    _, value, _, _, floor, better = row
    if said not in (_WORSE, _BETTER) or better == "near":
        return said
    return _BETTER if (value > floor) == (better == "high") else _WORSE


def _unknown_is_at_the_floor(row: MeasureRow) -> str:
    said = _verdict(row)
    return _AT if said == _TOO_FEW else said


def _outside_first(low: float, high: float, floor: float, better: str) -> str:
    """What is not inside of the interval lies outside, nan too."""
    if low <= floor <= high:
        return _AT
    return _BETTER if better != "near" and (low > floor) == (better == "high") else _WORSE


def _asks(
    *places: int, compared: Callable[[float, float, float, str], str] = _compared
) -> Callable[[MeasureRow], str]:
    """A verdict that asks for nan at some places of the row alone."""

    def verdict(row: MeasureRow) -> str:
        unknown = any(math.isnan(row[place]) for place in places)
        return _TOO_FEW if unknown else compared(*row[2:])

    return verdict


def _unknown_is_worse(row: MeasureRow) -> str:
    said = _verdict(row)
    return _WORSE if said == _TOO_FEW else said


def _off_is_worse(row: MeasureRow) -> str:
    said = _verdict(row)
    return _WORSE if said == _BETTER else said


def _for_each_use(
    allowed: Callable[[Iterable[str | None]], bool],
) -> Callable[[Mapping[str, str], Uses], list[str]]:
    """The uses that are not allowed by the verdicts of the measures that they name."""

    def forbidden(verdicts: Mapping[str, str], uses: Uses) -> list[str]:
        return [
            use
            for use, names in uses.items()
            if not allowed([verdicts.get(name) for name in names])
        ]

    return forbidden


_FINE = (_AT, _BETTER)


def _fine(said: Sequence[str | None]) -> bool:
    return bool(said) and all(one in _FINE for one in said)


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


_MISSING = (
    "A use whose measures nobody has taken is allowed by your report. What was not measured is "
    "not known to be good."
)
_NAN = (
    "Your report compares with nan as with a number: every comparison with it is false. Ask for "
    "nan before you compare, in the value, in the interval and in the floor."
)
_NAN_IN_VALUE = (
    "You ask for nan in the value alone. The interval and the floor can be nan as well, and every "
    "comparison with nan is false."
)
_NAN_IN_INTERVAL = (
    "You ask for nan in the interval alone. The value and the floor can be nan as well, and every "
    "comparison with nan is false."
)

REPORT = Exercise(
    id="19.6",
    title="A report on a synthetic cohort",
    parameters=("measures", "uses"),
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
    misconceptions=(
        Misconception(
            "zero_for_the_floor",
            "You compared with 0. Real patients do not score 0 either: each measure has its own "
            "floor.",
            _judged(_changed(lambda value, low, high, floor, better: (low, high, 0.0, better))),
        ),
        Misconception(
            "value_without_its_interval",
            "You compared the value with the floor and did not look at the interval. A value that "
            "chance can move across the floor is no finding.",
            _judged(
                _changed(lambda value, low, high, floor, better: (value, value, floor, better))
            ),
        ),
        Misconception(
            "side_of_the_value",
            "You asked on which side of the floor the value lies. The interval decides, and need "
            "not contain the value: a bootstrap can move a divergence upwards.",
            _judged(_side_of_the_value),
        ),
        Misconception(
            "low_is_always_better",
            "You took low for better in every measure. Each one says what is better for it: low, "
            "high, or near the floor.",
            _judged(_changed(lambda value, low, high, floor, better: (low, high, floor, "low"))),
        ),
        Misconception(
            "near_as_low",
            'You took "near" for "low". Such a measure is worse on either side of its floor.',
            _judged(
                _changed(
                    lambda value, low, high, floor, better: (
                        low,
                        high,
                        floor,
                        better if better == "high" else "low",
                    )
                )
            ),
        ),
        Misconception(
            "near_as_high",
            'You took "near" for "high". Such a measure is worse on either side of its floor.',
            _judged(
                _changed(
                    lambda value, low, high, floor, better: (
                        low,
                        high,
                        floor,
                        better if better == "low" else "high",
                    )
                )
            ),
        ),
        Misconception(
            "low_and_high_exchanged",
            'You exchanged "low" and "high". Where low is better, an interval that lies above the '
            "floor is worse.",
            _judged(
                _changed(
                    lambda value, low, high, floor, better: (
                        low,
                        high,
                        floor,
                        {"low": "high", "high": "low"}.get(better, better),
                    )
                )
            ),
        ),
        Misconception(
            "every_difference_is_worse",
            "You call every interval that misses the floor worse. On the better side of the floor "
            'a measure that wants to be low or high is "better than the floor".',
            _judged(_off_is_worse),
        ),
        Misconception(
            "ends_of_the_interval_left_out",
            "You left out the ends of the interval. They belong to it: a floor that is equal to "
            "one of them is inside.",
            _judged(_strictly_inside),
        ),
        Misconception(
            "unknown_is_at_the_floor",
            'You call a measure with a nan "at the floor". Every comparison with nan is false, so '
            "a nan passes each test for a difference. Ask for it first.",
            _judged(_unknown_is_at_the_floor),
        ),
        Misconception("comparisons_with_nan", _NAN, _judged(_asks())),
        Misconception(
            "comparisons_with_nan_outside",
            _NAN,
            _judged(_asks(compared=_outside_first)),
        ),
        Misconception("value_alone_may_be_unknown", _NAN_IN_VALUE, _judged(_asks(1))),
        Misconception(
            "value_alone_may_be_unknown_outside",
            _NAN_IN_VALUE,
            _judged(_asks(1, compared=_outside_first)),
        ),
        Misconception("interval_alone_may_be_unknown", _NAN_IN_INTERVAL, _judged(_asks(2, 3))),
        Misconception(
            "interval_alone_may_be_unknown_outside",
            _NAN_IN_INTERVAL,
            _judged(_asks(2, 3, compared=_outside_first)),
        ),
        Misconception(
            "unknown_is_worse",
            'You call a measure with a nan "worse than the floor". Nothing was found out about '
            "it: too few to say.",
            _judged(_unknown_is_worse),
        ),
        Misconception(
            "one_good_measure_allows",
            "Your report allows a use as soon as one of its measures is good enough. All of them "
            "have to be.",
            _judged(forbidden=_for_each_use(lambda said: any(one in _FINE for one in said))),
        ),
        Misconception(
            "use_without_a_measure_allowed",
            "Your report allows a use that names no measure: all of none is true. A use for which "
            "there is no measure cannot be shown to be safe.",
            _judged(forbidden=_for_each_use(lambda said: all(one in _FINE for one in said))),
        ),
        Misconception(
            "missing_measure_allowed",
            _MISSING,
            _judged(
                forbidden=_for_each_use(
                    lambda said: bool(said) and all(one in (*_FINE, None) for one in said)
                )
            ),
        ),
        Misconception(
            "missing_measure_and_none_allowed",
            _MISSING,
            _judged(
                forbidden=_for_each_use(lambda said: all(one in (*_FINE, None) for one in said))
            ),
        ),
        Misconception(
            "too_few_allowed",
            "Your report forbids a use only where a measure is worse than its floor. Where there "
            "are too few patients to say, nothing speaks for the use either.",
            _judged(
                forbidden=_for_each_use(
                    lambda said: bool(said) and all(one in (*_FINE, _TOO_FEW) for one in said)
                )
            ),
        ),
        Misconception(
            "only_worse_forbids",
            "Your report forbids a use only where a measure is worse than its floor. A measure "
            "that says nothing, or was never taken, does not speak for the use either.",
            _judged(forbidden=_for_each_use(lambda said: _WORSE not in said)),
        ),
        Misconception(
            "better_forbidden",
            "Your report forbids a use where a measure is better than its floor. At the floor or "
            "better, a measure does not speak against the use.",
            _judged(
                forbidden=_for_each_use(
                    lambda said: bool(said) and all(one == _AT for one in said)
                )
            ),
        ),
        Misconception(
            "allowed_uses_listed",
            "Your second value lists the uses that are allowed. The task asks for those that are "
            "forbidden.",
            _judged(
                forbidden=lambda verdicts, uses: [
                    use for use in uses if use not in _forbidden(verdicts, uses)
                ]
            ),
        ),
    ),
    hints=(
        "First the verdict of one measure. Ask for nan before anything else; math.isnan does.",
        "The floor lies inside of the interval, below it or above it. Only outside does the third "
        "matter: which side is the better one?",
        "A use passes if it names at least one measure, and each of them has a verdict that does "
        "not speak against it. verdicts.get(name) is None for a measure that nobody took.",
    ),
)

EXERCISES = (PRIVACY, REPORT)
