"""The numbers that fidelity makes of two sums: of real patients, and of synthetic ones.

A cohort can have what no real patient has: other codes, more visits, higher ages. A number must
not change for real patients because of that, or each cohort would be held against a floor of its
own. So what is compared thing by thing are the things that real patients have, and all others
count together as one more thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ehr_course.evaluation.distances import js_divergence
from ehr_course.evaluation.measure import SHARE

_AT_ONCE = 40
"""For so many choices a number is computed at a time, to save memory."""


class Sums(NamedTuple):
    """The sums of some choices of patients.

    Attributes:
        counts: float32 (choices, things): how often each thing comes.
        of: float32 (choices,): of how many patients, visits or pairs of visits.
    """

    counts: np.ndarray
    of: np.ndarray

    def some(self, choices: slice) -> Sums:
        """The sums of some of the choices."""
        return Sums(self.counts[choices], self.of[choices])


@dataclass(frozen=True)
class Statistic:
    """One number for the sums of two sides.

    Attributes:
        name, unit, better, meaning: as in Measure. A number that is better "near" depends on
            the synthetic sums alone; its floor is the same number of real patients.
        function: takes the real Sums and the synthetic ones, and returns float (choices,).
        lowest, highest: what the number cannot pass.
    """

    name: str
    unit: str
    better: Literal["low", "high", "near"]
    meaning: str
    function: Callable[[Sums, Sums], np.ndarray]
    lowest: float = 0.0
    highest: float = math.inf

    def __call__(self, real: Sums, synthetic: Sums) -> np.ndarray:
        """The number for each choice: float64 (choices,), ``nan`` where it is not defined."""
        blocks = [
            slice(first, first + _AT_ONCE) for first in range(0, len(synthetic.of), _AT_ONCE)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.concatenate(
                [self.function(real.some(some), synthetic.some(some)) for some in blocks]
            )


def share(sums: Sums) -> np.ndarray:
    """Each count by what it is counted of: float64 (choices, things)."""
    return sums.counts.astype(np.float64) / sums.of.astype(np.float64)[:, None]


def pooled(counts: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The counts of known things, and in a last column those of all others together.

    Args:
        counts: float (choices, things).
        known: bool (things,).

    Returns:
        float64 (choices, known things + 1).

    >>> pooled(np.array([[3, 4, 5]]), np.array([True, False, False])).tolist()
    [[3.0, 9.0]]
    """
    own = counts[:, known].astype(np.float64)
    rest = counts.sum(axis=1, dtype=np.float64) - own.sum(axis=1)  # whole numbers: exact
    return np.concatenate([own, rest[:, None]], axis=1)


