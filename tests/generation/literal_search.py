"""The oracle of beam search: one hypothesis at a time, with Python lists, from the definition.

It knows nothing of batches: one note, one hypothesis, one call of the model for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ehr_course.generation.beam_search import BeamSettings, SearchModel

BOS, EOS, PAD = 1, 2, 3


@dataclass
class Literal:
    """One hypothesis, with what the model said on the way to it."""

    tokens: list[int]
    log_prob: float
    score: float = 0.0
    finished: bool = False
    rows: list[tuple] = field(default_factory=list)


Next = Callable[[list[int]], tuple[list[float], tuple]]
"""From the tokens of a hypothesis to the log-probability of each next one, and what goes along."""


def allowed(tokens: Sequence[int], token: int, settings: BeamSettings) -> bool:
    """Whether a token may follow."""
    if token in (BOS, PAD):
        return False
    if token == EOS:
        return len(tokens) + 1 >= settings.min_length
    n = settings.no_repeat_ngram_size
    if n == 0:
        return True
    longer = [*tokens, token]
    runs = [tuple(longer[i : i + n]) for i in range(len(longer) - n + 1)]
    return len(runs) == len(set(runs))


def literal_beam_search(
    following: Next, settings: BeamSettings, *, to_the_end: bool = False
) -> list[Literal]:
    """All hypotheses that beam search finds for one note, best first.

    Args:
        following: what follows.
        settings: of the search.
        to_the_end: whether to go on to the maximum length whatever has finished.
    """
    k, alpha = settings.beams, settings.length_penalty

    def penalty(n: int) -> float:
        return ((5 + n) / 6) ** alpha

    live = [Literal([], 0.0)]
    finished: list[Literal] = []
    for n in range(1, settings.max_length + 1):
        candidates = []
        for beam, hypothesis in enumerate(live):
            log_probs, row = following(hypothesis.tokens)
            for token, log_prob in enumerate(log_probs):
                if log_prob > -math.inf and allowed(hypothesis.tokens, token, settings):
                    total = hypothesis.log_prob + log_prob
                    longer = Literal([*hypothesis.tokens, token], total, total / penalty(n))
                    longer.rows = [*hypothesis.rows, row]
                    candidates.append((-total, beam, token, longer))
        candidates.sort(key=lambda candidate: candidate[:3])
        before, live = live, []
        for rank, (_, _, token, hypothesis) in enumerate(candidates):
            if token == EOS:
                if rank < k:
                    hypothesis.finished = True
                    finished.append(hypothesis)
            elif len(live) < k:
                live.append(hypothesis)
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[:k]
        if not live:
            live = before
            break
        bound = live[0].log_prob / penalty(settings.max_length)
        if len(finished) == k and bound <= finished[-1].score and not to_the_end:
            break
    if finished:
        return finished
    for hypothesis in live:
        hypothesis.score = hypothesis.log_prob / penalty(len(hypothesis.tokens))
    return live


def literal_greedy(following: Next, settings: BeamSettings) -> Literal:
    """The likeliest token, again and again."""
    tokens: list[int] = []
    total = 0.0
    while len(tokens) < settings.max_length and EOS not in tokens:
        log_probs, _ = following(tokens)
        choices = [
            (-log_prob, token)
            for token, log_prob in enumerate(log_probs)
            if log_prob > -math.inf and allowed(tokens, token, settings)
        ]
        if not choices:
            break
        cost, token = min(choices)
        tokens.append(token)
        total -= cost
    score = total / ((5 + len(tokens)) / 6) ** settings.length_penalty
    return Literal(tokens, total, score, EOS in tokens)


def every_summary(following: Next, settings: BeamSettings) -> list[Literal]:
    """Every summary that is allowed and ends, best first: nothing is searched."""
    found = []

    def extend(tokens: list[int], total: float) -> None:
        n = len(tokens)
        if EOS in tokens:
            found.append(
                Literal(tokens, total, total / ((5 + n) / 6) ** settings.length_penalty, True)
            )
            return
        if n < settings.max_length:
            for token, log_prob in enumerate(following(tokens)[0]):
                if log_prob > -math.inf and allowed(tokens, token, settings):
                    extend([*tokens, token], total + log_prob)

    extend([], 0.0)
    return sorted(found, key=lambda summary: -summary.score)


def following_of(model: SearchModel, input_ids: Tensor, attention_mask: Tensor) -> Next:
    """What follows in any model, for one note.

    Args:
        model: in evaluation mode.
        input_ids, attention_mask: (source,), without the padding of a batch.
    """
    said_after: dict[tuple[int, ...], Any] = {}
    with torch.no_grad():
        source = model.encode(input_ids[None], attention_mask[None])
        start = model.first_state(source)

    @torch.no_grad()
    def after(tokens: tuple[int, ...]) -> Any:
        if tokens not in said_after:
            state = after(tokens[:-1]).state if tokens else start
            last = tokens[-1] if tokens else BOS
            said_after[tokens] = model.step(torch.tensor([[last]]), state, source)
        return said_after[tokens]

    def following(tokens: list[int]) -> tuple[list[float], tuple]:
        said = after(tuple(tokens))
        row = tuple(
            None if part is None else part[0, 0] for part in (said.log_attention, said.p_gen)
        )
        return said.log_probs[0, 0].tolist(), row

    return following
