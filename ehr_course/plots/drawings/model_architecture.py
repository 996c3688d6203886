"""The drawings of lesson 11: the model as a whole, attention, masks, and where the memory goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np

from ehr_course.plots import style
from ehr_course.plots.attention import COLOUR_MAP, GAMMA
from ehr_course.plots.drawings.canvas import FILLS, MONO, WARNING, Box, Canvas, Point
from ehr_course.plots.style import Picture

LINES = ("#440154", "#2d708e", "#5c6470")
"""The colours of curves; they differ in lightness too, and each has a line style of its own."""

DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))

LAST = 10
"""Over how many steps a curve is averaged."""

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


# ---------------------------------------------------------------------- two trainings


def draw_losses(losses: Mapping[str, Sequence[float]]) -> Picture:
    """Draw the loss of each training against its steps.

    Args:
        losses: for each model its loss in nats after each step.
    """
    lowest = min(losses, key=lambda name: _end(losses[name]))
    title = f"Model {lowest} has the lower loss, {_end(losses[lowest]):.1f} nats per token"
    words = "; ".join(
        f"model {name} begins at {one[0]:.1f} and ends at {_end(one):.1f} nats "
        f"after {len(one)} steps"
        for name, one in losses.items()
    )
    canvas = Canvas(2.9, title, f"A line for each training: {words}.")
    axes = canvas.plot(0.7, canvas.top + 0.12, 5.3, 1.72)
    ends = _apart([_end(one) for one in losses.values()], 0.1 * max(map(max, losses.values())))
    for (name, one), end, colour, dash in zip(losses.items(), ends, LINES, DASHES, strict=False):
        steps = np.arange(1, len(one) + 1)
        axes.plot(steps, one, color=colour, linewidth=0.7, alpha=0.35)
        smooth = [_end(one[:step]) for step in steps]
        axes.plot(steps, smooth, color=colour, linestyle=dash, linewidth=1.8)
        ended = len(one) < max(map(len, losses.values()))  # others go on: write below them
        place = (len(one), _end(one) if ended else end)
        axes.plot(len(one), _end(one), "o", color=colour, markersize=5, clip_on=False)
        axes.annotate(
            f"model {name}: {_end(one):.1f} nats", place, (0, -17) if ended else (8, 0),
            textcoords="offset points", color=colour, va="center", size=style.TEXT,
        )  # fmt: skip
    axes.set_ylim(0, None)
    axes.set_xlim(0, max(map(len, losses.values())))
    axes.set_xlabel(f"step (thin: each step, thick: the mean of the last {LAST})")
    axes.set_ylabel("loss per token (nats)")
    return canvas.finish()


def _end(losses: Sequence[float]) -> float:
    """The mean of the last few steps: single batches scatter."""
    last = losses[-LAST:]
    return sum(last) / len(last)


def _apart(values: Sequence[float], least: float) -> list[float]:
    """The values, moved so that two neighbours differ by at least so much."""
    moved = dict.fromkeys(range(len(values)), 0.0)
    previous = -float("inf")
    for place in sorted(moved, key=lambda i: values[i]):
        moved[place] = previous = max(values[place], previous + least)
    return [moved[i] for i in range(len(values))]


def draw_swap(losses: Mapping[str, tuple[float, float]]) -> Picture:
    """Draw the loss with the right record and with another patient's, as bars.

    Args:
        losses: for each model its loss in nats with its own records, and with exchanged ones.
    """
    blind = min(losses, key=lambda name: abs(losses[name][1] - losses[name][0]))
    own, another = losses[blind]
    title = f"{blind} does not notice whose record it reads: {own:.2f} and {another:.2f} nats"
    if another - own > 0.1:
        title = f"Every model gets worse with another patient's record, {blind} the least"
    title = title[0].upper() + title[1:]
    words = "; ".join(f"{name} {a:.2f} and {b:.2f} nats" for name, (a, b) in losses.items())
    canvas = Canvas(
        0.95 + 0.62 * len(losses),
        title,
        f"Pairs of bars, the loss with the right record and with another patient's: {words}.",
    )
    left, y = 1.75, canvas.top + 0.2
    inches = (canvas.width - left - 0.75) / max(map(max, losses.values()))
    for name, pair in losses.items():
        canvas.label((left - 0.12, y + 0.22), name, align="right", size=style.TEXT)
        for i, (value, fill) in enumerate(zip(pair, ("encoder", "trap"), strict=True)):
            row = y + 0.24 * i
            bar = canvas.box(
                left, row, value * inches, 0.2, fill=fill, rounded=False, hatched=bool(i)
            )
            canvas.label((bar.right + 0.07, row + 0.1), f"{value:.2f}", colour=style.INK)
        y += 0.62
    canvas.key(left, y + 0.02, {"encoder": "the right record", "trap": "another patient's"})
    return canvas.finish()


# ---------------------------------------------------------------------- the whole model


def draw_model(model: Any, *, tokens: int = 6) -> Picture:
    """Draw BART with its prompts: both halves, what passes by each part, and the shared table.

    Args:
        model: a PromptBart; its sizes are read off its weights.
        tokens: how many tokens the record has.
    """
    n_tokens, d_model = model.get_input_embeddings().weight.shape
    n_prompts = model.config.n_prompts
    length = n_prompts + tokens
    encoder, decoder = model.model.encoder.layers, model.model.decoder.layers
    canvas = Canvas(
        4.1,
        "The encoder reads the damaged record, the decoder writes the mended one",
        f"Two rows of boxes. The encoder has {len(encoder)} layers of self-attention and "
        f"feed-forward net. The decoder has {len(decoder)} layers with a cross-attention between "
        f"them, which reads the encoder. {n_prompts} prompts and {tokens} tokens make {length} "
        f"vectors of {d_model} numbers, and one table of {n_tokens} tokens serves both and the "
        "output.",
        subtitle=f"Every solid arrow carries a vector of {d_model} numbers for each position; "
        "dashed arrows show where the table is used.",
    )
    upper, lower = 1.32, 3.08
    x, wide = 2.06, 4.3
    top = _layers(canvas, x, upper, encoder, wide=wide, read=None)
    low = _layers(canvas, x, lower, decoder, wide=wide, read=(top.right, upper + 0.17))
    for y, record in ((upper, "damaged"), (lower, "clean, shifted")):
        prompts = canvas.box(
            0.14, y - 0.12, 0.9, 0.26, f"{n_prompts} prompts", fill="prompt", size=style.SMALL
        )
        ids = canvas.box(
            0.14, y + 0.2, 0.9, 0.26, f"{tokens} tokens", fill="code", size=style.SMALL
        )
        canvas.label((0.14, y - 0.26), record, colour=style.INK)
        placed = canvas.box(1.24, y - 0.08, 0.62, 0.5, "+ position,\nnorm", size=style.SMALL)
        canvas.arrow(prompts.side("right"), placed.side("left", 0.2))
        canvas.arrow(ids.side("right"), placed.side("left", 0.8))
        canvas.arrow(placed.side("right"), (x + 0.12, y + 0.17), head=False)
    table = canvas.box(
        0.14, 2.14, 1.72, 0.42, f"one table for all:\n{n_tokens} × {d_model}", size=style.SMALL
    )
    canvas.arrow((0.59, table.y), (0.59, upper + 0.46), dashed=True)
    side = table.x - 0.08
    canvas.path(
        [(table.x, table.middle[1]), (side, table.middle[1]), (side, lower + 0.33),
         (table.x, lower + 0.33)], dashed=True,
    )  # fmt: skip
    out = canvas.box(
        6.5, lower - 0.12, 0.96, 0.58, f"scores for\n{n_tokens} tokens", size=style.SMALL
    )
    canvas.arrow((low.right, lower + 0.17), out.side("left"))
    canvas.path([(table.right, 2.48), (6.98, 2.48), (6.98, out.y)], dashed=True)
    canvas.label((6.98, out.bottom + 0.14), f"{tokens} rows: prompts", align="center")
    canvas.label((6.98, out.bottom + 0.29), "are cut off", align="center")
    canvas.label((6.58, upper + 0.02), f"{length} × {d_model}", colour=style.INK)
    canvas.label((6.58, upper + 0.18), "what the")
    canvas.label((6.58, upper + 0.33), "encoder read")
    return canvas.finish()


def _layers(
    canvas: Canvas, x: float, y: float, layers: Any, *, wide: float, read: Point | None
) -> Box:
    """Draw one layer of a side in its frame, and return the frame."""
    fill = "encoder" if read is None else "decoder"
    parts = ["self-\nattention", "feed-\nforward"]
    if read is not None:
        parts = ["causal\nself-\nattention", "cross-\nattention", "feed-\nforward"]
    frame = Box(x, y - 0.38, wide, 0.98)
    side = fill
    canvas.frame(frame, style.count(len(layers), f"{side} layer"))
    step = (wide - 0.2) / len(parts)
    at = x + 0.12
    for i, part in enumerate(parts):
        box = canvas.box(at + 0.16, y - 0.08, step - 0.72, 0.5, part, fill=fill, size=style.SMALL)
        plus = canvas.box(box.right + 0.1, y - 0.02, 0.4, 0.38, "+\nnorm", size=style.SMALL)
        canvas.arrow((at, y + 0.17), box.side("left"))
        canvas.arrow(box.side("right"), plus.side("left"))
        canvas.path(
            [(at + 0.07, y + 0.17), (at + 0.07, y - 0.2), (plus.middle[0], y - 0.2)], head=False
        )
        canvas.arrow((plus.middle[0], y - 0.2), plus.side("top"))
        if read is not None and i == 1:
            end, level = read[0] + 0.09, frame.y - 0.42
            canvas.path(
                [read, (end, read[1]), (end, level), (box.middle[0], level)],
                head=False, thick=2.0, colour=style.INK,
            )  # fmt: skip
            canvas.arrow((box.middle[0], level), box.side("top"), thick=2.0, colour=style.INK)
            canvas.label((box.middle[0] + 0.1, level - 0.12), "keys and values", colour=style.INK)
        at = plus.right
    return frame


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
    lines = ((unscaled, "Q·K", LINES[0], DASHES[0]), (scaled, "Q·K / √d", LINES[1], DASHES[1]))
    for values, name, colour, dash in lines:
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
        f"on the input of the column: {described}. The pale ones among them, where padding meets "
        "itself, may nevertheless not be read.",
        subtitle="Change the input at a column. Filled: the output at this row changes.",
    )
    y = canvas.top + 0.42 + high
    for i, (name, grid) in enumerate(grids.items()):
        x = left + 0.1 + i * (n * cell + left + 0.6)
        filled = ["quiet" if one == "<PAD>" else "code" for one in names[name]]
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
        "quiet": "padding: depends on itself, may not be read",
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


# ---------------------------------------------------------------------- parameters and memory


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _areas(model: Any) -> dict[str, dict[str, tuple[int, str]]]:
    """The parameters of BART by part: for each column its boxes, their counts and fills."""
    inner = model.model

    def of(layers: Any, start: str) -> int:
        named = (pair for layer in layers for pair in layer.named_children())
        return sum(
            _count(part) for name, part in named if name.startswith(start) and "norm" not in name
        )

    columns: dict[str, dict[str, tuple[int, str]]] = {}
    for side, stack, fill in (
        ("encoder", inner.encoder, "encoder"),
        ("decoder", inner.decoder, "decoder"),
    ):
        boxes = {
            "feed-forward": (of(stack.layers, "fc"), fill),
            "self-attention": (of(stack.layers, "self_attn"), fill),
            "cross-attention": (of(stack.layers, "encoder_attn"), fill),
        }
        columns[f"{style.count(len(stack.layers), f'{side} layer')}"] = {
            name: box for name, box in boxes.items() if box[0]
        }
    columns["tables"] = {
        "tokens": (inner.shared.weight.numel(), "code"),
        "positions": (
            sum(_count(stack.embed_positions) for stack in (inner.encoder, inner.decoder)),
            "special",
        ),
    }
    return columns


def draw_parameters(model: Any) -> Picture:
    """Draw the parameters of BART as areas: a column for each side, and one for the tables.

    Args:
        model: a BartForConditionalGeneration, on any device, the meta device too.
    """
    total = _count(model)
    columns = _areas(model)
    drawn = sum(count for boxes in columns.values() for count, _ in boxes.values())
    sums = {name: sum(count for count, _ in boxes.values()) for name, boxes in columns.items()}
    norms = sum(_count(part) for part in model.modules() if type(part).__name__ == "LayerNorm")
    rest = total - drawn - norms
    ffn = sum(boxes["feed-forward"][0] for boxes in columns.values() if "feed-forward" in boxes)
    title = f"{total:,} parameters: {ffn / total:.0%} of them are feed-forward nets"
    canvas = Canvas(
        3.75,
        title,
        f"Areas in proportion to {total:,} parameters: "
        + "; ".join(f"{name} {count:,}" for name, count in sums.items())
        + f"; layer norms {norms:,}.",
        subtitle=f"Areas in proportion to counts. Not drawn: {norms:,} in layer norms"
        + (f", {rest:,} in the prompts" if rest else ""),
    )
    left, top, high = 0.14, canvas.top + 0.34, 2.35
    x, across = left, canvas.width - 2 * left - 0.08 * (len(columns) - 1)
    outside: dict[str, str] = {}
    for name, boxes in columns.items():
        wide = across * sums[name] / drawn
        canvas.label((x, top - 0.14), name, colour=style.INK)
        y = top
        for part, (count, fill) in boxes.items():
            tall = high * count / sums[name]
            roomy = tall > 0.36 and wide > 0.95
            text = f"{part}\n{count:,} ({count / total:.0%})" if roomy else ""
            canvas.box(x, y, wide, tall, text, fill=fill, size=style.SMALL, rounded=False)
            if not roomy:
                words = f"{part} {count:,} ({count / total:.0%})"
                outside[fill] = f"{outside[fill]}, {words}" if fill in outside else words
            y += tall
        x += wide + 0.08
    if outside:
        wide = sum(style.text_width(words, style.SMALL) + 0.52 for words in outside.values())
        canvas.key(max(left, canvas.width - wide), top + high + 0.15, outside)
    return canvas.finish()


def draw_step_memory(trace: Any, *, weights: int) -> Picture:
    """Draw the bytes of all tensors through one training step.

    Args:
        trace: a MemoryTrace of a model, with marks "forward", "backward" and "update".
        weights: how many bytes the model's parameters take.
    """
    bytes_, marks = np.asarray(trace.bytes, dtype=float), trace.marks
    peak = int(bytes_.argmax())
    part = next(name for name, end in marks.items() if peak < end)
    highest = bytes_.max() / 1e6
    update = bytes_[marks["backward"] :].max() / 1e6
    title = f"This step peaks at {highest:.0f} MB, as the backward pass begins"
    if part == "update":
        title = f"This step peaks at {highest:.0f} MB in its update"
    canvas = Canvas(
        3.15,
        title,
        f"A line of bytes over {len(bytes_)} operations: it begins at {bytes_[0] / 1e6:.0f} MB, "
        f"peaks at {highest:.0f} MB in the {part} part, takes {update:.0f} MB in the update and "
        f"ends at {bytes_[-1] / 1e6:.0f} MB; the weights alone are {weights / 1e6:.0f} MB.",
    )
    # Each part of the step gets a third of the width, however many operations it has.
    ends = [0, *marks.values()]
    place = np.interp(np.arange(len(bytes_)), ends, np.arange(len(ends)))
    axes = canvas.plot(0.75, canvas.top + 0.3, canvas.width - 1.0, 1.85)
    low = (bytes_[0] + np.asarray(trace.gradients, dtype=float)) / 1e6
    axes.fill_between(place, low, bytes_ / 1e6, color=FILLS["encoder"], linewidth=0)
    axes.fill_between(place, bytes_[0] / 1e6, low, color=FILLS["decoder"], linewidth=0)
    axes.plot(place, bytes_ / 1e6, color=LINES[0], linewidth=1.4)
    axes.axhspan(0, weights / 1e6, color=FILLS["code"], linewidth=0)
    axes.axhspan(weights / 1e6, bytes_[0] / 1e6, color=FILLS["special"], linewidth=0)
    axes.set_ylim(0, 1.12 * bytes_.max() / 1e6)
    axes.set_xlim(0, len(marks))
    axes.set_xticks(
        [i + 0.5 for i in range(len(marks))],
        [
            "forward: activations come",
            "backward: they go, gradients come",
            "update: gradients are used",
        ][: len(marks)],
    )
    axes.tick_params(axis="x", length=0)
    for i in range(1, len(marks)):
        axes.axvline(i, color=style.MUTED, linewidth=0.8, linestyle=(0, (3, 3)))
    axes.set_ylabel("MB of tensors")
    y = canvas.top + 0.1
    canvas.key(0.75, y, {
        "code": "weights", "special": "Adam's two moments",
        "decoder": "gradients", "encoder": "activations and their gradients",
    })  # fmt: skip
    return canvas.finish()


def draw_peaks(peaks: Mapping[int, int], *, weights: int, record: float) -> Picture:
    """Draw the peak of a step against the number of records in it, and what is predicted.

    Args:
        peaks: measured bytes by number of records, from few to many.
        weights: bytes of the model's parameters; gradients take as many, moments twice as many.
        record: bytes that each record adds as the backward pass begins.
    """
    sizes, values = list(peaks), [one / 1e6 for one in peaks.values()]
    knee = weights / record  # from here on they are more than the gradients
    title = f"Up to {style.count(int(knee), 'record')} the peak is flat"
    if knee < sizes[0]:
        title = "The peak rises from the first record on"
    canvas = Canvas(
        2.7,
        f"{title}; then each record adds {record / 1e6:.1f} MB",
        "Dots, the peak of a training step against the number of records: "
        + ", ".join(f"{n}: {one:.0f} MB" for n, one in zip(sizes, values, strict=True))
        + f". Two straight lines show the prediction, flat up to {knee:.1f} records.",
    )
    axes = canvas.plot(0.75, canvas.top + 0.12, 5.6, 1.5)
    bends = sorted({0, min(knee, sizes[-1]), sizes[-1]})
    line = [(3 * weights + max(weights, n * record)) / 1e6 for n in bends]
    axes.plot(bends, line, color=LINES[1], linestyle=DASHES[1], linewidth=1.4, label="predicted")
    axes.plot(sizes, values, color=LINES[0], marker="o", markersize=4, linestyle="none",
              label="measured")  # fmt: skip
    for n, one in zip(sizes, values, strict=True):
        axes.annotate(f"{one:.0f}", (n, one), (0, 8), textcoords="offset points", ha="center",
                      size=style.SMALL, color=style.INK)  # fmt: skip
    axes.set_ylim(0, 1.2 * max(values))
    axes.set_xlim(-0.03 * sizes[-1], 1.04 * sizes[-1])
    axes.set_xticks(sizes)
    axes.legend(loc="lower right", frameon=False, fontsize=style.SMALL)
    axes.set_xlabel("records in the batch")
    axes.set_ylabel("peak (MB)")
    return canvas.finish()


def draw_memory(parts: Mapping[str, Mapping[str, int]], *, machine: int) -> Picture:
    """Draw the peak of a training step, as stacked bars of gigabytes.

    Args:
        parts: for each bar its parts in bytes: weights, moments, gradients, and what grows
            with the batch. Of the last two the larger is drawn, as they are not there together.
        machine: the memory that is there, in bytes; a line is drawn at it.
    """
    names = list(next(iter(parts.values())))
    either = names[-2:]  # never there together: the peak has the larger of the two
    peaks = {
        name: {part: one[part] for part in (*names[:-2], max(either, key=one.__getitem__))}
        for name, one in parts.items()
    }
    totals = {name: sum(one.values()) for name, one in peaks.items()}
    fitting = [name for name, total in totals.items() if total <= machine]
    last = list(parts)[-1]
    share = peaks[last].get(names[-1], 0) / totals[last]
    room = f"{machine / 1e9:.0f} GB"
    title = f"{last} fit in {room}; {share:.0%} of it grows with the batch"
    if last not in fitting:
        most = f"{fitting[-1]} fit in {room}" if fitting else f"Nothing fits in {room}"
        title = f"{most}; {last} do not: {share:.0%} grows with the batch"
    canvas = Canvas(
        1.15 + 0.5 * len(parts),
        title,
        "Stacked bars of the peak: "
        + "; ".join(f"{name} {total / 1e9:.1f} GB" for name, total in totals.items())
        + f". The machine has {room}.",
    )
    left, y = 1.35, canvas.top + 0.42
    inches = (canvas.width - left - 0.8) / max(*totals.values(), machine)
    fills = ("code", "special", "decoder", "encoder")
    canvas.key(left, canvas.top + 0.12, dict(zip(fills, names, strict=False)))
    bottom = y
    for name, one in peaks.items():
        canvas.label((left - 0.1, y + 0.15), name, align="right", colour=style.INK)
        x = left
        for part, value in one.items():
            fill = fills[names.index(part)]
            canvas.box(x, y, value * inches, 0.3, fill=fill, rounded=False)
            x += value * inches
        canvas.label((x + 0.07, y + 0.15), f"{totals[name] / 1e9:.1f} GB", colour=style.INK)
        bottom = y + 0.3
        y += 0.5
    line = left + machine * inches
    canvas.arrow((line, canvas.top + 0.34), (line, bottom + 0.06), head=False, dashed=True,
                 colour=WARNING)  # fmt: skip
    canvas.label((line, bottom + 0.16), room, align="center", colour=WARNING)
    return canvas.finish()
