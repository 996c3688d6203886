"""How many bytes of tensors a training step holds: what is kept for the gradient, and the peak.

Each storage counts once. The workspace of kernels, the Python process and PyTorch's own code do
not count.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


def held_bytes(module: nn.Module) -> int:
    """The bytes of a module's parameters, shared ones counted once."""
    return sum(p.numel() * p.element_size() for p in module.parameters())


def activation_bytes(forward: Callable[[], Any], model: nn.Module) -> int:
    """The bytes that a forward pass keeps for the gradient, the model's parameters apart."""
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    saved: dict[int, int] = {}
    alive = []  # so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own and storage._cdata not in saved:
            saved[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(saved.values())


class MemoryTrace(TorchDispatchMode):
    """Follows the bytes of all tensors while a step runs, as a context manager.

    Args:
        held: the bytes held before, such as those of the weights and the optimizer's state.
        model: its gradients are counted separately too.

    Attributes:
        bytes: how many were held after each operation, `held` first.
        gradients: how many of them were gradients of the model's parameters.
        marks: the length of `bytes` when a part of the step ended, by the part's name.

    >>> model = nn.Linear(1000, 1000, bias=False)
    >>> with MemoryTrace(held_bytes(model)) as trace:
    ...     doubled = model.weight.detach() * 2
    ...     del doubled
    >>> trace.bytes[0], trace.peak
    (4000000, 8000000)
    """

    def __init__(self, held: int = 0, model: nn.Module | None = None) -> None:
        super().__init__()
        self.bytes, self.gradients = [held], [0]
        self.marks: dict[str, int] = {}
        self._parameters = list(model.parameters()) if model is not None else []
        self._now = held
        self._known: dict[int, int] = {}

    @property
    def peak(self) -> int:
        """The most bytes held at one moment."""
        return max(self.bytes)

    def mark(self, name: str) -> None:
        """Mark the end of a part of the step."""
        self.marks[name] = len(self.bytes)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation and count what it made."""
        before = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            place = storage._cdata
            if place not in before and place not in self._known:
                self._known[place] = storage.nbytes()
                self._now += storage.nbytes()
                weakref.finalize(storage, self._gone, place)
        self.bytes.append(self._now)
        grads = (parameter.grad for parameter in self._parameters)
        self.gradients.append(sum(grad.nbytes for grad in grads if grad is not None))
        return result

    def _gone(self, place: int) -> None:
        self._now -= self._known.pop(place, 0)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
