"""Measures beside their floors, each row on a scale of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ehr_course.evaluation.measure import Measure
from ehr_course.plots.canvas import FILLS
from ehr_course.plots.charts import blank_chart
from ehr_course.plots.style import FAINT, INK, PAPER, SMALL, Picture, course_style


@course_style()
def draw_measures(measures: Sequence[Measure], verdicts: Mapping[str, str] = {}) -> Picture:
    """Draw the value, the interval and the floor of each measure.

    Measures have other units, so every row has its own scale. What counts is on which side of the
    floor the interval lies.

    Args:
        measures: those without a value are left out.
        verdicts: what is said of a measure, by its name.
    """
    shown = [m for m in measures if math.isfinite(m.value)]
    notes = [
        f"{m.value:.3g}, "
        + (f"floor {m.floor:.3g}" if math.isfinite(m.floor) else "no floor")
        + (f": {verdicts[m.name]}" if m.name in verdicts else "")
        for m in shown
    ]
    said = [f"{m.name} {note}" for m, note in zip(shown, notes, strict=True)]
    picture, axes = blank_chart(
        "How far is each measure from its floor?",
        "; ".join(said) + "." if shown else "No measure has a value.",
        "Square: the value, in its interval; black line: the floor, what real patients score",
        height=1.0 + 0.34 * max(1, len(shown)),
    )
    for row, (m, note) in enumerate(zip(shown, notes, strict=True)):
        finite = [n for n in (m.value, m.low, m.high, m.floor) if math.isfinite(n)]
        start, end = _ends(finite)
        value, low, high, floor = (
            (n - start) / (end - start or 1.0) for n in (m.value, m.low, m.high, m.floor)
        )
        axes.hlines(row, 0, 1, FAINT, linewidth=1)
        if m.known:
            axes.hlines(row, low, high, FILLS["code"], linewidth=6)
        axes.plot(value, row, "s", color=PAPER, markeredgecolor=INK, markersize=6)
        if math.isfinite(floor):
            axes.vlines(floor, row - 0.32, row + 0.32, INK, linewidth=2.4)
        axes.annotate(note, (1.05, row), size=SMALL, va="center_baseline", annotation_clip=False)
    axes.set(xlim=(-0.03, 1.03), ylim=(len(shown) - 0.4, -0.6), xticks=[])
    axes.set_yticks(range(len(shown)), [m.name for m in shown])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return picture


def _ends(numbers: Sequence[float]) -> tuple[float, float]:
    """Where a row's scale begins and ends: at 0, unless all its numbers are near each other.

    >>> _ends([0.5, 0.75]), _ends([0.1, 0.5])
    ((0.4375, 0.75), (0.0, 0.5))
    """
    low, high = min(numbers), max(numbers)
    if low > 0 and high - low < 0.4 * high:
        return low - 0.25 * (high - low), high
    return min(0.0, low), max(0.0, high)
