"""The drawings of a model as a whole: its losses, its parts, and whether it reads its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import Box, Canvas, Point
from ehr_course.plots.drawings.paired_bars import draw_pairs
from ehr_course.plots.style import Picture

LAST = 10
"""Over how many steps a curve is averaged."""


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
    looks = zip(style.LINES, style.DASHES, strict=True)
    for (name, one), end, (colour, dash) in zip(losses.items(), ends, looks, strict=False):
        steps = np.arange(1, len(one) + 1)
        axes.plot(steps, one, color=colour, linewidth=0.7, alpha=0.35)
        window = min(LAST, len(one))
        smooth = np.convolve(one, np.ones(window) / window, "valid")
        middles = np.arange(len(smooth)) + (window + 1) / 2
        axes.plot(middles, smooth, color=colour, linestyle=dash, linewidth=1.8)
        ended = len(one) < max(map(len, losses.values()))  # others go on: write below them
        place = (len(one), _end(one) if ended else end)
        axes.plot(middles[-1], smooth[-1], "o", color=colour, markersize=5, clip_on=False)
        axes.annotate(
            f"model {name}: {_end(one):.1f} nats", place, (0, -17) if ended else (8, 0),
            textcoords="offset points", color=colour, va="center", size=style.TEXT,
        )  # fmt: skip
    axes.set_ylim(0, None)
    axes.set_xlim(0, max(map(len, losses.values())))
    axes.set_xlabel(f"step (thin: each step, thick: the mean of {LAST} steps around it)")
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
    key = ("the right record", "another patient's")
    draw_pairs(canvas, 1.75, canvas.top + 0.2, losses, lambda loss: f"{loss:.2f}", key)
    return canvas.finish()


ALIKE = 0.95
"""From this cosine on, all vectors count as pointing the same way."""


def draw_alike(cosines: Mapping[str, tuple[float, float]]) -> Picture:
    """Draw how alike the vectors of each encoder are before and after training, as bars.

    Args:
        cosines: for each model the mean cosine of two vectors, untrained and trained.
    """
    same = [name for name, (_, after) in cosines.items() if after > ALIKE]
    title = "In no model did training make all vectors of the encoder alike"
    if same:
        title = f"Training made all vectors of the encoder alike in {' and '.join(same)}"
    words = "; ".join(f"{name} {a:.2f} and {b:.2f}" for name, (a, b) in cosines.items())
    canvas = Canvas(
        0.95 + 0.62 * len(cosines),
        title,
        f"Pairs of bars, mean cosines of tokens' vectors before and after training: {words}.",
    )
    key = ("mean cosine before training", "after training")
    draw_pairs(canvas, 1.75, canvas.top + 0.2, cosines, lambda cosine: f"{cosine:.2f}", key)
    return canvas.finish()


# ---------------------------------------------------------------------- the whole model


def draw_outline(model: Any, *, tokens: int = 6) -> Picture:
    """Draw the two halves of BART with its prompts, and the one way from half to half.

    Args:
        model: a PromptBart; its sizes are read off its weights.
        tokens: how many tokens the record has.
    """
    n_tokens, d_model = model.get_input_embeddings().weight.shape
    n_prompts = model.config.n_prompts
    canvas = Canvas(
        3.05,
        "The encoder reads the damaged record, the decoder writes the mended one",
        f"Two rows. Above, {n_prompts} prompts and {tokens} tokens of the damaged record go into "
        f"the encoder. Below, {n_prompts} prompts and {tokens} tokens of the clean record, "
        f"shifted, go into the decoder, which gives scores for {n_tokens} tokens. A thick arrow "
        "leads from the encoder to the decoder.",
        subtitle=f"Each arrow carries vectors of {d_model} numbers, one for each position.",
    )
    upper, lower = 1.2, 2.42
    halves = {}
    for y, record, half in ((upper, "damaged", "encoder"), (lower, "clean, shifted", "decoder")):
        prompts, ids = _record(canvas, y, record, n_prompts, tokens)
        box = canvas.box(1.9, y - 0.12, 3.2, 0.58, half, fill=half)
        canvas.arrow(prompts.side("right"), box.side("left", 0.25))
        canvas.arrow(ids.side("right"), box.side("left", 0.75))
        halves[half] = box
    encoder, decoder = halves.values()
    canvas.arrow(encoder.side("bottom"), decoder.side("top"), thick=2.6, colour=style.INK)
    canvas.label((encoder.middle[0] + 0.14, (encoder.bottom + decoder.y) / 2),
                 "what the encoder read", colour=style.INK)  # fmt: skip
    scores = canvas.box(
        5.9, lower - 0.12, 1.5, 0.58, f"scores for\n{n_tokens} tokens", size=style.SMALL
    )
    canvas.arrow(decoder.side("right"), scores.side("left"))
    return canvas.finish()


def _record(canvas: Canvas, y: float, name: str, n_prompts: int, tokens: int) -> tuple[Box, Box]:
    """Draw what one half is given: its prompts above its tokens."""
    prompts = canvas.box(
        0.14, y - 0.12, 0.9, 0.26, f"{n_prompts} prompts", fill="prompt", size=style.SMALL
    )
    ids = canvas.box(0.14, y + 0.2, 0.9, 0.26, f"{tokens} tokens", fill="code", size=style.SMALL)
    canvas.label((0.14, y - 0.26), name, colour=style.INK)
    return prompts, ids


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
        "What goes into each part of a layer is added to what comes out",
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
    table = canvas.box(
        0.14, 2.14, 1.72, 0.42, f"one table for all:\n{n_tokens} × {d_model}", size=style.SMALL
    )
    out = canvas.box(
        6.5, lower - 0.12, 0.96, 0.58, f"scores for\n{n_tokens} tokens", size=style.SMALL
    )
    canvas.path([(table.right, 2.48), (6.98, 2.48), (6.98, out.y)], dashed=True)
    top = _layers(canvas, x, upper, encoder, wide=wide, read=None)
    low = _layers(canvas, x, lower, decoder, wide=wide, read=(top.right, upper + 0.17))
    for y, record in ((upper, "damaged"), (lower, "clean, shifted")):
        prompts, ids = _record(canvas, y, record, n_prompts, tokens)
        placed = canvas.box(1.24, y - 0.08, 0.62, 0.5, "+ position,\nnorm", size=style.SMALL)
        canvas.arrow(prompts.side("right"), placed.side("left", 0.2))
        canvas.arrow(ids.side("right"), placed.side("left", 0.8))
        canvas.arrow(placed.side("right"), (x + 0.12, y + 0.17), head=False)
    canvas.arrow((0.59, table.y), (0.59, upper + 0.46), dashed=True)
    side = table.x - 0.08
    canvas.path(
        [(table.x, table.middle[1]), (side, table.middle[1]), (side, lower + 0.33),
         (table.x, lower + 0.33)], dashed=True,
    )  # fmt: skip
    canvas.arrow((low.right, lower + 0.17), out.side("left"))
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
            # A white margin lets the thick line pass in front of those that it crosses.
            canvas.path(
                [(box.middle[0], level + 0.1), (box.middle[0], box.y - 0.04)],
                head=False, thick=7.0, colour=style.PAPER,
            )  # fmt: skip
            canvas.path(
                [read, (end, read[1]), (end, level), (box.middle[0], level)],
                head=False, thick=2.0, colour=style.INK,
            )  # fmt: skip
            canvas.arrow((box.middle[0], level), box.side("top"), thick=2.0, colour=style.INK)
            canvas.label((box.middle[0] + 0.1, level - 0.12), "keys and values", colour=style.INK)
        at = plus.right
    return frame
