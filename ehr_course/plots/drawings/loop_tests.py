"""The drawings of lesson 15 of tests: of a resumed training, and of a loop that cannot be read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture, count


def draw_probe(
    row: Sequence[float],
    found: Mapping[str, Sequence[float]],
    *,
    rate: float,
    scale: float,
    max_norm: float,
) -> Picture:
    """Draw what training loops make of one chosen gradient.

    Args:
        row: the only row of the only batch; it is the gradient.
        found: by what the loop does, the weights after this batch. The first loop is sound.
        rate: the learning rate that the loops were given.
        scale: their loss scale.
        max_norm: the length that they should clip to.
    """
    moved = {name: math.hypot(*weights) for name, weights in found.items()}
    ends = "; ".join(f"{name}: {_vector(weights)}" for name, weights in found.items())
    sound, *broken = moved
    told = all(not math.isclose(moved[sound], moved[name], rel_tol=1e-3) for name in broken)
    canvas = Canvas(
        1.0 + 0.78 * len(found),
        "A gradient of your choice shows what a sealed loop does"
        if told
        else "On this gradient the loops look alike",
        f"One row, {_vector(row)}, of length {math.hypot(*row):g} goes into "
        f"{count(len(found), 'loop')} with the rate {rate:g}, the scale {scale:g} and the limit "
        f"{max_norm:g}. The weights that come out are, {ends}.",
        subtitle=f"rates=[{rate:g}], scale={scale:g}, max_norm={max_norm:g}; the weights begin "
        "at zero.",
    )
    top, pitch, high = canvas.top + 0.12, 0.78, 0.56
    given = canvas.box(MARGIN, top, 1.6, pitch * (len(found) - 1) + high,
                       f"one batch, one part,\none row: {_vector(row)}\n\n"
                       f"its gradient has\nthe length {math.hypot(*row):g}",
                       size=style.SMALL)  # fmt: skip
    for i, (name, weights) in enumerate(found.items()):
        y = top + pitch * i
        fill = "trap" if i else "encoder"
        loop = canvas.box(2.25, y, 1.75, high, name, fill=fill, size=style.SMALL, weight="bold")
        after = canvas.box(4.65, y, 1.25, high, _vector(weights), fill=fill)
        canvas.arrow((given.right, loop.middle[1]), loop.side("left"), colour=style.INK)
        canvas.arrow(loop.side("right"), after.side("left"), colour=style.INK)
        canvas.label((after.right + 0.12, after.middle[1]), f"moved by {moved[name]:.3g}",
                     size=style.TEXT, colour=WARNING if i else style.INK)  # fmt: skip
    return canvas.finish()


def _vector(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}".replace("-", "−") for number in numbers)


def draw_interrupted(n_steps: int, stop: int) -> Picture:
    """Draw the three trainings of a test of resumption as lanes of steps.

    Args:
        n_steps: how many steps the whole training has.
        stop: after how many of them the checkpoint is written.
    """
    canvas = Canvas(
        2.72,
        "A test of resumption trains three times",
        f"Three lanes of steps. One training takes all {n_steps}. One takes {stop}, writes a "
        f"checkpoint, and dies in step {stop + 1}. A new one reads the checkpoint and takes the "
        f"other {n_steps - stop}. The weights of the first and the last are compared.",
        subtitle="Each box is a step, numbered from one. The dashed one is lost.",
    )
    names = "never stopped", "stopped", "resumed"
    left, pitch, high = 1.35, 0.58, 0.34
    step = min(0.62, (canvas.width - left - 1.75) / n_steps)
    ends = []
    for lane, (name, steps) in enumerate(
        zip(
            names,
            (range(n_steps), range(stop + 1), range(stop, n_steps)),
            strict=True,
        )
    ):
        y = canvas.top + 0.2 + pitch * lane
        canvas.label((MARGIN, y + high / 2), name, size=style.TEXT, colour=style.INK)
        for i in steps:
            dies = lane == 1 and i == stop
            box = canvas.box(left + step * i, y, step - 0.08, high, f"{i + 1}",
                             fill="trap" if dies else "code", dashed=dies)  # fmt: skip
            if lane == 1 and i == stop - 1:
                saved = box
        if lane == 1:
            at = box.middle[0], box.bottom + 0.12
            canvas.label(at, "dies", colour=WARNING, align="center")
        ends.append(box)
    down = ends[2].y + high / 2
    canvas.path([saved.side("bottom"), (saved.middle[0], down),
                 (left + step * stop, down)], colour=style.INK)  # fmt: skip
    canvas.label((saved.middle[0] - 0.07, saved.bottom + 0.12), "checkpoint", align="right")
    whole, new = ends[0].side("right"), ends[2].side("right")
    out = whole[0] + 0.2
    canvas.path([whole, (out, whole[1]), (out, new[1]), new], colour=style.INK, head=False)
    canvas.label((out + 0.1, (whole[1] + new[1]) / 2), "same bits?", weight="bold",
                 colour=style.INK)  # fmt: skip
    return canvas.finish()
