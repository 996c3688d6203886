"""The learning rate over the steps: a linear warm-up, then half a cosine down to zero."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def warmup_cosine_factor(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """The share of the peak learning rate that step `step` (counted from 0) is taken with.

    >>> [round(warmup_cosine_factor(s, warmup_steps=2, total_steps=6), 3) for s in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def warmup_cosine(optimizer: Optimizer, *, warmup_steps: int, total_steps: int) -> LambdaLR:
    """Schedule an optimizer: call ``step()`` after each of its steps.

    Args:
        optimizer: its learning rate is the peak.
        warmup_steps: over how many steps the rate rises, in equal parts.
        total_steps: after how many it is zero.
    """
    return LambdaLR(
        optimizer,
        lambda step: warmup_cosine_factor(
            step, warmup_steps=warmup_steps, total_steps=total_steps
        ),
    )
