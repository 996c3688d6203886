"""The picture of a model's attention on one record, and its words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count

Kind = Literal["encoder", "decoder", "cross"]

KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
"""The three attentions of an encoder-decoder model."""


@dataclass(frozen=True)
class AttentionMap:
    """The attention of one kind on one record, with what its rows and columns stand for.

    Attributes:
        weights: float (layers, heads, rows, columns); each row sums to 1.
        rows, columns: what each is, in few characters: "428.0", "<v>", "age 64".
        row_names, column_names: the same, made unique: "428.0 of visit 2".
        writes: the token that each row is about to write, "" if none; empty for an encoder.
    """

    kind: Kind
    weights: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    writes: tuple[str, ...] = ()
    system: CodeSystem = "ICD9CM"

    @property
    def row_labels(self) -> tuple[str, ...]:
        """The rows as they stand beside a heat map: what was read, and what is to be written."""
        if not self.writes:
            return self.rows
        pairs = zip(self.rows, self.writes, strict=True)
        return tuple(f"{row} → {writes}" if writes else row for row, writes in pairs)

    @property
    def causal(self) -> bool:
        """Whether a row sees nothing to the right of itself."""
        return self.kind == "decoder"

    def hidden(self) -> np.ndarray:
        """Where a row cannot look: a boolean array of shape (rows, columns)."""
        everywhere = np.ones(self.weights.shape[-2:], dtype=bool)
        return np.triu(everywhere, 1) if self.causal else ~everywhere

    def strongest(self, layer: int, head: int, row: int) -> int:
        """The column that a row looks at most."""
        return int(self.weights[layer, head, row].argmax())

    @property
    def first_code(self) -> int:
        """The row of the first code, or row 0 where there is none."""
        return self.rows.index("<v>") + 1 if "<v>" in self.rows else 0


KIND_NAMES: dict[Kind, str] = {
    "encoder": "Encoder attention",
    "decoder": "Decoder attention",
    "cross": "Cross attention",
}

READING: dict[Kind, str] = {
    "encoder": "Encoder attention: each row is a position of the encoder; it shares a weight of 1 "
    "among all positions",
    "decoder": "Decoder attention: each row is the decoder after one token, about to write the "
    "next; its weights sum to 1",
    "cross": "Cross attention: each row is the decoder after one token, about to write the next; "
    "its weights over the encoder sum to 1",
}
"""How to read the picture of each kind."""

COLOUR_MAP = "viridis"

GAMMA = 0.5
"""The colour of a weight is that of (weight / largest weight) ** GAMMA.

