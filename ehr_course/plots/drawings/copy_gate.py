"""The drawings of lesson 16 about its loss and its gate: a clamp, and the gate by kind of word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- a clamp in the loss


def draw_clamp(
    log_p: Sequence[float],
    losses: Mapping[str, Sequence[float]],
    gradients: Mapping[str, Sequence[float]],
    least: float,
) -> Picture:
    """Draw the loss of one word against the logarithm of its probability, and where it pushes.

    Args:
        log_p: the logarithms, in nats, in rising order.
        losses: by way of computing it, the loss at each of them; the clamped way first.
        gradients: by the same ways, the size of the gradient on the logarithm.
        least: the probability at which the first way clamps.
    """
    (clamped, safe) = losses
    x = np.asarray(log_p, dtype=float)
    flat = np.asarray(gradients[clamped], dtype=float) == 0
    from_here = float(x[flat].max()) if flat.any() else float("nan")
    floor = np.format_float_scientific(least, trim="-", exp_digits=1)
    canvas = Canvas(
        3.3,
        f"Below P = {floor} the clamped loss is flat: nothing pushes the word up",
        f"Two panels with the loss over log P from {x.min():.0f} to {x.max():.0f} nats. "
        f"Left, {clamped}: it stops at {max(losses[clamped]):.1f}, and its slope is "
        f"{min(gradients[clamped]):.0f} from {from_here:.0f} nats downwards. Right, {safe}: it "
        f"rises to {max(losses[safe]):.1f}, and its slope is {-min(gradients[safe]):.0f} "
        "everywhere. At three points an arrow shows where a step of training goes.",
        subtitle="The loss of one word. A step of training goes downhill, along the slope. The "
        "further left, the more wrong the model is.",
    )
    wide, y = 2.85, canvas.top + 0.34
    span = x.max() - x.min()
    at = [int(np.abs(x - (x.min() + share * span)).argmin()) for share in (0.12, 0.5, 0.82)]
    for i, way in enumerate((clamped, safe)):
        axes = canvas.plot(0.55 + i * (wide + 0.65), y, wide, 1.65, f"loss, {way}")
        axes.plot(x, losses[way], color=FILLS["code"], linewidth=2.2)
        axes.axvline(np.log(least), color=style.MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
        axes.text(np.log(least) + 0.02 * span, 0.03 * span, f"P = {floor}", size=style.SMALL,
                  color=style.MUTED)  # fmt: skip
        for place in at:
            slope = float(gradients[way][place])
            here = x[place], float(losses[way][place])
            stuck = slope == 0
            axes.plot(*here, "o", color=WARNING if stuck else style.INK, markersize=7, zorder=4)
            text = f"slope {-slope:.0f}" if slope else f"slope {slope:.0f}: no step"
            axes.text(here[0] + (-0.12 if stuck else 0.03) * span, here[1] + 0.07 * span, text,
                      size=style.SMALL, color=WARNING if stuck else style.INK)  # fmt: skip
            if not stuck:
                end = here[0] + 0.13 * span * slope, here[1] - 0.13 * span * slope
                axes.annotate("", end, here, arrowprops={"arrowstyle": "-|>", "lw": 2.2,
                                                         "color": style.INK})  # fmt: skip
        axes.set_xlabel("log P of the right word, in nats")
        axes.set_ylim(-0.04 * span, 1.2 * max(losses[safe]))
    return canvas.finish()


# ---------------------------------------------------------------------- the gate


def draw_gates(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    *,
    compare: Sequence[str] = (),
) -> Picture:
    """Draw p_gen of many written words, and beside it how much of each was generated.

    Args:
        before: for each kind of word its p_gen, which is known before the word, each 0 to 1.
        after: for the same words the share of their probability that was generated.
        compare: two kinds whose p_gen the title compares. Without them it names the kind
            that p_gen misjudges most.
    """
    kinds = [kind for kind, values in before.items() if len(values)]
    sides = [{kind: np.asarray(side[kind], dtype=float) for kind in kinds}
             for side in (before, after)]  # fmt: skip
    means = [{kind: float(values.mean()) for kind, values in side.items()} for side in sides]
    most = max(kinds, key=lambda kind: abs(means[0][kind] - means[1][kind]))
    title = (
        f"For {most}, p_gen is {means[0][most]:.2f}, and the share generated {means[1][most]:.2f}"
    )
    if compare and set(compare) <= set(kinds):
        said = [f"{means[0][kind]:.2f} at {kind}" for kind in compare]
        title = f"p_gen is {' but '.join(said)}"
    pitch = 0.4
    canvas = Canvas(
        1.5 + pitch * len(kinds),
        title,
        "Dots in two panels, in rows by kind of word: p_gen, and the share that was generated. "
        + " ".join(
            f"{kind}, {style.count(len(sides[0][kind]), 'word')}: mean p_gen "
            f"{means[0][kind]:.2f}, mean share {means[1][kind]:.2f}."
            for kind in kinds
        ),
        subtitle="Each dot is a word that the pointer wrote for a new note. Dark line and number: "
        "the mean of the row.",
    )
    names = {kind: f"{kind} ({len(sides[0][kind]):,})" for kind in kinds}
    room = max(style.text_width(name, style.SMALL) for name in names.values())
    left, gap = MARGIN + room + 0.2, 0.5
    wide = (canvas.width - MARGIN - left - 2 * gap) / 2
    y = canvas.top + 0.3
    titles = ("p_gen, before the word is known", "share generated, once it is known")
    for panel, (side, title) in enumerate(zip(sides, titles, strict=True)):
        x = left + panel * (wide + gap)
        axes = canvas.plot(x, y, wide, pitch * len(kinds))
        canvas.label((x, y - 0.13), title, colour=style.INK)
        for row, (kind, values) in enumerate(side.items()):
            # Fractions of multiples of the golden ratio fill a row evenly, each time the same.
            spread = (np.arange(len(values)) * 0.618034) % 1 * 0.56 - 0.28
            axes.plot(values, row + spread, ".", color=FILLS["code"], alpha=0.35, markersize=4)
            mean = means[panel][kind]
            axes.plot([mean] * 2, [row - 0.38, row + 0.38], color=style.INK, linewidth=2)
            at = y + pitch * (row + 0.5)
            canvas.label((x + wide + 0.08, at), f"{mean:.2f}", colour=style.INK)
            if panel == 0:
                canvas.label((left - 0.12, at), names[kind], align="right", colour=style.INK)
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.set_xlim(-0.03, 1.03)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    return canvas.finish()
