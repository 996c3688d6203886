"""The drawings of attention: its steps, who may read whom, and what positions are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np

from ehr_course.plots import style
from ehr_course.plots.attention import COLOUR_MAP, GAMMA
from ehr_course.plots.canvas import MONO, WARNING, Box, Canvas
from ehr_course.plots.style import Picture

PALE = "#aab1bd"
"""What depends on itself and may not be read: darker than an empty cell, paler than a code."""

LONGEST_NAME = 9
"""How many letters of a token are drawn."""


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _fill(name: str) -> str:
    """What kind of position a name stands for, as a fill."""
    if name == "<PAD>":
        return "quiet"
    if name == "<mask>":
        return "mask"
    if name.startswith("<"):
        return "special"
    return "prompt" if name.split()[0] in ("age", "sex") else "code"


# ---------------------------------------------------------------------- attention


def draw_attention_steps(
    names: Sequence[str], steps: Mapping[str, Any], *, row: int = 2
) -> Picture:
    """Draw attention on few tokens, number by number.

    Args:
        names: of the tokens.
        steps: tensors by name: "vectors", "queries", "keys" and "values" of shape (tokens, d),
            "scores" and "weights" (tokens, tokens), "result" (tokens, d).
        row: the token whose way is framed.
    """
    grids = {name: np.asarray(values, dtype=float) for name, values in steps.items()}
    weights, n = grids["weights"], len(names)
    best = int(weights[row].argmax())
    at = "itself" if best == row else names[best]
    canvas = Canvas(
        4.35,
        f"{names[row]} takes {weights[row, best]:.0%} of what it reads from {at}",
        f"Seven grids of numbers for {n} tokens: vectors, queries, keys and values, scores, "
        f"weights, result. The weights of {names[row]} are "
        + ", ".join(f"{value:.2f}" for value in weights[row])
        + ".",
        subtitle=f"A row for each token; scores and weights have a column for each, in the same "
        f"order. Follow the frames of {names[row]}.",
    )
    cell, high = (0.36, 0.2), 0.2
    tall = n * high

    def grid(name: str, x: float, y: float, title: str, *, named: bool = False) -> list[list[Box]]:
        values = grids[name]
        places = 2
        fills = (
            _lights(values)
            if name == "weights"
            else [["paper"] * values.shape[1] for _ in range(n)]
        )
        boxes = canvas.grid(
            x,
            y,
            fills,
            cell=cell,
            texts=[[f"{value:.{places}f}" for value in line] for line in values],
            rows=[_short(one) for one in names] if named else (),
        )
        canvas.label((x, y - 0.13), title, colour=style.INK)
        return boxes

    upper, gap = canvas.top + 0.28, 0.38
    rows = [upper + i * (tall + gap) for i in range(3)]
    left = 0.88
    states = grid("vectors", left, rows[1], "vectors", named=True)
    x = left + 2 * cell[0] + 0.7
    made = {
        name: grid(name, x, y, title)
        for name, y, title in zip(
            ("queries", "keys", "values"),
            rows,
            ("queries: to search", "keys: to be found", "values: to be read"),
            strict=True,
        )
    }
    name_of = {"queries": "query", "keys": "key", "values": "value"}
    for name, boxes in made.items():
        middle = boxes[n // 2][0]
        start = states[n // 2][-1]
        canvas.arrow(
            (start.right + 0.05, start.y), (middle.x - 0.05, middle.y), f"w_{name_of[name]}"
        )
    x += 2 * cell[0] + 0.52
    scores = grid("scores", x, (rows[0] + rows[1]) / 2, "scores: Q·K / √d")
    weights_at = x + n * cell[0] + 0.4
    shown = grid("weights", weights_at, (rows[0] + rows[1]) / 2, "weights: softmax")
    result = grid("result", weights_at, rows[2], "result: weighted sum")
    level = scores[n // 2][0].y
    for name in ("queries", "keys"):
        last = made[name][n // 2][-1]
        canvas.arrow((last.right + 0.05, last.y), (x - 0.05, level))
    canvas.arrow((scores[0][-1].right + 0.05, level), (weights_at - 0.05, level))
    last = made["values"][n // 2][-1]
    canvas.arrow((last.right + 0.05, last.y), (weights_at - 0.05, last.y))
    down = shown[-1][0]
    canvas.arrow((down.x + cell[0], down.bottom + 0.04), (down.x + cell[0], rows[2] - 0.24))
    for boxes in (states, made["queries"], scores, shown, result):
        line = boxes[row]
        canvas.box(
            line[0].x, line[0].y, line[-1].right - line[0].x, high,
            fill="none", edge=WARNING, rounded=False,
        )  # fmt: skip
    return canvas.finish()


def _lights(weights: np.ndarray) -> list[list[str]]:
    """Colours for weights, bright for the largest, as in the attention explorer."""
    colours = matplotlib.colormaps[COLOUR_MAP](weights**GAMMA)
    return [[matplotlib.colors.to_hex(colour) for colour in line] for line in colours]


def draw_heads(names: Sequence[str], weights: Any, *, row: int, d_model: int) -> Picture:
    """Draw how heads divide the width: a strip and a grid of weights each, joined at the end.

    Args:
        names: of the positions.
        weights: float (heads, positions, positions), of one layer; each row sums to one.
        row: the position whose weights are framed and named.
        d_model: how many numbers the queries of one position have.
    """
    grids = np.asarray(weights, dtype=float)
    heads, n = len(grids), len(names)
    best = grids[:, row].argmax(-1)
    reads = [
        f"{grid[row, at]:.0%} from {'itself' if at == row else _short(names[at])}"
        for grid, at in zip(grids, best, strict=True)
    ]
    most = grids[:, row].max(-1)
    strong, weak = int(most.argmax()), int(most.argmin())
    each = d_model // heads
    left, gap = 0.98, 0.3
    wide = (style.WIDTH - left - 0.2 - (heads - 1) * gap) / heads
    cell = min(wide / n, 0.19)
    canvas = Canvas(
        2.9 + n * cell,
        f"At {names[row]}, head {strong} takes {reads[strong]}, head {weak} {reads[weak]}",
        f"The {d_model} numbers of a query are cut into {heads} strips of {each}. Under each "
        f"strip is a grid of weights over the same {n} positions. For {names[row]}: "
        + "; ".join(f"head {i} takes {one}" for i, one in enumerate(reads))
        + f". What the heads read is joined to {d_model} numbers, which the output matrix mixes.",
        subtitle="A row for each query, a column for each key, in the same order. Bright: much "
        f"weight. Below: what {_short(names[row])} takes most.",
    )
    y = canvas.top + 0.16
    xs = [left + i * (wide + gap) for i in range(heads)]
    top = y + 0.52
    for i, (x, grid) in enumerate(zip(xs, grids, strict=True)):
        middle = x + n * cell / 2
        strip = canvas.box(
            x, y, n * cell, 0.3, f"head {i}: {each}", fill="encoder", size=style.SMALL
        )
        canvas.arrow(strip.side("bottom"), (middle, top - 0.04))
        boxes = canvas.grid(
            x, top, _lights(grid), cell=cell,
            rows=[_short(one) for one in names] if i == 0 else (),
        )  # fmt: skip
        line = boxes[row]
        canvas.box(line[0].x, line[0].y, n * cell, cell, fill="none", edge=WARNING, rounded=False)
        bottom = top + n * cell
        canvas.label((middle, bottom + 0.11), reads[i], align="center", colour=style.INK)
        canvas.arrow((middle, bottom + 0.22), (middle, bottom + 0.44))
        canvas.box(
            x, bottom + 0.46, n * cell, 0.28, f"{each} numbers", fill="encoder", size=style.SMALL
        )
    canvas.label((0.14, y + 0.09), f"{d_model} numbers", colour=style.INK)
    canvas.label((0.14, y + 0.24), "of a query", colour=style.INK)
    joined = top + n * cell + 0.46
    canvas.label((0.14, joined + 0.07), "what they", colour=style.INK)
    canvas.label((0.14, joined + 0.21), "read, joined", colour=style.INK)
    end = xs[-1] + n * cell
    matrix = canvas.box(
        left, joined + 0.46, end - left, 0.28, f"output matrix, {d_model} × {d_model}, mixes them",
        fill="paper", size=style.SMALL,
    )  # fmt: skip
    for x in xs:
        canvas.arrow((x + n * cell / 2, joined + 0.3), (x + n * cell / 2, matrix.y - 0.02))
    return canvas.finish()


def draw_scaling(
    widths: Sequence[int], unscaled: Sequence[float], scaled: Sequence[float], *, keys: int
) -> Picture:
    """Draw how much weight the best of some keys gets, with the scores scaled and not.

    Args:
        widths: of queries and keys.
        unscaled: the mean largest weight at each width, of the bare dot products.
        scaled: the same after they are divided by the root of the width.
        keys: how many keys share the weight.
    """
    title = (
        f"Unscaled, one of {keys} keys takes {unscaled[-1]:.0%} of the weight at width "
        f"{widths[-1]}; scaled, {scaled[-1]:.0%}"
    )
    canvas = Canvas(
        2.75,
        title,
        f"The largest of {keys} weights against the width: unscaled it rises from "
        f"{unscaled[0]:.2f} to {unscaled[-1]:.2f}, scaled it stays near {scaled[-1]:.2f}.",
    )
    axes = canvas.plot(0.75, canvas.top + 0.12, 5.2, 1.55)
    looks = zip(style.LINES, style.DASHES, strict=True)
    lines = zip((unscaled, scaled), ("Q·K", "Q·K / √d"), looks, strict=False)
    for values, name, (colour, dash) in lines:
        axes.plot(widths, values, color=colour, linestyle=dash, marker="o", markersize=3.5)
        axes.annotate(
            f"{name}: {values[-1]:.2f}", (widths[-1], values[-1]), (8, 0),
            textcoords="offset points", color=colour, va="center", size=style.TEXT,
        )  # fmt: skip
    equal = [1 / keys] * len(widths)
    axes.plot(widths, equal, color=style.MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.annotate(
        "all equal", (widths[-1], 1 / keys), (8, 0), textcoords="offset points",
        color=style.MUTED, va="center", size=style.SMALL,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(list(widths), [str(width) for width in widths])
    axes.set_ylim(0, 1.04)
    axes.set_xlabel("width d of a query")
    axes.set_ylabel("mean largest weight")
    return canvas.finish()


def draw_reach(names: Mapping[str, Sequence[str]], reaches: Mapping[str, Any]) -> Picture:
    """Draw at which positions the output changes when one position of the input does.

    Args:
        names: for each side those of its positions; "<PAD>" is padding.
        reaches: for each side a boolean array (positions that read, positions that changed).
    """
    grids = {name: np.asarray(values, dtype=bool) for name, values in reaches.items()}
    n = max(map(len, grids.values()))
    labels = {name: [_short(one) for one in names[name]] for name in grids}
    counts = {name: int(grid.sum()) for name, grid in grids.items()}
    ways = {
        name: "both ways" if np.triu(grid, 1).any() else "only what came before"
        for name, grid in grids.items()
    }
    title = ", ".join(f"the {name} reads {way}" for name, way in ways.items())
    title = title[0].upper() + title[1:]
    cell = min(0.29, 2.25 / n)
    high = max(
        style.text_width(one, style.SMALL, MONO) for side in labels.values() for one in side
    )
    left = 0.14 + high
    picture_height = 1.3 + high + n * cell + 0.6
    described = " and ".join(f"{count} in the {name}" for name, count in counts.items())
    canvas = Canvas(
        picture_height,
        title,
        f"Grids of {n} by {n} positions; a filled cell means that the output of the row depends "
        f"on the input of the column: {described}. The grey ones among them, where padding meets "
        "itself, may nevertheless not be read.",
        subtitle="Change the input at a column. Filled: the output at this row changes.",
    )
    y = canvas.top + 0.42 + high
    for i, (name, grid) in enumerate(grids.items()):
        x = left + 0.1 + i * (n * cell + left + 0.6)
        filled = [PALE if one == "<PAD>" else "code" for one in names[name]]
        fills = [[fill if one else "paper" for one, fill in zip(line, filled, strict=True)]
                 for line in grid.tolist()]  # fmt: skip
        canvas.grid(
            x, y, fills, cell=cell,
            rows=labels[name], columns=labels[name], turned=True,
        )  # fmt: skip
        canvas.label((x, y - high - 0.24), name, colour=style.INK,
                     weight="bold", size=style.TEXT)  # fmt: skip
    canvas.key(left + 0.1, y + n * cell + 0.26, {
        "code": "depends on it and may read it", "paper": "does not",
        PALE: "padding: depends on itself, may not be read",
    })  # fmt: skip
    return canvas.finish()


def draw_cross_attention(
    source: Sequence[str], target: Sequence[str], weights: Any, *, row: int, writes: str
) -> Picture:
    """Draw from where in the encoder one position of the decoder reads.

    Args:
        source: names of the encoder's positions.
        target: names of the decoder's positions.
        weights: float (source,), of one head at this position.
        row: the position in the decoder.
        writes: the token that it is about to write.
    """
    weights = np.asarray(weights, dtype=float)
    best = int(weights.argmax())
    n = max(len(source), len(target))
    wide = min(0.76, (style.WIDTH - 0.4) / n - 0.05)
    title = (
        f"About to write {writes}, the decoder takes {weights[best]:.0%} "
        f"from {source[best]} in the encoder"
    )
    canvas = Canvas(
        3.15,
        title,
        f"Lines from one position of the decoder to {len(source)} positions of the encoder, as "
        f"thick as their weights; the thickest, {weights[best]:.0%}, leads to {source[best]}.",
        subtitle="The query comes from below; keys and values come from above. The shares add up "
        f"to {weights.sum():.0%}.",
    )

    def strip(y: float, names: Sequence[str]) -> list[Box]:
        return canvas.strip(
            0.2, y, [_fit(one, wide) for one in names], fills=[_fill(one) for one in names],
            widths=wide,
        )  # fmt: skip

    above, below = strip(1.28, source), strip(2.5, target[: row + 1])
    if row + 1 < len(source):
        after = below[row].right + 0.05
        canvas.box(after, 2.5, wide, below[row].height, "?", fill="paper", size=style.SMALL)
    canvas.label((0.2, 0.99), "encoder: what it has read", colour=style.INK)
    canvas.label(
        (0.2, 2.95), "decoder: what it has written so far, and the next token", colour=style.INK
    )
    asks = below[row]
    for box, weight in zip(above, weights, strict=True):
        strongest = box is above[best]
        if weight >= 0.005:
            canvas.arrow(
                box.side("bottom"), asks.side("top"), head=False, thick=max(0.5, 9 * weight),
                colour=style.INK if strongest else "#b9bec7",
            )  # fmt: skip
        canvas.label(
            (box.middle[0], box.y - 0.1), f"{weight:.0%}", align="center",
            colour=style.INK if strongest else style.MUTED,
        )  # fmt: skip
    canvas.box(asks.x - 0.03, asks.y - 0.03, asks.width + 0.06, asks.height + 0.06,
               fill="none", edge=WARNING)  # fmt: skip
    return canvas.finish()


def _fit(name: str, wide: float) -> str:
    """As much of a name as a box of this width holds."""
    while style.text_width(name, style.SMALL, MONO) > wide - 0.04 and len(name) > 2:
        name = name.rstrip("…")[:-1] + "…"
    return name


# ---------------------------------------------------------------------- positions


def draw_positions(names: Sequence[str], table: Any, *, first: int = 2) -> Picture:
    """Draw which row of the table of positions is added to which vector.

    Args:
        names: of the vectors, prompts first.
        table: float (rows, d_model).
        first: the row of position zero.
    """
    rows, d_model = table.shape
    n = len(names)
    canvas = Canvas(
        2.45,
        f"Prompts count too: {names[0]} has position {min(range(n))}, {names[-1]} has {n - 1}",
        f"{n} vectors in a row, each above the row of the table of positions that is added to it: "
        f"row {first} for {names[0]} to row {first + n - 1} for {names[-1]}. The first {first} of "
        f"{rows} rows stand unused.",
        subtitle=f"The table has {rows} rows of {d_model} numbers. Its first {first} rows stand "
        "for no position.",
    )
    spare = 1 if rows > first + n else 0
    wide = min(0.66, (style.WIDTH - 0.4) / (n + first + spare) - 0.06)
    step = wide + 0.06
    x = 0.2 + first * step
    vectors = canvas.strip(
        x, canvas.top + 0.3, [_fit(one, wide) for one in names],
        fills=[_fill(one) for one in names], widths=wide, gap=0.06,
    )  # fmt: skip
    canvas.label((0.2, vectors[0].middle[1]), "vectors", colour=style.INK)
    y = vectors[0].bottom + 0.42
    texts = [f"row {i}" for i in range(first + n)] + ["…"] * spare
    fills = ["quiet"] * first + ["encoder"] * n + ["paper"] * spare
    boxes = [
        canvas.box(0.2 + i * step, y, wide, 0.3, text, fill=fill, size=style.SMALL)
        for i, (text, fill) in enumerate(zip(texts, fills, strict=True))
    ]
    for i, vector in enumerate(vectors):
        canvas.label((vector.middle[0], vector.bottom + 0.2), "+", align="center",
                     size=style.TITLE, colour=style.INK)  # fmt: skip
        canvas.label((vector.middle[0], y + 0.43), str(i), align="center", colour=style.INK)
    canvas.label(((boxes[0].x + boxes[first - 1].right) / 2, y - 0.12), "unused", align="center")
    canvas.label((0.2, y + 0.43), "position", colour=style.INK)
    return canvas.finish()
