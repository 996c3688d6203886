"""The kit of the drawings: boxes, arrows, brackets, token strips, grids and small plots.

Everything is placed in inches from the top left corner. A canvas remembers which box each label
belongs to; :mod:`ehr_course.plots.overlaps` reads that to find labels that overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from ehr_course.plots import style
from ehr_course.plots.style import Picture

FILLS = {
    "paper": style.PAPER,
    "quiet": "#eceef1",
    "prompt": "#fde725",
    "special": "#7ad151",
    "encoder": "#b8dce0",
    "decoder": "#cfe3b4",
    "code": "#2d708e",
    "mask": "#440154",
    "trap": "#f6d5c3",
}
"""What a box stands for, and its colour. Padding is quiet; `trap` is what goes wrong."""

WARNING = "#b3400e"
"""The colour of a line or word about what goes wrong; on white, its contrast is 5.6."""

MARGIN = 0.14
"""What stays free at the edges of a picture, in inches."""

MONO = "DejaVu Sans Mono"


@dataclass(frozen=True)
class Box:
    """A rectangle on a canvas, in inches from the top left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Where the box ends."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Where the box ends, downwards."""
        return self.y + self.height

    @property
    def middle(self) -> tuple[float, float]:
        """The centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    def side(self, side: Side, at: float = 0.5) -> Point:
        """A point on an edge, for an arrow to begin or end at.

        Args:
            side: which edge.
            at: how far along it, 0 to 1, from the left or from the top.
        """
        if side in ("left", "right"):
            return (self.x if side == "left" else self.right), self.y + at * self.height
        return self.x + at * self.width, (self.y if side == "top" else self.bottom)


Point = tuple[float, float]
Side = Literal["left", "right", "top", "bottom"]


class Canvas:
    """A picture that is drawn with boxes, arrows and labels.

    Args:
        height: of the picture, in inches. Its width is that of every picture of the course.
        title: the finding, in one line; it stands on top.
        alternative_text: one or two sentences that say what the drawing shows.
        subtitle: a second line in small print: how to read the drawing.

    Attributes:
        top: where the drawing can begin, in inches from the top: below title and subtitle.
        width: of the picture, in inches.
    """

    def __init__(
        self, height: float, title: str, alternative_text: str, *, subtitle: str = ""
    ) -> None:
        self._styles = ExitStack()
        self._styles.enter_context(style.course_style())
        self.width = style.WIDTH
        self._picture = Picture(self.width, height, alternative_text)
        self._axes = self._picture.add_axes((0, 0, 1, 1))
        self._axes.set_xlim(0, self.width)
        self._axes.set_ylim(height, 0)
        self._axes.axis("off")
        self._height = height
        self.label((MARGIN, 0.26), title, size=style.TITLE, weight="bold", colour=style.INK)
        self.top = 0.52
        if subtitle:
            self.label((MARGIN, 0.52), subtitle)
            self.top = 0.74

    def finish(self) -> Picture:
        """Return the picture. Nothing can be drawn on the canvas afterwards."""
        self._styles.close()
        return self._picture

    # ------------------------------------------------------------------ words

    def label(
        self,
        at: Point,
        text: str,
        *,
        size: float = style.SMALL,
        colour: str = style.MUTED,
        weight: str = "normal",
        align: Literal["left", "center", "right"] = "left",
        vertical: Literal["top", "center", "bottom"] = "center",
        mono: bool = False,
        inside: Box | None = None,
        on_line: bool = False,
        turned: bool = False,
    ) -> Text:
        """Write words. A line break in the text is one on the page.

        Args:
            at: where, in inches.
            text: the words.
            size: in points: style.TITLE, style.TEXT or style.SMALL.
            colour: of the letters.
            weight: "normal" or "bold".
            align: which end of the text stands at this place.
            vertical: which edge of the text stands at this place.
            mono: in letters of equal width, as for codes and tokens.
            inside: the box that the words must not leave.
            on_line: whether the words interrupt a line that runs through them.
            turned: whether the words run upwards.
        """
        written = self._axes.text(
            *at,
            text,
            size=size,
            color=colour,
            weight=weight,
            ha=align,
            va={"center": "center_baseline"}.get(vertical, vertical)
            if "\n" not in text and not turned
            else vertical,
            family=MONO if mono else "DejaVu Sans",
            linespacing=1.25,
            rotation=90 if turned else 0,
            parse_math=False,
            zorder=5,
        )
        if on_line:
            written.set_bbox({"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.0})
        # `overlaps` reads these two notes.
        written.drawing_box = inside  # type: ignore[attr-defined]
        written.drawing_on_line = on_line  # type: ignore[attr-defined]
        return written

    # ------------------------------------------------------------------ shapes

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        *,
        fill: str = "paper",
        size: float = style.TEXT,
        weight: str = "normal",
        mono: bool = False,
        edge: str = style.MUTED,
        dashed: bool = False,
        thick: float = 0.9,
        hatched: bool = False,
        rounded: bool = True,
        turned: bool = False,
    ) -> Box:
        """Draw a box with words in its middle.

        Args:
            x: its left edge, in inches.
            y: its upper edge.
            width: in inches.
            height: in inches.
            text: what stands in it; a line break in the text is one on the page.
            fill: one of FILLS, or a colour as ``#rrggbb``.
            size: of the letters, in points.
            weight: of the letters.
            mono: in letters of equal width.
            edge: the colour of its outline.
            dashed: whether the outline is dashed: what is not there, or only at times.
            thick: the width of the outline, in points.
            hatched: whether it is hatched in the colour of the outline.
            rounded: whether the corners are round.
            turned: whether the words run upwards.
        """
        box = Box(x, y, width, height)
        colour = FILLS.get(fill, fill)
        radius = min(0.05, width / 4, height / 4) if rounded else 0.0
        patch = FancyBboxPatch(
            (x + radius, y + radius),
            width - 2 * radius,
            height - 2 * radius,
            boxstyle=f"round,pad={radius}" if radius else "square,pad=0",
            facecolor=colour,
            edgecolor=edge,
            linewidth=thick,
            linestyle=(0, (3, 2)) if dashed else "solid",
            hatch="////" if hatched else None,
            zorder=2,
        )
        self._axes.add_patch(patch)
        if text:
            self.label(
                box.middle,
                text,
                size=size,
                colour=style.ink_on(colour),
                weight=weight,
                align="center",
                mono=mono,
                inside=box,
                turned=turned,
            )
        return box

    def frame(self, box: Box, text: str = "", *, colour: str = style.MUTED) -> None:
        """Draw a dashed outline around an area, its name over the upper left corner."""
        self._axes.add_patch(
            Rectangle(
                (box.x, box.y),
                box.width,
                box.height,
                fill=False,
                edgecolor=colour,
                linewidth=0.9,
                linestyle=(0, (4, 3)),
                zorder=1,
            )
        )
        if text:
            self.label((box.x, box.y - 0.1), text, colour=colour)

    def arrow(
        self,
        start: Point,
        end: Point,
        text: str = "",
        *,
        colour: str = style.MUTED,
        bend: float = 0.0,
        dashed: bool = False,
        head: bool = True,
        thick: float = 1.2,
    ) -> None:
        """Draw an arrow, with words on the middle of it.

        Args:
            start: where it begins, in inches.
            end: where its head is.
            text: words that interrupt the line.
            colour: of line and words.
            bend: how far the line bows, as a share of its length; the sign says to which side.
            dashed: whether the line is dashed.
            head: whether there is a head; without one it is a line.
            thick: the width of the line, in points.
        """
        arrow = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>" if head else "-",
            mutation_scale=9,
            shrinkA=0,
            shrinkB=0,
            color=colour,
            linewidth=thick,
            linestyle=(0, (3, 2)) if dashed else "solid",
            connectionstyle=f"arc3,rad={bend}",
            zorder=3,
        )
        self._axes.add_patch(arrow)
        if text:
            # The line is a quadratic curve: its middle is half as far out as its control point.
            (x0, y0), (x1, y1) = start, end
            middle = (
                (x0 + x1) / 2 - bend / 2 * (y1 - y0),
                (y0 + y1) / 2 + bend / 2 * (x1 - x0),
            )
            self.label(middle, text, colour=colour, align="center", on_line=True)

    def path(
        self,
        points: Sequence[Point],
        *,
        colour: str = style.MUTED,
        dashed: bool = False,
        thick: float = 1.2,
        head: bool = True,
    ) -> None:
        """Draw a line of straight pieces from point to point, with a head at its end."""
        for i, (start, end) in enumerate(pairwise(points), start=2):
            last = i == len(points)
            self.arrow(start, end, colour=colour, dashed=dashed, thick=thick, head=head and last)

    def bracket(
        self,
        start: float,
        end: float,
        y: float,
        text: str,
        *,
        above: bool = False,
        colour: str = style.MUTED,
    ) -> None:
        """Draw a bracket from one x to another, with its words in the middle outside.

        Args:
            start: its left end, in inches.
            end: its right end.
            y: where its arms end; the bracket lies 0.08 inches further out.
            text: the words; they stand further out still.
            above: whether it opens downwards and lies above what it brackets.
            colour: of line and words.
        """
        out = -0.08 if above else 0.08
        self._axes.plot(
            [start, start, end, end],
            [y, y + out, y + out, y],
            color=colour,
            linewidth=1.0,
            zorder=3,
        )
        at = (start + end) / 2, y + 2 * out
        vertical: Literal["bottom", "top"] = "bottom" if above else "top"
        self.label(at, text, colour=colour, align="center", vertical=vertical)

    # ------------------------------------------------------------------ tokens and grids

    def strip(
        self,
        x: float,
        y: float,
        tokens: Sequence[str],
        *,
        fills: Sequence[str] | str = "paper",
        widths: Sequence[float] | float | None = None,
        height: float = 0.3,
        gap: float = 0.05,
        size: float = style.SMALL,
        edge: str = style.MUTED,
    ) -> list[Box]:
        """Draw tokens side by side, each in a box, and return the boxes.

        Args:
            x: where the first begins, in inches.
            y: the upper edge.
            tokens: what stands in each.
            fills: one of FILLS for each, or one for all.
            widths: of each box in inches, or one for all; without it each fits its token.
            height: of a box.
            gap: between two boxes.
            size: of the letters, in points.
            edge: the colour of the outlines.
        """
        if widths is None:
            widths = [style.text_width(token, size, MONO) + 0.14 for token in tokens]
        elif isinstance(widths, (int, float)):
            widths = [float(widths)] * len(tokens)
        if isinstance(fills, str):
            fills = [fills] * len(tokens)
        boxes = []
        for token, fill, width in zip(tokens, fills, widths, strict=True):
            boxes.append(
                self.box(x, y, width, height, token, fill=fill, size=size, mono=True, edge=edge)
            )
            x += width + gap
        return boxes

    def grid(
        self,
        x: float,
        y: float,
        fills: Sequence[Sequence[str]],
        *,
        cell: float | tuple[float, float] = 0.3,
        texts: Sequence[Sequence[str]] | None = None,
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
        size: float = style.SMALL,
        turned: bool = False,
    ) -> list[list[Box]]:
        """Draw a grid of coloured cells, with names of rows to the left and of columns above.

        Args:
            x: the left edge of the cells, in inches; the names of the rows stand left of it.
            y: the upper edge of the cells; the names of the columns stand above it.
            fills: (rows, columns): one of FILLS, or a colour as ``#rrggbb``, for each cell.
            cell: width and height of a cell, or one number for both.
            texts: (rows, columns): what stands in each cell.
            rows: the name of each row.
            columns: the name of each column.
            size: of the letters in the cells, in points.
            turned: whether the names of the columns run upwards.

        Returns:
            The cells as boxes, (rows, columns).
        """
        wide, high = (cell, cell) if isinstance(cell, (int, float)) else cell
        boxes = [
            [
                self.box(
                    x + wide * j,
                    y + high * i,
                    wide,
                    high,
                    texts[i][j] if texts is not None else "",
                    fill=fill,
                    size=size,
                    mono=True,
                    rounded=False,
                    edge=style.PAPER if FILLS.get(fill, fill) != style.PAPER else style.FAINT,
                )
                for j, fill in enumerate(row)
            ]
            for i, row in enumerate(fills)
        ]
        for i, name in enumerate(rows):
            at = (x - 0.08, y + high * (i + 0.5))
            self.label(at, name, align="right", mono=True, colour=style.INK)
        for j, name in enumerate(columns):
            at = (x + wide * (j + 0.5), y - 0.07)
            self.label(
                at,
                name,
                align="center",
                vertical="bottom",
                mono=True,
                colour=style.INK,
                turned=turned,
            )
        return boxes

    def key(self, x: float, y: float, entries: Mapping[str, str]) -> float:
        """Draw a key in one row: for each entry a small box of its fill, and its meaning.

        Args:
            x: where it begins, in inches.
            y: its middle.
            entries: meaning by fill; a fill is one of FILLS or a colour, "" the dashed box of
                what is not there, or "framed" a thick frame.

        Returns:
            Where it ends, in inches.
        """
        for fill, meaning in entries.items():
            framed = fill == "framed"
            self.box(
                x, y - 0.07, 0.2, 0.14, rounded=False, dashed=fill == "",
                fill="paper" if fill in ("", "framed") else fill,
                thick=2.2 if framed else 0.9, edge=style.INK if framed else style.MUTED,
            )  # fmt: skip
            self.label((x + 0.27, y), meaning)
            x += 0.27 + style.text_width(meaning, style.SMALL) + 0.25
        return x

    # ------------------------------------------------------------------ plots

    def plot(self, x: float, y: float, width: float, height: float, title: str = "") -> Axes:
        """Return axes for a small plot on the canvas; the rectangle is that of the data area.

        Labels of axes and ticks lie outside it: leave about half an inch left of it and below.

        Args:
            x: the left edge of the data area, in inches.
            y: its upper edge.
            width: in inches.
            height: in inches.
            title: stands above it, to the left.
        """
        across, down = self.width, self._height
        axes = self._picture.add_axes(
            (x / across, 1 - (y + height) / down, width / across, height / down), zorder=4
        )
        axes.tick_params(labelsize=style.SMALL, length=3)
        axes.xaxis.label.set_fontsize(style.SMALL)
        axes.yaxis.label.set_fontsize(style.SMALL)
        if title:
            self.label((x, y - 0.14), title, colour=style.INK)
        return axes


def shades(values: np.ndarray, *, largest: float | None = None) -> list[list[str]]:
    """Colours for a grid of numbers, (rows, columns): white for 0, dark for the largest.

    The steps are those of matplotlib's "cividis" turned around, which keeps its order in grey.

    Args:
        values: float (rows, columns), 0 or more.
        largest: the number that gets the darkest colour; without it, the largest of values.
    """
    values = np.asarray(values, dtype=float)
    most = largest if largest is not None else max(float(values.max()), 1e-12)
    colours = matplotlib.colormaps["cividis_r"](np.clip(values / most, 0, 1))
    return [
        [
            style.PAPER if value == 0 else matplotlib.colors.to_hex(colour)
            for value, colour in zip(row, row_colours, strict=True)
        ]
        for row, row_colours in zip(values, colours, strict=True)
    ]
