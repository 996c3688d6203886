"""One step of the decoder for a search: what the plain parts say, in less time and less room.

A search takes hundreds of steps with some beams of every note and asks for no gradient. Then the
energies (batch, beams, source, hidden) can be made for one note at a time, in place; and generated
and copied words need to be mixed only where the note has a word.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from ehr_course.models.pointer_generator_layers import AdditiveAttention, EncodedSource, wide


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
    projected = attention.query(query)
    twice = 2 * attention.score.weight[0]
    scores = query.new_empty(coverage.shape)
    for note, keys in enumerate(source.keys):
        energy = keys + projected[note, :, None]  # (beams, source, hidden)
        if attention.cover is not None:
            energy.addcmul_(coverage[note, :, :, None].to(energy.dtype), attention.cover)
        scores[note] = energy.mul_(2).sigmoid_() @ twice
    return wide(scores).masked_fill_(~source.copyable[:, None], -torch.inf).log_softmax(dim=-1)


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
    gate = p_gen_logit[..., None]
    mixed = pad(log_vocabulary + logsigmoid(gate), (0, n_oov), value=-torch.inf)
    places = ids[:, None].expand_as(log_attention)
    copied = torch.zeros_like(mixed).scatter_add_(-1, places, log_attention.exp())
    at_words = copied.gather(-1, places).log_().add_(logsigmoid(-gate))
    # A word that stands twice is written twice, with the same value.
    return mixed.scatter(-1, places, torch.logaddexp(mixed.gather(-1, places), at_words))
