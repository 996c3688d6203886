"""The prompts of all ages: as points in a plane, as angles, and the waves that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.axes import Axes
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
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
            f"{age}", tuple(points[age]), tuple(out), textcoords="offset points", size=style.SMALL,
            ha="center", va="center", color=style.INK,
        )  # fmt: skip


def draw_lines(vectors: Mapping[str, Any], marked: Sequence[int] = (0, 40, 50, 60, 90)) -> Picture:
    """Draw two lines of prompts on one scale, each along its own direction.

    Args:
        vectors: two sets of prompts by name, each float (ages, d_model), from age 0 upwards.
        marked: the ages that get their number.
    """
    sets = {name: np.asarray(points, dtype=float) for name, points in vectors.items()}
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
        2.55,
        f"Training made the line of ages {times:.0f} times as long, {straight}",
        f"The prompts of {n_ages} ages as dots, {first} and {second}: two straight lines, the "
        f"second {times:.1f} times as long as the first. Age {marked[2]} lies in the middle "
        f"between {marked[1]} and {marked[3]} on both.",
        subtitle=f"A dot for each age up to {n_ages - 1}, both on one scale. Each line is drawn "
        "along its own direction.",
    )
    wide, high = canvas.width - 1.7, 0.75
    flats = [(points - points[0]) @ _plane([points]).T for points in sets.values()]
    inch = max(np.ptp(flat[:, 0]) for flat in flats) / (wide - 0.5)
    for i, (name, flat) in enumerate(zip(sets, flats, strict=True)):
        y = canvas.top + 0.05 + i * (high + 0.1)
        axes = canvas.plot(1.4, y, wide, high)
        apart = abs(flat[marked[2], 0] - flat[marked[1], 0]) / inch
        _dots(axes, flat, marked if apart > 0.35 else [0, n_ages - 1], i)
        canvas.label((1.25, y + high / 2), name, align="right", colour=LINES[i], size=style.TEXT)
        low = flat[:, 0].min() - 0.25 * inch
        axes.set_xlim(low, low + wide * inch)
        middle = (flat[:, 1].min() + flat[:, 1].max()) / 2
        axes.set_ylim(middle - high / 2 * inch, middle + high / 2 * inch)
        axes.axis("off")
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
        f"The {line.lower()} prompts lie on a line, those of {curve.lower()} on a curve"
        if ranks[line] == 1 < ranks[curve]
        else f"{line} and {curve.lower()}: prompts of all ages",
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


def draw_directions(vectors: Mapping[str, Any], marked: Sequence[int] = (0, 1, 15, 90)) -> Picture:
    """Draw each line of ages in the plane that holds it and the origin: so angles are true.

    Args:
        vectors: affine prompts by the name of the scale, each float (ages, d_model), from age 0
            upwards, less the mean of each, as a layer norm takes it off.
        marked: the ages that get a ray from the origin.
    """
    sets = {name: np.asarray(points, dtype=float) for name, points in vectors.items()}
    flat = {}
    for name, points in sets.items():
        along = (points[-1] - points[0]) / np.linalg.norm(points[-1] - points[0])
        across = points[0] - (points[0] @ along) * along
        # In units of the distance at which the line passes the origin.
        flat[name] = points @ np.stack([along, across / np.linalg.norm(across)], 1)
        flat[name] /= np.linalg.norm(across)
    angles = {name: np.degrees(np.arctan2(*points.T)) for name, points in flat.items()}
    groups = {name: _one_direction(values, marked) for name, values in angles.items()}
    alike = [
        f"{name}, ages {' and '.join(map(str, group))} look alike"
        for name, found in groups.items()
        for group in found
        if len(group) > 1
    ]
    title = "; ".join(alike) or "no two of these ages look alike"
    canvas = Canvas(
        2.75,
        title[:1].upper() + title[1:],
        "For each scale the line of ages, which misses the origin, with rays from the origin to "
        f"ages {', '.join(map(str, marked))}. "
        + " ".join(
            f"{name}: they have turned by "
            + ", ".join(f"{values[age] - values[0]:.1f}" for age in marked)
            + " degrees since age zero."
            for name, values in angles.items()
        ),
        subtitle="Dots: the prompts of all ages before training. Rays: the directions of some. "
        "Arc: all that a layer norm keeps.",
    )
    high, foot, inch, radius = 1.75, 0.22, 1.2, 0.6
    longest = [min(points[-1, 0], 2.4) + 1.4 for points in flat.values()]
    left = MARGIN
    for (name, points), share in zip(flat.items(), longest, strict=True):
        wide = share / sum(longest) * (canvas.width - 2 * MARGIN)
        canvas.label((left, canvas.top + 0.05), name, weight="bold", colour=style.INK)
        axes = canvas.plot(left, canvas.top + 0.1, wide, high)
        west = min(points[0, 0] * inch, 0) - 0.62
        axes.set_xlim(west, west + wide)
        axes.set_ylim(-foot, high - foot)
        axes.axis("off")
        east = west + wide - 0.3  # here a ray leaves the picture
        seen = points[points[:, 0] * inch < east] * inch
        end, goes_on = min(points[-1, 0] * inch, east), points[-1, 0] * inch > east
        axes.annotate("", (end, inch), tuple(seen[0]), arrowprops={
            "arrowstyle": "->" if goes_on else "-", "color": LINES[1], "shrinkA": 0, "shrinkB": 0,
        })  # fmt: skip
        axes.plot(*seen.T, ".", color=LINES[1], markersize=4)
        turn = np.radians(np.linspace(angles[name][0], angles[name][-1], 50))
        axes.plot(radius * np.sin(turn), radius * np.cos(turn), color=WARNING, linewidth=1.8)
        for group in groups[name]:
            for age in group:
                x, y = points[age] * inch
                cut = min(1.0, east / x) if x > 0 else 1.0
                axes.annotate("", (x * cut, y * cut), (0, 0), arrowprops={
                    "arrowstyle": "->" if cut < 1 else "-", "color": style.MUTED,
                    "shrinkA": 0, "shrinkB": 0, "linewidth": 1,
                })  # fmt: skip
                at = points[age] / np.linalg.norm(points[age]) * radius
                axes.plot(*at, "o", color=WARNING, markersize=5, zorder=4)
            x, y = points[group].mean(0) * inch
            cut = min(1.0, east / x) if x > 0 else 1.0
            outside = cut < 1
            axes.annotate(
                ", ".join(map(str, group)), (x * cut, y * cut), (4, 1) if outside else (0, 8),
                textcoords="offset points", size=style.SMALL, va="center", color=style.INK,
                ha="left" if outside else "right" if len(group) > 1 else "center",
            )  # fmt: skip
        axes.plot(0, 0, "P", color=style.INK, markersize=6, zorder=5)
        axes.annotate(
            "origin", (0, 0), (0, -9), textcoords="offset points", size=style.SMALL, ha="center",
            va="center", color=style.INK,
        )  # fmt: skip
        left += wide
    return canvas.finish()


def _one_direction(
    angles: np.ndarray, marked: Sequence[int], near: float = 5.0
) -> list[list[int]]:
    """Put neighbours among these ages together whose prompts point nearly the same way."""
    groups: list[list[int]] = []
    for age in marked:
        if groups and abs(angles[age] - angles[groups[-1][0]]) < near:
            groups[-1].append(age)
        else:
            groups.append([age])
    return groups


def draw_turning(angles: Mapping[str, Any]) -> Picture:
    """Draw how far the prompt has turned from that of a newborn, at each age, for some scales.

    Args:
        angles: by the name of the scale, in degrees: (ages,), from age 0 upwards.
    """
    turned = {name: np.asarray(values, dtype=float) for name, values in angles.items()}
    half = {name: int(np.argmax(values >= values[-1] / 2)) for name, values in turned.items()}
    *others, last = turned
    canvas = Canvas(
        3.1,
        "The scale decides which ages look different",
        "Curves of the angle between the prompt of a newborn and that of each age, after a layer "
        "norm. Half of the turn is done by age "
        + ", ".join(f"{half[name]} ({name})" for name in turned)
        + f". At the last age it is {turned[others[0]][-1]:.0f} degrees ({others[0]}) and "
        f"{turned[last][-1]:.0f} degrees ({last}).",
        subtitle="Angle between the prompts of age zero and of each age, after a layer norm. "
        "Dot: the age at which half of the turn is done.",
    )
    wide, high = 4.9, 1.75
    axes = canvas.plot(0.75, canvas.top + 0.1, wide, high)
    dashes = ((0, (1, 1.5)), (0, (5, 2)), "solid")
    colours = (WARNING, style.MUTED, LINES[1])
    top = max(values.max() for values in turned.values()) * 1.12
    ends = sorted(turned, key=lambda name: -turned[name][-1])
    places = [high * (1 - turned[name][-1] / top) for name in ends]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + 0.2)
    for i, (name, values) in enumerate(turned.items()):
        axes.plot(values, color=colours[i % 3], linestyle=dashes[i % 3], linewidth=1.8)
        axes.plot(half[name], values[half[name]], "o", color=colours[i % 3], markersize=6)
        y = canvas.top + 0.1 + places[ends.index(name)]
        canvas.label(
            (0.75 + wide + 0.1, y), f"{name}: half by age {half[name]}", colour=colours[i % 3],
            weight="bold",
        )  # fmt: skip
    axes.set_xlim(0, len(values) - 1)
    axes.set_ylim(0, top)
    axes.set_xticks(range(0, len(values), 15))
    ticks = [0, 45, 90] if top > 90 else [0, 45]
    axes.set_yticks(ticks, [f"{tick}°" for tick in ticks])
    axes.set_xlabel("age")
    return canvas.finish()


def draw_waves(features: Any, turns: Sequence[float], marked: Sequence[int] = (0, 30)) -> Picture:
    """Draw the sine and the cosine of each frequency, and the numbers that two ages get.

    Args:
        features: float (ages, 2 k): all sines, then all cosines, a row for each age from 0 up.
        turns: how many turns each of the k waves makes over all ages.
        marked: the ages whose numbers stand beside the waves.
    """
    values = np.asarray(features, dtype=float)
    k = len(turns)
    step = 0.36
    canvas = Canvas(
        1.75 + step * k,
        f"{style.count(k, 'wave')} turn an age into {2 * k} numbers",
        f"{k} rows, each with a sine and a cosine of the age, from {turns[0]:g} turns to "
        f"{turns[-1]:g} over {len(values) - 1} years. "
        + " ".join(
            f"Age {age}: sines {', '.join(f'{x:.2f}' for x in values[age, :k])}; cosines "
            f"{', '.join(f'{x:.2f}' for x in values[age, k:])}."
            for age in marked
        ),
        subtitle="Sines solid, cosines dashed. The columns are the numbers of some ages, read off "
        "at the upright lines.",
    )
    left, top = 1.0, canvas.top + 0.42
    wide = canvas.width - left - 0.3 - 1.2 * len(marked)
    columns = [left + wide + 0.35 + 1.2 * i for i in range(len(marked))]
    for x, age in zip(columns, marked, strict=True):
        canvas.label((x + 0.3, top - 0.33), f"age {age}", align="center", weight="bold",
                     colour=style.INK)  # fmt: skip
        canvas.label((x, top - 0.13), "sin", align="center")
        canvas.label((x + 0.6, top - 0.13), "cos", align="center")
    for j, n in enumerate(turns):
        y = top + step * j
        axes = canvas.plot(left, y, wide, step - 0.08)
        axes.plot(values[:, j], color=LINES[1], linewidth=1.3)
        axes.plot(values[:, k + j], color=style.MUTED, linewidth=1.0, linestyle=(0, (3, 1.5)))
        for age in marked:
            axes.axvline(age, color=WARNING, linewidth=1.2)
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.set_ylim(-1.2, 1.2)
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(style.FAINT)
        last = j == k - 1
        axes.set_xticks(range(0, len(values), 30), None if last else [""] * len(values[::30]))
        axes.tick_params(length=3 if last else 0)
        if last:
            axes.set_xlabel("age")
        middle = y + (step - 0.08) / 2
        words = style.count(int(n), "turn") if n == int(n) else f"{n:g} turn"
        canvas.label((left - 0.12, middle), words, align="right", colour=style.INK)
        for x, age in zip(columns, marked, strict=True):
            for place, column in ((0, j), (0.6, k + j)):
                canvas.label(
                    (x + place, middle), f"{values[age, column]:.2f}", align="center",
                    mono=True, colour=style.INK,
                )  # fmt: skip
    return canvas.finish()


def draw_two_sexes(
    prompts: Mapping[str, Any], logged: Any, marked: Sequence[int] = (0, 30, 60, 90)
) -> Picture:
    """Draw the summed prompts of all ages and both sexes in their plane, and a logged vector.

    Args:
        prompts: by the name of the sex, float (ages, d_model), from age 0 up; affine in the age.
        logged: float (d_model,).
        marked: the ages that get their number.
    """
    sets = {name: np.asarray(points, dtype=float) for name, points in prompts.items()}
    one, other = sets.values()
    start, along = one[0], one[-1] - one[0]
    along = along / np.linalg.norm(along)
    apart = other[0] - one[0]
    across = apart - (apart @ along) * along
    gap = np.linalg.norm(across)
    plane = np.stack([along, across / gap])
    everybody = np.concatenate([one, other])
    outside = (everybody - start) - (everybody - start) @ plane.T @ plane
    flat_enough = np.abs(outside).max() < 1e-3 * np.linalg.norm(one[-1] - one[0])
    point = (np.asarray(logged, dtype=float) - start) @ plane.T
    n_people = len(everybody)
    flats = [(points - start) @ plane.T for points in sets.values()]
    ends = np.concatenate([*flats, point[None]])
    low, high = ends.min(axis=0), ends.max(axis=0)
    by_sex = [np.linalg.norm(flat - point, axis=1) for flat in flats]
    names = list(sets)
    order = sorted(range(2), key=lambda i: by_sex[i].min())
    away = [by_sex[i].min() for i in order]
    nearest = [f"{names[i]}, {by_sex[i].argmin()}" for i in order]
    # One scale for both directions, or the nearest dot of the picture would be a wrong one.
    inch = max((high - low) / (5.2, 2.2))
    tall = (high - low)[1] / inch + 0.6
    canvas = Canvas(
        tall + 1.1,
        f"All {n_people} prompts lie on two parallel lines"
        if flat_enough
        else f"The {n_people} prompts do not lie on two parallel lines",
        f"The summed prompts of {len(one)} ages, {' and '.join(sets)}, as dots in one plane: two "
        f"parallel lines, {gap:.1f} apart and {np.linalg.norm(one[-1] - one[0]):.1f} long, "
        "drawn on one scale. A cross shows a vector from a log; in this plane it is "
        f"{away[0]:.1f} from the nearest dot ({nearest[0]}) and {away[1]:.1f} from the nearest of "
        f"the other sex ({nearest[1]}).",
        subtitle="A dot for each age, in the plane that holds both lines, on one scale. Cross: a "
        "vector from a log, with noise.",
    )
    wide = canvas.width - 1.4
    axes = canvas.plot(1.1, canvas.top + 0.1, wide, tall)
    shown: list[int] = []
    for age in marked:  # those that have room for their number
        if not shown or np.linalg.norm(one[age] - one[shown[-1]]) > 0.35 * inch:
            shown.append(age)
    for i, (name, flat) in enumerate(zip(sets, flats, strict=True)):
        axes.plot(*flat.T, ".", color=LINES[i], markersize=4)
        axes.plot(*flat.T, color=LINES[i], linewidth=1, linestyle=DASHES[i])
        for age in shown:
            axes.plot(*flat[age], "o", color=LINES[i], markersize=6)
            axes.annotate(
                f"{age}", flat[age], (0, 11 if i else -12), textcoords="offset points",
                size=style.SMALL, ha="center", va="center", color=style.INK,
            )  # fmt: skip
        axes.annotate(
            name, flat[0], (-14, 0), textcoords="offset points", size=style.TEXT, ha="right",
            va="center", color=LINES[i], weight="bold",
        )  # fmt: skip
    axes.plot(*point, "X", color=WARNING, markersize=9, zorder=4)
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - wide / 2 * inch, middle[0] + wide / 2 * inch)
    axes.set_ylim(middle[1] - tall / 2 * inch, middle[1] + tall / 2 * inch)
    axes.axis("off")
    return canvas.finish()
