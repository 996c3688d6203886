"""The drawings of padding in lesson 10: what it wastes, and what length buckets save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from ehr_course.batches.collate import Batch
from ehr_course.plots import style
from ehr_course.plots.batch import COLOURS, KINDS, kinds_of
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture, count


def draw_lengths(lengths: np.ndarray, width: int) -> Picture:
    """Draw how many tokens the patients have, on an axis as long as a row.

    Args:
        lengths: int (patients,), tokens of each.
        width: the places of a row, the same for every patient.
    """
    middle, longest = int(np.median(lengths)), int(lengths.max())
    empty = 1 - lengths.sum() / (width * len(lengths))
    words = (
        f"A histogram of the lengths of {len(lengths):,} records on an axis of {width} "
        f"tokens: half have at most {middle}, the longest {longest}. With {width} places for each "
        f"record, {empty:.0%} of all places are empty."
    )
    canvas = Canvas(
        2.75, f"Give each record {width} places, and {empty:.0%} of them stay empty", words
    )
    axes = canvas.plot(0.75, canvas.top + 0.14, canvas.width - 1.0, 1.5)
    axes.hist(lengths, bins=range(0, width + 4, 4), color=FILLS["code"])
    axes.set_xlim(0, width)
    axes.set_xlabel("tokens of a record")
    axes.set_ylabel("patients")
    high = axes.get_ylim()[1]
    axes.axvspan(longest, width, color=FILLS["quiet"], zorder=0)
    aside = longest + width / 64
    clear = aside < width / 2  # the words stand where no record reaches
    if clear:
        axes.text(
            (longest + width) / 2, 0.16 * high, "no record is this long", size=style.SMALL,
            color=style.MUTED, ha="center", va="center",
        )  # fmt: skip
    for at, level, text in (
        (middle, 0.86, f"half of the records have at most {count(middle, 'token')}"),
        (longest, 0.5, f"the longest has {count(longest, 'token')}"),
    ):
        right = clear or at < width / 2  # or else on the side that has more room
        end = aside if clear else at + (14 if at == middle and right else 0)
        gap = width / 64
        axes.annotate(
            text, (at, level * high), xytext=(end + (gap if right else -gap), level * high),
            size=style.SMALL, color=style.INK, va="center", ha="left" if right else "right",
        )  # fmt: skip
        axes.plot([at, at], [0, level * high], color=WARNING, linewidth=1.4)
        axes.plot([at, end], [level * high] * 2, color=WARNING, linewidth=1.4)
    return canvas.finish()


def draw_company(
    batches: Mapping[str, Batch], row: Mapping[str, int], places: Mapping[str, int], n_tokens: int
) -> Picture:
    """Draw batches with the same patient in different company, and the padding of whole epochs.

    Args:
        batches: two batches by the name of the strategy that made them.
        row: in which row of each the patient is.
        places: how many places an epoch has, by strategy; the two and others.
        n_tokens: how many tokens an epoch has.
    """
    padding = {name: 1 - n_tokens / n for name, n in places.items()}
    widths = {name: batch["input_ids"].shape[1] for name, batch in batches.items()}
    words = (
        "The same patient in two batches, as grids of tokens. "
        + "; ".join(
            f"{name}: {count(len(batch['input_ids']), 'row')} of {widths[name]} places"
            for name, batch in batches.items()
        )
        + ". Padding in a whole epoch: "
        + ", ".join(f"{name} {share:.0%}" for name, share in padding.items())
        + "."
    )
    canvas = Canvas(
        3.86 + 0.27 * len(places),
        "The longest record of a batch decides how wide the others become",
        words,
        subtitle="The same patient in both batches: the outlined row that the arrow points at.",
    )
    room, between = canvas.width - 2 * MARGIN - 0.2, 0.75
    pitch = min(0.105, (room - between) / sum(widths.values()))
    x, top, high = MARGIN + 0.22, canvas.top + 0.42, 1.62
    for name, batch in batches.items():
        n_rows, width = batch["input_ids"].shape
        wide = width * pitch
        canvas.label((x, top - 0.28), name, size=style.TEXT, weight="bold", colour=style.INK)
        canvas.label((x, top - 0.11), f"{n_rows} × {width} places")
        axes = canvas.plot(x, top, wide, high)
        _token_image(axes, batch["input_ids"])
        axes.add_patch(
            Rectangle(
                (-0.5, row[name] - 0.5), width, 1, fill=False, edgecolor=WARNING, linewidth=1.4,
                clip_on=False, zorder=4,
            )
        )  # fmt: skip
        y = top + (row[name] + 0.5) * high / n_rows
        canvas.arrow((x - 0.22, y), (x - 0.02, y), colour=WARNING)
        x += max(wide, 1.3) + between
    y = top + high + 0.22
    canvas.key(
        MARGIN + 0.22, y,
        {"code": "code", "special": "special token", "mask": "<mask>", "quiet": "padding"},
    )  # fmt: skip
    y += 0.48
    canvas.label((MARGIN, y), "Places in a whole epoch", weight="bold", colour=style.INK)
    left, wide = MARGIN + 1.2, 4.0
    for name, share in padding.items():
        y += 0.27
        canvas.label((MARGIN, y), name, colour=style.INK)
        _part_bar(canvas, left, y, wide * places[name] / max(places.values()), 1 - share)
        at = left + wide * places[name] / max(places.values())
        canvas.label((at + 0.1, y), f"{places[name]:,}, {share:.0%} empty")
    return canvas.finish()


def _token_image(axes: Axes, input_ids: object) -> None:
    colours = ListedColormap([COLOURS[kind] for kind in KINDS])
    kinds = kinds_of(input_ids)
    axes.imshow(
        kinds, cmap=colours, vmin=0, vmax=len(KINDS) - 1, aspect="auto", interpolation="nearest"
    )
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_color(style.MUTED)


def _part_bar(canvas: Canvas, left: float, y: float, wide: float, full: float) -> None:
    """A bar of which the first part is tokens, a share of it, and the rest padding."""
    canvas.box(left, y - 0.09, max(wide, 0.02), 0.18, fill="quiet", rounded=False)
    canvas.box(left, y - 0.09, max(full * wide, 0.02), 0.18, fill="code", rounded=False)


def draw_plan(pools: Sequence[Sequence[int]], batch_size: int, order: Sequence[int]) -> Picture:
    """Draw how the batches of an epoch are cut: shuffled, in pools, sorted, and shuffled again.

    Args:
        pools: (pools, records): the length of each record, in the shuffled order.
        batch_size: records of a batch.
        order: (batches,): in which order the batches come at last; those of the first pool count
            first.
    """
    batches = [
        (number, sorted(pool)[first : first + batch_size])
        for number, pool in enumerate(pools)
        for first in range(0, len(pool), batch_size)
    ]
    steps = {
        "shuffle all,\ncut into pools": [(i, [[n] for n in pool]) for i, pool in enumerate(pools)],
        "sort each pool,\ncut into batches": [(i, [batch]) for i, batch in batches],
        "shuffle\nthe batches": [(batches[at][0], [batches[at][1]]) for at in order],
    }
    lengths = [n for pool in pools for n in pool]
    words = (
        f"Three rows of {len(lengths)} bars, a bar for each record. First in a shuffled order, "
        f"cut into {count(len(pools), 'pool')}. Then each pool sorted and cut into batches of "
        f"{batch_size}, with the padding over each record; a batch of the longest is "
        f"{max(lengths)} wide. Last the {len(batches)} batches in a new order: "
        + ", ".join(f"{min(batches[at][1])} to {max(batches[at][1])}" for at in order)
        + "."
    )
    high, step, left = 0.62, 0.86, 1.62
    canvas = Canvas(
        0.98 + 3 * step,
        "Sorting within pools saves padding and keeps some of the mixing",
        words,
        subtitle="A bar is a record, its height the number of tokens. Grey is padding.",
    )
    y = canvas.top + 0.14
    gap = 0.13
    wide = (canvas.width - MARGIN - left - gap * (len(batches) - 1)) / len(lengths)
    for name, groups in steps.items():
        canvas.label((MARGIN, y + high / 2), name, colour=style.INK)
        spare = gap * (len(batches) - len(groups)) / max(len(groups) - 1, 1)
        x = left
        for pool, parts in groups:
            for part in parts:
                for n in part:
                    tall, full = high * n / max(lengths), high * max(part) / max(lengths)
                    canvas.box(x, y + high - full, wide, full, fill="quiet", rounded=False,
                               edge=style.PAPER)  # fmt: skip
                    canvas.box(x, y + high - tall, wide, tall, rounded=False, edge=style.PAPER,
                               fill=_POOLS[pool % len(_POOLS)])  # fmt: skip
                    x += wide
            x += gap + spare if len(groups) > 1 else 0.0
        y += step
    canvas.key(left, y - 0.06, {_POOLS[i]: f"pool {i + 1}" for i in range(len(pools[:2]))})
    return canvas.finish()


_POOLS = ("code", "special")
"""The fills of the records of one pool and of the next."""
