"""The drawings of lesson 07 of a code tokenizer: its vocabulary, ids, and padded rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Box, Canvas
from ehr_course.plots.drawings.words import SENTENCE, meaning, token_width
from ehr_course.plots.style import Picture, count
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

_LEFT = 1.0
"""Where a drawing begins beside the names of its rows, in inches."""

_GAP = 0.05
_DOTS = "…"
_DARK = style.MUTED


def draw_vocabulary(tokenizer: CodeTokenizer, *, codes_shown: int = 3) -> Picture:
    """Draw the tokens in the order of their ids, with id and vocabulary index beneath.

    Args:
        tokenizer: its special tokens are all drawn, of its codes the first few and the last.
        codes_shown: how many of the first codes.
    """
    offset, n_codes = len(SPECIAL_TOKENS), len(tokenizer.codes)
    ids = [*range(offset + min(codes_shown, n_codes))]
    gap = n_codes > codes_shown
    if gap:
        ids.append(len(tokenizer) - 1)
    last = _shown(tokenizer, len(tokenizer) - 1)
    canvas = Canvas(
        2.1,
        f"The token id of a code is its index plus {offset}",
        f"A strip of {len(tokenizer)} tokens: {offset} special ones with the ids "
        f"{ids[0]} to {offset - 1}, then {n_codes} codes. The last code, {last}, has index "
        f"{n_codes - 1} and id {len(tokenizer) - 1}.",
    )
    y = canvas.top + 0.5
    x = _LEFT
    boxes: list[Box] = []
    for place, number in enumerate(ids):
        if gap and place == len(ids) - 1:
            canvas.label((x + 0.15, y + 0.15), _DOTS, align="center")
            x += 0.3
        boxes += canvas.strip(x, y, [_shown(tokenizer, number)], fills=_kind(tokenizer, number))
        x = boxes[-1].right + _GAP
    canvas.bracket(
        boxes[0].x, boxes[offset - 1].right, y - 0.04, f"{offset} special tokens", above=True
    )
    canvas.bracket(
        boxes[offset].x, boxes[-1].right, y - 0.04, f"{count(n_codes, 'code')}, sorted", above=True
    )
    canvas.label((_LEFT - 0.1, y + 0.46), "token id", align="right", colour=style.INK)
    canvas.label((_LEFT - 0.1, y + 0.76), "index", align="right", colour=style.INK)
    for number, box in zip(ids, boxes, strict=True):
        middle = box.middle[0]
        canvas.label((middle, y + 0.46), str(number), align="center", mono=True, colour=style.INK)
        if number >= offset:
            index = str(number - offset)
            canvas.label((middle, y + 0.76), index, align="center", mono=True, colour=style.INK)
    return canvas.finish()


def draw_moved_offset(
    tokenizer: CodeTokenizer, code: str, *, added: int = 1, around: int = 2
) -> Picture:
    """Draw which saved vectors the codes read once special tokens are put before them.

    Args:
        tokenizer: the one that the vectors were trained with.
        code: the code in the middle.
        added: how many special tokens come before the codes.
        around: how many codes are drawn on either side, where there are so many.

    Raises:
        ValueError: if the code is among the last, and so reads past the end of the table.
    """
    own = tokenizer.codes.index(code)
    if own + added >= len(tokenizer.codes):
        raise ValueError(f"{code!r} reads past the end of the table: choose an earlier code")
    # The row that the code reads must be there too.
    first = max(0, min(own - around, len(tokenizer.codes) - added - 2 * around))
    rows = range(first, min(len(tokenizer.codes), first + 2 * around + 1 + added))
    offset = len(SPECIAL_TOKENS)
    reads = tokenizer.codes[own + added]
    written = partial(style.written, system=tokenizer.system)
    means, read_as = (meaning(each, SENTENCE, tokenizer.system) for each in (code, reads))
    special = "special token" if added == 1 else "special tokens"
    canvas = Canvas(
        3.2,
        f"Add {added} {special}, and {written(code)} reads the vector of {written(reads)}",
        "A saved table of vectors, with the codes that read it before above it, and those that "
        f"read it now below: {written(code)} moves from "
        f"row {offset + own} to row {offset + own + added}, which was trained for "
        f"{written(reads)}, {read_as.lower()}.",
        subtitle=f"{means} is now read as {read_as.lower()}",
    )
    left = 1.5
    width = min(1.1, (style.WIDTH - MARGIN - left) / len(rows) - 0.1)
    high, table, low = (canvas.top + down for down in (0.1, 0.9, 1.7))
    canvas.label((MARGIN, high + 0.16), "codes before")
    canvas.label((MARGIN, table + 0.16), "saved vectors")
    canvas.label((MARGIN, low + 0.16), "codes now")
    size: dict[str, Any] = {"size": style.SMALL, "mono": True}
    for place, index in enumerate(rows):
        x = left + place * (width + 0.1)
        vector = canvas.box(x, table, width, 0.32, f"row {offset + index}", fill="encoder", **size)
        for name, moved, y, fill in (
            ("before", index, high, "code"),
            ("now", index - added, low, "trap"),
        ):
            if moved < 0:
                continue
            own_code = moved == own
            box = canvas.box(
                x, y, width, 0.32, written(tokenizer.codes[moved]), fill=fill,
                weight="bold" if own_code else "normal", **size,
            )  # fmt: skip
            canvas.arrow(
                box.side("bottom" if name == "before" else "top"),
                vector.side("top" if name == "before" else "bottom"),
                colour=WARNING if own_code else style.NO_CHAPTER,
                thick=2.2 if own_code else 1.0,
            )
    y = low + 0.56
    canvas.arrow((left, y), (left + 0.35, y), colour=WARNING, thick=2.2)
    canvas.label((left + 0.42, y), f"the vector that {written(code)} reads")
    canvas.arrow((left + 3.0, y), (left + 3.35, y), colour=style.NO_CHAPTER)
    canvas.label((left + 3.42, y), "those that other codes read")
    return canvas.finish()


def draw_patient(tokenizer: CodeTokenizer, visits: Sequence[Sequence[str]]) -> Picture:
    """Draw a patient as one row of tokens, with ids beneath and brackets above the visits.

    Args:
        tokenizer: has all of the codes.
        visits: the codes of each visit. What does not fit into the width is left out: the last
            codes of the longest visits, then the last visits.
    """
    ids = tokenizer.encode(visits)
    n_codes = sum(map(len, visits))
    kept, dropped = _that_fit(tokenizer, visits)
    drawn = dict.fromkeys(number for inside, _ in kept for number in inside[1:-1])
    meanings = [tokenizer.id_to_token(number) for number in drawn]
    lines = len(meanings)
    canvas = Canvas(
        2.35 + 0.2 * lines,
        f"{count(n_codes, 'code')} in {count(len(visits), 'visit')}: one row of "
        f"{count(len(ids), 'token')}",
        f"A patient as {len(ids)} tokens: {_shown(tokenizer, ids[0])}, then "
        f"{count(len(visits), 'visit')} between {_shown(tokenizer, tokenizer.visit_start_id)} and "
        f"{_shown(tokenizer, tokenizer.visit_end_id)}, then {_shown(tokenizer, ids[-1])}.",
    )
    y = canvas.top + 0.75
    x = MARGIN
    (begin,) = _tokens(canvas, tokenizer, x, y, ids[:1])
    x = begin.right + 0.12
    for number, (inside, shortened) in enumerate(kept, start=1):
        start = x
        body, closing = (inside[:-1], inside[-1:]) if shortened else (inside, [])
        x = _tokens(canvas, tokenizer, x, y, body)[-1].right
        if shortened:
            canvas.label((x + 0.14, y + 0.15), _DOTS, align="center")
            x = _tokens(canvas, tokenizer, x + 0.28, y, closing)[-1].right
        canvas.bracket(start, x, y - 0.04, f"visit {number}", above=True)
        x += 0.12
    if dropped:
        canvas.label((x + 0.06, y + 0.15), _DOTS, align="center")
        x += 0.2
    (end,) = _tokens(canvas, tokenizer, x, y, ids[-1:])
    canvas.bracket(begin.x, end.right, y - 0.38, "the patient", above=True)
    # One list: a code of two visits stands in it once, and is not missed under either.
    for place, code in enumerate(meanings):
        at = MARGIN, y + 0.74 + 0.2 * place
        canvas.label(at, style.written(code, tokenizer.system), mono=True, colour=style.INK)
        means = meaning(code, style.WIDTH - 1.0, tokenizer.system)
        canvas.label((at[0] + 0.62, at[1]), means)
    canvas.key(MARGIN, y + 0.84 + 0.2 * lines, {"special": "special token", "code": "code"})
    return canvas.finish()


def draw_padding(sequences: Sequence[Sequence[int]], *, pad_id: int = 0) -> Picture:
    """Draw sequences of token ids as a padded batch, and its attention mask beneath.

    Args:
        sequences: token ids, of unequal lengths; at most sixteen places are drawn.
        pad_id: the id of padding.
    """
    longest = max(map(len, sequences))
    shown = min(longest, 16)
    total = len(sequences) * longest
    filled = total - sum(map(len, sequences))
    canvas = Canvas(
        1.55 + 0.52 * len(sequences),
        f"{filled} of {total} places are padding, and there the mask is {int(False)}",
        f"A batch of {len(sequences)} patients in {longest} places each: {filled} of {total} "
        f"places hold padding, right of the shorter rows. The mask beneath has a zero there.",
    )
    places = [[(row[j] if j < len(row) else None) for j in range(shown)] for row in sequences]
    ids = [[str(pad_id if place is None else place) for place in row] for row in places]
    kinds = [["quiet" if place is None else _kind_of(place) for place in row] for row in places]
    mask = [[str(int(place is not None)) for place in row] for row in places]
    shades = [["quiet" if place is None else _DARK for place in row] for row in places]
    cell = (min(0.5, (style.WIDTH - _LEFT - 0.75) / shown), 0.26)
    names = [f"patient {i}" for i in range(1, len(sequences) + 1)]
    y = canvas.top + 0.22
    canvas.label((_LEFT, y - 0.13), "input_ids", colour=style.INK)
    first = canvas.grid(_LEFT, y, kinds, cell=cell, texts=ids)
    y = first[-1][0].bottom + 0.36
    canvas.label((_LEFT, y - 0.13), "attention_mask", colour=style.INK)
    second = canvas.grid(_LEFT, y, shades, cell=cell, texts=mask)
    for grid in (first, second):
        for name, row in zip(names, grid, strict=True):
            canvas.label((_LEFT - 0.1, row[0].middle[1]), name, align="right")
    for n, row in zip(map(len, sequences), first, strict=True):
        canvas.label((row[-1].right + 0.1, row[0].middle[1]), count(n, "token"))
    canvas.key(
        _LEFT,
        second[-1][0].bottom + 0.24,
        {"special": "special token", "code": "code", "quiet": "padding"},
    )
    return canvas.finish()


# ---------------------------------------------------------------------- tokens


def _that_fit(tokenizer: CodeTokenizer, visits: Sequence[Sequence[str]]) -> tuple[list[list], int]:
    """The ids of each visit, whether it is shortened, and how many visits are left out."""
    kept: list[list[Any]] = [[tokenizer.encode_visit(visit), False] for visit in visits]
    room = style.WIDTH - 2 * MARGIN - token_width("<BOS>") - token_width("<EOS>") - 0.4
    while sum(_visit_width(tokenizer, *visit) for visit in kept) > room:
        longest = max(kept, key=lambda visit: len(visit[0]))
        if len(longest[0]) > 3:
            del longest[0][-2]
            longest[1] = True
        else:
            kept.pop()
    return kept, len(visits) - len(kept)


def _kind_of(token_id: int) -> str:
    if token_id == SPECIAL_TOKENS.index("<mask>"):
        return "mask"
    return "special" if token_id < len(SPECIAL_TOKENS) else "code"


def _kind(tokenizer: CodeTokenizer, token_id: int) -> str:
    """What a token's box is filled with; padding is quiet."""
    return "quiet" if token_id == tokenizer.pad_id else _kind_of(token_id)


def _shown(tokenizer: CodeTokenizer, token_id: int) -> str:
    return style.written(tokenizer.id_to_token(token_id), tokenizer.system)


def _visit_width(tokenizer: CodeTokenizer, ids: Sequence[int], shortened: bool) -> float:
    boxes = sum(token_width(_shown(tokenizer, number)) + _GAP for number in ids)
    return boxes + 0.12 + (0.28 if shortened else 0.0)


def _tokens(
    canvas: Canvas, tokenizer: CodeTokenizer, x: float, y: float, ids: Sequence[int]
) -> list[Box]:
    """Tokens side by side, each with its id beneath."""
    boxes = canvas.strip(
        x,
        y,
        [_shown(tokenizer, number) for number in ids],
        fills=[_kind(tokenizer, number) for number in ids],
        gap=_GAP,
    )
    for number, box in zip(ids, boxes, strict=True):
        canvas.label((box.middle[0], box.bottom + 0.13), str(number), align="center", mono=True)
    return boxes
