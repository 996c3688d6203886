"""One step of the weights, from a batch: the loss, its gradient, clipping, AdamW and its rate."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from ehr_course.errors import InputError
from ehr_course.losses import NOT_SCORED, loss_counts, weighted_total
from ehr_course.training.config import TrainingConfig
from ehr_course.training.processes import Processes

AUTOCAST = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


class Taken(NamedTuple):
    """What a step was like.

    Attributes:
        loss: of the whole batch, weighted, in nats.
        terms: the mean of each term of the loss, by its name.
        scale: that the loss was multiplied by: 1 unless in float16.
        gradient_norm: before the gradient was clipped.
        skipped: whether the gradient overflowed, so that the weights are as they were.
        tokens: how many were scored.
    """

    loss: float
    terms: dict[str, float]
    scale: float
    gradient_norm: float
    skipped: bool
    tokens: int


class GradientStep:
    """Takes steps. It gives the same ones whatever parts and shares a batch is cut into.

    Args:
        model: its forward takes a batch as keywords and returns an output with ``terms``; where
            it is to be trained.
        config: the settings.
        processes: those that share every batch.
        device: where the model is.

    Attributes:
        optimizer: AdamW.
        scaler: of the loss in float16.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainingConfig,
        *,
        processes: Processes,
        device: torch.device,
    ) -> None:
        self.model, self.config = model, config
        self.processes, self.device = processes, device
        self.optimizer = torch.optim.AdamW(
            decay_groups(model, config.weight_decay),
            lr=config.lr,
            betas=config.betas,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(
            device.type,
            init_scale=config.init_scale,
            growth_interval=config.growth_interval,
            enabled=config.precision == "float16",
        )
        self._shared = DistributedDataParallel(model) if processes.world > 1 else None

    def take(self, batch: dict[str, Tensor], *, lr: float, place: str) -> Taken:
        """Take a step, or skip it where the gradient overflows in float16.

        Args:
            batch: the whole one, the same in every process.
            lr: the learning rate.
            place: the name of the batch, for messages.

        Raises:
            InputError: if no token is scored, or the loss or its gradient is no number. The
                weights are then as they were.
        """
        counts = loss_counts(batch["labels"])
        if counts["token"] == 0:
            raise InputError(
                "training",
                place,
                "the batch has no scored token",
                f"Leave records whose labels are all {NOT_SCORED} out of the dataset.",
            )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss, terms = self._add_up(batch, counts)
        if not math.isfinite(loss):
            raise _no_number(place, f"the loss is {loss}")
        self.scaler.unscale_(self.optimizer)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm))
        scale = self.scaler.get_scale()
        # In float16 a smaller scale may help. Below 1 none does: then it is not the scale.
        if not math.isfinite(norm) and scale <= 1:
            raise _no_number(place, f"the norm of the gradient is {norm}")
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        skipped = self.scaler.get_scale() < scale
        if self.config.ema_decay and not skipped:
            update_average(self.optimizer, self.config.ema_decay)
        return Taken(loss, terms, scale, norm, skipped, counts["token"])

    def _add_up(
        self, batch: dict[str, Tensor], counts: dict[str, int]
    ) -> tuple[float, dict[str, float]]:
        """Add up the gradient of the parts of a batch; return the loss of the whole of it."""
        parts = cut_batch(batch, self.config.gradient_accumulation_steps * self.processes.world)
        own = parts[self.processes.rank :: self.processes.world]
        total = 0.0
        terms: dict[str, float] = {}
        for number, part in enumerate(own, 1):
            part = {name: tensor.to(self.device) for name, tensor in part.items()}
            with self._communication(is_last=number == len(own)):
                with self.autocast():
                    parts_of_loss = (self._shared or self.model)(**part).terms
                    loss = weighted_total(parts_of_loss, counts)
                # DistributedDataParallel averages over processes; the loss is a sum over them.
                self.scaler.scale(loss * self.processes.world).backward()
            total += float(loss.detach())
            for term in parts_of_loss:
                mean = float(term.total.detach()) / max(1, counts[term.per])
                terms[term.name] = terms.get(term.name, 0.0) + mean
        everyone = self.processes.gather((total, terms))
        return (
            sum(share for share, _ in everyone),
            {name: sum(share[name] for _, share in everyone) for name in terms},
        )

    def _communication(self, *, is_last: bool) -> contextlib.AbstractContextManager:
        """Processes add up their gradients once a step: after the last part."""
        if self._shared is None or is_last:
            return contextlib.nullcontext()
        return self._shared.no_sync()

    def autocast(self) -> torch.autocast:
        """The context that a forward pass runs in."""
        return torch.autocast(
            self.device.type,
            dtype=AUTOCAST[self.config.precision],
            enabled=self.config.precision != "float32",
        )


