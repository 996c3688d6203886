"""The picture of a copy head at work: which codes of earlier visits the last visit is made of."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ehr_course.code_system import CodeSystem
from ehr_course.evaluation.attention import CopiedVisit
from ehr_course.plots import style
from ehr_course.plots.style import Picture

COLOUR_MAP = "Blues"
_CELL = 0.27
_LONGEST_TITLE = 34


def describe_copying(shown: CopiedVisit) -> str:
    """Say in one sentence what :func:`draw_copying` shows."""
    known = set(shown.earlier)
    again = [share for code, share in zip(shown.codes, shown.copied, strict=True) if code in known]
    new = [
        share for code, share in zip(shown.codes, shown.copied, strict=True) if code not in known
    ]
    said = [
        f"{len(codes)} {words}, copied with a probability of {np.mean(codes):.2f} on average"
        for codes, words in ((again, "that the patient had before"), (new, "that are new"))
        if codes
    ]
    return (
        f"Grid of the {len(shown.codes)} codes of visit {max(shown.visit_of) + 1} against the "
        f"{len(shown.earlier)} codes of the visits before: {'; '.join(said)}."
    )


def draw_copying(shown: CopiedVisit) -> Picture:
    """Draw the probability that each code of the last visit is copied, and from which place.

    A row is a code that is about to be written, a column a code of an earlier visit. The darker
    a cell, the larger the probability that the row's code is copied from there; a frame marks
    the places where the same code stands. The bar beside a row is the share of the copy head.

    Args:
        shown: as ``copied_visit`` returns it.
    """
    rows = [_label(code, shown.system) for code in shown.codes]
    columns = [style.written(code, shown.system) for code in shown.earlier]
    left = 0.15 + max(style.text_width(row, style.SMALL) for row in rows)
    bars = 1.15
    cell = min(_CELL, (style.WIDTH - left - bars - 0.35) / len(shown.earlier))
    above = 0.1 + max(style.text_width(column, style.SMALL) for column in columns)
    height = 0.72 + above + _CELL * len(rows) + 0.3
    size = min(style.SMALL, cell * 72 * 0.8)
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_copying(shown))
        top, width = 1 - (0.72 + above) / height, cell * len(shown.earlier)
        tall = _CELL * len(rows) / height
        picture.text(
            0.12 / style.WIDTH,
            1 - 0.22 / height,
            f"Visit {max(shown.visit_of) + 1}: what is copied, and from where",
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        picture.text(
            0.12 / style.WIDTH,
            1 - 0.45 / height,
            "The darker, the likelier it is copied from there; a frame: the same code",
            size=style.SMALL,
            color=style.MUTED,
            va="center",
        )
        grid = picture.add_axes((left / style.WIDTH, top - tall, width / style.WIDTH, tall))
        _draw_grid(grid, shown, rows, columns, size)
        beside = (left + width + 0.2) / style.WIDTH
        bar = picture.add_axes((beside, top - tall, (bars - 0.2) / style.WIDTH, tall))
        _draw_shares(bar, shown)
    return picture


def _label(code: str, system: CodeSystem) -> str:
    title = style.code_title(code, system)
    if len(title) > _LONGEST_TITLE:
        title = f"{title[: _LONGEST_TITLE - 1].rstrip()}…"
    return f"{title}  {style.written(code, system)}".strip()


def _draw_grid(
    axes: Axes, shown: CopiedVisit, rows: list[str], columns: list[str], size: float
) -> None:
    axes.pcolormesh(
        shown.shares,
        cmap=matplotlib.colormaps[COLOUR_MAP],
        vmin=0,
        vmax=1,
        edgecolors=style.FAINT,
        linewidth=0.5,
    )
    axes.set_xlim(0, len(shown.earlier))
    axes.set_ylim(len(rows), 0)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90, parse_math=False)
    axes.tick_params(length=0, pad=3)
    axes.tick_params(axis="x", labelsize=size)
    axes.tick_params(axis="y", labelsize=style.SMALL)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for row, code in enumerate(shown.codes):
        for column, other in enumerate(shown.earlier):
            if code == other:
                axes.add_patch(
                    Rectangle(
                        (column, row),
                        1,
                        1,
                        fill=False,
                        edgecolor=style.INK,
                        linewidth=1.3,
                        clip_on=False,
                    )
                )
    numbers = np.array(shown.visit_of)
    for number in np.unique(numbers):
        inside = np.flatnonzero(numbers == number)
        if inside[0]:
            axes.axvline(inside[0], color=style.INK, linewidth=1.5)
        axes.text(
            inside.mean() + 0.5,
            len(rows) + 0.25,
            f"visit {number}",
            ha="center",
            va="top",
            size=style.SMALL,
            color=style.MUTED,
            clip_on=False,
        )


def _draw_shares(axes: Axes, shown: CopiedVisit) -> None:
    places = np.arange(len(shown.codes)) + 0.5
    axes.barh(places, shown.copied, height=0.62, color=matplotlib.colormaps[COLOUR_MAP](0.75))
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown.codes), 0)
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.set_xticks([0, 1], ["0", "1"])
    axes.tick_params(length=2, labelsize=style.SMALL)
    axes.set_title("copied at all", size=style.SMALL, color=style.MUTED, pad=14)
    axes.spines["bottom"].set_visible(False)
