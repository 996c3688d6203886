"""Where a model looks while it writes a summary, and where it has looked before: step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.generation.summaries import Summary
from ehr_course.plots import style
from ehr_course.plots.bars import quick_bars
from ehr_course.plots.cells import draw_cells
from ehr_course.plots.style import Picture

MOST_WORDS = 48
"""How many words of a note have room in the picture."""

SPENT, NOW = "#35608d", "#fde725"  # both of viridis; light on dark in greyscale too


@dataclass(frozen=True)
class Look:
    """A summary, its note, and where the model looked when it wrote each token.

    Attributes:
        source: the tokens of the note.
        written: the tokens of the summary, in their order.
        attention: float64 (written, source), each row summing to 1.
    """

    source: tuple[str, ...]
    written: tuple[str, ...]
    attention: np.ndarray

    def __post_init__(self) -> None:
        expected = len(self.written), len(self.source)
        if self.attention.shape != expected or 0 in expected:
            raise InputError(
                "Look",
                "attention",
                f"its shape is {self.attention.shape}, the summary and the note have "
                f"{expected[0]} and {expected[1]} tokens",
                "Give one row for each token of the summary, and one or more of both.",
            )

    @property
    def coverage(self) -> np.ndarray:
        """float64 (written, source): the attention of all steps before each step."""
        return np.cumsum(self.attention, axis=0) - self.attention

    @property
    def repeated(self) -> np.ndarray:
        """float64 (written,): the attention of each step that goes where attention has been."""
        return np.minimum(self.attention, self.coverage).sum(axis=1)


def look_of(summary: Summary) -> Look:
    """Where the model looked when it wrote a summary, as ``summarize`` gives one."""
    return Look(summary.source_pieces, summary.pieces, summary.attention.double().numpy())


# ---------------------------------------------------------------------- words


def coverage_title(look: Look, step: int) -> str:
    """What a step writes, and the coverage of the place where it looks most: a title."""
    most = int(look.attention[step].argmax())
    start = f'Step {step + 1} writes "{_short(look.written[step])}"'
    if step == 0:
        return f"{start}: nothing has been looked at before"
    return f"{start} and looks most where coverage is {look.coverage[step, most]:.2f}"


def describe_coverage(look: Look, step: int) -> str:
    """Say in words what :func:`draw_coverage` shows."""
    most = int(look.attention[step].argmax())
    text = (
        f"{coverage_title(look, step)}. It looks most at {look.source[most]} "
        f"({look.attention[step, most]:.2f})."
    )
    written = " ".join(look.written[:step])
    return f"{text} Written so far: {written or 'nothing'}."


# ---------------------------------------------------------------------- the picture

_BARS, _LABELS, _TOP = 1.15, 1.3, 0.66
_ROW, _HIGHEST_MAP, _LABEL = 0.185, 5.5, 0.15
_LEFT, _RIGHT = 1.55, 0.12


def draw_coverage(look: Look, step: int) -> Picture:
    """Draw one step of a summary, over all of them.

    Above, a bar for each word of the note: the attention spent before this step, and on top of
    it that of the step. Below, all steps as a heat map, the present one framed.

    Args:
        look: the summary and where the model looked. Of a note of more than MOST_WORDS words
            those are drawn that are looked at most; the picture says so.
        step: from 0.

    Raises:
        InputError: if there is no such step.
    """
    if not 0 <= step < len(look.written):
        raise InputError(
            "draw_coverage",
            "step",
            f"{step} is no step of {len(look.written)}",
            f"Use 0 to {len(look.written) - 1}.",
        )
    shown = _most_looked_at(look)
    n_steps = len(look.written)
    map_height = min(n_steps * _ROW, _HIGHEST_MAP)
    height = _TOP + _BARS + 0.12 + map_height + _LABELS
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_coverage(look, step))
        picture.text(
            0.012,
            1 - 0.2 / height,
            coverage_title(look, step),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        _draw_key(picture, height, _subtitle(look, shown))
        width = (style.WIDTH - _LEFT - _RIGHT) / style.WIDTH
        left = _LEFT / style.WIDTH
        bars = picture.add_axes(
            (left, (_LABELS + map_height + 0.12) / height, width, _BARS / height)
        )
        _draw_bars(bars, look, step, shown)
        steps = picture.add_axes((left, _LABELS / height, width, map_height / height))
        _draw_steps(steps, look, step, shown)
    return picture


def _most_looked_at(look: Look) -> np.ndarray:
    """The places of the words that are drawn, in the note's order."""
    total = look.attention.sum(axis=0)
    return np.sort(np.argsort(-total, kind="stable")[:MOST_WORDS])


