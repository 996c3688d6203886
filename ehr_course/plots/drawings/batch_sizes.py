"""The drawings of lesson 10 of what batches cost: their memory, and divisions within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture


def draw_divisions(ways: Mapping[str, Sequence[Sequence[int]]], overhead: int) -> Picture:
    """Draw a few records, divided into batches in some ways, with what each way costs.

    Args:
        ways: by the name of the way, its batches as lists of lengths.
        overhead: what a batch costs besides its places.
    """
    costs = {
        name: [len(batch) * max(batch) + overhead for batch in way] for name, way in ways.items()
    }
    words = "; ".join(
        f"{name}: {' and '.join(map(str, map(list, way)))} cost {sum(costs[name])}"
        for name, way in ways.items()
    )
    rows = max(len(batch) for way in ways.values() for batch in way)
    across = max(sum(map(max, way)) for way in ways.values())
    best = min(costs, key=lambda name: sum(costs[name]))
    cell, between = 0.22, 0.5
    room = (canvas_width := style.WIDTH) - 2 * MARGIN
    wide = min(cell, (room / len(ways) - 2 * between) / across)
    canvas = Canvas(
        1.84 + rows * cell,
        f"The same records at a cost of {' or '.join(str(sum(way)) for way in costs.values())}",
        f"The same records divided in different ways. {words}.",
        subtitle="A row is a record, grey its padding. "
        f"Each batch costs its places and {overhead} more.",
    )
    top = canvas.top + 0.5
    for i, (name, way) in enumerate(ways.items()):
        x = MARGIN + i * (canvas_width - MARGIN) / len(ways)
        canvas.label((x, top - 0.24), name, size=style.TEXT, weight="bold", colour=style.INK)
        start = x
        for batch, cost in zip(way, costs[name], strict=True):
            fills = [["code"] * n + ["quiet"] * (max(batch) - n) for n in batch]
            canvas.grid(x, top, fills, cell=(wide, cell))
            canvas.label(
                (x, top + rows * cell + 0.16), f"{cost - overhead} + {overhead}", colour=style.INK
            )
            x += max(max(batch) * wide, 0.5) + between
        total = f"cost {sum(costs[name])}"
        canvas.label((start, top + rows * cell + 0.38), total, weight="bold",
                     colour=style.INK if name == best else WARNING)  # fmt: skip
    return canvas.finish()


def draw_budget(
    ways: Mapping[str, Sequence[tuple[int, int]]], budget: int, overhead: int
) -> Picture:
    """Draw the batches of an epoch, divided in some ways, as bars of one scale and one width.

    Args:
        ways: by the name of the way, the records and the width of each batch. The others are
            compared with the first.
        budget: the most places of a batch.
        overhead: what a batch costs besides its places.
    """
    sizes = {name: sorted((n * w for n, w in way), reverse=True) for name, way in ways.items()}
    costs = {name: sum(way) + overhead * len(way) for name, way in sizes.items()}
    words = "; ".join(
        f"{name}: {len(way):,} batches of {min(way):,} to {max(way):,} places, "
        f"which cost {costs[name]:,}"
        for name, way in sizes.items()
    )
    first = next(iter(ways))
    best = min(costs, key=costs.__getitem__)
    canvas = Canvas(
        3.42,
        f"{best.capitalize()} costs {1 - costs[best] / costs[first]:.0%} less than {first}",
        f"The places of the batches of an epoch as bars. {words}. The budget is {budget:,}.",
        subtitle=f"Places of each batch, the largest first. Every batch costs its places and "
        f"{overhead} more.",
    )
    between, least = 0.26, 1.5
    room = canvas.width - 2 * MARGIN - 0.5 - between * (len(sizes) - 1)
    x, top, high = MARGIN + 0.5, canvas.top + 0.5, 1.5
    wide = _panels([len(way) for way in sizes.values()], room, least)
    pitch = max(w / len(way) for w, way in zip(wide, sizes.values(), strict=True) if w > least)
    for (name, way), across in zip(sizes.items(), wide, strict=True):
        axes = canvas.plot(x, top, across, high)
        axes.bar(np.arange(len(way)) + 0.5, way, color=FILLS["code"], width=0.8)
        axes.axhline(budget, color=WARNING, linestyle="--", linewidth=1.2)
        axes.set_ylim(0, 1.08 * budget)
        axes.set_xlim(0, across / pitch)
        axes.set_xticks([])
        axes.set_yticks([0, budget], [str(0), f"{budget:,}"] if x < 1 else ["", ""])
        canvas.label((x, top - 0.16), name, weight="bold", colour=style.INK)
        canvas.label((x, top + high + 0.16), f"{len(way):,} batches")
        change = costs[name] / costs[first] - 1
        aside = f" ({change:+.0%})".replace("-", "\N{MINUS SIGN}") if name != first else ""
        canvas.label((x, top + high + 0.36), f"cost {costs[name]:,}{aside}", colour=style.INK)
        x += across + between
    return canvas.finish()


def _panels(numbers: Sequence[int], room: float, least: float) -> list[float]:
    """The widths of panels of so many bars, all as wide as each other, in so many inches."""
    narrow: set[int] = set()
    while True:
        wide = [i for i in range(len(numbers)) if i not in narrow]
        if not wide:
            return [room / len(numbers)] * len(numbers)
        pitch = (room - least * len(narrow)) / sum(numbers[i] for i in wide)
        more = {i for i in wide if numbers[i] * pitch <= least}
        if not more:
            return [least if i in narrow else n * pitch for i, n in enumerate(numbers)]
        narrow |= more


def draw_memory(
    memory: Mapping[str, int | Sequence[tuple[str, int]]], card: int, way_out: str
) -> Picture:
    """Draw bytes that grow from line to line, against the memory of a device.

    Args:
        memory: by name, how many bytes, or the parts that they consist of, each with its name.
            Each line is compared with the one before.
        card: the bytes of the device.
        way_out: the name of the line that is meant to fit, drawn in another colour if it does.
    """
    stacks = [[("", part)] if isinstance(part, int) else part for part in memory.values()]
    names, values = list(memory), [sum(n for _, n in stack) / MB for stack in stacks]
    lines = []
    for name, value, stack in zip(names, values, stacks, strict=True):
        parts = ", ".join(f"{part} {_megabytes(n / MB)}" for part, n in stack if part)
        lines.append(f"{name} {_megabytes(value)}" + (f" ({parts})" if parts else ""))
    canvas = Canvas(
        1.5 + 0.34 * len(memory),
        f"A step of training takes {_megabytes(max(values))}, and the card has "
        f"{_megabytes(card / MB)}",
        f"Bars of memory: {'; '.join(lines)}. The device has {_megabytes(card / MB)}.",
        subtitle="Beside each bar: how many times the line above.",
    )
    left, top = 2.95, canvas.top + 0.3
    high = 0.34 * len(memory)
    axes = canvas.plot(left, top, canvas.width - left - 0.35, high)
    end = 1.22 * max(card / MB, *values)
    inches = axes.get_position().width * canvas.width / end
    for i, (name, value, stack) in enumerate(zip(names, values, stacks, strict=True)):
        bad = value > card / MB
        good = name == way_out and not bad
        fill = "special" if good else "trap" if bad else "code" if not i else "decoder"
        start = 0.0
        y = top + (i + 0.5) * high / len(memory)
        for part, n_bytes in stack:
            axes.barh(i, n_bytes / MB, left=start, height=0.56, color=FILLS[fill],
                      edgecolor=style.MUTED, linewidth=0.9)  # fmt: skip
            if style.text_width(part, style.SMALL) + 0.08 < n_bytes / MB * inches:
                axes.text(start + n_bytes / MB / 2, i, part, ha="center", va="center",
                          size=style.SMALL, color=style.INK)  # fmt: skip
            start += n_bytes / MB
        axes.annotate(
            _megabytes(value), (value, i), xytext=(5, 0), textcoords="offset points",
            va="center", size=style.SMALL, color=style.INK,
        )  # fmt: skip
        canvas.label((MARGIN, y), name, colour=style.INK)
        if i:
            canvas.label((left - 0.1, y), _times(value / values[i - 1]), align="right")
    axes.set_xlim(0, end)
    axes.set_ylim(len(memory) - 0.5, -0.5)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("MB")
    axes.axvline(card / MB, color=WARNING, linestyle="--", linewidth=1.4, zorder=0)
    canvas.label((left + inches * card / MB, top - 0.1), f"the card, {_megabytes(card / MB)}",
                 align="center", colour=WARNING)  # fmt: skip
    return canvas.finish()


MB = 10**6
"""The bytes of a megabyte."""


def _megabytes(value: float) -> str:
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f} MB"


def _times(factor: float) -> str:
    return f"× {factor:.0f}" if factor >= 1 else f"÷ {1 / factor:.0f}"
