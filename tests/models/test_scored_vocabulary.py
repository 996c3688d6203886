"""The likelihood of scored words, made a few rows at a time, against all logits at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode

from ehr_course.errors import InputError
from ehr_course.losses import log_mixture
from ehr_course.models import scored_vocabulary
from ehr_course.models.scored_vocabulary import scored_likelihood

N, WIDTH, SIZE = 11, 4, 9
OUTSIDE = (2, 7)
"""The rows whose word stands beyond the vocabulary."""


@pytest.fixture(params=[3, 11, 512], ids=lambda rows: f"{rows} rows at a time")
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scored_vocabulary, "ROWS", request.param)


def inputs(*, pointer: bool = True, dtype: torch.dtype = torch.double) -> list[Tensor]:
    """Features, weight, bias, words; where a model copies, log P_copy and p_gen's logits."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()

    words = torch.randint(0, SIZE, (N,), generator=generator)
    made = [random(N, WIDTH), random(SIZE, WIDTH), random(SIZE), words]
    if pointer:
        words[list(OUTSIDE)] = SIZE + 1
        log_copied = torch.rand(N, generator=generator).to(dtype).log()
        log_copied[[0, 3]] = -torch.inf  # not in the note
        made += [log_copied.requires_grad_(), random(N)]
    return made


def by_all_logits(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    log_copied: Tensor | None = None,
    p_gen_logit: Tensor | None = None,
) -> Tensor:
    log_vocabulary = linear(features, weight, bias).log_softmax(dim=1)
    inside = words < SIZE
    log_generated = log_vocabulary.gather(1, words.where(inside, 0)[:, None]).squeeze(1)
    if log_copied is None:
        return -log_generated.sum()
    log_generated = log_generated.masked_fill(~inside, -torch.inf)
    return -log_mixture(log_generated, log_copied, p_gen_logit).sum()


def gradients(total: Tensor, given: list[Tensor]) -> list[Tensor]:
    return torch.autograd.grad(total, [x for x in given if x.requires_grad])


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("pointer", [True, False], ids=["pointer", "no pointer"])
def test_total_and_gradients_are_those_of_all_logits(pointer: bool) -> None:
    given = inputs(pointer=pointer)
    expected, made = by_all_logits(*given), scored_likelihood(*given)
    assert (expected - made).abs() < 1e-12
    pairs = zip(gradients(3 * expected, given), gradients(3 * made, given), strict=True)
    for right, ours in pairs:
        torch.testing.assert_close(ours, right, rtol=0, atol=1e-12)


def test_a_word_as_unlikely_as_it_gets_still_has_a_gradient() -> None:
    given = inputs(dtype=torch.float32)
    bias, words = given[2:4]
    with torch.no_grad():  # not in its note, and hardly in the vocabulary
        bias[words[0]] = -300.0
    total = scored_likelihood(*given)
    assert torch.isfinite(total)
    assert gradients(total, given)[2][words[0]] == pytest.approx(-1, abs=1e-3)


def test_without_gradients_the_total_is_the_same() -> None:
    given = inputs()
    with torch.no_grad():
        quiet = scored_likelihood(*given)
    assert quiet.grad_fn is None
    assert torch.equal(quiet, scored_likelihood(*given))


def test_no_scored_word_costs_nothing() -> None:
    features, weight, bias, words, log_copied, gate = inputs()
    given = [features[:0], weight, bias, words[:0], log_copied[:0], gate[:0]]
    total = scored_likelihood(*given)
    assert total == 0
    assert not gradients(total, [weight, bias])[0].any()


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_is_close_and_leaves_the_types_of_the_gradients(dtype: torch.dtype) -> None:
    given = inputs(dtype=torch.float32)
    expected = by_all_logits(*given)
    with torch.autocast("cpu", dtype=dtype):
        made = scored_likelihood(*given)
    assert made.dtype == torch.float32
    assert (made - expected).abs() < 0.02 * expected
    for right, ours in zip(gradients(expected, given), gradients(made, given), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - right).norm() < 0.02 * right.norm()


class LargestTensor(TorchDispatchMode):
    """How many numbers the largest tensor held that any operation returned."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        returned = func(*args, **(kwargs or {}))
        if isinstance(returned, Tensor):
            self.numbers = max(self.numbers, returned.numel())
        return returned


def test_the_probabilities_of_all_rows_are_never_held_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scored_vocabulary, "ROWS", 8)
    features, weight, bias = torch.randn(64, 4), torch.randn(100, 4), torch.randn(100)
    words = torch.randint(0, 100, (64,))
    for parameter in (features, weight, bias):
        parameter.requires_grad_()
    with LargestTensor() as whole:
        by_all_logits_of_100 = linear(features, weight, bias)
        torch.nn.functional.cross_entropy(by_all_logits_of_100, words).backward()
    with LargestTensor() as parts:
        scored_likelihood(features, weight, bias, words).backward()
    assert whole.numbers == 64 * 100
    assert parts.numbers == 8 * 100


def test_its_gradient_can_be_asked_for_once() -> None:
    given = inputs()
    total = scored_likelihood(*given)
    total.backward(retain_graph=True)
    with pytest.raises(InputError, match="its gradient was asked for before"):
        total.backward()


def test_a_gradient_of_the_gradient_is_refused() -> None:
    features, *others = inputs()
    with pytest.raises(InputError, match="create_graph=True asks for its second derivative"):
        torch.autograd.grad(scored_likelihood(features, *others), features, create_graph=True)
