"""One number, its interval and its floor: the bootstrap against SciPy's and against slow draws."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import (
    GROUPS,
    Judgement,
    Measure,
    drawn_counts,
    generator,
    interval,
    interval_around,
    jackknife_error,
    random_groups,
    share_interval,
    too_few,
    weighted_ranking,
)


def test_a_measure_becomes_json_without_nan_or_infinity() -> None:
    measure = Measure("x", math.inf, low=-math.inf, high=1.5, floor=math.nan, unit="bits")
    found = json.loads(json.dumps(measure.to_json(), allow_nan=False))
    assert found == {
        "name": "x",
        "value": None,
        "low": None,
        "high": 1.5,
        "floor": None,
        "unit": "bits",
        "better": "low",
        "meaning": "",
        "against_training": None,
    }


def test_a_measure_is_found_by_its_name() -> None:
    found = Judgement((Measure("one", 1), Measure("two", 2)))
    assert found["two"].value == 2
    with pytest.raises(InputError, match="There are: one, two"):
        found["three"]


@pytest.mark.parametrize("seed", [-1, 0.5, None, "0"])
def test_a_seed_is_a_whole_number_of_0_or_more(seed: object) -> None:
    with pytest.raises(InputError, match="is not a seed"):
        generator(seed)


def test_only_a_cohort_below_30_patients_is_too_small() -> None:
    assert too_few("cohort", 30) == []
    (warning,) = too_few("cohort", 29)
    assert warning.startswith("The cohort has 29 patients: no interval")


# ---------------------------------------------------------------------- drawing


@pytest.mark.parametrize("size", [None, 3, 50])
def test_counts_times_rows_are_the_sums_of_the_patients_drawn(size: int | None) -> None:
    rows = np.random.default_rng(1).normal(size=(20, 4))
    counts = drawn_counts(20, 5, np.random.default_rng(0), size=size)
    rng = np.random.default_rng(0)
    slow = [sum(rows[i] for i in rng.integers(20, size=size or 20)) for _ in range(5)]
    assert np.allclose(counts @ rows, slow)


# ---------------------------------------------------------------------- intervals


def test_the_interval_is_that_of_numpys_percentiles() -> None:
    values = np.random.default_rng(0).normal(size=501)
    assert interval(values) == pytest.approx(np.percentile(values, [2.5, 97.5]))


def test_a_centred_interval_keeps_its_width_and_puts_its_mean_at_the_centre() -> None:
    values = np.random.default_rng(0).exponential(size=1000)
    low, high = interval(values)
    moved = interval(values, centre=7)
    assert moved[1] - moved[0] == pytest.approx(high - low)
    assert moved[0] - low == pytest.approx(7 - values.mean())


def test_resamples_without_a_value_are_left_out_unless_they_are_most() -> None:
    values = np.arange(100.0)
    values[::3] = np.nan
    assert interval(values) == pytest.approx(np.nanquantile(values, [0.025, 0.975]))
    values[::2] = np.nan
    assert np.isnan(interval(values)).all()


def test_the_interval_of_a_share_is_that_of_scipys_bootstrap() -> None:
    rng = np.random.default_rng(0)
    of = rng.integers(1, 20, size=150)
    found = rng.binomial(of, 0.3)
    oracle = stats.bootstrap(
        (found, of),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=5000,
        method="percentile",
        rng=1,
    ).confidence_interval
    ours = share_interval(found, of, rng=np.random.default_rng(2), resamples=5000)
    assert ours == pytest.approx(tuple(oracle), abs=0.002)


def test_the_interval_of_a_share_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        # A patient's codes go together, so counting codes one by one would be too sure.
        of = rng.integers(1, 20, size=100)
        found = of * (rng.random(100) < 0.3)
        low, high = share_interval(found, of, rng=rng)
        held += low <= 0.3 <= high
    assert 0.9 < held / 300 < 0.99


def test_with_too_few_patients_there_is_no_interval() -> None:
    rng = np.random.default_rng(0)
    assert np.isnan(share_interval([1] * 29, [2] * 29, rng=rng)).all()
    assert not np.isnan(share_interval([1] * 30, [2] * 30, rng=rng)).any()


# ------------------------------------------------------------------ the jackknife


def test_groups_are_equal_but_for_one_patient():
    sizes = np.bincount(random_groups(57, np.random.default_rng(0)))
    assert len(sizes) == GROUPS and sizes.max() - sizes.min() == 1


def test_of_a_mean_it_is_the_standard_error():
    values = np.random.default_rng(0).normal(size=GROUPS)
    left_out = [np.delete(values, place).mean() for place in range(GROUPS)]
    assert jackknife_error(left_out) == pytest.approx(stats.sem(values))


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        values = rng.normal(loc=3.0, size=200)
        groups = random_groups(200, rng)
        left_out = [values[groups != group].mean() for group in range(GROUPS)]
        low, high = interval_around(values.mean(), jackknife_error(left_out))
        held += low <= 3.0 <= high
    assert held / 400 == pytest.approx(0.95, abs=0.03)


def test_errors_add_up_as_squares():
    low, high = interval_around(1.0, 0.3, 0.4)
    assert high - 1.0 == pytest.approx(stats.t.ppf(0.975, GROUPS - 1) * 0.5)
    assert 1.0 - low == pytest.approx(high - 1.0)


def test_an_unknown_error_gives_no_interval():
    assert all(map(math.isnan, interval_around(1.0, 0.3, math.nan)))


# ------------------------------------------------------------------ rankings under weights


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
