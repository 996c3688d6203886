"""Losses as pure functions of tensors. Each returns a sum and a count, never a mean.

A mean of means is not the mean: batches, accumulation steps and processes have different numbers
of scored positions. So one place that has all the sums and all the counts divides, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from ehr_course.batches.collate import NOT_SCORED as NOT_SCORED
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE


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
    count: Tensor  # type: ignore[assignment]  # a term is read by its names, not as a tuple
    weight: float = 1.0
    per: Literal["token", "row"] = "token"


def loss_counts(labels: Tensor) -> dict[str, int]:
    """How many losses of each kind a batch has: what its sums are divided by.

    Args:
        labels: (batch, target) or (batch,), -100 where a label is not scored. A row without a
            scored label does not count.

    >>> loss_counts(torch.tensor([[5, 6, -100], [7, -100, -100]]))
    {'token': 3, 'row': 2}
    """
    scored = (labels != NOT_SCORED).reshape(len(labels), -1)
    return {"token": int(scored.sum()), "row": int(scored.any(dim=1).sum())}


def loss_terms(output: Any, labels: Tensor) -> tuple[LossTerm, ...]:
    """The terms of a model's output: its own, or the one that its loss makes.

    Args:
        output: what the forward of a model returned. Without ``terms`` it is a loss that is the
            mean over the scored labels: ``output.loss``, ``output["loss"]``, ``output[0]`` of a
            tuple, or the tensor itself.
        labels: those that the loss was computed from, -100 where one is not scored.

    >>> (term,) = loss_terms({"loss": torch.tensor(0.5)}, torch.tensor([[7, 8, -100]]))
    >>> term.total
    tensor(1.)
    """
    terms = getattr(output, "terms", None)
    if terms is not None:
        return terms
    if isinstance(output, Mapping):
        loss = output.get("loss")
    elif isinstance(output, tuple):
        loss = output[0]
    else:
        loss = getattr(output, "loss", output)
    if not isinstance(loss, Tensor) or loss.ndim:
        raise InputError(
            "training",
            type(output).__name__,
            "what the model returned has no loss",
            "Return an output with a scalar loss, such as {'loss': loss}.",
        )
    count = loss_counts(labels)["token"]
    return (LossTerm("loss", loss.float() * count, torch.tensor(count)),)


def weighted_total(terms: tuple[LossTerm, ...], counts: dict[str, int]) -> Tensor:
    """The loss to minimise: each term's weight times its sum over the count of the whole batch.

    Args:
        terms: of a batch, or of a part of it: parts add up to the whole.
        counts: of the whole batch, as ``loss_counts`` gives them.
    """
    shares = (term.weight * term.total / max(1, counts[term.per]) for term in terms)
    return torch.as_tensor(sum(shares))


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


def age_loss(answers: Tensor, ages: Tensor, *, scale: float = MAX_AGE) -> tuple[Tensor, Tensor]:
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


def log_mixture(log_generated: Tensor, log_copied: Tensor, p_gen_logit: Tensor) -> Tensor:
    """log(p_gen P_vocab + (1 - p_gen) P_copy), without leaving the logarithm.

    A probability of 1e-30 has a gradient here; ``log(clamp(p, 1e-8))`` has none below 1e-8, and
    1e-8 is 0 in float16.

    Args:
        log_generated: float (...): log P_vocab; minus infinity for a word outside the vocabulary.
        log_copied: float (...): log P_copy; minus infinity for a word that is not in the note.
        p_gen_logit: float (...): the logit of p_gen, broadcast to the others.

    >>> half = torch.tensor(0.0)  # p_gen is 0.5
    >>> log_mixture(torch.tensor(0.2).log(), torch.tensor(0.6).log(), half).exp()
    tensor(0.4000)
    """
    return torch.logaddexp(
        logsigmoid(p_gen_logit) + log_generated, logsigmoid(-p_gen_logit) + log_copied
    )


def log_copy_probability(log_attention: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    """The logarithm of P_copy of one word: the attention of all its places in the note, added up.

    Args:
        log_attention: float (n, source): minus infinity where nothing can be copied.
        ids: int64 (n, source): the tokens of the note.
        targets: int64 (n,): the word that is asked for.

    Returns:
        float (n,): minus infinity, with no gradient, where the word is not in the note.

    >>> attention = torch.tensor([[0.2, 0.5, 0.3]])
    >>> log_copy_probability(attention.log(), torch.tensor([[7, 8, 7]]), torch.tensor([7])).exp()
    tensor([0.5000])
    """
    here = (ids == targets[:, None]) & ~log_attention.isneginf()
    absent = ~here.any(dim=1)
    # A row of minus infinities would have the gradient nan: it is replaced before and after.
    places = log_attention.masked_fill(~here, -torch.inf).masked_fill(absent[:, None], 0.0)
    return places.logsumexp(dim=1).masked_fill(absent, -torch.inf)


def coverage_loss(attention: Tensor, scored: Tensor) -> tuple[Tensor, Tensor]:
    """How much attention goes where attention has been: the sum of min(attention, coverage).

    Coverage is the attention of all steps before, so the first step costs nothing. After See et
    al. (2017), https://arxiv.org/abs/1704.04368, equation 12.

    Args:
        attention: float (batch, target, source), each step summing to 1.
        scored: bool (batch, target): the steps that count; those of padding do not.

    Returns:
        The sum over all steps that count, a scalar, and how many there are. A step costs 0 to 1.

    >>> twice = torch.tensor([[[1.0, 0.0], [0.75, 0.25]]])
    >>> coverage_loss(twice, torch.tensor([[True, True]]))
    (tensor(0.7500), tensor(2))
    """
    before = attention.cumsum(dim=1) - attention
    return (torch.minimum(attention, before).sum(dim=2) * scored).sum(), scored.sum()
