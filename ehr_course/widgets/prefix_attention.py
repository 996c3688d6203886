"""Look at what a prefix gets of a model's attention: choose a patient and a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from ehr_course.batches.collate import tensors_of
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.losses import NOT_SCORED
from ehr_course.models.prefix_tuning import Prefix, PrefixTuned
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture, written
from ehr_course.records import PatientRecord, Sex
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.attention import attention_of
from ehr_course.widgets.static import PictureWidget, patient_slider, slider

MOST_TOKENS = 60
"""How many tokens of a record have room in the picture."""


@dataclass(frozen=True)
class PrefixAttention:
    """The attention that the decoder pays to its prefix while it writes one record.

    Attributes:
        tokens: the token read last at each position.
        shares: float64 (layers, heads, tokens): the part of a position's attention that goes to
            the prefix, 0 to 1; the rest goes to prompts and tokens.
        n_prompts: how many prompts stand between the prefix and the first token.
    """

    age: int
    sex: Sex
    tokens: tuple[str, ...]
    shares: np.ndarray
    n_prefix: int
    n_prompts: int = 0

    def of_equals(self, position: int) -> float:
        """The share that the prefix would have if all that a position can see got the same."""
        return self.n_prefix / (self.n_prefix + self.n_prompts + position + 1)


def prefix_attention(
    model: PrefixTuned,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    most_tokens: int = MOST_TOKENS,
) -> list[PrefixAttention]:
    """Let a model write existing records from age and sex, and see what its decoder's prefix gets.

    Visits after ``most_tokens`` tokens are left out, and so are records without a known code.
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
        max_tokens=min(most_tokens, model.max_tokens),
        too_long="cut",
    )
    batch = tensors_of(dataset.batch(range(len(dataset))))
    prefix = model.prefixes["decoder"]
    assert isinstance(prefix, Prefix)
    n_prefix = prefix.n_tokens
    weights = attention_of(model, batch)["decoder"]  # (batch, layers, heads, target, columns)
    to_prefix = weights[..., :n_prefix].astype(np.float64).sum(-1)
    n_prompts = weights.shape[-2] - batch["labels"].shape[1]
    lengths = (batch["labels"] != NOT_SCORED).sum(1).tolist()
    made = []
    for row, (record, length) in enumerate(zip(dataset.records, lengths, strict=True)):
        ids = batch["decoder_input_ids"][row, :length].tolist()
        tokens = tuple(written(token, tokenizer.system) for token in tokenizer.tokens(ids))
        shares = to_prefix[row, :, :, n_prompts : n_prompts + length]
        made.append(PrefixAttention(record.age, record.sex, tokens, shares, n_prefix, n_prompts))
    return made


def prefix_attention_explorer(
    model: PrefixTuned,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    token: int = 0,
) -> PictureWidget:
    """Show the attention that a decoder pays to its prefix, by layer and head.

    Args:
        model: with a prefix in the decoder. It runs once, on all records.
        tokenizer: the one that the base was trained with.
        records: the patients to choose from.
        token: where it begins, from 0.

    Returns:
        A widget with the controls ``patient`` and ``token``, both counted from 0. A record that
        is shorter than the token shows its last one.

    Raises:
        InputError: if there are no records, the decoder has no prefix, or no record has such a
            token.
    """
    if not records:
        raise InputError(
            "prefix_attention_explorer", "records", "the list is empty", "Give one or more."
        )
    paid = prefix_attention(model, tokenizer, records)
    last = max(len(one.tokens) for one in paid) - 1
    if not 0 <= token <= last:
        raise InputError(
            "prefix_attention_explorer",
            "token",
            f"there is no token {token} among {last + 1}",
            f"Use 0 to {last}.",
        )

    def draw(patient: int, token: int) -> Picture:
        one = paid[patient]
        return draw_prefix_attention(one, min(token, len(one.tokens) - 1))

    controls = {"patient": patient_slider(len(paid)), "token": slider("token", token, 0, last)}
    return PictureWidget(draw, controls)


# ---------------------------------------------------------------------- the picture

