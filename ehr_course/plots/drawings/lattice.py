"""The drawings of lesson 07 that show which pieces can make up a word or a code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

from ehr_course.icd import icd9
from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Canvas
from ehr_course.plots.drawings.words import SENTENCE, meaning
from ehr_course.plots.style import Picture

_GAP = 0.05


def draw_lattice(text: str, scores: Mapping[str, float], best: Sequence[str]) -> Picture:
    """Draw all pieces of a short text as a lattice, and the best path through it.

    A node sits between two letters. A line from node to node is a piece, with its
    log-probability. Beneath each node stands the best sum of a path that leads there.

    Args:
        text: as the tokenizer cuts it, at most nine characters long.
        scores: log-probability by piece; each character of the text is a piece.
        best: the best pieces of the text.
    """
    longest_first = _longest_first(text, scores)
    ways = _ways(text, scores)
    sums = [_best_sum(text[:end], scores) for end in range(len(text) + 1)]
    other = sum(scores[piece] for piece in longest_first)
    trap = list(best) != longest_first
    title = (
        "Taking the longest piece each time does not find the best path"
        if trap
        else "The best path is the one with the largest sum"
    )
    long = [
        (start, end)
        for start in range(len(text))
        for end in range(start + 2, len(text) + 1)
        if text[start:end] in scores
    ]
    lanes = _lanes(long)
    n_lanes = max(lanes.values(), default=-1) + 1
    height = 2.2 + 0.4 * n_lanes
    canvas = Canvas(
        height,
        title,
        f"The {len(ways)} segmentations of {text} as paths from node to node. The best, "
        f"{' '.join(best)}, has the sum {sums[-1]:.1f}; the longest piece first gives "
        f"{' '.join(longest_first)} with {other:.1f}.",
        subtitle=f"{len(ways)} paths lead through {text}: each line is a piece, "
        "with its log-probability",
    )
    left, node = 0.95, 0.14
    step = (style.WIDTH - MARGIN - 0.35 - left) / len(text)
    y = canvas.top + 0.3 + 0.4 * n_lanes
    best_edges, trap_edges = _edges(best), _edges(longest_first)

    solid: dict[str, Any] = {"colour": style.INK, "thick": 2.6}
    dashed: dict[str, Any] = {"colour": WARNING, "thick": 1.6, "dashed": True}

    def lines(start: int, end: int) -> list[dict]:
        """How a piece is drawn: a line for each of the two paths that takes it, or a pale one."""
        taken = [(solid, best_edges), (dashed, trap_edges)]
        own = [look for look, edges in taken if (start, end) in edges]
        return own or [{"colour": style.NO_CHAPTER, "thick": 1.0}]

    def words(start: int, end: int, at: tuple[float, float]) -> None:
        piece = text[start:end]
        on_path = (start, end) in best_edges | trap_edges
        written = canvas.label(
            at,
            f"{piece} {scores[piece]:.1f}",
            colour=lines(start, end)[0]["colour"] if on_path else style.MUTED,
            weight="bold" if (start, end) in best_edges else "normal",
            align="center",
            mono=True,
            on_line=True,
        )
        written.set_zorder(6)

    for (start, end), lane in lanes.items():
        up = y - 0.4 * (lane + 1) - 0.1
        x0, x1 = left + start * step, left + end * step
        low = y - node / 2
        for look in lines(start, end):
            canvas.path(
                [(x0 + 0.03, low), (x0 + 0.2, up), (x1 - 0.2, up), (x1 - 0.03, low)], **look
            )
        # Lines of higher lanes rise from the nodes in between: the words keep clear of them.
        risers = {left + at * step for edge, over in lanes.items() if over > lane for at in edge}
        half = (
            style.text_width(f"{text[start:end]} {scores[text[start:end]]:.1f}", style.SMALL, MONO)
            / 2
        )
        places = [(x0 + x1) / 2, *(left + (at + 0.5) * step for at in range(start, end))]
        clear = [x for x in places if all(abs(x - riser) > half + 0.18 for riser in risers)]
        words(start, end, (clear[0] if clear else places[0], up))
    for place in range(len(text)):
        x0, x1 = left + place * step, left + (place + 1) * step
        for look in lines(place, place + 1):
            canvas.arrow((x0 + node / 2, y), (x1 - node / 2, y), **look)
        words(place, place + 1, ((x0 + x1) / 2, y))
    passed = {0} | {end for _, end in best_edges}
    for place, value in enumerate(sums):
        x = left + place * step
        canvas.box(
            x - node / 2,
            y - node / 2,
            node,
            node,
            fill=style.INK if place in passed else style.PAPER,
        )
        canvas.label((x, y + 0.34), f"{value:.1f}", align="center", mono=True, colour=style.INK)
    canvas.label((MARGIN, y + 0.34), "best sum\nup to here", vertical="center")
    y += 0.78
    entries = [("best", best, sums[-1], solid)]
    if trap:
        entries.append(("longest piece first", longest_first, other, dashed))
    for name, pieces, total, look in entries:
        canvas.arrow((left, y), (left + 0.4, y), **look)
        canvas.label((left + 0.5, y), f"{name}: {' + '.join(pieces)}, sum {total:.1f}")
        y += 0.24
    return canvas.finish()


def draw_invented_code(written: Sequence[str], pieces_of: Mapping[str, Sequence[str]]) -> Picture:
    """Draw the pieces of a code that does not exist, and where each pair of them comes from.

    Args:
        written: the pieces that were written one after the other.
        pieces_of: the pieces of every real code; each pair of neighbours occurs in one of them.

    Raises:
        ValueError: if a pair of neighbours occurs in none.
    """
    code = "".join(written).strip("▁")
    found = []
    for pair in pairwise(written):
        having = [real for real, pieces in pieces_of.items() if pair in pairwise(pieces)]
        if not having:
            raise ValueError(f"the pieces {pair} stand together in no real code")
        found.append(having[0])
    pairs = " and ".join(map(icd9.written, found))
    canvas = Canvas(
        1.5 + 0.22 * len(written),
        f"Each pair of pieces is real, but {code} does not exist",
        f"The invented code {code} in {len(written)} pieces, {' '.join(written)}. Each two "
        f"neighbours occur together in a real code: {pairs}.",
    )
    left = 1.6
    width = min(1.3, (style.WIDTH - MARGIN - left) / len(written))
    y = canvas.top + 0.2
    canvas.label((MARGIN, y + 0.15), "pieces written", colour=style.INK)
    canvas.label((MARGIN, y + 0.59), "the pair occurs in")
    boxes = canvas.strip(
        left, y, list(written), fills="trap", widths=width - _GAP, gap=_GAP, height=0.32
    )
    for (one, other), real in zip(pairwise(boxes), found, strict=True):
        start, end = one.middle[0] + 0.04, other.middle[0] - 0.04
        canvas.bracket(start, end, boxes[0].bottom + 0.05, icd9.written(real))
    for i, real in enumerate(found):
        said = f"{icd9.written(real)}: {meaning(real, SENTENCE).lower()}"
        canvas.label((left, boxes[0].bottom + 0.54 + 0.22 * i), said)
    return canvas.finish()


def draw_dead_ends(code: str, written: str, pieces: Sequence[str]) -> Picture:
    """Draw which pieces fit the rest of a code, and which of them lead to its end.

    Args:
        code: the whole code, at most nine characters long.
        written: its beginning, which is written already.
        pieces: all that there are; those that a path through the rest can take are drawn.
    """
    if len(code) > 9 or not code.startswith(written):
        raise ValueError(f"{code!r} is too long to draw, or does not begin with {written!r}")
    edges = [
        (start, end)
        for start in range(len(written), len(code))
        for end in range(start + 1, len(code) + 1)
        if code[start:end] in pieces
    ]
    reached = {len(written)}  # the nodes at which a piece may begin
    for start, end in sorted(edges):
        reached |= {end} if start in reached else set()
    leading = {len(code)}  # the nodes from which pieces lead to the end
    for start, end in sorted(edges, reverse=True):
        leading |= {start} if end in leading else set()
    edges = [(start, end) for start, end in edges if start in reached]
    next_ones = [(start, end) for start, end in edges if start == len(written)]
    good = [code[start:end] for start, end in next_ones if end in leading]
    dead = [code[start:end] for start, end in next_ones if end not in leading]
    lanes = _lanes(edges)
    n_lanes = max(lanes.values(), default=0) + 1
    canvas = Canvas(
        1.95 + 0.4 * n_lanes,
        f"After {written}, {_listed(good)} can still become {code}"
        + (f", {_listed(dead)} cannot" if dead else ""),
        f"The pieces that fit the rest of {code} after {written}, as lines from node to node. "
        f"Those that lead to its end: {_listed(good)}; dead ends: {_listed(dead)}.",
        subtitle="Each line is a piece that fits these letters; dashed: it leads to a dead end",
    )
    left, node = 1.2, 0.14
    step = (style.WIDTH - MARGIN - 1.2 - left) / len(code)
    y = canvas.top + 0.25 + 0.4 * n_lanes
    for (start, end), lane in lanes.items():
        up = y - 0.4 * (lane + 1) + 0.08
        x0, x1 = left + start * step, left + end * step
        ends = end in leading
        look: dict[str, Any] = (
            {"colour": style.INK, "thick": 2.4}
            if ends
            else {"colour": WARNING, "thick": 1.6, "dashed": True}
        )
        canvas.path(
            [
                (x0 + 0.03, y - node / 2),
                (x0 + 0.14, up),
                (x1 - 0.14, up),
                (x1 - 0.03, y - node / 2),
            ],
            **look,
        )
        canvas.label(
            ((x0 + x1) / 2, up), code[start:end], mono=True, weight="bold" if ends else "normal",
            colour=style.INK if ends else WARNING, align="center", on_line=True,
        ).set_zorder(6)  # fmt: skip
    for place in range(len(code) + 1):
        if place in reached:
            x = left + place * step
            fill = style.INK if place in leading else "trap"
            canvas.box(x - node / 2, y - node / 2, node, node, fill=fill)
    for place, letter in enumerate(code):
        known = place < len(written)
        canvas.box(
            left + place * step + 0.12, y + 0.16, step - 0.24, 0.28, letter, mono=True,
            weight="bold", fill="code" if known else "paper",
        )  # fmt: skip
    canvas.label((MARGIN, y + 0.3), "the letters", colour=style.INK)
    canvas.bracket(left + 0.12, left + len(written) * step - 0.12, y + 0.48, "written")
    return canvas.finish()


def _listed(pieces: Sequence[str]) -> str:
    return " and ".join(pieces) or "nothing"


# ---------------------------------------------------------------------- paths through a lattice


def _ways(text: str, scores: Mapping[str, float]) -> list[list[str]]:
    """All segmentations of a short text, one by one."""
    if len(text) > 9:
        raise ValueError(f"{text!r} is too long to draw: {len(text)} characters")

    @cache
    def of_rest(start: int) -> list[list[str]]:
        if start == len(text):
            return [[]]
        return [
            [text[start:end], *rest]
            for end in range(start + 1, len(text) + 1)
            if text[start:end] in scores
            for rest in of_rest(end)
        ]

    return of_rest(0)


def _best_sum(text: str, scores: Mapping[str, float]) -> float:
    return max(sum(scores[piece] for piece in way) for way in _ways(text, scores))


def _longest_first(text: str, scores: Mapping[str, float]) -> list[str]:
    pieces = []
    while text:
        size = max(n for n in range(1, len(text) + 1) if text[:n] in scores)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def _edges(pieces: Sequence[str]) -> set[tuple[int, int]]:
    """Start and end of each piece in the text that the pieces make up."""
    ends = list(accumulate(map(len, pieces)))
    return set(zip([0, *ends], ends, strict=False))


def _lanes(edges: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """A lane for each line, 0 the lowest; short lines lie low, and no two share a stretch."""
    lanes: dict[tuple[int, int], int] = {}
    for start, end in sorted(edges, key=lambda edge: (edge[1] - edge[0], edge)):
        taken = {lane for (one, other), lane in lanes.items() if one < end and start < other}
        lanes[start, end] = next(n for n in range(len(edges)) if n not in taken)
    return lanes
