"""The picture of the attention that a model pays to its prefix: by layer, head and token."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex

from ehr_course.errors import InputError
from ehr_course.evaluation.attention import PrefixAttention
from ehr_course.plots import style
from ehr_course.plots.cells import draw_cells
from ehr_course.plots.style import Picture

COLOUR_MAP = "viridis"
COLOURS = Normalize(0, 1)

MOST_TOKENS = 60
"""How many tokens of a record have room in the picture."""


# ---------------------------------------------------------------------- words


def prefix_title(paid: PrefixAttention, position: int) -> str:
    """Which layer and head pays most to the prefix at a position.

    >>> shares = np.array([[[0.2, 0.5], [0.1, 0.6]]])
    >>> prefix_title(PrefixAttention(64, "M", ("<v>", "428.0"), shares, n_prefix=2), 1)
    'After 428.0, layer 0, head 1 pays 60% of its attention to the prefix'
    """
    here = paid.shares[:, :, position]
    layer, head = np.unravel_index(here.argmax(), here.shape)
    return (
        f"After {paid.tokens[position]}, layer {layer}, head {head} pays "
        f"{here[layer, head]:.0%} of its attention to the prefix"
    )


def describe_prefix_attention(paid: PrefixAttention, position: int) -> str:
    """Say in words what :func:`draw_prefix_attention` shows."""
    here = paid.shares[:, :, position]
    layer, head = np.unravel_index(here.argmin(), here.shape)
    layers = ", ".join(
        f"layer {number} {share:.0%}" for number, share in enumerate(paid.shares.mean((1, 2)))
    )
    return (
        f"{style.who(paid)}. {prefix_title(paid, position)}, and layer {layer}, head {head} pays "
        f"{here[layer, head]:.0%}, the least; {paid.of_equals(position):.0%} would be equal "
        f"shares. Over all tokens and heads: {layers}."
    )


# ---------------------------------------------------------------------- the picture

_TOP, _GAP, _BOTTOM, _CELL = 0.66, 0.8, 0.95, 0.36
_ALONG = 1.75
_LEFT, _RIGHT = 0.95, 0.12
_BLUE, _RED = "#2d708e", "#b3400e"


def draw_prefix_attention(paid: PrefixAttention, position: int) -> Picture:
    """Draw the prefix's share of attention at one position, above that at all of them.

    Above, layers by heads with the share in numbers. Below, along the record, a dot for each head,
    a line for the one that pays most at the position, their mean, and what equal shares would be;
    a band marks the position.

    Args:
        paid: of one record.
        position: from 0.

    Raises:
        InputError: if there is no such position.
    """
    if not 0 <= position < len(paid.tokens):
        raise InputError(
            "draw_prefix_attention",
            "position",
            f"{position} is no position of {len(paid.tokens)}",
            f"Use 0 to {len(paid.tokens) - 1}.",
        )
    layers = paid.shares.shape[0]
    cells, along = layers * _CELL, _ALONG
    height = _TOP + cells + _GAP + along + _BOTTOM
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_prefix_attention(paid, position))
        picture.text(
            0.012,
            1 - 0.2 / height,
            prefix_title(paid, position),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        picture.text(
            0.012,
            1 - 0.45 / height,
            f"{style.who(paid)}. Equal shares would give the prefix "
            f"{paid.of_equals(position):.0%}",
            size=style.SMALL,
            color=style.MUTED,
        )
        left, width = _LEFT / style.WIDTH, (style.WIDTH - _LEFT - _RIGHT) / style.WIDTH
        above = picture.add_axes((left, (_BOTTOM + along + _GAP) / height, width, cells / height))
        _draw_heads(above, paid.shares[:, :, position])
        below = picture.add_axes((left, _BOTTOM / height, width, along / height))
        _draw_tokens(below, paid, position)
    return picture


def _draw_heads(axes: Axes, shares: np.ndarray) -> None:
    layers, heads = shares.shape
    colours = matplotlib.colormaps[COLOUR_MAP]
    draw_cells(axes, shares, cmap=colours, norm=COLOURS)
    size = style.TEXT if heads <= 8 else style.SMALL * 0.85
    for layer in range(layers):
        for head in range(heads):
            share = shares[layer, head]
            ink = style.ink_on(to_hex(colours(COLOURS(share))))
            axes.text(head, layer, f"{share:.0%}", ha="center", va="center", color=ink, size=size)
    axes.set_yticks(range(layers), [f"layer {layer}" for layer in range(layers)])
    axes.set_xticks(range(heads), [f"head {head}" for head in range(heads)])
    axes.tick_params(length=0, labelsize=style.SMALL)
    _without_frame(axes)


def _draw_tokens(axes: Axes, paid: PrefixAttention, position: int) -> None:
    layers, heads, n_tokens = paid.shares.shape
    places = np.arange(n_tokens)
    of_heads = paid.shares.reshape(layers * heads, n_tokens)
    axes.axvspan(position - 0.5, position + 0.5, color=style.FAINT, zorder=0)
    axes.plot(
        np.tile(places, layers * heads), of_heads.ravel(), "o", color=style.MUTED, alpha=0.5,
        markersize=3.5, markeredgewidth=0, label="each head",
    )  # fmt: skip
    axes.plot(places, of_heads.mean(0), "-o", color=_BLUE, linewidth=2, markersize=4.5,
              label="mean of the heads")  # fmt: skip
    most = of_heads[:, position].argmax()  # the head of the title
    axes.plot(places, of_heads[most], "-o", color=_RED, linewidth=1, markersize=3.5,
              label=f"layer {most // heads}, head {most % heads}")  # fmt: skip
    equals = [paid.of_equals(place) for place in range(n_tokens)]
    axes.plot(places, equals, color=style.INK, linewidth=1.2,
              linestyle=(0, (4, 3)), label="equal shares")  # fmt: skip
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, fontsize=style.SMALL,
        borderpad=0.2, handletextpad=0.5,
    )  # fmt: skip
    axes.set_xlim(-0.5, n_tokens - 0.5)
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    axes.set_ylabel("the prefix's share", size=style.SMALL)
    axes.set_xticks(places, paid.tokens, rotation=90)
    for place, label in enumerate(axes.get_xticklabels()):
        label.set_fontweight("bold" if place == position else "normal")
    axes.set_xlabel("the token read last", size=style.SMALL)
    axes.tick_params(length=0, labelsize=style.SMALL)


def _without_frame(axes: Axes) -> None:
    for side in axes.spines.values():
        side.set_visible(False)
