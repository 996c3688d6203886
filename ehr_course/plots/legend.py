"""A legend of chapters: a coloured box with the chapter's number, and its name beside it.

It stands beneath a patient's cards and beneath a patient's tokens. All measures are in inches, in
axes whose origin is the upper left corner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from ehr_course.code_system import CodeSystem
from ehr_course.plots import style

LINE = 0.24
"""The height of a row."""

MARGIN = 0.12
"""What stays free to the left and to the right."""

_TO_TEXT = 0.06  # from a box to its text
_BETWEEN = 0.2  # from a text to the next box


class Key(NamedTuple):
    """An entry of the legend.

    Attributes:
        text: what stands beside the box.
        face: the colour in the box.
        edge: that of its outline.
        number: what stands in the box: a chapter's number, or nothing.
    """

    text: str
    face: str
    edge: str
    number: str = ""

    @property
    def swatch(self) -> float:
        """The width of the box."""
        if not self.number:
            return 0.14
        return max(0.24, 0.1 + style.text_width(self.number, style.SMALL, weight="bold"))

    @property
    def width(self) -> float:
        """The width of box and text together."""
        return self.swatch + _TO_TEXT + style.text_width(self.text, style.SMALL)


Rows = list[list[tuple[float, Key]]]
"""Entries of the legend, each with its left edge, in rows."""


def chapter_keys(chapters: Iterable[tuple[CodeSystem, int | None]]) -> list[Key]:
    """Return an entry for each chapter, in the order of their numbers, ICD-9 before ICD-10.

    A chapter that both systems have looks the same in both, and is named once with its numbers.

    Args:
        chapters: the chapters present, each with its system; None for codes of no chapter.

    >>> [(key.text, key.number) for key in chapter_keys({("ICD9CM", 8), ("ICD10CM", 10)})]
    [('Respiratory', '8 / 10')]
    """
    in_order = sorted(set(chapters), key=lambda one: (one[0] == "ICD10CM", one[1] or math.inf))
    keys: dict[str, Key] = {}
    for system, chapter in in_order:
        name, colour = style.chapter_name(chapter, system), style.chapter_colour(chapter, system)
        numbers = [keys[name].number] if name in keys else []
        if chapter is not None and str(chapter) not in numbers:
            numbers.append(str(chapter))
        keys[name] = Key(name, colour, colour, " / ".join(numbers))
    return list(keys.values())


def in_rows(keys: Iterable[Key]) -> Rows:
    """Return the entries in as many rows as the width of a picture asks for."""
    rows: Rows = [[]]
    x = MARGIN
    for key in keys:
        if rows[-1] and x + key.width > style.WIDTH - MARGIN:
            rows.append([])
            x = MARGIN
        rows[-1].append((x, key))
        x += key.width + _BETWEEN
    return rows


def draw_legend(axes: Axes, rows: Rows, y: float) -> None:
    """Draw the rows, the first of them with its upper edge at ``y``."""
    for row in rows:
        for x, key in row:
            draw_box(axes, x, y + 0.02, key.swatch, 0.16, face=key.face, edge=key.edge)
            left = x + key.swatch + _TO_TEXT
            axes.text(left, y + 0.1, key.text, size=style.SMALL, va="center_baseline")
            axes.text(
                x + key.swatch / 2,
                y + 0.1,
                key.number,
                size=style.SMALL,
                weight="bold",
                color=style.ink_on(key.face),
                ha="center",
                va="center_baseline",
            )
        y += LINE


def draw_box(
    axes: Axes, x: float, y: float, width: float, height: float, *, face: str, edge: str
) -> None:
    """Draw a box with round corners, its upper left corner at ``x, y``."""
    axes.add_artist(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.04",
            facecolor=face,
            edgecolor=edge,
            linewidth=1.0,
        )
    )
