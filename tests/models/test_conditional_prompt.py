"""Prompts of age and sex: values, parameters, and what they refuse."""

from __future__ import annotations

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import (
    AGE_SCALE,
    CategoricalPrompt,
    ConditionalPrompt,
    FourierPrompt,
    NumericalPrompt,
)

AGES = torch.tensor([[40.0], [50.0], [60.0]])


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_at_the_tutorials_sizes() -> None:
    numerical, categorical = NumericalPrompt(1, 768), CategoricalPrompt([2], 768)
    assert parameters(numerical) == 98_560
    assert parameters(categorical) == 98_688
    assert parameters(ConditionalPrompt(numerical, categorical)) == 197_248


def test_a_numerical_prompt_is_weight_times_scaled_value_plus_bias_projected() -> None:
    prompt = NumericalPrompt(2, 8, d_hidden=5, scales=(90.0, 10.0))
    x_num = torch.tensor([[45.0, 3.0], [0.0, 7.0]])
    for row in range(2):
        for feature, scale in enumerate((90.0, 10.0)):
            hidden = prompt.weight[feature] * (x_num[row, feature] / scale) + prompt.bias[feature]
            expected = prompt.project.weight @ hidden
            torch.testing.assert_close(prompt(x_num)[row, feature], expected)


def test_the_affine_prompt_of_50_is_the_mean_of_those_of_40_and_60() -> None:
    young, middle, old = NumericalPrompt(1, 96)(AGES)
    torch.testing.assert_close(middle, (young + old) / 2)


def test_the_fourier_prompt_is_not_affine() -> None:
    torch.manual_seed(0)
    young, middle, old = FourierPrompt(1, 96)(AGES)
    assert (middle - (young + old) / 2).norm() > 0.1 * middle.norm()


def test_a_fourier_prompt_reads_sines_and_cosines_of_the_scaled_value() -> None:
    prompt = FourierPrompt(1, 8, d_hidden=5, n_waves=3)
    turns = torch.pi * torch.tensor([1.0, 2.0, 4.0]) * 36.0 / AGE_SCALE
    waves = torch.cat([turns.sin(), turns.cos()])
    expected = prompt.project.weight @ (waves @ prompt.weight[0] + prompt.bias[0])
    torch.testing.assert_close(prompt(torch.tensor([[36.0]]))[0, 0], expected)


def test_categories_of_two_features_read_different_rows() -> None:
    prompt = CategoricalPrompt([2, 3], 8, d_hidden=5)
    made = prompt(torch.tensor([[1, 2]]))
    for feature, row in enumerate((1, 2 + 2)):
        expected = prompt.project.weight @ (prompt.table.weight[row] + prompt.bias[feature])
        torch.testing.assert_close(made[0, feature], expected)


def test_concatenation_keeps_the_prompts_apart_and_a_sum_adds_them() -> None:
    parts = NumericalPrompt(1, 8), CategoricalPrompt([2], 8)
    x_num, x_cat = torch.tensor([[64.0], [3.0]]), torch.tensor([[0], [1]])
    apart = ConditionalPrompt(*parts)(x_num, x_cat)
    assert apart.shape == (2, 2, 8)
    torch.testing.assert_close(apart[:, :1], parts[0](x_num))
    torch.testing.assert_close(apart[:, 1:], parts[1](x_cat))
    together = ConditionalPrompt(*parts, "sum")(x_num, x_cat)
    torch.testing.assert_close(together, apart.sum(1, keepdim=True))


@pytest.mark.parametrize("age", [float("nan"), -1.0, float("inf")])
@pytest.mark.parametrize("prompt", [NumericalPrompt, FourierPrompt])
def test_an_impossible_age_is_refused_with_its_place(prompt: type, age: float) -> None:
    with pytest.raises(InputError, match=r"x_num, row 1, feature 0: .* is out of range"):
        prompt(1, 8)(torch.tensor([[64.0], [age]]))


def test_categories_that_are_not_whole_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"x_cat: it is torch.float32"):
        CategoricalPrompt([2], 8)(torch.tensor([[1.0]]))


@pytest.mark.parametrize("category", [-1, 2])
def test_a_category_out_of_range_is_refused_with_its_place(category: int) -> None:
    with pytest.raises(InputError, match=r"x_cat, row 0, feature 0: .* is out of range"):
        CategoricalPrompt([2], 8)(torch.tensor([[category]]))


@pytest.mark.parametrize("shape", [(3,), (3, 2), (1, 3, 1)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"not \(batch, 1\)"):
        NumericalPrompt(1, 8)(torch.zeros(shape))


def test_a_missing_feature_is_named() -> None:
    prompt = ConditionalPrompt(NumericalPrompt(1, 8), CategoricalPrompt([2], 8))
    with pytest.raises(InputError, match="demographics, x_cat: the batch does not have it"):
        prompt(torch.tensor([[64.0]]), None)
