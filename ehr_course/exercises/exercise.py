"""What an exercise is made of: a right answer, the inputs to try, and the wrong ideas."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Arguments = tuple[Any, ...]

FRESH_INPUTS = 20
"""How many random inputs a check adds to the chosen ones."""


@dataclass(frozen=True)
class Misconception:
    """A wrong idea, as a function that carries it out.

    An answer has the misconception when it does what `wrong` does on every input tried: the same
    values, or the same kind of exception. So a diagnosis is shown only where it describes what
    the learner's code really did. An answer that raises on every input has none.

    Attributes:
        name: a short identifier, unique within the exercise ("forgets_offset").
        diagnosis: what the code did and why that is wrong; never the solution.
        wrong: takes the exercise's arguments and answers them in the wrong way.
    """

    name: str
    diagnosis: str
    wrong: Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson, as data.

    Attributes:
        id: lesson and number ("07.1").
        title: as the lesson and the syllabus print it.
        parameters: the names of the answer's parameters, for the messages.
        reference: an independent right answer, not the worked answer of `solutions/`. Where it
            raises, an answer must raise the same kind of exception.
        chosen: inputs that are always tried, each there to tell some wrong idea from the right
            one.
        fresh: makes one more input from a seeded `random.Random`; `FRESH_INPUTS` of them follow.
        misconceptions: the wrong ideas that have a diagnosis of their own.
        hints: from a nudge to nearly the answer.
        tolerance: relative and absolute, for floating-point values.
    """

    id: str
    title: str
    parameters: tuple[str, ...]
    reference: Callable[..., Any]
    chosen: Sequence[Arguments]
    fresh: Callable[[random.Random], Arguments]
    misconceptions: tuple[Misconception, ...]
    hints: tuple[str, ...]
    tolerance: float = 1e-6

    def probes(self, seed: int) -> list[Arguments]:
        """Return the inputs of one check: the chosen ones, then the fresh ones of this seed."""
        rng = random.Random(seed)
        return [*self.chosen, *(self.fresh(rng) for _ in range(FRESH_INPUTS))]
