"""Jensen-Shannon divergence and distance, against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

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
        ([1, -1], [1, 1], "a share is negative"),
        ([1, 1], [1, math.nan], "a share is negative or not finite"),
    ],
)
def test_what_is_no_distribution_is_refused(p: object, q: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        js_divergence(p, q)


@pytest.mark.parametrize("base", [1, 0, -2])
def test_a_base_is_above_1(base: float) -> None:
    with pytest.raises(InputError, match="is not a base of logarithms"):
        js_distance([1, 1], [1, 0], base=base)
