"""One step of PromptBart's decoder in plain tensor operations: what its forward says, sooner.

A cohort takes a step for every token and asks for no gradient. Written out, a step needs neither a
growing cache copied each time nor a mask, and one product makes queries, keys and values.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, scaled_dot_product_attention
from transformers.cache_utils import EncoderDecoderCache
from transformers.models.bart.modeling_bart import BartDecoderLayer

from ehr_course.models.prompt_bart import INITIAL_GATE, CopyHead, PromptBart, progress

ROOM = 32
"""For how many positions a cache has room at first; where it is full, it doubles."""

WRITTEN_OUT = 64
"""Up to this many positions, attention is written out in sums."""


def can_be_written_out(model: nn.Module) -> bool:
    """Whether the step below says what the model says.

    It cannot see what was changed from outside: another class, an exchanged part, a hook (prefix
    tuning works by hooks) or a replaced forward.
    """
    if type(model) is not PromptBart or torch.is_autocast_enabled(model.device.type):
        return False
    with torch.device("meta"):
        as_made = PromptBart(model.config)
    if model.model.decoder.embed_tokens.weight is not model.get_input_embeddings().weight:
        return False
    return _parts(model) == _parts(as_made) and not any(
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
        for module in model.modules()
    )


def _parts(model: PromptBart) -> dict[str, type]:
    """What each part is; the prompts may be anything, for they are read by the model itself."""
    parts = {name: type(module) for name, module in model.named_modules()}
    return {name: kind for name, kind in parts.items() if "_prompt" not in name}


class TimeFirst:
    """Something of each position and row, (positions, batch, width), written in place.

    What a step reads lies together, and it writes in one place.
    """

    def __init__(self, read: Tensor, rows: Tensor) -> None:
        """Begin with what was read so far.

        Args:
            read: (sequences, positions, width).
            rows: int64 (batch,), which of the sequences each row goes on from.
        """
        self.length = read.shape[1]
        self.room = read.new_empty(max(self.length, ROOM), len(rows), read.shape[2])
        self.room[: self.length] = read.transpose(0, 1).index_select(1, rows)

    def append(self, column: Tensor) -> Tensor:
        """Write one position, (batch, width), and return all: (positions, batch, width)."""
        if self.length == len(self.room):
            self.room = torch.cat([self.room, torch.empty_like(self.room)])
        self.room[self.length] = column
        self.length += 1
        return self.seen()

    def seen(self) -> Tensor:
        """All that is held: (positions, batch, width)."""
        return self.room[: self.length]

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep some of the rows; ``moved`` are the places of rows that hold another number."""
        seen = self.seen()
        seen.index_copy_(1, moved, seen.index_select(1, rows[moved]))
        self.room = self.room[:, : len(rows)]


def _joined(*modules: nn.Linear) -> tuple[Tensor, Tensor]:
    """Several linear maps of the same input as one: weight and bias."""
    weights: list[Tensor] = [module.weight for module in modules]
    biases: list[Tensor] = []
    for module in modules:
        none = module.bias is None
        biases.append(module.weight.new_zeros(module.out_features) if none else module.bias)
    return torch.cat(weights), torch.cat(biases)


