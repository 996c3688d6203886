"""The diagrams of the lessons: strips of tokens, and boxes with arrows, each from one mapping.

As in :mod:`ehr_course.plots.charts`, the alternative text is read off the same mapping.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.style import INK, MUTED, SMALL, Picture, text_width

Token = str | None
"""A token: "" is drawn as an empty dashed box, "…" without one; None lets the one before go on."""

Place = tuple[str, int]
"""A token of a strip: its row and its position, counted from zero."""

BoxPlace = tuple[float | tuple[float, float], float | tuple[float, float], str]
"""Column, row and fill of a box. A pair (first, last) is a box across several of them."""

HIGH, GAP = 0.28, 0.05  # of a token, in inches
FLOW_HIGH = 0.5  # of a box with one or two lines, in inches


def token_fill(token: Token) -> str:
    """Return what a token is: the fill that it has in all lessons.

    >>> [token_fill(t) for t in ("428.0", "<v>", "<mask>", "<PAD>", "age", "", "…")]
    ['code', 'special', 'mask', 'quiet', 'prompt', 'paper', 'paper']
    """
    if token in ("", "…", None):
        return "paper"
    if token in ("<mask>", "age", "sex", "<PAD>"):
        return {"<mask>": "mask", "<PAD>": "quiet"}.get(token, "prompt")
    return "special" if token.startswith("<") else "code"


def draw_strips(
    rows: Mapping[str, Sequence[Token]],
    title: str,
    how: str = "",
    *,
    fills: Mapping[str, Sequence[str]] = {},
    marked: Mapping[str, Collection[int]] = {},
    under: Mapping[str, Sequence[object]] = {},
    notes: Mapping[str, str] = {},
    key: Mapping[str, str] = {},
    arrows: Collection[tuple[Place, Place]] = (),
) -> Picture:
    """Draw tokens in rows, one under the other, in columns where that fits the width.

    Args:
        rows: by name, the tokens. A second line of a name is set in small print.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        fills: by row, what each token stands for, one of FILLS; else `token_fill` says it.
        marked: by row, the positions with a thick frame.
        under: by row, what stands under each token, such as its id.
        notes: by row, what stands at its end.
        key: what a fill means.
        arrows: from a token (row, position) to another.
    """
    kinds = {name: fills.get(name) or [token_fill(t) for t in of] for name, of in rows.items()}
    said = [
        _strip_said(name, of, kinds[name], marked, under, notes, key) for name, of in rows.items()
    ]
    said += _token_arrows_said(rows, arrows)
    left = (
        MARGIN + max(text_width(line, SMALL) for name in rows for line in name.split("\n")) + 0.15
    )
    note = max((text_width(note, SMALL) for note in notes.values()), default=0.0)
    room = style.WIDTH - left - MARGIN - (note + 0.1 if note else 0.0)
    places = _token_places(rows, under, room)
    lines = {name: 1 + max(line for line, _, _ in places[name]) for name in rows}
    high = {name: HIGH + 0.2 * (name in under) + 0.1 for name in rows}
    between = 0.14 if arrows else 0.02
    body = sum(high[name] * lines[name] + between for name in rows)
    canvas = Canvas(
        0.62 + 0.24 * bool(how) + body + 0.3 * bool(key),
        title, _described(title, how, said), subtitle=how,
    )  # fmt: skip
    y = canvas.top + 0.04
    boxes: dict[Place, Box] = {}
    for name, of in rows.items():
        first, _, second = name.partition("\n")
        middle = y + HIGH / 2
        canvas.label((MARGIN, middle - 0.08 * bool(second)), first, colour=INK)
        if second:
            canvas.label((MARGIN, middle + 0.08), second, mono=True)
        for i, token in enumerate(of):
            line, x, wide = places[name][i]
            top = y + line * high[name]
            if token is None:
                continue
            fill = kinds[name][i]
            if token == "…":
                canvas.label((left + x + wide / 2, top + HIGH / 2), token, align="center")
            else:
                boxes[name, i] = canvas.box(
                    left + x, top, wide, HIGH, token, fill=fill, size=SMALL, mono=True,
                    dashed=token == "", thick=2.2 if i in marked.get(name, ()) else 0.9,
                    edge=INK if i in marked.get(name, ()) else MUTED,
                )  # fmt: skip
            if name in under:
                canvas.label(
                    (left + x + wide / 2, top + HIGH + 0.1), str(under[name][i]), align="center"
                )
        if name in notes:
            line, x, wide = places[name][-1]
            canvas.label((left + x + wide + 0.1, y + line * high[name] + HIGH / 2), notes[name])
        y += high[name] * lines[name] + between
    for start, end in arrows:
        one, other = boxes[start], boxes[end]
        down = one.y < other.y
        canvas.arrow(
            one.side("bottom" if down else "top"), other.side("top" if down else "bottom")
        )
    if key:
        canvas.key(MARGIN, y + 0.14, key)
    return canvas.finish()


def draw_flow(
    boxes: Mapping[str, BoxPlace],
    arrows: Sequence[tuple[str, str] | tuple[str, str, str]],
    title: str,
    how: str = "",
    *,
    words: Mapping[str, str] = {},
    notes: Mapping[str, str] = {},
    dashed: Collection[tuple[str, str]] = (),
    frames: Mapping[str, Collection[str]] = {},
) -> Picture:
    """Draw boxes in columns and rows, and arrows between them.

    An arrow is level or upright where the boxes lie beside or above each other, else slanting.

    Args:
        boxes: by name, the place and fill of each.
        arrows: from the box of this name, to that one, and what stands on the arrow, if anything.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        words: what stands in a box, where it is not its name.
        notes: by box, what stands under it.
        dashed: the arrows that are dashed, in the colour of a warning: pairs (from, to).
        frames: by its words, a dashed frame around these boxes.
    """
    texts = {name: words.get(name, name) for name in boxes}
    said = [_arrow_said(arrow, texts, dashed) for arrow in arrows]
    joined = {name for arrow in arrows for name in arrow[:2]}
    alone = [_in_line(texts[name]) for name in boxes if name not in joined]
    sentences = ["; ".join(said) + "."] if said else []
    sentences += ["Also: " + ", ".join(alone) + "."] if alone else []
    sentences += [
        f"Under {_in_line(texts[name])}: {_in_line(note)}." for name, note in notes.items()
    ]
    sentences += [
        f"{frame}: " + ", ".join(_in_line(texts[name]) for name in of) + "."
        for frame, of in frames.items()
    ]
    columns, tops, bottom = _flow_grid(boxes, texts, arrows, notes, bool(frames))
    canvas = Canvas(
        0.66 + 0.22 * bool(how) + bottom, title, _described(title, how, sentences), subtitle=how
    )
    drawn = {}
    for name, (column, row, fill) in boxes.items():
        (first, last), (upper, lower) = _pair(column), _pair(row)
        x, y = _edges(columns, first)[0], canvas.top + 0.06 + _edges(tops, upper)[0]
        wide = _edges(columns, last)[1] - x
        high = canvas.top + 0.06 + _edges(tops, lower)[1] - y
        text = texts[name]
        broad = max(text_width(line, style.TEXT) for line in text.split("\n")) > wide - 0.1
        drawn[name] = canvas.box(
            x, y, wide, high, text, fill=fill, size=SMALL if broad else style.TEXT
        )
    for name, note in notes.items():
        x, y = drawn[name].side("bottom")
        canvas.label((x, y + 0.05), note, align="center", vertical="top")
    for frame, of in frames.items():
        inside = [drawn[name] for name in of]
        x, y = min(box.x for box in inside) - 0.08, min(box.y for box in inside) - 0.08
        right, end = (
            max(box.right for box in inside) + 0.08,
            max(box.bottom for box in inside) + 0.08,
        )
        canvas.frame(Box(x, y, right - x, end - y))
        canvas.label((x, y - 0.1), frame, on_line=True)
    for start, end, *text in arrows:
        warned = (start, end) in dashed
        canvas.arrow(
            *_ends(drawn[start], drawn[end]),
            *text,
            dashed=warned,
            colour=WARNING if warned else INK,
        )
    return canvas.finish()


# ---------------------------------------------------------------------- what is said


def _described(title: str, how: str, said: Sequence[str]) -> str:
    stop = "" if title.endswith(("?", "!", ".")) else "."
    return " ".join(filter(None, (title + stop, how and how.rstrip(".") + ".", *said)))


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _token_arrows_said(
    rows: Mapping[str, Sequence[Token]], arrows: Collection[tuple[Place, Place]]
) -> list[str]:
    pairs: dict[tuple[str, str], list[str]] = {}
    for (row, i), (other, j) in arrows:
        pairs.setdefault((row, other), []).append(f"{rows[row][i]} to {rows[other][j]}")
    return [
        f"Arrows from {_in_line(row)} to {_in_line(other)}: {', '.join(of)}."
        for (row, other), of in pairs.items()
    ]


def _strip_said(
    name: str,
    tokens: Sequence[Token],
    kinds: Sequence[str],
    marked: Mapping[str, Collection[int]],
    under: Mapping[str, Sequence[object]],
    notes: Mapping[str, str],
    key: Mapping[str, str],
) -> str:
    """The tokens, what stands under them, and those that are not what they look like."""
    below = under.get(name) or [""] * len(tokens)
    said = [
        (token or "nothing") + (f" {text}" if str(text) else "")
        for token, text in zip(tokens, below, strict=True)
        if token is not None
    ]
    parts = [(", " if name in under else " ").join(said)]
    for fill, meaning in key.items():
        odd = [
            token or "nothing"
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == fill != token_fill(token) and token is not None
        ]
        parts += [f"{meaning}: {', '.join(odd)}"] if odd else []
    if marked.get(name):
        parts.append("framed: " + ", ".join(tokens[i] or "nothing" for i in sorted(marked[name])))
    parts += [notes[name]] if name in notes else []
    return f"{_in_line(name)}: {'; '.join(parts)}."


def _arrow_said(
    arrow: Sequence[str], texts: Mapping[str, str], dashed: Collection[tuple[str, str]]
) -> str:
    start, end, *on = arrow
    said = f"{_in_line(texts[start])} → {_in_line(texts[end])}"
    said += f" ({_in_line(on[0])})" if on and on[0] else ""
    return said + (", dashed" if (start, end) in dashed else "")


# ---------------------------------------------------------------------- where it stands


def _token_places(
    rows: Mapping[str, Sequence[Token]], under: Mapping[str, Sequence[object]], room: float
) -> dict[str, list[tuple[int, float, float]]]:
    """Line, left edge and width of each token: in columns, or else each row by itself."""
    widths = {
        name: [
            max(text_width(t or "", SMALL, MONO) + 0.14, text_width(below, SMALL) + 0.04, 0.24)
            for t, below in zip(of, map(str, under.get(name) or [""] * len(of)), strict=True)
        ]
        for name, of in rows.items()
    }
    spans = {name: _spans(of) for name, of in rows.items()}
    columns = [0.0] * max(map(len, rows.values()))
    for name, of in rows.items():
        for i in range(len(of)):
            if spans[name][i] == 1:
                columns[i] = max(columns[i], widths[name][i])
    if sum(columns) + GAP * len(columns) <= room:
        lefts = list(accumulate((wide + GAP for wide in columns), initial=0.0))
        return {
            name: [
                (0, lefts[i], lefts[i + max(spans[name][i], 1)] - GAP - lefts[i])
                for i in range(len(of))
            ]
            for name, of in rows.items()
        }
    places = {}
    for name, of in rows.items():
        line, x = 0, 0.0
        places[name] = []
        for token, wide in zip(of, widths[name], strict=True):
            if x and x + wide > room:
                line, x = line + 1, 0.0
            places[name].append((line, x, wide))
            x += 0.0 if token is None else wide + GAP
    return places


def _spans(tokens: Sequence[Token]) -> list[int]:
    """Over how many columns each token goes; 0 where an earlier one goes on."""
    spans = [0] * len(tokens)
    begin = 0
    for i, token in enumerate(tokens):
        begin = begin if token is None else i
        spans[begin] += 1
    return spans


def _pair(place: float | tuple[float, float]) -> tuple[float, float]:
    return place if isinstance(place, tuple) else (place, place)


Edges = dict[float, tuple[float, float]]


def _edges(grid: Edges, place: float) -> tuple[float, float]:
    """Where a column or row begins and ends; 0.5 is half way between those of 0 and 1."""
    before, after = grid[math.floor(place)], grid[math.ceil(place)]
    share = place - math.floor(place)
    return (
        before[0] + share * (after[0] - before[0]),
        before[1] + share * (after[1] - before[1]),
    )


def _flow_grid(
    boxes: Mapping[str, BoxPlace],
    texts: Mapping[str, str],
    arrows: Sequence[Sequence[str]],
    notes: Mapping[str, str],
    framed: bool,
) -> tuple[Edges, Edges, float]:
    """Return each column's left and right edge, each row's upper and lower one, and the last."""
    columns = range(1 + math.ceil(max(_pair(column)[1] for column, _, _ in boxes.values())))
    rows = range(1 + math.ceil(max(_pair(row)[1] for _, row, _ in boxes.values())))
    widths: dict[float, float] = dict.fromkeys(columns, 0.3)
    heights: dict[float, float] = dict.fromkeys(rows, FLOW_HIGH)
    notes_under: dict[float, float] = dict.fromkeys(rows, 0.0)
    for name, (column, row, _) in boxes.items():
        lines = texts[name].split("\n")
        first, last = _pair(column)
        upper, lower = _pair(row)
        if first == last in widths:
            wide = max(text_width(line, style.TEXT) for line in lines)
            wide = max(
                wide, *(text_width(n, SMALL) - 0.3 for n in notes.get(name, "").split("\n"))
            )
            widths[first] = max(widths[first], wide + 0.2)
        if upper == lower in heights:
            heights[upper] = max(heights[upper], 0.2 + 0.165 * len(lines))
        if name in notes:
            below = math.ceil(lower)
            notes_under[below] = max(
                notes_under[below], 0.05 + 0.15 * len(notes[name].split("\n"))
            )
    on_arrows = [line for arrow in arrows for text in arrow[2:] for line in text.split("\n")]
    on = max((text_width(line, SMALL) for line in on_arrows), default=0.0)
    least = 0.3 + (on and on + 0.1)
    room = style.WIDTH - 2 * MARGIN - 0.16 * framed
    gaps = max(len(columns) - 1, 1)
    gap = min(max(least, (room - sum(widths.values())) / gaps), max(least, 0.7))
    share = min(1.6, (room - gap * (len(columns) - 1)) / sum(widths.values()))
    x = MARGIN + 0.08 * framed
    across: Edges = {}
    for column in columns:
        across[column] = x, x + share * widths[column]
        x += share * widths[column] + gap
    y = 0.2 * framed
    down: Edges = {}
    for row in rows:
        down[row] = y, y + heights[row]
        y += heights[row] + notes_under[row] + 0.24 + 0.16 * framed + 0.16 * (on > 0)
    return across, down, y


def _ends(one: Box, other: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where an arrow begins and ends: on the sides that face each other."""
    level = (max(one.y, other.y) + min(one.bottom, other.bottom)) / 2
    upright = (max(one.x, other.x) + min(one.right, other.right)) / 2
    if one.x < other.right and other.x < one.right:  # above each other
        down = one.y < other.y
        return (upright, one.bottom if down else one.y), (
            upright,
            other.y if down else other.bottom,
        )
    beside = one.y < other.bottom and other.y < one.bottom
    forwards = one.x < other.x
    return (
        (one.right if forwards else one.x, level if beside else one.middle[1]),
        (other.x if forwards else other.right, level if beside else other.middle[1]),
    )
