"""The drawings of a model's size: its parameters, and the memory of a training step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, WARNING, Canvas
from ehr_course.plots.style import Picture


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
    axes.plot(place, bytes_ / 1e6, color=style.LINES[0], linewidth=1.4)
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
    look: dict[str, Any] = {
        "color": style.LINES[1],
        "linestyle": style.DASHES[1],
        "linewidth": 1.4,
    }
    axes.plot(bends, line, **look, label="predicted")
    axes.plot(sizes, values, color=style.LINES[0], marker="o", markersize=4, linestyle="none",
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
