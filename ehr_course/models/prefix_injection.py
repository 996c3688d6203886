"""How a prefix gets into the attention of an unmodified BART: through its key-value caches.

A cache holds the keys and values of the tokens before. One that is filled before the first token
comes makes every later query attend to what is in it. The hooks here fill it, for as long as a
``with`` block lasts; the model's own code runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BartForConditionalGeneration
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.models.bart.modeling_bart import BartDecoder

from ehr_course.errors import InputError
from ehr_course.models.prefix import Prefix


@contextmanager
def prefixes_in(
    base: BartForConditionalGeneration,
    prefixes: Mapping[str, Prefix],
    *,
    shift_positions: bool = False,
) -> Iterator[None]:
    """Let the model see prefixes while the block runs.

    Args:
        base: any BART.
        prefixes: by "decoder", "cross" and "encoder", those that there are.
        shift_positions: whether the decoder's prefix counts as tokens that came before.
    """
    encoder, decoder = base.model.encoder, base.model.decoder
    with ExitStack() as hooks:

        def before(module: nn.Module, hook: Any) -> None:
            hooks.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)

        if "encoder" in prefixes:
            before(encoder, _FillEncoder(prefixes["encoder"]))
            for layer in encoder.layers:
                before(layer.self_attn, _WidenMask(prefixes["encoder"].n_tokens))
        if "cross" in prefixes:
            for layer in decoder.layers:
                before(layer.encoder_attn, _WidenMask(prefixes["cross"].n_tokens))
        if "decoder" in prefixes and not shift_positions:
            before(decoder.embed_positions, _KeepPositions(prefixes["decoder"].n_tokens))
        if "decoder" in prefixes or "cross" in prefixes:
            before(decoder, _FillDecoder(prefixes))
            hooks.callback(decoder.register_forward_hook(_drop_cache, with_kwargs=True).remove)
        yield


class _FillEncoder:
    """Give the encoder's layers a cache with the prefix in it: they take one, and use it."""

    def __init__(self, prefix: Prefix) -> None:
        self.prefix = prefix

    def __call__(
        self, encoder: nn.Module, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]]:
        tokens = _tokens(args, kwargs)
        cache = DynamicCache()
        _fill(cache, self.prefix, tokens, encoder)
        return args, kwargs | {"past_key_values": cache}


class _FillDecoder:
    """Fill the cache of the decoder, if it is still empty: self-attention and cross-attention.

    The decoder adds the encoder's keys and values to what the cross-attention's cache holds, and
    marks it as complete. So the prefix only has to be there first.
    """

    def __init__(self, prefixes: Mapping[str, Prefix]) -> None:
        self.prefixes = prefixes

    def __call__(
        self, decoder: BartDecoder, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]]:
        tokens = _tokens(args, kwargs)
        cache = kwargs.get("past_key_values")
        if cache is None:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        _check_cache(cache)
        if cache.get_seq_length() == 0:
            if "decoder" in self.prefixes:
                _fill(cache.self_attention_cache, self.prefixes["decoder"], tokens, decoder)
            if "cross" in self.prefixes:
                _fill(cache.cross_attention_cache, self.prefixes["cross"], tokens, decoder)
        positions = cache.get_seq_length() + tokens.shape[1]
        _check_positions(positions, decoder, self.prefixes)
        mask = kwargs.get("attention_mask")
        if mask is not None and mask.ndim == 2 and mask.shape[1] < positions:
            ones = mask.new_ones(mask.shape[0], positions - mask.shape[1])
            kwargs = kwargs | {"attention_mask": torch.cat([ones, mask], dim=1)}
        return args, kwargs | {"past_key_values": cache}


class _KeepPositions:
    """Take off the positions that the decoder adds for what is in its cache."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def __call__(
        self, embed_positions: nn.Module, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]]:
        return args, kwargs | {"position_ids": kwargs["position_ids"] - self.n_tokens}


class _WidenMask:
    """Let every query see the prefix: the mask that an attention gets has no columns for it."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def __call__(
        self, attention: nn.Module, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]] | None:
        mask = kwargs.get("attention_mask")
        if mask is None:  # everything is seen
            return None
        if not isinstance(mask, Tensor):
            raise InputError(
                "prefix tuning",
                "attention",
                f"its mask is a {type(mask).__name__}",
                'Use model.set_attn_implementation("sdpa") or "eager".',
            )
        shape = (*mask.shape[:-1], self.n_tokens)
        # 0 is added to a score that counts; other masks say True or 1 for it
        seen = mask.new_zeros(shape) if mask.is_floating_point() else mask.new_ones(shape)
        return args, kwargs | {"attention_mask": torch.cat([seen, mask], dim=-1)}


def _fill(cache: DynamicCache, prefix: Prefix, tokens: Tensor, stack: nn.Module) -> None:
    device = tokens.device.type
    # What the keys of the tokens will be: a cache holds one kind of number.
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else stack.dtype
    for number, (key, value) in enumerate(prefix().to(dtype)):  # each (heads, n_tokens, head_dim)
        cache.update(*(part.expand(tokens.shape[0], -1, -1, -1) for part in (key, value)), number)


def _drop_cache(decoder: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """Return no cache to whoever asked for none."""
    if kwargs.get("use_cache") is False and hasattr(output, "past_key_values"):
        output.past_key_values = None


def _tokens(args: tuple, kwargs: Mapping[str, Any]) -> Tensor:
    """Whichever of ids and embeddings is there: (batch, length, ...)."""
    ids = args[0] if args else kwargs.get("input_ids")
    return kwargs["inputs_embeds"] if ids is None else ids


def _check_cache(cache: Cache) -> None:
    parts = [getattr(cache, f"{name}_attention_cache", None) for name in ("self", "cross")]
    if not all(isinstance(part, DynamicCache) for part in parts):
        raise InputError(
            "prefix tuning",
            "past_key_values",
            f"a prefix cannot be put into a {type(cache).__name__} of this kind",
            "Use an EncoderDecoderCache of two DynamicCaches, which is what generate makes.",
        )


def _check_positions(positions: int, decoder: BartDecoder, prefixes: Mapping[str, Prefix]) -> None:
    limit = decoder.config.max_position_embeddings
    if positions > limit:
        prefix = prefixes["decoder"].n_tokens if "decoder" in prefixes else 0
        raise InputError(
            "sequence",
            f"{positions} positions",
            f"the decoder has {limit}, of which the prefix takes {prefix}",
            'Use RecordDataset(..., max_tokens=model.max_tokens, too_long="cut"), or fewer '
            "tokens in the prefix.",
        )
