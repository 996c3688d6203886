"""How ``ehr-course train`` trains where nothing else is asked for.

The recipe of patient records was chosen on the embedded hospital; the book's page "Compared" has
what it gives beside other generators, and what was tried.
"""

from __future__ import annotations

from typing import Literal, TypedDict, TypeVar

from ehr_course.cli.prepared_folder import RECORDS, Prepared
from ehr_course.cli.settings import TrainSettings
from ehr_course.training.config import TrainingConfig


class Recipe(TypedDict):
    """What is asked for where nothing else is; see TrainSettings."""

    lr: float
    weight_decay: float
    batches: Literal["mixed", "by-length", "equal-tokens"]
    max_grad_norm: float
    average: float


RECORDS_RECIPE: Recipe = {
    "lr": 4e-3,
    "weight_decay": 0.3,
    "batches": "equal-tokens",
    # It cuts a rare outlier alone. In a new model batches of short records have the longest
    # gradients, and a norm that cuts every gradient makes those patients count less (lesson 15).
    "max_grad_norm": 5.0,
    "average": 0.2,
}
"""For a new model of patient records."""

NOTES_RECIPE: Recipe = {
    "lr": 4e-3,
    "weight_decay": 0.01,
    "batches": "mixed",
    "max_grad_norm": 1.0,
    "average": 0.0,
}
"""For a summariser."""

PREFIX_RECIPE: Recipe = NOTES_RECIPE | {"lr": 3e-2}
"""For a prefix, which needs a higher rate."""


def with_recipe(settings: TrainSettings, prepared: Prepared) -> TrainSettings:
    """Fill in the settings of the recipe that nothing else was asked for.

    Args:
        settings: with None for what is to be filled in.
        prepared: what is learned from; its kind is all that is looked at.
    """
    recipe = RECORDS_RECIPE if prepared.kind == RECORDS else NOTES_RECIPE
    if settings.adapt is not None:
        recipe = PREFIX_RECIPE
    missing = {name: value for name, value in recipe.items() if getattr(settings, name) is None}
    return settings.model_copy(update=missing)


def training_config(settings: TrainSettings) -> TrainingConfig:
    """The trainer's settings, of settings in which nothing is left to fill in."""
    steps, average = _filled_in(settings.steps), _filled_in(settings.average)
    return TrainingConfig(
        steps=steps,
        batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        lr=_filled_in(settings.lr),
        warmup_steps=steps // 10,
        weight_decay=_filled_in(settings.weight_decay),
        max_grad_norm=_filled_in(settings.max_grad_norm),
        ema_decay=max(0.0, 1 - 1 / (average * steps)) if average else 0.0,
        precision=settings.precision,
        evaluate_every=_filled_in(settings.evaluate_every),
        patience=_filled_in(settings.patience),
        checkpoint_every=settings.checkpoint_every,
        seed=settings.seed,
        group_by_length=settings.batches != "mixed",
        equal_tokens=settings.batches == "equal-tokens",
    )


Number = TypeVar("Number", int, float)


def _filled_in(value: Number | None) -> Number:
    """A setting that ``with_recipe`` or ``with_stopping`` has filled in."""
    if value is None:
        raise ValueError("fill the settings in first: with_recipe and with_stopping do")
    return value
