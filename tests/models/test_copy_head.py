"""The copy head: what it may copy, its mixture, its gradient, and its keys in a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import (
    PromptBart,
    PromptBartConfig,
    codes_of_earlier_visits,
)
from ehr_course.models.saved import load_model, save_model
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 60)])
DECODER = torch.tensor(
    [
        [2, 1, 3, 20, 21, 4, 3, 20, 22, 4, 3, 21, 22, 4],
        [2, 1, 3, 30, 4, 3, 30, 31, 4, 2, 0, 0, 0, 0],
        [2, 1, 3, 40, 41, 42, 4, 2, 0, 0, 0, 0, 0, 0],
    ]
)
NEXT = torch.cat([DECODER[:, 1:], torch.tensor([[2], [0], [0]])], dim=1)
LABELS = NEXT.masked_fill(NEXT == 0, -100)
SCORED = LABELS != -100
BATCH = {
    "input_ids": torch.tensor([[1, 6, 2]] * 3),
    "attention_mask": torch.ones(3, 3, dtype=torch.long),
    "x_num": torch.tensor([[64.0], [3.0], [40.0]]),
    "x_cat": torch.tensor([[1], [0], [0]]),
}


def tiny(**changes: Any) -> PromptBart:
    torch.manual_seed(0)
    fields: dict[str, Any] = {"d_model": 32, "dropout": 0.0, "copy_head": True}
    config = PromptBartConfig.for_tokenizer(TOKENIZER, **(fields | changes))
    model = PromptBart(config).eval()
    for bias in model.end_bias.buffers() if model.end_bias else ():
        torch.nn.init.normal_(bias)
    return model


def test_only_codes_of_earlier_visits_can_be_copied() -> None:
    allowed = codes_of_earlier_visits(DECODER[:1], PromptBartConfig())[0]
    for place, token in enumerate(DECODER[0].tolist()):
        visit = DECODER[0, : place + 1].tolist().count(3)
        earlier = {3: [3, 4], 2: [3, 4][:2]}.get(visit, [])
        earlier = earlier + ([7, 8] if visit == 3 else [])
        assert allowed[place].nonzero()[:, 0].tolist() == earlier, (place, token)


def test_probabilities_sum_to_one_and_what_cannot_be_copied_is_generated() -> None:
    model = tiny().double()
    with torch.no_grad():
        logits = model(**BATCH, decoder_input_ids=DECODER).logits
        model.copy_head = None
        without = model(**BATCH, decoder_input_ids=DECODER).logits.log_softmax(-1)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(3, 14).double())
    first_visit = ~codes_of_earlier_visits(DECODER, PromptBartConfig()).any(-1)
    torch.testing.assert_close(logits[first_visit], without[first_visit])
    changed = (logits - without).abs().amax(-1) > 1e-6
    assert torch.equal(changed, ~first_visit)


def test_the_mixture_is_that_of_its_definition() -> None:
    model = tiny().double()
    with torch.no_grad():
        logits = model(**BATCH, decoder_input_ids=DECODER).logits
        states = states_of(model)
        vocabulary = model.lm_head(states).softmax(-1)
    head, embeddings = model.copy_head, model.get_input_embeddings()(DECODER)
    row, place = 0, 11  # in the third visit, after code 21
    scores = {}
    for there in (3, 4, 7, 8):
        key = (
            head.key_before(states[row, there - 1])
            + head.key_after(states[row, there])
            + head.key_code(embeddings[row, there])
        )
        scores[there] = (head.query(states[row, place]) @ key).item() / 32**0.5
    shares = torch.tensor(list(scores.values())).softmax(0).tolist()
    p_gen = float((head.gate(states[row, place]) + 2).sigmoid())
    expected = p_gen * vocabulary[row, place]
    for there, share in zip(scores, shares, strict=True):
        expected[DECODER[row, there]] += (1 - p_gen) * share
    torch.testing.assert_close(logits[row, place].exp(), expected, rtol=1e-6, atol=1e-9)


def states_of(model: PromptBart) -> Tensor:
    """The decoder's last states, prompts cut off."""
    output = model(**BATCH, decoder_input_ids=DECODER, output_hidden_states=True)
    return output.decoder_hidden_states[-1][:, model.config.n_prompts :]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradient_are_those_of_the_logits(smoothing: float) -> None:
    model = tiny(label_smoothing=smoothing).double().train()
    loss_sum = model(**BATCH, decoder_input_ids=DECODER, labels=LABELS).loss_sum
    loss_sum.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    logits = model(**BATCH, decoder_input_ids=DECODER).logits
    expected = torch.nn.functional.cross_entropy(
        logits[SCORED], LABELS[SCORED], reduction="sum", label_smoothing=smoothing
    )
    expected.backward()
    torch.testing.assert_close(loss_sum.detach().double(), expected.detach(), rtol=1e-6, atol=1e-6)
    assert gradients.keys() >= {f"copy_head.{n}" for n, _ in model.copy_head.named_parameters()}
    for name, parameter in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-7)
            assert gradients[name].isfinite().all(), name


