"""How far a number moves with other patients, when it depends on all of them together.

The nearest neighbour of a patient is a neighbour of many. To draw patients again and keep their
neighbours forgets that, and gives intervals that are too narrow; to draw patients again and look
for neighbours anew makes everyone their own twin. So patients are left out instead, a tenth at a
time, of all cohorts at once: the delete-a-group jackknife (Shao and Wu 1989,
https://doi.org/10.1214/aos/1176347263).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

GROUPS = 10
"""Into so many groups each cohort is cut; each is left out once."""


def random_groups(n: int, rng: np.random.Generator) -> np.ndarray:
    """A group for each of n patients, at random and as equal in size as can be.

    Returns:
        int64 (n,), 0 to 9.

    >>> np.bincount(random_groups(25, np.random.default_rng(0)))
    array([3, 3, 3, 3, 3, 2, 2, 2, 2, 2])
    """
    return rng.permutation(np.arange(n) % GROUPS)


def jackknife_error(left_out: ArrayLike) -> float:
    """The standard error of a number, from what it is without each group.

    Args:
        left_out: float (groups,).

    Returns:
        0 or more; ``nan`` if a number is.

    >>> round(jackknife_error([1.0, 2.0, 3.0]), 4)
    1.1547
    """
    values = np.asarray(left_out, dtype=np.float64)
    share = (len(values) - 1) / len(values)
    return float(np.sqrt(share * ((values - values.mean()) ** 2).sum()))


def interval_around(value: float, *errors: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a number that errs for several independent reasons.

    Args:
        value: the number.
        errors: standard errors; they add up as squares.
        confidence: above 0 and below 1.

    Returns:
        low and high, as far from value as Student's t with 9 degrees of freedom says, since an
        error from ten groups is itself known roughly; both ``nan`` if an error is.

    >>> low, high = interval_around(0.5, 0.03, 0.04)
    >>> round(low, 3), round(high, 3)
    (0.387, 0.613)
    """
    error = math.hypot(*errors)
    if math.isnan(error):
        return math.nan, math.nan
    reach = float(stats.t.ppf((1 + confidence) / 2, GROUPS - 1)) * error
    return value - reach, value + reach
