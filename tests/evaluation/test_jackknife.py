"""Leaving out a tenth at a time says how far a number moves with other patients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ehr_course.evaluation.code_table import code_tables
from ehr_course.evaluation.measure import (
    GROUPS,
    interval_around,
    jackknife_error,
    random_groups,
)
from ehr_course.evaluation.nearest_neighbours import distances_to_groups, nearest_distances
from ehr_course.sources.synthetic import make_cohort


def test_groups_are_equal_but_for_one_patient():
    sizes = np.bincount(random_groups(57, np.random.default_rng(0)))
    assert len(sizes) == GROUPS and sizes.max() - sizes.min() == 1


def test_groups_are_drawn():
    one, other = (random_groups(100, np.random.default_rng(seed)) for seed in (0, 1))
    assert (one != other).any()


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


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_nearest_of_all_groups_is_the_nearest(leave_one_out):
    cohort = make_cohort(120, seed=4)
    a, b = code_tables(cohort[:60], cohort[:60] if leave_one_out else cohort[60:])
    groups = random_groups(60, np.random.default_rng(2))
    by_group = distances_to_groups(a, b, groups, leave_one_out=leave_one_out)
    expected, _ = nearest_distances(a, b, leave_one_out=leave_one_out)
    assert by_group.shape == (60, GROUPS)
    assert by_group.min(axis=1) == pytest.approx(expected)
