"""Measures beside their floors, each row on a scale of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ehr_course.evaluation.measure import Measure
from ehr_course.plots.canvas import FILLS
from ehr_course.plots.charts import blank_chart
from ehr_course.plots.style import FAINT, INK, MUTED, PAPER, SMALL, Picture, course_style


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
    floors = [f"{m.floor:.3g}" if math.isfinite(m.floor) else "none" for m in shown]
    said = [
        f"{m.name} {m.value:.3g}, floor {floor}, better: {m.better}"
        + (f": {verdicts[m.name]}" if m.name in verdicts else "")
        for m, floor in zip(shown, floors, strict=True)
    ]
    picture, axes = blank_chart(
        "How far is each measure from its floor?",
        "; ".join(said) + "." if shown else "No measure has a value.",
        "Square: the value, in its interval; black line: the floor, what real patients score;"
        " each row has its own scale",
        height=1.2 + 0.34 * max(1, len(shown)),
    )
    for row, m in enumerate(shown):
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
    columns: dict[str, list[str]] = {
        "value": [f"{m.value:.3g}" for m in shown],
        "floor": floors,
        "better": [m.better for m in shown],
        "": [verdicts.get(m.name, "") for m in shown],
    }
    for number, (heading, column) in enumerate(columns.items()):
        at, side = (46 + 40 * number, "right") if heading else (142, "left")
        for row, text in enumerate([heading, *column], start=-1):
            axes.annotate(
                text, (1, row), (at, 0), textcoords="offset points", size=SMALL, ha=side,
                va="center_baseline", annotation_clip=False, color=INK if row >= 0 else MUTED,
            )  # fmt: skip
    axes.set(xlim=(-0.03, 1.03), ylim=(len(shown) - 0.4, -1.4), xticks=[])
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
