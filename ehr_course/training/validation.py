"""The loss on examples that the model does not learn from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import nn

from ehr_course.batches.datasets import BatchDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.errors import InputError
from ehr_course.losses import loss_counts
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
    keys = list(BatchPlan(dataset.lengths, batch_size, shuffle=False))
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
