"""The model with the best metric so far, and whether it is time to give up on a better one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from ehr_course.errors import InputError
from ehr_course.training.checkpoints import load_model_tensors, model_tensors

BEST = "best.safetensors"
"""The weights with the best metric so far, in the trainer's folder."""


class BestModel:
    """Judges evaluations by one of their numbers, of which the smallest is the best.

    Args:
        metric: the name of the number.
        patience: how many evaluations in a row without a better one are too many; 0 for never.

    >>> best = BestModel("loss", patience=2)
    >>> [best.judge({"loss": loss}) for loss in (3.0, 2.0, 2.5, 2.0)], best.is_given_up
    ([True, True, False, False], True)
    """

    def __init__(self, metric: str, *, patience: int = 0) -> None:
        self.metric, self.patience = metric, patience
        self._value, self._worse = math.inf, 0

    def judge(self, metrics: Mapping[str, float]) -> bool:
        """Whether this evaluation is better than all before it.

        Raises:
            InputError: if it lacks the metric.
        """
        if self.metric not in metrics:
            raise InputError(
                "TrainingConfig",
                "metric",
                f"the evaluation has no {self.metric!r}",
                f"It has: {', '.join(metrics) or 'nothing'}.",
            )
        is_better = metrics[self.metric] < self._value  # what is no number is no better
        if is_better:
            self._value, self._worse = metrics[self.metric], 0
        else:
            self._worse += 1
        return is_better

    @property
    def is_given_up(self) -> bool:
        """Whether there were too many evaluations without a better one."""
        return bool(self.patience) and self._worse >= self.patience

    def state(self) -> dict[str, Any]:
        """What a resumed training has to know, for JSON."""
        return {"value": None if math.isinf(self._value) else self._value, "worse": self._worse}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` returned."""
        self._value = math.inf if state["value"] is None else state["value"]
        self._worse = state["worse"]


def write_best(model: nn.Module, folder: Path) -> None:
    """Write the weights of a model, whole or not at all.

    Raises:
        InputError: if they cannot be written. Those that were there are as they were.
    """
    unfinished = folder / f".{BEST}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(model_tensors(model), unfinished)
        unfinished.replace(folder / BEST)
    except (OSError, SafetensorError) as error:
        raise InputError(
            folder / BEST,
            "",
            f"the best weights cannot be written ({error})",
            "Make room or name another folder, and resume.",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def read_best(model: nn.Module, folder: Path | None) -> None:
    """Give a model the weights that ``write_best`` wrote.

    Raises:
        InputError: if there are none, or those of another model.
    """
    path = None if folder is None else folder / BEST
    if path is None or not path.is_file():
        raise InputError(
            "Trainer.load_best",
            "",
            "no best weights were written",
            "Give a folder, and validation data or an evaluation.",
        )
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(
            path, "", f"the file is damaged ({error})", "Delete it, and train again."
        ) from None
    load_model_tensors(model, tensors, path)
