"""The drawings of lesson 16 about its loss and its gate: a clamp, and the gate by kind of word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.drawings.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- a clamp in the loss


def draw_clamp(
    log_p: Sequence[float],
    losses: Mapping[str, Sequence[float]],
    gradients: Mapping[str, Sequence[float]],
) -> Picture:
    """Draw the loss of one word, and its gradient, against the logarithm of its probability.

    Args:
        log_p: the logarithms, in nats.
        losses: by way of computing it, the loss at each of them; the clamped way first.
        gradients: by the same ways, the size of the gradient on the logarithm.
    """
    (clamped, safe) = losses
    x = np.asarray(log_p, dtype=float)
    flat = np.asarray(gradients[clamped], dtype=float) == 0
    from_here = float(x[flat].max()) if flat.any() else float("nan")
    canvas = Canvas(
        3.05,
        f"Below a logarithm of about {from_here:.0f}, the clamped loss no longer teaches",
        f"Two curves over log P from {x.min():.0f} to {x.max():.0f} nats. Left, the loss: "
        f"{clamped} it stops at {max(losses[clamped]):.1f}, {safe} it rises to "
        f"{max(losses[safe]):.1f}. Right, the size of the gradient: {clamped} it is "
        f"{min(gradients[clamped]):.0f} from {from_here:.0f} nats downwards, {safe} it is "
        f"{min(gradients[safe]):.0f} everywhere.",
        subtitle="One word that can only be generated. To the left the model is more and more "
        "wrong.",
    )
    wide, y = 2.7, canvas.top + 0.34
    for i, (name, values) in enumerate((("loss, in nats", losses), ("gradient", gradients))):
        axes = canvas.plot(0.6 + i * (wide + 0.85), y, wide, 1.45, name)
        for way, dashes, colour in ((safe, "-", FILLS["code"]), (clamped, "--", WARNING)):
            axes.plot(x, values[way], dashes, color=colour, linewidth=2.2, label=way)
        axes.set_xlabel("log P of the right word, in nats")
        axes.set_ylim(bottom=min(0.0, -0.04 * max(values[safe])))
        if i == 0:
            axes.legend(frameon=False, fontsize=style.SMALL)
    return canvas.finish()


# ---------------------------------------------------------------------- the gate


def draw_gates(gates: Mapping[str, Sequence[float]], *, title: str = "") -> Picture:
    """Draw p_gen of many written words, one dot for each, in rows by kind of word.

    Args:
        gates: for each kind of word its p_gen, each 0 to 1; the row of the rare words first.
        title: the finding; without it the means of the first and last row.
    """
    rows = {kind: np.asarray(values, dtype=float) for kind, values in gates.items() if len(values)}
    kinds = list(rows)
    means = {kind: float(values.mean()) for kind, values in rows.items()}
    first, last = kinds[0], kinds[-1]
    canvas = Canvas(
        1.25 + 0.5 * len(rows) + 0.35,
        title or f"p_gen is {means[first]:.2f} for {first}, and {means[last]:.2f} for {last}",
        "Dots on a line from copying to generating, in rows. "
        + " ".join(
            f"{kind}: mean {means[kind]:.2f} of {style.count(len(values), 'word')}."
            for kind, values in rows.items()
        ),
        subtitle="Each dot is a word that the pointer wrote of a new note; the line in each row "
        "is the mean.",
    )
    room = max(style.text_width(kind, style.SMALL) for kind in kinds)
    left, right = MARGIN + room + 0.3, canvas.width - MARGIN - 1.35
    y, pitch = canvas.top + 0.12, 0.5
    axes = canvas.plot(left, y, right - left, pitch * len(rows))
    for row, (kind, values) in enumerate(rows.items()):
        # Fractions of multiples of the golden ratio fill a row evenly, the same way each time.
        spread = (np.arange(len(values)) * 0.618034) % 1 * 0.56 - 0.28
        axes.plot(values, row + spread, ".", color=FILLS["code"], alpha=0.35, markersize=4)
        axes.plot([means[kind]] * 2, [row - 0.38, row + 0.38], color=style.INK, linewidth=2)
        at = y + pitch * (row + 0.5)
        canvas.label((left - 0.15, at), kind, align="right", colour=style.INK)
        canvas.label((right + 0.15, at), f"{means[kind]:.2f} ({len(values):,})",
                     colour=style.INK)  # fmt: skip
    canvas.label((right + 0.15, y - 0.02), "mean (words)", vertical="bottom")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1.03)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("p_gen: copied at the left, generated at the right")
    return canvas.finish()
