"""Nearest-neighbour adversarial accuracy (Yale et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.jackknife import GROUPS
from ehr_course.evaluation.nearest import Metric, distances_to_groups


@dataclass(frozen=True)
class AdversarialAccuracy:
    """How well real and synthetic patients are told apart by their nearest neighbour.

    Attributes:
        value: 0 to 1: the mean of the real patients and of the synthetic ones, each counting 1
            where the nearest other patient is of the same cohort, 0 where one of the other cohort
            is nearer, and 0.5 where they are equally near.
        left_out: float64 (groups,): what it is without each group of patients; empty where no
            groups were given.
    """

    value: float
    left_out: np.ndarray


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
    cohorts: Sequence[CodeTable],
    synthetic: CodeTable,
    *,
    metric: Metric = "jaccard",
    groups: np.ndarray | None = None,
) -> list[AdversarialAccuracy]:
    """The same against several real cohorts, such as training and held-out patients.

    The distances among the synthetic patients are computed once for all.

    Args:
        cohorts, synthetic: equally many patients each, at least two.
        metric: as for ``nearest_distances``.
        groups: int64 (patients,), as ``random_groups`` makes them: the same rows of every cohort
            are left out together.
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
    alone = np.zeros(len(synthetic), dtype=np.int64) if groups is None else groups
    count = 0 if groups is None else GROUPS

    def distances(a: CodeTable, b: CodeTable, *, leave_one_out: bool = False) -> np.ndarray:
        return distances_to_groups(a, b, alone, metric=metric, leave_one_out=leave_one_out)

    within_synthetic = distances(synthetic, synthetic, leave_one_out=True)
    found = []
    for real in cohorts:
        pairs = (
            (distances(real, real, leave_one_out=True), distances(real, synthetic)),
            (within_synthetic, distances(synthetic, real)),
        )
        left_out = [_accuracy(pairs, alone, group) for group in range(count)]
        found.append(AdversarialAccuracy(_accuracy(pairs, alone, None), np.array(left_out)))
    return found


def _accuracy(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], groups: np.ndarray, without: int | None
) -> float:
    """The accuracy without a group, from the distances (patients, groups) to own and other."""
    rows = groups != without
    columns = np.arange(groups.max() + 1) != without
    sides = []
    for own, other in pairs:
        nearest_own, nearest_other = (part[rows][:, columns].min(axis=1) for part in (own, other))
        is_own = np.where(nearest_own == nearest_other, 0.5, nearest_own < nearest_other)
        sides.append(is_own.mean())
    return float(np.mean(sides))
