"""The prompts of all ages as points in a plane, and what a linear layer can read off them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.axes import Axes
from ehr_course.plots.drawings.canvas import MARGIN, Canvas
from ehr_course.plots.style import Picture

LINES = (style.MUTED, "#2d708e")
"""The colours of two lines; the first is dashed."""

DASHES = ((0, (4, 2)), "solid")


def _plane(sets: Sequence[np.ndarray]) -> np.ndarray:
    """The two directions, (2, d), in which the points of these sets differ most."""
    centred = [points - points.mean(0) for points in sets]
    # Each set counts the same, however far its points lie apart.
    stack = np.concatenate([points / np.linalg.norm(points) for points in centred])
    directions = np.linalg.svd(stack, full_matrices=False)[2][:2]
    # The sign is open: let the ages run to the right, and the first set begin at the bottom.
    ends = (sets[-1][-1] - sets[-1][0]) @ directions.T
    return directions * np.where(ends < 0, -1, 1)[:, None]


def _dots(axes: Axes, points: np.ndarray, marked: Sequence[int], line: int) -> None:
    colour = LINES[line]
    axes.plot(*points.T, color=colour, linewidth=1.1, linestyle=DASHES[line], zorder=2)
    axes.plot(*points.T, ".", color=colour, markersize=3, zorder=2)
    for age in marked:
        axes.plot(*points[age], "o", color=colour, markersize=6, zorder=3)
        before, after = points[max(age - 1, 0)], points[min(age + 1, len(points) - 1)]
        along = (after - before) / (np.linalg.norm(after - before) + 1e-12)
        out = np.array([-along[1], along[0]]) * 11
        axes.annotate(
            f"{age}", points[age], out, textcoords="offset points", size=style.SMALL,
            ha="center", va="center", color=style.INK,
        )  # fmt: skip


def draw_lines(vectors: Mapping[str, Any], marked: Sequence[int] = (0, 40, 50, 60, 90)) -> Picture:
    """Draw the prompts of all ages in the plane in which two lines differ.

    Args:
        vectors: two sets of prompts by name, each float (ages, d_model), from age 0 upwards.
        marked: the ages that get their number.
    """
    sets = {name: np.asarray(points, dtype=float) for name, points in vectors.items()}
    plane = _plane(list(sets.values()))
    lengths = [np.linalg.norm(points[-1] - points[0]) for points in sets.values()]
    first, second = sets
    times = lengths[1] / lengths[0]
    n_ages = len(sets[first])
    bent = [
        np.abs(np.diff(points, n=2, axis=0)).max() / size
        for points, size in zip(sets.values(), lengths, strict=True)
    ]
    straight = "and left it straight" if max(bent) < 1e-3 else "and bent it"
    canvas = Canvas(
        3.3,
        f"Training made the line of ages {times:.0f} times as long, {straight}",
        f"The prompts of {n_ages} ages as dots, {first} and {second}: two straight lines, the "
        f"second {times:.1f} times as long as the first. Age {marked[2]} lies in the middle "
        f"between {marked[1]} and {marked[3]} on both.",
        subtitle=f"A dot for each age up to {n_ages - 1}, seen in the plane of both lines.",
    )
    wide, high = canvas.width - 2.1, 2.2
    axes = canvas.plot(0.4, canvas.top + 0.1, wide, high)
    flats = [points @ plane.T for points in sets.values()]
    inch = max(np.ptp(np.concatenate(flats), axis=0) / (wide, high))
    for i, (name, flat) in enumerate(zip(sets, flats, strict=True)):
        apart = np.linalg.norm(flat[marked[2]] - flat[marked[1]]) / inch
        _dots(axes, flat, marked if apart > 0.35 else [0, n_ages - 1], i)
        axes.annotate(
            name, flat[-1], (16, -2), textcoords="offset points", size=style.TEXT,
            color=LINES[i], va="center",
        )  # fmt: skip
    _bare(axes)
    return canvas.finish()


def _bare(axes: Axes) -> None:
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.14)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(style.FAINT)


def draw_line_and_curve(
    vectors: Mapping[str, Any], marked: Sequence[int] = (0, 15, 44, 60, 80, 90)
) -> Picture:
    """Draw the prompts of all ages, each kind in the plane in which it varies most.

    Args:
        vectors: prompts by the name of the map, each float (ages, d_model), from age 0 upwards.
        marked: the ages that get their number.
    """
    sets = {name: np.asarray(points, dtype=float) for name, points in vectors.items()}
    ranks = {name: int(np.linalg.matrix_rank(p - p[0], tol=1e-4)) for name, p in sets.items()}
    words = "; ".join(f"{name}: {style.count(n, 'direction')}" for name, n in ranks.items())
    n_ages = len(next(iter(sets.values())))
    line, curve = sets
    canvas = Canvas(
        3.5,
        f"{line}: a line in {style.count(ranks[line], 'direction')}. {curve}: a curve in "
        f"{ranks[curve]}",
        f"The prompts of {n_ages} ages as dots in two planes. {words}. The dots of the first map "
        "lie on a straight line, those of the second on a curve.",
        subtitle="A dot for each age, each map in the plane in which its prompts differ most.",
    )
    wide = (canvas.width - 0.2 - 3 * MARGIN) / 2
    for i, (name, points) in enumerate(sets.items()):
        left = MARGIN + 0.1 + i * (wide + MARGIN)
        axes = canvas.plot(left, canvas.top + 0.3, wide, 2.3, name)
        flat = (points - points.mean(0)) @ _plane([points]).T
        if ranks[name] == 1:
            flat[:, 1] = 0
        _dots(axes, flat, marked, i)
        _bare(axes)
    return canvas.finish()


def draw_readout(groups: Mapping[str, Any], read: Mapping[str, Mapping[str, Any]]) -> Picture:
    """Draw how well one linear layer reads groups of ages off two kinds of prompts.

    Args:
        groups: for each group 1.0 at the ages that belong to it and 0.0 elsewhere: (ages,).
        read: by map and group, what the best linear layer makes of the prompts: (ages,).
    """
    goals = {name: np.asarray(goal, dtype=float) for name, goal in groups.items()}
    found = {
        kind: {name: np.asarray(values, dtype=float) for name, values in by_group.items()}
        for kind, by_group in read.items()
    }
    shares = {
        kind: {
            name: 1 - np.var(goals[name] - one) / np.var(goals[name]) for name, one in each.items()
        }
        for kind, each in found.items()
    }
    kinds = list(found)
    gain = {name: shares[kinds[1]][name] - shares[kinds[0]][name] for name in goals}
    hardest = max(gain, key=gain.get)
    canvas = Canvas(
        2.95,
        f"Ages {hardest}: {shares[kinds[0]][hardest]:.0%} can be read off the line, "
        f"{shares[kinds[1]][hardest]:.0%} off the waves",
        "What one linear layer reads of groups of ages. Share explained: "
        + "; ".join(
            f"{name} " + ", ".join(f"{kind} {shares[kind][name]:.0%}" for kind in kinds)
            for name in goals
        )
        + ".",
        subtitle="Grey: who belongs to the group. Lines: the best that one linear layer makes of "
        f"the prompts, {kinds[0]} dashed, {kinds[1]} solid.",
    )
    room = (canvas.width - 0.5 - MARGIN) / len(goals)
    for i, (name, goal) in enumerate(goals.items()):
        axes = canvas.plot(0.5 + i * room, canvas.top + 0.5, room - 0.25, 1.2)
        ages = np.arange(len(goal))
        axes.fill_between(ages, goal, step="mid", color=style.FAINT, linewidth=0)
        for j, kind in enumerate(kinds):
            axes.plot(ages, found[kind][name], color=LINES[j], linestyle=DASHES[j], linewidth=1.6)
        axes.set_ylim(-0.3, 1.3)
        axes.set_yticks([0, 1], ["", ""] if i else None)
        axes.set_xticks([0, 30, 60, 90])
        axes.set_xlabel("age")
        words = "   ".join(f"{kind} {shares[kind][name]:.0%}" for kind in kinds)
        x = 0.5 + i * room
        canvas.label((x, canvas.top + 0.18), name, colour=style.INK, weight="bold")
        canvas.label((x, canvas.top + 0.36), words)
    return canvas.finish()
