"""A model small enough to read: what a perplexity can be computed with in exercise 19.4."""

from __future__ import annotations

import math
from collections.abc import Sequence

Visits = Sequence[Sequence[str]]


class Remembering:
    """Stands in for a trained model: codes that it was given are likelier than others.

    It writes no code twice, so each code of a visit makes those after it a little likelier.

    >>> log_probs = Remembering()
    >>> [round(math.exp(value), 3) for value in log_probs([], ["4280", "4019"])]
    [0.05, 0.053, 0.65]
    >>> [round(math.exp(value), 3) for value in log_probs([["4280"]], ["4280", "4019"])]
    [0.269, 0.053, 0.65]
    """

    def __call__(self, given: Visits, visit: Sequence[str]) -> list[float]:
        """Score a visit.

        Args:
            given: the visits that the encoder reads, the latest one last. A later one counts
                more than an earlier one.
            visit: the codes to score, 1 to 20 different ones.

        Returns:
            The natural logarithm of the probability of each code, in order, and of the visit's
            end after them.
        """
        weight: dict[str, float] = {}
        for distance, codes in enumerate(reversed(list(given)), start=1):
            for code in codes:
                weight[code] = weight.get(code, 0.0) + 6 / distance
        total = 20 + sum(weight.values())
        scores = []
        for place, code in enumerate(visit):
            likely = 1 + weight.get(code, 0.0)
            scores.append(math.log(likely / total))
            total -= likely if code not in visit[:place] else 0.0
        return [*scores, math.log(0.8 - 0.3 / len(visit))]

    def __repr__(self) -> str:
        return "Remembering()"
