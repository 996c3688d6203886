"""The drawings of lesson 16 about copying: the idea, attention, and where a word is from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, Box, Canvas
from ehr_course.plots.drawings.pointer_generator import narrow, percent
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- the idea


def draw_two_ways(
    vocabulary: Sequence[str], note: Sequence[str], written: Sequence[str], word: str
) -> Picture:
    """Draw the two ways to the next word: choose it from a list, or point at it in the note.

    Args:
        vocabulary: the words, in the order of their ids.
        note: the words of the note, (source,).
        written: the summary so far.
        word: the next one; the note has it.
    """
    known, place = word in vocabulary, list(note).index(word)
    size = len(vocabulary)
    canvas = Canvas(
        3.2,
        f"“{narrow(word, 2.2)}” is {'' if known else 'not '}on the list"
        + (", and the note has it too" if known else ", but the note has it"),
        f"On top words of the note, below them the summary so far, which ends in {written[-1]}, "
        f"and an open place. From there one arrow points up to {word} in the note, the other down "
        f"to a list of {size:,} words, which {'has' if known else 'lacks'} {word}.",
        subtitle="The summary needs its next word. There are two ways to get one.",
    )
    left, room = 1.42, canvas.width - MARGIN - 1.42
    y = canvas.top + 0.12
    slot = _draw_summary(canvas, left, y + 0.92, written)
    start = max(0, min(place - 2, len(note) - 5))
    shown = list(note[start : start + 5])
    wide = min(1.1, room / len(shown) - 0.05)
    notes = []
    for i, text in enumerate(shown, start=start):
        here = i == place
        notes.append(
            canvas.box(left + (wide + 0.05) * (i - start), y, wide, 0.3, narrow(text, wide - 0.12),
                       mono=True, size=style.SMALL, fill="code" if here else "paper")
        )  # fmt: skip
    target = notes[place - start]
    canvas.path([slot.side("top"), (slot.middle[0], y + 0.6), (target.middle[0], y + 0.6),
                 target.side("bottom")], thick=1.8, colour=style.INK)  # fmt: skip
    right = max(slot.right, target.right) + 0.12
    canvas.label((right, y + 0.6), "copy: point at a place", colour=style.INK, weight="bold")
    below = y + 1.72
    x = left
    listed = [vocabulary[int(i)] for i in np.linspace(min(4, size - 1), size - 1, 6)]
    boxes: list[Box] = []
    for i, text in enumerate(listed):
        if i:
            canvas.label((x + 0.02, below + 0.15), "…")
            x += 0.2
        cell = min(0.95, style.text_width(text, style.SMALL, MONO) + 0.16)
        boxes.append(canvas.box(x, below, cell, 0.3, narrow(text, cell - 0.1), mono=True,
                                size=style.SMALL, fill="decoder"))  # fmt: skip
        x = boxes[-1].right + 0.05
    canvas.arrow(slot.side("bottom"), (slot.middle[0], below - 0.03), thick=1.8, colour=style.INK)
    canvas.label((slot.right + 0.12, below - 0.25), "generate: choose from a list", weight="bold",
                 colour=style.INK)  # fmt: skip
    for name, at in (("the note", y), ("the summary", y + 0.92), ("the vocabulary", below)):
        canvas.label((left - 0.12, at + 0.15), name, align="right", colour=style.INK)
    canvas.label((left, below + 0.44), f"{size:,} words: those of the training notes")
    return canvas.finish()


def _draw_summary(canvas: Canvas, x: float, y: float, written: Sequence[str]) -> Box:
    """The last words of the summary, and the open place behind them."""
    if len(written) > 2:
        canvas.label((x + 0.02, y + 0.15), "…")
        x += 0.22
    for token in written[-2:]:
        wide = min(1.1, style.text_width(token, style.SMALL, MONO) + 0.2)
        canvas.box(x, y, wide, 0.3, narrow(token, wide - 0.1), mono=True, size=style.SMALL)
        x += wide + 0.05
    return canvas.box(x, y, 0.62, 0.3, "?", fill="prompt", size=style.SMALL, weight="bold")


# ---------------------------------------------------------------------- where to look


def draw_attention(note: Sequence[str], scores: Any, attention: Any, written: str) -> Picture:
    """Draw how the scores of a note's places become attention, and attention the context.

    Args:
        note: the words of the note, (source,).
        scores: float (source,): of each place.
        attention: float (source,): the weights, 0 to 1; they sum to 1.
        written: the last word of the summary.
    """
    scores, attention = np.asarray(scores, float), np.asarray(attention, float)
    shown = np.sort(np.argsort(-attention, kind="stable")[:5])
    top = int(attention.argmax())
    canvas = Canvas(
        3.72,
        f"The place of “{narrow(note[top], 2.0)}” gets {percent(attention[top])} of the attention",
        f"The decoder has just read {written}. Its state is compared with the state at each place "
        "of the note. "
        + " ".join(
            f"{note[i]} has the score {scores[i]:.1f} and the weight {percent(attention[i])}."
            for i in shown
        )
        + " The states, times these weights, sum to the context.",
        subtitle="Read it from the bottom up. Only the places with the most attention are drawn.",
    )
    left, wide = 2.2, min(1.0, (canvas.width - MARGIN - 2.2) / len(shown))
    y = canvas.top + 0.08
    context = canvas.box(left + 0.1, y, canvas.width - MARGIN - left - 0.2, 0.3,
                         "context cₜ: the states, times their weights, added up",
                         fill="encoder", size=style.SMALL)  # fmt: skip
    base, row_score, row_state, row_word = y + 1.22, y + 1.42, y + 1.98, y + 2.52
    query = canvas.box(MARGIN, row_score, 1.12, 0.3, "state sₜ", fill="decoder", size=style.SMALL)
    last = canvas.box(MARGIN, row_word, 1.12, 0.28, narrow(written, 1.0), mono=True,
                      size=style.SMALL, fill="special")  # fmt: skip
    canvas.arrow(last.side("top"), query.side("bottom"))
    canvas.arrow(query.side("right"), (left + 0.08, row_score + 0.15))
    canvas.label(((query.right + left) / 2, row_score + 0.15), "score eₜᵢ", align="center",
                 colour=style.INK, on_line=True)  # fmt: skip
    for row, text in (
        (base - 0.14, "weight aₜ"),
        (row_state + 0.15, "state hᵢ"),
        (row_word + 0.14, "word"),
    ):
        canvas.label((left - 0.06, row), text, align="right", colour=style.INK)
    for column, i in enumerate(shown):
        x = left + wide * column
        middle = x + wide / 2
        tall = max(0.5 * attention[i], 0.01)
        canvas.box(middle - 0.2, base - tall, 0.4, tall, fill="code", rounded=False)
        canvas.label((middle, base - tall - 0.1), percent(attention[i]), align="center",
                     colour=style.INK)  # fmt: skip
        canvas.arrow((middle, base - tall - 0.2), (middle, context.bottom))
        score = canvas.box(x + 0.1, row_score, wide - 0.2, 0.3, f"{scores[i]:.1f}",
                           size=style.SMALL)  # fmt: skip
        state = canvas.box(x + 0.1, row_state, wide - 0.2, 0.3, fill="encoder")
        word = canvas.box(x + 0.04, row_word, wide - 0.08, 0.28, narrow(note[i], wide - 0.14),
                          mono=True, size=style.SMALL)  # fmt: skip
        canvas.arrow(word.side("top"), state.side("bottom"))
        canvas.arrow(state.side("top"), score.side("bottom"))
    return canvas.finish()


# ---------------------------------------------------------------------- where a word is from


def draw_origins(note: Sequence[str], written: Sequence[str], shares: Any) -> Picture:
    """Draw for each word of a summary whether it was copied, and from which place of the note.

    Args:
        note: the words of the note, (source,).
        written: the words of the summary, (n,).
        shares: float (n, 1 + source): of each word's probability, what the vocabulary gave, and
            what each place of the note gave.
    """
    shares = np.asarray(shares, float)
    copied = shares[:, 0] < 0.5
    place = shares[:, 1:].argmax(axis=1)
    source: dict[int, list[str]] = {}
    for n, (is_copied, i) in enumerate(zip(copied, place, strict=True), start=1):
        if is_copied:
            source.setdefault(int(i), []).append(f"{n}")
    total, generated = int(copied.sum()), len(written) - int(copied.sum())
    right = style.WIDTH - MARGIN
    under = [",".join(source.get(i, [])) for i in range(len(note))]
    rows = [_lines(note, under, 1.0, right), _lines(written, [""] * len(written), 1.0, right)]
    pitch = 0.42
    high = [pitch * (1 + max(line for _, line in at)) for at in rows]
    canvas = Canvas(
        1.0 + sum(high) + 0.4,
        f"{total} of {style.count(len(written), 'word')} come from the note, {generated} from the "
        "vocabulary",
        f"A note, and the {style.count(len(written), 'word')} of its summary: "
        + " ".join(written)
        + ". "
        + " ".join(
            f"Word {n}, {word}, was "
            + (f"copied from place {int(i) + 1}." if is_copied else "generated.")
            for n, (word, is_copied, i) in enumerate(
                zip(written, copied, place, strict=True), start=1
            )
        ),
        subtitle="A number under a word of the note: that word of the summary was copied from "
        "here.",
    )
    y = canvas.top + 0.1
    for row, (words, at) in enumerate(zip((note, written), rows, strict=True)):
        canvas.label((MARGIN, y + 0.12), "summary" if row else "note", colour=style.INK)
        for i, (word, (x, line)) in enumerate(zip(words, at, strict=True)):
            wide, top = style.text_width(word, style.SMALL), y + pitch * line
            numbers = f"{i + 1}" if row else under[i]
            if numbers:
                fill = "code" if row == 0 or copied[i] else "decoder"
                canvas.box(x, top, wide + 0.1, 0.23, word, fill=fill, size=style.SMALL)
                canvas.label((x + wide / 2 + 0.05, top + 0.31), numbers, align="center",
                             colour=style.INK)  # fmt: skip
            else:
                canvas.label((x + 0.05, top + 0.12), word)
        y += high[row] + 0.12
    canvas.key(1.0, y, {"code": "copied", "decoder": "generated"})
    return canvas.finish()


def _lines(
    words: Sequence[str], under: Sequence[str], left: float, right: float
) -> list[tuple[float, int]]:
    """Where each word begins, in inches, and in which line; a wide number under it has room."""
    x, line, at = left, 0, []
    for word, numbers in zip(words, under, strict=True):
        wide = style.text_width(word, style.SMALL) + 0.1
        more = max(0.0, style.text_width(numbers, style.SMALL) - wide) / 2 if numbers else 0.0
        if x > left and x + wide + 2 * more > right:
            x, line = left, line + 1
        at.append((x + more, line))
        x += max(wide + 2 * more, 0.24) + 0.05
    return at
