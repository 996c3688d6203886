"""Move the weights of a loss, and see what each of its terms contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ehr_course.batches.collate import Batch, tensors_of
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.losses import NOT_SCORED, co_occurrence_penalty, loss_counts
from ehr_course.plots.charts import draw_bars
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget

WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 10.0)
"""What a weight can be set to: those that are in use, and more on either side."""

SMOOTHING = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


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


def loss_terms_explorer(
    model: Any,
    batch: Batch,
    never: Tensor,
    *,
    age_weight: float = 0.001,
    sex_weight: float = 0.001,
    co_occurrence_weight: float = 0.05,
) -> PictureWidget:
    """Choose the weights of the age, sex and co-occurrence terms, and the label smoothing.

    The batch is measured once; the controls weight what was measured.

    Args:
        model: a PromptBart with an age head and a sex head.
        batch: what collate makes.
        never: bool (vocabulary, vocabulary), as ``never_together`` gives it.
        age_weight, sex_weight, co_occurrence_weight: where it opens, each one of WEIGHTS.

    Returns:
        A widget with the controls ``age_weight``, ``sex_weight``, ``co_occurrence_weight`` and
        ``label_smoothing``.

    Raises:
        InputError: see measure_terms.
    """
    measured = measure_terms(model, batch, never)

    def draw(**settings: float) -> Picture:
        return draw_loss_terms(contributions(measured, **settings))

    return PictureWidget(
        draw,
        {
            "age_weight": _slider("weight of age", WEIGHTS, age_weight),
            "sex_weight": _slider("weight of sex", WEIGHTS, sex_weight),
            "co_occurrence_weight": _slider(
                "weight of co-occurrence", WEIGHTS, co_occurrence_weight
            ),
            "label_smoothing": _slider("label smoothing", SMOOTHING, 0.0),
        },
        in_the_book={
            "age_weight": [0.001, 3.0],
            "sex_weight": [0.001, 3.0],
            "co_occurrence_weight": [0.05],
            "label_smoothing": [],
        },
    )


def _slider(
    description: str, options: tuple[float, ...], value: float
) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(
        options=[(f"{option:g}", option) for option in options],
        value=value,
        description=description,
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )


def draw_loss_terms(terms: Sequence[Contribution]) -> Picture:
    """Draw what each term contributes: its share of the loss, and of the gradient."""
    largest = max(terms, key=lambda term: term.of_total)
    strongest = max(terms, key=lambda term: term.of_gradient)
    title = f"Most of the loss: {largest.label}; most of its gradient: {strongest.label}"
    if largest is strongest:
        title = (
            f"{largest.label.capitalize()}: {largest.of_total:.0%} of the loss, "
            f"{largest.of_gradient:.0%} of its gradient"
        )
    loss, gradient = "share of the loss", "share of the gradient"
    return draw_bars(
        {term.label: {loss: term.of_total, gradient: term.of_gradient} for term in terms},
        title,
        f"The loss of one batch is {sum(term.amount for term in terms):.3f}; the gradient is that "
        "on the weights that all terms share.",
        inner="columns",
        form="{:.1%}",
        notes={(term.label, loss): f"{term.amount:.4f}" for term in terms},
    )
