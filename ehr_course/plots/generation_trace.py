"""The picture of how a summary came about: one word, and what it was chosen from."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from ehr_course.errors import InputError
from ehr_course.generation.summary_trace import MOST_WORDS, GenerationTrace, TraceStep, Words
from ehr_course.plots import style
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- words


def trace_title(trace: GenerationTrace, step: int) -> str:
    """Which word was written, and how.

    >>> word = TraceStep("senna", (1.0,), 0.25, (("home", 0.5),), (("senna", 1.0),), (), 1.0)
    >>> trace_title(GenerationTrace(("senna",), ("senna",), (word,)), 0)
    'Word 1 of 1: "senna", copied (p_gen 0.25)'
    """
    shown = trace.steps[step]
    return (
        f'Word {step + 1} of {len(trace.steps)}: "{shown.written}", {_how(shown)} '
        f"(p_gen {shown.p_gen:.2f})"
    )


def _how(step: TraceStep) -> str:
    if step.from_copying > 0.9:
        return "copied"
    return "generated" if step.from_copying < 0.1 else "both generated and copied"


def describe_trace_step(trace: GenerationTrace, step: int) -> str:
    """Say in words what :func:`draw_trace_step` shows."""
    shown = trace.steps[step]
    place = max(range(len(trace.note)), key=lambda i: shown.attention[i])
    before = " ".join(s.written for s in trace.steps[:step]) or "nothing yet"
    copied = f", P_copy {_first(shown.copied)}" if shown.copied else ""
    return (
        f'Word {step + 1} of {len(trace.steps)} is "{shown.written}", after: {before}. Most '
        f'attention is on "{trace.note[place]}" ({shown.attention[place]:.2f}); p_gen is '
        f"{shown.p_gen:.2f}. First in P_vocab {_first(shown.generated)}{copied}, in the mixture "
        f"{_first(shown.mixed)}."
    )


def _first(words: Words) -> str:
    word, probability = words[0]
    return f'"{word}" ({probability:.2f})'


# ---------------------------------------------------------------------- the picture

_MARGIN = 0.12
_GUTTER = 0.78  # where "note" stands
_RIGHT = style.WIDTH - 0.12
_LINE = 0.27
_BOX = 0.22
_GAP = 0.05
_ROW = 0.22
_LEAST = 0.01  # attention below this leaves a word white
_MOST_LINES = 12
_COLOURS = matplotlib.colors.LinearSegmentedColormap.from_list(
    "attention", (style.PAPER, style.chapter_colour(7))
)
_BAR_COLOUR = style.chapter_colour(7)


def draw_trace_step(trace: GenerationTrace, step: int) -> Picture:
    """Draw one word of a summary: attention on the note, p_gen, and the three distributions.

    The words of the note are the darker, the more attention they get. A word outside the
    vocabulary has a dashed frame. Of a long note the lines around the attention are drawn.

    Args:
        trace: as trace_summary gives it.
        step: which word, from 0.

    Raises:
        InputError: if the summary has no such word.
    """
    if not 0 <= step < len(trace.steps):
        raise InputError(
            "draw_trace_step",
            "step",
            f"{step!r} is not the place of a word",
            f"Use 0 to {len(trace.steps) - 1}.",
        )
    shown = trace.steps[step]
    lines, note_says = _lines_around(trace, shown)
    summary = _wrapped([s.written for s in trace.steps])[-_MOST_LINES:]
    height = 0.62 + (len(lines) + len(summary)) * _LINE + 0.66 + 0.4 + MOST_WORDS * _ROW + 0.12
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_trace_step(trace, step))
        axes = picture.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, style.WIDTH)
        axes.set_ylim(height, 0)  # inches, from the top down
        axes.axis("off")
        title = trace_title(trace, step)
        axes.text(
            _MARGIN, 0.24, title, size=style.TITLE, weight="bold", va="center", parse_math=False
        )
        y = _draw_note(axes, 0.46, trace, shown, lines, note_says)
        y = _draw_summary(axes, y + 0.1, trace, step, summary)
        y = _draw_gate(axes, y + 0.08, shown)
        _draw_distributions(axes, y + 0.1, trace, shown)
    return picture


def _width(text: str) -> float:
    return style.text_width(text, style.TEXT) + 0.08


def _wrapped(words: Sequence[str]) -> list[list[tuple[float, int]]]:
    """Lines of words, each with its left edge and its place."""
    lines: list[list[tuple[float, int]]] = [[]]
    x = _MARGIN + _GUTTER
    for place, word in enumerate(words):
        if lines[-1] and x + _width(word) > _RIGHT:
            lines.append([])
            x = _MARGIN + _GUTTER
        lines[-1].append((x, place))
        x += _width(word) + _GAP
    return lines


def _lines_around(
    trace: GenerationTrace, shown: TraceStep
) -> tuple[list[list[tuple[float, int]]], str]:
    """The lines of the note that fit, those with the attention among them."""
    lines = _wrapped(trace.note)
    if len(lines) <= _MOST_LINES:
        return lines, "note"
    spent = [sum(shown.attention[place] for _, place in line) for line in lines]
    starts = range(len(lines) - _MOST_LINES + 1)
    start = max(starts, key=lambda s: (round(sum(spent[s : s + _MOST_LINES]), 6), -s))
    return lines[start : start + _MOST_LINES], "of the note"


def _box(
    axes: Axes, x: float, y: float, text: str, *, colour: str, edge: str, dashed: bool
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            _width(text),
            _BOX,
            boxstyle="round,pad=0,rounding_size=0.03",
            facecolor=colour,
            edgecolor=edge,
            linewidth=0.9,
            linestyle=(0, (3, 2)) if dashed else "solid",
        )
    )
    axes.text(
        x + _width(text) / 2,
        y + _BOX / 2,
        text,
        size=style.TEXT,
        color=style.ink_on(colour),
        ha="center",
        va="center_baseline",
        parse_math=False,
    )


def _frame(axes: Axes, x: float, y: float, width: float) -> None:
    """A dashed frame outside a box, so that it can be seen on any colour."""
    axes.add_patch(
        FancyBboxPatch(
            (x - 0.005, y),
            width + 0.01,
            _BOX,
            boxstyle="round,pad=0.022,rounding_size=0.03",
            facecolor="none",
            edgecolor=style.INK,
            linewidth=0.9,
            linestyle=(0, (3, 2)),
        )
    )


def _label(axes: Axes, y: float, text: str) -> None:
    axes.text(_MARGIN, y, text, size=style.SMALL, color=style.MUTED, va="center")


def _draw_note(
    axes: Axes,
    y: float,
    trace: GenerationTrace,
    shown: TraceStep,
    lines: list[list[tuple[float, int]]],
    says: str,
) -> float:
    _label(axes, y + _BOX / 2, says)
    for line in lines:
        for x, place in line:
            spent = shown.attention[place]
            colour = style.PAPER
            if spent >= _LEAST:
                colour = matplotlib.colors.to_hex(_COLOURS(min(1.0, spent)))
            oov = trace.note[place] in trace.oov
            _box(axes, x, y, trace.note[place], colour=colour, edge=colour, dashed=False)
            if oov:
                _frame(axes, x, y, _width(trace.note[place]))
        y += _LINE
    return y


def _draw_summary(
    axes: Axes,
    y: float,
    trace: GenerationTrace,
    step: int,
    lines: list[list[tuple[float, int]]],
) -> float:
    _label(axes, y + _BOX / 2, "summary")
    for line in lines:
        for x, place in line:
            word = trace.steps[place].written
            if place == step:
                _box(axes, x, y, word, colour=style.FAINT, edge=style.INK, dashed=False)
            elif place < step:
                axes.text(
                    x + _width(word) / 2,
                    y + _BOX / 2,
                    word,
                    size=style.TEXT,
                    ha="center",
                    va="center_baseline",
                    parse_math=False,
                )
        y += _LINE
    return y


def _draw_gate(axes: Axes, y: float, shown: TraceStep) -> float:
    """p_gen as a bar that is filled from the left, 0, to the right, 1."""
    left, right = _MARGIN + _GUTTER, _RIGHT
    middle = left + shown.p_gen * (right - left)
    _label(axes, y + 0.11, "p_gen")
    parts = ((left, middle, _BAR_COLOUR), (middle, right, style.PAPER))
    for start, stop, colour in parts:
        axes.add_patch(Rectangle((start, y), stop - start, 0.2, color=colour, linewidth=0))
    outline = ((left, y), (right, y), (right, y + 0.2), (left, y + 0.2), (left, y))
    axes.plot(*zip(*outline, strict=True), color=style.MUTED, linewidth=0.9)
    inside = shown.p_gen > 0.5
    axes.text(
        middle + (-0.06 if inside else 0.06),
        y + 0.105,
        f"{shown.p_gen:.2f}",
        size=style.SMALL,
        color=style.ink_on(_BAR_COLOUR) if inside else style.INK,
        ha="right" if inside else "left",
        va="center_baseline",
    )
    axes.text(left, y + 0.31, "0: copy", size=style.SMALL, va="center", ha="left")
    axes.text(right, y + 0.31, "1: generate", size=style.SMALL, va="center", ha="right")
    return y + 0.42


def _draw_distributions(axes: Axes, y: float, trace: GenerationTrace, shown: TraceStep) -> None:
    names = ("P_vocab: generate", "P_copy: copy", "p_gen P_vocab + (1 - p_gen) P_copy")
    width = (style.WIDTH - 2 * _MARGIN) / 3
    for column, (name, words) in enumerate(
        zip(names, (shown.generated, shown.copied, shown.mixed), strict=True)
    ):
        x = _MARGIN + column * width
        axes.text(x, y + 0.1, name, size=style.SMALL, color=style.MUTED, va="center")
        if not words:
            axes.text(
                x, y + 0.1 + _ROW + 0.1, "this model cannot copy", size=style.SMALL, va="center"
            )
        for row, (word, probability) in enumerate(words):
            top = y + 0.24 + row * _ROW
            name_width = 1.12
            axes.text(
                x + name_width - 0.06,
                top + 0.09,
                _fitted(word, name_width - 0.08),
                size=style.SMALL,
                ha="right",
                va="center_baseline",
                weight="bold" if column == 2 and row == 0 else "normal",
                parse_math=False,
            )
            longest = width - name_width - 0.5
            axes.add_patch(
                Rectangle(
                    (x + name_width, top),
                    longest * min(1.0, probability),
                    0.17,
                    color=_BAR_COLOUR,
                    linewidth=0,
                )
            )
            axes.text(
                x + name_width + longest * min(1.0, probability) + 0.05,
                top + 0.09,
                _percent(probability),
                size=style.SMALL,
                va="center_baseline",
            )


def _percent(share: float) -> str:
    """A probability in few digits.

    >>> [_percent(share) for share in (0.5, 0.02, 0.0004, 0.9996, 1.0)]
    ['50%', '2%', '<1%', '>99%', '100%']
    """
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 - 1e-9 else f"{share:.0%}"


def _fitted(word: str, width: float) -> str:
    """A word, or as much of it as there is room for."""
    if style.text_width(word, style.SMALL, weight="bold") <= width:
        return word
    while word and style.text_width(word + "…", style.SMALL, weight="bold") > width:
        word = word[:-1]
    return word + "…"
