"""The drawings of lesson 17 on repetition: what is copied, what it costs, what training does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ehr_course.plots import style
from ehr_course.plots.bars import quick_bars
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.coverage_player import Look
from ehr_course.plots.style import Picture

MOST_WORDS = 14
"""How many words of a list have room one below the other."""


class Written(NamedTuple):
    """How good the summaries of one model are.

    Attributes:
        repeated: the share of the drugs written that are repetitions.
        named: the share of the drugs of the note that are named.
        exact: the share of the lists that are right from beginning to end.
    """

    repeated: float
    named: float
    exact: float


def _short(word: str, most: int = 15) -> str:
    return word if len(word) <= most else f"{word[: most - 1]}…"


# ---------------------------------------------------------------------- the lesson

_ROW, _COLUMN = 0.27, 1.32
_REMEDIES = {
    "what it learned from": "longer lists to learn from",
    "where it looks": "a record of earlier looks: coverage",
    "what it may write": "several summaries at a time: beam\nsearch; no run of words twice",
    "what you count": "repeated, named, exact; ROUGE",
}


def draw_lesson(note: Sequence[str], written: Sequence[str]) -> Picture:
    """Draw which word of a list each written word was copied from, and where one can step in.

    Args:
        note: the words of the list, no two of them equal.
        written: the words of the summary; one that the list lacks stands alone.
    """
    note, written = list(note)[:MOST_WORDS], list(written)[:MOST_WORDS]
    again = [word in written[:place] for place, word in enumerate(written)]
    missing = [word for word in note if word not in written]
    twice = [word for word, times in Counter(written).items() if times > 1]
    fault = (
        f"{len(written)} drugs written for {len(note)}: {len(twice)} come twice, "
        f"{len(missing)} are missing"
    )
    canvas = Canvas(
        max(3.7, 0.95 + _ROW * max(len(note), len(written))),
        fault,
        f"A list of {len(note)} drugs beside the {len(written)} that a model writes, with a line "
        f"from each to its copy. Twice: {', '.join(twice) or 'none'}. "
        f"Never: {', '.join(missing) or 'none'}. Beside them the four places to step in.",
    )
    top, left, right = canvas.top + 0.24, MARGIN + 0.22, MARGIN + 2.5
    canvas.label((left, top - 0.13), "the note", colour=style.INK, weight="bold")
    canvas.label((right, top - 0.13), "the summary", colour=style.INK, weight="bold")
    boxes = {}
    for place, word in enumerate(note):
        y = top + place * _ROW
        boxes[word] = canvas.box(
            left,
            y,
            _COLUMN,
            _ROW - 0.05,
            _short(word),
            size=style.SMALL,
            mono=True,
            dashed=word in missing,
            fill="paper" if word in missing else "code",
        )
        canvas.label((left - 0.06, y + _ROW / 2 - 0.02), f"{place + 1}", align="right")
    for place, (word, back) in enumerate(zip(written, again, strict=True)):
        y = top + place * _ROW
        box = canvas.box(
            right,
            y,
            _COLUMN,
            _ROW - 0.05,
            _short(word),
            size=style.SMALL,
            mono=True,
            fill="trap" if back else "code",
            edge=WARNING if back else style.MUTED,
        )
        if word in boxes:
            look = {"colour": WARNING, "dashed": True} if back else {"colour": style.MUTED}
            start, end = boxes[word].side("right"), box.side("left")
            canvas.arrow((start[0] + 0.02, start[1]), (end[0] - 0.02, end[1]), **look)
        if back:
            canvas.label((box.right + 0.06, box.middle[1]), "again", colour=WARNING)
    x = right + _COLUMN + 0.68
    canvas.label((x, top - 0.13), "where you can step in", colour=style.INK, weight="bold")
    step = 0.69
    for place, (name, remedy) in enumerate(_REMEDIES.items()):
        y = top + place * step
        canvas.box(x, y, style.WIDTH - MARGIN - x, step - 0.09, fill="quiet")
        canvas.label((x + 0.08, y + 0.13), name, colour=style.INK)
        canvas.label((x + 0.08, y + 0.23), remedy, vertical="top")
    return canvas.finish()


# ---------------------------------------------------------------------- the coverage loss

_SPENT, _NOW = "#35608d", "#fde725"  # those of the coverage player


def draw_overlap(look: Look, steps: Sequence[int]) -> Picture:
    """Draw attention over coverage at two steps: what both share is what a step costs.

    Args:
        look: a summary and where the model looked; 16 words of its note at most are drawn.
        steps: two of its steps, from 0.
    """
    steps = sorted(steps)
    costs = [float(look.repeated[step]) for step in steps]
    said = [
        f"step {step + 1} (“{look.written[step]}”) costs {cost:.2f}"
        for step, cost in zip(steps, costs, strict=True)
    ]
    title = " and ".join(said)
    canvas = Canvas(
        3.35,
        f"{title[0].upper()}{title[1:]}",
        f"Bars of coverage and attention for each word of the note at two steps. What both bars "
        f"share, added up over the words: {'; '.join(said)}.",
    )
    canvas.key(
        MARGIN, canvas.top + 0.03, {_SPENT: "coverage: spent before", _NOW: "attention now"}
    )
    canvas.box(4.0, canvas.top - 0.04, 0.2, 0.14, edge=WARNING, hatched=True, rounded=False)
    canvas.label((4.27, canvas.top + 0.03), "in both: the cost")
    shown = np.sort(np.argsort(-look.attention.sum(axis=0), kind="stable")[:16])
    highest = max(1.0, *(float(look.coverage[step].max()) for step in steps))
    width = 3.12
    for place, (step, cost) in enumerate(zip(steps, costs, strict=True)):
        axes = canvas.plot(
            0.62 + place * (width + 0.5),
            canvas.top + 0.48,
            width,
            1.3,
            f"step {step + 1} writes “{_short(look.written[step])}”: {cost:.2f}",
        )
        _draw_shared(axes, look.coverage[step, shown], look.attention[step, shown])
        axes.set_ylim(0, highest * 1.05)
        axes.set_xlim(-0.6, len(shown) - 0.4)
        axes.set_xticks(range(len(shown)), [_short(look.source[i]) for i in shown], rotation=90)
        if place == 0:
            axes.set_ylabel("attention")
    return canvas.finish()


def _draw_shared(axes: Axes, spent: np.ndarray, now: np.ndarray) -> None:
    """Draw two bars of each word behind each other, and what they share on top."""
    places = np.arange(len(spent))
    quick_bars(axes, places, spent, thickness=0.8, facecolor=_SPENT)
    edge = style.INK
    quick_bars(axes, places, now, thickness=0.5, facecolor=_NOW, edgecolor=edge, linewidth=0.6)
    shared = np.minimum(spent, now)
    look: dict[str, Any] = {"facecolor": FILLS["trap"], "edgecolor": WARNING}
    look |= {"linewidth": 0.8, "hatch": "////"}
    some = shared > 0.02
    if some.any():
        quick_bars(axes, places[some], shared[some], thickness=0.5, **look)


# ---------------------------------------------------------------------- what training changes


def draw_seeds(found: Mapping[str, Sequence[Written]]) -> Picture:
    """Draw what each training of each kind of model wrote: a dot for each seed.

    Args:
        found: for each kind of model, the result of each seed; seeds in the same order. The last
            kind is the one that has learned from other data.
    """
    kinds = list(found)
    means = {
        kind: (np.mean([one.repeated for one in some]), np.mean([one.named for one in some]))
        for kind, some in found.items()
    }
    n_seeds = len(found[kinds[0]])
    said = "; ".join(
        f"{kind}: {repeated:.0%} repeated, {named:.0%} named, exact "
        + ", ".join(f"{one.exact:.0%}" for one in found[kind])
        for kind, (repeated, named) in means.items()
    )
    last = kinds[-1]
    canvas = Canvas(
        1.55 + 0.52 * len(kinds),
        f"Drugs repeated: {means[kinds[0]][0]:.0%} without coverage, {means[kinds[-2]][0]:.0%} "
        f"with, {means[last][0]:.0%} from longer lists",
        f"For each of {len(kinds)} kinds of training a dot for each of {n_seeds} seeds, and a "
        f"line at the mean. {said}.",
        subtitle=f"A dot is one trained model; in each row the {n_seeds} seeds stand in the same "
        "order, from top to bottom. Line: their mean.",
    )
    top, height, width = canvas.top + 0.3, 0.52 * len(kinds), 1.65
    most = max(0.1, *(one.repeated for some in found.values() for one in some))
    panels = {
        "repeated": ("drugs repeated", most),
        "named": ("drugs named", 1.0),
        "exact": ("lists exact", 1.0),
    }
    for column, (measure, (heading, highest)) in enumerate(panels.items()):
        axes = canvas.plot(1.75 + column * (width + 0.3), top, width, height, heading)
        for row, kind in enumerate(kinds):
            values = [getattr(one, measure) for one in found[kind]]
            lanes = row + 0.17 * (np.arange(n_seeds) - (n_seeds - 1) / 2)
            axes.plot([np.mean(values)] * 2, [row - 0.36, row + 0.36], color=style.INK, lw=1.6)
            colour = style.PAPER if kind == last else FILLS["code"]
            axes.scatter(values, lanes, s=22, color=colour, edgecolor=FILLS["code"], zorder=4)
        axes.set_xlim(-0.06 * highest, 1.08 * highest)
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.set_yticks([])
        axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    for row, kind in enumerate(kinds):
        canvas.label((1.66, top + 0.52 * (row + 0.5)), kind, align="right", colour=style.INK)
    return canvas.finish()


# ---------------------------------------------------------------------- the suspects

_SUSPECTS = (
    "the word written last",
    "the place looked at last",
    "the state of the step before",
)


def draw_suspects(step: int, given: Sequence[str], told: Sequence[str]) -> Picture:
    """Draw the three things that a step of the decoder is given, and what each test exchanges.

    Args:
        step: the number of the step, from 1.
        given: what it is given as a rule: the word, the place, and the state, in words.
        told: what each of the three tests gives it in their place.
    """
    canvas = Canvas(
        2.72,
        "Each test exchanges one of the three things that a step is given",
        f"Step {step} of the decoder gets three things. "
        + " ".join(
            f"{suspect.capitalize()}: {own}; test {n} gives {other}."
            for n, (suspect, own, other) in enumerate(
                zip(_SUSPECTS, given, told, strict=True), start=1
            )
        )
        + " From them it finds where to look.",
        subtitle="The other two stay as they are. If the model now looks elsewhere, "
        "the exchanged one is guilty.",
    )
    x_given, x_told, x_step = 2.02, 3.5, 5.4
    width, height, row = 1.3, 0.4, 0.56
    top = canvas.top + 0.28
    canvas.label((x_given, top - 0.14), "given", colour=style.INK, weight="bold")
    canvas.label((x_told, top - 0.14), "in the test", colour=WARNING, weight="bold")
    decoder = canvas.box(
        x_step, top, 0.92, 2 * row + height, f"step {step}\nof the\ndecoder", fill="decoder"
    )
    for place, (suspect, own, other) in enumerate(zip(_SUSPECTS, given, told, strict=True)):
        y = top + place * row
        canvas.label((MARGIN, y + height / 2), suspect, colour=style.INK)
        canvas.box(x_given, y, width, height, own, size=style.SMALL)
        box = canvas.box(
            x_told, y, 1.44, height, other, size=style.SMALL, fill="trap", dashed=True
        )
        canvas.label((box.x - 0.05, y + height / 2), f"{place + 1}", align="right", colour=WARNING)
        start = box.side("right")
        canvas.arrow((start[0] + 0.04, start[1]), (decoder.x - 0.04, start[1]))
    out = decoder.side("right")
    canvas.arrow((out[0] + 0.04, out[1]), (out[0] + 0.3, out[1]))
    canvas.label((out[0] + 0.34, out[1]), "where\nit looks", colour=style.INK)
    return canvas.finish()


# ---------------------------------------------------------------------- what sets the place


def draw_steps(looked: Mapping[str, Mapping[str, Sequence[int]]]) -> Picture:
    """Draw where some models look at each step of a short list and of a long one.

    Args:
        looked: for each of two kinds of lists to learn from, two rows by name: the place, from
            1, that each step looks at most, in a short list and in a long one.
    """
    kinds = list(looked)
    first, last = (list(looked[kind].values())[1] for kind in kinds)
    far = max(range(len(first)), key=lambda step: abs(first[step] - step - 1))
    canvas = Canvas(
        3.4,
        f"Trained on lists of {kinds[0]}, step {far + 1} looks at place {first[far]}; "
        f"on {kinds[1]}, at place {last[far]}",
        "The place that each step looks at most. "
        + " ".join(
            f"Learned from lists of {kind}: "
            + "; ".join(f"{name}: {', '.join(map(str, row))}" for name, row in rows.items())
            + "."
            for kind, rows in looked.items()
        ),
    )
    longest = max(max(len(row), *row) for rows in looked.values() for row in rows.values())
    looks: list[dict[str, Any]] = [
        {"color": WARNING, "marker": "s", "ms": 3.5, "lw": 1.6, "zorder": 5},
        {"color": FILLS["code"], "marker": "o", "ms": 4, "lw": 1.6, "zorder": 4},
    ]
    for column, (kind, rows) in enumerate(looked.items()):
        width = 3.12
        axes = canvas.plot(
            0.62 + column * (width + 0.5), canvas.top + 0.52, width, 1.8, f"learned from {kind}"
        )
        for (name, row), look in zip(rows.items(), looks, strict=True):
            axes.plot(range(1, len(row) + 1), row, label=name, **look)
        axes.set_xlim(0.4, longest + 0.6)
        axes.set_ylim(0.2, longest + 0.8)
        axes.set_xticks(range(1, longest + 1))
        axes.set_yticks(range(2, longest + 1, 2))
        axes.set_xlabel("step")
        if column == 0:
            axes.set_ylabel("place looked at most")
            axes.legend(
                fontsize=style.SMALL,
                frameon=False,
                loc="lower left",
                bbox_to_anchor=(-0.04, 1.14),
                ncols=len(rows),
                borderaxespad=0,
            )
    return canvas.finish()
