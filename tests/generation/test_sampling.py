"""Temperature, top-k and top-p against transformers, and draws against their probabilities."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from ehr_course.errors import InputError
from ehr_course.generation.patients import Sampling, draw

LOGITS = torch.randn(6, 40, generator=torch.Generator().manual_seed(0)) * 3


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [0, 1, 7, 40, 100])
@pytest.mark.parametrize("top_p", [0.1, 0.6, 0.95, 1.0])
def test_the_distribution_is_that_of_transformers(
    temperature: float, top_k: int, top_p: float
) -> None:
    logits = TemperatureLogitsWarper(temperature)(None, LOGITS.clone())
    if top_k:
        logits = TopKLogitsWarper(top_k)(None, logits)
    if top_p < 1:
        logits = TopPLogitsWarper(top_p)(None, logits)
    made = Sampling(temperature, top_k, top_p).probabilities(LOGITS)
    torch.testing.assert_close(made.float(), logits.softmax(-1), atol=1e-6, rtol=1e-5)


def test_a_forbidden_token_has_no_probability() -> None:
    logits = LOGITS.clone()
    logits[:, 3] = -math.inf
    for sampling in (Sampling(), Sampling(top_k=39), Sampling(top_p=0.9)):
        assert (sampling.probabilities(logits)[:, 3] == 0).all()


def test_draws_come_as_often_as_they_are_probable() -> None:
    probabilities = torch.tensor([0.5, 0.0, 0.2, 0.3], dtype=torch.float64)
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tokens = draw(probabilities.expand(20_000, 4), uniform)
    share = torch.bincount(tokens, minlength=4) / 20_000
    torch.testing.assert_close(share.double(), probabilities, atol=0.012, rtol=0)
    assert share[1] == 0


@pytest.mark.parametrize("uniform", [0.0, 0.999999999999, math.nextafter(1.0, 0.0)])
def test_the_ends_of_the_unit_interval_give_possible_tokens(uniform: float) -> None:
    rows = torch.tensor([[0.0, 0.4, 0.6, 0.0], [0.0, 0.0, 1.0, 0.0]], dtype=torch.float64)
    tokens = draw(rows, torch.full((2,), uniform, dtype=torch.float64))
    assert (rows[torch.arange(2), tokens] > 0).all()


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.0}, {"temperature": math.nan}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 2}],
)
def test_a_setting_out_of_range_is_refused_by_name(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"Sampling, {next(iter(settings))}"):
        Sampling(**settings)