def _subtitle(look: Look, shown: Sequence[int] | np.ndarray) -> str:
    text = "rows below: all steps"
    n_words = len(look.source)
    if len(shown) < n_words:
        text += f"; {len(shown)} of {n_words} words, the most looked at"
    return text


def _draw_key(picture: Picture, height: float, rest: str) -> None:
    """What the two colours of the bars mean, and a few words more, in one line."""
    x, y = 0.09, 1 - 0.47 / height
    entries = {SPENT: "coverage: spent before", NOW: "attention of this step"}
    transform = picture.transFigure
    look: dict[str, Any] = {"edgecolor": style.INK, "linewidth": 0.6, "transform": transform}
    words: dict[str, Any] = {"size": style.SMALL, "color": style.MUTED, "va": "center"}
    for colour, meaning in entries.items():
        corner = x / style.WIDTH, y - 0.06 / height
        picture.add_artist(
            Rectangle(corner, 0.2 / style.WIDTH, 0.12 / height, facecolor=colour, **look)
        )
        picture.text((x + 0.26) / style.WIDTH, y, meaning, **words)
        x += 0.26 + style.text_width(meaning, style.SMALL) + 0.22
    picture.text(x / style.WIDTH, y, rest, **words)


def _draw_bars(axes: Axes, look: Look, step: int, shown: np.ndarray) -> None:
    before, now = look.coverage[step, shown], look.attention[step, shown]
    places = np.arange(len(shown))
    quick_bars(axes, places, before, thickness=0.8, facecolor=SPENT)
    edge: dict[str, Any] = {"edgecolor": style.INK, "linewidth": 0.6}
    quick_bars(axes, places, now, bottom=before, thickness=0.8, facecolor=NOW, **edge)
    highest = float(look.attention.sum(axis=0).max())  # the same scale at every step
    axes.set_ylim(0, max(1.0, highest) * 1.04)
    axes.set_xlim(-0.5, len(shown) - 0.5)
    axes.set_xticks([])
    axes.set_ylabel("attention,\nsummed up", size=style.SMALL)
    axes.tick_params(axis="y", labelsize=style.SMALL)


def _draw_steps(axes: Axes, look: Look, step: int, shown: np.ndarray) -> None:
    n_steps = len(look.written)
    draw_cells(axes, look.attention[:, shown], cmap="cividis", vmin=0, vmax=1)
    frame = Rectangle(
        (-0.5, step - 0.5), len(shown), 1, fill=False, edgecolor="#d1495b", linewidth=2, zorder=3
    )
    frame.set_clip_on(False)
    axes.add_patch(frame)
    every = math.ceil(_LABEL * n_steps / _HIGHEST_MAP)  # more labels would lie on each other
    labels = [
        _short(word) if place % every == 0 and place != step else ""
        for place, word in enumerate(look.written)
    ]
    axes.set_yticks(range(n_steps), labels, size=style.SMALL)
    # The bold label is no tick: one tick that looks unlike the others would cost them all.
    beside, va, ha = axes.get_yaxis_text1_transform(matplotlib.rcParams["ytick.major.pad"])
    word = _short(look.written[step])
    bold: dict[str, Any] = {"size": style.SMALL, "weight": "bold", "va": va, "ha": ha}
    axes.text(0, step, word, transform=beside, **bold)
    axes.set_xticks(
        range(len(shown)),
        [_short(look.source[place]) for place in shown],
        rotation=90,
        size=style.SMALL,
    )
    axes.tick_params(length=0)
    axes.set_xlabel("words of the note", size=style.SMALL)
    axes.set_ylabel("written", size=style.SMALL)
    across = axes.get_position().width * style.WIDTH
    axes.yaxis.set_label_coords(-(_LEFT - 0.16) / across, 0.5)
    for side in axes.spines.values():
        side.set_visible(False)


def _short(word: str, most: int = 15) -> str:
    """A word that fits beside the picture.

    >>> _short("ceftriaxone"), _short("hydrochlorothiazide")
    ('ceftriaxone', 'hydrochlorothi…')
    """
    return word if len(word) <= most else f"{word[: most - 1]}…"
