"""From logits to one token: temperature, top-k, top-p, and a draw that can be repeated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ehr_course.errors import InputError


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; by default from the model's own distribution.

    Attributes:
        temperature: logits are divided by it: below 1 likely tokens become likelier still.
        top_k: keep the k most probable tokens; 0 keeps all.
        top_p: keep the fewest tokens whose probabilities sum to at least p, after top_k (Holtzman
            et al. 2020, arXiv:1904.09751); 1.0 keeps all.

    Raises:
        InputError: if a number is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        for name, value, fits, remedy in (
            (
                "temperature",
                self.temperature,
                0 < self.temperature < math.inf,
                "Use a number above 0; top_k=1 is greedy.",
            ),
            ("top_k", self.top_k, self.top_k >= 0, "Use 0 for all tokens, or how many to keep."),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "Use a number above 0 and up to 1."),
        ):
            if not fits:
                raise InputError("Sampling", name, f"{value!r} is out of range", remedy)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution that tokens are drawn from: float64 (batch, vocabulary).

        Args:
            logits: float (batch, vocabulary); minus infinity where a token is forbidden.

        >>> Sampling(top_k=1).probabilities(torch.tensor([[0.0, 3.0, 1.0]]))
        tensor([[0., 1., 0.]], dtype=torch.float64)
        """
        logits = logits.double()
        if self.temperature != 1:
            logits = logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            smallest = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < smallest, -math.inf)
        probabilities = logits.softmax(-1)
        if self.top_p < 1:
            likeliest, order = probabilities.sort(dim=-1, descending=True)
            before = likeliest.cumsum(-1) - likeliest
            likeliest = likeliest.masked_fill(before >= self.top_p, 0.0)
            probabilities = torch.zeros_like(probabilities).scatter(-1, order, likeliest)
            probabilities = probabilities / probabilities.sum(-1, keepdim=True)
        return probabilities


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Draw one token per row, int64 (batch,), by inverting the cumulative distribution.

    Args:
        probabilities: float64 (batch, vocabulary); a token of probability 0 is never drawn.
        uniform: float64 (batch,), from 0 to below 1: each number decides one row.

    >>> draw(torch.tensor([[0.5, 0.0, 0.5]]).double(), torch.tensor([0.5]).double())
    tensor([2])
    """
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    # Rounding must not carry a draw past the last possible token.
    target = torch.minimum(uniform[:, None] * total, torch.nextafter(total, -total))
    return torch.searchsorted(cumulative, target, right=True)[:, 0]
