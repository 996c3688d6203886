"""Losses as pure functions of tensors. Each returns a sum and a count, never a mean.

A mean of means is not the mean: batches, accumulation steps and processes have different numbers
of scored positions. So whoever has all the sums and all the counts divides, once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ehr_course.batches.collate import NOT_SCORED as NOT_SCORED
from ehr_course.errors import InputError


class LossTerm(NamedTuple):
    """One part of what a model is trained for.

    Attributes:
        name: what it is called in the history.
        total: the sum of its losses, float32, a scalar.
        count: how many losses were added up.
        weight: its weight in the total loss.
        per: what is counted: scored tokens, or rows.
    """

    name: str
    total: Tensor
    count: Tensor
    weight: float = 1.0
    per: Literal["token", "row"] = "token"


def loss_counts(labels: Tensor) -> dict[str, int]:
    """How many losses of each kind a batch has: what its sums are divided by.

    Args:
        labels: int64 (batch, target), -100 where a position is not scored. A row without a
            scored position does not count.

    >>> loss_counts(torch.tensor([[5, 6, -100], [7, -100, -100]]))
    {'token': 3, 'row': 2}
    """
    scored = labels != NOT_SCORED
    return {"token": int(scored.sum()), "row": int(scored.any(dim=1).sum())}


def weighted_total(terms: tuple[LossTerm, ...], counts: dict[str, int]) -> Tensor:
    """The loss to minimise: each term's weight times its sum over the count of the whole batch.

    Args:
        terms: of a batch, or of a part of it: parts add up to the whole.
        counts: of the whole batch, as ``loss_counts`` gives them.
    """
    return sum(term.weight * term.total / max(1, counts[term.per]) for term in terms)


def language_model_loss(
    logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of the positions that are scored.

    Args:
        logits: float (positions, vocabulary), of any floating-point type.
        targets: int64 (positions,): the right token at each position, or -100 where the position
            is not scored.
        label_smoothing: the probability mass, 0 to 1, that is spread evenly over the vocabulary.

    Returns:
        The sum of the losses in nats, float32 and a scalar, and how many positions are scored.

    >>> total, count = language_model_loss(torch.zeros(3, 8), torch.tensor([0, 5, -100]))
    >>> int(count), round(float(total / count), 4)  # log 8: eight tokens, all as likely
    (2, 2.0794)
    """
    total = cross_entropy(
        logits.float(),
        targets,
        reduction="sum",
        ignore_index=NOT_SCORED,
        label_smoothing=label_smoothing,
    )
    return total, (targets != NOT_SCORED).sum()


def classification_loss(logits: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """The cross-entropy of answers such as an age bracket or a sex.

    Args:
        logits: float (answers, classes), of any floating-point type.
        classes: int64 (answers,): the right class of each.

    Returns:
        The sum of the losses in nats, float32 and a scalar, and how many answers there are.

    >>> total, count = classification_loss(torch.tensor([[2.0, 2.0]]), torch.tensor([1]))
    >>> round(float(total), 4)  # log 2: a coin
    0.6931
    """
    total = cross_entropy(logits.float(), classes, reduction="sum")
    return total, classes.new_tensor(classes.numel())


def age_loss(answers: Tensor, ages: Tensor, *, scale: float = 90.0) -> tuple[Tensor, Tensor]:
    """The squared error of ages, in units of `scale` years.

    In years, an error of 30 costs 900, and 5 nats of a record's tokens are nothing beside it.

    Args:
        answers: float (rows,): the ages that were guessed, in units of `scale` years.
        ages: float (rows,): the true ages in years.
        scale: years.

    Returns:
        The sum of the squared errors, float32 and a scalar, and how many rows there are.

    >>> total, count = age_loss(torch.tensor([0.5]), torch.tensor([63.0]))
    >>> round(float(total), 4)  # (45 - 63) / 90 = -0.2
    0.04
    """
    errors = answers.float() - ages.float() / scale
    # An error beyond 1e15 units is no age; its square would not be a number of float32 for long.
    return errors.clamp(-1e15, 1e15).square().sum(), torch.tensor(len(ages), device=ages.device)


def never_together(present: Tensor, *, expected_at_least: float = 5.0) -> Tensor:
    """Which pairs of tokens never stand in one record, though chance would put them there.

    Args:
        present: bool (records, vocabulary): whether a record has a token.
        expected_at_least: in how many records a pair would stand by chance, so that its absence
            says something.

    Returns:
        bool (vocabulary, vocabulary), symmetric.
    """
    seen = present.float()
    together = seen.T @ seen  # (vocabulary, vocabulary)
    frequency = seen.sum(dim=0)
    expected = frequency[:, None] * frequency[None, :] / max(1, len(seen))
    return (together == 0) & (expected >= expected_at_least)


def co_occurrence_penalty(
    logits: Tensor, read: Tensor, never: Tensor, scored: Tensor
) -> tuple[Tensor, Tensor]:
    """The probability given to tokens that never stand in one record with those already read.

    It is computed from the predicted probabilities, so it has a gradient.

    Args:
        logits: float (batch, target, vocabulary), of any floating-point type.
        read: int64 (batch, target): the decoder's input; position t has read positions 0 to t.
        never: bool (vocabulary, vocabulary), as ``never_together`` gives it.
        scored: bool (batch, target).

    Returns:
        The sum of the probabilities, each 0 to 1, float32 and a scalar, and how many positions
        are scored.

    Raises:
        InputError: if the table is not that of the vocabulary.
    """
    if never.shape != (logits.shape[-1],) * 2:
        raise InputError(
            "co_occurrence_penalty",
            "never",
            f"its shape is {tuple(never.shape)}, the vocabulary has {logits.shape[-1]} tokens",
            "Give one row and one column for each token of the vocabulary.",
        )
    forbidden = never[read].cummax(dim=1).values  # (batch, target, vocabulary)
    probabilities = logits[scored].float().softmax(dim=-1)
    return (probabilities * forbidden[scored]).sum(), scored.sum()
