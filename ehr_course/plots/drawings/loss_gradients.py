"""The drawings of lesson 14 about gradients: what has a way back, and what a penalty changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

WAYS = {"p": "probabilities", "argmax": "argmax, comparison", "ids": "ids"}
"""What a number can be computed from, and how the drawing calls it."""


def draw_ways_back(made_of: Mapping[str, tuple[str, Any]]) -> Picture:
    """Draw which numbers have a way back to the weights of the model, and where it is cut.

    Args:
        made_of: for each number what it is computed from, one of WAYS, and its value, a scalar
            tensor.
    """
    order = sorted(made_of, key=lambda name: list(WAYS).index(made_of[name][0]))
    back = {name: bool(made_of[name][1].requires_grad) for name in order}
    with_way = [name for name in order if back[name]]
    without = [name for name in order if not back[name]]
    canvas = Canvas(
        1.0 + 0.5 * len(order),
        f"{len(with_way)} of these {len(order)} numbers can move a weight",
        f"Paths from the weights to {len(order)} numbers. With a gradient: "
        + (", ".join(with_way) or "none")
        + ". Cut off, because ids, argmax and comparisons give whole numbers: "
        + (", ".join(without) or "none")
        + ".",
        subtitle="Follow the lines from right to left. Where one is dashed, no gradient comes "
        "through.",
    )
    step, high = 0.5, 0.38
    y0 = canvas.top + 0.14
    left, wide = 4.15, canvas.width - 4.15 - MARGIN
    rows = {name: y0 + step * i for i, name in enumerate(order)}
    middles = {
        way: sum(rows[n] + high / 2 for n in names) / len(names)
        for way in WAYS
        if (names := [n for n in order if made_of[n][0] == way])
    }
    ways = {}
    for way, middle in middles.items():
        fill = "paper" if way == "p" else "trap"
        ways[way] = canvas.box(2.15, middle - high / 2, 1.45, high, WAYS[way], fill=fill,
                               size=style.SMALL)  # fmt: skip
    computed = [middles[way] for way in ("p", "argmax") if way in middles]
    centre = sum(computed) / max(len(computed), 1)
    weights = canvas.box(MARGIN, centre - high / 2, 0.75, high, "weights", fill="encoder",
                         size=style.SMALL)  # fmt: skip
    logits = canvas.box(1.12, centre - high / 2, 0.65, high, "logits", size=style.SMALL)
    canvas.arrow(weights.side("right"), logits.side("left"), colour=style.INK, thick=1.8)
    for way, box in ways.items():
        if way == "ids":
            data = canvas.box(MARGIN, box.y, 1.63, high, "the batch", fill="quiet",
                              size=style.SMALL)  # fmt: skip
            canvas.arrow(data.side("right"), box.side("left"), colour=WARNING, dashed=True)
            continue
        flows = way == "p"
        canvas.arrow(
            logits.side("right"), box.side("left"), colour=style.INK if flows else WARNING,
            thick=1.8 if flows else 1.2, dashed=not flows,
        )  # fmt: skip
    for name in order:
        way, value = made_of[name]
        box = canvas.box(
            left, rows[name], wide - 0.95, high, f"{name}: {float(value.detach()):.3g}",
            fill="special" if back[name] else "trap", size=style.SMALL,
        )  # fmt: skip
        canvas.arrow(
            ways[way].side("right"), box.side("left"),
            colour=style.INK if back[name] else WARNING, thick=1.8 if back[name] else 1.2,
            dashed=not back[name],
        )  # fmt: skip
        canvas.label(
            (box.right + 0.1, box.middle[1]), "gradient" if back[name] else "no gradient",
            colour=style.INK if back[name] else WARNING,
            weight="bold" if back[name] else "normal",
        )  # fmt: skip
    return canvas.finish()


# ---------------------------------------------------------------------- what a penalty changes


def draw_penalties(measured: Mapping[float, Sequence[float]], in_real: float) -> Picture:
    """Draw what a penalty changes at several weights.

    Args:
        measured: by the penalty's weight: the loss on new patients, the probability that goes to
            codes that would complete a strange pair, and the share of written patients with one.
        in_real: the share of new real patients with a strange pair.
    """
    weights = list(measured)
    first, last = weights[0], weights[-1]
    canvas = Canvas(
        1.54 + 0.34 * len(weights),
        f"Patients with a strange pair: {measured[first][2]:.0%} at weight {first:g}, "
        f"{measured[last][2]:.0%} at weight {last:g}",
        "Three groups of bars by the weight of the penalty: "
        + "; ".join(
            f"weight {weight:g}: loss {loss:.2f}, codes that complete a strange pair get "
            f"{mass:.2%}, {pairs:.1%} of the written patients have one"
            for weight, (loss, mass, pairs) in measured.items()
        )
        + f". Of real patients {in_real:.1%} have one.",
        subtitle="Each column has a scale of its own: compare bars within a column.",
    )
    left, y = 1.05, canvas.top + 0.32
    room = (canvas.width - left - MARGIN) / 3
    names = "loss on new patients", "probability of completing codes", "written patients with one"
    words = [
        (f"{loss:.2f} nats", f"{mass:.2%}", f"{pairs:.1%}")
        for loss, mass, pairs in measured.values()
    ]
    for i, weight in enumerate(weights):
        canvas.label((left - 0.12, y + 0.34 * i + 0.12), f"weight {weight:g}", align="right",
                     colour=style.INK)  # fmt: skip
    for j, name in enumerate(names):
        x = left + room * j
        canvas.label((x, y - 0.18), name, colour=style.INK)
        largest = max(values[j] for values in measured.values())
        if j == len(names) - 1:
            largest = max(largest, in_real)
        unit = (room - 0.9) / max(largest, 1e-9)
        for i, values in enumerate(measured.values()):
            bar = canvas.box(
                x, y + 0.34 * i, max(values[j] * unit, 0.01), 0.24, rounded=False,
                fill="encoder" if i < len(weights) - 1 else "code",
            )  # fmt: skip
            canvas.label((bar.right + 0.06, y + 0.34 * i + 0.12), words[i][j],
                         colour=style.INK)  # fmt: skip
    bar = canvas.box(x, y + 0.34 * len(weights), max(in_real * unit, 0.01), 0.24, fill="quiet",
                     rounded=False)  # fmt: skip
    canvas.label((bar.right + 0.06, bar.middle[1]), f"{in_real:.1%} of real patients",
                 colour=style.INK)  # fmt: skip
    return canvas.finish()
