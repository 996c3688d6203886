"""One step of the copy head: what it says with a cache, in less time.

Of each token so far its key is kept, and of the token before the half of a key that the next one
completes. What stands in no record so far needs no mixture.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers.cache_utils import DynamicLayer

from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.models.copy_head import INITIAL_GATE, CopyHead
from ehr_course.models.pointer_generator_step import log_mixture_at_words
from ehr_course.models.static_cache import StaticCache
from ehr_course.tokenizers.codes import CodeTokenizer


class CopyHeadStep:
    """A CopyHead, one token a row at a time.

    Args:
        head: the copy head; later changes of its weights are not seen.
        embeddings: float (vocabulary, d_model): of the tokens, scaled as the decoder reads them.
    """

    def __init__(self, head: CopyHead, embeddings: Tensor) -> None:
        # One product says all that a state is asked for; a code's part of the key is a table.
        maps = (head.query, head.key_before, head.key_after, head.gate)
        self.weight = torch.cat([module.weight for module in maps])
        self.bias = torch.cat([_bias(module) for module in maps])
        self.sizes = [module.out_features for module in maps]
        self.key_code = head.key_code(embeddings)
        self.keys, self.ids = StaticCache(), StaticCache()

    def start(self, memory: DynamicLayer, tokens: Tensor, rows: Tensor) -> None:
        """Take over what was read so far.

        Args:
            memory: what the head remembers, as ``memory_of`` gives it.
            tokens: int64 (sequences, length): what was read.
            rows: int64 (batch,): which of the sequences each row goes on from.
        """
        width = self.key_code.shape[-1]
        assert memory.keys is not None  # as something was read
        before, here = memory.keys[:, 0, :, : 2 * width].split(width, dim=-1)
        keys = here.clone()
        keys[:, 1:] += before[:, :-1]
        self.keys.fill(keys, rows)
        self.before = before[rows, -1]  # (batch, d_model)
        self.ids.fill(tokens[..., None], rows)
        place = torch.arange(tokens.shape[1], device=tokens.device)
        starts = tokens == CodeTokenizer.visit_start_id
        self.visit = (place * starts).amax(1)[rows]  # where the latest visit began

    def __call__(self, hidden: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
        """Read a token a row, and mix what is copied into what is generated.

        Args:
            hidden: float (batch, d_model): the decoder's state at these tokens.
            tokens: int64 (batch,).
            logits: float (batch, vocabulary): of the vocabulary.

        Returns:
            The logarithms of the mixture, (batch, vocabulary).
        """
        mapped = linear(hidden, self.weight, self.bias)
        query, before, after, gate = mapped.split(self.sizes, dim=-1)
        keys = self.keys.append(self.before + after + self.key_code[tokens])
        self.before = before
        ids = self.ids.append(tokens[:, None])[..., 0]  # (length, batch)
        starts = tokens == CodeTokenizer.visit_start_id
        self.visit = torch.where(starts, len(ids) - 1, self.visit)
        wide = torch.promote_types(logits.dtype, torch.float32)
        log_vocabulary = logits.log_softmax(-1, dtype=wide)
        place = torch.arange(len(ids), device=ids.device)[:, None]
        earlier = (place < self.visit) & (ids >= FIRST_CODE)
        some = earlier.any(0)
        if not some.any():
            return log_vocabulary
        scores = (keys * query).sum(-1) / math.sqrt(query.shape[-1])  # (length, batch)
        scores = scores.to(wide).masked_fill_(~earlier & some, -torch.inf)
        log_attention = scores.log_softmax(0).masked_fill_(~earlier, -torch.inf)
        p_gen_logit = (gate[:, 0].to(wide) + INITIAL_GATE).masked_fill_(~some, torch.inf)
        return log_mixture_at_words(
            log_vocabulary[:, None], log_attention.T[:, None], p_gen_logit[:, None], ids.T, 0
        )[:, 0]

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep some of the rows: see StaticCache."""
        self.keys.keep(rows, moved)
        self.ids.keep(rows, moved)
        self.before, self.visit = self.before[rows], self.visit[rows]


def _bias(module: nn.Linear) -> Tensor:
    if module.bias is None:
        return module.weight.new_zeros(module.out_features)
    return module.bias
