"""The losses against PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from ehr_course.errors import InputError
from ehr_course.losses import (
    LossTerm,
    age_loss,
    classification_loss,
    co_occurrence_penalty,
    coverage_loss,
    language_model_loss,
    log_copy_probability,
    log_mixture,
    loss_counts,
    never_together,
    weighted_total,
)


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


def test_a_position_of_minus_100_is_not_scored() -> None:
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    masked = language_model_loss(logits, torch.tensor([1, -100, 3, -100]), label_smoothing=0.1)
    chosen = language_model_loss(logits[[0, 2]], torch.tensor([1, 3]), label_smoothing=0.1)
    torch.testing.assert_close(masked, chosen)


def test_an_answers_loss_is_pytorchs() -> None:
    rng = torch.Generator().manual_seed(0)
    logits, classes = torch.randn(9, 6, generator=rng), torch.randint(6, (9,), generator=rng)
    total, count = classification_loss(logits, classes)
    torch.testing.assert_close(total / count, cross_entropy(logits, classes))


def test_an_age_loss_is_pytorchs_mse_of_ages_over_90() -> None:
    rng = torch.Generator().manual_seed(0)
    answers, ages = torch.rand(9, generator=rng), 90 * torch.rand(9, generator=rng)
    total, count = age_loss(answers, ages)
    torch.testing.assert_close(total / count, mse_loss(answers, ages / 90))


def penalty_of(logits: Tensor) -> tuple[Tensor, Tensor]:
    vocabulary = logits.shape[-1]
    never = torch.zeros(vocabulary, vocabulary, dtype=torch.bool)
    never[0, 1] = never[1, 0] = True
    read = torch.zeros(1, len(logits), dtype=torch.long)
    return co_occurrence_penalty(
        logits[None], read, never, torch.ones(1, len(logits), dtype=torch.bool)
    )


LOSSES: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "language model": lambda x: language_model_loss(x, torch.zeros(len(x), dtype=torch.long)),
    "smoothed": lambda x: language_model_loss(
        x, torch.zeros(len(x), dtype=torch.long), label_smoothing=0.1
    ),
    "class": lambda x: classification_loss(x, torch.zeros(len(x), dtype=torch.long)),
    "age": lambda x: age_loss(x[:, 0], torch.full((len(x),), 63.0)),
    "co-occurrence": penalty_of,
}


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_numbers_give_a_finite_loss_and_gradient_in_each_loss(name: str) -> None:
    logits = torch.tensor([[1e30, -1e30], [-1e30, 1e30], [0.0, 0.0]], requires_grad=True)
    total, count = LOSSES[name](logits)
    total.backward()
    assert int(count) == 3
    assert torch.isfinite(total)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_is_float32_inside_autocast(name: str) -> None:
    weight = torch.full((2, 2), 0.5, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = torch.ones(3000, 2) @ weight
        total, _ = LOSSES[name](logits)
    assert logits.dtype == torch.float16
    assert total.dtype == torch.float32
    in_full = LOSSES[name](logits.float())[0]
    torch.testing.assert_close(total, in_full)


@pytest.mark.parametrize("name", LOSSES)
def test_the_parts_of_each_loss_add_up_to_the_whole(name: str) -> None:
    logits = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    parts = [LOSSES[name](logits[part]) for part in (slice(2), slice(2, 7))]
    whole = LOSSES[name](logits)
    torch.testing.assert_close(parts[0][0] + parts[1][0], whole[0])
    assert int(parts[0][1] + parts[1][1]) == int(whole[1]) == 7


# ------------------------------------------------------------------ co-occurrence


def test_pairs_that_never_meet_are_those_of_a_slow_count() -> None:
    rng = torch.Generator().manual_seed(0)
    present = torch.rand(60, 8, generator=rng) < 0.3
    present[:, 1] &= ~present[:, 0]
    present[:, 5] &= ~present[:, 2]
    never = never_together(present, expected_at_least=3.0)
    for a, b in combinations(range(8), 2):
        together = sum(bool(row[a] and row[b]) for row in present)
        expected = int(present[:, a].sum()) * int(present[:, b].sum()) / 60
        assert bool(never[a, b]) == bool(never[b, a]) == (together == 0 and expected >= 3)
    assert never.sum() == 4


def test_a_rare_pair_that_chance_would_not_show_is_not_called_impossible() -> None:
    present = torch.zeros(100, 2, dtype=torch.bool)
    present[0, 0] = present[1, 1] = True
    assert not never_together(present).any()


def test_the_penalty_is_the_probability_of_what_never_stands_with_what_was_read() -> None:
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 4, 6, generator=rng)
    read = torch.randint(6, (2, 4), generator=rng)
    never = torch.rand(6, 6, generator=rng) < 0.3
    scored = torch.tensor([[True, True, True, True], [True, True, False, False]])
    total, count = co_occurrence_penalty(logits, read, never, scored)
    expected = 0.0
    for row, position in scored.nonzero().tolist():
        probabilities = logits[row, position].softmax(0)
        for token in range(6):
            if any(never[earlier, token] for earlier in read[row, : position + 1]):
                expected += float(probabilities[token])
    assert float(total) == pytest.approx(expected, rel=1e-5)
    assert int(count) == 6


def test_the_penalty_pushes_the_probability_of_the_forbidden_down() -> None:
    logits = torch.zeros(3, 2, requires_grad=True)
    penalty_of(logits)[0].backward()
    assert (logits.grad[:, 1] > 0).all()  # token 0 was read, and token 1 never stands with it
    assert (logits.grad[:, 0] < 0).all()


def test_a_table_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match=r"its shape is \(3, 3\), the vocabulary has 2 tokens"):
        co_occurrence_penalty(
            torch.zeros(1, 1, 2),
            torch.zeros(1, 1, dtype=torch.long),
            torch.zeros(3, 3, dtype=torch.bool),
            torch.ones(1, 1, dtype=torch.bool),
        )


# ------------------------------------------------------------------ the total


def test_the_total_weighs_means_over_tokens_and_over_rows() -> None:
    labels = torch.tensor([[5, 6, -100], [7, -100, -100], [-100, -100, -100]])
    counts = loss_counts(labels)
    assert counts == {"token": 3, "row": 2}
    terms = (
        LossTerm("language_model", torch.tensor(6.0), torch.tensor(3)),
        LossTerm("age", torch.tensor(8.0), torch.tensor(2), 0.5, "row"),
    )
    assert float(weighted_total(terms, counts)) == 6 / 3 + 0.5 * 8 / 2


def test_a_batch_without_a_scored_position_has_a_total_of_zero() -> None:
    terms = (LossTerm("language_model", torch.tensor(0.0), torch.tensor(0)),)
    assert float(weighted_total(terms, {"token": 0, "row": 0})) == 0.0


# ------------------------------------------------------------------ the pointer-generator's


def mixed(p_gen: float, generated: float, copied: float) -> float:
    """The mixture as its formula has it, in Python's floats."""
    return p_gen * generated + (1 - p_gen) * copied


