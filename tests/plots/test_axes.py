"""Axes with one tick that walks along look like those of matplotlib, and have their ticks."""

import matplotlib.axes
import pytest
from matplotlib.axis import XTick, YTick
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import MultipleLocator

from ehr_course.plots import style
from ehr_course.plots.style import Picture

PLACE = (0.2, 0.25, 0.7, 0.6)


def both(draw):
    """The PNG of the same drawing on our axes and on matplotlib's."""
    pngs = []
    for axes_of in (
        lambda picture: picture.add_axes(PLACE),
        lambda picture: Figure.add_axes(picture, PLACE, axes_class=matplotlib.axes.Axes),
    ):
        with style.course_style():
            picture = Picture(4, 3, "")
            draw(axes_of(picture))
        pngs.append(picture.png())
    return pngs


def labelled(axes):
    axes.set_xlim(0, 10)
    axes.set_xticks([0, 2.5, 5, 7.5, 10], ["none", "few", "some", "many", "all"], size=8)
    axes.set_yticks([0.2, 0.4, 0.8])
    axes.set_xlabel("codes")
    axes.set_ylabel("share")


def by_locator(axes):
    axes.plot([0, 30_000], [0, 1e-7])
    axes.set_title("an offset above", loc="left")


def outside(axes):
    axes.set_xticks([-5, 0, 1, 5])
    axes.set_xlim(0, 1)


def on_top(axes):
    axes.xaxis.tick_top()
    axes.set_xticks([0, 1], ["a", "b"], rotation=90)
    axes.tick_params(length=0, pad=3, labelsize=7, labelcolor="#b3400e")
    axes.set_xlabel("above")
    axes.xaxis.set_label_position("top")


def each_its_own(axes):
    axes.set_yticks([0, 1, 2], ["a", "b", "c"])
    axes.get_yticklabels()[1].set_fontweight("bold")
    axes.set_ylim(2.5, -0.5)
    axes.set_ylabel("words")


def logarithmic(axes):
    axes.set_xscale("log")
    axes.set_xlim(1e-3, 10)


def with_minor(axes):
    axes.xaxis.set_minor_locator(MultipleLocator(0.1))


def without(axes):
    axes.set_xticks([])
    axes.set_xlabel("nothing")
    axes.yaxis.set_visible(False)


def following(axes):
    axes.add_patch(Rectangle((2, 3), 4, -1))
    axes.add_patch(Rectangle((0, 0), 1, 2, angle=30))
    axes.add_patch(Rectangle((50, 50), 0, 0))
    axes.add_patch(Circle((8, 8), 2))
    axes.axhspan(-1, 0)
    axes.axvline(12)
    axes.autoscale_view()


@pytest.mark.parametrize(
    "draw",
    [
        labelled,
        by_locator,
        outside,
        on_top,
        each_its_own,
        logarithmic,
        with_minor,
        without,
        following,
        lambda axes: axes.axis("off"),
    ],
)
def test_the_pixels_are_those_of_matplotlibs_axes(draw):
    ours, theirs = both(draw)
    assert ours == theirs


def test_one_tick_is_made_for_many(monkeypatch):
    made = []
    for kind in (XTick, YTick):
        monkeypatch.setattr(
            kind,
            "__init__",
            lambda self, *a, _first=kind.__init__, **k: made.append(self) or _first(self, *a, **k),
        )
    with style.course_style():
        picture = Picture(4, 3, "")
        labelled(picture.add_axes(PLACE))
        picture.png()
    assert len(made) == 2


def test_whoever_asks_gets_every_tick():
    with style.course_style():
        axes = Picture(4, 3, "").add_axes(PLACE)
        labelled(axes)
    words = [label.get_text() for label in axes.get_xticklabels()]
    assert words == ["none", "few", "some", "many", "all"]
    assert {label.get_fontsize() for label in axes.get_xticklabels()} == {8}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0.2", "0.4", "0.8"]
    assert len(axes.yaxis.get_major_ticks()) == 3


def test_ticks_can_be_asked_for_between_two_drawings():
    with style.course_style():
        picture = Picture(4, 3, "")
        axes = picture.add_axes(PLACE)
        labelled(axes)
    before = picture.png()
    assert len(axes.get_xticklabels()) == 5
    assert picture.png() == before


def test_a_tick_that_is_made_outside_of_the_style_looks_as_the_others():
    with style.course_style():
        pictures = [Picture(4, 3, "") for _ in range(2)]
        for picture in pictures:
            labelled(picture.add_axes(PLACE))
    assert len(pictures[1].axes[0].get_yticklabels()) == 3
    assert pictures[0].png() == pictures[1].png()
