"""One number, its interval and its floor: the bootstrap against SciPy's and against slow draws."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import (
    Measure,
    drawn_counts,
    generator,
    interval,
    measure_named,
    share_interval,
    too_few,
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
    }


def test_numbers_of_numpy_become_numbers_of_python() -> None:
    assert type(Measure("x", np.float32(1)).value) is float


def test_a_measure_is_known_when_it_has_both_ends_of_an_interval() -> None:
    assert Measure("x", 1, low=0, high=2).known
    assert not Measure("x", 1, low=0).known


def test_a_measure_has_one_of_three_directions() -> None:
    with pytest.raises(InputError, match="'up' is no direction"):
        Measure("x", 1, better="up")


def test_a_measure_is_found_by_its_name() -> None:
    measures = [Measure("one", 1), Measure("two", 2)]
    assert measure_named(measures, "two").value == 2
    with pytest.raises(InputError, match="There are: one, two"):
        measure_named(measures, "three")


@pytest.mark.parametrize("seed", [-1, 0.5, None, "0"])
def test_a_seed_is_a_whole_number_of_0_or_more(seed: object) -> None:
    with pytest.raises(InputError, match="is no seed"):
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


def test_every_patient_is_drawn_as_often_as_every_other() -> None:
    counts = drawn_counts(10, 4000, np.random.default_rng(0))
    assert np.allclose(counts.mean(axis=0), 1, atol=0.06)
    assert np.allclose(counts.var(axis=0), 0.9, atol=0.09)  # binomial: 10 draws, 1 in 10


# ---------------------------------------------------------------------- intervals


def test_the_interval_is_that_of_numpys_percentiles() -> None:
    values = np.random.default_rng(0).normal(size=501)
    assert interval(values, confidence=0.9) == pytest.approx(np.percentile(values, [5, 95]))


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


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_a_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(InputError, match="is no share"):
        interval([1, 2], confidence=confidence)


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
        low, high = share_interval(found, of, rng=rng, confidence=0.9)
        held += low <= 0.3 <= high
    assert 0.84 < held / 300 < 0.95


def test_with_too_few_patients_there_is_no_interval() -> None:
    rng = np.random.default_rng(0)
    assert np.isnan(share_interval([1] * 29, [2] * 29, rng=rng)).all()
    assert not np.isnan(share_interval([1] * 30, [2] * 30, rng=rng)).any()
