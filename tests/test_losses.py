"""The losses against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from ehr_course.losses import language_model_loss


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_sum_over_count_is_pytorchs_mean(label_smoothing: float) -> None:
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 5, generator=rng)
    targets = torch.randint(5, (7,), generator=rng)
    total, count = language_model_loss(logits, targets, label_smoothing=label_smoothing)
    expected = cross_entropy(logits, targets, label_smoothing=label_smoothing)
    torch.testing.assert_close(total / count, expected)


def test_two_parts_add_up_to_the_whole() -> None:
    rng = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(7, 5, generator=rng), torch.arange(7) % 5
    parts = [language_model_loss(logits[part], targets[part]) for part in (slice(2), slice(2, 7))]
    whole = language_model_loss(logits, targets)
    torch.testing.assert_close(parts[0][0] + parts[1][0], whole[0])
    assert parts[0][1] + parts[1][1] == whole[1] == 7


def test_half_precision_logits_give_a_float32_sum() -> None:
    logits = torch.full((4096, 3), 2.0, dtype=torch.float16)
    total, _ = language_model_loss(logits, torch.zeros(4096, dtype=torch.long))
    assert total.dtype == torch.float32
    assert total.item() == pytest.approx(4096 * 1.0986123, rel=1e-4)


def test_extreme_logits_give_a_finite_loss_and_gradient() -> None:
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    total, _ = language_model_loss(logits, torch.tensor([0, 0]))
    total.backward()
    assert total.item() == pytest.approx(2e4)
    assert torch.isfinite(logits.grad).all()


def test_no_position_gives_a_sum_of_zero() -> None:
    total, count = language_model_loss(torch.zeros(0, 5), torch.zeros(0, dtype=torch.long))
    assert (total.item(), count.item()) == (0.0, 0)
