"""Runs a learner's prompt module with known weights: what exercise 12.6 compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ehr_course.exercises.module_to_try import require_finite

AGE_PART = ("num_weight", "num_bias", "num_project.weight")
CATEGORY_PART = ("table.weight", "cat_bias", "cat_project.weight")

FOUND = ("shapes", "units begin unlike", "prompts", "a gradient reaches")
"""What is found out about a module."""


def tried_out(
    prompt: nn.Module, weights: Mapping[str, Tensor], x_num: Tensor, x_cat: Tensor
) -> dict[str, Any]:
    """Give a module known weights, and run it.

    Args:
        prompt: the module, with its own initial values.
        weights: a tensor for each parameter that it should have.
        x_num: float (batch, 1), ages in years.
        x_cat: int64 (batch, n_cat).

    Returns:
        Under the names of FOUND: the shapes of its parameters; whether its initial values vary
        along the hidden width, for the age and for the categories; its prompts; and which
        parameters a gradient reaches. The last three are None where the shapes are not those of
        the weights. A check shows those entries alone that are not as expected.

    Raises:
        NotFiniteError: if an initial value is nan or infinite.
    """
    mine = dict(prompt.named_parameters())
    if mine.keys() == weights.keys():  # in one order, so that a message shows what differs
        mine = {name: mine[name] for name in weights}
    shapes = {name: tuple(p.shape) for name, p in mine.items()}
    if shapes != {name: tuple(w.shape) for name, w in weights.items()}:
        return dict(zip(FOUND, (shapes, None, None, None), strict=True))
    require_finite(prompt)
    units = [torch.cat([mine[n] for n in part]) for part in (AGE_PART, CATEGORY_PART)]
    varied = [bool(part.diff(dim=1).any()) for part in units]
    prompt.load_state_dict(prompt.state_dict() | dict(weights))
    prompts = prompt(x_num, x_cat)
    if getattr(prompts, "requires_grad", False):
        prompts.sum().backward()
        prompts = prompts.detach()
    learns = {name: p.grad is not None for name, p in mine.items()}
    return dict(zip(FOUND, (shapes, varied, prompts, learns), strict=True))
