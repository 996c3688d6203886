"""How a model is trained: one frozen dataclass, and what makes two trainings the same."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import nn

from ehr_course.batches.datasets import BatchDataset
from ehr_course.errors import InputError

Precision = Literal["float32", "float16", "bfloat16"]
PRECISIONS = get_args(Precision)


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training.

    Attributes:
        steps: how many times the weights change.
        batch_size: examples per step, over all processes and parts together.
        gradient_accumulation_steps: into how many parts a batch is cut to fit into memory; the
            gradient stays that of the whole batch.
        lr: the peak learning rate.
        warmup_steps: over how many steps it rises; then it falls along half a cosine.
        weight_decay: of weight matrices and embeddings, not of biases and layer norms.
        betas: of AdamW.
        max_grad_norm: the norm that the gradient is clipped to.
        precision: "float16" (autocast and loss scaling), "bfloat16" (autocast) or "float32".
        init_scale: of the loss, in float16.
        growth_interval: after how many good steps in a row the scale doubles.
        evaluate_every: steps between evaluations; 0 evaluates at the end only.
        metric: the metric whose smallest value marks the best model, by default the validation
            loss.
        patience: stop after this many evaluations in a row without improvement; 0 never stops.
        checkpoint_every: steps between checkpoints; 0 writes one at the end only.
        seed: of the order of batches, their corruption and dropout.
        group_by_length, equal_tokens: see LengthBatchSampler.
        ema_decay: of an exponential moving average of the weights, which is evaluated and, at the
            end, replaces them; 0 for no average. 0.998 looks back over some 500 steps.
    """

    steps: int
    batch_size: int = 32
    gradient_accumulation_steps: int = 1
    lr: float = 1e-3
    warmup_steps: int = 0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    max_grad_norm: float = 1.0
    precision: Precision = "float32"
    init_scale: float = 65_536.0
    growth_interval: int = 2_000
    evaluate_every: int = 0
    metric: str = "loss"
    patience: int = 0
    checkpoint_every: int = 0
    seed: int = 0
    group_by_length: bool = False
    equal_tokens: bool = False
    ema_decay: float = 0.0

    def __post_init__(self) -> None:
        for name, fits, remedy in (
            ("steps", self.steps >= 1, "Use 1 or more."),
            ("batch_size", self.batch_size >= 1, "Use 1 or more."),
            (
                "gradient_accumulation_steps",
                1 <= self.gradient_accumulation_steps <= self.batch_size,
                "Cut a batch into 1 to batch_size parts.",
            ),
            ("lr", 0 < self.lr < math.inf, "Use a number above 0, such as 0.001."),
            ("warmup_steps", 0 <= self.warmup_steps <= self.steps, "Use 0 to steps."),
            ("weight_decay", self.weight_decay >= 0, "Use 0 or more."),
            ("betas", all(0 <= b < 1 for b in self.betas), "Use two numbers from 0 to below 1."),
            ("max_grad_norm", self.max_grad_norm > 0, "Use a number above 0, such as 1.0."),
            ("precision", self.precision in PRECISIONS, f"Use one of {', '.join(PRECISIONS)}."),
            ("init_scale", self.init_scale >= 1, "Use 1 or more; 65536 is usual."),
            ("growth_interval", self.growth_interval >= 1, "Use 1 or more."),
            ("evaluate_every", self.evaluate_every >= 0, "Use 0 or more."),
            (
                "patience",
                self.patience == 0 or (self.patience > 0 and self.evaluate_every > 0),
                "Use 0, or 1 or more together with evaluate_every.",
            ),
            ("checkpoint_every", self.checkpoint_every >= 0, "Use 0 or more."),
            ("ema_decay", 0 <= self.ema_decay < 1, "Use 0 for none, or a number below 1: 0.998."),
            ("seed", 0 <= self.seed < 2**32, "Use a number from 0 to 2**32 - 1."),
        ):
            if not fits:
                raise InputError(
                    "TrainingConfig", name, f"{getattr(self, name)!r} is out of range", remedy
                )


MAY_CHANGE = {"evaluate_every", "metric", "patience", "checkpoint_every"}
"""Settings that may differ when a training is resumed: they do not affect the weights."""

_NOT_THE_MODEL = {"architectures", "dtype", "transformers_version", "_name_or_path"}


def training_identity(
    model: nn.Module, dataset: BatchDataset, config: TrainingConfig, processes: int
) -> dict[str, Any]:
    """Everything that the trained weights depend on, by name, as JSON reads it back."""
    settings = dataclasses.asdict(config)
    settings |= {"data": dataset.fingerprint, "processes": processes}
    of_model = getattr(model, "config", None)
    if of_model is not None and hasattr(of_model, "to_dict"):  # as in transformers
        named = of_model.to_dict().items()
        settings |= {f"model.{name}": v for name, v in named if name not in _NOT_THE_MODEL}
    return json.loads(json.dumps(settings, default=str))


def check_same_training(place: object, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another training."""
    for name in now:
        if name in then and name not in MAY_CHANGE and then[name] != now[name]:
            raise InputError(
                place,
                name,
                f"it was {then[name]!r} in the training that wrote this, and is {now[name]!r} now",
                "Resume with the same settings and data, or train into another folder.",
            )
    for name in sorted((then.keys() ^ now.keys()) - MAY_CHANGE):
        where = "no longer exists" if name in then else "did not exist when this was written"
        raise InputError(
            place,
            name,
            f"this setting {where}: the checkpoint is of another kind of model, or another "
            "version of the course began this training, which cannot be resumed to the bit",
            "Finish it with that version, or train into another folder.",
        )
