r"""A pointer from each token of a record to the codes of the patient's earlier visits.

Lesson 16's pointer-generator copies words of a note into its summary (See et al. 2017,
https://arxiv.org/abs/1704.04368). Here the note is what the decoder has written so far: chronic
diseases are coded again at every visit, and a softmax over the vocabulary has to learn that for
each code by itself. A pointer goes to a place, whatever code stands there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers.cache_utils import DynamicLayer

from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.losses import log_copy_probability, log_mixture
from ehr_course.models.token_memory import remember, visit_numbers

INITIAL_GATE = 2.0
"""The logit of p_gen at first: 0.88 of what is written comes from the vocabulary."""


class Pointed(NamedTuple):
    """Where the decoder points to, and how often it does.

    Attributes:
        log_attention: float (..., past): the logarithm of the attention to each token so far;
            minus infinity where no code of an earlier visit stands.
        p_gen_logit: float (...): the logit of the vocabulary's share; plus infinity where there
            is nothing to copy.
        ids: int64 (..., past): the tokens so far.
    """

    log_attention: Tensor
    p_gen_logit: Tensor
    ids: Tensor

    def at(self, scored: Tensor) -> Pointed:
        """The same of some positions alone, which are (n,) then."""
        return Pointed(*(tensor[scored] for tensor in self))

    def log_probabilities(self, log_vocabulary: Tensor) -> Tensor:
        """log(p_gen P_vocab + (1 - p_gen) P_copy) of every token.

        Args:
            log_vocabulary: float (..., vocabulary): log P_vocab.
        """
        attention = self.log_attention.exp().to(log_vocabulary.dtype)
        copied = torch.zeros_like(log_vocabulary).scatter_add_(-1, self.ids, attention)
        # The logarithm of 0 would have the gradient nan: the 0 is replaced before and after.
        none = copied == 0
        log_copied = copied.masked_fill(none, 1.0).log().masked_fill(none, -torch.inf)
        return log_mixture(log_vocabulary, log_copied, self.p_gen_logit[..., None])

    def log_likelihood(self, log_vocabulary: Tensor, targets: Tensor) -> Tensor:
        """The same of one token at each of n positions, without making the others.

        Args:
            log_vocabulary: float (n,): log P_vocab of the targets.
            targets: int64 (n,).
        """
        log_copied = log_copy_probability(self.log_attention, self.ids, targets)
        return log_mixture(log_vocabulary, log_copied, self.p_gen_logit)


class CopyHead(nn.Module):
    """Attention of each decoder state to the codes of earlier visits, and the gate p_gen.

    A code within its own visit cannot be copied, since no visit has a code twice. A place is known
    by two states: the one that was about to write its code, which resembles the states that are
    about to write it again, and the one that had just read it.

    Args:
        d_model: the width of the decoder.

    >>> head = CopyHead(4)
    >>> ids = torch.tensor([[2, 1, 3, 20, 21, 4, 3]])  # one visit, and the start of the next
    >>> states, embeddings = torch.zeros(1, 7, 4), torch.zeros(1, 7, 4)
    >>> pointed = head(states, embeddings, ids)
    >>> pointed.log_attention[0, -1].exp()
    tensor([0.0000, 0.0000, 0.0000, 0.5000, 0.5000, 0.0000, 0.0000], grad_fn=<ExpBackward0>)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        self.key_before = nn.Linear(d_model, d_model, bias=False)
        self.key_after = nn.Linear(d_model, d_model, bias=False)
        self.key_code = nn.Linear(d_model, d_model, bias=False)
        self.gate = nn.Linear(d_model, 1)

    def forward(
        self, hidden: Tensor, embeddings: Tensor, ids: Tensor, memory: DynamicLayer | None = None
    ) -> Pointed:
        """Point from each token to the codes before its visit.

        Args:
            hidden: float (batch, target, d_model): the decoder's last states.
            embeddings: float (batch, target, d_model): of the tokens that it read.
            ids: int64 (batch, target): those tokens.
            memory: of the tokens before, as ``memory_of`` gives it; these are added to it.
        """
        here = self.key_after(hidden) + self.key_code(embeddings)
        ids, features = remember(memory, ids, torch.cat([self.key_before(hidden), here], dim=-1))
        before, here = features.chunk(2, dim=-1)
        keys = pad(before, (0, 0, 1, -1)) + here  # (batch, past, d_model)
        scores = self.query(hidden) @ keys.mT / math.sqrt(hidden.shape[-1])
        earlier = codes_of_earlier_visits(ids)[:, -hidden.shape[1] :]
        some = earlier.any(dim=-1)
        # A row of minus infinities would have the gradient nan: it is replaced before and after.
        log_attention = (
            scores.masked_fill(~earlier, -torch.inf)
            .masked_fill(~some[..., None], 0.0)
            .log_softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
            .masked_fill(~earlier, -torch.inf)
        )
        gate = self.gate(hidden)[..., 0].to(log_attention.dtype) + INITIAL_GATE
        gate = gate.masked_fill(~some, torch.inf)
        return Pointed(log_attention, gate, ids[:, None].expand_as(log_attention))


def codes_of_earlier_visits(ids: Tensor) -> Tensor:
    """Which tokens each token may copy: bool (batch, target, target).

    Args:
        ids: int64 (batch, target): a record, or its beginning.
    """
    visit = visit_numbers(None, ids)
    return (visit[:, None, :] < visit[:, :, None]) & (ids >= FIRST_CODE)[:, None, :]