def test_nothing_to_copy_leaves_finite_gradients() -> None:
    model = tiny().train()
    ids, labels = DECODER[2:], LABELS[2:]
    batch = {name: tensor[2:] for name, tensor in BATCH.items()}
    model(**batch, decoder_input_ids=ids, labels=labels).loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


MODELS = [
    {},
    {"max_visit_embeddings": 3, "end_bias": True},
    {"copy_head": False, "max_visit_embeddings": 8},
    {"copy_head": False, "end_bias": True},
]


@pytest.mark.parametrize("fields", MODELS)
def test_each_cached_step_has_the_logits_of_the_uncached_forward_pass(
    fields: dict[str, Any],
) -> None:
    model = tiny(**fields).double()
    cache, steps = None, []
    with torch.no_grad():
        whole = model(**BATCH, decoder_input_ids=DECODER).logits
        for first, last in ((0, 5), (5, 6), (6, 7), (7, 12), (12, 14)):
            output = model(
                **BATCH,
                decoder_input_ids=DECODER[:, first:last],
                decoder_history_ids=DECODER[:, :last],
                past_key_values=cache,
                use_cache=True,
            )
            cache = output.past_key_values
            steps.append(output.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True},
        {"num_beams": 3},
        {"num_beams": 2, "do_sample": True, "num_return_sequences": 2},
    ],
)
@pytest.mark.parametrize("fields", MODELS)
def test_generation_with_a_cache_equals_generation_without(
    fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    model = tiny(**fields).double()
    written = []
    for use_cache in (True, False):
        torch.manual_seed(3)
        written.append(model.generate(**BATCH, max_length=30, use_cache=use_cache, **settings))
    assert torch.equal(*written)


def test_without_the_head_nothing_changes() -> None:
    """A model without it has the parameters and the outputs that it had."""
    plain, other = tiny(copy_head=False), tiny()
    assert plain.copy_head is None
    assert not any("copy_head" in name for name in plain.state_dict())
    shared = {n: t for n, t in other.state_dict().items() if "copy_head" not in n}
    plain.load_state_dict(shared)
    with torch.no_grad():
        expected = other(**BATCH, decoder_input_ids=DECODER, output_hidden_states=True)
        got = plain(**BATCH, decoder_input_ids=DECODER, output_hidden_states=True)
    pairs = zip(expected.decoder_hidden_states, got.decoder_hidden_states, strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def test_it_costs_three_matrices_a_query_and_a_gate() -> None:
    with_head, without = (
        sum(p.numel() for p in tiny(copy_head=asked).parameters()) for asked in (True, False)
    )
    assert with_head - without == 4 * 32 * 32 + 32 + 32 + 1


def test_saved_and_loaded_it_is_bitwise_the_same(tmp_path: Path) -> None:
    model = tiny()
    save_model(model, TOKENIZER, tmp_path / "saved")
    loaded = load_model(tmp_path / "saved").model
    assert loaded.config.copy_head
    with torch.no_grad():
        one, two = (m(**BATCH, decoder_input_ids=DECODER).logits for m in (model, loaded))
    assert torch.equal(one, two)


def test_a_prefix_stands_before_a_model_with_a_copy_head() -> None:
    model = PrefixTuned(tiny().double(), PrefixConfig(n_tokens=4)).eval().double()
    torch.manual_seed(0)
    cached = model.generate(**BATCH, max_length=20, do_sample=True)
    torch.manual_seed(0)
    assert torch.equal(cached, model.generate(**BATCH, max_length=20, do_sample=True))
    assert cached.shape[0] == 3


def test_a_visit_embedding_is_added_to_the_tokens_of_its_visit_on_both_sides() -> None:
    model = tiny(max_visit_embeddings=3).double()
    plain = tiny().double()
    plain.load_state_dict(
        {name: t for name, t in model.state_dict().items() if "visit_embedding" not in name}
    )
    ids = DECODER[:1]
    visit = torch.tensor([0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2])  # the third shares the last
    with torch.no_grad():
        words = plain.get_input_embeddings()(ids) + model.visit_embedding(visit)
        for given, expected in (
            (model._tokens("", ids, None, ids)["inputs_embeds"], words),
            (model._tokens("decoder_", ids, None, ids)["decoder_inputs_embeds"], words),
        ):
            torch.testing.assert_close(given, expected)
        model.visit_embedding.weight.zero_()
        batch = {name: t[:1] for name, t in BATCH.items()} | {"input_ids": ids}
        batch["attention_mask"] = torch.ones_like(ids)
        one, two = (m(**batch, decoder_input_ids=ids).logits for m in (model, plain))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
