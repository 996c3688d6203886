"""Who the patients are: age, sex, number of visits, and what they live with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ehr_course.sources.synthetic.case_mix import BAND_STARTS, CaseMix


@dataclass(frozen=True)
class Catchment:
    """Who comes to a hospital.

    Attributes:
        band_percent: the percentage of patients, by age band.
        female: the share of females, by age band.
        born_here: of the patients of age 0; the others come later in their first year.
    """

    band_percent: tuple[int, ...]
    female: tuple[float, ...]
    born_here: float


CATCHMENTS = {
    # Births and women of childbearing age are many, as in a hospital with a maternity ward.
    "general": Catchment(
        (18, 7, 5, 5, 19, 15, 9, 11, 9, 2),
        (0.49, 0.46, 0.46, 0.54, 0.68, 0.66, 0.50, 0.47, 0.53, 0.66),
        0.86,
    ),
    # Adults alone, most of them old, and no maternity ward.
    "heart": Catchment(
        (0, 0, 0, 0, 4, 10, 24, 34, 24, 4),
        (0.49, 0.46, 0.46, 0.54, 0.46, 0.40, 0.36, 0.40, 0.48, 0.62),
        0.0,
    ),
}
"""The hospitals of the course, by name."""

_BAND_YEARS = np.diff(np.append(BAND_STARTS, 100))
_COLUMNS = 5

AT_MOST_PERCENT = 95.0
"""No condition and no background is more frequent, whatever boosts it."""


@dataclass(frozen=True)
class Pattern:
    """How often patients come, and how much is written down.

    Attributes:
        number_of_visits: weights of patients with 1, 2, ... visits.
        density: multiplies the share of every code that stands alone, and the percentage of
            every condition and background.
    """

    number_of_visits: tuple[int, ...]
    density: float


@dataclass(frozen=True)
class People:
    """One row for each patient."""

    age: np.ndarray  # true age, up to 99; a record says 90 for all above 89
    sex: np.ndarray  # index into SEXES
    born_here: np.ndarray
    n_visits: np.ndarray
    has: np.ndarray  # (patient, cluster): which conditions the patient lives with


def n_person_draws(mix: CaseMix) -> int:
    """Return how many random numbers a patient takes."""
    return _COLUMNS + len(mix.clusters)


def make_people(
    mix: CaseMix, pattern: Pattern, catchment: Catchment, uniform: np.ndarray
) -> People:
    """Make patients from uniform numbers of shape (patient, n_person_draws)."""
    n = len(uniform)
    band = choose(uniform[:, 0], _for_each(n, catchment.band_percent))
    age = BAND_STARTS[band] + (uniform[:, 1] * _BAND_YEARS[band]).astype(np.int64)
    sex = (uniform[:, 2] >= np.array(catchment.female)[band]).astype(np.int64)
    born_here = (age == 0) & (uniform[:, 3] < catchment.born_here)
    n_visits = 1 + choose(uniform[:, 4], _for_each(n, pattern.number_of_visits))

    uniform = uniform[:, _COLUMNS:]
    has = np.zeros(uniform.shape, dtype=bool)
    for cluster in np.flatnonzero(mix.kinds == "condition"):
        percent = mix.prevalence[cluster, sex, band] * boost(mix, cluster, has) * pattern.density
        has[:, cluster] = uniform[:, cluster] * 100 < np.minimum(percent, AT_MOST_PERCENT)
    return People(age, sex, born_here, n_visits, has)


def boost(mix: CaseMix, cluster: int | np.integer, has: np.ndarray) -> np.ndarray:
    """Return what multiplies the frequency of a cluster. Shape (patient,)."""
    by = mix.boosted_by[cluster]
    return np.where(has[:, by], mix.boost[cluster], 1.0) if by >= 0 else np.ones(len(has))


def band_of(age: np.ndarray) -> np.ndarray:
    """Return the index of the age band."""
    return np.searchsorted(BAND_STARTS, age, side="right") - 1


def _for_each(n: int, weights: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(weights, (n, len(weights)))


def choose(uniform: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Choose a column for each row, by the row's weights. Shapes (n,), (n, k) -> (n,)."""
    top = np.cumsum(weights, axis=1)
    return (top <= (uniform * top[:, -1])[:, None]).sum(axis=1)
