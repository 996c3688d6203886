"""Builds a module that a learner wrote, gives it known weights, and runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

INPUTS = ("settings", "weights", "inputs")
"""What an exercise that asks for a module is tried on, in the order of `try_module`."""

FOUND = ("parameters", "vary at the start", "output", "size of the gradient")
"""What is found out about a module."""


class NotFiniteError(ValueError):
    """A module begins with values that are not finite numbers.

    Attributes:
        reason: why that is wrong, for the message of a check.
    """

    reason = (
        "Some of your parameters begin with values that are not finite numbers (nan or inf). No "
        "training step leads back: whatever it adds to such a value, the sum is not finite. "
        "An empty tensor holds whatever was in memory, which may be such a value."
    )


def is_module_class(answer: object) -> TypeGuard[type[nn.Module]]:
    """Say whether an answer is a class of modules rather than a function."""
    return isinstance(answer, type) and issubclass(answer, nn.Module)


def require_finite(module: nn.Module) -> None:
    """Raise if a parameter begins with a value that is not finite.

    Raises:
        NotFiniteError: naming the parameters.
    """
    endless = [name for name, p in module.named_parameters() if not p.isfinite().all()]
    if endless:
        raise NotFiniteError(f"not finite at the start: {', '.join(endless)}")


def try_module(
    kind: type[nn.Module],
    settings: tuple[Any, ...],
    weights: Mapping[str, Tensor],
    inputs: tuple[Any, ...],
) -> dict[str, Any]:
    """Build a module, give it known weights, and run it.

    Args:
        kind: the learner's class.
        settings: what its constructor is given.
        weights: a tensor for each parameter that it should have, by name.
        inputs: what `forward` is given, or the name of another method and what that is given.

    Returns:
        Under the names of FOUND: the shapes of its parameters; which of those with two or more
        dimensions begin with values that differ; its output, one tensor or several; and the norm
        of the gradient of each parameter, for a weighted sum of the output. The last three are
        None where names or shapes are not those of the weights. A check shows those entries alone
        that are not as expected.

    Raises:
        NotFiniteError: if a parameter begins with nan or an infinite value.
    """
    module = kind(*settings)
    mine = dict(module.named_parameters())
    if mine.keys() == weights.keys():  # in one order, so that a message shows what differs
        mine = {name: mine[name] for name in weights}
    shapes = {name: tuple(p.shape) for name, p in mine.items()}
    if shapes != {name: tuple(weight.shape) for name, weight in weights.items()}:
        return dict(zip(FOUND, (shapes, None, None, None), strict=True))
    require_finite(module)
    varied = {
        name: p.numel() == 1 or bool((p != p.flatten()[0]).any())
        for name, p in mine.items()
        if p.ndim > 1
    }
    with torch.no_grad():
        for name, weight in weights.items():
            mine[name].copy_(weight)
    if inputs and isinstance(inputs[0], str):
        output = getattr(module, inputs[0])(*inputs[1:])
    else:
        output = module(*inputs)
    several = output if isinstance(output, tuple) else (output,)
    sums = [_weighted_sum(one) for one in several if getattr(one, "requires_grad", False)]
    if sums:
        torch.stack(sums).sum().backward()
    several = tuple(one.detach() if isinstance(one, Tensor) else one for one in several)
    output = several if isinstance(output, tuple) else several[0]
    sizes = {name: 0.0 if p.grad is None else p.grad.norm().item() for name, p in mine.items()}
    return dict(zip(FOUND, (shapes, varied, output, sizes), strict=True))


def _weighted_sum(output: Tensor) -> Tensor:
    """Add up finite values, each with a weight of its own: the plain sum of a norm is constant."""
    finite = output[output.isfinite()]
    return (finite * torch.linspace(0.5, 1.5, len(finite))).sum()
