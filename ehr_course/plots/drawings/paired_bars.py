"""Two bars for each of several models: what holds, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ehr_course.plots import style
from ehr_course.plots.canvas import Canvas

ROOM = 0.62
"""The height of a pair, in inches."""


def draw_pairs(
    canvas: Canvas,
    left: float,
    y: float,
    pairs: Mapping[str, tuple[float, float]],
    written: Callable[[float], str],
    key: tuple[str, str],
) -> None:
    """Draw a pair of bars for each name, one under the other, and a key below them.

    Args:
        canvas: what is drawn on.
        left: where the bars begin, in inches; the names stand before it.
        y: the upper edge of the first bar.
        pairs: for each name the lengths of its two bars, 0 or more.
        written: what stands behind a bar of this length.
        key: what the first bar of each pair shows, and what the second, hatched one shows.
    """
    inches = (canvas.width - left - 0.75) / max(map(max, pairs.values()))
    for name, pair in pairs.items():
        canvas.label((left - 0.12, y + 0.22), name, align="right", size=style.TEXT)
        for i, (value, fill) in enumerate(zip(pair, ("encoder", "trap"), strict=True)):
            row, long = y + 0.24 * i, max(value * inches, 0.01)
            bar = canvas.box(left, row, long, 0.2, fill=fill, rounded=False, hatched=bool(i))
            canvas.label((bar.right + 0.07, row + 0.1), written(value), colour=style.INK)
        y += ROOM
    canvas.key(left, y + 0.02, {"encoder": key[0], "trap": key[1]})