@pytest.mark.parametrize(
    ("p_gen", "generated", "copied"),
    [
        (0.3, 0.2, 0.6),
        (0.9, 0.0, 0.5),
        (0.15, 0.0005, 0.48),
        (0.5, 0.25, 0.0),
        (0.999, 1e-30, 0.0),
    ],
)
def test_the_mixture_is_that_of_the_formula(p_gen, generated, copied):
    logit = math.log(p_gen / (1 - p_gen))
    probabilities = torch.tensor([generated, copied, logit], dtype=torch.float64)
    found = log_mixture(probabilities[0].log(), probabilities[1].log(), probabilities[2])
    assert float(found) == pytest.approx(math.log(mixed(p_gen, generated, copied)), rel=1e-12)


def test_the_mixture_has_a_gradient_where_a_clamped_probability_has_none():
    log_generated = torch.tensor(-70.0, requires_grad=True)  # 4e-31
    nothing_copied = torch.tensor(-torch.inf)
    log_mixture(log_generated, nothing_copied, torch.tensor(0.0)).backward()
    assert float(log_generated.grad) == pytest.approx(1.0)


def test_the_gradients_of_the_mixture_are_those_of_differences():
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(7, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)
    ]
    assert torch.autograd.gradcheck(log_mixture, inputs)


def test_a_word_that_stands_twice_has_the_attention_of_both_places():
    attention = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    ids = torch.tensor([[7, 8, 7, 9], [5, 5, 5, 6]])
    found = log_copy_probability(attention.log(), ids, torch.tensor([7, 5])).exp()
    assert found.tolist() == pytest.approx([0.4, 0.75])


def test_a_word_that_cannot_be_copied_has_no_probability_and_no_gradient():
    scores = torch.tensor([[0.5, -torch.inf, 0.1]], requires_grad=True)
    ids = torch.tensor([[7, 8, 9]])
    for absent in (8, 6):  # masked; not in the note
        found = log_copy_probability(scores.log_softmax(1), ids, torch.tensor([absent]))
        assert found.tolist() == [-math.inf]
        log_mixture(torch.tensor([-1.0]), found, torch.zeros(1)).sum().backward()
        assert scores.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_coverage_loss_is_that_of_a_slow_loop_and_leaves_out_padding():
    generator = torch.Generator().manual_seed(0)
    attention = torch.rand(2, 4, 5, generator=generator, dtype=torch.float64).softmax(-1)
    scored = torch.tensor([[True] * 4, [True, True, False, False]])
    expected, steps = 0.0, 0
    for row in range(2):
        spent = [0.0] * 5
        for t in range(4):
            now = attention[row, t].tolist()
            if scored[row, t]:
                expected += sum(min(a, c) for a, c in zip(now, spent, strict=True))
                steps += 1
            spent = [c + a for a, c in zip(now, spent, strict=True)]
    total, count = coverage_loss(attention, scored)
    assert (float(total), int(count)) == (pytest.approx(expected, rel=1e-12), steps)


def test_attention_that_never_comes_back_costs_nothing():
    total, count = coverage_loss(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool))
    assert (float(total), int(count)) == (0.0, 3)
