"""What the steps of a search leave behind, until the hypotheses are known that it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ehr_course.generation.search_model import SearchStep
from ehr_course.generation.search_results import Hypothesis


class Ending(NamedTuple):
    """A hypothesis that is given back, and the beams that it went through.

    Attributes:
        note: its place in the batch.
        tokens: without <s>.
        beams: for each token, the beam in which the hypothesis stood when it was chosen.
        log_prob, score, finished: as in Hypothesis.
    """

    note: int
    tokens: Sequence[int]
    beams: Sequence[int]
    log_prob: float
    score: float
    finished: bool


class StepRecord:
    """Where the model looked at each step, in all beams of the notes that were left.

    A search re-orders its beams at each step. Nothing here is re-ordered with them: at the end
    the beams of a hypothesis say what to pick.
    """

    def __init__(self) -> None:
        self.row_of: list[dict[int, int]] = []
        """For each step, the row of each note that was left, by its place in the batch."""
        self._log_attention: list[Tensor | None] = []
        self._p_gen: list[Tensor | None] = []

    def add(self, notes: list[int], said: SearchStep) -> None:
        """Keep what a step said.

        Args:
            notes: the notes of its rows, by their place in the batch.
            said: the step.
        """
        self.row_of.append({note: row for row, note in enumerate(notes)})
        self._log_attention.append(said.log_attention)
        self._p_gen.append(said.p_gen)

    def hypotheses(self, endings: Sequence[Ending]) -> list[Hypothesis]:
        """A hypothesis for each ending, with its own attention and p_gen, on the CPU."""
        attention = self._picked(self._log_attention, endings)
        p_gen = self._picked(self._p_gen, endings)
        return [
            Hypothesis(
                tokens=tuple(ending.tokens),
                log_prob=ending.log_prob,
                score=ending.score,
                finished=ending.finished,
                attention=None if attention is None else looks.exp(),
                p_gen=None if p_gen is None else weights.clone(),
            )
            for ending, looks, weights in zip(
                endings,
                attention or [torch.empty(0)] * len(endings),
                p_gen or [torch.empty(0)] * len(endings),
                strict=True,
            )
        ]

    def _picked(
        self, steps: list[Tensor | None], endings: Sequence[Ending]
    ) -> list[Tensor] | None:
        """What a hypothesis met on its way: (tokens, ...) for each ending."""
        if not steps or steps[0] is None:
            return None
        longest = max(1, *(len(ending.tokens) for ending in endings))
        first = steps[0]
        met = first.new_empty(longest, len(endings), *first.shape[2:])
        for t in range(min(longest, len(steps))):
            going = [i for i, ending in enumerate(endings) if t < len(ending.tokens)]
            rows = [self.row_of[t][endings[i].note] for i in going]
            met[t, going] = steps[t][rows, [endings[i].beams[t] for i in going]]
        met = met.cpu()
        return [met[: len(ending.tokens), i] for i, ending in enumerate(endings)]
