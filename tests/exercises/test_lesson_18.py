"""The worked answers of lesson 18 beside independent ones: peft, and attention in two parts."""

from __future__ import annotations

import copy

import pytest
import torch
from peft import LoraConfig, PrefixEncoder, PrefixTuningConfig, inject_adapter_in_model
from transformers import BartConfig, BartModel

from ehr_course.exercises.lessons import lesson_18


def encoder_of(n_tokens: int, n_layers: int, d_model: int, d_hidden: int) -> PrefixEncoder:
    return PrefixEncoder(
        PrefixTuningConfig(
            num_virtual_tokens=n_tokens,
            num_layers=n_layers,
            token_dim=d_model,
            prefix_projection=True,
            encoder_hidden_size=d_hidden,
        )
    )


@pytest.mark.parametrize("seed", range(3))
def test_attention_with_a_prefix_is_a_mix_of_two_attentions(seed):
    for q, k, v, prefix_k, prefix_v, mask in lesson_18.PREFIX_ATTENTION.probes(seed):
        scale = q.shape[-1] ** 0.5
        q, k, v, prefix_k, prefix_v = (t.double() for t in (q, k, v, prefix_k, prefix_v))
        on_prefix = q @ prefix_k.mT / scale
        on_others = (q @ k.mT / scale).masked_fill(~mask, -torch.inf)
        share = torch.sigmoid(on_prefix.logsumexp(-1) - on_others.logsumexp(-1))[..., None]
        mixed = share * (on_prefix.softmax(-1) @ prefix_v)
        mixed = mixed + (1 - share) * (on_others.softmax(-1) @ v)
        expected = lesson_18.PREFIX_ATTENTION.worked_answer(
            q.float(), k.float(), v.float(), prefix_k.float(), prefix_v.float(), mask
        )
        torch.testing.assert_close(mixed.float(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_keys_and_values_stand_as_peft_takes_them_apart(seed):
    for table, n_layers, n_heads in lesson_18.PER_LAYER.probes(seed):
        batch, n, width = table.shape
        taken = table.view(batch, n, n_layers * 2, n_heads, width // (n_layers * 2 * n_heads))
        expected = torch.stack(taken.permute(2, 0, 3, 1, 4).split(2))
        assert torch.equal(lesson_18.PER_LAYER.worked_answer(table, n_layers, n_heads), expected)


def test_the_projection_has_as_many_parameters_as_that_of_peft():
    for sizes in [probe for probe in lesson_18.COUNTS.probes(0) if max(probe) < 4096]:
        theirs = sum(p.numel() for p in encoder_of(*sizes).parameters())
        assert lesson_18.COUNTS.worked_answer(*sizes)[2] == theirs


@pytest.mark.parametrize("seed", range(3))
def test_the_folded_table_is_what_peft_makes_of_its_rows(seed):
    for table, w1, b1, w2, b2 in lesson_18.FOLD.probes(seed):
        n, d_model = table.shape
        encoder = encoder_of(n, 1, d_model, len(b1))
        first, second = encoder.transform[0], torch.nn.Linear(len(b1), len(b2))
        encoder.transform[2] = second
        with torch.no_grad():
            for parameter, value in (
                (encoder.embedding.weight, table),
                (first.weight, w1),
                (first.bias, b1),
                (second.weight, w2),
                (second.bias, b2),
            ):
                parameter.copy_(value)
            rows = encoder(torch.arange(n))
        folded, count = lesson_18.FOLD.worked_answer(table, w1, b1, w2, b2)
        torch.testing.assert_close(rows, folded, atol=1e-5, rtol=1e-5)
        assert count == rows.numel()


@pytest.mark.parametrize("seed", range(3))
def test_an_unbeaten_method_has_a_seed_against_each_other_one(seed):
    for (rows,) in lesson_18.WINS.probes(seed):
        _, unbeaten = lesson_18.WINS.worked_answer(rows)
        loss = {(method, seed): loss for method, _, seed, loss in rows}
        methods, seeds = ({key[place] for key in loss} for place in (0, 1))
        stays = {
            method
            for method in methods
            if all(
                any(loss[other, s] >= loss[method, s] for s in seeds)
                for other in methods - {method}
            )
        }
        assert set(unbeaten) == stays
        sizes = {method: trained for method, trained, _, _ in rows}
        assert unbeaten == sorted(unbeaten, key=sizes.get)


@pytest.mark.parametrize("seed", range(3))
def test_no_bias_reaches_a_loss_below_the_lowest(seed):
    generator = torch.Generator().manual_seed(seed)
    for logits, labels in lesson_18.LOWEST_LOSS.probes(seed):
        lowest = lesson_18.LOWEST_LOSS.worked_answer(logits, labels)
        biases = torch.randn(200, 1, logits.shape[1], generator=generator).double()
        log_p = (logits.double() + biases).log_softmax(-1)
        losses = -log_p[:, torch.arange(len(labels)), labels].mean(1)
        assert losses.min() > lowest - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_at_the_lowest_loss_each_token_is_expected_as_often_as_it_occurs(seed):
    for logits, labels in lesson_18.LOWEST_LOSS.probes(seed):
        scores, vocabulary = logits.double(), logits.shape[1]
        observed = torch.bincount(labels, minlength=vocabulary).double() / len(labels)
        bias = torch.zeros(vocabulary).double()
        for _ in range(400):  # along the gradient, with the largest step that is safe
            bias += 2 * (observed - (scores + bias).softmax(-1).mean(0))
        loss = torch.nn.functional.cross_entropy(scores + bias, labels).item()
        assert loss == pytest.approx(lesson_18.LOWEST_LOSS.worked_answer(logits, labels), abs=1e-3)
        assert set(labels.tolist()) == set(range(vocabulary))


def small_bart() -> BartModel:
    torch.manual_seed(0)
    fields = {"vocab_size": 9, "d_model": 16, "init_std": 0.3}
    return BartModel(BartConfig(encoder_layers=1, decoder_layers=2, **fields))


@pytest.mark.parametrize("merged", [False, True])
def test_a_model_with_lora_is_that_of_peft_with_the_same_matrices(merged):
    model = small_bart()
    settings = LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj", "v_proj"])
    theirs = inject_adapter_in_model(settings, copy.deepcopy(model))
    optimizer = lesson_18.ADD_LORA.worked_answer(model, 2, 6.0, 1e-3)
    adapted = {n: m for n, m in model.named_modules() if n.endswith(("q_proj", "v_proj"))}
    assert len(optimizer.param_groups[0]["params"]) == 2 * len(adapted) == 2 * 2 * (1 + 2 * 2)
    with torch.no_grad():
        for name, own in adapted.items():
            own.b.normal_()
            their = theirs.get_submodule(name)
            assert their.lora_A.default.weight.any() and not their.lora_B.default.weight.any()
            their.lora_A.default.weight.copy_(own.a)
            their.lora_B.default.weight.copy_(own.b)
            if merged:
                their.merge()
                parent, _, last = name.rpartition(".")
                setattr(model.get_submodule(parent), last, own.merged())
    ids = torch.tensor([[3, 4, 5, 6]])
    ours = model.eval()(ids).last_hidden_state
    expected = theirs.eval()(ids).last_hidden_state
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    assert (ours - small_bart().eval()(ids).last_hidden_state).abs().max() > 0.1


def test_what_is_tried_leaves_the_random_numbers_of_the_notebook_alone():
    for exercise in (lesson_18.LORA_LINEAR, lesson_18.ADD_LORA):
        torch.manual_seed(5)
        expected = torch.rand(2)
        torch.manual_seed(5)
        exercise.chosen[0][0].try_out(exercise.worked_answer)
        assert torch.equal(torch.rand(2), expected)
