"""Age and sex as vectors that stand before a sequence: the prompts of PromptBart.

Each numerical feature (age) and each categorical one (sex) becomes one vector of the model's
width. The numerical prompt is the tutorial's, ``project(weight * value + bias)``: an affine map of
the value, whatever the width of the step between. The Fourier prompt beside it is not affine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE

AGE_SCALE = float(MAX_AGE)
"""Ages are divided by this before a prompt sees them: 0 to 1 instead of 0 to 90 years."""

D_PROMPT = 128
"""The width between a feature and the model, as in the tutorial."""


class NumericalPrompt(nn.Module):
    """One vector for each numerical feature: ``project(weight * value / scale + bias)``.

    Args:
        n_features: how many numerical features there are.
        d_model: the width of the model.
        d_hidden: the width of weight and bias.
        scales: one number for each feature, by which its values are divided; age / 90 by default.

    It has ``2 * n_features * d_hidden + d_hidden * d_model`` parameters.

    >>> prompt = NumericalPrompt(1, 768)
    >>> sum(p.numel() for p in prompt.parameters())
    98560
    >>> prompt(torch.tensor([[65.0], [0.0]])).shape
    torch.Size([2, 1, 768])
    """

    def __init__(
        self,
        n_features: int,
        d_model: int,
        *,
        d_hidden: int = D_PROMPT,
        scales: Sequence[float] = (AGE_SCALE,),
    ) -> None:
        super().__init__()
        _check_scales(scales, n_features)
        self.weight = nn.Parameter(torch.empty(n_features, d_hidden))
        self.bias = nn.Parameter(torch.empty(n_features, d_hidden))
        self.project = nn.Linear(d_hidden, d_model, bias=False)
        self.scales: Tensor
        self.register_buffer("scales", torch.empty(n_features))
        self._constants = {"scales": list(scales)}
        initialize(self, nn.init)

    def forward(self, x_num: Tensor) -> Tensor:
        """Turn features (batch, n_features) into prompts (batch, n_features, d_model)."""
        check_numbers(x_num, len(self.scales))
        value = (x_num / self.scales)[..., None]  # (batch, n_features, 1)
        hidden = self.weight * value + self.bias  # (batch, n_features, d_hidden)
        return self.project(hidden)


class FourierPrompt(nn.Module):
    """One vector for each numerical feature, from its sines and cosines: not affine.

    The value, divided by its scale, is read by waves of half a turn, one turn, two turns and so
    on over the range from 0 to 1. The slow waves tell distant values apart, the fast ones near
    values.

    Args:
        n_features, d_model, d_hidden, scales: as for NumericalPrompt.
        n_waves: how many wavelengths; each is half of the one before.

    >>> prompt = FourierPrompt(1, 96, n_waves=4)
    >>> prompt(torch.tensor([[65.0], [0.0]])).shape
    torch.Size([2, 1, 96])
    """

    def __init__(
        self,
        n_features: int,
        d_model: int,
        *,
        d_hidden: int = D_PROMPT,
        scales: Sequence[float] = (AGE_SCALE,),
        n_waves: int = 6,
    ) -> None:
        super().__init__()
        _check_scales(scales, n_features)
        self.weight = nn.Parameter(torch.empty(n_features, 2 * n_waves, d_hidden))
        self.bias = nn.Parameter(torch.empty(n_features, d_hidden))
        self.project = nn.Linear(d_hidden, d_model, bias=False)
        self.scales: Tensor
        self.register_buffer("scales", torch.empty(n_features))
        self.turns: Tensor
        self.register_buffer("turns", torch.empty(n_waves))
        self._constants = {
            "scales": list(scales),
            "turns": [math.pi * 2.0**wave for wave in range(n_waves)],
        }
        initialize(self, nn.init)

    def forward(self, x_num: Tensor) -> Tensor:
        """Turn features (batch, n_features) into prompts (batch, n_features, d_model)."""
        check_numbers(x_num, len(self.scales))
        angle = (x_num / self.scales)[..., None] * self.turns  # (batch, n_features, n_waves)
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1)  # (batch, n_features, 2 n_waves)
        hidden = torch.einsum("bfw,fwh->bfh", waves, self.weight) + self.bias
        return self.project(hidden)  # (batch, n_features, d_model)


class CategoricalPrompt(nn.Module):
    """One vector for each categorical feature, all categories in one table.

    The categories of a feature stand in the table after those of the features before it: category
    ``c`` of feature ``f`` is row ``offsets[f] + c``.

    Args:
        cardinalities: how many categories each feature has; ``[2]`` for sex.
        d_model: the width of the model.
        d_hidden: the width of the table.

    It has ``(sum(cardinalities) + len(cardinalities) + d_model) * d_hidden`` parameters.

    >>> prompt = CategoricalPrompt([2], 768)
    >>> sum(p.numel() for p in prompt.parameters())
    98688
    >>> CategoricalPrompt([2, 6, 3], 96).offsets
    tensor([0, 2, 8])
    """

    def __init__(
        self, cardinalities: Sequence[int], d_model: int, *, d_hidden: int = D_PROMPT
    ) -> None:
        super().__init__()
        if not cardinalities or any(cardinality < 1 for cardinality in cardinalities):
            raise InputError(
                "CategoricalPrompt",
                "cardinalities",
                f"{list(cardinalities)} is not a positive number for each feature",
                "Give how many categories each feature has: [2] for sex.",
            )
        self.cardinalities = tuple(cardinalities)
        self.table = nn.Embedding(sum(cardinalities), d_hidden)
        self.bias = nn.Parameter(torch.empty(len(cardinalities), d_hidden))
        self.project = nn.Linear(d_hidden, d_model, bias=False)
        self.offsets: Tensor
        self.register_buffer("offsets", torch.empty(len(cardinalities), dtype=torch.int64))
        self._constants = {"offsets": [0, *accumulate(cardinalities)][:-1]}
        initialize(self, nn.init)

    def forward(self, x_cat: Tensor) -> Tensor:
        """Turn categories (batch, n_features) into prompts (batch, n_features, d_model)."""
        check_categories(x_cat, self.cardinalities)
        hidden = self.table(x_cat + self.offsets) + self.bias  # (batch, n_features, d_hidden)
        return self.project(hidden)


class ConditionalPrompt(nn.Module):
    """The prompts of one side of the model: numerical features first, then categorical ones.

    Args:
        numerical: a NumericalPrompt, a FourierPrompt, or None.
        categorical: a CategoricalPrompt, or None.
        combination: "concat" gives one prompt a feature; "sum" adds them up into one.

    >>> prompt = ConditionalPrompt(NumericalPrompt(1, 96), CategoricalPrompt([2], 96))
    >>> prompt(torch.tensor([[64.0]]), torch.tensor([[1]])).shape
    torch.Size([1, 2, 96])
    """

    def __init__(
        self,
        numerical: nn.Module | None,
        categorical: nn.Module | None,
        combination: str = "concat",
    ) -> None:
        super().__init__()
        if combination not in ("concat", "sum"):
            raise InputError(
                "ConditionalPrompt",
                "combination",
                f"{combination!r} is none",
                'Use "concat" or "sum".',
            )
        if numerical is None and categorical is None:
            raise InputError(
                "ConditionalPrompt",
                "",
                "there is no feature to make a prompt of",
                "Give a numerical prompt, a categorical one, or both.",
            )
        self.numerical = numerical
        self.categorical = categorical
        self.combination = combination

    def forward(self, x_num: Tensor | None, x_cat: Tensor | None) -> Tensor:
        """Turn demographics into prompts.

        Args:
            x_num: float (batch, n_num): numerical features in their own units, age in years.
            x_cat: int64 (batch, n_cat): categories, counted from 0.

        Returns:
            Prompts (batch, n_prompts, d_model); n_prompts is the number of features, or 1.

        Raises:
            InputError: if features are missing, an age is negative or no number, or a category is
                out of range.
        """
        prompts = []
        for part, features, name in (
            (self.numerical, x_num, "x_num"),
            (self.categorical, x_cat, "x_cat"),
        ):
            if part is None:
                continue
            if features is None:
                raise InputError(
                    "demographics",
                    name,
                    "the batch has none, and the model needs it",
                    "Batches of a RecordDataset have x_num (age in years) and x_cat (sex).",
                )
            prompts.append(part(features))
        together = torch.cat(prompts, dim=1)  # (batch, n_features, d_model)
        return together if self.combination == "concat" else together.sum(1, keepdim=True)


def initialize(prompt: NumericalPrompt | FourierPrompt | CategoricalPrompt, init: Any) -> None:
    """Give a prompt of this module its first weights and its constants.

    Args:
        prompt: a NumericalPrompt, a FourierPrompt or a CategoricalPrompt.
        init: ``torch.nn.init``, or the module of the same functions in transformers, which leaves
            alone what a checkpoint has filled already.
    """
    if not isinstance(prompt, CategoricalPrompt):
        init.xavier_uniform_(prompt.weight)
    init.xavier_uniform_(prompt.bias)
    with torch.no_grad():
        for name, values in prompt._constants.items():
            buffer = getattr(prompt, name)
            buffer.copy_(torch.tensor(values, dtype=buffer.dtype))


def check_numbers(x_num: Tensor, n_features: int) -> None:
    """Raise an InputError unless x_num is (batch, n_features) of finite numbers from 0 up."""
    _check_shape("x_num", x_num, n_features)
    if not bool(((x_num >= 0) & torch.isfinite(x_num)).all()):  # NaN fails both
        row, feature, value = _first(~((x_num >= 0) & torch.isfinite(x_num)), x_num)
        raise InputError(
            "x_num",
            f"row {row}, feature {feature}",
            f"{value:g} is no age",
            "Ages are finite numbers of years, 0 or more.",
        )


def check_categories(x_cat: Tensor, cardinalities: Sequence[int]) -> None:
    """Raise an InputError unless x_cat is (batch, n_features) of categories that exist."""
    _check_shape("x_cat", x_cat, len(cardinalities))
    if x_cat.is_floating_point():
        raise InputError(
            "x_cat", "", f"it holds {x_cat.dtype}", "Categories are whole numbers: use .long()."
        )
    wrong = (x_cat < 0) | (x_cat >= torch.tensor(cardinalities, device=x_cat.device))
    if bool(wrong.any()):
        row, feature, value = _first(wrong, x_cat)
        raise InputError(
            "x_cat",
            f"row {row}, feature {feature}",
            f"{value} is no category: they run from 0 to {cardinalities[feature] - 1}",
            "Count categories from 0, and check the model's cat_cardinalities.",
        )


def _first(wrong: Tensor, values: Tensor) -> tuple[int, int, float]:
    row, feature = wrong.nonzero()[0].tolist()
    return row, feature, values[row, feature].item()


def _check_shape(name: str, features: Tensor, n_features: int) -> None:
    if features.ndim != 2 or features.shape[1] != n_features:
        raise InputError(
            name,
            "",
            f"its shape is {tuple(features.shape)}, not (batch, {n_features})",
            "Give one row a patient and one column a feature.",
        )


def _check_scales(scales: Sequence[float], n_features: int) -> None:
    if len(scales) != n_features or not all(0 < scale < math.inf for scale in scales):
        raise InputError(
            "scales",
            "",
            f"{list(scales)} is not a positive number for each of {n_features} features",
            f"Give one number a feature: [{AGE_SCALE:g}] for age.",
        )
