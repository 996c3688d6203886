"""The drawings of lesson 16: one step of a pointer-generator, and the mixture that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.style import Picture

Likely = list[tuple[str, float]]

LESS = 0.005
"""A probability below this is written as less than one per cent."""


def narrow(word: str, room: float, *, family: str = MONO, size: float = style.SMALL) -> str:
    """A word, cut to fit into so many inches."""
    if style.text_width(word, size, family) <= room:
        return word
    while len(word) > 1 and style.text_width(word + "…", size, family) > room:
        word = word[:-1]
    return word + "…"


def percent(share: float) -> str:
    """A probability in few letters.

    >>> [percent(share) for share in (0.0, 0.001, 0.25, 0.999, 1.0)]
    ['0%', '<1%', '25%', '>99%', '100%']
    """
    one = 2 * LESS
    if 0 < share < LESS:
        return f"<{one:.0%}"
    return f">{1 - one:.0%}" if 1 - LESS < share < 1 else f"{share:.0%}"


def _parts(said: Any, ids: Sequence[int]) -> tuple[np.ndarray, ...]:
    """P_vocab, P_copy and their mixture, each (vocabulary + outside,), and the attention."""
    mixed = said.log_probs[0, 0].double().exp().cpu().numpy()
    attention = said.log_attention[0, 0].double().exp().cpu().numpy()
    vocabulary = np.zeros_like(mixed)
    known = said.log_vocabulary[0, 0].double().exp().cpu().numpy()
    vocabulary[: len(known)] = known
    copied = np.zeros_like(mixed)
    np.add.at(copied, np.asarray(ids), attention)
    return vocabulary, copied, mixed, attention


def _likeliest(shares: np.ndarray, words: Sequence[str], n: int) -> Likely:
    order = np.argsort(-shares, kind="stable")[:n]
    return [(words[i], float(shares[i])) for i in order]


# ---------------------------------------------------------------------- one step of the model


def _window(attention: np.ndarray, room: int) -> range:
    """The places around the one that gets most attention, as many as there is room for."""
    top = int(attention.argmax())
    start = max(0, min(top - room // 2, len(attention) - room))
    return range(start, min(start + room, len(attention)))


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
        model: a PointerGenerator; its sizes are read off.
        note: the words of the note, ``<s>`` and ``</s>`` included, (source,).
        ids: their ids, extended ones too, (source,).
        written: the summary so far; the last word is read in this step.
        said: a Step of the model, of one note and one beam.
        words: the word of each id, extended ones too.
    """
    hidden = model.config.d_hidden
    vocabulary, copied, mixed, attention = _parts(said, ids)
    gate = float(said.p_gen[0, 0])
    (word, share), *_ = _likeliest(mixed, words, 1)
    place = int(attention.argmax())
    outside = ids[place] >= model.config.vocab_size
    canvas = Canvas(
        4.55,
        f"The next word is “{narrow(word, 1.6)}”, with {percent(share)}"
        + (": the vocabulary lacks it" if outside and note[place] == word else ""),
        f"One step of the model, from below to the top. Left, words of the note, a state of "
        f"{2 * hidden} numbers for each, and the attention, {percent(attention[place])} of it on "
        f"{note[place]}. Right, a decoder with a state of {hidden} numbers that has just read "
        f"{written[-1]}. The gate p_gen is {gate:.2f}. On top P_copy, P_vocab and their mixture, "
        f"in which {word} has {percent(share)}.",
        subtitle="One step, from the bottom up: the note on the left, the summary so far on the "
        "right, three distributions on top.",
    )
    _draw_note_side(canvas, note, ids, attention, hidden, model.config.vocab_size)
    y = canvas.top + 0.12
    copy_box = _list(canvas, MARGIN, y, 2.1, "P_copy", _likeliest(copied, words, 2), "code")
    mix_box = _list(canvas, 2.85, y, 2.05, "P, the mixture", _likeliest(mixed, words, 2), "paper")
    vocab_box = _list(
        canvas, 5.45, y, canvas.width - MARGIN - 5.45, "P_vocab", _likeliest(vocabulary, words, 2),
        "decoder",
    )  # fmt: skip
    middle = y + 0.42
    canvas.arrow((copy_box.right, middle), (mix_box.x, middle))
    canvas.arrow((vocab_box.x, middle), (mix_box.right, middle))
    canvas.label(((copy_box.right + mix_box.x) / 2, middle - 0.16), "×", align="center")
    canvas.label(((copy_box.right + mix_box.x) / 2, middle + 0.16), f"{1 - gate:.2f}",
                 align="center", colour=style.INK)  # fmt: skip
    canvas.label(((vocab_box.x + mix_box.right) / 2, middle - 0.16), "×", align="center")
    canvas.label(((vocab_box.x + mix_box.right) / 2, middle + 0.16), f"{gate:.2f}",
                 align="center", colour=style.INK)  # fmt: skip
    _draw_decoder_side(canvas, written, hidden, gate, mix_box, vocab_box)
    return canvas.finish()


