"""The diagrams of the lessons: strips of tokens, and boxes with arrows, each from one mapping.

As in :mod:`ehr_course.plots.charts`, the alternative text is read off the same mapping.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Box, Canvas, Point, Side
from ehr_course.plots.style import INK, MUTED, SMALL, Picture, text_width

Token = str | None
"""A token: "" is an empty dashed box; None lets the one before go on, if there is one."""

Place = tuple[str, int]
"""A token of a strip: its row and its position, counted from zero."""

BoxPlace = tuple[float | tuple[float, float], float | tuple[float, float], str]
"""Column, row and fill of a box. A pair (first, last) is a box across several of them."""

BARE = ("…", "→", "|", " ")  # tokens without a box
HIGH, GAP = 0.28, 0.05  # of a token, in inches
LINE = 0.15  # from one line under the tokens to the next, in inches
FLOW_HIGH = 0.5  # of a box with one or two lines, in inches


def token_fill(token: Token) -> str:
    """Return what a token is: the fill that it has in all lessons.

    >>> [token_fill(t) for t in ("428.0", "<v>", "<mask>", "<PAD>", "age", "", "…")]
    ['code', 'special', 'mask', 'quiet', 'prompt', 'paper', 'paper']
    """
    if token in ("", None, *BARE):
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
    under: Mapping[str, Sequence[object] | Mapping[str, Sequence[object]]] = {},
    notes: Mapping[str, str] = {},
    key: Mapping[str, str] = {},
    arrows: Collection[tuple[Place, Place]] = (),
) -> Picture:
    """Draw tokens in rows, one under the other, in columns where that fits the width.

    Args:
        rows: by name, the tokens; "…", "→", "|" and " " have no box. A second line of a name is
            set in small print.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        fills: by row, what each token stands for, one of FILLS; else `token_fill` says it.
        marked: by row, the positions with a thick frame.
        under: by row, what stands under each token, such as its id; or several such lines by
            name, and the names stand at the left.
        notes: by row, what stands at its end.
        key: what a fill means; or "" for the dashed box of no token, "framed" for a thick frame.
        arrows: from a token (row, position) to another.
    """
    kinds = {name: fills.get(name) or [token_fill(t) for t in of] for name, of in rows.items()}
    lines_under = {name: list(of) for name, of in under.items() if isinstance(of, Mapping)}
    texts_under = {name: _texts_under(of) for name, of in under.items()}
    said = [
        _strip_said(name, of, kinds[name], marked, texts_under, notes, key)
        + _lines_said(lines_under.get(name, ()))
        for name, of in rows.items()
    ]
    said += _token_arrows_said(rows, arrows)
    names = [line for name in rows for line in [*name.split("\n"), *lines_under.get(name, ())]]
    left = MARGIN + max(text_width(line, SMALL) for line in names) + 0.15
    note = max((text_width(note, SMALL) for note in notes.values()), default=0.0)
    room = style.WIDTH - left - MARGIN - (note + 0.1 if note else 0.0)
    places = _token_places(rows, texts_under, room, bool(arrows))
    lines = {name: 1 + max(line for line, _, _ in places[name]) for name in rows}
    high = dict.fromkeys(rows, HIGH + 0.1)
    for name, texts in texts_under.items():
        high[name] += 0.05 + LINE * max(1 + text.count("\n") for text in texts)
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
        for number, line_name in enumerate(lines_under.get(name, ())):
            at = (MARGIN, y + HIGH + 0.03 + LINE * number)
            canvas.label(at, line_name, vertical="top")
        for i, token in enumerate(of):
            line, x, wide = places[name][i]
            top = y + line * high[name]
            if token is None:
                continue
            fill = kinds[name][i]
            if token in BARE:
                canvas.label((left + x + wide / 2, top + HIGH / 2), token, align="center")
            else:
                boxes[name, i] = canvas.box(
                    left + x, top, wide, HIGH, token, fill=fill, size=SMALL, mono=True,
                    dashed=token == "", thick=2.2 if i in marked.get(name, ()) else 0.9,
                    edge=INK if i in marked.get(name, ()) else MUTED,
                )  # fmt: skip
            for number, text in enumerate(texts_under.get(name, [""] * len(of))[i].split("\n")):
                at = (left + x + wide / 2, top + HIGH + 0.03 + LINE * number)
                canvas.label(at, text, align="center", vertical="top")
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
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
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
        rows: the names of the rows, at their left.
        columns: the names of the columns, above them.
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
    sentences += [f"Rows: {', '.join(rows)}."] if rows else []
    sentences += [f"Columns: {', '.join(columns)}."] if columns else []
    on = [line for arrow in arrows for text in arrow[2:] for line in text.split("\n")]
    widest = max((text_width(line, SMALL) for line in on), default=0.0)
    margin = MARGIN + 0.08 * bool(frames)
    beside = max((text_width(name, SMALL) + 0.2 for name in rows), default=0.0)
    across, size = _flow_columns(boxes, texts, notes, columns, widest, margin, beside)
    is_upright = any(boxes[start][0] == boxes[end][0] for start, end in dashed)
    gap = 0.24 + 0.16 * (bool(frames) + bool(on) + is_upright)  # a few dashes need some room
    tops, bottom = _flow_rows(boxes, texts, notes, gap)
    above = 0.56 + 0.22 * bool(how) + 0.2 * bool(frames) + 0.24 * bool(columns)
    canvas = Canvas(
        above + bottom + MARGIN + 0.08 * bool(frames),
        title, _described(title, how, sentences), subtitle=how,
    )  # fmt: skip
    drawn = {}
    for name, (column, row, fill) in boxes.items():
        (first, last), (upper, lower) = _pair(column), _pair(row)
        x, y = _edges(across, first)[0], above + _edges(tops, upper)[0]
        wide, high = _edges(across, last)[1] - x, above + _edges(tops, lower)[1] - y
        drawn[name] = canvas.box(x, y, wide, high, texts[name], fill=fill, size=size)
    for number, name in enumerate(rows):
        canvas.label((MARGIN, above + sum(tops[number]) / 2), name, colour=INK)
    for number, name in enumerate(columns):
        at = (across[number][0], above - 0.14 - 0.2 * bool(frames))
        canvas.label(at, name, colour=INK, weight="bold")
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
    for arrow in arrows:
        warned = arrow[:2] in dashed
        ends = _ends(drawn[arrow[0]], drawn[arrow[1]])
        canvas.arrow(
            *ends, *arrow[2:], dashed=warned, colour=WARNING if warned else INK,
            thick=2.0 if warned else 1.2,
        )  # fmt: skip
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
    under: Mapping[str, Sequence[str]],
    notes: Mapping[str, str],
    key: Mapping[str, str],
) -> str:
    """The tokens, what stands under them, and those that are not what they look like."""
    below = under.get(name) or [""] * len(tokens)
    said = [
        (token or key.get("", "nothing")) + (f" {_in_line(text)}" if text.strip() else "")
        for token, text in zip(tokens, below, strict=True)
        if token not in (None, " ")
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
        framed = f"framed ({key['framed']})" if "framed" in key else "framed"
        of = [tokens[i] or "nothing" for i in sorted(marked[name])]
        parts.append(f"{framed}: {', '.join(of)}")
    parts += [notes[name]] if name in notes else []
    return f"{_in_line(name)}: {'; '.join(parts)}."


def _texts_under(of: Sequence[object] | Mapping[str, Sequence[object]]) -> list[str]:
    """What stands under each token, with a line break between named lines."""
    lines = of.values() if isinstance(of, Mapping) else [of]
    return ["\n".join(map(str, texts)) for texts in zip(*lines, strict=True)]


def _lines_said(names: Collection[str]) -> str:
    return f" Under each token: {', '.join(names)}." if names else ""


def _arrow_said(
    arrow: Sequence[str], texts: Mapping[str, str], dashed: Collection[tuple[str, str]]
) -> str:
    start, end, *on = arrow
    said = f"{_in_line(texts[start])} → {_in_line(texts[end])}"
    said += f" ({_in_line(on[0])})" if on and on[0] else ""
    return said + (", dashed" if (start, end) in dashed else "")


# ---------------------------------------------------------------------- where it stands


def _token_places(
    rows: Mapping[str, Sequence[Token]],
    under: Mapping[str, Sequence[str]],
    room: float,
    joined: bool,
) -> dict[str, list[tuple[int, float, float]]]:
    """Line, left edge and width of each token: in columns, or else each row by itself.

    Columns are for rows that belong together: joined by arrows, by tokens over several columns, or
    by tokens of about one width.
    """
    widths = {
        name: [
            max(text_width(t or "", SMALL, MONO) + 0.14, _widest(below) + 0.04, 0.24)
            for t, below in zip(of, under.get(name) or [""] * len(of), strict=True)
        ]
        for name, of in rows.items()
    }
    spans = {name: _spans(of) for name, of in rows.items()}
    columns = [0.0] * max(map(len, rows.values()))
    for name, of in rows.items():
        for i in range(len(of)):
            if spans[name][i] == 1:
                columns[i] = max(columns[i], widths[name][i])
    joined = joined or any(None in of for of in rows.values())
    most = max(sum(wide) for wide in widths.values()) * (2.0 if joined else 1.3)
    if sum(columns) <= min(most, room - GAP * len(columns)):
        # Columns of one width are the easiest to follow, where none has to grow much for that.
        even = max(*columns, min(0.42, room / len(columns) - GAP))
        if even <= min(room / len(columns) - GAP, 2 * sum(columns) / len(columns)):
            columns = [even] * len(columns)
        lefts = list(accumulate((wide + GAP for wide in columns), initial=0.0))
        return {
            name: [
                (0, lefts[i], lefts[i + max(spans[name][i], 1)] - GAP - lefts[i])
                for i in range(len(of))
            ]
            for name, of in rows.items()
        }
    places: dict[str, list[tuple[int, float, float]]] = {}
    for name, of in rows.items():
        line, x = 0, 0.0
        places[name] = []
        for token, wide in zip(of, widths[name], strict=True):
            if x and x + wide > room:
                line, x = line + 1, 0.0
            places[name].append((line, x, wide))
            x += 0.0 if token is None else wide + GAP
    return places


def _widest(text: str) -> float:
    return max(text_width(line, SMALL) for line in text.split("\n"))


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


def _flow_columns(
    boxes: Mapping[str, BoxPlace],
    texts: Mapping[str, str],
    notes: Mapping[str, str],
    headings: Sequence[str],
    on_arrows: float,
    margin: float,
    beside: float,
) -> tuple[Edges, float]:
    """Return each column's left and right edge, and the font size with which they fit."""
    columns = range(1 + math.ceil(max(_pair(column)[1] for column, _, _ in boxes.values())))
    least_gap = 0.24 + (on_arrows and on_arrows + 0.1)
    room = style.WIDTH - 2 * margin - beside - least_gap * (len(columns) - 1)
    for size in (style.TEXT, SMALL):
        widths: dict[float, float] = dict.fromkeys(columns, 0.3)
        for name, (column, _, _) in boxes.items():
            first, last = _pair(column)
            if first == last in widths:
                wide = max(text_width(line, size) for line in texts[name].split("\n"))
                note = max(text_width(line, SMALL) for line in notes.get(name, "").split("\n"))
                widths[first] = max(widths[first], wide + 0.16, note - 0.2)
        for number, heading in enumerate(headings):
            widths[number] = max(widths[number], 1.1 * text_width(heading, SMALL))
        total = sum(widths.values())
        if total <= room:
            break
    # What is left over goes half to the gaps and half to the boxes, as far as that looks well.
    extra = min(0.4, max(0.0, room - total) / 2 / max(len(columns) - 1, 1))
    share = min(1.6, (room - extra * (len(columns) - 1)) / total)
    x = margin + beside
    edges: Edges = {}
    for column in columns:
        edges[column] = x, x + share * widths[column]
        x += share * widths[column] + least_gap + extra
    return edges, size


