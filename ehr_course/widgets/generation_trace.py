"""Step through a summary word by word: attention, p_gen, and what could have been written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib

from ehr_course.errors import InputError
from ehr_course.generation.summaries import MOST_WORDS, GenerationTrace, TraceStep, Words
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, Box, Canvas
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget, choice, slider


def generation_trace_player(
    traces: Mapping[str, GenerationTrace], *, word: int = 1
) -> PictureWidget:
    """Choose a trace, and step through its words.

    Nothing is computed but the picture: the traces hold all that is shown.

    Args:
        traces: by the name that the choice shows, as trace_summary gives them.
        word: which word is shown first, from 1; the last one of a shorter summary.

    Returns:
        A widget with the controls ``trace`` and ``word``; words count from 1.

    Raises:
        InputError: if there are no traces.
    """
    if not traces:
        raise InputError(
            "generation_trace_player",
            "traces",
            "the list is empty",
            "Make one with trace_summary.",
        )
    lengths = {name: len(trace.steps) for name, trace in traces.items()}
    first = next(iter(traces))
    chosen = choice("summary", list(traces))
    place = slider("word", min(word, lengths[first]), 1, lengths[first])

    def draw(trace: str, word: int) -> Picture:
        # A shorter summary is drawn before the slider knows of its length.
        return draw_trace_step(traces[trace], min(word, lengths[trace]) - 1)

    player = PictureWidget(draw, {"trace": chosen, "word": place})

    def fit_slider(change: Mapping[str, str]) -> None:
        place.max = lengths[change["new"]]

    chosen.observe(fit_slider, names="value")
    return player


# ---------------------------------------------------------------------- the picture

_LEFT = MARGIN + 0.78  # where the words of note and summary begin
_LINE, _WORD, _BAR = 0.27, 0.22, 0.22  # heights, in inches
_MOST_LINES = 12
_PALE = 0.01
"""Attention below this leaves a word white."""
_LEAST = 0.005
"""A smaller part of the mixture is not drawn: it would round to 0%."""

_SHADES = matplotlib.colors.LinearSegmentedColormap.from_list(
    "attention", [style.PAPER, FILLS["code"]]
)

Lines = list[list[tuple[float, int]]]
"""Lines of words, each word with its left edge in inches and its place in the text."""


def draw_trace_step(trace: GenerationTrace, step: int) -> Picture:
    """Draw one word of a summary: attention on the note, p_gen, and the three distributions.

    The words of the note are the darker, the more attention they get. A word outside the
    vocabulary has a dashed frame. Of a long note the lines around the attention are drawn. P_vocab
    and P_copy are drawn as what each adds to the mixture.

    Args:
        trace: as trace_summary gives it.
        step: which word, from 0.
    """
    shown = trace.steps[step]
    note = _around(_in_lines(trace.note), shown.attention)
    summary = _in_lines([one.written for one in trace.steps])[-_MOST_LINES:]
    canvas = Canvas(
        1.5 + (len(note) + len(summary)) * _LINE + MOST_WORDS * _BAR,
        _title(trace, step),
        _in_words(trace, step),
    )
    y = canvas.top
    whole = len(note) == len(_in_lines(trace.note))
    canvas.label((MARGIN, y + _WORD / 2), "note" if whole else "of the note")
    for line in note:
        for x, place in line:
            _draw_source_word(canvas, x, y, trace, place, shown.attention[place])
        y += _LINE
    y += 0.1
    canvas.label((MARGIN, y + _WORD / 2), "summary")
    for line in summary:
        for x, place in line:
            word = trace.steps[place].written
            if place < step:
                canvas.label((x + 0.04, y + _WORD / 2), word, size=style.TEXT, colour=style.INK)
            elif place == step:
                canvas.box(x, y, _width(word), _WORD, word, fill=style.FAINT, edge=style.INK)
        y += _LINE
    _draw_gate(canvas, y + 0.08, shown.p_gen)
    _draw_distributions(canvas, y + 0.6, shown)
    return canvas.finish()


def _title(trace: GenerationTrace, step: int) -> str:
    shown = trace.steps[step]
    how = "both generated and copied"
    if shown.from_copying > 0.9:
        how = "copied"
    elif shown.from_copying < 0.1:
        how = "generated"
    count = f"Word {step + 1} of {len(trace.steps)}"
    return f'{count}: "{shown.written}", {how} (p_gen {shown.p_gen:.2f})'


def _in_words(trace: GenerationTrace, step: int) -> str:
    shown = trace.steps[step]
    most = max(range(len(trace.note)), key=shown.attention.__getitem__)
    before = " ".join(one.written for one in trace.steps[:step]) or "nothing yet"
    copied = f", P_copy {_first(shown.copied)}" if shown.copied else ""
    return (
        f'Word {step + 1} of {len(trace.steps)} is "{shown.written}", after: {before}. Most '
        f'attention is on "{trace.note[most]}" ({shown.attention[most]:.2f}); p_gen is '
        f"{shown.p_gen:.2f}. First in P_vocab {_first(shown.generated)}{copied}, in the mixture "
        f"{_first(shown.mixed)}."
    )


def _first(words: Words) -> str:
    word, probability = words[0]
    return f'"{word}" ({probability:.2f})'


def _width(word: str) -> float:
    return style.text_width(word, style.TEXT) + 0.08


def _in_lines(words: Sequence[str]) -> Lines:
    lines: Lines = [[]]
    x = _LEFT
    for place, word in enumerate(words):
        if lines[-1] and x + _width(word) > style.WIDTH - MARGIN:
            lines.append([])
            x = _LEFT
        lines[-1].append((x, place))
        x += _width(word) + 0.05
    return lines


def _around(lines: Lines, attention: Sequence[float]) -> Lines:
    """The lines that fit, those with most of the attention among them."""
    spent = [sum(attention[place] for _, place in line) for line in lines]
    starts = range(max(1, len(lines) - _MOST_LINES + 1))
    start = max(starts, key=lambda s: (round(sum(spent[s : s + _MOST_LINES]), 6), -s))
    return lines[start : start + _MOST_LINES]


def _draw_source_word(
    canvas: Canvas, x: float, y: float, trace: GenerationTrace, place: int, share: float
) -> None:
    word = trace.note[place]
    if share < _PALE:
        canvas.label((x + 0.04, y + _WORD / 2), word, size=style.TEXT, colour=style.INK)
    else:
        shade = matplotlib.colors.to_hex(_SHADES(min(1.0, share)))
        canvas.box(x, y, _width(word), _WORD, word, fill=shade, edge=shade)
    if word in trace.oov:
        canvas.frame(Box(x - 0.02, y - 0.02, _width(word) + 0.04, _WORD + 0.04), colour=style.INK)


def _draw_gate(canvas: Canvas, y: float, p_gen: float) -> None:
    """p_gen as a bar that is filled from the left, 0, to the right, 1."""
    right = style.WIDTH - MARGIN
    whole = canvas.box(_LEFT, y, right - _LEFT, 0.2, rounded=False)
    middle = _LEFT + p_gen * whole.width
    canvas.box(_LEFT, y, middle - _LEFT, 0.2, fill="prompt", rounded=False)
    canvas.label((MARGIN, y + 0.1), "p_gen")
    inside = p_gen > 0.5
    canvas.label(
        (middle + (-0.06 if inside else 0.06), y + 0.1),
        f"{p_gen:.2f}",
        colour=style.INK,
        align="right" if inside else "left",
    )
    canvas.label((_LEFT, y + 0.31), "0: copy", colour=style.INK)
    canvas.label((right, y + 0.31), "1: generate", colour=style.INK, align="right")


def _draw_distributions(canvas: Canvas, y: float, shown: TraceStep) -> None:
    """What each way adds to the mixture, and the mixture: the likeliest words."""
    width, names = (style.WIDTH - 2 * MARGIN) / 3, 1.12
    longest = width - names - 0.5
    columns = (
        (f"{shown.p_gen:.2f} × P_vocab", shown.generated, shown.p_gen, "decoder"),
        (f"+ {1 - shown.p_gen:.2f} × P_copy", shown.copied, 1 - shown.p_gen, "code"),
        ("= the mixture", shown.mixed, 1.0, "encoder"),
    )
    for column, (name, words, weight, fill) in enumerate(columns):
        x = MARGIN + column * width
        canvas.label((x, y), name, colour=style.INK)
        added = [(word, weight * share) for word, share in words if weight * share >= _LEAST]
        if not added:
            nothing = "nothing" if words else "this model cannot copy"
            canvas.label((x + 0.12, y + 0.25), nothing)
        for row, (word, share) in enumerate(added):
            top = y + 0.14 + row * _BAR
            weighs = "bold" if fill == "encoder" and row == 0 else "normal"
            canvas.label(
                (x + names - 0.06, top + 0.09),
                _narrow(word, names - 0.14),
                align="right",
                colour=style.INK,
                weight=weighs,
            )
            long = max(longest * min(1.0, share), 0.01)
            canvas.box(x + names, top, long, 0.17, fill=fill, rounded=False)
            canvas.label((x + names + long + 0.05, top + 0.09), f"{share:.0%}", colour=style.INK)


def _narrow(word: str, room: float) -> str:
    """Cut a word, in small type, to what fits into so many inches."""
    if style.text_width(word, style.SMALL) <= room:
        return word
    while len(word) > 1 and style.text_width(word + "…", style.SMALL) > room:
        word = word[:-1]
    return word + "…"
