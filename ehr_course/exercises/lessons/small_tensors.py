"""Tensors that are short to read in a message: the inputs of exercises."""

from __future__ import annotations

import math
import random
from typing import Any

from torch import Tensor, tensor

FLOAT32 = 1e-4
"""The tolerance of values that come from a few sums and products in float32."""


def tensors(*values: Any) -> tuple[Any, ...]:
    """Return the values with a tensor in place of each list."""
    return tuple(tensor(value) if isinstance(value, list) else value for value in values)


def numbers(rng: random.Random, *shape: int, up_to: int = 20) -> Tensor:
    """Numbers with one decimal, from minus to plus up_to tenths, none of them 0: float32."""
    values = [rng.choice((-1, 1)) * rng.randint(1, up_to) / 10 for _ in range(math.prod(shape))]
    return tensor(values).reshape(shape)


def numbers_and_0(rng: random.Random, *shape: int, up_to: int = 20) -> Tensor:
    """The same, and 0 may be among them."""
    values = [rng.randint(-up_to, up_to) / 10 for _ in range(math.prod(shape))]
    return tensor(values).reshape(shape)
