"""How well a score ranks the ones before the zeros, under many weights at once."""

from __future__ import annotations

import numpy as np


def weighted_ranking(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Area under the ROC curve and average precision, for each column of weights.

    What ``roc_auc_score`` and ``average_precision_score`` of scikit-learn give with
    ``sample_weight``; the scores are sorted once for all columns, which makes a bootstrap cheap.
    Equal scores count as one threshold.

    Args:
        scores: float (n,): larger where a one is expected.
        labels: bool (n,).
        weights: float (n, resamples), 0 or more: how often each is drawn.

    Returns:
        Two arrays, float64 (resamples,); ``nan`` where only ones or only zeros were drawn (for
        average precision: where no one was).

    >>> weighted_ranking(np.array([0.9, 0.4, 0.6]), np.array([True, True, False]), np.ones((3, 1)))
    (array([0.5]), array([0.83333333]))
    """
    if not labels.any():
        return (np.full(weights.shape[1], np.nan),) * 2
    order = np.argsort(-scores, kind="stable")
    of_ones = order[labels[order]]
    # Only thresholds at which a one stands add to either area, and only sums between them are
    # needed: ones are few, so this is a fraction of the running sums over all n.
    first, last = (np.searchsorted(-scores[order], -scores[of_ones], s) for s in ("left", "right"))
    first, group = np.unique(first, return_index=True)
    last = last[group]
    hits = _ends(np.add.reduceat(weights[of_ones], group, axis=0))
    bounds = np.unique(np.concatenate([[0], first, last]))
    between = np.add.reduceat(weights[order], bounds[bounds < len(order)], axis=0)
    seen = np.concatenate([np.zeros((1, weights.shape[1])), _ends(between)])
    above = seen[np.searchsorted(bounds, first)]
    within = seen[np.searchsorted(bounds, last)]
    new_hits = np.diff(hits, axis=0, prepend=0)
    misses_above, misses_within = above - (hits - new_hits), within - hits
    ones = hits[-1]
    zeros = seen[-1] - ones
    with np.errstate(divide="ignore", invalid="ignore"):
        # Each one beats the zeros below it, and half of those at its own score.
        beaten = zeros - (misses_above + misses_within) / 2
        auroc = (new_hits * beaten).sum(axis=0) / (ones * zeros)
        precision = np.where(new_hits > 0, hits / within, 0.0)
        average_precision = (new_hits * precision).sum(axis=0) / ones
    return auroc, average_precision


def _ends(sums: np.ndarray) -> np.ndarray:
    return np.cumsum(sums, axis=0, dtype=np.float64)
