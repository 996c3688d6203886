"""One step of the decoder for a search: what the plain parts say, in less time and less room.

A search takes hundreds of steps with some beams of every note and asks for no gradient. Then the
energies (batch, beams, source, hidden) can be made for one note at a time, in place; the logits
can be made a block of words at a time; and generated and copied words need to be mixed only where
the note has a word.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ehr_course.models.pointer_generator_layers import (
    AdditiveAttention,
    EncodedSource,
    is_plain,
    wide,
)

WORDS = 1000
"""How many words of the vocabulary are multiplied at a time."""


def log_attention_by_note(
    attention: AdditiveAttention, query: Tensor, source: EncodedSource, coverage: Tensor
) -> Tensor:
    """What ``attention(query, source, coverage)`` says, one note after the other.

    tanh(x) is 2 sigmoid(2x) - 1, and softmax does not see the constant: so the scores are
    2 v . sigmoid(2x), which processors compute sooner.

    Args:
        attention: the attention.
        query: float (batch, beams, hidden).
        source: the notes.
        coverage: float (batch, beams, source).
    """
    projected = 2 * attention.query(query)[:, :, None]  # (batch, beams, 1, hidden)
    twice = 2 * attention.score.weight[0].to(projected.dtype)
    cover = None if attention.cover is None else 2 * attention.cover.to(projected.dtype)
    coverage = coverage.to(projected.dtype)[..., None]  # (batch, beams, source, 1)
    scores = projected.new_empty(coverage.shape[:3])
    # The same room for every note, so that it stays in the processor's cache.
    energy = projected.new_empty(*coverage.shape[1:3], projected.shape[3])
    for note, keys in enumerate(source.keys):
        torch.add(projected[note], keys, alpha=2, out=energy)
        if cover is not None:
            energy.addcmul_(coverage[note], cover)
        torch.matmul(energy.sigmoid_(), twice, out=scores[note])
    return wide(scores).masked_fill_(~source.copyable[:, None], -torch.inf).log_softmax(dim=-1)


def vocabulary_in_blocks(vocabulary: nn.Linear, features: Tensor) -> Tensor:
    """What ``vocabulary(features)`` says, computed for some of the words at a time.

    MKL multiplies a few rows with a matrix sooner when the matrix is not so large.

    Args:
        vocabulary: the linear map to the logits of all words.
        features: float (batch, beams, width).

    Returns:
        float (batch, beams, vocabulary). It has no gradient.
    """
    same_type = features.dtype == vocabulary.weight.dtype
    if not (is_plain(vocabulary, nn.Linear) and features.device.type == "cpu" and same_type):
        return vocabulary(features)
    rows = features.flatten(0, 1)
    logits = rows.new_empty(len(rows), vocabulary.out_features)
    blocks = vocabulary.weight.split(WORDS), vocabulary.bias.split(WORDS), logits.split(WORDS, 1)
    for weight, bias, block in zip(*blocks, strict=True):
        torch.addmm(bias, rows, weight.t(), out=block)
    return logits.unflatten(0, features.shape[:2])


def log_mixture_at_words(
    log_vocabulary: Tensor, log_attention: Tensor, p_gen_logit: Tensor, ids: Tensor, n_oov: int
) -> Tensor:
    """What ``log_mixture_everywhere`` says: what no word of the note touches is generated.

    Args:
        log_vocabulary, log_attention, p_gen_logit, ids, n_oov: as there.

    Returns:
        float (batch, beams, vocabulary + n_oov). It has no right gradient: a word that stands
        twice in the note would count twice.
    """
    gate, size = p_gen_logit[..., None], log_vocabulary.shape[-1]
    mixed = log_vocabulary.new_empty(*log_vocabulary.shape[:2], size + n_oov)
    torch.add(log_vocabulary, logsigmoid(gate), out=mixed[..., :size])
    mixed[..., size:] = -torch.inf
    places = ids[:, None].expand_as(log_attention)
    # Only the words of the note are made 0 and read again: the others stay as they come.
    copied = torch.empty_like(mixed).scatter_(-1, places, 0.0)
    copied.scatter_add_(-1, places, log_attention.exp())
    at_words = copied.gather(-1, places).log_().add_(logsigmoid(-gate))
    # A word that stands twice is written twice, with the same value.
    return mixed.scatter_(-1, places, torch.logaddexp(mixed.gather(-1, places), at_words))
