"""What a decoder remembers of the tokens so far, beside BART's own keys and values.

The copy head needs the tokens that were written and its keys of them, and the number of a visit
is a count of tokens. With a cache, the model is handed the newest token alone. So the rest is
kept in the cache, as one more layer after the decoder's: whatever reorders, repeats or cuts the
cache does the same to it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

from ehr_course.tokenizers.codes import CodeTokenizer

_DIGITS = 3
_BASE = 256
"""Ids are kept as three digits, since half precision has no exact number for a large one."""


def memory_of(cache: Cache | None, decoder_layers: int) -> DynamicLayer | None:
    """The layer of a cache that holds the memory, made if it is not there; None without a cache.

    Args:
        cache: of the decoder.
        decoder_layers: how many layers the decoder has itself.
    """
    if cache is None:
        return None
    of_decoder = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    while len(of_decoder.layers) <= decoder_layers:
        of_decoder.layers.append(DynamicLayer())
    memory = of_decoder.layers[decoder_layers]
    assert isinstance(memory, DynamicLayer)
    return memory


def remember(memory: DynamicLayer | None, ids: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Add new tokens to the memory, and return all tokens that it has.

    Args:
        memory: as ``memory_of`` gives it; None remembers nothing, and returns what is new.
        ids: int64 (batch, target): the new tokens, each below 2**24.
        features: float (batch, target, n): what is known of each; n may be 0.

    Returns:
        ids (batch, past) and features (batch, past, n), the new ones last.
    """
    if memory is None:
        return ids, features
    digits = torch.stack([ids // _BASE**2, ids // _BASE % _BASE, ids % _BASE], dim=-1)
    kept = torch.cat([features, digits.to(features.dtype)], dim=-1)[:, None]
    kept = memory.update(kept, kept[..., :1])[0][:, 0]  # a layer has values too
    return _ids(kept), kept[..., :-_DIGITS]


def visit_numbers(memory: DynamicLayer | None, ids: Tensor) -> Tensor:
    """The visit that each new token stands in, from 1; 0 before the first.

    Args:
        memory: as ``memory_of`` gives it, before the tokens are added to it.
        ids: int64 (batch, target): the new tokens.

    Returns:
        int64 (batch, target).

    >>> visit_numbers(None, torch.tensor([[1, 3, 20, 4, 3, 21, 4, 2]]))
    tensor([[0, 1, 1, 1, 2, 2, 2, 2]])
    """
    number = (ids == CodeTokenizer.visit_start_id).cumsum(dim=1)
    if memory is None or memory.get_seq_length() == 0:
        return number
    assert memory.keys is not None  # as something was read
    before = _ids(memory.keys[:, 0]) == CodeTokenizer.visit_start_id
    return number + before.sum(dim=1, keepdim=True)


def _ids(kept: Tensor) -> Tensor:
    high, middle, low = kept[..., -_DIGITS:].long().unbind(dim=-1)
    return (high * _BASE + middle) * _BASE + low
