"""The tree of a beam search: which hypotheses were followed, given up and finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamResult, Candidate
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count

MOST_STEPS = 6
"""How many steps have room side by side."""

MOST_WORDS = 14
"""How many tokens of a summary stand in the words under a picture."""

BEST = "#d1495b"
FILL = {"alive": "#35608d", "finished": "#fde725", "pruned": "#eef0f3"}


class Node(NamedTuple):
    """A candidate and its place in the tree.

    Attributes:
        step: from 0.
        row: its place among the candidates of its step, best first.
        candidate: what the search looked at.
        parent: the row of its parent in the step before; None at the first step.
        on_best: whether it is on the way to the best hypothesis.
    """

    step: int
    row: int
    candidate: Candidate
    parent: int | None
    on_best: bool


def nodes_of(result: BeamResult) -> list[Node]:
    """The tree of a search, step by step.

    Args:
        result: of a search with ``trace=True``.

    Raises:
        InputError: if there is no trace.
    """
    if result.trace is None:
        raise InputError(
            "beam tree", "result", "it has no trace", "Search with beam_search(..., trace=True)."
        )
    steps, best = result.trace.steps, result.best.tokens
    nodes: list[Node] = []
    before: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}  # beam: row, its tokens
    for step, candidates in enumerate(steps):
        now: dict[int, tuple[int, tuple[int, ...]]] = {}
        for row, candidate in enumerate(candidates):
            parent, tokens = before[candidate.parent]
            tokens = (*tokens, candidate.token)
            followed = candidate.fate != "pruned"
            on_best = followed and tokens == best[: step + 1]
            nodes.append(Node(step, row, candidate, parent if step else None, on_best))
            if candidate.beam is not None:
                now[candidate.beam] = row, tokens
        before = now
    return nodes


# ---------------------------------------------------------------------- words


def tree_title(result: BeamResult) -> str:
    """How many summaries finish and which one wins: a title."""
    finished = sum(node.candidate.fate == "finished" for node in nodes_of(result))
    best = result.best
    ends = {0: "No summary finishes", 1: "1 summary finishes"}
    said = ends.get(finished, f"{finished} summaries finish")
    return (
        f"{said}: the best has {count(len(best.tokens), 'token')} and the score {best.score:.2f}"
    )


def describe_tree(result: BeamResult, piece: Callable[[int], str]) -> str:
    """Say in words what :func:`draw_beam_tree` shows."""
    others = "; ".join(
        f"{_written(other.tokens, piece)} ({other.score:.2f})" for other in result.hypotheses[1:3]
    )
    best = f"{_written(result.best.tokens, piece)} ({result.best.score:.2f})"
    behind = f" Behind it: {others}." if others else ""
    return f"{tree_title(result)}. The best: {best}.{behind}"


def _written(tokens: tuple[int, ...], piece: Callable[[int], str]) -> str:
    words = [piece(token) for token in tokens]
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 1], "...", words[-1]]
    return " ".join(words)


# ---------------------------------------------------------------------- the picture

_LINE, _TOP, _STEPS, _ENDING = 0.4, 0.7, 0.36, 0.19
_BOX_WIDTH, _BOX_HEIGHT = 0.72, 0.74
_ENDING_WIDTH = 7.2


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

    Raises:
        InputError: if there is no trace, or no such step.
    """
    nodes = nodes_of(result)
    n_steps = nodes[-1].step + 1 if nodes else 0
    if not 0 <= first < n_steps:
        raise InputError(
            "draw_beam_tree",
            "first",
            f"{first} is no step of {n_steps}",
            f"Use 0 to {n_steps - 1}.",
        )
    last = min(n_steps, first + MOST_STEPS) - 1
    shown = [node for node in nodes if first <= node.step <= last]
    n_rows = max(node.row for node in shown) + 1
    bottom = _STEPS + 0.12 + _ENDING * (1 + len(result.hypotheses))
    height = _TOP + n_rows * _LINE + bottom
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_tree(result, piece))
        picture.text(
            0.012,
            1 - 0.2 / height,
            tree_title(result),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        picture.text(
            0.012,
            1 - 0.44 / height,
            _key(first, last, n_steps),
            size=style.SMALL,
            color=style.MUTED,
        )
        _draw_endings(picture, result, piece, height)
        axes = picture.add_axes((0.01, bottom / height, 0.98, n_rows * _LINE / height))
        axes.set_xlim(-0.5, MOST_STEPS - 0.5)
        axes.set_ylim(n_rows - 0.5, -0.5)
        axes.set_axis_off()
        beams = max(_alive(nodes))
        if n_rows > beams:
            axes.axhline(beams - 0.5, color=style.MUTED, linewidth=0.9, linestyle="--", zorder=0)
        ranks = _ranks(result, nodes)
        for node in shown:
            _draw_edge(axes, node, first)
        for node in shown:
            _draw_box(axes, node, first, piece(node.candidate.token))
            if (node.step, node.row) in ranks:
                _draw_rank(axes, node, first, ranks[node.step, node.row])
        for step in range(first, last + 1):
            axes.text(
                step - first,
                n_rows - 0.3,
                f"step {step + 1}",
                size=style.SMALL,
                color=style.MUTED,
                ha="center",
                va="top",
            )
    return picture


def _key(first: int, last: int, n_steps: int) -> str:
    """What the colours mean, and which steps are drawn where there is no room for all."""
    key = "dark: followed; bright: finished, above the dashed line only; pale: given up"
    if last - first + 1 == n_steps:
        return key
    return f"{key}; steps {first + 1} to {last + 1} of {n_steps}"


def _draw_edge(axes: Axes, node: Node, first: int) -> None:
    if node.parent is None or node.step == first or node.candidate.fate == "pruned":
        return
    x = node.step - first
    axes.plot(
        [x - 1 + _BOX_WIDTH / 2, x - _BOX_WIDTH / 2],
        [node.parent, node.row],
        color=BEST if node.on_best else style.MUTED,
        linewidth=2 if node.on_best else 0.8,
        zorder=3 if node.on_best else 1,
    )


def _draw_box(axes: Axes, node: Node, first: int, token: str) -> None:
    x, fate = node.step - first, node.candidate.fate
    colour = FILL[fate]
    axes.add_patch(
        FancyBboxPatch(
            (x - _BOX_WIDTH / 2, node.row - _BOX_HEIGHT / 2),
            _BOX_WIDTH,
            _BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=colour,
            edgecolor=BEST if node.on_best else style.MUTED,
            linewidth=2.2 if node.on_best else 0.6,
            zorder=2,
        )
    )
    ink = style.MUTED if fate == "pruned" else style.ink_on(colour)
    for offset, text, size in (
        (-0.17, _short(token), style.SMALL),
        (0.19, f"{node.candidate.score:.2f}", style.SMALL),
    ):
        axes.text(
            x, node.row + offset, text, size=size, color=ink, ha="center", va="center", zorder=4
        )


def _alive(nodes: list[Node]) -> list[int]:
    """How many candidates of each step are followed."""
    steps = range(nodes[-1].step + 1)
    return [sum(n.step == step and n.candidate.fate == "alive" for n in nodes) for step in steps]


def _ranks(result: BeamResult, nodes: list[Node]) -> dict[tuple[int, int], int]:
    """The step and row of each finished hypothesis that is given back, and its place, from 1."""
    tokens: dict[tuple[int, int], tuple[int, ...]] = {}
    for node in nodes:
        before = () if node.parent is None else tokens[node.step - 1, node.parent]
        tokens[node.step, node.row] = (*before, node.candidate.token)
    ended = {
        tokens[node.step, node.row]: (node.step, node.row)
        for node in nodes
        if node.candidate.fate == "finished"
    }
    return {
        ended[one.tokens]: place
        for place, one in enumerate(result.hypotheses, start=1)
        if one.tokens in ended
    }


def _draw_rank(axes: Axes, node: Node, first: int, rank: int) -> None:
    x = node.step - first - _BOX_WIDTH / 2 + 0.08
    axes.text(
        x,
        node.row,
        f"{rank}.",
        size=style.SMALL,
        weight="bold",
        ha="center",
        va="center",
        zorder=5,
    )


def _draw_endings(
    picture: Picture, result: BeamResult, piece: Callable[[int], str], height: float
) -> None:
    """Write out the best hypotheses under the tree."""
    words: dict[str, Any] = {"size": style.SMALL, "va": "center"}
    y = _ENDING * (len(result.hypotheses) + 0.5) + 0.06
    ended = "finished" if result.best.finished else "cut off"
    heading = f"{ended}: the best {len(result.hypotheses)}"
    picture.text(0.012, y / height, heading, color=style.MUTED, **words)
    for place, one in enumerate(result.hypotheses, start=1):
        y -= _ENDING
        text = _short(_written(one.tokens, piece), _ENDING_WIDTH - 0.6)
        weight = "bold" if place == 1 else "normal"
        picture.text(0.012, y / height, f"{place}.", weight=weight, **words)
        picture.text(0.04, y / height, f"{one.score:.2f}", weight=weight, **words)
        picture.text(0.1, y / height, text, **words)


def _short(token: str, width: float = 0.86) -> str:
    """A text that is not wider than so many inches."""
    text = token
    while len(text) > 1 and style.text_width(text, style.SMALL) > width:
        text = f"{text.rstrip('…')[:-1]}…"
    return text
