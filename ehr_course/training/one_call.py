"""Training in one call, in float32: enough for the small models of the lessons."""

from __future__ import annotations

from torch import nn

from ehr_course.batches.datasets import BatchDataset
from ehr_course.training.config import TrainingConfig
from ehr_course.training.history import TrainingHistory
from ehr_course.training.trainer import Trainer


def train(
    model: nn.Module,
    dataset: BatchDataset,
    *,
    steps: int,
    batch_size: int = 32,
    lr: float = 2e-3,
    warmup_steps: int | None = None,
    seed: int = 0,
    max_norm: float = 1.0,
    progress: bool = True,
) -> TrainingHistory:
    """Train a model where it is, for some steps, and write nothing to disk.

    This is ``Trainer`` with the settings that suit a small model; whoever wants float16,
    checkpoints or several processes uses that.

    Args:
        model: its forward takes a batch as keywords and returns an output with ``terms``.
        dataset: gives the batches; every epoch comes in another order.
        steps: how many batches to learn from.
        batch_size: examples in a batch.
        lr: the peak learning rate.
        warmup_steps: over how many steps it rises; a tenth of the steps by default. Then it falls
            along half a cosine.
        seed: orders the batches and drops out units.
        max_norm: the norm that the gradient is clipped to.
        progress: whether to show a bar.

    Raises:
        InputError: if a setting is out of its range, or the loss is no longer a number.
    """
    config = TrainingConfig(
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        warmup_steps=steps // 10 if warmup_steps is None else warmup_steps,
        seed=seed,
        max_norm=max_norm,
    )
    device = next(model.parameters()).device
    return Trainer(model, dataset, config, device=device, progress=progress).run()
