"""Evaluations during a training: the loss on held-out examples, and the best model so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from ehr_course.batches.datasets import BatchDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.errors import InputError
from ehr_course.losses import loss_counts
from ehr_course.training.checkpoints import load_model_tensors, model_tensors
from ehr_course.training.processes import Processes

KINDS = ("token", "row")
"""What the losses of a model are counted by."""


def validation_loss(
    model: nn.Module,
    dataset: BatchDataset,
    batch_size: int,
    *,
    processes: Processes,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager],
) -> float:
    """The loss of a model on all examples of a dataset, as if they were one batch.

    Args:
        model: its forward takes a batch as keywords and returns an output with ``terms``; in
            evaluation mode.
        dataset: the examples; every call makes the same batches of them.
        batch_size: examples that are computed together; it changes nothing but rounding.
        processes: each takes its share of the batches, and all get the same result.
        device: where the model is.
        autocast: makes the context that the forward pass runs in.

    Raises:
        InputError: if no token of these examples is scored.
    """
    losses, counts = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
    keys = list(BatchPlan(dataset.lengths, batch_size, shuffle=False, group_by_length=True))
    for key in keys[processes.rank :: processes.world]:
        batch = {name: tensor.to(device) for name, tensor in dataset[key].items()}
        with torch.no_grad(), autocast():
            terms = model(**batch).terms
        for term in terms:
            losses[term.per] += term.weight * float(term.total)
        for kind, count in loss_counts(batch["labels"]).items():
            counts[kind] += count
    shares = processes.gather((losses, counts))
    losses, counts = (
        {kind: sum(share[kind] for share in part) for kind in KINDS}
        for part in zip(*shares, strict=True)
    )
    if not counts["token"]:
        raise InputError(
            "validation", "", "no token is scored", "Give data of which something is scored."
        )
    return sum(losses[kind] / counts[kind] for kind in KINDS)


# ------------------------------------------------------------------ the best model


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
