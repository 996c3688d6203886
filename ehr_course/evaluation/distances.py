"""How far apart two distributions are, and two patients; and who is nearest to whom.

Patients are compared by the sets of codes of all their visits. Age and sex take no part: a
synthetic cohort is written for given ages and sexes, so they say nothing about copying.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import rel_entr

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.measure import GROUPS

BLOCK = 1024
"""So many patients are compared with as many others at a time, to save memory."""

# ------------------------------------------------------------------ distributions


def js_divergence(p: ArrayLike, q: ArrayLike, *, base: float = 2) -> np.ndarray | float:
    """The Jensen-Shannon divergence: mean relative entropy of p and q to their average (Lin 1991).

    It is 0 for equal distributions and 1 (with base e: 0.693) if they have nothing in common.

    Args:
        p, q: float (..., k): shares or counts of the same k things; rows are divided by their
            sums.
        base: of the logarithm: 2 gives bits, ``math.e`` nats.

    Returns:
        A number, or float64 (...,); ``nan`` where a distribution is empty.

    >>> js_divergence([1, 1, 0, 0], [0, 0, 3, 1])
    1.0
    """
    one, other = (np.asarray(each, dtype=np.float64) for each in (p, q))
    problem = ""
    if one.shape != other.shape or one.ndim == 0:
        problem = f"p has shape {one.shape}, q {other.shape}"
    elif not all(np.isfinite(each).all() and (each >= 0).all() for each in (one, other)):
        problem = "a share is negative or not finite"
    elif not base > 1:
        problem = f"base {base!r} is not a base of logarithms"
    if problem:
        raise InputError(
            "js_divergence",
            "",
            problem,
            "Give shares or counts of the same things, 0 or more, in the same order; as base 2 "
            "for bits or math.e for nats.",
        )
    with np.errstate(invalid="ignore"):
        one, other = (each / each.sum(-1, keepdims=True) for each in (one, other))
    middle = (one + other) / 2
    nats = (rel_entr(one, middle) + rel_entr(other, middle)).sum(axis=-1) / 2
    divergence = np.maximum(nats, 0) / np.log(base)  # rounding can fall just below 0
    return float(divergence) if divergence.ndim == 0 else divergence


def js_distance(p: ArrayLike, q: ArrayLike, *, base: float = 2) -> np.ndarray | float:
    """The Jensen-Shannon distance, the root of the divergence (Endres and Schindelin 2003).

    It is a metric from 0 to 1 (with base e: 0.833), and what
    ``scipy.spatial.distance.jensenshannon`` returns, whose default base is e.
    """
    distance = np.sqrt(js_divergence(p, q, base=base))
    return float(distance) if distance.ndim == 0 else distance


# ------------------------------------------------------------------ patients


def nearest_distances(
    a: CodeTable, b: CodeTable, *, leave_one_out: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest patient of ``b``, the first of equals, for each patient of ``a``.

    The distance is Jaccard's: 1 - shared / all codes of two patients, from 0 to 1.

    Args:
        a, b: tables from one call of ``code_tables``.
        leave_one_out: patient i of ``a`` is not compared with patient i of ``b``: for a cohort of
            at least two patients against itself.

    Returns:
        distances: float64 (len(a),).
        index: int64 (len(a),), the row of ``b``.
    """
    if a.codes != b.codes:
        raise InputError(
            "nearest patients",
            "",
            f"the tables have other columns ({len(a.codes)} and {len(b.codes)} codes)",
            "Make both with one call of code_tables.",
        )
    index = np.zeros(len(a), dtype=np.int64)
    best = np.full(len(a), -np.inf, dtype=np.float32)
    for rows, columns, similarity in similarities(a.patients, b.patients):
        if leave_one_out:
            same = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
            similarity[same - rows.start, same - columns.start] = -np.inf
        nearest = similarity.argmax(axis=1)
        found = similarity[np.arange(len(nearest)), nearest]
        # Strictly better, so that the first of equals stays.
        better = np.flatnonzero(found > best[rows])
        best[rows.start + better] = found[better]
        index[rows.start + better] = columns.start + nearest[better]
    own, other = a.patients, b.patients[index]
    shared = own.multiply(other).sum(axis=1, dtype=np.float64)
    union = own.sum(axis=1, dtype=np.float64) + other.sum(axis=1, dtype=np.float64) - shared
    return np.where(union > 0, 1 - shared / np.maximum(union, 1), 0.0), index


