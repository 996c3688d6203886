"""A training of a few weights that has everything a training has: what 15.5 saves and resumes."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from ehr_course.errors import InputError
from ehr_course.training.trainer import warmup_cosine_factor

ROWS, BATCHES = 24, 4
"""How many rows the training learns from, and in how many batches they come in each epoch."""


class TinyTraining:
    """Learns to sum four numbers, in float16 with a loss scale, with dropout and shuffled rows.

    A new one seeds PyTorch's random numbers, as a program does when it starts.

    Args:
        seed: of the weights, the dropout and the order of the rows.
        scale: the first loss scale. That of the default is too large, so that the first steps
            are skipped.

    Attributes:
        model: two linear layers with dropout between them.
        optimizer: AdamW.
        schedule: a LambdaLR, warm-up and cosine over 16 steps.
        scaler: a GradScaler.
        epoch: how often all rows have been read.
        batch: how many batches of this epoch have been read.

    >>> training = TinyTraining(seed=0)
    >>> for _ in range(6):
    ...     training.step()
    >>> training.epoch, training.batch
    (1, 2)
    """

    def __init__(self, seed: int, *, scale: float = 2.0**16) -> None:
        self.seed = seed
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, fused=True)
        self.schedule = LambdaLR(
            self.optimizer,
            lambda step: warmup_cosine_factor(step, warmup_steps=3, total_steps=16),
        )
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)
        self.epoch, self.batch = 0, 0
        rows = torch.Generator().manual_seed(seed)
        self._inputs = torch.randn(ROWS, 4, generator=rows)

    def step(self) -> None:
        """Learn from the next batch, or skip the step where a gradient is not finite."""
        chosen = self._order().chunk(BATCHES)[self.batch]
        inputs = self._inputs[chosen]  # (batch, 4)
        with torch.autocast("cpu", dtype=torch.float16):
            answers = self.model(inputs).float()  # (batch, 1)
        loss = (answers - inputs.sum(dim=1, keepdim=True)).square().mean()
        self.scaler.scale(loss).backward()
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        if self.scaler.get_scale() >= scale:
            self.schedule.step()  # it stands still where the step was skipped
        self.batch += 1
        if self.batch == BATCHES:
            self.epoch, self.batch = self.epoch + 1, 0

    @property
    def weights(self) -> Tensor:
        """A copy of all weights, float32 (49,)."""
        return nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def _order(self) -> Tensor:
        """The rows of this epoch, in their order: it depends on seed and epoch alone."""
        generator = torch.Generator().manual_seed(1_000 * self.seed + self.epoch)
        return torch.randperm(ROWS, generator=generator)


def through_a_file(saved: Any) -> Any:
    """Write a value and read it again, as another process would.

    What comes back shares nothing with what was given.

    Args:
        saved: tensors, numbers, text, and lists, tuples and dictionaries of them.

    Raises:
        InputError: if it holds anything else.

    >>> through_a_file({"step": 3, "weights": torch.ones(2)})
    {'step': 3, 'weights': tensor([1., 1.])}
    """
    file = io.BytesIO()
    try:
        torch.save(saved, file)
        file.seek(0)
        return torch.load(file, weights_only=True)
    except (pickle.UnpicklingError, pickle.PicklingError, AttributeError, TypeError):
        raise InputError(
            "through_a_file",
            "",
            "it holds more than tensors, numbers, text, lists and dictionaries",
            "Models, optimizers, schedules and scalers have a state_dict() of these alone.",
        ) from None
