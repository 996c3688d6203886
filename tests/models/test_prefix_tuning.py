"""Prefixes against attention computed by hand, cached against uncached, and a base that stays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from prefix_models import (
    BATCH,
    DECODER,
    EVERYWHERE,
    IDS,
    MASK,
    PATIENTS,
    SIDES,
    TOKENIZER,
    assert_same,
    conditioned,
    logits,
    plain,
    tuned,
    weights,
)
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from ehr_course.errors import InputError
from ehr_course.generation.patients import PatientProfile, generate_patients
from ehr_course.models.prefix_tuning import Prefix, PrefixConfig, PrefixTuned, prefix_parameters
from ehr_course.models.prompt_bart import PromptBart

NO_PATIENT = {"x_num": None, "x_cat": None}

# ------------------------------------------------------------------ the prefix itself


@pytest.mark.parametrize("d_hidden", [None, 5])
def test_each_number_of_a_row_has_its_layer_head_and_place(d_hidden: int | None) -> None:
    prefix = Prefix(3, n_layers=2, n_heads=4, d_model=8, d_hidden=d_hidden)
    rows = prefix.embedding
    if d_hidden:
        first, _, second = prefix.transform
        rows = torch.tanh(rows @ first.weight.T + first.bias) @ second.weight.T + second.bias
    made = prefix()
    assert made.shape == (2, 2, 4, 3, 2)
    for layer in range(2):
        for kind in range(2):
            for head in range(4):
                for token in range(3):
                    start = layer * 16 + kind * 8 + head * 2
                    torch.testing.assert_close(
                        made[layer, kind, head, token], rows[token, start : start + 2]
                    )


@pytest.mark.parametrize("d_hidden", [None, 7])
def test_parameters_are_those_that_a_prefix_has(d_hidden: int | None) -> None:
    prefix = Prefix(5, n_layers=3, n_heads=2, d_model=8, d_hidden=d_hidden)
    assert prefix_parameters(5, 3, 8, d_hidden=d_hidden) == sum(
        parameter.numel() for parameter in prefix.parameters()
    )


def test_the_network_needs_26_times_the_parameters_that_are_kept() -> None:
    assert prefix_parameters(20, 32, 4096) == 5_242_880
    assert prefix_parameters(20, 32, 4096, d_hidden=512) == 136_659_456


def test_a_model_says_what_it_trains() -> None:
    base = conditioned()
    model = tuned(base, **EVERYWHERE, d_hidden=8)
    decoder, encoder = (prefix_parameters(3, layers, 32, d_hidden=8) for layers in (2, 3))
    assert model.n_trainable == 2 * decoder + encoder
    assert not any(parameter.requires_grad for parameter in base.parameters())


def test_a_seed_gives_a_prefix_again_and_leaves_the_global_state_alone() -> None:
    base = conditioned()
    before = torch.get_rng_state()
    one, same, other = (
        PrefixTuned(base, PrefixConfig(3, d_hidden=4, cross=True), seed=seed) for seed in (1, 1, 2)
    )
    one.fold(), same.fold()
    assert torch.equal(torch.get_rng_state(), before)
    assert_same(weights(one.prefixes), weights(same.prefixes))
    assert not torch.equal(one.prefixes["decoder"](), other.prefixes["decoder"]())
    assert not torch.equal(one.prefixes["decoder"](), one.prefixes["cross"]())


# ------------------------------------------------------------------ attention by hand


class Seen:
    """What went into an attention, and what came out."""

    def __init__(self, attention: nn.Module) -> None:
        self.attention = attention
        self._hook = attention.register_forward_hook(self._remember, with_kwargs=True)

    def _remember(self, module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        self.queries = args[0]
        source = kwargs.get("key_value_states")
        self.source = self.queries if source is None else source
        self.output = output[0]

    def by_hand(self, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
        """Attention over the prefix and the source, one query at a time.

        Args:
            keys, values: of the prefix, (heads, n_tokens, head_dim).
            visible: bool (batch, queries, source).
        """
        attention = self.attention
        heads, n_tokens, width = keys.shape
        made = []
        for row, (queries, source) in enumerate(zip(self.queries, self.source, strict=True)):
            for place, query in enumerate(attention.q_proj(queries)):
                mixed = []
                for head in range(heads):
                    part = slice(head * width, (head + 1) * width)
                    all_keys = torch.cat([keys[head], attention.k_proj(source)[:, part]])
                    all_values = torch.cat([values[head], attention.v_proj(source)[:, part]])
                    sees = torch.cat([torch.ones(n_tokens).bool(), visible[row, place]])
                    scores = all_keys[sees] @ query[part] / math.sqrt(width)
                    mixed.append(scores.softmax(0) @ all_values[sees])
                made.append(torch.cat(mixed))
        joined = torch.stack(made).view_as(self.queries)
        return attention.out_proj(joined)


def attentions(base: PromptBart) -> Iterator[tuple[str, int, nn.Module]]:
    for number, layer in enumerate(base.model.encoder.layers):
        yield "encoder", number, layer.self_attn
    for number, layer in enumerate(base.model.decoder.layers):
        yield "decoder", number, layer.self_attn
        yield "cross", number, layer.encoder_attn


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("settings", SIDES)
def test_each_attention_is_a_softmax_over_longer_keys(
    settings: dict[str, Any], kernel: str
) -> None:
    base = conditioned()
    base.set_attn_implementation(kernel)
    model = tuned(base, **settings)
    watched = [(side, number, Seen(module)) for side, number, module in attentions(base)]
    logits(model, use_cache=False)
    padding = torch.cat([torch.ones(2, 2), MASK], dim=1).bool()  # two prompts, then the record
    length = padding.shape[1]
    to_all = padding[:, None].expand(2, length, length)
    causal = torch.ones(length, length).tril().bool().expand(2, -1, -1)
    for side, number, seen in watched:
        heads = 2 if side == "encoder" else 4
        nothing = torch.zeros(2, heads, 0, 32 // heads)
        keys, values = model.prefixes[side]()[number] if side in model.prefixes else nothing
        visible = causal if side == "decoder" else to_all
        with torch.no_grad():
            wanted = seen.by_hand(keys, values, visible)
        torch.testing.assert_close(seen.output, wanted, atol=1e-5, rtol=1e-5, msg=side)


@pytest.mark.parametrize(
    ("shift", "places"), [(False, [[0, 1], [2]]), (True, [[3, 4], [5]])], ids=["kept", "shifted"]
)
def test_the_first_token_stands_where_it_stood_or_after_the_prefix(
    shift: bool, places: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = plain()
    model, seen = tuned(base, shift_positions=shift), []
    embedding = base.model.decoder.embed_positions
    original = embedding.forward

    def watched(*args: Any, **kwargs: Any) -> Tensor:
        seen.append(kwargs["position_ids"].tolist())
        return original(*args, **kwargs)

    monkeypatch.setattr(embedding, "forward", watched)
    with torch.no_grad():
        first = model(IDS, decoder_input_ids=DECODER[:, :2], use_cache=True)
        cache = first.past_key_values
        model(IDS, decoder_input_ids=DECODER[:, 2:3], past_key_values=cache, use_cache=True)
    assert seen == places


def test_attention_to_the_prefix_can_be_seen() -> None:
    with torch.no_grad():
        seen = tuned(**EVERYWHERE)(**BATCH, output_attentions=True)
    for kind, shape in (
        ("encoder_attentions", (2, 2, 8, 3 + 8)),
        ("decoder_attentions", (2, 4, 8, 3 + 8)),
        ("cross_attentions", (2, 4, 8, 3 + 8)),
    ):
        for layer in seen[kind]:
            assert layer.shape == shape
            torch.testing.assert_close(layer.sum(-1), torch.ones(shape[:3]))
            assert layer[..., :3].min() > 0


# ------------------------------------------------------------------ caches


@pytest.mark.parametrize("base", [conditioned, plain])
@pytest.mark.parametrize("settings", SIDES)
def test_a_cache_changes_nothing(base: Any, settings: dict[str, Any]) -> None:
    model = tuned(base(), **settings)
    patients = PATIENTS if base is conditioned else {}
    batch = {"input_ids": IDS, "attention_mask": MASK, **patients}
    with torch.no_grad():
        whole = model(**batch, decoder_input_ids=DECODER, use_cache=False)
        cache, steps = EncoderDecoderCache(DynamicCache(), DynamicCache()), []
        for place in range(DECODER.shape[1]):
            one = DECODER[:, place : place + 1]
            output = model(**batch, decoder_input_ids=one, past_key_values=cache, use_cache=True)
            assert output.past_key_values is cache
            steps.append(output.logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole.logits, atol=1e-4, rtol=1e-4)
    assert whole.past_key_values is None


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"do_sample": True}])
@pytest.mark.parametrize("settings", SIDES)
def test_writing_with_a_cache_is_writing_without(
    settings: dict[str, Any], how: dict[str, Any]
) -> None:
    model = tuned(**settings)
    written = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        written.append(
            model.generate(
                IDS,
                attention_mask=MASK,
                **PATIENTS,
                **how,
                max_new_tokens=12,
                use_cache=use_cache,
            )
        )
    assert torch.equal(*written)
    assert written[0].shape[1] > 2


@pytest.mark.parametrize("settings", SIDES)
def test_a_base_in_bfloat16_takes_a_prefix_in_float32(settings: dict[str, Any]) -> None:
    wide = logits(tuned(plain(), **settings), **NO_PATIENT)
    narrow = logits(tuned(plain().to(torch.bfloat16), **settings), **NO_PATIENT)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), wide, atol=0.2, rtol=0.1)


def test_by_default_a_record_may_be_as_long_as_the_positions_allow() -> None:
    base = conditioned(max_position_embeddings=30)
    model = tuned(base, n_tokens=5)
    assert model.max_tokens == base.max_tokens - 5 == 23
    written = model.generate(IDS, attention_mask=MASK, **PATIENTS, min_length=23)
    assert written.shape == (2, 23)


def test_a_left_padded_decoder_does_not_see_its_padding() -> None:
    model = tuned(plain())
    padded = torch.cat([torch.zeros(2, 1, dtype=torch.long), DECODER], dim=1)
    mask = (torch.arange(7) > 0).long().expand(2, -1)
    batch = {"input_ids": IDS, "attention_mask": MASK, "decoder_attention_mask": mask}
    with torch.no_grad():
        one = model(**batch, decoder_input_ids=padded).logits[:, 1:]
        padded[:, 0] = 17
        other = model(**batch, decoder_input_ids=padded).logits[:, 1:]
        unmasked = model(IDS, MASK, decoder_input_ids=padded).logits[:, 1:]
    torch.testing.assert_close(one, other)
    assert not torch.allclose(one, unmasked, atol=1e-3)


# ------------------------------------------------------------------ the base


@pytest.mark.parametrize("settings", SIDES)
def test_the_base_alone_is_what_it_was(settings: dict[str, Any]) -> None:
    base = conditioned()
    before, kept = logits(base), weights(base)
    model = tuned(base, **settings)
    with_prefix = logits(model)
    model.generate(IDS, **PATIENTS, max_new_tokens=3)
    with pytest.raises(InputError):
        model(IDS, decoder_input_ids=DECODER, x_num=torch.tensor([[200.0]] * 2))
    assert torch.equal(logits(base), before)
    assert_same(weights(base), kept)
    assert not torch.allclose(with_prefix, before, atol=1e-2)


def test_two_prefixes_share_a_base() -> None:
    base = conditioned()
    one, other = (PrefixTuned(base, PrefixConfig(3), seed=seed) for seed in (1, 2))
    first = logits(one)
    assert not torch.allclose(logits(other), first, atol=1e-2)
    assert torch.equal(logits(one), first)


@pytest.mark.parametrize("settings", SIDES)
def test_age_and_sex_still_count_and_enter_once(settings: dict[str, Any]) -> None:
    base = conditioned()
    model = tuned(base, **settings)
    entered: list[int] = []
    base.decoder_prompt.register_forward_hook(lambda *_: entered.append(1))
    model.generate(IDS, **PATIENTS, max_new_tokens=6, min_new_tokens=6)
    assert len(entered) == 1
    older = PATIENTS | {"x_num": PATIENTS["x_num"] + 20}
    other = PATIENTS | {"x_cat": 1 - PATIENTS["x_cat"]}
    for changed in (older, other):
        assert not torch.allclose(logits(model), logits(model, **changed), atol=1e-3)


@pytest.mark.parametrize("settings", SIDES)
def test_it_writes_patients_whatever_the_batch(settings: dict[str, Any]) -> None:
    model = tuned(conditioned(), **settings)
    wanted = [PatientProfile(age, "FM"[age % 2]) for age in range(20, 32)] + [
        PatientProfile(50, "F", [["007"]])
    ]
    records = generate_patients(model, TOKENIZER, wanted, seed=3, max_tokens=24)
    assert [(r.age, r.sex) for r in records] == [(w.age, w.sex) for w in wanted]
    assert records[-1].visits[0].codes[0] == "007"
    assert records == generate_patients(
        model, TOKENIZER, wanted, seed=3, max_tokens=24, batch_size=5
    )
    assert records != generate_patients(model.base, TOKENIZER, wanted, seed=3, max_tokens=24)


def test_another_kind_of_base_is_refused() -> None:
    with pytest.raises(InputError, match="base: it is a Linear"):
        tuned(nn.Linear(2, 2), n_tokens=5)