def similarities(a: csr_array, b: csr_array) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Compare all rows of two float32 matrices of zeros and ones, (patients, codes), in blocks.

    Yields:
        The rows of ``a``, those of ``b``, and 1 - Jaccard's distance, float32 (rows of a, rows of
        b), free to be written to; it is 1 for two empty rows.
    """
    sizes_a = a.sum(axis=1, dtype=np.float32)
    sizes_b = b.sum(axis=1, dtype=np.float32)
    for first_b in range(0, b.shape[0], BLOCK):
        columns = slice(first_b, min(first_b + BLOCK, b.shape[0]))
        # Sparse times dense: a patient has few of all codes, so this is several times as fast as
        # a product of dense blocks, and its result needs no conversion.
        transposed = np.ascontiguousarray(b[columns].toarray().T)  # (codes, rows of b)
        for first_a in range(0, a.shape[0], BLOCK):
            rows = slice(first_a, min(first_a + BLOCK, a.shape[0]))
            shared = a[rows] @ transposed  # (rows of a, rows of b)
            union = sizes_a[rows, None] + sizes_b[None, columns]
            union -= shared
            empty = union == 0 if 0 in sizes_a[rows] and 0 in sizes_b[columns] else None
            np.divide(shared, np.maximum(union, 1, out=union), out=shared)
            if empty is not None:
                shared[empty] = 1
            yield rows, columns, shared


# ------------------------------------------------------------------ adversarial accuracy


class AdversarialAccuracy(NamedTuple):
    """How well two cohorts are told apart, and float64 (groups,): without each group of patients.

    The value, 0 to 1, is the mean over both cohorts, a patient counting 1 if the nearest other
    patient is of the same cohort, 0.5 if both cohorts are equally near, and 0 otherwise.
    """

    value: float
    left_out: np.ndarray


def adversarial_accuracy(real: CodeTable, synthetic: CodeTable) -> AdversarialAccuracy:
    """Tell real from equally many synthetic patients by their nearest neighbour.

    Two cohorts of the same distribution give 0.5; near 1 the synthetic patients lie apart from the
    real ones, near 0 they lie on top of them, as copies do. Equal distances, common among counts
    of codes, count a half; the strict inequality of the paper counts them as nothing.

    Source: Yale et al. 2020, https://doi.org/10.1016/j.neucom.2019.12.136
    """
    if not len(real) == len(synthetic) > 1:
        raise InputError(
            "adversarial_accuracy",
            "",
            f"the cohorts have {len(real)} and {len(synthetic)} patients: the larger one "
            "would have the nearer neighbours by its size alone",
            "Draw as many from the larger one, two or more.",
        )
    return adversarial_accuracies((real,), synthetic)[0]


def adversarial_accuracies(
    cohorts: Sequence[CodeTable], synthetic: CodeTable, *, groups: np.ndarray | None = None
) -> list[AdversarialAccuracy]:
    """The same against several real cohorts; distances among synthetic patients are computed once.

    ``groups``, int64 (patients,), says which rows of every cohort are left out together.
    """
    alone = np.zeros(len(synthetic), dtype=np.int64) if groups is None else groups
    count = 0 if groups is None else GROUPS
    within_synthetic = _to_groups(synthetic, synthetic, alone, leave_one_out=True)
    found = []
    for real in cohorts:
        within_real = _to_groups(real, real, alone, leave_one_out=True)
        pairs = (
            (within_real, _to_groups(real, synthetic, alone)),
            (within_synthetic, _to_groups(synthetic, real, alone)),
        )
        left_out = [_accuracy(pairs, alone, group) for group in range(count)]
        found.append(AdversarialAccuracy(_accuracy(pairs, alone, None), np.array(left_out)))
    return found


def _to_groups(
    a: CodeTable, b: CodeTable, groups: np.ndarray, *, leave_one_out: bool = False
) -> np.ndarray:
    """The distance from each patient of ``a`` to each group of ``b``: float64 (len(a), groups).

    The smallest over all groups but one is the distance without that group. Groups are int64
    (len(b),), of at least two patients each.
    """
    found = np.empty((len(a), groups.max() + 1))
    for group in range(found.shape[1]):
        inside, outside = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        some = b.select(inside)
        if not leave_one_out:
            found[:, group] = nearest_distances(a, some)[0]
            continue
        found[inside, group] = nearest_distances(some, some, leave_one_out=True)[0]
        if len(outside):
            found[outside, group] = nearest_distances(a.select(outside), some)[0]
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
