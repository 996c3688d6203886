"""Losses as pure functions of tensors. Each returns a sum and a count, never a mean.

Batches, accumulation steps and processes differ in their scored positions, and a mean of means is
not the mean. So the trainer, which has all sums and counts, divides once.
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
    """One term of a model's loss.

    Attributes:
        name: its column in the history.
        total: the sum of its losses, a float32 scalar.
        count: how many losses were added up.
        weight: its weight in the total loss.
        per: what is counted: scored tokens, or rows.
    """

    name: str
    total: Tensor
    count: Tensor  # type: ignore[assignment]  # shadows tuple.count, which nobody calls here
    weight: float = 1.0
    per: Literal["token", "row"] = "token"


def loss_counts(labels: Tensor) -> dict[str, int]:
    """The number of scored tokens in a batch, and of rows with any: sums are divided by these.

    Args:
        labels: (batch, target) or (batch,), -100 where a label is not scored.

    >>> loss_counts(torch.tensor([[5, 6, -100], [7, -100, -100]]))
    {'token': 3, 'row': 2}
    """
    scored = (labels != NOT_SCORED).reshape(len(labels), -1)
    return {"token": int(scored.sum()), "row": int(scored.any(dim=1).sum())}


def loss_terms(output: Any, labels: Tensor) -> tuple[LossTerm, ...]:
    """The terms of a model's output: its ``terms``, or else its loss as the only one.

    Args:
        output: what a forward returned. A loss is a mean over the scored labels: ``output.loss``,
            ``output["loss"]``, ``output[0]`` of a tuple, or the tensor itself.
        labels: those of the loss, -100 where a label is not scored.

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
    """The loss to minimise: each term's weighted sum over its count.

    Args:
        terms: of a batch or a part of it; the losses of parts add up to that of the batch.
        counts: those of the whole batch, from ``loss_counts``.
    """
    shares = (term.weight * term.total / max(1, counts[term.per]) for term in terms)
    return torch.as_tensor(sum(shares))


def language_model_loss(
    logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The summed cross-entropy in nats, float32, of the scored positions, and their number.

    Args:
        logits: (positions, vocabulary), of any floating-point type.
        targets: int64 (positions,), -100 where a position is not scored.
        label_smoothing: the probability mass, 0 to 1, that is spread evenly over the vocabulary.

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
    """The summed cross-entropy in nats, float32, of answers such as a sex, and their number.

    Args:
        logits: (answers, classes), of any floating-point type.
        classes: int64 (answers,), the right ones.
    """
    total = cross_entropy(logits.float(), classes, reduction="sum")
    return total, classes.new_tensor(classes.numel())


def age_loss(answers: Tensor, ages: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of squared errors of ages in units of 90 years, float32, and the number of rows.

    In years, an error of 30 would cost 900, and the 5 nats of a token would not count beside it.

    Args:
        answers: float (rows,), the predicted ages in units of 90 years.
        ages: float (rows,), the true ages in years.

    >>> total, count = age_loss(torch.tensor([0.5]), torch.tensor([63.0]))
    >>> round(float(total), 4)  # (45 - 63) / 90 = -0.2
    0.04
    """
    errors = answers.float() - ages.float() / MAX_AGE
    # Squares of larger errors would overflow float32 when they are added up.
    return errors.clamp(-1e15, 1e15).square().sum(), torch.tensor(len(ages), device=ages.device)


def never_together(present: Tensor, *, expected_at_least: float = 5.0) -> Tensor:
    """Which pairs of tokens never occur in one record: bool (vocabulary, vocabulary).

    Args:
        present: bool (records, vocabulary), whether a record has a token.
        expected_at_least: in how many records a pair would occur by chance; rarer ones are left
            out.
    """
    seen = present.float()
    together = seen.T @ seen  # (vocabulary, vocabulary)
    frequency = seen.sum(dim=0)
    expected = frequency[:, None] * frequency[None, :] / max(1, len(seen))
    return (together == 0) & (expected >= expected_at_least)


def co_occurrence_penalty(
    logits: Tensor, read: Tensor, never: Tensor, scored: Tensor
) -> tuple[Tensor, Tensor]:
    """The summed probability of tokens that never occur in one record with those already read.

    Args:
        logits: (batch, target, vocabulary), of any floating-point type.
        read: int64 (batch, target), the decoder's input; position t has read positions 0 to t.
        never: bool (vocabulary, vocabulary), from ``never_together``.
        scored: bool (batch, target); beside the sum, float32, the number of these is returned.
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
    """log(p_gen P_vocab + (1 - p_gen) P_copy), computed on logarithms throughout.

    A probability of 1e-30 has a gradient here; ``log(clamp(p, 1e-8))`` has none below 1e-8, and
    1e-8 is 0 in float16.

    Args:
        log_generated: float (...), log P_vocab; minus infinity for a word outside the vocabulary.
        log_copied: float (...), log P_copy; minus infinity for a word that is not in the note.
        p_gen_logit: float (...), the logit of p_gen, broadcast to the others.

    >>> half = torch.tensor(0.0)  # p_gen is 0.5
    >>> log_mixture(torch.tensor(0.2).log(), torch.tensor(0.6).log(), half).exp()
    tensor(0.4000)
    """
    return torch.logaddexp(
        logsigmoid(p_gen_logit) + log_generated, logsigmoid(-p_gen_logit) + log_copied
    )


def log_copy_probability(log_attention: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    """log P_copy of one word, float (n,): the summed attention to its places in the note.

    It is minus infinity, without a gradient, where the word is not in the note.

    Args:
        log_attention: float (n, source), minus infinity where nothing can be copied.
        ids: int64 (n, source), the tokens of the note.
        targets: int64 (n,), the word in question.

    >>> attention = torch.tensor([[0.2, 0.5, 0.3]])
    >>> log_copy_probability(attention.log(), torch.tensor([[7, 8, 7]]), torch.tensor([7])).exp()
    tensor([0.5000])
    """
    here = (ids == targets[:, None]) & ~log_attention.isneginf()
    absent = ~here.any(dim=1)
    # The gradient of a row of minus infinities would be nan, so it is replaced before and after.
    places = log_attention.masked_fill(~here, -torch.inf).masked_fill(absent[:, None], 0.0)
    return places.logsumexp(dim=1).masked_fill(absent, -torch.inf)


def coverage_loss(attention: Tensor, scored: Tensor) -> tuple[Tensor, Tensor]:
    """How much attention goes where attention has been: the sum of min(attention, coverage).

    Coverage is the attention of all earlier steps: See et al. (2017),
    https://arxiv.org/abs/1704.04368, equation 12.

    Args:
        attention: float (batch, target, source), each step summing to 1.
        scored: bool (batch, target); beside the sum, the number of these is returned.

    >>> twice = torch.tensor([[[1.0, 0.0], [0.75, 0.25]]])
    >>> coverage_loss(twice, torch.tensor([[True, True]]))
    (tensor(0.7500), tensor(2))
    """
    before = attention.cumsum(dim=1) - attention
    return (torch.minimum(attention, before).sum(dim=2) * scored).sum(), scored.sum()
