"""Builds a learner's LoRA layer, and puts it into a small BART: what 18.7 and 18.8 compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BartConfig, BartModel

from ehr_course.exercises.compare import kind_of
from ehr_course.exercises.module_to_try import require_finite

OF_LAYER = ("is trained", "rank of a at first", "b is 0 at first", "two calls agree",
            "two layers agree", "output", "a gradient reaches", "merged",
            "output after merging")  # fmt: skip
OF_MODEL = ("returned", "a and b", "is trained", "in the optimizer", "learning rate",
            "output at first", "output", "a gradient reaches")  # fmt: skip
"""What is found out, None where an earlier finding leaves nothing to look at."""


@dataclass(frozen=True)
class Layer:
    """A linear layer, the matrices that its LoRA is given, and what goes in.

    Attributes:
        weight, bias: (out, in), and (out,) or None.
        a, b, x: (r, in), (out, r) and (..., in).
    """

    weight: Tensor
    bias: Tensor | None
    a: Tensor
    b: Tensor
    alpha: float
    x: Tensor

    def _adapted(self, kind: Callable[..., Any]) -> Any:
        out, width = self.weight.shape
        linear = nn.Linear(width, out, bias=self.bias is not None)
        given = {"weight": self.weight} | ({} if self.bias is None else {"bias": self.bias})
        linear.load_state_dict(given)
        return kind(linear, len(self.a), self.alpha)

    def try_out(self, kind: type[nn.Module]) -> dict[str, Any]:
        """Build a layer and say what it does."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return dict.fromkeys(OF_LAYER) | self._found(kind)

    def _found(self, kind: type[nn.Module]) -> dict[str, Any]:
        layer, other = self._adapted(kind), self._adapted(kind)
        shapes = {n: tuple(p.shape) for n, p in layer.named_parameters() if p.requires_grad}
        found: dict[str, Any] = {"is trained": {name: shapes[name] for name in sorted(shapes)}}
        if shapes != {"a": self.a.shape, "b": self.b.shape}:
            return found
        require_finite(layer)
        found["rank of a at first"] = int(torch.linalg.matrix_rank(layer.a.detach()))
        found["b is 0 at first"] = not layer.b.any()
        with torch.no_grad():
            for one in (layer, other):
                one.a.copy_(self.a)
                one.b.copy_(self.b)
        many = torch.randn(64, self.x.shape[-1])
        found["two calls agree"] = torch.equal(layer(many), layer(many))
        found["two layers agree"] = torch.allclose(layer(many), other(many), atol=1e-5)
        if not (found["two calls agree"] and found["two layers agree"]):
            return found
        output = layer(self.x)
        if output.requires_grad:
            output.sum().backward()
        found["output"] = output.detach()
        found["a gradient reaches"] = _reached(layer)
        found["merged"] = merged = layer.merged()
        if isinstance(merged, nn.Linear):
            bias = None if merged.bias is None else merged.bias.detach()
            found["merged"] = {"weight": merged.weight.detach(), "bias": bias}
        found["output after merging"] = layer(self.x).detach()
        return found


@dataclass(frozen=True)
class Model:
    """A BART, and what the learner's function is given with it."""

    encoder_layers: int
    decoder_layers: int
    r: int
    alpha: int
    lr: float

    def try_out(self, add_lora: Callable[..., Any]) -> dict[str, Any]:
        """Let a function change the model, and say what it did."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return dict.fromkeys(OF_MODEL) | self._found(add_lora)

    def _found(self, add_lora: Callable[..., Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {f"{side}_ffn_dim": 4 for side in ("encoder", "decoder")}
        fields |= {f"{side}_attention_heads": 1 for side in ("encoder", "decoder")}
        fields |= {"encoder_layers": self.encoder_layers, "decoder_layers": self.decoder_layers}
        model = BartModel(BartConfig(vocab_size=9, d_model=4, init_std=0.5, dropout=0.0, **fields))
        ids = torch.tensor([[3, 4, 5, 6]])
        optimizer = add_lora(model, self.r, self.alpha, self.lr)
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        found: dict[str, Any] = {"returned": "an optimizer", "is trained": sorted(trained)}
        names = sorted(name for name, _ in model.named_parameters())
        found["a and b"] = [name for name in names if name.endswith((".a", ".b"))]
        if not isinstance(optimizer, torch.optim.Optimizer):
            return found | {"returned": kind_of(optimizer)}
        groups = optimizer.param_groups
        held = {id(p) for group in groups for p in group["params"]}
        found["in the optimizer"] = sorted(name for name in trained if id(trained[name]) in held)
        found["learning rate"] = groups[0]["lr"]
        found["output at first"] = model(ids).last_hidden_state.detach()
        with torch.no_grad():
            for name in found["is trained"]:
                p = trained[name]
                p.copy_(torch.linspace(-1, 1, p.numel()).view_as(p))
        output = model(ids).last_hidden_state
        if output.requires_grad:
            output[..., 0].sum().backward()
        return found | {"output": output.detach(), "a gradient reaches": _reached(model)}


def _reached(module: nn.Module) -> list[str]:
    return sorted(name for name, p in module.named_parameters() if p.grad is not None)
