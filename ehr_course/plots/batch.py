"""One batch as the encoder reads it, every place coloured by its kind, and what padding costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ehr_course.batches.collate import Batch
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count
from ehr_course.tokenizers.codes import CodeTokenizer

KINDS = ("padding", "special", "code", "mask")
"""What can stand at a place: <PAD>, another special token, a code, <mask>."""

# Steps of viridis, from light to dark, so that the kinds differ in greyscale too.
COLOURS = {"padding": "#eceef1", "special": "#7ad151", "code": "#2d708e", "mask": "#440154"}


class KindCounts(NamedTuple):
    """How many places of a batch are of which kind."""

    padding: int
    special: int
    code: int
    mask: int

    @property
    def places(self) -> int:
        """All places of the batch: its rows times its longest row."""
        return sum(self)

    @property
    def padding_share(self) -> float:
        """The share of the places that is padding, 0 to 1."""
        return self.padding / self.places


class Waste(NamedTuple):
    """The share of padding in a whole epoch, 0 to 1.

    Attributes:
        shuffled: where the patients are shuffled and cut into batches.
        bucketed: where patients of similar length share a batch.
    """

    shuffled: float
    bucketed: float


def kinds_of(input_ids: object) -> np.ndarray:
    """The kind of each place, as its number in KINDS.

    Args:
        input_ids: int (batch, source), a tensor or anything that NumPy takes.

    >>> kinds_of([[1, 3, 6, 9, 4, 2, 0]])
    array([[1, 1, 3, 2, 1, 1, 0]])
    """
    ids = np.asarray(input_ids)
    kinds = np.where(
        ids < CodeTokenizer.first_code_id, KINDS.index("special"), KINDS.index("code")
    )
    kinds[ids == CodeTokenizer.mask_id] = KINDS.index("mask")
    kinds[ids == CodeTokenizer.pad_id] = KINDS.index("padding")
    return kinds


def count_kinds(input_ids: object) -> KindCounts:
    """Count the places of each kind.

    >>> count_kinds([[1, 3, 9, 4, 2], [1, 6, 2, 0, 0]])
    KindCounts(padding=2, special=6, code=1, mask=1)
    """
    return KindCounts(*np.bincount(kinds_of(input_ids).ravel(), minlength=len(KINDS)).tolist())


def padding_share(lengths: np.ndarray, batches: Iterable[Sequence[int]]) -> float:
    """The share of padding where each batch is as wide as its longest record.

    Args:
        lengths: int (patients,), tokens of each.
        batches: the patients in each batch, as places in lengths.

    >>> padding_share(np.array([3, 6, 5, 10]), [[0, 1], [2, 3]])
    0.25
    """
    tokens = places = 0
    for batch in batches:
        of_batch = lengths[list(batch)]
        tokens += int(of_batch.sum())
        places += len(of_batch) * int(of_batch.max())
    return 1 - tokens / places


def describe_batch(batch: Batch, waste: Waste, *, number: int, group_by_length: bool) -> str:
    """The picture in words: what the batch holds, and what padding costs in the epoch."""
    kinds = count_kinds(batch["input_ids"])
    rows, width = batch["input_ids"].shape
    order = "with" if group_by_length else "without"
    return (
        f"Batch {number} {order} length buckets: {count(rows, 'patient')}, "
        f"{count(width, 'place')} each: {count(kinds.code, 'code')}, "
        f"{count(kinds.special, 'special token')}, {count(kinds.mask, 'mask')} and "
        f"{kinds.padding:,} padding ({_percent(kinds.padding_share)}). Before corruption, padding "
        f"takes of the whole epoch "
        f"{_percent(waste.shuffled)} without buckets and {_percent(waste.bucketed)} with them."
    )


def batch_title(batch: Batch, *, number: int, group_by_length: bool) -> str:
    """The finding, for a title."""
    share = _percent(count_kinds(batch["input_ids"]).padding_share)
    return f"Batch {number}, {_order(group_by_length)}: {share} of its places are padding"


def draw_batch(batch: Batch, waste: Waste, *, number: int, group_by_length: bool) -> Picture:
    """Draw a batch's input_ids, a row a patient, and the waste of the whole epoch under it.

    Args:
        batch: what a data loader gives.
        waste: of the epoch that it comes from.
        number: of the batch, within its epoch.
        group_by_length: whether it was made of patients of similar length.
    """
    kinds = kinds_of(batch["input_ids"])
    rows, _ = kinds.shape
    grid = min(max(rows * _ROW, _LEAST_GRID), _MOST_GRID)
    height = _TOP + grid + _AXIS + _LEGEND + _BARS + _MARGIN
    with style.course_style():
        words = describe_batch(batch, waste, number=number, group_by_length=group_by_length)
        picture = Picture(style.WIDTH, height, words)
        picture.text(
            _MARGIN / style.WIDTH,
            1 - 0.24 / height,
            batch_title(batch, number=number, group_by_length=group_by_length),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        _draw_grid(_axes(picture, _LEFT, _TOP, grid), kinds)
        counts = count_kinds(batch["input_ids"])
        _draw_legend(_axes(picture, _MARGIN, _TOP + grid + _AXIS, _LEGEND), counts)
        top = _TOP + grid + _AXIS + _LEGEND
        _draw_waste(_axes(picture, _MARGIN, top, _BARS), waste, group_by_length=group_by_length)
    return picture


# ---------------------------------------------------------------------- layout, in inches

_MARGIN = 0.12
_LEFT = 0.62
_TOP = 0.48
_ROW = 0.11
_LEAST_GRID, _MOST_GRID = 0.9, 4.2
_AXIS = 0.52
_LEGEND = 0.3
_BARS = 0.86
_BAR = 0.2
_LABELS = 1.35


def _axes(picture: Picture, left: float, top: float, height: float) -> Axes:
    """Axes whose upper left corner is so many inches from that of the picture."""
    width, whole = picture.get_size_inches()
    right = _MARGIN
    box = (left / width, 1 - (top + height) / whole, (width - left - right) / width)
    return picture.add_axes((*box, height / whole))


def _draw_grid(axes: Axes, kinds: np.ndarray) -> None:
    colours = ListedColormap([COLOURS[kind] for kind in KINDS])
    axes.imshow(
        kinds, cmap=colours, vmin=0, vmax=len(KINDS) - 1, aspect="auto", interpolation="nearest"
    )
    axes.set_xlabel("position in the row", size=style.SMALL)
    axes.set_ylabel("patient", size=style.SMALL)
    axes.tick_params(labelsize=style.SMALL, length=2)
    ticks = MaxNLocator(integer=True, nbins=8, min_n_ticks=1)
    for axis, size in zip((axes.yaxis, axes.xaxis), kinds.shape, strict=True):
        axis.set_ticks([tick for tick in ticks.tick_values(0, size - 1) if 0 <= tick < size])
        axis.set_major_formatter("{x:.0f}")


def _draw_legend(axes: Axes, counts: KindCounts) -> None:
    _in_inches(axes)
    x = _LEFT - _MARGIN
    for kind in ("code", "special", "mask", "padding"):
        number = getattr(counts, kind)
        noun = _NOUNS[kind]
        text = count(number, noun) if kind in ("code", "special") else f"{number:,} {noun}"
        axes.add_patch(
            Rectangle(
                (x, 0.08), 0.14, 0.14, facecolor=COLOURS[kind], edgecolor=style.MUTED, lw=0.6
            )
        )
        axes.text(x + 0.2, 0.15, text, size=style.SMALL, va="center")
        x += 0.2 + style.text_width(text, style.SMALL) + 0.28


def _draw_waste(axes: Axes, waste: Waste, *, group_by_length: bool) -> None:
    _in_inches(axes)
    axes.text(
        0,
        0.12,
        "Padding in the whole epoch, before corruption",
        size=style.TEXT,
        weight="bold",
        va="center",
    )
    left = _LABELS
    room = style.WIDTH - 2 * _MARGIN - left
    for place, (share, with_buckets) in enumerate(
        ((waste.shuffled, False), (waste.bucketed, True))
    ):
        y = 0.3 + place * (_BAR + 0.08)
        shown = with_buckets == group_by_length
        weight = "bold" if shown else "normal"
        middle = y + _BAR / 2
        axes.text(0, middle, _order(with_buckets), size=style.SMALL, va="center", weight=weight)
        axes.add_patch(Rectangle((left, y), room, _BAR, facecolor=COLOURS["code"], lw=0))
        axes.add_patch(
            Rectangle(
                (left + room * (1 - share), y),
                room * share,
                _BAR,
                facecolor=COLOURS["padding"],
                edgecolor=style.MUTED,
                lw=0.6,
            )
        )
        label = f"{_percent(1 - share)} tokens, {_percent(share)} padding"
        # The label stands on the larger part of the bar.
        on_padding = share > 0.5
        axes.text(
            left + room - 0.1 if on_padding else left + 0.1,
            middle,
            label,
            size=style.SMALL,
            va="center",
            ha="right" if on_padding else "left",
            color=style.ink_on(COLOURS["padding" if on_padding else "code"]),
        )


def _in_inches(axes: Axes) -> None:
    """Turn to inches from the upper left corner, without a frame."""
    box = axes.get_position()
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    axes.set_xlim(0, box.width * width)
    axes.set_ylim(box.height * height, 0)
    axes.axis("off")


_NOUNS = {"code": "code", "special": "special token", "mask": "<mask>", "padding": "padding"}


def _order(group_by_length: bool) -> str:
    return "with buckets" if group_by_length else "without buckets"


def _percent(share: float) -> str:
    """Percent without decimals, but never 0% of something.

    >>> _percent(0.214), _percent(0.004), _percent(0.0)
    ('21%', '0.4%', '0%')
    """
    return f"{share:.1%}" if 0 < share < 0.01 else f"{share:.0%}"