A square root: a row that sees one column alone has the weight 1, and would leave a scale in
proportion nothing but its darkest end for the rows that share theirs among fifty.
"""


# ---------------------------------------------------------------------- words


def attention_title(shown: AttentionMap, *, layer: int, head: int, row: int) -> str:
    """Which column a row looks at most.

    >>> weights = np.array([[[[0.9, 0.1], [0.3, 0.7]]]])
    >>> names = ("age 64", "428.0")
    >>> one = AttentionMap("encoder", weights, names, names, names, names)
    >>> attention_title(one, layer=0, head=0, row=1)
    'Layer 0, head 0: 428.0 looks most at itself (0.70)'
    """
    column = shown.strongest(layer, head, row)
    itself = shown.kind != "cross" and column == row
    at = "itself" if itself else shown.column_names[column]
    weight = shown.weights[layer, head, row, column]
    name = shown.row_names[row]
    if shown.writes and shown.writes[row]:
        name = f"after {name}, about to write {shown.writes[row]}, it"
    return f"Layer {layer}, head {head}: {name} looks most at {at} ({weight:.2f})"


def favourite(shown: AttentionMap, *, layer: int, head: int) -> tuple[str, int]:
    """The column label that most rows look at most, and how many rows those are.

    Columns with the same label count as one: every ``<v>`` is a ``<v>``.
    """
    strongest = shown.weights[layer, head].argmax(axis=-1)
    return Counter(shown.columns[column] for column in strongest).most_common(1)[0]


def describe_attention(shown: AttentionMap, *, layer: int, head: int, row: int) -> str:
    """Say in one sentence what :func:`draw_attention` shows."""
    label, rows = favourite(shown, layer=layer, head=head)
    title = attention_title(shown, layer=layer, head=head, row=row)
    return (
        f"Heat map of {KIND_NAMES[shown.kind].lower()}, {count(len(shown.rows), 'row')} by "
        f"{count(len(shown.columns), 'column')}; {title[0].lower()}{title[1:]}; {label} is the "
        f"first choice of {rows} of {count(len(shown.rows), 'row')}."
    )


# ---------------------------------------------------------------------- the picture


def draw_attention(shown: AttentionMap, *, layer: int = 0, head: int = 0, row: int = 0) -> Picture:
    """Draw one head as a heat map: a row for each position that looks, a column for each seen.

    A cell where a row cannot look is grey. The colours run from 0 to the largest weight of this
    head, by their square root. The row of the title is framed, and the column it looks at most.

    Args:
        shown: the weights and their labels.
        layer: which layer, counted from 0.
        head: which head, counted from 0.
        row: the row that the title speaks of.

    Raises:
        InputError: if there is no such layer, head or row.
    """
    places = zip(("layer", "head", "row"), (layer, head, row), shown.weights.shape, strict=False)
    for name, value, size in places:
        if not 0 <= value < size:
            raise InputError(
                "draw_attention",
                name,
                f"{value} is not from 0 to {size - 1}",
                f"The {name}s of this attention are counted from 0.",
            )
    weights = shown.weights[layer, head]
    n_rows, n_columns = weights.shape
    room = _Room.of(shown)
    with style.course_style():
        words = describe_attention(shown, layer=layer, head=head, row=row)
        picture = Picture(style.WIDTH, room.height, words)
        _write_head(picture, room, shown, layer, head, row)
        axes = picture.add_axes(
            (
                room.left / style.WIDTH,
                _BOTTOM / room.height,
                n_columns * room.cell / style.WIDTH,
                n_rows * room.cell / room.height,
            )
        )
        top = float(weights.max())
        colours = matplotlib.colormaps[COLOUR_MAP].with_extremes(bad=_HIDDEN)
        axes.pcolormesh(
            np.ma.masked_array(weights, shown.hidden()),
            cmap=colours,
            norm=PowerNorm(GAMMA, 0, top),
            edgecolors=style.PAPER,
            linewidth=0.4,
        )
        if shown.causal:  # a mesh leaves masked cells open
            axes.set_facecolor(_HIDDEN)
        _write_labels(axes, room, shown, row)
        column = shown.strongest(layer, head, row)
        _frame(axes, 0, row, n_columns, 1.0)
        _frame(axes, column, row, 1, 2.0)
        _draw_scale(picture, room, top, hidden=shown.causal)
    return picture


_MARGIN = 0.12
_TOP = 0.72
_BOTTOM = 0.62
_LARGEST_CELL = 0.26
_HIDDEN = "#e6e8ec"
_FRAME = "#d1495b"
_SCALE_WIDTH = 1.5


@dataclass(frozen=True)
class _Room:
    """Where things stand, in inches."""

    cell: float
    left: float  # of the heat map
    above: float  # what the labels of the columns take
    height: float

    @property
    def size(self) -> float:
        """Of the labels, in points: as large as the cells allow."""
        return min(style.SMALL, self.cell * 72 * 0.8)

    @classmethod
    def of(cls, shown: AttentionMap) -> _Room:
        def widest(labels: tuple[str, ...]) -> float:
            # Bold, because the label of the chosen row is.
            return max(style.text_width(label, style.SMALL, weight="bold") for label in labels)

        left = _MARGIN + widest(shown.row_labels) + 0.1
        above = widest(shown.columns) + 0.1
        cell = min(_LARGEST_CELL, (style.WIDTH - left - _MARGIN) / len(shown.columns))
        height = _TOP + above + cell * len(shown.rows) + _BOTTOM
        return cls(cell, left, above, height)


def _write_head(
    picture: Picture, room: _Room, shown: AttentionMap, layer: int, head: int, row: int
) -> None:
    title = attention_title(shown, layer=layer, head=head, row=row)
    left = _MARGIN / style.WIDTH
    # A long name makes a long title, which gives way rather than being cut.
    width = style.text_width(title, style.TITLE, weight="bold")
    size = style.TITLE * min(1, (style.WIDTH - 2 * _MARGIN) / (1.03 * width))
    picture.text(left, 1 - 0.24 / room.height, title, size=size, weight="bold", va="center")
    picture.text(
        left,
        1 - 0.5 / room.height,
        READING[shown.kind],
        size=style.SMALL,
        color=style.MUTED,
        va="center",
    )


def _write_labels(axes: Axes, room: _Room, shown: AttentionMap, row: int) -> None:
    axes.set_ylim(len(shown.rows), 0)
    axes.set_xlim(0, len(shown.columns))
    axes.set_yticks([i + 0.5 for i in range(len(shown.rows))], shown.row_labels, parse_math=False)
    axes.xaxis.tick_top()
    axes.set_xticks(
        [i + 0.5 for i in range(len(shown.columns))], shown.columns, rotation=90, parse_math=False
    )
    axes.tick_params(length=0, pad=3, labelsize=room.size)
    axes.get_yticklabels()[row].set_fontweight("bold")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _frame(axes: Axes, column: int, row: int, width: int, line: float) -> None:
    place = (column, row)
    axes.add_patch(
        Rectangle(place, width, 1, fill=False, edgecolor=_FRAME, linewidth=line, clip_on=False)
    )


def _draw_scale(picture: Picture, room: _Room, top: float, *, hidden: bool) -> None:
    """The colours and what they stand for."""
    axes = picture.add_axes(
        (
            room.left / style.WIDTH,
            (_BOTTOM - 0.3) / room.height,
            _SCALE_WIDTH / style.WIDTH,
            0.12 / room.height,
        )
    )
    colours = ScalarMappable(PowerNorm(GAMMA, 0, top), matplotlib.colormaps[COLOUR_MAP])
    bar = picture.colorbar(colours, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.set_ticks([0, top / 4, top], labels=["0", f"{top / 4:.2f}", f"{top:.2f}"])
    bar.minorticks_off()
    axes.tick_params(length=2, labelsize=style.SMALL)
    y = (_BOTTOM - 0.24) / room.height
    x = room.left + _SCALE_WIDTH + 0.2
    words = "attention weight (colour: its square root)"
    picture.text(x / style.WIDTH, y, words, size=style.SMALL, va="center")
    if hidden:
        x += style.text_width(words, style.SMALL) + 0.3
        axes.add_patch(
            Rectangle(
                (x / style.WIDTH, y - 0.06 / room.height),
                0.12 / style.WIDTH,
                0.12 / room.height,
                color=_HIDDEN,
                transform=picture.transFigure,
                clip_on=False,
            )
        )
        x += 0.2
        picture.text(
            x / style.WIDTH, y, "a later position: not seen", size=style.SMALL, va="center"
        )
