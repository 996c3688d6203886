"""Generators beside each other: one panel for each measure, one row for each generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from ehr_course.errors import InputError
from ehr_course.plots.measures import FLOOR, VALUE
from ehr_course.plots.style import (
    FAINT,
    INK,
    MUTED,
    SMALL,
    WIDTH,
    Picture,
    course_style,
)

OTHERS = "#7a7f87"
_ROW, _FRAME, _LEFT, _GAP = 0.32, 1.2, 0.21, 0.035  # inches, and shares of the width


@dataclass(frozen=True)
class Panel:
    """One measure of several generators.

    Attributes:
        title: what was measured, in a few words.
        values: of each generator, its numbers, at least one.
        real: what real patients score.
        percent: whether the numbers are shares, to be written in percent.
    """

    title: str
    values: Mapping[str, Sequence[float]]
    real: float
    percent: bool = False

    def written(self, value: float) -> str:
        """A value as the picture and its alternative text have it."""
        return f"{100 * value:.1f}%" if self.percent else f"{value:.2g}"


def draw_generators(
    panels: Sequence[Panel], *, title: str, a_dot: str = "each seed", lead: bool = True
) -> Picture:
    """Draw what several generators score, a dot for each number, and what real patients score.

    The first generator is drawn in blue, as the one that is asked about, or all of them are.

    Args:
        panels: at least one, all of the same generators.
        title: states the finding.
        a_dot: what a dot stands for.
        lead: whether the first generator alone is blue, and the others grey.

    Raises:
        InputError: if there are no panels, or their generators differ.
    """
    if not panels or any(list(p.values) != list(panels[0].values) for p in panels):
        raise InputError(
            "draw_generators", "panels", "they are none, or of different generators", "Give some."
        )
    names = list(panels[0].values)
    picture = Picture(WIDTH, _FRAME + _ROW * len(names), f"{title}. {_in_words(panels)}")
    width = (0.98 - _LEFT) / len(panels)
    high = picture.get_figheight()
    with course_style():
        for number, panel in enumerate(panels):
            place = (_LEFT + number * width, 0.52 / high, width - _GAP, _ROW * len(names) / high)
            _panel(picture.add_axes(place), panel, names, labelled=number == 0, lead=lead)
        picture.text(0.01, 1 - 0.1 / high, title, fontsize=SMALL + 1.5, va="top", weight="bold")
        picture.text(
            0.01,
            0.08 / high,
            f"a dot for {a_dot}; red line: real patients",
            fontsize=SMALL,
            color=MUTED,
        )
    return picture


def _panel(axes: Axes, panel: Panel, names: Sequence[str], *, labelled: bool, lead: bool) -> None:
    most = max(panel.real, *(max(values) for values in panel.values.values())) or 1.0
    for row, name in enumerate(names):
        axes.plot([0, most], [row, row], color=FAINT, linewidth=1, zorder=1)
        colour = VALUE if row == 0 or not lead else OTHERS
        values = panel.values[name]
        axes.plot(values, [row] * len(values), "o", color=colour, markersize=5.5, zorder=3)
    axes.axvline(panel.real, color=FLOOR, linewidth=2, zorder=2)
    axes.set(xlim=(-0.06 * most, 1.08 * most), ylim=(len(names) - 0.5, -0.5))
    axes.set_yticks(range(len(names)), names if labelled else [""] * len(names))
    axes.set_xticks([0, most], ["0", panel.written(most)])
    axes.tick_params(left=False, labelsize=SMALL)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.spines[["left"]].set_visible(False)
    axes.set_title(panel.title, loc="left", fontsize=SMALL)


def _in_words(panels: Sequence[Panel]) -> str:
    """What every panel shows, by the mean over seeds."""
    parts = []
    for panel in panels:
        means = ", ".join(
            f"{name} {panel.written(sum(values) / len(values))}"
            for name, values in panel.values.items()
        )
        parts.append(f"{panel.title}: {means}, real patients {panel.written(panel.real)}")
    return f"{'; '.join(parts)}."
