"""A batch in parts: for accumulation, and for several processes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ehr_course.losses import NOT_SCORED


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
