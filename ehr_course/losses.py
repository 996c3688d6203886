"""Losses as pure functions of tensors. Each returns a sum and a count, never a mean.

A mean of means is not the mean: batches, accumulation steps and processes have different numbers
of scored positions. So whoever has all the sums and all the counts divides, once.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy


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
