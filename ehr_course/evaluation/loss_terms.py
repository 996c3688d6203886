"""What each term of a loss contributes: to the number, and to the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ehr_course.batches.collate import Batch, tensors_of
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.losses import NOT_SCORED, co_occurrence_penalty, loss_counts

RIGHT_TOKEN, ALL_TOKENS, AGE, SEX, CO_OCCURRENCE = range(5)
"""The five losses that are measured; label smoothing mixes the first two."""


LABELS = ("language model", "age", "sex", "co-occurrence")


@dataclass(frozen=True)
class MeasuredTerms:
    """Five losses of one batch and their gradients, from which every weighting follows.

    Attributes:
        means: float64 (5,): the loss of the right token and the mean over all tokens, which mix to
            the smoothed loss, in nats a scored token; the unweighted losses of the age head and of
            the sex head; the co-occurrence penalty, a probability.
        products: float64 (5, 5): the inner products of the gradients, over the weights that all
            terms share, without those of the heads.
    """

    means: np.ndarray
    products: np.ndarray


def measure_terms(model: Any, batch: Batch, never: Tensor) -> MeasuredTerms:
    """Measure the five losses of a batch and their gradients, without dropout.

    The model has an age head and a sex head; ``never`` is bool (vocabulary, vocabulary), as
    ``never_together`` gives it.
    """
    missing = [name for name in ("age", "sex") if name not in model.heads]
    if missing:
        raise InputError(
            "measure_terms",
            "model",
            f"it has no {' and no '.join(missing)} head",
            "Make it with an age_weight and a sex_weight above 0.",
        )
    device = next(model.parameters()).device
    tensors = {name: tensor.to(device) for name, tensor in tensors_of(batch).items()}
    never, labels = never.to(device), tensors["labels"]
    counts = loss_counts(labels)
    shared = [p for name, p in model.named_parameters() if not name.startswith("heads.")]
    with evaluating(model), torch.enable_grad():
        heads = {term.name: term for term in model(**tensors).terms}
        inputs = {name: tensor for name, tensor in tensors.items() if name != "labels"}
        logits = model(**inputs).logits  # (batch, target, vocabulary)
        scored = labels != NOT_SCORED
        penalty, _ = co_occurrence_penalty(logits, tensors["decoder_input_ids"], never, scored)
        losses = [
            cross_entropy(logits[scored].float(), labels[scored]),
            -logits[scored].float().log_softmax(-1).mean(),
            *(heads[name].total / counts[heads[name].per] for name in ("age", "sex")),
            penalty / counts["token"],
        ]
        gradients = torch.stack([_gradient(loss, shared) for loss in losses])
    return MeasuredTerms(
        np.array([loss.item() for loss in losses]), (gradients @ gradients.T).cpu().numpy()
    )


def _gradient(loss: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """The gradient of a loss as one vector, float64."""
    parts = torch.autograd.grad(
        loss, weights, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return torch.cat([part.flatten() for part in parts]).double()


@dataclass(frozen=True)
class Contribution:
    """What one term contributes.

    Attributes:
        amount: its weight times its mean: what it adds to the total.
        of_total: that as a share of the total.
        of_gradient: how far its weighted gradient goes along the total gradient, as a share; the
            shares sum to 1, and one below 0 pulls the other way.
    """

    label: str
    amount: float
    of_total: float
    of_gradient: float


def contributions(
    measured: MeasuredTerms,
    *,
    age_weight: float,
    sex_weight: float,
    co_occurrence_weight: float,
    label_smoothing: float = 0.0,
) -> list[Contribution]:
    """What the four terms contribute at some weights; the language model's is 1."""
    mix = np.zeros((4, 5))  # each term as a combination of what was measured
    mix[0, RIGHT_TOKEN], mix[0, ALL_TOKENS] = 1 - label_smoothing, label_smoothing
    mix[1, AGE], mix[2, SEX], mix[3, CO_OCCURRENCE] = age_weight, sex_weight, co_occurrence_weight
    amounts = mix @ measured.means
    along = mix @ measured.products @ mix.sum(0)  # of each term's gradient, on the total one
    of_gradient = along / along.sum() if along.sum() > 0 else np.zeros(4)
    of_total = amounts / amounts.sum() if amounts.sum() > 0 else np.zeros(4)
    return [
        Contribution(label, float(amount), float(share), float(pull))
        for label, amount, share, pull in zip(LABELS, amounts, of_total, of_gradient, strict=True)
    ]
