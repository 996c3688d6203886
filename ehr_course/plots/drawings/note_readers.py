"""The drawings of lesson 16 about reading: two directions of an LSTM, and a note in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.drawings.pointer_generator import narrow
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- an LSTM


def draw_lstm(lstm: Any, words: Sequence[str], place: int, moved: Any) -> Picture:
    """Draw which states of a bidirectional LSTM move when one word of a text is exchanged.

    Args:
        lstm: an nn.LSTM of two directions; its sizes are read off.
        words: of the text, (source,).
        place: of the exchanged word.
        moved: float (2, source): how far the state at each word moves, forwards and backwards.
    """
    moved = np.asarray(moved, dtype=float)
    hidden = lstm.hidden_size
    still = [int((row == 0).sum()) for row in moved]
    canvas = Canvas(
        2.5,
        "Forwards, a state knows what came before; backwards, what comes after",
        f"A row of {len(words)} words, over each a state of {hidden} numbers forwards and one of "
        f"{hidden} backwards. The word {words[place]} is exchanged. Forwards {still[0]} states "
        f"before it do not move, backwards {still[1]} behind it.",
        subtitle=f"“{words[place]}” is replaced. A box is a state of {hidden} numbers; under it, "
        "the largest change of one of them. Dark: it changes.",
    )
    left = 1.15
    wide = min(0.85, (canvas.width - MARGIN - left) / len(words))
    y = canvas.top + 0.16
    names = ("forwards", "backwards")
    for row, (name, values) in enumerate(zip(names, moved, strict=True)):
        at = y + 0.56 * row
        canvas.label((left - 0.12, at + 0.14), name, align="right", colour=style.INK)
        for i, value in enumerate(values):
            x = left + wide * i
            box = canvas.box(x + 0.1, at, wide - 0.2, 0.28, f"{hidden}", size=style.SMALL,
                             fill="code" if value > 0 else "encoder")  # fmt: skip
            canvas.label((box.middle[0], at + 0.39), f"{value:.2f}", align="center",
                         colour=style.INK)  # fmt: skip
            if i + 1 < len(words):
                ends = (box.right, at + 0.14), (box.right + 0.2, at + 0.14)
                canvas.arrow(*(ends if row == 0 else ends[::-1]))
    at = y + 1.2
    for i, word in enumerate(words):
        here = i == place
        canvas.box(left + wide * i + 0.03, at, wide - 0.06, 0.28, narrow(word, wide - 0.1),
                   mono=True, size=style.SMALL, fill="trap" if here else "paper",
                   edge=style.INK if here else style.MUTED)  # fmt: skip
    canvas.label((left - 0.12, at + 0.14), "words", align="right", colour=style.INK)
    return canvas.finish()


# ---------------------------------------------------------------------- chunks


def _wrapped(words: Sequence[str], room: float, lines: int) -> list[str]:
    """Words in lines that fit into so many inches, broken and cut off between words."""
    family = "DejaVu Sans"
    made: list[str] = [""]
    for word in words:
        longer = f"{made[-1]} {word}".strip()
        if not made[-1] or style.text_width(longer, style.SMALL, family) <= room:
            made[-1] = longer
        else:
            made.append(word)
    shown = made[:lines]
    if len(made) > lines:
        while " " in shown[-1] and style.text_width(f"{shown[-1]} …", style.SMALL, family) > room:
            shown[-1] = shown[-1].rsplit(" ", 1)[0]
        shown[-1] += " …"
    return [narrow(line, room, family=family) for line in shown]


def draw_chunks(
    chunks: Sequence[Sequence[str]], order: Sequence[int], moved: Mapping[str, float]
) -> Picture:
    """Draw a note of several chunks in two orders, and what two encoders make of the exchange.

    Args:
        chunks: the words of each chunk.
        order: the places of the chunks in the second note.
        moved: by reader ("whole", "chunks"), how far the probabilities of the next words differ
            between the two notes at most.
    """
    letters = "ABCDEFGHIJKLMNOP"
    length = len(chunks[0])
    canvas = Canvas(
        4.2,
        "To an encoder in chunks, these two notes are the same",
        f"A note of {len(chunks)} chunks of {length} words, and the same note in the order "
        + " ".join(letters[i] for i in order)
        + ". Read "
        + "; read ".join(
            f"{name}: the probabilities of the next words differ by up to {value:.2f}"
            for name, value in moved.items()
        )
        + ".",
        subtitle=f"A note in chunks of {length} words, and the same words with inner chunks "
        "exchanged. Right: the largest change of a word's probability.",
    )
    left, wide = 0.95, 1.02
    y = canvas.top + 0.2
    fills = ["encoder" if new == old else "trap" for new, old in enumerate(order)]
    rows = ((range(len(chunks)), ["encoder"] * len(chunks)), (order, fills))
    for row, (places, colours) in enumerate(rows):
        at = y + 1.35 * row
        canvas.label((left - 0.12, at + 0.22), f"note {row + 1}", align="right",
                     colour=style.INK)  # fmt: skip
        for i, (which, fill) in enumerate(zip(places, colours, strict=True)):
            x = left + wide * i
            box = canvas.box(x + 0.03, at, wide - 0.06, 0.76, fill=fill)
            canvas.label((box.middle[0], at + 0.12), letters[which], align="center",
                         weight="bold", colour=style.INK)  # fmt: skip
            for line, text in enumerate(_wrapped(chunks[which], wide - 0.14, 3)):
                canvas.label((box.middle[0], at + 0.3 + 0.165 * line), text, align="center",
                             colour=style.INK)  # fmt: skip
            canvas.arrow((x + 0.1, at + 1.06), (x + wide - 0.1, at + 1.06), dashed=True,
                         colour=WARNING)  # fmt: skip
        end = left + wide * len(chunks)
        canvas.arrow((left + 0.1, at + 0.9), (end - 0.1, at + 0.9), colour=style.INK)
    x = left + wide * len(chunks) + 0.3
    unit = (canvas.width - MARGIN - x - 0.6) / max(*moved.values(), 1e-9)
    at = y + 0.1
    canvas.label((x, at), "largest change", colour=style.INK)
    for name, value in moved.items():
        at += 0.62
        label = "read whole" if name == "whole" else f"read in {name}"
        canvas.label((x, at - 0.2), label, colour=style.INK)
        bar = canvas.box(x, at - 0.08, max(value * unit, 0.01), 0.2, rounded=False,
                         fill="encoder" if name == "whole" else "trap")  # fmt: skip
        canvas.label((bar.right + 0.06, at + 0.02), f"{value:.2f}", colour=style.INK)
    base = y + 2.84
    canvas.arrow((left + 0.1, base), (left + 0.5, base), colour=style.INK)
    canvas.label((left + 0.6, base), "one reader for the whole note", colour=style.INK)
    canvas.arrow((left + 2.85, base), (left + 3.25, base), colour=WARNING, dashed=True)
    canvas.label((left + 3.35, base), "a new start in each chunk", colour=WARNING)
    return canvas.finish()
