"""Measures beside their floors: one line each, every line on a scale of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from ehr_course.evaluation.measure import Measure
from ehr_course.plots.style import (
    FAINT,
    INK,
    MUTED,
    SMALL,
    WIDTH,
    Picture,
    course_style,
)

VALUE, FLOOR = "#35608d", "#8c2d04"
_ROW, _FRAME = 0.36, 0.9  # inches


def draw_measures(measures: Sequence[Measure]) -> Picture:
    """Draw each measure's value and interval, and the floor.

    Measures have other units, so every line has its own scale: the farther of value and floor,
    interval included, lies at its end. What counts is on which side of the floor the interval is.

    Args:
        measures: at least one; those without a value are left out.
    """
    shown = [m for m in measures if math.isfinite(m.value)]
    picture = Picture(WIDTH, _FRAME + _ROW * max(1, len(shown)), _in_words(shown))
    with course_style():
        axes = picture.add_axes((0.40, 0.5 / picture.get_figheight(), 0.56, 0))
        height = _ROW * max(1, len(shown)) / picture.get_figheight()
        axes.set_position((0.40, 0.42 / picture.get_figheight(), 0.56, height))
        for row, measure in enumerate(shown):
            _line(axes, row, measure)
        axes.set(xlim=(-0.04, 1.04), ylim=(len(shown) - 0.4, -0.6), xticks=[])
        axes.set_yticks(range(len(shown)), [m.name for m in shown])
        axes.tick_params(left=False, labelsize=SMALL)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_title("Value and interval (blue), floor (red bar)", loc="left", fontsize=SMALL)
        axes.set_xlabel("each line has its own scale", fontsize=SMALL, color=MUTED)
    return picture


def _line(axes: Axes, row: int, measure: Measure) -> None:
    numbers = [measure.value, measure.low, measure.high, measure.floor]
    finite = [number for number in numbers if math.isfinite(number)]
    start, end = min(0.0, *finite), max(0.0, *finite)
    scale = (end - start) or 1.0

    def at(number: float) -> float:
        return (number - start) / scale

    axes.plot([0, 1], [row, row], color=FAINT, linewidth=1, zorder=1)
    if measure.known:
        axes.plot(
            [at(measure.low), at(measure.high)], [row, row], color=VALUE, linewidth=3, zorder=2
        )
    axes.plot(at(measure.value), row, "o", color=VALUE, markersize=6, zorder=3)
    if math.isfinite(measure.floor):
        x = at(measure.floor)
        axes.plot([x, x], [row - 0.3, row + 0.3], color=FLOOR, linewidth=2.2, zorder=4)
    axes.annotate(
        f"{measure.value:.3g}",
        (at(measure.value), row),
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
        fontsize=SMALL - 1,
        color=INK,
    )


def _in_words(measures: Sequence[Measure]) -> str:
    """One sentence that says what the picture shows."""
    if not measures:
        return "No measure has a value."
    parts = [
        f"{m.name} {m.value:.3g}"
        + (f", floor {m.floor:.3g}" if math.isfinite(m.floor) else ", no floor")
        for m in measures
    ]
    return f"Measures and their floors: {'; '.join(parts)}."
