"""The plain training loop, in float32: enough for the small models of the lessons."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import torch
from torch import nn
from tqdm import tqdm

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.errors import InputError
from ehr_course.training.schedule import warmup_cosine


@dataclass
class History:
    """What a training went through.

    Attributes:
        losses: the mean loss of the scored positions at each step, in nats.
        tokens: how many positions were scored in all.
        seconds: how long it took.
    """

    losses: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    def loss(self, last: int = 50) -> float:
        """The mean loss of the last steps."""
        recent = self.losses[-last:]
        return sum(recent) / len(recent)


def train(
    model: nn.Module,
    dataset: RecordDataset,
    *,
    steps: int,
    batch_size: int = 32,
    lr: float = 2e-3,
    warmup_steps: int | None = None,
    seed: int = 0,
    max_norm: float = 1.0,
) -> History:
    """Train a model for some steps: AdamW, a linear warm-up, then a cosine; clipped gradients.

    Args:
        model: takes a batch as keywords and returns an output with loss_sum and loss_count.
        dataset: gives the batches; every epoch comes in another order, with fresh corruption.
        steps: how many batches to learn from.
        batch_size: patients in a batch.
        lr: the peak learning rate.
        warmup_steps: over how many steps it rises; a tenth of the steps by default.
        seed: orders the batches.
        max_norm: the norm that a gradient is clipped to.

    Raises:
        InputError: if there is no step to take, or the loss is no longer a number.
    """
    if steps < 1:
        raise InputError("train", "steps", f"{steps} is no number of steps", "Use 1 or more.")
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, fused=True)
    schedule = warmup_cosine(
        optimizer,
        warmup_steps=steps // 10 if warmup_steps is None else warmup_steps,
        total_steps=steps,
    )
    history = History()
    plan = BatchPlan(dataset.lengths, batch_size, seed=seed)
    model.train()
    began = time.perf_counter()
    epoch = -1
    with tqdm(total=steps, unit="step", leave=False) as bar:
        while len(history.losses) < steps:
            epoch += 1
            plan.set_epoch(epoch)
            for key in plan:
                output = model(**dataset[key])
                loss = output.loss_sum / output.loss_count
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
                history.losses.append(_finite(loss.item(), len(history.losses)))
                history.tokens += int(output.loss_count)
                bar.update()
                if len(history.losses) == steps:
                    break
    history.seconds = time.perf_counter() - began
    model.eval()
    return history


def _finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise InputError(
            "train",
            f"step {step}",
            f"the loss is {loss}",
            "Lower the learning rate, or lengthen the warm-up.",
        )
    return loss
