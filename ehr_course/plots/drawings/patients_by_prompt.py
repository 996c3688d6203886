"""What trained models write for whom: chapters by age, and codes that cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.drawings.canvas import Canvas
from ehr_course.plots.style import Picture

NAMED = 6
"""How many chapters have a colour of their own."""


def elsewhere(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The share of each row of probabilities that would have to move to make both alike."""
    return np.abs(one - other).sum(axis=1) / 2


def draw_chapters(
    shares: Mapping[str, np.ndarray], chapters: Sequence[int], groups: Sequence[str], *, whose: str
) -> Picture:
    """Draw the chapters of first codes by age as areas, of a hospital and beside it of models.

    Args:
        shares: by name, the hospital first: float (age groups, chapters); rows sum to 1.
        chapters: the number of each column.
        groups: the name of each age group.
        whose: whose codes they are: "women".
    """
    hospital, *models = shares
    real = np.asarray(shares[hospital], dtype=float)
    named = np.sort(np.argsort(-real.sum(axis=0), kind="stable")[:NAMED])
    rest = [i for i in range(real.shape[1]) if i not in named]
    away = {name: elsewhere(real, shares[name]).mean() for name in models}
    canvas = Canvas(
        3.9,
        "Misplaced: " + ", ".join(f"{share:.0%} with {name}" for name, share in away.items()),
        f"Areas of the chapters of first codes of {whose} by age, of {' and '.join(shares)}. "
        + "; ".join(f"{name}: {share:.0%} misplaced" for name, share in away.items())
        + f". In the hospital {style.chapter_name(chapters[int(real[0].argmax())])} leads in the "
        f"group {groups[0]}.",
        subtitle=f"The chapter of the first code of {whose}, by age. The key names the areas "
        "from the bottom up.",
    )
    room = (canvas.width - 0.55) / len(shares)
    edges = np.arange(len(groups) + 1) - 0.5
    colours = [style.chapter_colour(chapters[i]) for i in named] + [style.NO_CHAPTER]
    for i, (name, values) in enumerate(shares.items()):
        axes = canvas.plot(0.55 + i * room, canvas.top + 0.3, room - 0.2, 1.6)
        share = away.get(name)
        words = name if share is None else f"{name}: {share:.0%} misplaced"
        canvas.label((0.55 + i * room, canvas.top + 0.17), words, colour=style.INK)
        values = np.asarray(values, dtype=float)
        parts = np.column_stack([values[:, named], values[:, rest].sum(axis=1)])
        tops = np.cumsum(parts, axis=1)
        bottoms = tops - parts
        for j, colour in enumerate(colours):
            axes.stairs(
                tops[:, j], edges, baseline=bottoms[:, j], fill=True, facecolor=colour,
                edgecolor=style.PAPER, linewidth=0.5,
            )  # fmt: skip
        for j, column in enumerate(named):
            place = int(parts[:, j].argmax())
            middle = tops[place, j] - parts[place, j] / 2
            words = style.chapter_name(chapters[column])
            if parts[place, j] * 1.6 > 1.1 * style.text_width(words, style.SMALL):
                ink = style.ink_on(colours[j])
                axes.text(
                    place, middle, words, rotation=90, size=style.SMALL, color=ink,
                    ha="center", va="center",
                )  # fmt: skip
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, 1)
        axes.set_yticks(
            [0, 0.5, 1], [f"{part:.0%}" for part in (0, 0.5, 1)] if not i else [""] * 3
        )
        axes.set_xticks(range(len(groups)), groups, rotation=90)
        axes.set_xlabel("age")
    entries = {
        colour: style.chapter_name(chapters[i]) for colour, i in zip(colours, named, strict=False)
    }
    entries[style.NO_CHAPTER] = "all other chapters"
    entries = list(entries.items())
    half = (len(entries) + 1) // 2
    for row, part in enumerate((entries[:half], entries[half:])):
        canvas.key(0.55, canvas.top + 2.78 + 0.24 * row, dict(part))
    return canvas.finish()


def draw_impossible(shares: Mapping[str, tuple[float, float]]) -> Picture:
    """Draw the impossible codes of each model, for the patient asked for and for another one.

    Args:
        shares: for each model the share of its codes that age or sex rules out, of the patient
            whom it was asked for, and of another one.
    """
    best = min(shares, key=lambda name: shares[name][0])
    least = min(other / max(own, 1e-9) for own, other in shares.values())
    title = (
        "Every model follows age and sex"
        if least > 1 / 0.7
        else "Not every model follows age and sex"
    )
    canvas = Canvas(
        1.25 + 0.6 * len(shares),
        f"{title}, fewest mistakes: {best}",
        "Pairs of bars, the share of impossible codes for the patient asked for and for another: "
        + "; ".join(f"{name} {own:.1%} and {other:.1%}" for name, (own, other) in shares.items())
        + ".",
        subtitle="Of all codes that a model wrote: the share that age or sex rules out.",
    )
    left, y = 2.1, canvas.top + 0.12
    inches = (canvas.width - left - 0.75) / max(map(max, shares.values()))
    for name, pair in shares.items():
        canvas.label((left - 0.12, y + 0.22), name, align="right", size=style.TEXT)
        for i, (value, fill) in enumerate(zip(pair, ("encoder", "trap"), strict=True)):
            row = y + 0.24 * i
            bar = canvas.box(
                left, row, max(value * inches, 0.01), 0.2, fill=fill, rounded=False,
                hatched=bool(i),
            )  # fmt: skip
            canvas.label((bar.right + 0.07, row + 0.1), f"{value:.1%}", colour=style.INK)
        y += 0.6
    canvas.key(left, y + 0.06, {"encoder": "for the patient asked for", "trap": "for another one"})
    return canvas.finish()
