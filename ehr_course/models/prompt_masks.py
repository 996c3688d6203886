"""Attention masks of tokens, extended by the prompts that stand before them."""

from __future__ import annotations

import torch
from torch import Tensor

from ehr_course.errors import InputError


def n_positions(prompts: Tensor | None) -> int:
    """How many positions prompts (batch, n_prompts, d_model) take; None takes none."""
    return 0 if prompts is None else prompts.shape[1]


def extended_mask(mask: Tensor, name: str, shape: tuple[int, int], n_prompts: int) -> Tensor:
    """A mask of all positions: prompts are always seen, so their columns may be left out.

    Args:
        mask: 0 or 1 (batch, positions) or (batch, positions - n_prompts).
        name: what an error calls it.
        shape: (batch, positions), prompts included.
        n_prompts: how many of the positions are prompts.
    """
    rows, positions = shape
    if mask.shape == shape:
        return mask
    if mask.shape == (rows, positions - n_prompts):
        return torch.cat([mask.new_ones(rows, n_prompts), mask], dim=1)
    if mask.ndim == 2 and len(mask) == rows:
        has = f"its length is {mask.shape[1]}"
    else:
        has = f"its shape is {tuple(mask.shape)}, for a batch of {rows}"
    allowed = f"{positions - n_prompts} (tokens)"
    if n_prompts:
        allowed += f" or {positions} (prompts and tokens)"
    raise InputError(
        name,
        "",
        f"{has}, and the allowed lengths are {allowed}",
        "Give (batch, length) with 1 for each token and 0 for padding.",
    )
