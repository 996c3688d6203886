"""The drawings of lesson 15 of a gradient on its way: loss scale, clipping, weight decay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Box, Canvas
from ehr_course.plots.style import Picture, count


def power(number: float) -> str:
    """A power of two as such, and any other number as it is.

    >>> power(65536.0), power(3.0)
    ('2¹⁶', '3')
    """
    exponent = round(math.log2(number))
    if 2.0**exponent != number:
        return f"{number:,g}"
    return str(2) + str(exponent).translate(_RAISED)


_RAISED = {ord(str(i)): sign for i, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {ord("-"): "⁻"}


def draw_two_loops(losses: Mapping[str, Sequence[float]]) -> Picture:
    """Draw the losses of two trainings that differ in one line.

    Args:
        losses: by the name of the training, the loss before each step and after the last one.
            The first one is the right one.
    """
    right, wrong = losses
    falls = {name: values[0] - values[-1] for name, values in losses.items()}
    n_steps = len(losses[right]) - 1
    still = abs(falls[wrong]) < abs(falls[right]) / 20
    finding = "learns nothing" if still else "learns otherwise"
    canvas = Canvas(
        2.5,
        f"One line is missing, nothing complains, and the model {finding}",
        f"The loss of two trainings over {count(n_steps, 'step')}. {right}: from "
        f"{losses[right][0]:.2f} to {losses[right][-1]:.2f} nats. {wrong}: from "
        f"{losses[wrong][0]:.2f} to {losses[wrong][-1]:.2f}.",
    )
    axes = canvas.plot(0.75, canvas.top + 0.1, canvas.width - 2.6, 1.3)
    for name, colour, line in ((right, FILLS["code"], "solid"), (wrong, WARNING, "dashed")):
        axes.plot(losses[name], color=colour, linestyle=line, linewidth=2)
        axes.annotate(f"{name}:\n{losses[name][-1]:.2f}", (n_steps, losses[name][-1]), (8, 0),
                      textcoords="offset points", size=style.SMALL, color=colour,
                      va="center")  # fmt: skip
    axes.set_xlim(0, n_steps)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("steps taken")
    axes.set_ylabel("loss (nats)")
    return canvas.finish()


def draw_without_scale(
    losses: Mapping[str, Sequence[float]], lost: Mapping[str, float]
) -> Picture:
    """Draw the losses of a training that needs no loss scale, of one that lacks it, and has it.

    Args:
        losses: by what the training is, the loss before each step: with gradients as they are,
            with much smaller ones and no scale, and with those and a scale.
        lost: for the same trainings the share of the gradients that become 0.
    """
    small, lacking, scaled = losses
    ends = {name: values[-1] for name, values in losses.items()}
    worse = ends[lacking] > ends[scaled] + 0.05
    canvas = Canvas(
        2.75,
        "Without a loss scale, small gradients are lost"
        if worse
        else "With or without a loss scale, the training learns as much",
        f"The loss of three trainings over {len(losses[small])} steps. "
        + " ".join(
            f"{name}: {lost[name]:.1%} of the gradients become zero, "
            f"and the last loss is {end:.2f}."
            for name, end in ends.items()
        ),
    )
    axes = canvas.plot(0.75, canvas.top + 0.1, canvas.width - 3.1, 1.55)
    n_steps = len(losses[small])
    steps = np.arange(1, n_steps + 1)
    names = {name: f"{name}:\n{lost[name]:.1%} of gradients lost" for name in losses}
    axes.plot(steps, losses[small], color=FILLS["code"], linewidth=2, label=names[small])
    axes.plot(steps, losses[lacking], color=WARNING, linestyle="dashed", linewidth=2,
              label=names[lacking])  # fmt: skip
    axes.plot(steps[1::3], losses[scaled][1::3], "o", color=style.INK, markerfacecolor="none",
              markersize=8, clip_on=False, label=names[scaled])  # fmt: skip
    for name, colour in ((lacking, WARNING), (scaled, FILLS["code"])):
        axes.annotate(f"{ends[name]:.2f}", (n_steps, ends[name]), (8, 0),
                      textcoords="offset points", size=style.SMALL, color=colour,
                      va="center")  # fmt: skip
    axes.set_xlim(0.5, n_steps)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats)")
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper left", bbox_to_anchor=(1.1, 1),
                borderaxespad=0, labelspacing=1.0)  # fmt: skip
    return canvas.finish()


def draw_orders(norm: float, scale: float, max_norm: float) -> Picture:
    """Draw what a gradient goes through if it is clipped after or before it is unscaled.

    Args:
        norm: the length of the gradient that the backward pass gives, multiplied by the scale.
        scale: the loss scale.
        max_norm: the length that it is clipped to.
    """
    true = norm / scale
    right = min(true, max_norm)
    wrong = min(norm, max_norm) / scale
    canvas = Canvas(
        2.72,
        f"Clipped too early, the step is {right / wrong:,.0f} times too short",
        f"Two orders. The backward pass gives a gradient of length {_length(norm)}. Unscaled "
        f"first, it is {_length(true)} long, and {_length(right)} after clipping. Clipped first, "
        f"it is {_length(min(norm, max_norm))} long, and {_length(wrong)} after unscaling.",
        subtitle=f"Length of one gradient on its way to the step. The scale is {power(scale)}, "
        f"the limit {max_norm:g}.",
    )
    unscale, clip = f"unscale: ÷ {power(scale)}", f"clip at {max_norm:g}"
    rows = (
        ("right", FILLS["encoder"], ((unscale, true), (clip, right))),
        ("wrong", FILLS["trap"], ((clip, min(norm, max_norm)), (unscale, wrong))),
    )
    wide, high = 1.0, 0.42
    stop = canvas.width - MARGIN - wide
    for i, (name, fill, way) in enumerate(rows):
        y = canvas.top + 0.34 + 0.92 * i
        canvas.label((MARGIN, y + high / 2), name, size=style.TEXT, weight="bold",
                     colour=style.INK if not i else WARNING)  # fmt: skip
        box = _stage(canvas, 0.8, y, wide, high, norm, fill)
        canvas.label((box.x, box.bottom + 0.13), "after backward")
        for place, (what, length) in enumerate(way, 1):
            x = 0.8 + place * (stop - 0.8) / len(way)
            following = _stage(canvas, x, y, wide, high, length, fill)
            canvas.arrow(box.side("right"), following.side("left"), what, colour=style.INK)
            box = following
        canvas.label((box.x, box.bottom + 0.13), "to the optimizer")
    return canvas.finish()


def _stage(
    canvas: Canvas, x: float, y: float, wide: float, high: float, length: float, fill: str
) -> Box:
    return canvas.box(x, y, wide, high, _length(length), fill=fill)


def _length(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    decimals = 2 - math.floor(math.log10(value)) if 0 < value < 1e-3 else 0
    return f"{value:.{decimals}f}" if decimals else f"{value:.3g}"


def draw_decay(
    paths: Mapping[str, Sequence[Sequence[float]]], gradients: Sequence[float]
) -> Picture:
    """Draw how weight decay pulls weights towards 0, under several optimizers.

    Args:
        paths: by the name of the optimizer, the weights before the first step and after each.
        gradients: the size of the gradient of each weight. The first is the largest.
    """
    ends = {name: values[-1] for name, values in paths.items()}
    uneven = [name for name, end in ends.items() if max(end) - min(end) > 0.1]
    even = [name for name in ends if name not in uneven]
    finding = "Weight decay shrinks all weights alike"
    if uneven and even:
        finding = (
            f"{' and '.join(uneven)} spares the weight with large gradients, "
            f"{' and '.join(even)} does not"
        )
    words = "; ".join(
        f"{name}: " + ", ".join(f"{end:.2f}" for end in values) for name, values in ends.items()
    )
    n_steps = len(next(iter(paths.values()))) - 1
    sizes = ", ".join(f"{size:g}" for size in gradients)
    canvas = Canvas(
        2.62,
        finding,
        f"Two plots of weights over {n_steps} steps with weight decay, for gradients of the sizes "
        f"{sizes}. In the end the weights are, {words}.",
        subtitle="Weights whose gradients cancel out over two steps, so that decay moves them.",
    )
    wide = (canvas.width - 1.0) / len(paths) - 0.42
    looks = (FILLS["code"], "solid"), (WARNING, "dashed")
    for place, (name, values) in enumerate(paths.items()):
        x = 0.72 + place * (wide + 0.62)
        axes = canvas.plot(x, canvas.top + 0.24, wide, 1.16, title=name)
        columns = list(zip(*values, strict=True))
        for i, (column, size) in enumerate(zip(columns, gradients, strict=True)):
            colour, line = looks[i % len(looks)]
            axes.plot(
                column, color=colour, linestyle=line, linewidth=2, label=f"gradients of {size:g}"
            )
        axes.set_xlim(0, n_steps)
        axes.set_ylim(0, 1.08 * max(max(column) for column in columns))
        axes.set_xlabel("step")
        axes.set_yticks([0, 0.5, 1], [f"{v:g}" for v in (0, 0.5, 1)])
        if place == 0:
            axes.set_ylabel("weight")
        else:
            axes.legend(frameon=False, fontsize=style.SMALL, loc="lower left", borderaxespad=0.3)
    return canvas.finish()


def draw_scales_compared(losses: Mapping[str, Mapping[float, Sequence[float]]]) -> Picture:
    """Draw the same trainings with several loss scales, which should change nothing.

    Args:
        losses: by the name of the program, and by the loss scale, the loss before each step. The
            first program is the right one.
    """
    right, wrong = losses
    runs = {name: np.array(list(by_scale.values())) for name, by_scale in losses.items()}
    spread = {name: float(np.ptp(values, axis=0).max()) for name, values in runs.items()}
    told = spread[wrong] > 20 * spread[right]
    words = " ".join(
        f"{name}: "
        + ", ".join(f"with {power(scale)} the last loss is {run[-1]:.2f}"
                    for scale, run in by_scale.items())
        + f"; the losses differ by at most {spread[name]:.2f}."
        for name, by_scale in losses.items()
    )  # fmt: skip
    canvas = Canvas(
        2.85,
        f"The scale changes nothing {right}, but much {wrong}"
        if told
        else "The scale changes as much in both programs",
        f"Two panels, each with the losses of a program with several loss scales. {words}",
    )
    wide = (canvas.width - 1.0) / len(losses) - 0.55
    everything = np.concatenate(list(runs.values()))
    lowest, highest = float(everything.min()), float(everything.max())
    room = 0.08 * (highest - lowest)
    looks: tuple[dict[str, Any], ...] = (
        {"color": FILLS["code"], "linewidth": 4.5, "alpha": 0.45},
        {"color": style.INK, "linewidth": 1.6, "linestyle": "dashed"},
        {"color": WARNING, "linewidth": 2, "linestyle": "dotted"},
    )
    for place, (name, by_scale) in enumerate(losses.items()):
        x = 0.72 + place * (wide + 0.75)
        axes = canvas.plot(x, canvas.top + 0.3, wide, 1.4, title=name)
        for look, (scale, run) in zip(looks, by_scale.items(), strict=False):
            axes.plot(run, label=f"scale {power(scale)}", **look)
        axes.set_xlim(0, len(run) - 1)
        axes.set_ylim(lowest - room, highest + room)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("steps taken")
        if place == 0:
            axes.set_ylabel("loss (nats)")
            axes.legend(frameon=False, fontsize=style.SMALL, loc="lower left")
    return canvas.finish()