_CELL, _ALONG, _LEFT = 0.36, 1.75, 0.95  # inches


def draw_prefix_attention(paid: PrefixAttention, position: int) -> Picture:
    """Draw the prefix's share of attention at one position, above that at all of them.

    Above, layers by heads with the share in numbers. Below, along the record, a dot for each head,
    a line for the one that pays most at the position, their mean, and what equal shares would be;
    a band marks the position.

    Args:
        paid: of one record.
        position: from 0.
    """
    layers, heads, _ = paid.shares.shape
    here = paid.shares[:, :, position]
    most, least = (np.unravel_index(place, here.shape) for place in (here.argmax(), here.argmin()))
    title = (
        f"After {paid.tokens[position]}, layer {most[0]}, head {most[1]} pays {here[most]:.0%} of "
        "its attention to the prefix"
    )
    by_layer = ", ".join(
        f"layer {layer} {share:.0%}" for layer, share in enumerate(paid.shares.mean((1, 2)))
    )
    who, equal = style.who(paid), f"{paid.of_equals(position):.0%}"
    canvas = Canvas(
        4.12 + layers * _CELL,
        title,
        f"{who}. {title}, and layer {least[0]}, head {least[1]} pays {here[least]:.0%}, the "
        f"least; {equal} would be equal shares. Over all tokens and heads: {by_layer}.",
        subtitle=f"{who}. Equal shares would give the prefix {equal}",
    )
    width = canvas.width - _LEFT - MARGIN
    above = canvas.plot(_LEFT, canvas.top, width, layers * _CELL)
    viridis = matplotlib.colormaps["viridis"]
    above.imshow(here, cmap=viridis, vmin=0, vmax=1, aspect="auto")
    for (layer, head), share in np.ndenumerate(here):
        ink = style.ink_on(to_hex(viridis(float(share))))
        above.text(head, layer, f"{share:.0%}", ha="center", va="center", color=ink,
                   size=style.SMALL)  # fmt: skip
    above.set_yticks(range(layers), [f"layer {layer}" for layer in range(layers)])
    above.set_xticks(range(heads), [f"head {head}" for head in range(heads)])
    above.tick_params(length=0)
    above.spines[:].set_visible(False)
    below = canvas.plot(_LEFT, canvas.top + layers * _CELL + 0.7, width, _ALONG)
    _draw_tokens(below, paid, position, int(here.argmax()))
    return canvas.finish()


def _draw_tokens(axes: Axes, paid: PrefixAttention, position: int, most: int) -> None:
    """Draw the shares along the record; `most` is the head of the title, over all layers."""
    _, heads, n_tokens = paid.shares.shape
    places, of_heads = np.arange(n_tokens), paid.shares.reshape(-1, n_tokens)
    equals = [paid.of_equals(place) for place in range(n_tokens)]
    axes.axvspan(position - 0.5, position + 0.5, color=style.FAINT, zorder=0)
    lines: tuple[tuple[np.ndarray, dict[str, Any], str], ...] = (
        (of_heads.T, {"color": style.MUTED, "ls": "", "alpha": 0.5, "ms": 3}, "each head"),
        (of_heads.mean(0), {"color": FILLS["code"], "lw": 2, "ms": 4.5}, "mean of the heads"),
        (of_heads[most], {"color": WARNING, "lw": 1, "ms": 3.5},
         f"layer {most // heads}, head {most % heads}"),
    )  # fmt: skip
    for values, look, name in lines:
        first, *_ = axes.plot(places, values, marker="o", **look)
        first.set_label(name)
    axes.plot(places, equals, color=style.INK, lw=1.2, ls=(0, (4, 3)), label="equal shares")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False,
                fontsize=style.SMALL)  # fmt: skip
    axes.set(xlim=(-0.5, n_tokens - 0.5), ylim=(-0.02, 1.02), ylabel="the prefix's share")
    axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    axes.set_xticks(places, paid.tokens, rotation=90)
    axes.get_xticklabels()[position].set_fontweight("bold")
    axes.set_xlabel("the token read last")
    axes.tick_params(length=0)
