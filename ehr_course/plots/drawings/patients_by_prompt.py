"""What trained models write for whom: codes by age, and codes that cannot be."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, Canvas
from ehr_course.plots.drawings.paired_bars import ROOM, draw_pairs
from ehr_course.plots.style import Picture

LINES = (("#440154", (0, (3, 1.2))), ("#2d708e", "solid"))
"""The colour and the dashes of the two groups of codes."""

FILLED = ("#b9a3bf", "#d5dbe1")
"""The colours of the same groups where they are those of the hospital."""

COLUMNS = 3

ROOM_FOR_NAMES = 18
"""How many letters of names the title has room for, in front of one more name."""

NEAR = 0.07
"""How far a share may be from the hospital's and still be near."""


def draw_by_age(
    hospital: Mapping[str, np.ndarray],
    models: Mapping[str, Mapping[str, np.ndarray]],
    impossible: Mapping[str, float],
    *,
    unseen: tuple[int, int],
    ends: tuple[tuple[int, int], tuple[int, int]],
    whose: str,
) -> Picture:
    """Draw the share of two groups of codes by age, a panel for each model.

    Args:
        hospital: two groups of codes by name, each float (ages,): their share of first codes.
        models: by the name of the model, the same of what it expects.
        impossible: by the name of the model, the share of its written codes that cannot be.
        unseen: first and last age that no model was trained on.
        ends: for each group, the first and last age at which nobody should have its codes.
        whose: whose codes they are: "women".
    """
    groups = list(hospital)
    good = [
        name
        for name, values in models.items()
        if all(
            abs(np.mean(values[group][low : high + 1] - hospital[group][low : high + 1])) < NEAR
            for group, (low, high) in zip(groups, ends, strict=True)
        )
    ]
    hole = slice(unseen[0], unseen[1] + 1)
    found = " and ".join(good) or "none"
    if len(found) > ROOM_FOR_NAMES:
        found = style.count(len(good), "model")
    room = max(models, key=lambda name: -np.mean(models[name][groups[1]][hole]))
    rows = -(-(len(models) + 1) // COLUMNS)
    canvas = Canvas(
        0.98 + 1.72 * rows,
        f"Right at both ends of life: {found}. Lost at ages never seen: {room}",
        f"A panel for each model, with the share of {groups[0]} and {groups[1]} among the first "
        f"codes of {whose} by age. "
        + " ".join(
            f"{name}: {impossible[name]:.1%} impossible, {groups[1]} at {unseen[0]} to "
            f"{unseen[1]} {np.mean(values[groups[1]][hole]):.0%}."
            for name, values in models.items()
        )
        + f" Hospital: {np.mean(hospital[groups[1]][hole]):.0%}.",
        subtitle=f"Share among the first codes of {whose}, by age. Areas: the hospital. Lines: "
        "what a model expects.",
    )
    wide = (canvas.width - 0.45 - MARGIN) / COLUMNS
    for i, (name, values) in enumerate(models.items()):
        x, y = 0.5 + i % COLUMNS * wide, canvas.top + 0.32 + i // COLUMNS * 1.72
        canvas.label((x, y - 0.13), name, colour=style.INK, weight="bold")
        canvas.label(
            (x + wide - 0.3, y - 0.13), f"{impossible[name]:.1%} impossible", align="right",
            colour=style.INK,
        )  # fmt: skip
        axes = canvas.plot(x, y, wide - 0.3, 1.0)
        ages = np.arange(len(hospital[groups[0]]))
        axes.axvspan(
            unseen[0] - 0.5, unseen[1] + 0.5, facecolor="none", edgecolor=style.MUTED,
            hatch="////", linewidth=0, alpha=0.6, zorder=3,
        )  # fmt: skip
        for group, (colour, dashes), fill in zip(groups, LINES, FILLED, strict=True):
            axes.fill_between(
                ages, hospital[group], step="mid", facecolor=fill, edgecolor=fill, linewidth=0.8
            )
            axes.plot(ages, values[group], color=colour, linestyle=dashes, linewidth=1.8, zorder=4)
        axes.set_xlim(-1.5, len(ages) - 0.5)
        axes.set_ylim(0, 1)
        axes.set_yticks(
            [0, 0.5, 1], [""] * 3 if i % COLUMNS else [f"{part:.0%}" for part in (0, 0.5, 1)]
        )
        axes.set_xticks(range(0, len(ages), 15))
        axes.tick_params(labelsize=style.SMALL)
        axes.set_xlabel("age", size=style.SMALL, labelpad=1)
    n = len(models)
    x, y = 0.5 + n % COLUMNS * wide, canvas.top + 0.3 + n // COLUMNS * 1.72
    for j, (group, (colour, dashes), fill) in enumerate(zip(groups, LINES, FILLED, strict=True)):
        axes = canvas.plot(x, y + 0.3 * j, 0.45, 0.2)
        axes.fill_between([0, 1], 0.45, facecolor=fill)
        axes.plot([0, 1], [0.7, 0.7], color=colour, linestyle=dashes, linewidth=1.8)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.axis("off")
        canvas.label((x + 0.55, y + 0.1 + 0.3 * j), group, colour=style.INK)
    axes = canvas.plot(x, y + 0.6, 0.45, 0.2)
    axes.axvspan(0, 1, facecolor="none", edgecolor=style.MUTED, hatch="////", linewidth=0)
    axes.axis("off")
    canvas.label((x + 0.55, y + 0.7), "ages left out of training", colour=style.INK)
    return canvas.finish()


def draw_impossible(shares: Mapping[str, tuple[float, float]]) -> Picture:
    """Draw the impossible codes of each model, for the patient asked for and for another one.

    Args:
        shares: for each model the share of its codes that age or sex rules out, of the patient
            whom it was asked for, and of another one.
    """
    least = min(other / max(own, 1e-9) for own, other in shares.values())
    title = (
        "Each of these models follows age and sex"
        if least > 1 / 0.7
        else "Not each of these models follows age and sex"
    )
    canvas = Canvas(
        1.21 + ROOM * len(shares),
        title,
        "Pairs of bars, the share of impossible codes for the patient asked for and for another: "
        + "; ".join(f"{name} {own:.1%} and {other:.1%}" for name, (own, other) in shares.items())
        + ".",
        subtitle="Of all codes that a model wrote: the share that age or sex rules out.",
    )
    key = ("for the patient asked for", "for another one")
    draw_pairs(canvas, 2.1, canvas.top + 0.12, shares, lambda share: f"{share:.1%}", key)
    return canvas.finish()
