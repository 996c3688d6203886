"""Generators beside each other: dots for the seeds, a line for real patients."""

from __future__ import annotations

import pytest

from ehr_course.errors import InputError
from ehr_course.plots.generators import Panel, draw_generators
from ehr_course.plots.measures import FLOOR, VALUE

PANELS = [
    Panel("carried over", {"model": [0.2, 0.3], "table": [0.05, 0.06]}, real=0.4, percent=True),
    Panel("precision", {"model": [0.3], "table": [0.1]}, real=0.35),
    Panel("impossible", {"model": [0.0], "table": [0.0]}, real=0.0, percent=True),
]


def test_every_measure_has_a_panel_with_a_dot_for_each_seed():
    picture = draw_generators(PANELS, title="A table fails")
    assert [axes.get_title(loc="left") for axes in picture.axes] == [p.title for p in PANELS]
    (dots,) = [line for line in picture.axes[0].lines if line.get_color() == VALUE]
    assert list(dots.get_xdata()) == [0.2, 0.3] and set(dots.get_ydata()) == {0}


def test_the_line_of_real_patients_stands_where_they_score():
    for axes, panel in zip(draw_generators(PANELS, title="T").axes, PANELS, strict=True):
        (line,) = [line for line in axes.lines if line.get_color() == FLOOR]
        assert set(line.get_xdata()) == {panel.real}


def test_the_names_stand_once_on_the_left():
    first, *others = draw_generators(PANELS, title="T").axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["model", "table"]
    assert not any(label.get_text() for axes in others for label in axes.get_yticklabels())


def test_the_alternative_text_says_the_finding_and_the_means():
    text = draw_generators(PANELS, title="A table fails").alternative_text
    assert text.startswith("A table fails. carried over: model 25.0%, table 5.5%, real")
    assert "precision: model 0.3, table 0.1, real patients 0.35" in text


@pytest.mark.parametrize("panels", [[], [PANELS[0], Panel("x", {"model": [1.0]}, real=1.0)]])
def test_panels_of_different_generators_are_refused(panels):
    with pytest.raises(InputError, match="different generators"):
        draw_generators(panels, title="T")