def _no_number(place: str, problem: str) -> InputError:
    return InputError(
        "training",
        place,
        problem,
        "Lower the learning rate, or lengthen the warm-up; the checkpoint before this batch is "
        "whole.",
    )


# ------------------------------------------------------------------ a batch in parts


def cut_batch(batch: dict[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """Cut a batch into as many parts as there are, by rows.

    Where there are fewer rows than parts, a part is one row of which nothing is scored: every
    process has to take part in every step.

    Args:
        batch: tensors whose first dimension is the rows; "labels" among them.
        count: how many parts.

    >>> parts = cut_batch({"labels": torch.tensor([[5], [6], [7]])}, 4)
    >>> [part["labels"].tolist() for part in parts]
    [[[5]], [[6]], [[7]], [[-100]]]
    """
    if count == 1:
        return [batch]
    rows = len(batch["labels"])
    parts = []
    for chosen in np.array_split(np.arange(rows), count):
        if len(chosen):
            span = slice(int(chosen[0]), int(chosen[-1]) + 1)
            parts.append({name: tensor[span] for name, tensor in batch.items()})
        else:
            row = {name: tensor[:1] for name, tensor in batch.items()}
            parts.append(row | {"labels": torch.full_like(row["labels"], NOT_SCORED)})
    return parts


# ------------------------------------------------------------------ which weights decay


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of weights for AdamW: those that decay, and those that do not.

    Matrices and tables decay. Biases and the gains of layer norms do not: they have no reason to
    be small.

    >>> groups = decay_groups(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), 0.1)
    >>> [(group["weight_decay"], len(group["params"])) for group in groups]
    [(0.1, 1), (0.0, 3)]
    """
    decays: list[nn.Parameter] = []
    stays: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_bias = name.rpartition(".")[2] == "bias"
            (stays if parameter.ndim < 2 or is_bias else decays).append(parameter)
    groups = [
        {"params": decays, "weight_decay": weight_decay},
        {"params": stays, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


# ------------------------------------------------------------------ the average of the weights


@torch.no_grad()
def update_average(optimizer: Optimizer, decay: float) -> None:
    """Move the average of each weight towards the weight: call it after each step.

    The average is kept beside what AdamW remembers of the weight, so that a checkpoint has it. It
    looks back over at most half of the steps so far: the first weights are worth nothing.
    """
    n_steps = float(next(iter(optimizer.state.values()))["step"])
    decay = min(decay, 1 - 2 / (n_steps + 1))
    for weight, memory in optimizer.state.items():
        average = memory.setdefault("average", weight.detach().clone())
        average.lerp_(weight, 1 - decay)


@torch.no_grad()
def use_average(optimizer: Optimizer) -> None:
    """Put the averages in the place of the weights."""
    for weight, memory in optimizer.state.items():
        weight.copy_(memory.get("average", weight))


@contextlib.contextmanager
def average_in_use(optimizer: Optimizer) -> Iterator[None]:
    """Put the averages in the place of the weights for a while."""
    weights = {weight: weight.detach().clone() for weight in optimizer.state}
    use_average(optimizer)
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in weights.items():
                weight.copy_(value)


# ------------------------------------------------------------------ the learning rate


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
