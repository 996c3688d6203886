"""Bars that are one artist look like those of matplotlib."""

import numpy as np
import pytest

from ehr_course.plots import style
from ehr_course.plots.bars import bars_in, quick_bars
from ehr_course.plots.style import Picture

PLACES = np.array([0.3, 1.5, 2.5, 4.0])
LENGTHS = np.array([0.4, 0.0, -0.25, 1.7])
LOOK = {"edgecolor": style.INK, "linewidth": 0.6}


def drawn(draw):
    with style.course_style():
        picture = Picture(4, 3, "")
        axes = picture.add_axes((0.1, 0.2, 0.83, 0.71))
        draw(axes)
    return picture


@pytest.mark.parametrize("look", [{}, LOOK, LOOK | {"hatch": "////"}])
def test_standing_bars_are_those_of_bar(look):
    ours = drawn(
        lambda axes: quick_bars(axes, PLACES, LENGTHS, thickness=0.8, facecolor="#31688e", **look)
    )
    theirs = drawn(lambda axes: axes.bar(PLACES, LENGTHS, width=0.8, color="#31688e", **look))
    assert ours.png() == theirs.png()


def test_lying_bars_are_those_of_barh():
    ours = drawn(
        lambda axes: quick_bars(
            axes, PLACES, LENGTHS, thickness=0.5, across=True, facecolor="#31688e"
        )
    )
    theirs = drawn(lambda axes: axes.barh(PLACES, LENGTHS, height=0.5, color="#31688e"))
    assert ours.png() == theirs.png()


def test_bars_stand_on_others():
    below = LENGTHS.clip(min=0)

    def one(axes):
        quick_bars(axes, PLACES, below, thickness=0.8, facecolor="#31688e")
        quick_bars(axes, PLACES, below, bottom=below, thickness=0.8, facecolor="#b3400e")

    def other(axes):
        axes.bar(PLACES, below, width=0.8, color="#31688e")
        axes.bar(PLACES, below, bottom=below, width=0.8, color="#b3400e")

    assert drawn(one).png() == drawn(other).png()


def test_no_bar_is_no_error():
    nothing = np.array([])
    drawn(lambda axes: quick_bars(axes, nothing, nothing, thickness=1.0)).png()


@pytest.mark.parametrize("across", [False, True])
def test_each_bar_can_be_read(across):
    axes = Picture(4, 3, "").add_axes((0.1, 0.2, 0.83, 0.71))
    bars = bars_in(quick_bars(axes, PLACES, LENGTHS, thickness=0.8, across=across))
    along, side = ("width", "y") if across else ("height", "x")
    np.testing.assert_allclose([getattr(bar, along) for bar in bars], np.abs(LENGTHS))
    middle = [(getattr(bar, f"{side}0") + getattr(bar, f"{side}1")) / 2 for bar in bars]
    np.testing.assert_allclose(middle, PLACES)
