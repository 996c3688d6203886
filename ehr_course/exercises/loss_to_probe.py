"""A loss that can be called a few times and not read: what it computes, is asked in 14.6."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ehr_course.batches.collate import NOT_SCORED
from ehr_course.errors import InputError
from ehr_course.exercises.sealed import Sealed, TooManyCalls

MOST_CALLS = 2
"""How many calls the exercise allows."""

WAYS = ("sum", "places", "scored", "rows")
"""What a loss can return: see exercise 14.6."""


TOO_MANY_CALLS = (
    f"You called the loss more than {MOST_CALLS} times. Two things are unknown, and one call "
    "can settle each of them: for which batch do all four ways give the same number, and for "
    "which do they all differ?"
)


class HiddenLoss(Sealed):
    """A smoothed cross-entropy, summed up or divided in one of four ways.

    Args:
        way: one of WAYS.
        smoothing: 0 to 1.

    >>> loss = HiddenLoss("rows", 0.0)
    >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    >>> round(loss(logits, torch.tensor([[0, 1], [1, -100]])), 4)
    0.6931
    """

    def __init__(self, way: str, smoothing: float) -> None:
        self._way, self._smoothing = way, smoothing
        self._calls = 0

    def __call__(self, logits: Any, labels: Any) -> float:
        """Compute the loss of a batch.

        Args:
            logits: float (batch, length, vocab).
            labels: whole numbers (batch, length), -100 where a place is not scored.

        Raises:
            InputError: if the shapes do not fit, a label is not a token, or a row has no scored
                place.
            TooManyCalls: at the first call beyond MOST_CALLS.
        """
        self._check_not_ended()
        logits = torch.as_tensor(logits).detach().double()
        labels = torch.as_tensor(labels).detach().long()
        _require_batch(logits, labels)
        self._calls += 1
        if self._calls > MOST_CALLS:
            problem = f"this is call {self._calls}; {MOST_CALLS} are allowed"
            self._end(TooManyCalls(problem, TOO_MANY_CALLS))
        scored = labels != NOT_SCORED
        losses = cross_entropy(
            logits.mT, labels, reduction="none", label_smoothing=self._smoothing
        )
        if self._way == "rows":
            return (losses.sum(1) / scored.sum(1)).mean().item()
        divisor = {"sum": 1, "places": labels.numel(), "scored": int(scored.sum())}[self._way]
        return losses.sum().item() / divisor

    def _description(self, hidden: bool) -> str:
        return f'<a loss: "{self._way}", smoothing {self._smoothing:g}>'


def _require_batch(logits: Tensor, labels: Tensor) -> None:
    """Refuse what is not a batch, and say why."""

    def refuse(what: str, found: str, remedy: str) -> InputError:
        return InputError("loss", what, found, remedy)

    if logits.dim() != 3 or logits.shape[-1] < 2:
        raise refuse(
            "logits",
            f"the shape is {tuple(logits.shape)}",
            "Use (batch, length, vocab), with two tokens or more.",
        )
    if labels.shape != logits.shape[:2]:
        raise refuse(
            "labels",
            f"the shape is {tuple(labels.shape)}",
            f"Use that of the logits without the vocabulary, {tuple(logits.shape[:2])}.",
        )
    if not logits.isfinite().all():
        raise refuse("logits", "not all are finite", "Use finite numbers.")
    scored = labels != NOT_SCORED
    if not ((labels >= 0) & (labels < logits.shape[-1]) | ~scored).all():
        raise refuse("labels", "one is not a token", "Use 0 to vocab - 1, or -100.")
    if not scored.any(dim=1).all() or not len(labels):
        raise refuse("labels", "a row has no scored place", "Score one place in each row.")
