"""What heads answer when the prompt lies, and how sure the codes make them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, Canvas
from ehr_course.plots.style import Picture

Shares = Mapping[str, Sequence[float]]
"""By what the head reads: how often it says woman when the prompt says man, and when woman."""

OBEYS = 0.5
"""From this difference on between the two columns, answers are said to follow the prompt."""


def follows(shares: Shares) -> bool:
    """Whether the answers change with the prompt, whatever codes are read.

    >>> follows({"codes of men": (0.02, 0.97)}), follows({"codes of men": (0.4, 0.4)})
    (True, False)
    """
    return min(told_woman - told_man for told_man, told_woman in shares.values()) > OBEYS


def draw_lies(heads: Mapping[str, Shares]) -> Picture:
    """Draw how often each head says woman, by what it reads and by what the prompt says.

    Args:
        heads: by the name of the head, its shares; all have the same rows.
    """
    rows = list(next(iter(heads.values())))
    obeying = [name for name, shares in heads.items() if follows(shares)]
    if len(heads) == 1:
        title = (
            "The head names the sex in the prompt, whatever the codes are"
            if obeying
            else "The head does not always name the sex in the prompt"
        )
    elif obeying and len(obeying) < len(heads):
        others = [name for name in heads if name not in obeying]
        title = f"All but the {' and the '.join(others)} follow the prompt"
    else:
        title = f"The prompt decides in {len(obeying)} of {len(heads)} heads"
    words = "; ".join(
        f"{name}: "
        + ", ".join(f"{row} {man:.0%} and {woman:.0%}" for row, (man, woman) in shares.items())
        for name, shares in heads.items()
    )
    lines = {name: textwrap.wrap(name, 16) if len(heads) > 3 else [name] for name in heads}
    more = 0.16 * (max(map(len, lines.values())) - 1)
    canvas = Canvas(
        1.62 + more + 0.4 * len(rows),
        title,
        "How often a head answers woman when the prompt says man, and when it says woman. "
        f"{words[0].upper()}{words[1:]}.",
        subtitle="How often the head answers “woman”: the darker, the more often.",
    )
    left, high = 1.62, 0.4
    room = (canvas.width - left - MARGIN) / len(heads)
    wide = min(2.2, (room - 0.24) / 2)
    y = canvas.top + 0.62 + more
    for i, (name, shares) in enumerate(heads.items()):
        x = left + i * room
        values = np.array([shares[row] for row in rows], dtype=float)  # (rows, 2)
        canvas.label(
            (x, canvas.top + 0.06), "\n".join(lines[name]), colour=style.INK, weight="bold",
            vertical="top",
        )  # fmt: skip
        canvas.box(x - 0.01, y - 0.01, 2 * wide + 0.02, high * len(rows) + 0.02, rounded=False)
        cells = canvas.grid(
            x, y, [[_tint(value) for value in row] for row in values], cell=(wide, high),
            texts=[[f"{value:.0%}" for value in row] for row in values], size=style.TEXT,
        )  # fmt: skip
        for cell, told in zip(cells[0], ("man", "woman"), strict=True):
            canvas.label((cell.middle[0], y - 0.12), f"“{told}”", align="center", colour=style.INK)
        if not i:
            canvas.label((left - 0.1, y - 0.12), "the prompt says", align="right")
            for cell, row in zip((row[0] for row in cells), rows, strict=True):
                canvas.label((left - 0.1, cell.middle[1]), row, align="right", colour=style.INK)
    return canvas.finish()


def _tint(share: float) -> str:
    """White for 0, and the darker the larger a share is; black letters stay readable on all."""
    light, dark = (np.array(matplotlib.colors.to_rgb(c)) for c in (style.PAPER, FILLS["code"]))
    return matplotlib.colors.to_hex(light + 0.7 * share * (dark - light))


def draw_right_by_codes(
    right: Mapping[str, Sequence[float]], asked: Mapping[str, Sequence[int]]
) -> Picture:
    """Draw how often heads are right, by how many codes they have read.

    Args:
        right: by name, the share of right answers after 0, 1, 2 ... codes of the record; the first
            is the head on the decoder's states. Nothing is drawn of one without values.
        asked: by a name for a group of patients, how many of them have that many codes.
    """
    right = {name: values for name, values in right.items() if len(values)}
    names = list(right)
    first = names[0]
    canvas = Canvas(
        3.75 + 0.17 * len(asked),
        f"One head is right in {right[first][0]:.0%} of cases before any code, the other has to "
        "read",
        "How often the sex is named right, by how many codes have been read. "
        + "; ".join(
            f"{name}: {values[0]:.0%} at the start, {values[-1]:.0%} after {len(values) - 1}"
            for name, values in right.items()
        )
        + ". Patients who have so many codes: "
        + "; ".join(
            f"{name}, {counts[0]} at the start, {counts[-1]} after {len(counts) - 1}"
            for name, counts in asked.items()
        )
        + ".",
        subtitle="The share of right answers, by how many codes of the record have been read.",
    )
    said = {name: "\n".join(textwrap.wrap(name, 22)) for name in names}
    room = max(style.text_width(n, style.SMALL) for of in said.values() for n in of.split("\n"))
    left, width = 1.05, canvas.width - 1.05 - MARGIN - room - 0.12
    axes = canvas.plot(left, canvas.top + 0.12, width, 2.2)
    marks = ("o", "s", "^", "D")
    colours = ("#b3400e", "#31688e", style.MUTED, style.INK)
    heights = _apart([right[name][-1] for name in names], 0.1)
    for name, mark, colour, height in zip(names, marks, colours, heights, strict=False):
        values = np.asarray(right[name], dtype=float)
        axes.plot(values, color=colour, marker=mark, markersize=3.6, linewidth=1.6, clip_on=False)
        axes.annotate(
            said[name], (len(values) - 1, height), (7, 0), textcoords="offset points",
            size=style.SMALL, color=colour, va="center",
        )  # fmt: skip
    axes.axhline(0.5, color=style.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    lowest = min(min(values) for values in right.values())
    axes.set_ylim(min(0.4, lowest - 0.05), 1.02)
    most = max(len(values) for values in right.values()) - 1
    axes.set_xlim(0, most)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("codes of the record that have been read")
    y = canvas.top + 2.93
    for name, counts in asked.items():
        canvas.label((left - 0.2, y), name, align="right")
        for n, count in enumerate(counts):
            canvas.label((left + width * n / max(1, most), y), f"{count}", align="center")
        y += 0.17
    return canvas.finish()


def _apart(places: Sequence[float], distance: float) -> list[float]:
    """The places, moved up as little as needed to lie so far apart."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(map(float, places))
    for below, i in pairwise(order):
        moved[i] = max(moved[i], moved[below] + distance)
    return moved


