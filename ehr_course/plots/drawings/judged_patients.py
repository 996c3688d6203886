"""The drawings of lesson 19 about patients: what may be read, and neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- what may be read


def draw_leak(codes: Sequence[int], scored: int, perplexities: Mapping[str, float]) -> Picture:
    """Draw what a model reads while one visit is scored: the record itself, or the past alone.

    Args:
        codes: how many codes each visit of a patient has.
        scored: which visit is scored.
        perplexities: "leak" and "honest": what the two ways of reading give.
    """
    leak, honest = perplexities["leak"], perplexities["honest"]
    canvas = Canvas(
        3.0,
        f"Reading what is scored turns a perplexity of {honest:.1f} into {leak:.1f}",
        f"A patient with {len(codes)} visits, of which visit {scored + 1} is scored. With a leak "
        f"the encoder reads all visits: perplexity {leak:.1f}. Without one the decoder alone "
        f"reads, the visits before and the codes so far: {honest:.1f}.",
        subtitle="Hatched: scored; teal: read; pink: read too early; grey: hidden. "
        "The perplexities are those of all patients tried",
    )
    left, gap = 1.3, 0.16
    cell = min(0.3, (4.6 - gap * (len(codes) - 1)) / sum(codes))
    for number, (name, value) in enumerate(
        (("leak", leak), ("honest", honest)),
    ):
        y = canvas.top + 0.42 + 1.02 * number
        words = "a leak" if name == "leak" else "no leak"
        canvas.label((MARGIN, y + 0.17), words, colour=style.INK, weight="bold", size=style.TEXT)
        reads = "all" if name == "leak" else "nothing"
        canvas.label((MARGIN, y + 0.38), f"encoder: {reads}")
        x = left
        for i, n in enumerate(codes):
            start = x
            past, here = i < scored, i == scored
            read = name == "leak" or past
            fill = "trap" if here and read else "encoder" if past else "quiet"
            if read and not past and not here:
                fill = "trap"
            for place in range(n):
                one, hatched = fill, here
                if here and not read:  # one code is scored, and those before it are read
                    one, hatched = "encoder" if place < n // 2 else "quiet", place == n // 2
                canvas.box(x, y, cell, 0.34, fill=one, rounded=False, hatched=hatched)
                x += cell
            what = "code by code" if here else ("read" if read else "hidden")
            if here and read:
                what = "read and scored"
            at = (start + x) / 2
            canvas.label((at, y + 0.48), what, align="center", colour=style.INK)
            if not number:
                canvas.label((at, y - 0.12), f"visit {i + 1}", align="center")
            x += gap
        canvas.label((canvas.width - MARGIN, y + 0.17), f"perplexity {value:.1f}",
                     align="right", colour=style.INK, weight="bold", size=style.TEXT)  # fmt: skip
    return canvas.finish()


# ---------------------------------------------------------------------- neighbours


def _nearest(some: np.ndarray, others: np.ndarray, alone: bool) -> tuple[np.ndarray, np.ndarray]:
    far = np.linalg.norm(some[:, None] - others[None], axis=-1)
    if alone:
        np.fill_diagonal(far, np.inf)
    return far.min(axis=1), far.argmin(axis=1)


def draw_neighbours(cohorts: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Picture:
    """Draw real and synthetic patients as points of a plane, each with its nearest neighbour.

    Args:
        cohorts: by name, real and synthetic points, float (patients, 2) each, equally many.
    """
    accuracies, lines = {}, {}
    for name, (real, synthetic) in cohorts.items():
        both = np.concatenate([real, synthetic])
        lines[name] = [(both[i], both[j]) for i, j in enumerate(_nearest(both, both, True)[1])]
        sides = []
        for one, other in ((real, synthetic), (synthetic, real)):
            own, away = _nearest(one, one, True)[0], _nearest(one, other, False)[0]
            sides.append(float(((own < away) + 0.5 * (own == away)).mean()))
        accuracies[name] = sum(sides) / len(sides)
    canvas = Canvas(
        3.35,
        "The nearest neighbour tells copies from strangers",
        "Real patients (dots) and synthetic ones (diamonds) in a plane, a line from each to the "
        "nearest patient. Adversarial accuracy: "
        + ", ".join(f"{name} {value:.2f}" for name, value in accuracies.items())
        + ".",
        subtitle="Made-up patients in a plane; a line leads from each to its nearest neighbour",
    )
    gap, left = 0.25, MARGIN
    wide = (canvas.width - 2 * MARGIN - gap * (len(cohorts) - 1)) / len(cohorts)
    y, high = canvas.top + 0.32, 1.75
    for number, (name, (real, synthetic)) in enumerate(cohorts.items()):
        x = left + number * (wide + gap)
        axes = canvas.plot(x, y, wide, high, name)
        for start, end in lines[name]:
            axes.plot(*zip(start, end, strict=True), color=style.MUTED, linewidth=0.9, zorder=1)
        axes.plot(*real.T, "o", color=WARNING, markersize=4.5, zorder=2)
        axes.plot(*synthetic.T, "D", color=FILLS["code"], markerfacecolor=style.PAPER,
                  markersize=4, markeredgewidth=1.1, zorder=3)  # fmt: skip
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.12)
        for side in ("top", "right"):
            axes.spines[side].set_visible(True)
        canvas.label((x, y + high + 0.18), f"accuracy {accuracies[name]:.2f}", colour=style.INK,
                     weight="bold")  # fmt: skip
    at = y + high + 0.43
    axes = canvas.plot(left, at - 0.07, 0.2, 0.14)
    axes.axis("off")
    axes.plot([0.5], [0.5], "o", color=WARNING, markersize=5.5)
    canvas.label((left + 0.25, at), "real")
    axes = canvas.plot(left + 0.75, at - 0.07, 0.2, 0.14)
    axes.axis("off")
    axes.plot([0.5], [0.5], "D", color=FILLS["code"], markerfacecolor=style.PAPER, markersize=5)
    canvas.label((left + 1.0, at), "synthetic")
    return canvas.finish()
