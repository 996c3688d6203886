"""The drawings of lesson 07 of what a text tokenizer makes of codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise

import numpy as np

from ehr_course.icd import icd9
from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Box, Canvas
from ehr_course.plots.drawings.words import SENTENCE, meaning, token_width, wrapped
from ehr_course.plots.style import Picture, count
from ehr_course.plots.tokens import Pieces, pieces_by_word
from ehr_course.tokenizers.codes import CodeTokenizer

_LEFT = 1.0
"""Where a drawing begins beside the names of its rows, in inches."""

_BARS = 10


def draw_two_tokenizers(
    words: str, codes: Sequence[str], code_tokenizer: CodeTokenizer, note_tokenizer: Pieces
) -> Picture:
    """Draw words and codes as the pieces of a text tokenizer, and the codes as tokens.

    Args:
        words: a few words of a note.
        codes: of one visit; those that do not fit into the width are left out.
        code_tokenizer: has all of the codes.
        note_tokenizer: the text tokenizer; it is given the codes with their dots.
    """
    of_words = pieces_by_word(words, note_tokenizer)
    written = partial(style.written, system=code_tokenizer.system)
    of_codes = pieces_by_word(" ".join(map(written, codes)), note_tokenizer)
    room = style.WIDTH - MARGIN - _LEFT - token_width(count(sum(map(len, of_codes)), "piece"))
    ends = list(accumulate(_group_width(pieces) for pieces in of_codes))
    n_shown = max(1, sum(end <= room for end in ends))
    codes, of_codes = list(codes)[:n_shown], of_codes[:n_shown]
    n_words, n_pieces = sum(map(len, of_words)), sum(map(len, of_codes))
    canvas = Canvas(
        3.9,
        f"{count(n_shown, 'code')}: {count(n_pieces, 'piece')} as text, "
        f"{count(n_shown, 'token')} as codes",
        f"A text tokenizer makes {count(n_words, 'piece')} of the words {words!r}, and {n_pieces} "
        f"of {count(n_shown, 'code')}: {written(codes[0])} becomes {' '.join(of_codes[0])}. "
        f"As codes they are {count(n_shown, 'token')}, each with one id.",
        subtitle="What a text tokenizer has often seen, it mostly keeps whole; "
        "▁ is the space before a word",
    )
    words_y, pieces_y, codes_y = canvas.top + 0.2, canvas.top + 1.22, canvas.top + 1.84
    _row_name(canvas, words_y + 0.38, "words", "as text")
    cells = _pieces(canvas, words_y + 0.46, of_words, fill="paper")
    for word, box in zip(words.split(), cells, strict=True):
        x = box.middle[0]
        canvas.label((x, words_y), word, align="center", mono=True, colour=style.INK)
        canvas.arrow((x, words_y + 0.12), (x, box.y - 0.03))
    canvas.label((cells[-1].right + 0.15, cells[-1].middle[1]), count(n_words, "piece"))

    _row_name(canvas, pieces_y + 0.1, "codes", "as text")
    _row_name(canvas, codes_y + 0.42, "codes", "as tokens")
    cells = _pieces(canvas, pieces_y, of_codes, fill="trap")
    for code, box in zip(codes, cells, strict=True):
        x, token = box.middle[0], written(code)
        canvas.label((x, codes_y), token, align="center", mono=True, colour=style.INK)
        canvas.arrow((x, codes_y - 0.13), (x, box.bottom + 0.04))
        canvas.arrow((x, codes_y + 0.12), (x, codes_y + 0.38))
        (made,) = canvas.strip(x - token_width(token) / 2, codes_y + 0.4, [token], fills="code")
        number = str(code_tokenizer.code_to_id(code))
        canvas.label((x, made.bottom + 0.14), number, align="center", mono=True)
        means = meaning(code, SENTENCE, code_tokenizer.system)
        if means:
            means = wrapped(means, box.width + 0.22, style.SMALL, 2)
            at = (x, made.bottom + 0.29)
            canvas.label(at, means, align="center", vertical="top", colour=style.INK)
    canvas.label((cells[-1].right + 0.15, cells[-1].middle[1]), count(n_pieces, "piece"))
    canvas.label((cells[-1].right + 0.15, made.middle[1]), count(n_shown, "token"))
    canvas.label((MARGIN, made.bottom + 0.14), "token id")
    canvas.label((MARGIN, made.bottom + 0.36), "meaning")
    return canvas.finish()


def draw_pieces_by_rank(
    pieces: Mapping[str, int], times: Mapping[str, int], *, never_seen: float
) -> Picture:
    """Draw into how many pieces codes are cut, from the most common to the rarest.

    Args:
        pieces: the number of pieces of each code.
        times: how often each code occurs.
        never_seen: pieces per code under a tokenizer that was trained without codes.
    """
    ranked = [pieces[code] for code in sorted(pieces, key=lambda code: (-times[code], code))]
    bars = np.array_split(np.array(ranked, dtype=float), min(_BARS, len(ranked)))
    means = [bar.mean() for bar in bars]
    canvas = Canvas(
        3.0,
        f"Common codes become whole ({means[0]:.1f} pieces), rare ones do not ({means[-1]:.1f})",
        f"Bars of the mean number of pieces per code, {len(bars)} groups from common to rare: "
        f"{means[0]:.1f} in the first, {means[-1]:.1f} in the last. A tokenizer that saw no codes "
        f"cuts them into {never_seen:.1f}.",
    )
    axes = canvas.plot(0.75, 0.6, 6.55, 1.8)
    ends = [0, *accumulate(len(bar) for bar in bars)]
    middles = [(one + other) / 2 for one, other in pairwise(ends)]
    colour = style.chapter_colour(None)
    for i, (middle, bar, mean) in enumerate(zip(middles, bars, means, strict=True)):
        shade = "#2d708e" if i in (0, len(bars) - 1) else colour
        axes.bar(middle, mean, width=0.9 * len(bar), color=shade)
    axes.axhline(never_seen, color=WARNING, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.axhline(1.0, color=style.INK, linewidth=1.2)
    axes.set_xlim(0, len(ranked))
    axes.set_ylim(0, max(never_seen, *means) * 1.2)
    axes.set_xlabel("codes by rank, the most common on the left")
    axes.set_ylabel("pieces per code")
    axes.text(
        len(ranked) * 0.01,
        never_seen * 1.03,
        f"a tokenizer that never met a code: {never_seen:.1f}",
        color=WARNING,
        size=style.SMALL,
        va="bottom",
    )
    axes.annotate(
        "one code, one token",
        (len(ranked) * 0.2, 1.0),
        (len(ranked) * 0.13, never_seen * 0.68),
        color=style.INK,
        size=style.SMALL,
        ha="center",
        arrowprops={"arrowstyle": "-", "color": style.INK, "linewidth": 0.8},
    )
    return canvas.finish()


def draw_chapters_of_pieces(code: str, pieces_of: Mapping[str, Sequence[str]]) -> Picture:
    """Draw in which ICD-9 chapters the pieces of one code occur.

    Args:
        code: whose pieces are the rows, each once; a dot alone is left out.
        pieces_of: the pieces of every code, this one's too.
    """
    rows = [piece for piece in dict.fromkeys(pieces_of[code]) if piece.strip("▁.")]
    having = {piece: [c for c, pieces in pieces_of.items() if piece in pieces] for piece in rows}
    chapters = {piece: {style.chapter_of(c) for c in having[piece]} - {None} for piece in rows}
    n_chapters = len(style.CHAPTER_NAMES)
    own = style.chapter_of(code)
    first, last = rows[0], rows[-1]
    canvas = Canvas(
        1.48 + 0.28 * len(rows),
        f"The piece “{last}” of {icd9.written(code)} occurs in {len(chapters[last])} of "
        f"{n_chapters} chapters",
        "In which chapters the pieces of "
        f"{icd9.written(code)} occur: {first} in {len(chapters[first])}, "
        f"{last} in {len(chapters[last])} of {n_chapters}.",
        subtitle=f"{meaning(code, SENTENCE)}: a row for each piece but the dot, "
        "a column for each chapter of ICD-9-CM",
    )
    fills = [
        ["code" if n in chapters[piece] else "quiet" for n in range(1, n_chapters + 1)]
        for piece in rows
    ]
    cells = canvas.grid(
        _LEFT,
        canvas.top + 0.28,
        fills,
        cell=(0.27, 0.28),
        rows=rows,
        columns=[str(n) for n in range(1, n_chapters + 1)],
    )
    for piece, row in zip(rows, cells, strict=True):
        canvas.label((row[-1].right + 0.12, row[0].middle[1]), count(len(having[piece]), "code"))
    if own is not None:
        box = cells[-1][own - 1]
        name = f"the chapter of {icd9.written(code)}: {style.chapter_name(own)}"
        canvas.bracket(box.x, box.right, box.bottom + 0.03, name)
    return canvas.finish()


def _row_name(canvas: Canvas, y: float, one: str, other: str) -> None:
    canvas.label((MARGIN, y), one, colour=style.INK, weight="bold")
    canvas.label((MARGIN, y + 0.18), other)


def _group_width(pieces: Sequence[str]) -> float:
    return sum(token_width(piece) + 0.02 for piece in pieces) + 0.25


def _pieces(
    canvas: Canvas, y: float, pieces_of: Sequence[Sequence[str]], *, fill: str
) -> list[Box]:
    """The pieces of one word after the other; returns a box around those of each word."""
    groups = []
    x = _LEFT
    for pieces in pieces_of:
        boxes = canvas.strip(x, y, pieces, fills=fill, gap=0.02)
        groups.append(Box(x, y, boxes[-1].right - x, boxes[-1].height))
        x += _group_width(pieces)
    return groups
