"""How much attention a model pays to its prefix: by layer, head and token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Rectangle

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.losses import NOT_SCORED
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.plots import style
from ehr_course.plots.attention import attention_of
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

COLOUR_MAP = "viridis"
COLOURS = Normalize(0, 1)

MOST_TOKENS = 60
"""How many tokens of a record have room in the picture."""


@dataclass(frozen=True)
class PrefixAttention:
    """The attention that the decoder pays to its prefix while it writes one record.

    Attributes:
        title: whose record it is.
        tokens: what the decoder has read last at each position, and after which it writes.
        shares: float64 (layers, heads, tokens): the part of a position's attention that goes to
            the prefix, 0 to 1. The rest goes to prompts and tokens, itself included.
        n_prefix: how many tokens the prefix has.
        n_prompts: how many prompts stand between the prefix and the first token.
    """

    title: str
    tokens: tuple[str, ...]
    shares: np.ndarray
    n_prefix: int
    n_prompts: int = 0

    def __post_init__(self) -> None:
        if self.shares.ndim != 3 or 0 in self.shares.shape:
            problem = f"their shape is {self.shares.shape}, not (layers, heads, tokens)"
        elif self.shares.shape[2] != len(self.tokens):
            problem = f"they have {self.shares.shape[2]} positions for {len(self.tokens)} tokens"
        else:
            return
        raise InputError("PrefixAttention", "shares", problem, "Give a share for each token.")

    def of_equals(self, position: int) -> float:
        """The share that the prefix would have if all that a position can see got the same.

        >>> paid = PrefixAttention("", ("<v>", "428.0"), np.zeros((1, 1, 2)), n_prefix=2)
        >>> round(paid.of_equals(0), 3), paid.of_equals(1)
        (0.667, 0.5)
        """
        return self.n_prefix / (self.n_prefix + self.n_prompts + position + 1)


def prefix_attention(
    model: PrefixTuned, tokenizer: CodeTokenizer, records: Sequence[PatientRecord]
) -> list[PrefixAttention]:
    """Let a model write records that exist, from age and sex, and see what the prefix gets.

    Args:
        model: with a prefix in the decoder. Its mode is as before afterwards.
        tokenizer: the one that the base was trained with.
        records: the patients. Those whose codes are all unseen are left out, where the
            tokenizer skips such codes; what comes after the first MOST_TOKENS is too.

    Raises:
        InputError: if the decoder has no prefix.
    """
    if "decoder" not in model.prefixes:
        raise InputError(
            "prefix_attention",
            "model",
            "there is no prefix in its decoder",
            "Train one with PrefixConfig(decoder=True).",
        )
    dataset = RecordDataset(
        list(records),
        tokenizer,
        corruption=Corruption(p_empty=1.0),
        max_tokens=min(MOST_TOKENS, model.max_tokens),
        too_long="cut",
    )
    batch = dataset.batch(range(len(dataset)))
    n_prefix = model.prefixes["decoder"].n_tokens
    weights = attention_of(model, batch)["decoder"]  # (batch, layers, heads, target, columns)
    to_prefix = weights[..., :n_prefix].astype(np.float64).sum(-1)
    n_prompts = weights.shape[-2] - batch["labels"].shape[1]
    lengths = (batch["labels"] != NOT_SCORED).sum(1).tolist()
    made = []
    for row, (record, length) in enumerate(zip(dataset.records, lengths, strict=True)):
        ids = batch["decoder_input_ids"][row, :length].tolist()
        tokens = tuple(style.written(token) for token in tokenizer.tokens(ids))
        shares = to_prefix[row, :, :, n_prompts : n_prompts + length]
        made.append(PrefixAttention(style.who(record), tokens, shares, n_prefix, n_prompts))
    return made


# ---------------------------------------------------------------------- words


def prefix_title(paid: PrefixAttention, position: int) -> str:
    """Which layer and head pays most to the prefix at a position.

    >>> shares = np.array([[[0.2, 0.5], [0.1, 0.6]]])
    >>> prefix_title(PrefixAttention("Man, 64", ("<v>", "428.0"), shares, n_prefix=2), 1)
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
        f"{paid.title}. {prefix_title(paid, position)}, and layer {layer}, head {head} pays "
        f"{here[layer, head]:.0%}, the least; {paid.of_equals(position):.0%} would be equal "
        f"shares. Over all tokens and heads: {layers}."
    )


# ---------------------------------------------------------------------- the picture

_TOP, _GAP, _BOTTOM, _CELL = 0.66, 0.5, 0.95, 0.36
_ROW, _HIGHEST = 0.2, 4.6
_LEFT, _RIGHT = 0.95, 0.12


def draw_prefix_attention(paid: PrefixAttention, position: int) -> Picture:
    """Draw the prefix's share of attention at one position, above that at all of them.

    Above, layers by heads with the share in numbers. Below, each layer and head along the
    record, the position framed.

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
    layers, heads, _ = paid.shares.shape
    cells, along = layers * _CELL, min(layers * heads * _ROW, _HIGHEST)
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
            f"{paid.title}. Equal shares would give the prefix {paid.of_equals(position):.0%}",
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
    axes.imshow(shares, aspect="auto", cmap=colours, norm=COLOURS)
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
    rows = paid.shares.reshape(layers * heads, n_tokens)
    axes.imshow(rows, aspect="auto", cmap=COLOUR_MAP, norm=COLOURS, interpolation="nearest")
    for layer in range(1, layers):
        axes.axhline(layer * heads - 0.5, color=style.PAPER, linewidth=2)
    frame = Rectangle(
        (position - 0.5, -0.5), 1, len(rows), fill=False, edgecolor="#d1495b", linewidth=2
    )
    frame.set_clip_on(False)
    axes.add_patch(frame)
    middle = [heads * layer + (heads - 1) / 2 for layer in range(layers)]
    axes.set_yticks(middle, [f"layer {layer},\nall heads" for layer in range(layers)])
    axes.set_xticks(range(n_tokens), paid.tokens, rotation=90)
    for place, label in enumerate(axes.get_xticklabels()):
        label.set_fontweight("bold" if place == position else "normal")
    axes.set_xlabel("the token read last, after which the next one is written", size=style.SMALL)
    axes.tick_params(length=0, labelsize=style.SMALL)
    _without_frame(axes)


def _without_frame(axes: Axes) -> None:
    for side in axes.spines.values():
        side.set_visible(False)
