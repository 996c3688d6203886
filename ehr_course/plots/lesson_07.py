"""What lesson 07 draws: every way to cut a word into pieces, as a lattice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Canvas
from ehr_course.plots.style import INK, MUTED, NO_CHAPTER, PAPER, SMALL, WIDTH, Picture, text_width

Edge = tuple[int, int]
"""A piece by where it starts and ends in the text."""

LEFT, NODE, LANE = 0.95, 0.14, 0.4  # inches
SOLID: dict[str, Any] = {"colour": INK, "thick": 2.6}
DASHED: dict[str, Any] = {"colour": WARNING, "thick": 1.6, "dashed": True}
PALE: dict[str, Any] = {"colour": NO_CHAPTER, "thick": 1.0}


def draw_lattice(text: str, scores: Mapping[str, float], best: Sequence[str]) -> Picture:
    """Draw all pieces of a short text as a lattice, and the best path through it.

    A node sits between two letters. A line from node to node is a piece, with its
    log-probability. Beneath each node stands the best sum of a path that leads there.

    Args:
        text: as the tokenizer cuts it, at most nine characters long.
        scores: log-probability by piece; each character of the text is a piece.
        best: the best pieces of the text.
    """
    edges = [
        (start, end)
        for end in range(1, len(text) + 1)
        for start in range(end)
        if text[start:end] in scores
    ]
    n_paths, sums = [1] + [0] * len(text), [0.0] + [float("-inf")] * len(text)
    for start, end in edges:
        n_paths[end] += n_paths[start]
        sums[end] = max(sums[end], sums[start] + scores[text[start:end]])
    greedy = _longest_first(text, scores)
    total = sum(scores[piece] for piece in greedy)
    looks = {edge: [] for edge in edges}  # type: dict[Edge, list[dict[str, Any]]]
    for look, path in ((SOLID, best), (DASHED, greedy)):
        ends = list(accumulate(map(len, path)))
        for edge in zip([0, *ends], ends, strict=False):
            looks[edge].append(look)
    lanes = _lanes([edge for edge in edges if edge[1] - edge[0] > 1])
    lattice_height = LANE * (1 + max(lanes.values(), default=-1))
    canvas = Canvas(
        2.2 + lattice_height,
        "Which path through the pieces has the largest sum?",
        f"The {n_paths[-1]} segmentations of {text} as paths from node to node. The best, "
        f"{' '.join(best)}, has the sum {sums[-1]:.1f}; the longest piece first gives "
        f"{' '.join(greedy)} with {total:.1f}.",
        subtitle=f"{n_paths[-1]} paths lead through {text}: each line is a piece, "
        "with its log-probability",
    )
    step = (WIDTH - MARGIN - 0.35 - LEFT) / len(text)
    nodes = [LEFT + place * step for place in range(len(text) + 1)]
    y = canvas.top + 0.3 + lattice_height

    def write_piece(edge: Edge, at: tuple[float, float]) -> None:
        look = (looks[edge] or [{"colour": MUTED}])[0]
        weight = "bold" if look is SOLID else "normal"
        words = _words(text, edge, scores)
        label = canvas.label(at, words, colour=look["colour"], weight=weight, align="center",
                             mono=True, on_line=True)  # fmt: skip
        label.set_zorder(6)

    for (start, end), lane in lanes.items():
        up, low = y - LANE * (lane + 1) - 0.1, y - NODE / 2
        x0, x1 = nodes[start], nodes[end]
        around = [(x0 + 0.03, low), (x0 + 0.2, up), (x1 - 0.2, up), (x1 - 0.03, low)]
        for look in looks[start, end] or [PALE]:
            canvas.path(around, **look)
        # Lines of higher lanes rise from the nodes in between: the words keep clear of them.
        risers = {nodes[at] for edge, over in lanes.items() if over > lane for at in edge}
        half = text_width(_words(text, (start, end), scores), SMALL, MONO) / 2
        places = [(x0 + x1) / 2, *(nodes[at] + step / 2 for at in range(start, end))]
        clear = [x for x in places if all(abs(x - riser) > half + 0.18 for riser in risers)]
        write_piece((start, end), ([*clear, *places][0], up))
    for start in range(len(text)):
        edge = (start, start + 1)
        for look in looks[edge] or [PALE]:
            canvas.arrow((nodes[start] + NODE / 2, y), (nodes[start + 1] - NODE / 2, y), **look)
        write_piece(edge, (nodes[start] + step / 2, y))
    on_best = {place for edge, own in looks.items() if SOLID in own for place in edge}
    for place, x in enumerate(nodes):
        fill = INK if place in on_best else PAPER
        canvas.box(x - NODE / 2, y - NODE / 2, NODE, NODE, fill=fill)
        label = f"{sums[place]:.1f}"
        canvas.label((x, y + 0.34), label, align="center", mono=True, colour=INK)
    canvas.label((MARGIN, y + 0.34), "best sum\nup to here")
    named = {"best": (best, sums[-1], SOLID), "longest piece first": (greedy, total, DASHED)}
    for name, (pieces, number, look) in named.items():
        y += 0.27
        canvas.arrow((LEFT, y + 0.4), (LEFT + 0.4, y + 0.4), **look)
        canvas.label((LEFT + 0.5, y + 0.4), f"{name}: {' + '.join(pieces)}, sum {number:.1f}")
    return canvas.finish()


def _words(text: str, edge: Edge, scores: Mapping[str, float]) -> str:
    piece = text[slice(*edge)]
    return f"{piece} {scores[piece]:.1f}"


def _longest_first(text: str, scores: Mapping[str, float]) -> list[str]:
    pieces = []
    while text:
        size = max(n for n in range(1, len(text) + 1) if text[:n] in scores)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def _lanes(edges: Sequence[Edge]) -> dict[Edge, int]:
    """A lane for each line, 0 the lowest; short lines lie low, and no two share a stretch."""
    lanes: dict[Edge, int] = {}
    for start, end in sorted(edges, key=lambda edge: (edge[1] - edge[0], edge)):
        taken = {lane for (one, other), lane in lanes.items() if one < end and start < other}
        lanes[start, end] = next(n for n in range(len(edges)) if n not in taken)
    return lanes
