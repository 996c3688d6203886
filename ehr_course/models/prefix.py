"""A prefix: learned keys and values that every query of every layer can attend to.

Prefix tuning (Li and Liang 2021, https://arxiv.org/abs/2101.00190) leaves the model as it is and
learns, for each layer, the keys and values of some tokens that are never written. While it trains
the prefix may come out of a small network; afterwards the network folds away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from ehr_course.errors import InputError

INIT_STD = 1.0
"""Of the numbers that a prefix starts with, as in peft."""

SIDES = ("decoder", "cross", "encoder")
"""Where a prefix may stand: the decoder's self-attention, its attention to the encoder, and the
encoder's self-attention."""


@dataclass(frozen=True)
class PrefixConfig:
    """What kind of prefix, and where.

    Attributes:
        n_tokens: how many keys and values stand before those of each layer.
        d_hidden: the width of the two-layer tanh network that makes them while training; None
            trains the keys and values themselves.
        decoder: a prefix for the self-attention of the decoder.
        cross: one for the decoder's attention to the encoder.
        encoder: one for the self-attention of the encoder.
        shift_positions: whether the decoder counts its prefix as tokens, so that the first token
            stands at position ``n_tokens``, as in peft. By default it stands where it stood when
            the model was trained.

    Raises:
        InputError: if a number is below 1, or there is no prefix at all.

    >>> PrefixConfig(8, encoder=True).sides
    ('decoder', 'encoder')
    """

    n_tokens: int = 20
    d_hidden: int | None = None
    decoder: bool = True
    cross: bool = False
    encoder: bool = False
    shift_positions: bool = False

    def __post_init__(self) -> None:
        check_sizes("PrefixConfig", n_tokens=self.n_tokens, d_hidden=self.d_hidden)
        for name in (*SIDES, "shift_positions"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(
                    "PrefixConfig", name, f"it is {getattr(self, name)!r}", "Use True or False."
                )
        if not self.sides:
            raise InputError(
                "PrefixConfig",
                "",
                "there is no prefix anywhere",
                "Set one of decoder, cross and encoder.",
            )

    @property
    def sides(self) -> tuple[str, ...]:
        """Where there is a prefix: names out of "decoder", "cross" and "encoder"."""
        return tuple(side for side in SIDES if getattr(self, side))


class Prefix(nn.Module):
    """The keys and values of one prefix, for all layers.

    A row of ``embedding`` is one token. Directly, it holds all numbers of the token: layer by
    layer, first the key and then the value, each head after head. With ``d_hidden`` it is as wide
    as the model, and ``transform`` makes those numbers of it.

    Args:
        n_tokens: how many tokens.
        n_layers: of the stack that they stand in.
        n_heads: of its attention.
        d_model: its width: n_heads times the width of a head.
        d_hidden: the width of the network; None for a direct prefix.
        init_std: of the embedding's first values.
        generator: draws them; torch's own by default.

    Raises:
        InputError: if a number is below 1, or d_model is not divisible by n_heads.

    >>> prefix = Prefix(20, n_layers=2, n_heads=4, d_model=96)
    >>> prefix().shape
    torch.Size([2, 2, 4, 20, 24])
    >>> projected = Prefix(20, n_layers=2, n_heads=4, d_model=96, d_hidden=16)
    >>> torch.allclose(projected(), projected.folded()(), atol=1e-6)
    True
    """

    def __init__(
        self,
        n_tokens: int,
        n_layers: int,
        n_heads: int,
        d_model: int,
        *,
        d_hidden: int | None = None,
        init_std: float = INIT_STD,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes(
            "Prefix",
            n_tokens=n_tokens,
            n_layers=n_layers,
            n_heads=n_heads,
            d_model=d_model,
            d_hidden=d_hidden,
        )
        if d_model % n_heads:
            raise InputError(
                "Prefix",
                "n_heads",
                f"d_model is {d_model}, which {n_heads} heads cannot share",
                "Use the model's own d_model and number of heads.",
            )
        self.n_layers, self.n_heads, self.d_model = n_layers, n_heads, d_model
        width = n_layers * 2 * d_model
        self.embedding = nn.Parameter(torch.empty(n_tokens, d_model if d_hidden else width))
        nn.init.normal_(self.embedding, std=init_std, generator=generator)
        self.transform: nn.Sequential | None = None
        if d_hidden:
            # skip_init: the constructor would draw from torch's own state
            first = skip_init(nn.Linear, d_model, d_hidden)
            second = skip_init(nn.Linear, d_hidden, width)
            self.transform = nn.Sequential(first, nn.Tanh(), second)
            for linear in (first, second):
                bound = linear.in_features**-0.5  # as the constructor does
                nn.init.uniform_(linear.weight, -bound, bound, generator=generator)
                nn.init.uniform_(linear.bias, -bound, bound, generator=generator)

    @property
    def n_tokens(self) -> int:
        """How many tokens the prefix has."""
        return self.embedding.shape[0]

    def rows(self) -> Tensor:
        """All numbers of each token, (n_tokens, n_layers * 2 * d_model)."""
        return self.embedding if self.transform is None else self.transform(self.embedding)

    def forward(self) -> Tensor:
        """Keys (0) and values (1) of each layer: (n_layers, 2, n_heads, n_tokens, head_dim)."""
        head_dim = self.d_model // self.n_heads
        by_token = self.rows().view(self.n_tokens, self.n_layers, 2, self.n_heads, head_dim)
        # view alone would put the tokens of one layer into other layers
        return by_token.permute(1, 2, 3, 0, 4)

    @torch.no_grad()
    def folded(self) -> Self:
        """The direct prefix with the same keys and values, without the network."""
        size = (self.n_tokens, self.n_layers, self.n_heads, self.d_model)
        direct = type(self)(*size, generator=torch.Generator())
        direct.embedding = nn.Parameter(self.rows().detach().clone())
        return direct


def prefix_parameters(
    n_tokens: int, n_layers: int, d_model: int, *, d_hidden: int | None = None
) -> int:
    """How many parameters a Prefix trains, biases included.

    >>> prefix_parameters(20, 32, 4096)
    5242880
    >>> prefix_parameters(20, 32, 4096, d_hidden=512)
    136659456
    """
    check_sizes(
        "prefix_parameters",
        n_tokens=n_tokens,
        n_layers=n_layers,
        d_model=d_model,
        d_hidden=d_hidden,
    )
    width = n_layers * 2 * d_model
    if d_hidden is None:
        return n_tokens * width
    return n_tokens * d_model + (d_model + 1) * d_hidden + (d_hidden + 1) * width


def check_sizes(thing: str, **sizes: int | None) -> None:
    """Refuse a size that is no whole number from 1; None is let through for d_hidden alone."""
    for name, size in sizes.items():
        if size is None and name == "d_hidden":
            continue
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            remedy = "Use 1 or more."
            if name == "d_hidden":
                remedy = "Use 1 or more, or None for a prefix without a network."
            raise InputError(thing, name, f"{size!r} is out of range", remedy)