def _flow_rows(
    boxes: Mapping[str, BoxPlace], texts: Mapping[str, str], notes: Mapping[str, str], gap: float
) -> tuple[Edges, float]:
    """Return each row's upper and lower edge, and where the last one's notes end."""
    rows = range(1 + math.ceil(max(_pair(row)[1] for _, row, _ in boxes.values())))
    heights: dict[float, float] = dict.fromkeys(rows, FLOW_HIGH)
    under: dict[float, float] = dict.fromkeys(rows, 0.0)
    for name, (_, row, _) in boxes.items():
        upper, lower = _pair(row)
        if upper == lower in heights:
            heights[upper] = max(heights[upper], 0.2 + 0.165 * len(texts[name].split("\n")))
        if name in notes:
            below = math.ceil(lower)
            under[below] = max(under[below], 0.05 + 0.15 * len(notes[name].split("\n")))
    y = 0.0
    edges: Edges = {}
    for row in rows:
        edges[row] = y, y + heights[row]
        y += heights[row] + under[row] + gap
    return edges, y - gap


def _ends(one: Box, other: Box) -> tuple[Point, Point]:
    """Where an arrow begins and ends: on the sides that face each other."""
    level = _common((one.y, one.bottom), (other.y, other.bottom))
    upright = _common((one.x, one.right), (other.x, other.right))
    start: Side
    end: Side
    aside = max(one.x, other.x) - min(one.right, other.right)
    down = max(one.y, other.y) - min(one.bottom, other.bottom)
    if aside < down:
        start, end = ("bottom", "top") if one.y < other.y else ("top", "bottom")
    else:
        start, end = ("right", "left") if one.x < other.x else ("left", "right")
    (x0, y0), (x1, y1) = one.side(start), other.side(end)
    if start in ("bottom", "top"):
        return ((x0, y0), (x1, y1)) if upright is None else ((upright, y0), (upright, y1))
    return ((x0, y0), (x1, y1)) if level is None else ((x0, level), (x1, level))


def _common(one: tuple[float, float], other: tuple[float, float]) -> float | None:
    """The middle of what two stretches have in common, if that is at least half of one."""
    start, end = max(one[0], other[0]), min(one[1], other[1])
    shorter = min(one[1] - one[0], other[1] - other[0])
    return (start + end) / 2 if end - start >= 0.49 * shorter else None
