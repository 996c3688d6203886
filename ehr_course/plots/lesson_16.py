"""The drawings of lesson 16: a step of a pointer-generator, and where a word came from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, Box, Canvas
from ehr_course.plots.style import Picture


def percent(share: float) -> str:
    """A probability in few letters.

    >>> [percent(share) for share in (0.0, 0.001, 0.25, 0.999, 1.0)]
    ['0%', '<1%', '25%', '>99%', '100%']
    """
    least = 0.01
    if 0 < share < least / 2:
        return f"<{least:.0%}"
    return f">{1 - least:.0%}" if 1 - least / 2 < share < 1 - 1e-9 else f"{share:.0%}"


def narrow(word: str, room: float, *, family: str = MONO) -> str:
    """A word in small letters, cut to fit into so many inches."""
    if style.text_width(word, style.SMALL, family) <= room:
        return word
    while len(word) > 1 and style.text_width(word + "…", style.SMALL, family) > room:
        word = word[:-1]
    return word + "…"


# ---------------------------------------------------------------------- one step of the model

_WORDS_SHOWN = 4
_ROW_OF_WORDS, _ROW_OF_STATES = 3.78, 3.04  # from the top, in inches


def draw_step(
    model: Any,
    note: Sequence[str],
    ids: Sequence[int],
    written: Sequence[str],
    said: Any,
    words: Sequence[str],
) -> Picture:
    """Draw one step of a pointer-generator, from the words it reads to the word it writes.

    Args:
        model: a PointerGenerator, whose sizes are read off.
        note: the words of the note, ``<s>`` and ``</s>`` included, (source,).
        ids: their ids, extended ones too, (source,).
        written: the summary so far; the last word is read in this step.
        said: its Step, of one note and one beam.
        words: the word of each id, extended ones too.
    """
    mixed, attention = said.log_probs[0, 0].exp(), said.log_attention[0, 0].exp()
    vocabulary = said.log_vocabulary[0, 0].exp()
    copied = torch.zeros_like(mixed).index_add(0, torch.tensor(ids), attention)
    gate, word = float(said.p_gen[0, 0]), words[int(mixed.argmax())]
    share, place = percent(float(mixed.max())), int(attention.argmax())
    hidden, lacks = model.config.d_hidden, ids[place] >= model.config.vocab_size
    canvas = Canvas(
        4.55,
        f"The next word is “{narrow(word, 1.6)}”, with {share}"
        + (": the vocabulary lacks it" if lacks and note[place] == word else ""),
        f"One step of the model, from below to the top. Left, words of the note, a state of "
        f"{2 * hidden} numbers for each, and the attention, {percent(float(attention[place]))} of "
        f"it on {note[place]}. Right, a decoder with a state of {hidden} numbers that has just "
        f"read {written[-1]}. The gate p_gen is {gate:.2f}. On top P_copy, P_vocab and their "
        f"mixture, in which {word} has {share}.",
        subtitle="One step, from the bottom up: the note on the left, the summary so far on the "
        "right, three distributions on top.",
    )
    y, right = canvas.top + 0.12, canvas.width - MARGIN
    copy_box = _likeliest(canvas, Box(MARGIN, y, 2.1, 0.84), "P_copy", copied, words, "code")
    mix_box = _likeliest(canvas, Box(2.85, y, 2.05, 0.84), "P, the mixture", mixed, words, "paper")
    vocabulary_box = _likeliest(
        canvas, Box(5.45, y, right - 5.45, 0.84), "P_vocab", vocabulary, words, "decoder"
    )
    for start, end, weight in (
        (copy_box.right, mix_box.x, 1 - gate),
        (vocabulary_box.x, mix_box.right, gate),
    ):
        middle = (start + end) / 2, y + 0.42
        canvas.arrow((start, middle[1]), (end, middle[1]))
        canvas.label((middle[0], middle[1] - 0.16), "×", align="center")
        text = f"{weight:.2f}"
        canvas.label((middle[0], middle[1] + 0.16), text, align="center", colour=style.INK)
    area = _draw_note(canvas, note, ids, attention, model)
    canvas.arrow((area.x + 1.07, area.y), (area.x + 1.07, copy_box.bottom))
    _draw_decoder(canvas, written, area, hidden, gate)
    canvas.arrow((4.66, 1.98), (4.66, mix_box.bottom))
    canvas.arrow((6.5, 2.5), (6.5, vocabulary_box.bottom))
    return canvas.finish()


def _likeliest(
    canvas: Canvas, at: Box, name: str, shares: Tensor, words: Sequence[str], fill: str
) -> Box:
    """A box with the two likeliest words of a distribution, each with a bar."""
    box = canvas.box(at.x, at.y, at.width, at.height)
    canvas.label((at.x + 0.08, at.y + 0.13), name, colour=style.INK, weight="bold")
    for row, i in enumerate(shares.topk(2).indices.tolist()):
        share, y = float(shares[i]), at.y + 0.38 + 0.27 * row
        canvas.label((at.x + 0.08, y), narrow(words[i], 0.88), mono=True, colour=style.INK)
        length = max((at.width - 1.42) * share, 0.01)
        bar = canvas.box(at.x + 1.0, y - 0.08, length, 0.16, fill=fill, rounded=False)
        canvas.label((bar.right + 0.04, y), percent(share), colour=style.INK)
    return box


def _draw_note(
    canvas: Canvas, note: Sequence[str], ids: Sequence[int], attention: Tensor, model: Any
) -> Box:
    """Words of the note around the most attention, their states, and the attention on them."""
    n = min(_WORDS_SHOWN, len(note))
    start = max(0, min(int(attention.argmax()) - 2, len(note) - n))
    wide = 0.86
    area = Box(MARGIN, 2.12, wide * n + 0.22, 1.42)
    canvas.frame(area)
    canvas.label((MARGIN + 0.06, 2.25), "attention aₜ", colour=style.INK)
    states = []
    for place in range(start, start + n):
        x, share = MARGIN + 0.12 + wide * (place - start), float(attention[place])
        tall = max(0.5 * share, 0.01)
        base = _ROW_OF_STATES - 0.12
        canvas.box(x + 0.2, base - tall, wide - 0.4, tall, fill="code", rounded=False)
        at = x + wide / 2, base - tall - 0.09
        canvas.label(at, percent(share), align="center", colour=style.INK)
        state = canvas.box(
            x + 0.08,
            _ROW_OF_STATES,
            wide - 0.16,
            0.34,
            f"state\n{2 * model.config.d_hidden}",
            fill="encoder",
            size=style.SMALL,
        )
        states.append(state)
        outside = ids[place] >= model.config.vocab_size
        word = canvas.box(
            x + 0.02,
            _ROW_OF_WORDS,
            wide - 0.04,
            0.28,
            narrow(note[place], wide - 0.1),
            mono=True,
            size=style.SMALL,
            dashed=outside,
            edge=style.INK if outside else style.MUTED,
        )
        canvas.arrow(word.side("top"), states[-1].side("bottom"))
    for one, other in pairwise(states):
        canvas.arrow(one.side("right", 0.3), other.side("left", 0.3))
        canvas.arrow(other.side("left", 0.7), one.side("right", 0.7))
    shown = f"{n} of the {len(note)} words and marks of the note"
    canvas.label((MARGIN + 0.02, 4.25), f"{shown}; dashed: outside the vocabulary")
    return area


def _draw_decoder(
    canvas: Canvas, written: Sequence[str], area: Box, hidden: int, gate: float
) -> None:
    """The summary so far, the decoder's state, the context and the gate."""
    right, small = canvas.width - MARGIN, style.SMALL
    read = Box(4.42, 2.5, right - 4.42, 0.42)
    canvas.frame(read)
    y = read.y + 0.07
    context = canvas.box(4.5, y, 0.9, 0.28, "context cₜ", fill="encoder", size=small)
    state = canvas.box(5.52, y, 0.8, 0.28, "state sₜ", fill="decoder", size=small)
    canvas.box(6.44, y, 0.9, 0.28, "last word", size=small)
    lstm = canvas.box(5.42, 3.2, 1.0, 0.36, f"LSTM, {hidden}", fill="decoder")
    gate_box = canvas.box(4.42, 1.98, 0.98, 0.28, f"p_gen {gate:.2f}", fill="prompt", size=small)
    canvas.arrow((gate_box.middle[0], read.y), gate_box.side("bottom"))
    canvas.arrow(lstm.side("top"), state.side("bottom"))
    canvas.arrow((area.right, context.middle[1]), context.side("left"))
    query = lstm.middle[1]
    canvas.path([lstm.side("left"), (4.1, query), (4.1, 3.1), (area.right, 3.1)])
    canvas.label((4.16, query + 0.14), "query")
    canvas.arrow((lstm.right + 0.26, query), lstm.side("right"), dashed=True)
    canvas.label((lstm.right + 0.3, query), "cₜ₋₁")
    last = [narrow(token, 0.97) for token in written[-3:]]
    widths = [style.text_width(token, small, MONO) + 0.16 for token in last]
    start = right - sum(widths) - 0.05 * (len(widths) - 1)
    fills = ["paper"] * (len(last) - 1) + ["special"]
    tokens = canvas.strip(start, _ROW_OF_WORDS, last, widths=widths, height=0.28, fills=fills)
    if len(written) > len(last):
        canvas.label((start - 0.08, _ROW_OF_WORDS + 0.14), "…", align="right")
    canvas.label((right, 4.25), "the summary so far", align="right")
    to_state, to_features = tokens[-1].side("top", 0.3), tokens[-1].side("top", 0.75)
    canvas.path([to_state, (to_state[0], 3.66), (lstm.middle[0], 3.66), lstm.side("bottom")])
    canvas.arrow(to_features, (to_features[0], read.bottom))


