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
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache
from transformers.models.bart.modeling_bart import (
    BartAttention,
    BartDecoder,
    BartDecoderLayer,
    BartLearnedPositionalEmbedding,
    BartScaledWordEmbedding,
)

from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.models.copy_head import CopyHead
from ehr_course.models.copy_head_step import CopyHeadStep
from ehr_course.models.end_bias import END_IDS, progress
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.static_cache import StaticCache, moved_by
from ehr_course.tokenizers.codes import CodeTokenizer

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
    if decoder.embed_tokens.weight is not model.get_input_embeddings().weight:
        return False
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
    if model.visit_embedding is not None:
        parts += [(model.visit_embedding, nn.Embedding)]
    if model.copy_head is not None:
        parts += [(model.copy_head, CopyHead)]
        parts += [(part, nn.Linear) for part in model.copy_head.children()]
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
        self.visits = None if model.visit_embedding is None else model.visit_embedding.weight
        self.end_bias = model.end_bias
        self.positions = decoder.embed_positions.weight[decoder.embed_positions.offset :]
        self.norm = _Norm.of(decoder.layernorm_embedding)
        self.layers = [_Layer(layer) for layer in decoder.layers]
        self.vocabulary = _Linear(model.lm_head.weight, model.final_logits_bias[0])
        self.keys, self.values, self.source_keys, self.source_values = (
            [StaticCache() for _ in self.layers] for _ in range(4)
        )
        self.copy_head: CopyHeadStep | None = None
        if model.copy_head is not None:
            self.copy_head = CopyHeadStep(model.copy_head, self.embeddings)
        self.padding: Tensor | None = None

    def start(self, past: EncoderDecoderCache, mask: Tensor, tokens: Tensor, rows: Tensor) -> None:
        """Take over what was read so far.

        Args:
            past: the cache that the model's forward returned for some sequences.
            mask: 0 or 1 (sequences, source), 0 where what the encoder read is padding.
            tokens: int64 (sequences, length): what the decoder read, without prompts.
            rows: int64 (batch,): which of the sequences each row goes on from.
        """
        self.visit, self.codes = (count[rows, -1] for count in progress(tokens))
        own, source = _layers(past.self_attention_cache), _layers(past.cross_attention_cache)
        self.position = own[0].get_seq_length()
        for number in range(len(self.layers)):
            for cache, read in (
                (self.keys, own[number].keys),
                (self.values, own[number].values),
                (self.source_keys, source[number].keys),
                (self.source_values, source[number].values),
            ):
                assert read is not None  # as something was read
                cache[number].fill(read.transpose(1, 2).flatten(2), rows)
        if self.copy_head is not None:
            self.copy_head.start(own[len(self.layers)], tokens, rows)
        self.padding = None if mask.all() else (mask == 0)[rows].T[..., None]

    def __call__(self, tokens: Tensor) -> Tensor:
        """Read a token a row.

        Args:
            tokens: int64 (batch,).

        Returns:
            The logits of the next one, (batch, vocabulary), as the model's forward gives them.
        """
        x = self.embeddings[tokens]
        starts = tokens == CodeTokenizer.visit_start_id
        self.visit = self.visit + starts
        self.codes = (self.codes + (tokens >= FIRST_CODE)).masked_fill_(starts, 0)
        if self.visits is not None:
            x = x + self.visits[self.visit.clamp(max=len(self.visits) - 1)]
        x = self.norm(x + self.positions[self.position])
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
        logits = self.vocabulary(x)
        if self.end_bias is not None:
            logits[:, END_IDS] += self.end_bias(tokens, self.visit, self.codes)
        return logits if self.copy_head is None else self.copy_head(x, tokens, logits)

    def keep(self, rows: Tensor) -> None:
        """Keep some of the rows, in this order; it costs little where most stay in their place.

        Args:
            rows: int64 (kept,): no row twice.
        """
        moved = moved_by(rows)
        self.visit, self.codes = self.visit[rows], self.codes[rows]
        for caches in (self.keys, self.values, self.source_keys, self.source_values):
            for cache in caches:
                cache.keep(rows, moved)
        if self.copy_head is not None:
            self.copy_head.keep(rows, moved)
        if self.padding is not None:
            self.padding = self.padding[:, rows]


def _layers(cache: Cache) -> list[DynamicLayer]:
    """The layers of a cache that the model's own forward has filled."""
    layers = []
    for layer in cache.layers:
        assert isinstance(layer, DynamicLayer)
        layers.append(layer)
    return layers


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
