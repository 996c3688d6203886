"""Jensen-Shannon divergence and distance, against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from ehr_course.errors import InputError
from ehr_course.evaluation.distances import js_distance, js_divergence


@pytest.mark.parametrize("base", [2, math.e, 10])
def test_both_are_those_of_scipy(base: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, q = rng.integers(0, 4, size=(2, 12)) + np.eye(12)[:2]
        distance = jensenshannon(p, q, base=base)
        assert js_distance(p, q, base=base) == pytest.approx(distance, abs=1e-7)
        assert js_divergence(p, q, base=base) == pytest.approx(distance**2, abs=1e-12)


def test_the_divergence_is_what_the_average_has_more_of_entropy() -> None:
    p, q = np.random.default_rng(1).dirichlet(np.ones(9), size=2)
    more = entropy((p + q) / 2, base=2) - (entropy(p, base=2) + entropy(q, base=2)) / 2
    assert js_divergence(p, q) == pytest.approx(more)


@pytest.mark.parametrize(("base", "largest"), [(2, 1.0), (math.e, math.log(2))])
def test_without_anything_in_common_both_are_at_their_largest(base: float, largest: float) -> None:
    assert js_divergence([1, 2, 0], [0, 0, 5], base=base) == pytest.approx(largest)
    assert js_distance([1, 2, 0], [0, 0, 5], base=base) == pytest.approx(math.sqrt(largest))


def test_equal_distributions_are_at_0_however_many_were_counted() -> None:
    p = np.random.default_rng(0).random(1000)
    assert js_divergence(p, 7 * p) == pytest.approx(0, abs=1e-15)
    assert js_distance(p, p) == 0


def test_rows_are_compared_one_by_one() -> None:
    p, q = np.random.default_rng(0).random((2, 3, 4, 6))
    together = js_divergence(p, q)
    assert together.shape == (3, 4)
    assert together[2, 1] == pytest.approx(js_divergence(p[2, 1], q[2, 1]))


def test_nothing_counted_has_no_distance() -> None:
    assert math.isnan(js_divergence([0, 0], [1, 1]))
    assert math.isnan(js_distance([1, 1], [0, 0]))


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([1, 2], [1, 2, 3], "p has shape"),
        (1, 2, "p has shape"),
        ([1, -1], [1, 1], "p: a share is negative"),
        ([1, 1], [1, math.nan], "q: a share is negative or not finite"),
    ],
)
def test_what_is_no_distribution_is_refused(p: object, q: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        js_divergence(p, q)


@pytest.mark.parametrize("base", [1, 0, -2])
def test_a_base_is_above_1(base: float) -> None:
    with pytest.raises(InputError, match="is no base"):
        js_distance([1, 1], [1, 0], base=base)
