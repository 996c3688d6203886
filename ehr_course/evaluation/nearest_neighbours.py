"""The nearest patients of another cohort, and nearest-neighbour adversarial accuracy.

Distances are computed in blocks: memory does not grow with the cohorts. A patient is the set of
codes of all visits. Age and sex take no part: a synthetic cohort is written for ages and sexes
that were asked for, so they say nothing about copying, and a weight of years against codes would
be arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.measure import GROUPS

Metric = Literal["jaccard", "hamming"]


def nearest_distances(
    a: CodeTable,
    b: CodeTable,
    *,
    metric: Metric = "jaccard",
    block: int = 1024,
    leave_one_out: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Find for each patient of ``a`` the nearest patient of ``b``.

    Patients without a common code have the Jaccard distance 1. Where several patients of ``b``
    are equally near, the first of them is returned. (Codes in common are counted exactly; Jaccard
    distances are compared in float32, which tells all of them apart while two patients have fewer
    than about 4,000 codes together.)

    Args:
        a, b: made by one call of ``code_tables``, so that they have the same columns.
        metric: "jaccard", 1 - shared / all codes of the two, from 0 to 1; or "hamming", the
            number of codes that one of them has and the other has not.
        block: how many patients of each are compared at a time. Memory holds about
            ``block * (3 * block + codes)`` float32, whatever the sizes of the cohorts.
        leave_one_out: patient i of ``a`` is not compared with patient i of ``b``: for a cohort
            against itself, of which everyone's nearest would be themselves.

    Returns:
        distances: float64 (len(a),).
        index: int64 (len(a),), the row of ``b``.

    Raises:
        InputError: if the columns differ, a setting is out of its range, or leave_one_out is
            asked of cohorts of different sizes or of a single patient.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> def patient(*codes):
    ...     return PatientRecord(1, "F", 50, (Visit(codes),))
    >>> real, written = code_tables(
    ...     [patient("4280", "4019")], [patient("486"), patient("4280", "4019", "2720")]
    ... )
    >>> nearest_distances(real, written)
    (array([0.33333333]), array([1]))
    >>> nearest_distances(real, written, metric="hamming")
    (array([1.]), array([1]))
    """
    _check(a, b, metric, block, leave_one_out)
    index = np.zeros(len(a), dtype=np.int64)
    best = np.full(len(a), -np.inf, dtype=np.float32)
    for rows, columns, similarity in similarities(
        a.patients, b.patients, metric=metric, block=block
    ):
        if leave_one_out:
            same = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
            similarity[same - rows.start, same - columns.start] = -np.inf
        nearest = similarity.argmax(axis=1)
        found = similarity[np.arange(len(nearest)), nearest]
        # Strictly better, so that the first of equals stays.
        better = np.flatnonzero(found > best[rows])
        best[rows.start + better] = found[better]
        index[rows.start + better] = columns.start + nearest[better]
    return _distances(a.patients, b.patients[index], metric), index


def distances_to_groups(
    a: CodeTable,
    b: CodeTable,
    groups: np.ndarray,
    *,
    metric: Metric = "jaccard",
    leave_one_out: bool = False,
) -> np.ndarray:
    """The distance of each patient of ``a`` to the nearest one in each group of ``b``.

    The smallest of a row is what nearest_distances gives; the smallest of all but one is what it
    would give without that group. It costs no more than the distances themselves.

    Args:
        a, b, metric, leave_one_out: as for ``nearest_distances``.
        groups: int64 (len(b),), from 0: the group of each patient of ``b``, each with at least
            two patients.

    Returns:
        float64 (len(a), groups).
    """
    found = np.empty((len(a), groups.max() + 1))
    for group in range(found.shape[1]):
        inside = np.flatnonzero(groups == group)
        some = b.select(inside)
        if not leave_one_out:
            found[:, group] = nearest_distances(a, some, metric=metric)[0]
            continue
        outside = np.flatnonzero(groups != group)
        found[inside, group] = nearest_distances(some, some, metric=metric, leave_one_out=True)[0]
        if len(outside):
            found[outside, group] = nearest_distances(a.select(outside), some, metric=metric)[0]
    return found


def similarities(
    a: csr_array, b: csr_array, *, metric: Metric = "jaccard", block: int = 1024
) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Compare all rows of two matrices of zeros and ones, a block of each at a time.

    Args:
        a: float32 (patients of a, codes).
        b: float32 (patients of b, codes).
        metric: as for ``nearest_distances``.
        block: rows of each at a time.

    Yields:
        The rows of ``a``, the rows of ``b``, and float32 (rows of a, rows of b): larger is
        nearer; 1 - distance for "jaccard" (two empty rows: 1), minus the distance for "hamming".
        The array may be written to.
    """
    sizes_a = a.sum(axis=1, dtype=np.float32)
    sizes_b = b.sum(axis=1, dtype=np.float32)
    for first_b in range(0, b.shape[0], block):
        columns = slice(first_b, min(first_b + block, b.shape[0]))
        # Sparse times dense: a patient has few of all codes, so this is several times as fast as
        # a product of dense blocks, and its result needs no conversion.
        transposed = np.ascontiguousarray(b[columns].toarray().T)  # (codes, rows of b)
        for first_a in range(0, a.shape[0], block):
            rows = slice(first_a, min(first_a + block, a.shape[0]))
            shared = a[rows] @ transposed  # (rows of a, rows of b)
            total = sizes_a[rows, None] + sizes_b[None, columns]
            if metric == "hamming":
                shared *= 2
                shared -= total
            else:
                total -= shared
                empty = total == 0 if 0 in sizes_a[rows] and 0 in sizes_b[columns] else None
                np.divide(shared, np.maximum(total, 1, out=total), out=shared)
                if empty is not None:
                    shared[empty] = 1
            yield rows, columns, shared


def _distances(a: csr_array, b: csr_array, metric: Metric) -> np.ndarray:
    """The distance of each row of ``a`` to the same row of ``b``, float64 (rows,)."""
    shared = a.multiply(b).sum(axis=1, dtype=np.float64)
    total = a.sum(axis=1, dtype=np.float64) + b.sum(axis=1, dtype=np.float64)
    if metric == "hamming":
        return total - 2 * shared
    union = total - shared
    return np.where(union > 0, 1 - shared / np.maximum(union, 1), 0.0)


def _check(a: CodeTable, b: CodeTable, metric: str, block: int, leave_one_out: bool) -> None:
    where = "nearest_distances"
    if a.codes != b.codes:
        raise InputError(
            where,
            "",
            f"the tables have other columns ({len(a.codes)} and {len(b.codes)} codes)",
            "Make both with one call of code_tables.",
        )
    if metric not in ("jaccard", "hamming"):
        raise InputError(
            where, "metric", f"{metric!r} is no metric", 'Use "jaccard" or "hamming".'
        )
    if block < 1:
        raise InputError(where, "block", f"{block!r} is no size", "Use 1 or more.")
    if not len(a) or not len(b):
        raise InputError(where, "", "a cohort has no patients", "Give at least one patient.")
    if leave_one_out and len(a) != len(b):
        raise InputError(
            where,
            "leave_one_out",
            f"the cohorts have {len(a)} and {len(b)} patients",
            "It compares a cohort with itself: give the same table twice.",
        )
    if leave_one_out and len(a) == 1:
        raise InputError(
            where,
            "leave_one_out",
            "a cohort of one patient has no other patient",
            "Give at least two.",
        )


# ------------------------------------------------------------------ adversarial accuracy


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
