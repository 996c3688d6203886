"""One step of PromptBart's decoder: what its forward says with a cache, in less time.

A cohort takes a step for every token of every patient and asks for no gradient. Written out in
plain tensor operations, a step needs no growing cache that is copied at each token, no mask for
a single query, and one product for queries, keys and values together.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers.cache_utils import EncoderDecoderCache
from transformers.models.bart.modeling_bart import (
    BartAttention,
    BartDecoder,
    BartDecoderLayer,
    BartLearnedPositionalEmbedding,
    BartScaledWordEmbedding,
)

from ehr_course.models.prompt_bart import PromptBart

ROOM = 32
"""How many positions a cache gets room for at first; where it is full, it doubles."""

WRITTEN_OUT = 64
"""Up to so many positions attention is written out in sums."""


def fits(model: nn.Module) -> bool:
    """Whether the step says what the model says.

    It does not see what was put into the model or onto it from outside: another class, an
    exchanged part, a hook (prefix tuning works by hooks), a forward that was replaced.
    """
    if type(model) is not PromptBart or torch.is_autocast_enabled(model.device.type):
        return False
    decoder = model.model.decoder
    parts = [(decoder, BartDecoder), (model.lm_head, nn.Linear)]
    parts += [(decoder.embed_tokens, BartScaledWordEmbedding)]
    parts += [(decoder.embed_positions, BartLearnedPositionalEmbedding)]
    parts += [(decoder.layernorm_embedding, nn.LayerNorm)]
    for layer in decoder.layers:
        parts += [(layer, BartDecoderLayer)]
        for attention in (layer.self_attn, layer.encoder_attn):
            parts += [(attention, BartAttention)]
            parts += [
                (getattr(attention, f"{name}_proj"), nn.Linear) for name in ("q", "k", "v", "out")
            ]
        parts += [(layer.fc1, nn.Linear), (layer.fc2, nn.Linear)]
        parts += [
            (getattr(layer, f"{name}_layer_norm"), nn.LayerNorm)
            for name in ("self_attn", "encoder_attn", "final")
        ]
    return all(type(part) is kind for part, kind in parts) and not any(
        part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
        for part in model.modules()
    )


class _Linear(NamedTuple):
    """One linear map, or several of the same input in one product."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, *modules: nn.Linear) -> Self:
        weight = torch.cat([module.weight for module in modules])
        return cls(weight, torch.cat([module.bias for module in modules]))

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class _Norm(NamedTuple):
    """A LayerNorm."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, module: nn.LayerNorm) -> Self:
        return cls(module.weight, module.bias, module.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class _Layer:
    """The weights of one layer of the decoder."""

    def __init__(self, layer: BartDecoderLayer) -> None:
        own, source = layer.self_attn, layer.encoder_attn
        self.query_key_value = _Linear.of(own.q_proj, own.k_proj, own.v_proj)
        self.own_out, self.own_norm = (
            _Linear.of(own.out_proj),
            _Norm.of(layer.self_attn_layer_norm),
        )
        self.source_query, self.source_out = _Linear.of(source.q_proj), _Linear.of(source.out_proj)
        self.source_norm = _Norm.of(layer.encoder_attn_layer_norm)
        self.inner, self.activation = _Linear.of(layer.fc1), layer.activation_fn
        self.outer, self.norm = _Linear.of(layer.fc2), _Norm.of(layer.final_layer_norm)


class _Cache:
    """Keys or values of a layer, (positions, batch, d_model).

    Time comes first, so that what a step reads lies together, and a step writes in one place.
    """

    def __init__(self) -> None:
        self.room: Tensor | None = None
        self.length = self.rows = 0

    def fill(self, read: Tensor, rows: Tensor) -> None:
        """Take over what was read, (sequences, heads, positions, d_head), for each row."""
        self.rows, self.length = len(rows), 0
        columns = read.transpose(1, 2).flatten(2).transpose(0, 1)  # (positions, sequences, ...)
        self._make_room(len(columns), columns)
        self.room[: len(columns), : self.rows] = columns.index_select(1, rows)
        self.length = len(columns)

    def append(self, column: Tensor) -> Tensor:
        """Write one position, (batch, d_model), and return all: (positions, batch, d_model)."""
        self._make_room(self.length + 1, column)
        self.room[self.length, : self.rows] = column
        self.length += 1
        return self.seen()

    def seen(self) -> Tensor:
        """All that is held: (positions, batch, d_model)."""
        return self.room[: self.length, : self.rows]

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep some rows; ``moved`` are the places that another row comes to."""
        seen = self.room[: self.length]
        seen.index_copy_(1, moved, seen.index_select(1, rows[moved]))
        self.rows = len(rows)

    def _make_room(self, positions: int, like: Tensor) -> None:
        """Room for so many positions; it doubles, and is kept from one batch to the next."""
        if self.room is not None and self.room.shape[1] >= self.rows:
            if len(self.room) >= positions:
                return
            positions = max(positions, 2 * len(self.room))
        grown = like.new_empty(max(positions, ROOM), self.rows, like.shape[-1])
        if self.length:
            grown[: self.length] = self.seen()
        self.room = grown


