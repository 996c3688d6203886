"""Measures beside their floors: the picture says in words what it shows."""

from __future__ import annotations

import math

import pytest

from ehr_course.evaluation.measure import Measure
from ehr_course.plots.measures import FLOOR, VALUE, draw_measures

MEASURES = [
    Measure("near it", 0.5, low=0.4, high=0.6, floor=0.5),
    Measure("below zero", -0.3, low=-0.6, high=0.1, floor=-0.2),
    Measure("without an interval", 2.0, floor=1.0),
    Measure("without a floor", 3.0),
]


def lines(picture, colour):
    return [line for line in picture.axes[0].lines if line.get_color() == colour]


def test_every_measure_is_a_line_with_its_name():
    (axes,) = draw_measures(MEASURES).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [m.name for m in MEASURES]


def test_a_measure_without_a_value_is_left_out():
    picture = draw_measures([*MEASURES, Measure("nothing", math.nan)])
    assert len(picture.axes[0].get_yticklabels()) == len(MEASURES)
    assert "nothing" not in picture.alternative_text


def test_a_floor_is_drawn_where_there_is_one():
    assert len(lines(draw_measures(MEASURES), FLOOR)) == 3


def test_an_interval_is_drawn_where_there_is_one():
    with_interval = [
        line for line in lines(draw_measures(MEASURES), VALUE) if line.get_linewidth() == 3
    ]
    assert len(with_interval) == 2


def test_the_floor_lies_inside_the_interval_that_contains_it():
    picture = draw_measures(MEASURES[:1])
    (floor,) = lines(picture, FLOOR)
    (interval,) = [line for line in lines(picture, VALUE) if line.get_linewidth() == 3]
    low, high = interval.get_xdata()
    assert low < floor.get_xdata()[0] < high


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.name)
def test_everything_lies_on_the_scale(measure):
    for line in draw_measures([measure]).axes[0].lines:
        assert all(0 <= x <= 1 for x in line.get_xdata())


def test_the_alternative_text_says_value_and_floor():
    assert "near it 0.5, floor 0.5" in draw_measures(MEASURES).alternative_text
    assert "without a floor 3, no floor" in draw_measures(MEASURES).alternative_text


def test_no_measure_is_a_picture_too():
    assert draw_measures([]).alternative_text == "No measure has a value."
    assert draw_measures([]).png()