class PatientStep:
    """The decoder of a PromptBart, one token per row at a time; it keeps its first weights.

    Args:
        model: one that ``can_be_written_out``, in evaluation mode.
        past: the cache that the model's forward returned for some sequences.
        mask: 0 or 1 (sequences, source), 0 where what the encoder read is padding.
        tokens: int64 (sequences, length), what the decoder read, without prompts.
        rows: int64 (batch,), which of the sequences each row goes on from.
    """

    def __init__(
        self,
        model: PromptBart,
        past: EncoderDecoderCache,
        mask: Tensor,
        tokens: Tensor,
        rows: Tensor,
    ) -> None:
        decoder = model.model.decoder
        self.model, self.decoder, self.config = model, decoder, model.config
        self.embeddings = decoder.embed_tokens.weight * decoder.embed_tokens.embed_scale
        self.positions = decoder.embed_positions.weight[decoder.embed_positions.offset :]
        self.layers = [
            _Layer(layer, model.config.decoder_attention_heads) for layer in decoder.layers
        ]
        own, source = past.self_attention_cache.layers, past.cross_attention_cache.layers
        self.position = past.get_seq_length()
        for layer, of_itself, of_source in zip(self.layers, own, source, strict=False):
            layer.begin(of_itself, of_source, rows)
        self.visits, self.codes = (count[rows, -1] for count in progress(tokens, self.config))
        self.padding = None if mask.all() else (mask == 0)[rows].T[..., None]
        self.copy: _CopyStep | None = None
        if model.copy_head is not None:
            self.copy = _CopyStep(model.copy_head, self.embeddings, own[-1], tokens, rows)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Read one token per row, int64 (batch,): logits of the next, (batch, vocabulary)."""
        config, model = self.config, self.model
        starts, is_code = tokens == config.visit_start_token_id, tokens >= config.first_code_id
        self.visits = self.visits + starts
        self.codes = (self.codes + is_code).masked_fill_(starts, 0)
        x = self.embeddings[tokens]
        if model.visit_embedding is not None:
            last = model.visit_embedding.num_embeddings - 1
            x = x + model.visit_embedding.weight[self.visits.clamp(max=last)]
        x = self.decoder.layernorm_embedding(x + self.positions[self.position])
        self.position += 1
        for layer in self.layers:
            x = layer(x, self.padding)
        logits = linear(x, model.lm_head.weight, model.final_logits_bias[0])
        if model.end_bias is not None:
            end_ids = [config.visit_end_token_id, config.eos_token_id]
            logits[:, end_ids] += model.end_bias.at(tokens, self.visits, self.codes, config)
        return logits if self.copy is None else self.copy(x, tokens, logits, starts, is_code)

    def keep(self, rows: Tensor) -> None:
        """Keep some rows, int64 (kept,), in this order; cheap where most stay in their place."""
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        self.visits, self.codes = self.visits[rows], self.codes[rows]
        if self.padding is not None:
            self.padding = self.padding[:, rows]
        for layer in self.layers:
            for cache in layer.caches:
                cache.keep(rows, moved)
        if self.copy is not None:
            self.copy.keep(rows, moved)


class _Layer:
    """One layer of the decoder, with the keys and values of what it has read."""

    def __init__(self, layer: BartDecoderLayer, n_heads: int) -> None:
        own = layer.self_attn
        self.layer, self.n_heads = layer, n_heads
        self.query_key_value = _joined(own.q_proj, own.k_proj, own.v_proj)

    def begin(self, own: Any, source: Any, rows: Tensor) -> None:
        """Take over the layers of a cache of the decoder and of its attention to the encoder."""
        read = (own.keys, own.values, source.keys, source.values)
        self.caches = [TimeFirst(states.transpose(1, 2).flatten(2), rows) for states in read]

    def __call__(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """From (batch, d_model) to the same."""
        layer = self.layer
        keys, values, source_keys, source_values = self.caches
        query, key, value = linear(x, *self.query_key_value).chunk(3, dim=-1)
        read = attend(query, keys.append(key), values.append(value), self.n_heads)
        x = layer.self_attn_layer_norm(x + layer.self_attn.out_proj(read))
        query = layer.encoder_attn.q_proj(x)
        read = attend(query, source_keys.seen(), source_values.seen(), self.n_heads, padding)
        x = layer.encoder_attn_layer_norm(x + layer.encoder_attn.out_proj(read))
        return layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))


def attend(
    query: Tensor, keys: Tensor, values: Tensor, n_heads: int, padding: Tensor | None = None
) -> Tensor:
    """Attention of one query per row: (batch, d_model).

    Where there is little to look at, starting the kernel costs more than the sums themselves.

    Args:
        query: (batch, d_model).
        keys, values: (positions, batch, d_model).
        n_heads: how many heads share d_model.
        padding: bool (positions, batch, 1), True where nothing may be seen.
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


class _CopyStep:
    """The copy head: the key of each token so far, and what the next key needs of the last one."""

    def __init__(
        self, head: CopyHead, embeddings: Tensor, past: Any, tokens: Tensor, rows: Tensor
    ) -> None:
        # One product for all maps of a state; a code's part of the key comes from a table.
        maps = (head.query, head.key_before, head.key_after, head.gate)
        self.maps, self.sizes = _joined(*maps), [module.out_features for module in maps]
        self.key_code = head.key_code(embeddings)
        self.keys, self.ids = TimeFirst(past.keys[:, 0], rows), TimeFirst(tokens[..., None], rows)
        self.before = past.values[rows, 0, -1]  # (batch, d_model)
        # The opening is <BOS> <v>: the latest visit begins at its last token.
        self.visit_at = torch.full_like(rows, tokens.shape[1] - 1)
        self.is_code = TimeFirst(torch.zeros_like(tokens[..., None], dtype=torch.bool), rows)

    def __call__(
        self, hidden: Tensor, tokens: Tensor, logits: Tensor, starts: Tensor, is_code: Tensor
    ) -> Tensor:
        """Mix what is copied into what is generated: log-probabilities, (batch, vocabulary)."""
        query, before, after, gate = linear(hidden, *self.maps).split(self.sizes, dim=-1)
        keys = self.keys.append(self.before + after + self.key_code[tokens])
        self.before = before
        ids = self.ids.append(tokens[:, None])[..., 0]  # (length, batch)
        codes = self.is_code.append(is_code[:, None])[..., 0]
        self.visit_at = torch.where(starts, len(ids) - 1, self.visit_at)
        wide = torch.promote_types(logits.dtype, torch.float32)
        log_vocabulary = logits.log_softmax(-1, dtype=wide)
        place = torch.arange(len(ids), device=ids.device)[:, None]
        earlier = (place < self.visit_at) & codes
        some = earlier.any(0)
        if not some.any():
            return log_vocabulary
        scores = (keys * query).sum(-1) / math.sqrt(query.shape[-1])  # (length, batch)
        scores = scores.to(wide).masked_fill_(~earlier & some, -torch.inf)
        attention = scores.softmax(0).masked_fill_(~earlier, 0.0).T  # (batch, length)
        gate = (gate.to(wide) + INITIAL_GATE).masked_fill_(~some[:, None], torch.inf)
        mixed = log_vocabulary + logsigmoid(gate)
        # A repeated code is written twice, with the same value.
        copied = torch.zeros_like(mixed).scatter_add_(-1, ids.T, attention).gather(-1, ids.T)
        at_codes = torch.logaddexp(mixed.gather(-1, ids.T), copied.log_() + logsigmoid(-gate))
        return mixed.scatter_(-1, ids.T, at_codes)

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        for cache in (self.keys, self.ids, self.is_code):
            cache.keep(rows, moved)
        self.before, self.visit_at = self.before[rows], self.visit_at[rows]
