"""AUROC and average precision under many weights, as scikit-learn computes them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from ehr_course.evaluation.measure import weighted_ranking


@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_both_are_those_of_scikit_learn_with_and_without_equal_scores(
    decimals: int, share: float
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(300) < share
    scores = (rng.normal(size=300) + labels).round(decimals)
    weights = rng.integers(0, 4, size=(300, 7)).astype(np.float32)
    auroc, precision = weighted_ranking(scores, labels, weights)
    for drawn, area, average in zip(weights.T, auroc, precision, strict=True):
        assert area == pytest.approx(roc_auc_score(labels, scores, sample_weight=drawn))
        assert average == pytest.approx(
            average_precision_score(labels, scores, sample_weight=drawn)
        )


def test_one_score_for_all_is_a_guess() -> None:
    labels = np.arange(10) < 3
    auroc, precision = weighted_ranking(np.zeros(10), labels, np.ones((10, 1)))
    assert (auroc[0], precision[0]) == (0.5, pytest.approx(0.3))


def test_without_zeros_or_without_ones_there_is_no_area() -> None:
    scores, labels = np.array([0.3, 0.7]), np.array([True, False])
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    auroc, precision = weighted_ranking(scores, labels, weights)
    assert np.isnan(auroc).all()
    np.testing.assert_array_equal(np.isnan(precision), [False, True, True])
    nobody = weighted_ranking(scores, np.zeros(2, dtype=bool), weights)
    assert np.isnan(nobody).all()
