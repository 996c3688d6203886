"""What makes two trainings the same: whoever resumes, or takes a share, has to have it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from torch import nn

from ehr_course.batches.datasets import BatchDataset
from ehr_course.errors import InputError
from ehr_course.training.config import TrainingConfig

MAY_CHANGE = {"evaluate_every", "metric", "patience", "checkpoint_every"}
"""What may be other when a training is resumed: it changes nothing in the weights."""

_NOT_THE_MODEL = {"architectures", "dtype", "transformers_version", "_name_or_path"}


def training_identity(
    model: nn.Module, dataset: BatchDataset, config: TrainingConfig, processes: int
) -> dict[str, Any]:
    """Everything that the weights of a training depend on, by name, as JSON gives it back.

    Args:
        model: where it has a ``config`` as those of transformers do, its settings are in.
        dataset: what it learns from.
        config: the settings of the training.
        processes: how many share it.
    """
    settings = dataclasses.asdict(config)
    settings |= {"data": dataset.fingerprint, "processes": processes}
    of_model = model.config.to_dict() if hasattr(model, "config") else {}
    settings |= {f"model.{n}": v for n, v in of_model.items() if n not in _NOT_THE_MODEL}
    return json.loads(json.dumps(settings, default=str))


def check_same_training(place: object, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another training.

    Raises:
        InputError: it names the first setting that is other.
    """
    for name in [*now, *(then.keys() - now.keys())]:
        if name not in MAY_CHANGE and then.get(name) != now.get(name):
            raise InputError(
                place,
                name,
                f"it was {then.get(name)!r} in the training that wrote this, and is "
                f"{now.get(name)!r} now",
                "Resume with the same settings and data, or train into another folder.",
            )