class PromptBartStep:
    """The decoder of a PromptBart, one token a row at a time.

    Begin with ``start``; then each call reads one token a row. Rows leave with ``keep``.

    Args:
        model: one that ``fits``, in evaluation mode; later changes of its weights are not seen.
    """

    def __init__(self, model: PromptBart) -> None:
        decoder = model.model.decoder
        self.n_heads = model.config.decoder_attention_heads
        self.embeddings = decoder.embed_tokens.weight * decoder.embed_tokens.embed_scale
        self.positions = decoder.embed_positions.weight[decoder.embed_positions.offset :]
        self.norm = _Norm.of(decoder.layernorm_embedding)
        self.layers = [_Layer(layer) for layer in decoder.layers]
        self.vocabulary = _Linear(model.lm_head.weight, model.final_logits_bias[0])
        self.keys, self.values, self.source_keys, self.source_values = (
            [_Cache() for _ in self.layers] for _ in range(4)
        )
        self.padding: Tensor | None = None

    def start(self, past: EncoderDecoderCache, mask: Tensor, rows: Tensor) -> None:
        """Take over what was read so far.

        Args:
            past: the cache that the model's forward returned for some sequences of one length.
            mask: 0 or 1 (sequences, source), 0 where what the encoder read is padding.
            rows: int64 (batch,): which of the sequences each row goes on from.
        """
        self.position = past.get_seq_length()
        for number, read in enumerate(past.self_attention_cache.layers):
            self.keys[number].fill(read.keys, rows)
            self.values[number].fill(read.values, rows)
        for number, read in enumerate(past.cross_attention_cache.layers):
            self.source_keys[number].fill(read.keys, rows)
            self.source_values[number].fill(read.values, rows)
        self.padding = None if mask.all() else (mask == 0)[rows].T[..., None]

    def __call__(self, tokens: Tensor) -> Tensor:
        """Read a token a row.

        Args:
            tokens: int64 (batch,).

        Returns:
            The logits of the next one, (batch, vocabulary).
        """
        x = self.norm(self.embeddings[tokens] + self.positions[self.position])
        self.position += 1
        for number, layer in enumerate(self.layers):
            query, key, value = layer.query_key_value(x).chunk(3, dim=-1)
            keys, values = self.keys[number].append(key), self.values[number].append(value)
            read = attend(query, keys, values, self.n_heads)
            x = layer.own_norm(x + layer.own_out(read))
            query = layer.source_query(x)
            keys, values = self.source_keys[number].seen(), self.source_values[number].seen()
            read = attend(query, keys, values, self.n_heads, self.padding)
            x = layer.source_norm(x + layer.source_out(read))
            x = layer.norm(x + layer.outer(layer.activation(layer.inner(x))))
        return self.vocabulary(x)

    def keep(self, rows: Tensor) -> None:
        """Keep some of the rows, in this order; it costs little where most stay in their place.

        Args:
            rows: int64 (kept,): no row twice.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for caches in (self.keys, self.values, self.source_keys, self.source_values):
            for cache in caches:
                cache.keep(rows, moved)
        if self.padding is not None:
            self.padding = self.padding[:, rows]


def attend(
    query: Tensor, keys: Tensor, values: Tensor, n_heads: int, padding: Tensor | None = None
) -> Tensor:
    """Attention of one query a row.

    Where there is little to look at, the kernel's start for each row and head costs more than
    the sums themselves: then these are written out.

    Args:
        query: (batch, d_model).
        keys, values: (positions, batch, d_model).
        n_heads: how many heads share d_model.
        padding: bool (positions, batch, 1), True where nothing may be seen.

    Returns:
        (batch, d_model).
    """
    heads = (n_heads, query.shape[-1] // n_heads)
    if len(keys) > WRITTEN_OUT:
        query, keys, values = (x.unflatten(-1, heads) for x in (query, keys, values))
        seen = None if padding is None else ~padding.permute(1, 2, 0)[:, None]
        keys, values = keys.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)
        read = scaled_dot_product_attention(query[:, :, None], keys, values, attn_mask=seen)
        return read.flatten(1)
    query = query * heads[1] ** -0.5
    scores = (keys * query).unflatten(-1, heads).sum(-1)  # (positions, batch, heads)
    if padding is not None:
        scores.masked_fill_(padding, -torch.inf)
    weights = scores.softmax(0)[..., None]
    return (weights * values.unflatten(-1, heads)).sum(0).flatten(1)