# ---------------------------------------------------------------------- where a word is from

_LINE, _LEFT = 0.42, 1.0


def draw_origins(note: Sequence[str], written: Sequence[str], shares: Tensor) -> Picture:
    """Draw for each word of a summary whether it was copied, and from which place of the note.

    Args:
        note: the words of the note, (source,).
        written: the words of the summary, (n,).
        shares: (n, 1 + source): of each word's probability, what the vocabulary gave, and what
            each place of the note gave.
    """
    copied, places = shares[:, 0] < 0.5, shares[:, 1:].argmax(dim=1).tolist()
    under = [""] * len(note)
    for n, place in enumerate(places, start=1):
        if copied[n - 1]:
            under[place] += f",{n}" if under[place] else f"{n}"
    from_where = [
        f"copied from place {place + 1}" if was_copied else "generated"
        for was_copied, place in zip(copied, places, strict=True)
    ]
    rows = [_in_lines(note, under), _in_lines(written, [""] * len(written))]
    heights = [_LINE * (1 + line) + 0.12 for *_, (_, line) in rows]
    n_copied = int(copied.sum())
    canvas = Canvas(
        1.26 + sum(heights),
        f"{n_copied} of {style.count(len(written), 'word')} come from the note, "
        f"{len(written) - n_copied} from the vocabulary",
        f"A note, and the {style.count(len(written), 'word')} of its summary: "
        f"{' '.join(written)}. "
        + " ".join(
            f"Word {n}, {word}, was {where}."
            for n, (word, where) in enumerate(zip(written, from_where, strict=True), start=1)
        ),
        subtitle="A number under a word of the note: that word of the summary was copied from "
        "here.",
    )
    y = canvas.top + 0.1
    canvas.label((MARGIN, y + 0.12), "note", colour=style.INK)
    for word, numbers, (x, line) in zip(note, under, rows[0], strict=True):
        _word(canvas, x, y + _LINE * line, word, numbers, "code")
    y += heights[0]
    canvas.label((MARGIN, y + 0.12), "summary", colour=style.INK)
    for n, (word, (x, line)) in enumerate(zip(written, rows[1], strict=True), start=1):
        fill = "code" if copied[n - 1] else "decoder"
        _word(canvas, x, y + _LINE * line, word, f"{n}", fill)
    canvas.key(_LEFT, y + heights[1], {"code": "copied", "decoder": "generated"})
    return canvas.finish()


def _word(canvas: Canvas, x: float, y: float, word: str, number: str, fill: str) -> None:
    """A word in a box with a number under it, or without both."""
    if not number:
        canvas.label((x + 0.05, y + 0.12), word)
        return
    box = canvas.box(
        x, y, style.text_width(word, style.SMALL) + 0.1, 0.23, word, fill=fill, size=style.SMALL
    )
    canvas.label((box.middle[0], y + 0.31), number, align="center", colour=style.INK)


def _in_lines(words: Sequence[str], under: Sequence[str]) -> list[tuple[float, int]]:
    """Where each word begins, in inches, and in which line; a wide number under it has room."""
    x, line, at = _LEFT, 0, []
    for word, numbers in zip(words, under, strict=True):
        wide = style.text_width(word, style.SMALL) + 0.1
        beside = max(0.0, style.text_width(numbers, style.SMALL) - wide) / 2
        if x > _LEFT and x + wide + 2 * beside > style.WIDTH - MARGIN:
            x, line = _LEFT, line + 1
        at.append((x + beside, line))
        x += max(wide + 2 * beside, 0.24) + 0.05
    return at
