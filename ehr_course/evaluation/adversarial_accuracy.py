"""Nearest-neighbour adversarial accuracy (Yale et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.nearest import Metric, nearest_distances


@dataclass(frozen=True)
class AdversarialAccuracy:
    """How well real and synthetic patients are told apart by their nearest neighbour.

    Attributes:
        real: float64 (patients,): for each real patient 1 where another real patient is nearer
            than every synthetic one, 0 where a synthetic one is nearer, 0.5 where they are
            equally near.
        synthetic: float64 (patients,): the same for each synthetic patient, with the parts
            exchanged.
    """

    real: np.ndarray
    synthetic: np.ndarray

    @property
    def value(self) -> float:
        """0 to 1: the mean of both means."""
        return float((self.real.mean() + self.synthetic.mean()) / 2)

    def resampled(self, real_counts: np.ndarray, synthetic_counts: np.ndarray) -> np.ndarray:
        """The values when patients are drawn again, their neighbours staying what they are.

        Args:
            real_counts: float (resamples, patients), as ``drawn_counts`` returns them.
            synthetic_counts: the same for the synthetic patients.

        Returns:
            float64 (resamples,).
        """
        real = real_counts @ self.real / real_counts.sum(axis=1)
        synthetic = synthetic_counts @ self.synthetic / synthetic_counts.sum(axis=1)
        return (real + synthetic) / 2


def adversarial_accuracy(
    real: CodeTable, synthetic: CodeTable, *, metric: Metric = "jaccard"
) -> AdversarialAccuracy:
    """Tell real from synthetic patients by their nearest neighbour.

    0.5 is what two cohorts of the same distribution give. Near 1 the synthetic patients lie apart
    from the real ones; near 0 they lie on top of them, which a copy does. Codes are counts, so
    equal distances are common: they count a half here, where the paper's strict inequality
    counts nothing and gives less than 0.5 for two samples of one distribution.

    Args:
        real, synthetic: of one call of ``code_tables``, equally many patients, at least two.
        metric: as for ``nearest_distances``.

    Raises:
        InputError: if the sizes differ, or there is one patient only.

    Source: Yale et al. 2020, https://doi.org/10.1016/j.neucom.2019.12.136

    >>> from ehr_course.sources.synthetic import make_cohort
    >>> from ehr_course.evaluation.code_table import code_tables
    >>> cohort = make_cohort(200, seed=0)
    >>> real, copy, other = code_tables(cohort[:100], cohort[:100], cohort[100:])
    >>> adversarial_accuracy(real, copy).value < 0.1
    True
    >>> 0.4 < adversarial_accuracy(real, other).value < 0.6
    True
    """
    return adversarial_accuracies((real,), synthetic, metric=metric)[0]


def adversarial_accuracies(
    cohorts: Sequence[CodeTable], synthetic: CodeTable, *, metric: Metric = "jaccard"
) -> list[AdversarialAccuracy]:
    """The same against several real cohorts, such as training and held-out patients.

    The distances among the synthetic patients are computed once for all.
    """
    for real in cohorts:
        if len(real) != len(synthetic):
            raise InputError(
                "adversarial_accuracy",
                "",
                f"the cohorts have {len(real)} and {len(synthetic)} patients: the larger one "
                "would have the nearer neighbours by its size alone",
                "Draw as many from the larger one.",
            )
    within_synthetic, _ = nearest_distances(
        synthetic, synthetic, metric=metric, leave_one_out=True
    )
    found = []
    for real in cohorts:
        within_real, _ = nearest_distances(real, real, metric=metric, leave_one_out=True)
        to_synthetic, _ = nearest_distances(real, synthetic, metric=metric)
        to_real, _ = nearest_distances(synthetic, real, metric=metric)
        found.append(
            AdversarialAccuracy(
                _nearer(within_real, to_synthetic), _nearer(within_synthetic, to_real)
            )
        )
    return found


def _nearer(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(own == other, 0.5, own < other)
