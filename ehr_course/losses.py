"""Losses as pure functions of tensors. Each returns a sum and a count, never a mean.

A mean of means is not the mean: batches, accumulation steps and processes have different numbers
of scored positions. So whoever has all the sums and all the counts divides, once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor
from torch.nn.functional import cross_entropy

NOT_SCORED = -100
"""The label of a position that no loss looks at."""


class LossTerm(NamedTuple):
    """One part of what a model is trained for.

    Attributes:
        name: what it is called in the history.
        total: the sum of its losses, float32, a scalar.
        count: how many losses were added up.
        weight: its weight in the total loss.
        per: what is counted: scored tokens, or rows.
    """

    name: str
    total: Tensor
    count: Tensor
    weight: float = 1.0
    per: Literal["token", "row"] = "token"


def loss_counts(labels: Tensor) -> dict[str, int]:
    """How many losses of each kind a batch has: what its sums are divided by.

    Args:
        labels: int64 (batch, target), -100 where a position is not scored.

    >>> import torch
    >>> loss_counts(torch.tensor([[5, 6, -100], [7, -100, -100]]))
    {'token': 3, 'row': 2}
    """
    return {"token": int((labels != NOT_SCORED).sum()), "row": len(labels)}


def weighted_total(terms: tuple[LossTerm, ...], counts: dict[str, int]) -> Tensor:
    """The loss to minimise: each term's weight times its sum over the count of the whole batch.

    Args:
        terms: of a batch, or of a part of it: parts add up to the whole.
        counts: of the whole batch, as ``loss_counts`` gives them.
    """
    return sum(term.weight * term.total / max(1, counts[term.per]) for term in terms)


def language_model_loss(
    logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of the positions that are scored.

    Args:
        logits: float (positions, vocabulary), of any floating-point type.
        targets: int64 (positions,): the right token at each position.
        label_smoothing: the probability mass, 0 to 1, that is spread evenly over the vocabulary.

    Returns:
        The sum of the losses in nats, float32 and a scalar, and how many positions there are.

    >>> import torch
    >>> total, count = language_model_loss(torch.zeros(3, 8), torch.tensor([0, 5, 7]))
    >>> round(float(total / count), 4)  # log 8: eight tokens, all as likely
    2.0794
    """
    total = cross_entropy(
        logits.float(), targets, reduction="sum", label_smoothing=label_smoothing
    )
    return total, targets.new_tensor(targets.numel())
