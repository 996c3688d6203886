"""The drawings of lesson 16 about unseen names: how many are recovered, and the ids they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, Canvas
from ehr_course.plots.drawings.pointer_generator import narrow, percent
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- recovered names, by seed


def draw_recovered(shares: Mapping[str, Sequence[float]], n_names: int) -> Picture:
    """Draw how many of the unseen names each model writes, one dot for each seed.

    Args:
        shares: by kind of model, for each seed the share of the names, 0 to 1.
        n_names: how many different names there are.
    """
    means = {kind: float(np.mean(values)) for kind, values in shares.items()}
    best = max(means, key=lambda kind: means[kind])
    worst = min(means, key=lambda kind: means[kind])
    n_seeds = max(map(len, shares.values()))
    canvas = Canvas(
        0.95 + 0.55 * len(shares) + 0.2,
        f"{best[:1].upper()}{best[1:]}: {means[best]:.0%} of the unseen names. "
        f"{worst[:1].upper()}{worst[1:]}: {means[worst]:.0%}",
        "Marks on a line from none to all, one for each seed. "
        + " ".join(
            f"{kind}: {', '.join(percent(v) for v in values)}." for kind, values in shares.items()
        ),
        subtitle=f"The share of the new summaries that name the right drug, of {n_names} names "
        f"that no training note has. One mark for each of {style.count(n_seeds, 'seed')}.",
    )
    room = max(style.text_width(kind, style.SMALL) for kind in shares)
    left, right = MARGIN + room + 0.35, canvas.width - MARGIN - 0.95
    y = canvas.top + 0.3
    for kind, values in shares.items():
        trap = kind != best
        canvas.label((left - 0.2, y), kind, align="right", colour=style.INK)
        canvas.box(left, y - 0.005, right - left, 0.01, edge=style.FAINT, rounded=False)
        for i, value in enumerate(values):
            spread = (i - (len(values) - 1) / 2) * 0.13
            x = left + value * (right - left)
            canvas.box(x - 0.065, y - 0.065 + spread, 0.13, 0.13,
                       fill="trap" if trap else "code", edge=style.INK)  # fmt: skip
        middle = f"{means[kind]:.0%}"
        canvas.label((canvas.width - MARGIN, y), f"mean {middle}", align="right", colour=style.INK)
        y += 0.55
    for at in (0.0, 0.5, 1.0):
        canvas.label((left + at * (right - left), y - 0.15), f"{at:.0%}", align="center")
    return canvas.finish()


# ---------------------------------------------------------------------- extended ids


def draw_extended_ids(
    vocabulary: Sequence[str], notes: Sequence[tuple[Sequence[int], Sequence[str]]]
) -> Picture:
    """Draw the ids of a vocabulary as a strip, and behind it those that each note adds.

    Args:
        vocabulary: the words, in the order of their ids.
        notes: for each note its ids, and its words outside the vocabulary.
    """
    size = len(vocabulary)
    first = {oov[0] for _, oov in notes if oov}
    canvas = Canvas(
        1.1 + 0.76 * max(len(notes), 2),
        f"Id {size:,} means a different word in each note"
        if len(first) == len(notes) > 1
        else f"Behind the {size:,} words of the vocabulary stand those of the note",
        f"A strip of {size:,} ids up to {size - 1}, and after its end the extended ids of "
        f"{style.count(len(notes), 'note')}: "
        + "; ".join(
            ", ".join(f"{size + i} is {word}" for i, word in enumerate(oov)) or "none"
            for _, oov in notes
        )
        + ".",
        subtitle="Left: one vocabulary for all notes. Right, dashed: the extended ids of each "
        "note, in the order of first occurrence.",
    )
    y, x, wide = canvas.top + 0.44, MARGIN + 0.02, 0.52
    canvas.label((x, y - 0.14), f"the vocabulary: {size:,} ids", colour=style.INK)
    for i in [*range(5), size - 1]:
        if i == size - 1:
            canvas.label((x + 0.04, y + 0.15), "…")
            x += 0.24
        fill = "special" if vocabulary[i].startswith("<") else "paper"
        box = canvas.box(x, y, wide, 0.28, narrow(vocabulary[i], wide - 0.06), mono=True,
                         size=style.SMALL, fill=fill)  # fmt: skip
        canvas.label((box.middle[0], y + 0.39), f"{i}", align="center", mono=True)
        x += wide + 0.03
    start = x + 0.3
    for line, text in enumerate((
        f"Both LSTMs read every dashed word as {vocabulary[0]}.",
        "Its extended id is used to copy it, and to name it",
        "as the right word in the loss.",
    )):  # fmt: skip
        canvas.label((MARGIN + 0.02, y + 0.85 + 0.2 * line), text, colour=style.INK)
    for row, (ids, oov) in enumerate(notes):
        at = y + 0.76 * row
        canvas.label((start, at - 0.14), f"note {row + 1}, {len(ids)} words and marks",
                     colour=style.INK)  # fmt: skip
        left = start
        room = (canvas.width - MARGIN - start) / max(len(oov), 2) - 0.06
        whole = [style.text_width(word, style.SMALL, MONO) + 0.16 for word in oov]
        if sum(whole) + 0.06 * len(whole) <= canvas.width - MARGIN - start:
            room = max(whole, default=room)  # all of them fit as they are
        for i, word in enumerate(oov):
            cell = min(room, style.text_width(word, style.SMALL, MONO) + 0.16)
            cell = max(cell, style.text_width(f"{size + i}", style.SMALL, MONO) + 0.06)
            box = canvas.box(left, at, cell, 0.28, narrow(word, cell - 0.08), mono=True,
                             size=style.SMALL, fill="trap", dashed=True,
                             edge=style.INK)  # fmt: skip
            canvas.label((box.middle[0], at + 0.39), f"{size + i}", align="center", mono=True)
            left += cell + 0.06
    return canvas.finish()
