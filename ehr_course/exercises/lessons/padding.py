"""Rows of token ids as a rectangle, for the references of lessons 07 and 10."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return the rows (batch, longest) int64, padded on the right with `value`."""
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(ids) for ids in rows], batch_first=True, padding_value=value
    )


def mask_of(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the attention mask (batch, longest) int64: 1 on what is real, 0 on padding."""
    return padded([[1] * len(ids) for ids in rows], 0)
