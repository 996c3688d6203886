"""The drawings of padding in lesson 10: what it wastes, what saves it, and what a batch weighs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from ehr_course.batches.collate import Batch
from ehr_course.plots import style
from ehr_course.plots.batch import COLOURS, KINDS, kinds_of
from ehr_course.plots.drawings.canvas import FILLS, MARGIN, WARNING, Canvas
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
    axes.hist(lengths, bins=np.arange(0, width + 4, 4), color=FILLS["code"])
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
        subtitle="The arrow points at the same patient in both batches.",
    )
    room, between = canvas.width - 2 * MARGIN - 0.2, 0.75
    pitch = min(0.105, (room - between) / sum(widths.values()))
    x, top, high = MARGIN + 0.22, canvas.top + 0.42, 1.62
    for name, batch in batches.items():
        n_rows, width = batch["input_ids"].shape
        wide = width * pitch
        canvas.label((x, top - 0.28), name, size=style.TEXT, weight="bold", colour=style.INK)
        canvas.label((x, top - 0.11), f"{n_rows} × {width} places")
        _token_image(canvas.plot(x, top, wide, high), batch["input_ids"])
        y = top + (row[name] + 0.5) * high / n_rows
        canvas.arrow((x - 0.22, y), (x - 0.02, y), colour=WARNING)
        x += max(wide, 1.3) + between
    y = top + high + 0.22
    canvas.key(
        MARGIN + 0.22, y,
        {"code": "code", "special": "special token", "mask": "mask", "quiet": "padding"},
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


def draw_pools(sweep: Mapping[int, tuple[float, float]]) -> Picture:
    """Draw what the size of a pool saves, and what it costs.

    Args:
        sweep: by the number of batches in a pool, the share of places that is padding, and the
            share of a patient's batch-mates who are batch-mates again in the next epoch.
    """
    sizes = sorted(sweep)
    words = (
        "Two lines over the number of batches in a pool. "
        + "; ".join(
            f"{n}: {sweep[n][0]:.0%} padding, {sweep[n][1]:.0%} of the batch-mates meet again"
            for n in sizes
        )
        + "."
    )
    canvas = Canvas(
        3.0, "Larger pools waste less, but bring the same patients together again", words
    )
    axes = canvas.plot(0.75, canvas.top + 0.12, canvas.width - 2.75, 1.75)
    at = np.arange(len(sizes))
    for part, (name, dashed) in enumerate(
        (("padding", False), ("batch-mates who meet\nagain in the next epoch", True))
    ):
        values = np.array([sweep[n][part] for n in sizes])
        axes.plot(
            at, values, "o--" if dashed else "o-", color=WARNING if dashed else FILLS["code"]
        )
        for x, value in zip(at, values, strict=True):
            above = value >= sweep[sizes[x]][1 - part]
            axes.annotate(
                f"{value:.0%}", (x, value), xytext=(0, 6 if above else -6), ha="center",
                textcoords="offset points", va="bottom" if above else "top", size=style.SMALL,
            )  # fmt: skip
        axes.annotate(
            name, (at[-1], values[-1]), xytext=(24, 0), textcoords="offset points",
            va="center", size=style.SMALL, color=style.INK,
        )  # fmt: skip
    axes.set_xticks(at, [str(n) for n in sizes[:-1]] + [f"{sizes[-1]} (all)"])
    axes.set_xlim(-0.4, len(sizes) - 0.6)
    axes.set_ylim(-0.12, max(max(pair) for pair in sweep.values()) + 0.14)
    axes.set_yticks([])
    axes.set_xlabel("batches in a pool")
    return canvas.finish()


def draw_budget(
    ways: Mapping[str, Sequence[tuple[int, int]]], budget: int, overhead: int
) -> Picture:
    """Draw the batches of an epoch, divided in two ways, as bars on one scale.

    Args:
        ways: by the name of the way, the records and the width of each batch.
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
    few = min(map(len, sizes.values()))
    canvas = Canvas(
        3.35,
        f"The same epoch in {few:,} batches, and none larger than before",
        f"The places of the batches of an epoch as bars. {words}. The budget is {budget:,}.",
        subtitle=f"Places of each batch. Every batch costs its places and {overhead} more.",
    )
    n_bars = sum(map(len, sizes.values()))
    room = canvas.width - 2 * MARGIN - 0.5
    x, top, high = MARGIN + 0.5, canvas.top + 0.5, 1.5
    least = 1.9
    spare = room - 0.3 * (len(sizes) - 1) - least * len(sizes)
    for name, way in sizes.items():
        wide = least + spare * len(way) / n_bars
        axes = canvas.plot(x, top, wide, high)
        axes.bar(range(len(way)), way, color=FILLS["code"], width=0.8)
        axes.axhline(budget, color=WARNING, linestyle="--", linewidth=1.2)
        axes.set_ylim(0, 1.08 * budget)
        axes.set_xticks([])
        axes.set_yticks([0, budget], [str(0), f"{budget:,}"] if x < 1 else ["", ""])
        canvas.label((x, top - 0.16), name, weight="bold", colour=style.INK)
        canvas.label((x, top + high + 0.16), f"{len(way):,} batches")
        canvas.label((x, top + high + 0.36), f"cost {costs[name]:,}")
        x += wide + 0.3
    return canvas.finish()


def draw_memory(batch: Batch, n_tokens: int, width: int, large: int) -> Picture:
    """Draw the bytes of a batch beside those of the scores that a model makes of it.

    Args:
        batch: measured tensor by tensor.
        n_tokens: of the vocabulary: a model scores each of them at each place of the target.
        width: the places of a row, if each record got the same number.
        large: the tokens of a large vocabulary.
    """
    total = sum(tensor.nbytes for tensor in batch.values())
    rows, target = batch["labels"].shape
    a_score = rows * batch["x_num"].element_size()
    logits = target * n_tokens * a_score
    bars = {
        "the batch": (total, "code"),
        f"its logits, {n_tokens:,} tokens": (logits, "decoder"),
        f"with {width:,} places": (width * n_tokens * a_score, "decoder"),
        f"and {large:,} tokens": (width * large * a_score, "trap"),
    }
    words = "; ".join(f"{name} {n_bytes:,} bytes" for name, (n_bytes, _) in bars.items())
    canvas = Canvas(
        2.2,
        f"The logits take {logits / total:.0f} times the memory of their batch",
        f"Bars of memory for {count(rows, 'patient')}: {words}.",
        subtitle=f"Bytes for {count(rows, 'patient')}",
    )
    left, wide, y = MARGIN + 1.9, 3.0, canvas.top + 0.02
    scale = wide / max(n_bytes for n_bytes, _ in bars.values())
    for name, (n_bytes, fill) in bars.items():
        y += 0.28
        canvas.label((MARGIN, y), name, colour=style.INK)
        part = max(n_bytes * scale, 0.02)
        canvas.box(left, y - 0.09, part, 0.18, fill=fill, rounded=False)
        canvas.label((left + part + 0.1, y), f"{n_bytes:,} bytes")
    return canvas.finish()
