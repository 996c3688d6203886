"""Models that are a table: what follows is written down, so that a search can be checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor

CONFIG = SimpleNamespace(bos_token_id=1, eos_token_id=2, pad_token_id=3, unk_token_id=0)


class TableSource(NamedTuple):
    """The notes: of each a random table of its own, in which the last two tokens choose a row."""

    logits: Tensor  # (batch, ids, ids, ids)
    looks: Tensor  # (batch, ids, source): minus infinity on padding
    counts: Tensor  # (batch, ids): what a token weighs, so that a state must follow its beam


class TableState(NamedTuple):
    """The token before the last, and the weight of all tokens: (batch, beams)."""

    before: Tensor
    weight: Tensor
    nothing: None = None


class TableStep(NamedTuple):
    """As SearchStep says."""

    log_probs: Tensor
    state: TableState
    log_attention: Tensor | None
    p_gen: Tensor | None


class TableModel:
    """Random log-probabilities given the last two tokens and the weight of all tokens so far.

    A note's tables depend on its own ids alone, whatever padding and neighbours it has.

    Args:
        ids: the size of the vocabulary, the four special ids included.
        rounded: whether all logits are whole numbers and nothing is normalised: then many
            hypotheses have exactly equal scores.
        impossible: the share of tokens with probability 0.
        ends: added to the logit of </s>.
    """

    def __init__(
        self, ids: int, *, rounded: bool = False, impossible: float = 0.0, ends: float = 0.0
    ) -> None:
        self.config = CONFIG
        self.ids, self.rounded, self.impossible, self.ends = ids, rounded, impossible, ends

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> TableSource:
        logits, looks, counts = [], [], []
        n, width = self.ids, input_ids.shape[1]
        for note, mask in zip(input_ids, attention_mask.bool(), strict=True):
            generator = torch.Generator().manual_seed(hash(tuple(note[mask].tolist())) % 2**31)
            table = torch.randn(n, n, n, generator=generator, dtype=torch.float64) * 1.5
            table[..., 2] += self.ends
            impossible = torch.rand(n, n, n, generator=generator) < self.impossible
            table = table.round() if self.rounded else table
            logits.append(table.masked_fill(impossible, -torch.inf))
            attention = torch.full((n, width), -torch.inf, dtype=torch.float64)
            attention[:, : int(mask.sum())] = torch.randn(
                n, int(mask.sum()), generator=generator, dtype=torch.float64
            )
            looks.append(attention.log_softmax(-1))
            counts.append(torch.randint(0, 3, (n,), generator=generator))
        return TableSource(torch.stack(logits), torch.stack(looks), torch.stack(counts))

    def first_state(self, source: TableSource) -> TableState:
        start = torch.ones(len(source.logits), 1, dtype=torch.long)
        return TableState(start, torch.zeros_like(start))

    def step(self, tokens: Tensor, state: TableState, source: TableSource) -> TableStep:
        notes = torch.arange(len(tokens))[:, None]
        weight = state.weight + source.counts[notes, tokens]
        # Rolling the row by the weight makes what follows depend on all tokens.
        logits = source.logits[notes, state.before, (tokens + weight) % self.ids]
        log_probs = -logits.abs() if self.rounded else logits.log_softmax(-1)
        p_gen = ((weight % 7) + 1) / 8
        return TableStep(
            log_probs.nan_to_num(-torch.inf, neginf=-torch.inf),
            TableState(tokens, weight),
            source.looks[notes, tokens],
            p_gen.double(),
        )
