"""What a search finds: hypotheses, the trace of how it came to them, and what its steps left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor

from ehr_course.generation.search_model import SearchStep

Fate = Literal["alive", "finished", "pruned"]


@dataclass(frozen=True)
class Hypothesis:
    """One summary in ids.

    Attributes:
        tokens: without <s>; with </s> at the end if it is finished.
        log_prob: the logarithm of its probability under the model, in nats.
        score: log_prob divided by the length penalty of its length.
        finished: whether it ends with </s>. If not, it was cut at max_length, or every token that
            could follow was forbidden.
        attention: float (tokens, source): where the model looked when it wrote each token, as
            wide as the notes of its batch, 0 on padding; None if the model does not say.
        p_gen: float (tokens,): the weight of the vocabulary at each token; None if the model does
            not say.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool
    attention: Tensor | None = field(default=None, repr=False, compare=False)
    p_gen: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def coverage(self) -> Tensor | None:
        """Float (tokens, source): the attention that was spent before each token, summed."""
        return coverage_before(self.attention)


@dataclass(frozen=True)
class Candidate:
    """A hypothesis with one more token, which a step of the search looked at.

    Attributes:
        parent: the beam of the hypothesis before this step, from 0.
        token: what it is continued with.
        log_prob: the logarithm of the probability of it all, in nats.
        score: log_prob divided by the length penalty.
        fate: "alive" if it is followed, "finished" if it ends here, "pruned" if it is given up.
        beam: its beam after this step if it is alive, else None.
    """

    parent: int
    token: int
    log_prob: float
    score: float
    fate: Fate
    beam: int | None


@dataclass(frozen=True)
class SearchTrace:
    """What the search for one summary looked at.

    Attributes:
        steps: for each step its candidates, best first: twice as many as beams at most. The first
            step has the one parent <s>, beam 0.

    A candidate's ancestors are found by its parent: the candidate of the step before whose beam
    that is.
    """

    steps: tuple[tuple[Candidate, ...], ...]


@dataclass(frozen=True)
class BeamResult:
    """What a search found for one note.

    Attributes:
        hypotheses: 1 or more, best first; samples stand as they were drawn.
        trace: how beam search came to them, if it was asked to say so.
    """

    hypotheses: tuple[Hypothesis, ...]
    trace: SearchTrace | None = field(default=None, repr=False)

    @property
    def best(self) -> Hypothesis:
        """The first hypothesis."""
        return self.hypotheses[0]


@overload
def coverage_before(attention: Tensor) -> Tensor: ...
@overload
def coverage_before(attention: None) -> None: ...
def coverage_before(attention: Tensor | None) -> Tensor | None:
    """The attention of all steps before each step: (tokens, source), zeros in the first row.

    >>> import torch
    >>> coverage_before(torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
    tensor([[0.0000, 0.0000],
            [1.0000, 0.0000],
            [1.5000, 0.5000]])
    """
    if attention is None:
        return None
    return attention.cumsum(dim=0) - attention


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
        said = [step for step in steps if step is not None]  # at every step, or at none
        if not said:
            return None
        longest = max(1, *(len(ending.tokens) for ending in endings))
        first = said[0]
        met = first.new_empty(longest, len(endings), *first.shape[2:])
        for t in range(min(longest, len(said))):
            going = [i for i, ending in enumerate(endings) if t < len(ending.tokens)]
            rows = [self.row_of[t][endings[i].note] for i in going]
            met[t, going] = said[t][rows, [endings[i].beams[t] for i in going]]
        met = met.cpu()
        return [met[: len(ending.tokens), i] for i, ending in enumerate(endings)]
