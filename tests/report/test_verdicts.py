"""What a measure says depends on its interval and its floor."""

from __future__ import annotations

import math

import pytest

from ehr_course.evaluation.measure import Measure
from ehr_course.report.verdicts import Verdict, verdict


def measure(value=0.5, low=0.4, high=0.6, floor=0.5, better="low"):
    return Measure("anything", value, low=low, high=high, floor=floor, better=better)


@pytest.mark.parametrize("better", ["low", "high", "near"])
def test_an_interval_that_contains_the_floor_is_at_the_floor(better):
    assert verdict(measure(better=better)) is Verdict.AT_FLOOR


@pytest.mark.parametrize("floor", [0.4, 0.6])
def test_the_ends_of_the_interval_belong_to_it(floor):
    assert verdict(measure(floor=floor)) is Verdict.AT_FLOOR


@pytest.mark.parametrize(
    ("floor", "better", "expected"),
    [
        (0.1, "low", Verdict.WORSE),
        (0.9, "low", Verdict.BETTER),
        (0.1, "high", Verdict.BETTER),
        (0.9, "high", Verdict.WORSE),
        (0.1, "near", Verdict.WORSE),
        (0.9, "near", Verdict.WORSE),
    ],
)
def test_an_interval_beside_the_floor_is_judged_by_what_is_better(floor, better, expected):
    assert verdict(measure(floor=floor, better=better)) is expected


def test_a_value_without_an_interval_is_never_good():
    assert verdict(measure(low=math.nan, high=math.nan)) is Verdict.TOO_FEW


def test_without_a_floor_nothing_is_said():
    assert verdict(measure(floor=math.nan)) is Verdict.NO_FLOOR


def test_without_a_value_nothing_was_measured():
    assert verdict(measure(value=math.nan)) is Verdict.NOT_MEASURED
