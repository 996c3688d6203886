"""Random numbers that are the same on every machine and with every version of NumPy.

NumPy keeps a bit generator's raw output stable, but not its distributions, so the 53 random bits
of a number are taken here.
"""

from __future__ import annotations

import numpy as np

from ehr_course.errors import InputError


def check_seed(function: str, seed: int) -> None:
    """Raise an InputError unless the seed of a function is a whole number, 0 or more."""
    if not isinstance(seed, int) or seed < 0:
        problem, remedy = f"{seed!r} is not a seed", "Pass a whole number, 0 or more."
        raise InputError(function, "argument seed", problem, remedy)


class Draws:
    """Rows of uniform numbers in [0, 1) from one of a seed's independent streams."""

    def __init__(self, seed: int, stream: int, columns: int = 1) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, stream]))
        self._columns = columns

    def rows(self, count: int) -> np.ndarray:
        """Return the next rows, of shape (count, columns)."""
        raw = self._bits.random_raw(count * self._columns)
        return _unit(raw).reshape(count, self._columns)

    def pick(self, count: int, out_of: int) -> np.ndarray:
        """Draw distinct row numbers, in random order. Shape (count,)."""
        keys = self._bits.random_raw(out_of)
        return np.argsort(keys, kind="stable")[:count]


def hashed(seed: int, stream: int, ids: np.ndarray) -> np.ndarray:
    """Return a uniform number for each id: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = np.asarray(ids).astype(np.uint64)
    for key in (seed, stream):
        x = _mix(x ^ _mix(np.full_like(x, key)))
    return _unit(x)


def _mix(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _unit(raw: np.ndarray) -> np.ndarray:
    return (raw >> np.uint64(11)) * 2.0**-53