def draw_told_ages(told: Sequence[float], named: Any, bounds: Sequence[int]) -> Picture:
    """Draw which age bracket a head names for the same patients, by the age in their prompts.

    Args:
        told: the ages in the prompts, in equal steps, (ages,).
        named: int (ages, patients): the bracket that the head names for each patient.
        bounds: where each bracket but the first begins.
    """
    ages, named = np.asarray(told, dtype=float), np.asarray(named)
    n_brackets = len(bounds) + 1
    shares = np.stack([(named == k).mean(axis=1) for k in range(n_brackets)])  # (brackets, ages)
    wanted = np.searchsorted(bounds, ages, side="right")
    obeyed = (named == wanted[:, None]).mean()
    canvas = Canvas(
        3.2,
        f"Told any age, the head names that age's bracket in {obeyed:.0%} of its answers",
        f"The brackets that the head names for {named.shape[1]} patients, who are all said to be "
        f"of one age, from {ages[0]:.0f} to {ages[-1]:.0f} years. In {obeyed:.0%} of the answers "
        "it is the bracket of that age.",
        subtitle=f"The same {named.shape[1]} patients at each age. Dark: all get this bracket. "
        "Framed: the bracket of the age that is told.",
    )
    axes = canvas.plot(0.62, canvas.top + 0.12, canvas.width - 0.62 - MARGIN, 1.8)
    # A column reaches from its age to the next, so ages in whole years end where brackets do.
    edges = np.append(ages, 2 * ages[-1] - ages[-2])
    colours = matplotlib.colors.LinearSegmentedColormap.from_list(
        "shares", [style.PAPER, FILLS["code"]]
    )
    axes.pcolormesh(
        edges, np.arange(n_brackets + 1) - 0.5, shares, cmap=colours, vmin=0, vmax=1, linewidth=0
    )
    ends = np.clip([edges[0], *bounds, edges[-1]], edges[0], edges[-1])
    for k, (low, high) in enumerate(pairwise(ends)):
        axes.plot(
            [low, high, high, low, low],
            [k - 0.5, k - 0.5, k + 0.5, k + 0.5, k - 0.5],
            color=style.INK,
            linewidth=1.3,
            clip_on=False,
        )
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(-0.5, n_brackets - 0.5)
    axes.set_xticks([ages[0], *bounds, ages[-1]])
    axes.set_yticks(range(n_brackets))
    axes.set_xlabel("age that the prompt says, in years")
    axes.set_ylabel("bracket named")
    return canvas.finish()
