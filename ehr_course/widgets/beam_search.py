"""Set a beam search's beams and its length penalty, and see the tree that it searches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch

from ehr_course.generation.beam_search import (
    BeamResult,
    BeamSettings,
    Candidate,
    SearchModel,
    beam_search,
)
from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, Box, Canvas
from ehr_course.plots.style import Picture, count
from ehr_course.widgets.static import PictureWidget, fine_slider, slider

MOST_BEAMS = 4

MOST_STEPS = 6
"""How many steps have room side by side."""

MOST_WORDS = 14
"""How many tokens of a summary stand in the words under a picture."""


def beam_tree(
    model: SearchModel,
    tokenizer: Any,
    note: str,
    *,
    beams: int = 3,
    length_penalty: float = 1.0,
    max_length: int = 24,
    no_repeat_ngram_size: int = 0,
) -> PictureWidget:
    """Search for the summary of a note with other beams and another penalty.

    Args:
        model: any SearchModel, such as PointerGenerator.
        tokenizer: its tokenizer, of words or of pieces.
        note: the text of the note.
        beams, length_penalty: where the controls begin.
        max_length, no_repeat_ngram_size: as in BeamSettings.

    Returns:
        A widget with the controls ``beams`` (1 to MOST_BEAMS), ``length_penalty`` (its
        exponent) and ``step``, the first step that is drawn, counted from 1. Where a search has
        fewer steps, its last ones are drawn.

    Raises:
        InputError: if the note has no word, or a setting is out of its range.
    """
    ids, oov = tokenizer.encode_note(note)

    @cache
    def searched(beams: int, length_penalty: float) -> BeamResult:
        settings = BeamSettings(
            beams=beams,
            length_penalty=length_penalty,
            max_length=max_length,
            no_repeat_ngram_size=no_repeat_ngram_size,
        )
        return beam_search(model, torch.tensor([ids]), settings=settings, trace=True)[0]

    def draw(beams: int, length_penalty: float, step: int) -> Picture:
        result = searched(beams, length_penalty)
        last = max(0, len(result.trace.steps) - MOST_STEPS) if result.trace else 0
        return draw_beam_tree(
            result, lambda token: tokenizer.piece(token, oov), first=min(step - 1, last)
        )

    controls = {
        "beams": slider("beams", min(beams, MOST_BEAMS), 1, MOST_BEAMS),
        "length_penalty": fine_slider("length penalty (alpha)", length_penalty, 3.0, 0.5),
        "step": slider("from step", 1, 1, max(1, max_length - MOST_STEPS + 1)),
    }
    return PictureWidget(draw, controls)


# ---------------------------------------------------------------------- the tree


class Node(NamedTuple):
    """A candidate and its place in the tree.

    Attributes:
        step: from 0.
        row: its place among the candidates of its step, best first.
        candidate: what the search looked at.
        tokens: the whole hypothesis.
        parent: the row of its parent in the step before; None at the first step.
    """

    step: int
    row: int
    candidate: Candidate
    tokens: tuple[int, ...]
    parent: int | None


def nodes_of(result: BeamResult) -> list[Node]:
    """The tree of a search with ``trace=True``, step by step."""
    assert result.trace is not None
    nodes: list[Node] = []
    before: dict[int, Node] = {}  # by beam
    for step, candidates in enumerate(result.trace.steps):
        now: dict[int, Node] = {}
        for row, candidate in enumerate(candidates):
            parent = before.get(candidate.parent)
            tokens = (*(parent.tokens if parent else ()), candidate.token)
            node = Node(step, row, candidate, tokens, parent.row if parent else None)
            nodes.append(node)
            if candidate.beam is not None:
                now[candidate.beam] = node
        before = now
    return nodes


def _title(result: BeamResult) -> str:
    finished = sum(node.candidate.fate == "finished" for node in nodes_of(result))
    ends = {0: "No summary finishes", 1: "1 summary finishes"}
    said = ends.get(finished, f"{finished} summaries finish")
    n_tokens = count(len(result.best.tokens), "token")
    return f"{said}: the best has {n_tokens} and the score {result.best.score:.2f}"


def _in_words(result: BeamResult, piece: Callable[[int], str]) -> str:
    best, *others = (
        f"{_written(one.tokens, piece)} ({one.score:.2f})" for one in result.hypotheses[:3]
    )
    behind = f" Behind it: {'; '.join(others)}." if others else ""
    return f"{_title(result)}. The best: {best}.{behind}"


def _written(tokens: tuple[int, ...], piece: Callable[[int], str]) -> str:
    words = [piece(token) for token in tokens]
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 1], "...", words[-1]]
    return " ".join(words)


# ---------------------------------------------------------------------- the picture

BEST = "#d1495b"
FILL = {"alive": "#35608d", "finished": "#fde725", "pruned": "#eef0f3"}
# Inches, as all here. Not a whole number of pixels: a text centred on one would stand half-way
# between two parts of a pixel, and rounding could give it either place.
_COLUMN = (style.WIDTH - 2 * MARGIN) / MOST_STEPS - 0.0007
_ROW, _WIDTH, _HEIGHT, _LINE = 0.42, 0.9, 0.33, 0.19


def draw_beam_tree(result: BeamResult, piece: Callable[[int], str], *, first: int = 0) -> Picture:
    """Draw a part of the tree: a column for each step, the best candidate on top.

    Dark boxes are followed, bright ones have finished, pale ones are given up. The way to the
    best hypothesis is framed, and a dashed line lies under the candidates that may finish. In
    each box stand the token and the hypothesis' score: log P divided by the length penalty.
    Below, the best hypotheses are written out, each under the number that its last box bears.

    Args:
        result: of a search with ``trace=True``.
        piece: a token id as text.
        first: the first step that is drawn, from 0; MOST_STEPS are.
    """
    nodes = nodes_of(result)
    n_steps = nodes[-1].step + 1
    last = min(n_steps, first + MOST_STEPS) - 1
    shown = [node for node in nodes if first <= node.step <= last]
    n_rows = max(node.row for node in shown) + 1
    key = "dark: followed; bright: finished, above the dashed line only; pale: given up"
    if len(shown) < len(nodes):
        key += f"; steps {first + 1} to {last + 1} of {n_steps}"
    canvas = Canvas(
        1.18 + n_rows * _ROW + _LINE * (1 + len(result.hypotheses)),
        _title(result),
        _in_words(result, piece),
        subtitle=key,
    )
    boxes = {
        (node.step, node.row): Box(
            MARGIN + (node.step - first + 0.5) * _COLUMN - _WIDTH / 2,
            canvas.top + node.row * _ROW,
            _WIDTH,
            _HEIGHT,
        )
        for node in shown
    }
    alive = [node.step for node in nodes if node.candidate.fate == "alive"]
    beams = max(map(alive.count, alive), default=0)
    if n_rows > beams:
        y = canvas.top + beams * _ROW - (_ROW - _HEIGHT) / 2
        canvas.arrow((MARGIN, y), (canvas.width - MARGIN, y), dashed=True, head=False, thick=0.9)
    places = {one.tokens: place for place, one in enumerate(result.hypotheses, start=1)}
    for node in shown:
        fate, box = node.candidate.fate, boxes[node.step, node.row]
        on_best = fate != "pruned" and node.tokens == result.best.tokens[: node.step + 1]
        edge = BEST if on_best else style.MUTED
        if node.step > first and fate != "pruned":
            parent = boxes[node.step - 1, node.parent or 0]
            thick = 2.0 if on_best else 0.8
            ends = parent.side("right"), box.side("left")
            canvas.arrow(*ends, colour=edge, head=False, thick=thick)
        text = f"{_cut(piece(node.candidate.token), 0.86)}\n{node.candidate.score:.2f}"
        if on_best:  # a frame behind the box
            around = box.width + 0.06, box.height + 0.06
            canvas.box(box.x - 0.03, box.y - 0.03, *around, fill=BEST, edge=BEST)
        canvas.box(box.x, box.y, box.width, box.height, fill=FILL[fate])
        ink = style.MUTED if fate == "pruned" else style.ink_on(FILL[fate])
        canvas.label(box.middle, text, colour=ink, align="center", inside=box)
        if fate == "finished" and node.tokens in places:
            at = box.x + 0.09, box.middle[1]
            rank = f"{places[node.tokens]}."
            canvas.label(at, rank, align="center", colour=style.INK, weight="bold")
    y = canvas.top + n_rows * _ROW + 0.06
    for step in range(first, last + 1):
        at = MARGIN + (step - first + 0.5) * _COLUMN, y
        canvas.label(at, f"step {step + 1}", align="center")
    ended = "finished" if result.best.finished else "cut off"
    canvas.label((MARGIN, y + 0.26), f"{ended}: the best {len(result.hypotheses)}")
    for place, one in enumerate(result.hypotheses, start=1):
        row = y + 0.26 + _LINE * place
        weight = "bold" if place == 1 else "normal"
        canvas.label((MARGIN, row), f"{place}.", colour=style.INK, weight=weight)
        canvas.label((MARGIN + 0.2, row), f"{one.score:.2f}", colour=style.INK, weight=weight)
        written = _cut(_written(one.tokens, piece), canvas.width - 2 * MARGIN - 0.7)
        canvas.label((MARGIN + 0.65, row), written, colour=style.INK)
    return canvas.finish()


def _cut(text: str, width: float) -> str:
    """A text that is not wider than so many inches."""
    if style.text_width(text, style.SMALL) <= width:
        return text
    while len(text) > 1 and style.text_width(text + "…", style.SMALL) > width:
        text = text[:-1]
    return text + "…"