def prevalence(name: str, of_what: str, thing: str, known: np.ndarray) -> tuple[Statistic, ...]:
    """How equal shares are, thing by thing, among the known things: R2 and RMSE.

    Args:
        name: of the measures, without "R2" and "RMSE".
        of_what: which share it is, in words.
        thing: what has a share: "code" or "pair".
        known: bool (things,): which are compared.
    """

    def errors(real: Sums, synthetic: Sums) -> tuple[np.ndarray, np.ndarray]:
        of_real, of_synthetic = (
            share(Sums(each.counts[:, known], each.of)) for each in (real, synthetic)
        )
        return of_real, of_synthetic - of_real

    def r2(real: Sums, synthetic: Sums) -> np.ndarray:
        of_real, error = errors(real, synthetic)
        if not error.shape[1]:
            return np.full(len(error), np.nan)
        spread = ((of_real - of_real.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return np.where(spread > 0, 1 - (error**2).sum(axis=1) / spread, np.nan)

    def rmse(real: Sums, synthetic: Sums) -> np.ndarray:
        _, error = errors(real, synthetic)
        if not error.shape[1]:
            return np.full(len(error), np.nan)
        return np.sqrt((error**2).mean(axis=1))

    return (
        Statistic(
            f"{name} R2",
            "",
            "high",
            f"How well {of_what} agrees, {thing} by {thing}: 1 on the line synthetic = real, 0 "
            f"where one prevalence for every {thing} would do as well.",
            r2,
            lowest=-math.inf,
            highest=1,
        ),
        Statistic(
            f"{name} RMSE",
            SHARE,
            "low",
            f"How far off {of_what} is: the root of the mean square over every {thing}.",
            rmse,
            highest=1,
        ),
    )


def distances(name: str, things: str, known: np.ndarray) -> tuple[Statistic, ...]:
    """How far apart two distributions are: the Jensen-Shannon divergence and distance.

    Args:
        name: of the measures, without the distance's own.
        things: what is distributed, in words.
        known: bool (things,): which are compared one by one; the others are so together.
    """

    def divergence(real: Sums, synthetic: Sums) -> np.ndarray:
        return np.asarray(
            js_divergence(pooled(real.counts, known), pooled(synthetic.counts, known))
        )

    return (
        Statistic(
            f"{name} JS divergence",
            "bits",
            "low",
            f"The Jensen-Shannon divergence, base 2, of the distributions of {things}: 0 bits "
            "where they are equal, 1 bit where nothing is in both.",
            divergence,
            highest=1,
        ),
        Statistic(
            f"{name} JS distance",
            "sqrt(bits)",
            "low",
            "The Jensen-Shannon distance, base 2: the square root of the divergence, also from "
            "0 to 1 and larger in between.",
            lambda real, synthetic: np.sqrt(divergence(real, synthetic)),
            highest=1,
        ),
    )


MOST_PAIRED = 150
"""The pairs of so many codes are compared one by one."""


def of_pairs(
    name: str,
    of_what: str,
    things: str,
    codes: tuple[np.ndarray, np.ndarray],
    n_codes: int,
) -> tuple[Statistic, ...]:
    """How equal shares of pairs are, and how far apart the distributions of pairs.

    One by one are compared the pairs of those 150 codes that most visits of the real patients of
    a choice have; the floor's other real patients have no part in it. Chosen by all real
    patients, the pairs would be more frequent in them by luck, which no other patient of the same
    hospital has: a fresh cohort would be off its floor. All other pairs count together.

    Args:
        name: of the measures, without their own.
        of_what: which share it is, in words.
        things: what is distributed, in words.
        codes: int64 (pairs,) and (pairs,): the first and the second code of each pair, by number.
        n_codes: how many codes there are.

    Returns:
        statistics of counts with a column for each pair and one for all others, as
        pairs_in_visits returns them, and then one for the visits with each code.
    """
    first, second = codes
    n = len(first) + 1

    def pairs_by_themselves(real: Sums) -> np.ndarray:
        chosen = np.zeros(n_codes, dtype=bool)
        chosen[np.argsort(-real.counts[0, n:], kind="stable")[:MOST_PAIRED]] = True
        return np.concatenate([chosen[first] & chosen[second], [False]])

    def by_themselves(known: np.ndarray) -> tuple[Statistic, ...]:
        return (*prevalence(name, of_what, "pair", known), *distances(name, things, known))

    def of_each_choice(number: int) -> Callable[[Sums, Sums], np.ndarray]:
        def function(real: Sums, synthetic: Sums) -> np.ndarray:
            found = []
            for choice in range(len(real.of)):
                one, other = (each.some(slice(choice, choice + 1)) for each in (real, synthetic))
                statistic = by_themselves(pairs_by_themselves(one))[number]
                one, other = (Sums(each.counts[:, :n], each.of) for each in (one, other))
                found.append(statistic.function(one, other))
            return np.concatenate(found)

        return function

    return tuple(
        replace(statistic, function=of_each_choice(number))
        for number, statistic in enumerate(by_themselves(np.zeros(n, dtype=bool)))
    )


def difference(name: str, unit: str, things: str, values: np.ndarray) -> Statistic:
    """How far apart two means are.

    Args:
        name: of the measure, without "difference".
        unit: of the values.
        things: what has a value, in words.
        values: int64 (things,): the number that each counted thing stands for.
    """

    def mean(sums: Sums) -> np.ndarray:
        # Sums of whole numbers are exact: values that nobody has change nothing.
        return sums.counts.astype(np.float64) @ values / sums.of

    return Statistic(
        f"{name} difference",
        unit,
        "low",
        f"How far apart the means of {things} are, whichever is larger.",
        lambda real, synthetic: np.abs(mean(real) - mean(synthetic)),
    )


DISTINCT = Statistic(
    "distinct codes",
    "codes",
    "near",
    "How many different codes that many synthetic patients have; the floor is how many as many "
    "real patients have.",
    lambda real, synthetic: (synthetic.counts > 0).sum(axis=1).astype(float),
)

UNSEEN = Statistic(
    "unseen codes",
    SHARE,
    "low",
    "The share of the codes written that none of as many real patients has; the floor is that "
    "share among the codes of other real patients.",
    lambda real, synthetic: (
        (synthetic.counts * (real.counts == 0)).sum(axis=1, dtype=np.float64)
        / synthetic.counts.sum(axis=1, dtype=np.float64)
    ),
    highest=1,
)