def _list(
    canvas: Canvas, x: float, y: float, width: float, name: str, likely: Likely, fill: str
) -> Box:
    """A box with the likeliest words of a distribution, each with a bar."""
    box = canvas.box(x, y, width, 0.84)
    canvas.label((x + 0.08, y + 0.13), name, colour=style.INK, weight="bold")
    room = width - 1.42
    for i, (word, share) in enumerate(likely):
        row = y + 0.38 + 0.27 * i
        canvas.label((x + 0.08, row), narrow(word, 0.88), mono=True, colour=style.INK)
        bar = canvas.box(x + 1.0, row - 0.08, max(room * share, 0.01), 0.16, fill=fill,
                         rounded=False)  # fmt: skip
        canvas.label((bar.right + 0.04, row), percent(share), colour=style.INK)
    return box


def _draw_note_side(
    canvas: Canvas,
    note: Sequence[str],
    ids: Sequence[int],
    attention: np.ndarray,
    hidden: int,
    vocab_size: int,
) -> None:
    """Words of the note, their states, and the attention on them."""
    shown = _window(attention, 4)
    left, wide = MARGIN + 0.12, 0.86
    base, high = 2.92, 0.5
    area = Box(MARGIN, 2.12, wide * len(shown) + 0.22, 1.42)
    canvas.frame(area)
    canvas.label((MARGIN + 0.06, 2.25), "attention aₜ", colour=style.INK)
    boxes = []
    for i, place in enumerate(shown):
        x = left + wide * i
        tall = max(high * attention[place], 0.01)
        canvas.box(x + 0.2, base - tall, wide - 0.4, tall, fill="code", rounded=False)
        canvas.label((x + wide / 2, base - tall - 0.09), percent(attention[place]), align="center",
                     colour=style.INK)  # fmt: skip
        box = canvas.box(x + 0.08, base + 0.12, wide - 0.16, 0.34, f"state\n{2 * hidden}",
                         fill="encoder", size=style.SMALL)  # fmt: skip
        boxes.append(box)
        trap = ids[place] >= vocab_size
        token = canvas.box(x + 0.02, 3.78, wide - 0.04, 0.28, narrow(note[place], wide - 0.1),
                           mono=True, size=style.SMALL, dashed=trap,
                           edge=style.INK if trap else style.MUTED)  # fmt: skip
        canvas.arrow(token.side("top"), box.side("bottom"))
    for one, other in pairwise(boxes):
        canvas.arrow((one.right, one.y + 0.1), (other.x, one.y + 0.1))
        canvas.arrow((other.x, one.y + 0.24), (one.right, one.y + 0.24))
    canvas.label((MARGIN + 0.02, 4.25), f"{len(shown)} of the {len(note)} words and marks of the "
                 "note; dashed: outside the vocabulary")  # fmt: skip
    canvas.arrow((left + 0.95, 2.12), (left + 0.95, canvas.top + 0.96))


def _draw_decoder_side(
    canvas: Canvas,
    written: Sequence[str],
    hidden: int,
    gate: float,
    mix_box: Box,
    vocab_box: Box,
) -> None:
    """The summary so far, the decoder's state, the context and the gate."""
    right = canvas.width - MARGIN
    features = Box(4.42, 2.5, right - 4.42, 0.42)
    canvas.frame(features)
    names = (
        ("context cₜ", "encoder", 0.9),
        ("state sₜ", "decoder", 0.8),
        ("last word", "paper", 0.9),
    )
    x, made = features.x + 0.08, []
    for name, fill, wide in names:
        made.append(
            canvas.box(x, features.y + 0.07, wide, 0.28, name, fill=fill, size=style.SMALL)
        )
        x += wide + 0.12
    context, state = made[:2]
    lstm = canvas.box(state.x - 0.1, 3.2, 1.0, 0.36, f"LSTM, {hidden}", fill="decoder")
    gate_box = canvas.box(4.42, 1.98, 0.98, 0.28, f"p_gen {gate:.2f}", fill="prompt",
                          size=style.SMALL)  # fmt: skip
    canvas.arrow((gate_box.middle[0], features.y), gate_box.side("bottom"))
    canvas.arrow((4.66, gate_box.y), (4.66, mix_box.bottom))
    canvas.arrow((6.5, features.y), (6.5, vocab_box.bottom))
    canvas.arrow(lstm.side("top"), state.side("bottom"))
    canvas.arrow((MARGIN + 0.86 * 4 + 0.22, context.middle[1]), context.side("left"))
    canvas.path([lstm.side("left"), (4.1, lstm.middle[1]), (4.1, 3.1),
                 (MARGIN + 0.86 * 4 + 0.22, 3.1)])  # fmt: skip
    canvas.label((4.16, lstm.middle[1] + 0.14), "query")
    canvas.label((lstm.right + 0.3, lstm.middle[1]), "cₜ₋₁")
    canvas.arrow((lstm.right + 0.26, lstm.middle[1]), lstm.side("right"), dashed=True)
    y, end = 3.78, right
    tokens = list(written[-3:])
    widths = [min(1.05, style.text_width(token, style.SMALL, MONO) + 0.16) for token in tokens]
    begin = end - sum(widths) - 0.05 * (len(widths) - 1)
    if len(written) > len(tokens):
        canvas.label((begin - 0.08, y + 0.14), "…", align="right")
    boxes = canvas.strip(
        begin, y, [narrow(t, w - 0.08) for t, w in zip(tokens, widths, strict=True)],
        widths=widths, height=0.28, fills=["paper"] * (len(tokens) - 1) + ["special"],
    )  # fmt: skip
    canvas.label((right, 4.25), "the summary so far", align="right")
    top = boxes[-1].side("top", at=0.3)
    canvas.path([top, (top[0], 3.66), (lstm.middle[0], 3.66), lstm.side("bottom")])
    up = boxes[-1].side("top", at=0.75)
    canvas.arrow(up, (up[0], features.bottom))


