"""Which weights decay."""

from __future__ import annotations

from typing import Any

from torch import nn


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of weights for AdamW: those that decay, and those that do not.

    Matrices and tables decay. Biases and the gains of layer norms do not: they have no reason to
    be small.

    >>> groups = decay_groups(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), 0.1)
    >>> [(group["weight_decay"], len(group["params"])) for group in groups]
    [(0.1, 1), (0.0, 3)]
    """
    decays, stays = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_bias = name.rpartition(".")[2] == "bias"
            (stays if parameter.ndim < 2 or is_bias else decays).append(parameter)
    groups = [
        {"params": decays, "weight_decay": weight_decay},
        {"params": stays, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
