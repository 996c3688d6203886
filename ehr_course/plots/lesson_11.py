"""The pictures of lesson 11 that are drawn box by box: attention, cross-attention, the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np

from ehr_course.plots import style
from ehr_course.plots.attention import COLOUR_MAP, GAMMA
from ehr_course.plots.canvas import WARNING, Box, Canvas, Point
from ehr_course.plots.style import Picture, count


def draw_attention_steps(
    names: Sequence[str], steps: Mapping[str, Any], *, row: int = 2
) -> Picture:
    """Draw attention on a few tokens, number by number.

    Args:
        names: of the tokens.
        steps: tensors by name: "vectors", "queries", "keys" and "values" of shape (tokens, d),
            "scores" and "weights" (tokens, tokens), "result" (tokens, d).
        row: the token whose way is framed.
    """
    grids = {name: np.asarray(values, dtype=float) for name, values in steps.items()}
    weights, n = grids["weights"], len(names)
    best = int(weights[row].argmax())
    canvas = Canvas(
        4.35,
        f"{names[row]} takes {weights[row, best]:.0%} of what it reads from "
        f"{'itself' if best == row else names[best]}",
        f"Seven grids of numbers for {n} tokens: {', '.join(steps)}. The weights of {names[row]} "
        f"are {', '.join(f'{value:.2f}' for value in weights[row])}.",
        subtitle="A row for each token; scores and weights have a column for each, in the same "
        f"order. Follow the frames of {names[row]}.",
    )
    wide, high = 0.36, 0.2
    step = n * high + 0.38
    made = 1.6 + 2 * wide
    scored = made + 2 * wide + 0.52
    weighed = scored + n * wide + 0.4
    upper = canvas.top + 0.28
    places = {
        "vectors": (0.88, upper + step, "vectors"),
        "queries": (made, upper, "queries: to search"),
        "keys": (made, upper + step, "keys: to be found"),
        "values": (made, upper + 2 * step, "values: to be read"),
        "scores": (scored, upper + step / 2, "scores: Q·K / √d"),
        "weights": (weighed, upper + step / 2, "weights: softmax"),
        "result": (weighed, upper + 2 * step, "result: weighted sum"),
    }
    for name, (x, y, title) in places.items():
        values = grids[name]
        fills = [["paper"] * values.shape[1]] * n
        if name == "weights":  # bright for the largest, as in the attention explorer
            colours = matplotlib.colormaps[COLOUR_MAP](values**GAMMA)
            fills = [[matplotlib.colors.to_hex(colour) for colour in line] for line in colours]
        texts = [[f"{value:.2f}" for value in line] for line in values]
        of = names if name == "vectors" else ()
        canvas.grid(x, y, fills, cell=(wide, high), texts=texts, rows=of)
        canvas.label((x, y - 0.13), title, colour=style.INK)
        if name not in ("keys", "values"):
            frame = x, y + row * high, values.shape[1] * wide, high
            canvas.box(*frame, fill="none", edge=WARNING, rounded=False)
    for start, end, words in (
        ("vectors", "queries", "w_query"),
        ("vectors", "keys", "w_key"),
        ("vectors", "values", "w_value"),
        ("queries", "scores", ""),
        ("keys", "scores", ""),
        ("scores", "weights", ""),
        ("values", "result", ""),
    ):
        (x, y, _), (to_x, to_y, _) = places[start], places[end]
        x += grids[start].shape[1] * wide + 0.05
        canvas.arrow((x, y + n * high / 2), (to_x - 0.05, to_y + n * high / 2), words)
    x, y, _ = places["weights"]
    canvas.arrow((x + wide, y + n * high + 0.04), (x + wide, upper + 2 * step - 0.24))
    return canvas.finish()


def draw_cross_attention(
    source: Sequence[str], target: Sequence[str], weights: Any, *, row: int
) -> Picture:
    """Draw from where in the encoder one position of the decoder reads.

    Args:
        source: names of the encoder's positions.
        target: names of the decoder's positions.
        weights: float (source,), of one head at this position.
        row: the position in the decoder; it is about to write what stands in the next one.
    """
    weights = np.asarray(weights, dtype=float)
    best = int(weights.argmax())
    canvas = Canvas(
        3.15,
        f"About to write {target[row + 1]}, where does the decoder look in the encoder?",
        f"Lines from one position of the decoder, {target[row]}, to {len(source)} positions of "
        f"the encoder, as thick as their weights; the thickest, {weights[best]:.0%}, leads to "
        f"{source[best]}.",
        subtitle="The query comes from below; keys and values come from above. The shares add up "
        f"to {weights.sum():.0%}.",
    )
    wide = min(0.76, (style.WIDTH - 0.4) / len(source) - 0.05)
    written = [*target[: row + 1], "?"]
    above, below = (
        canvas.strip(0.2, y, names, fills=[*map(_fill, names)], widths=wide)
        for y, names in ((1.28, source), (2.5, written))
    )
    canvas.label((0.2, 0.99), "encoder: what it has read", colour=style.INK)
    canvas.label((0.2, 2.95), "decoder: what it has written so far, and the next token",
                 colour=style.INK)  # fmt: skip
    asks = below[row]
    for box, weight in zip(above, weights, strict=True):
        colour = style.INK if box is above[best] else style.NO_CHAPTER
        if weight >= 0.005:
            canvas.arrow(box.side("bottom"), asks.side("top"), head=False,
                         thick=max(0.5, 9 * weight), colour=colour)  # fmt: skip
        canvas.label((box.middle[0], box.y - 0.1), f"{weight:.0%}", align="center",
                     colour=style.INK)  # fmt: skip
    canvas.box(asks.x - 0.03, asks.y - 0.03, asks.width + 0.06, asks.height + 0.06,
               fill="none", edge=WARNING)  # fmt: skip
    return canvas.finish()


def _fill(name: str) -> str:
    if name == "?":
        return "paper"
    if name.startswith("<"):
        return "special"
    return "prompt" if name.split()[0] in ("age", "sex") else "code"


def draw_model(model: Any, *, tokens: int = 6) -> Picture:
    """Draw BART with its prompts: both halves, what passes by each part, and the shared table.

    Args:
        model: a PromptBart; its sizes are read off its weights.
        tokens: how many tokens the record has.
    """
    n_tokens, d_model = model.get_input_embeddings().weight.shape
    n_prompts = model.config.n_prompts
    encoder, decoder = len(model.model.encoder.layers), len(model.model.decoder.layers)
    canvas = Canvas(
        4.1,
        "What goes into each part of a layer is added to what comes out",
        f"Two rows of boxes. The encoder has {count(encoder, 'layer')} of self-attention and "
        f"feed-forward net. The decoder has {count(decoder, 'layer')} with a cross-attention "
        f"between them, which reads the encoder. {n_prompts} prompts and {tokens} tokens make "
        f"{n_prompts + tokens} vectors of {d_model} numbers, and one table of {n_tokens} tokens "
        "serves both and the output.",
        subtitle=f"Every solid arrow carries a vector of {d_model} numbers for each position; "
        "dashed arrows show where the table is used.",
    )
    upper, lower = 1.32, 3.08
    table = canvas.box(0.14, 2.14, 1.72, 0.42, f"one table for all:\n{n_tokens} × {d_model}",
                       size=style.SMALL)  # fmt: skip
    out = canvas.box(6.5, lower - 0.12, 0.96, 0.58, f"scores for\n{n_tokens} tokens",
                     size=style.SMALL)  # fmt: skip
    canvas.path([(table.right, 2.48), (6.98, 2.48), (6.98, out.y)], dashed=True)
    canvas.arrow((0.59, table.y), (0.59, upper + 0.46), dashed=True)
    left, middle = table.x - 0.08, table.middle[1]
    way = [(table.x, middle), (left, middle), (left, lower + 0.33), (table.x, lower + 0.33)]
    canvas.path(way, dashed=True)
    _layers(canvas, upper, encoder, "encoder", ("self-\nattention", "feed-\nforward"))
    parts = "causal\nself-\nattention", "cross-\nattention", "feed-\nforward"
    boxes = _layers(canvas, lower, decoder, "decoder", parts)
    _keys_and_values(canvas, upper + 0.17, boxes[1].side("top"))
    for y, record in ((upper, "damaged"), (lower, "clean, shifted")):
        canvas.label((0.14, y - 0.26), record, colour=style.INK)
        placed = canvas.box(1.24, y - 0.08, 0.62, 0.5, "+ position,\nnorm", size=style.SMALL)
        canvas.arrow(placed.side("right"), (LAYERS + 0.12, y + 0.17), head=False)
        for down, words, fill, at in (
            (-0.12, f"{n_prompts} prompts", "prompt", 0.2),
            (0.2, f"{tokens} tokens", "code", 0.8),
        ):
            box = canvas.box(0.14, y + down, 0.9, 0.26, words, fill=fill, size=style.SMALL)
            canvas.arrow(box.side("right"), placed.side("left", at))
    canvas.arrow((LAYERS + WIDE, lower + 0.17), out.side("left"))
    canvas.label((6.98, out.bottom + 0.22), f"{tokens} rows: prompts\nare cut off",
                 align="center")  # fmt: skip
    canvas.label((6.58, upper + 0.02), f"{n_prompts + tokens} × {d_model}", colour=style.INK)
    canvas.label((6.58, upper + 0.26), "what the\nencoder read")
    return canvas.finish()


LAYERS, WIDE = 2.06, 4.3
"""Where the frame of the layers begins, and how wide it is, in inches."""


def _layers(canvas: Canvas, y: float, n: int, side: str, parts: Sequence[str]) -> list[Box]:
    """Draw one layer of a side in its frame, each part with the line that passes by it."""
    canvas.frame(Box(LAYERS, y - 0.38, WIDE, 0.98), count(n, f"{side} layer"))
    step, at, boxes = (WIDE - 0.2) / len(parts), LAYERS + 0.12, []
    for part in parts:
        box = canvas.box(at + 0.16, y - 0.08, step - 0.72, 0.5, part, fill=side, size=style.SMALL)
        plus = canvas.box(box.right + 0.1, y - 0.02, 0.4, 0.38, "+\nnorm", size=style.SMALL)
        canvas.arrow((at, y + 0.17), box.side("left"))
        canvas.arrow(box.side("right"), plus.side("left"))
        over = y - 0.2
        canvas.path([(at + 0.07, y + 0.17), (at + 0.07, over), (plus.middle[0], over),
                     plus.side("top")])  # fmt: skip
        at = plus.right
        boxes.append(box)
    return boxes


def _keys_and_values(canvas: Canvas, y: float, end: Point) -> None:
    """Draw the thick way from the encoder's last layer to a part of the decoder."""
    out, level = LAYERS + WIDE + 0.09, end[1] - 0.72
    # A white margin lets it pass in front of the lines that it crosses.
    canvas.path([(end[0], level + 0.1), (end[0], end[1] - 0.04)], head=False, thick=7.0,
                colour=style.PAPER)  # fmt: skip
    canvas.path([(LAYERS + WIDE, y), (out, y), (out, level), (end[0], level), end], thick=2.0,
                colour=style.INK)  # fmt: skip
    canvas.label((end[0] + 0.1, level - 0.12), "keys and values", colour=style.INK)