# ---------------------------------------------------------------------- the mixture


def draw_mixture(
    words: Sequence[str],
    p_vocab: Sequence[float],
    ids: Sequence[int],
    weights: Sequence[float],
    p_gen: float,
    *,
    rows: int = 3,
) -> Picture:
    """Draw the two distributions of a step and their mixture, word by word.

    Args:
        words: the word of each id, (vocabulary + outside,).
        p_vocab: of the words in the vocabulary, (vocabulary,).
        ids: of the note's words, extended ones too, (source,).
        weights: the attention on each of these places, (source,).
        p_gen: the weight of the vocabulary.
        rows: how many words are drawn: the likeliest of the mixture, to be copied, and to be
            generated.
    """
    gate, n_known = float(p_gen), len(p_vocab)
    vocabulary, copied = np.zeros(len(words)), np.zeros(len(words))
    vocabulary[:n_known] = p_vocab
    np.add.at(copied, np.asarray(ids), np.asarray(weights, float))
    mixed = gate * vocabulary + (1 - gate) * copied
    order: list[int] = []
    for n in range(rows):  # the likeliest of each, then the next ones
        for shares in (mixed, copied, vocabulary):
            i = int(np.argsort(-shares, kind="stable")[min(n, len(mixed) - 1)])
            order += [i] if i not in order else []
    order = sorted(order[:rows], key=lambda i: -mixed[i])
    top = order[0]
    way = (1 - gate) * copied[top] / mixed[top]
    parts = [f"{weight:.2f}" for weight, i in zip(weights, ids, strict=True) if i == top]
    from_note = f"({' + '.join(parts)})" if len(parts) == 2 else f"{copied[top]:.2f}"
    canvas = Canvas(
        1.55 + 0.33 * len(order),
        f"“{narrow(words[top], 1.6)}”: {gate:.2f} × {vocabulary[top]:.2f} + "
        f"{1 - gate:.2f} × {from_note} = {mixed[top]:.2f}",
        f"Bars for {style.count(len(order), 'word')}. With p_gen {gate:.2f}: "
        + "; ".join(
            f"{words[i]} has {percent(vocabulary[i])} in P_vocab, {percent(copied[i])} in P_copy, "
            f"{percent(mixed[i])} together"
            for i in order
        )
        + f". {percent(way)} of the first word's probability comes from copying.",
        subtitle="Each row is a word. Left and middle: the two distributions. Right: both, "
        "weighted by the gate and put end to end.",
    )
    y = canvas.top + 0.45
    left, wide, gap = 1.5, 1.4, 0.6
    titles = (
        ("P_vocab: generate", "decoder"),
        ("P_copy: copy", "code"),
        (f"{gate:.2f} P_vocab + {1 - gate:.2f} P_copy", "paper"),
    )
    for column, (title, _) in enumerate(titles):
        canvas.label((left + column * (wide + gap), y - 0.2), title, colour=style.INK)
    for row, i in enumerate(order):
        at = y + 0.33 * row
        canvas.label((left - 0.1, at + 0.11), narrow(words[i], 1.2), align="right", mono=True,
                     colour=style.INK, weight="bold" if i == top else "normal")  # fmt: skip
        for column, (shares, fill) in enumerate(((vocabulary, "decoder"), (copied, "code"))):
            x = left + column * (wide + gap)
            if column == 0 and i >= n_known:
                canvas.label((x, at + 0.11), "has no place here", colour=WARNING)
                continue
            bar = canvas.box(x, at, max(wide * shares[i], 0.01), 0.22, fill=fill, rounded=False)
            canvas.label((bar.right + 0.05, at + 0.11), percent(shares[i]), colour=style.INK)
        x = left + 2 * (wide + gap)
        one = wide * gate * vocabulary[i]
        other = wide * (1 - gate) * copied[i]
        if one > LESS:
            canvas.box(x, at, one, 0.22, fill="decoder", rounded=False)
        if other > LESS:
            canvas.box(x + one, at, other, 0.22, fill="code", rounded=False)
        canvas.label((x + max(one + other, 0.01) + 0.05, at + 0.11), percent(mixed[i]),
                     colour=style.INK, weight="bold" if i == top else "normal")  # fmt: skip
    canvas.key(left, y + 0.33 * len(order) + 0.14, {"decoder": "generated", "code": "copied"})
    return canvas.finish()
