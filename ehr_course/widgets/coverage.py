"""Step through a summary: where the model looks, and where it has looked before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import ipywidgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.generation.summaries import Summary
from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, Canvas
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget, choice, slider

MILLISECONDS_A_STEP = 1500

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

    @property
    def coverage(self) -> np.ndarray:
        """float64 (written, source): the attention of all steps before each step."""
        return np.cumsum(self.attention, axis=0) - self.attention

    @property
    def repeated(self) -> np.ndarray:
        """float64 (written,): the attention of each step that goes where attention has been."""
        return np.minimum(self.attention, self.coverage).sum(axis=1)


def look_of(summary: Summary) -> Look:
    """Where the model looked when it wrote a summary, as ``summarize`` returns one."""
    return Look(summary.source_pieces, summary.pieces, summary.attention.double().numpy())


def coverage_player(looks: Mapping[str, Look], *, step: int = 1) -> PictureWidget:
    """Choose a summary, and play it step by step.

    Args:
        looks: summaries by name, such as those of two models for one note.
        step: where it begins, from 1.

    Returns:
        A widget with the controls ``summary`` (one of the names) and ``step``, counted from 1. A
        summary that is shorter than the step shows its last one. A button plays the steps.

    Raises:
        InputError: if there are none, or the longest has no such step.
    """
    if not looks:
        raise InputError(
            "coverage_player", "looks", "the list is empty", "Give a summary or more."
        )
    last = max(len(look.written) for look in looks.values())
    if not 1 <= step <= last:
        raise InputError(
            "coverage_player", "step", f"there is no step {step}", f"Use 1 to {last}."
        )

    def draw(summary: str, step: int) -> Picture:
        look = looks[summary]
        return draw_coverage(look, min(step, len(look.written)) - 1)

    along = slider("step", step, 1, last)
    player = PictureWidget(draw, {"summary": choice("summary", list(looks)), "step": along})
    play = ipywidgets.Play(value=step, min=1, max=last, interval=MILLISECONDS_A_STEP)
    ipywidgets.jslink((play, "value"), (along, "value"))
    row, *others = player.children
    row.children = (*row.children, play)
    player.children = (row, *others)
    return player


# ---------------------------------------------------------------------- the picture

_LEFT, _BARS, _LABELS = 1.55, 1.15, 1.3  # inches
_HIGHEST_MAP, _LABEL = 5.5, 0.15


def draw_coverage(look: Look, step: int) -> Picture:
    """Draw one step of a summary, over all of them.

    Above, a bar for each word of the note: the attention spent before this step, and on top of
    it that of the step. Below, all steps as a heat map, the present one framed.

    Args:
        look: of a note of more than MOST_WORDS words those are drawn that are looked at most; the
            picture says so.
        step: from 0.
    """
    spent, now = look.coverage[step], look.attention[step]
    most, word = int(now.argmax()), look.written[step]
    title = f'Step {step + 1} writes "{_short(word)}"'
    title += (
        f" and looks most where coverage is {spent[most]:.2f}"
        if step
        else ": nothing has been looked at before"
    )
    before = " ".join(look.written[:step]) or "nothing"
    map_height = min(len(look.written) * 0.185, _HIGHEST_MAP)
    canvas = Canvas(
        0.78 + _BARS + map_height + _LABELS,
        title,
        f"{title}. It looks most at {look.source[most]} ({now[most]:.2f}). Written so far: "
        f"{before}.",
    )
    total = look.attention.sum(axis=0)
    shown = np.sort(np.argsort(-total, kind="stable")[:MOST_WORDS])
    key = {SPENT: "coverage: spent before", NOW: "attention of this step"}
    end = canvas.key(MARGIN, canvas.top, key)
    some = f"; {len(shown)} of {len(total)} words, the most looked at"
    rest = "rows below: all steps" + (some if len(shown) < len(total) else "")
    canvas.label((end, canvas.top), rest)

    width = canvas.width - _LEFT - MARGIN
    bars = canvas.plot(_LEFT, canvas.top + 0.14, width, _BARS)
    places = np.arange(len(shown))
    bars.bar(places, spent[shown], color=SPENT)
    bars.bar(places, now[shown], bottom=spent[shown], color=NOW, edgecolor=style.INK, lw=0.6)
    bars.set_xlim(-0.5, len(shown) - 0.5)
    bars.set_ylim(0, max(1.0, total.max()) * 1.04)  # the same scale at every step
    bars.set_xticks([])
    bars.set_ylabel("attention,\nsummed up")
    steps = canvas.plot(_LEFT, canvas.top + 0.26 + _BARS, width, map_height)
    _draw_steps(steps, look, step, shown)
    steps.yaxis.set_label_coords(-(_LEFT - 0.16) / width, 0.5)
    return canvas.finish()


def _draw_steps(axes: Axes, look: Look, step: int, shown: np.ndarray) -> None:
    axes.imshow(look.attention[:, shown], cmap="cividis", vmin=0, vmax=1, aspect="auto")
    frame = Rectangle((-0.5, step - 0.5), len(shown), 1, fill=False, edgecolor="#d1495b", lw=2)
    frame.set_clip_on(False)
    axes.add_patch(frame)
    n_steps = len(look.written)
    every = ceil(_LABEL * n_steps / _HIGHEST_MAP)  # more labels would lie on each other
    named = [place for place in range(n_steps) if place == step or place % every == 0]
    named = [place for place in named if place == step or abs(place - step) >= every]
    axes.set_yticks(named, [_short(look.written[place]) for place in named])
    axes.get_yticklabels()[named.index(step)].set_fontweight("bold")
    axes.set_xticks(range(len(shown)), [_short(look.source[i]) for i in shown], rotation=90)
    axes.tick_params(length=0)
    axes.set_xlabel("words of the note")
    axes.set_ylabel("written")
    axes.spines[:].set_visible(False)


def _short(word: str, most: int = 15) -> str:
    """A word that fits beside the picture.

    >>> _short("ceftriaxone"), _short("hydrochlorothiazide")
    ('ceftriaxone', 'hydrochlorothi…')
    """
    return word if len(word) <= most else f"{word[: most - 1]}…"
