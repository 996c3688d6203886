"""Tensors that are short to read in a message: the inputs of exercises."""

from __future__ import annotations

import math
import random

from torch import Tensor, tensor

FLOAT32 = 1e-4
"""The tolerance of values that come from a few sums and products in float32."""


def numbers(rng: random.Random, *shape: int, up_to: int = 20) -> Tensor:
    """Numbers with one decimal, from minus to plus up_to tenths, none of them 0: float32."""
    count = math.prod(shape)
    return tensor(
        [rng.choice((-1, 1)) * rng.randint(1, up_to) / 10 for _ in range(count)]
    ).reshape(shape)
