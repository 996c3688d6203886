"""PromptBart against plain BART, cached against uncached, and who can see what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import ConditionalPrompt, PromptBart, PromptBartConfig
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 60)])
IDS = torch.tensor([[1, 3, 20, 21, 4, 2], [1, 3, 30, 4, 2, 0]])
MASK = (IDS != 0).long()
TARGET = torch.tensor([[1, 3, 20, 21, 4, 2], [1, 3, 30, 4, 2, 0]])
DECODER = torch.tensor([[2, 1, 3, 20, 21, 4], [2, 1, 3, 30, 4, 2]])
LABELS = TARGET.masked_fill(TARGET == 0, -100)
PATIENTS = {"x_num": torch.tensor([[64.0], [3.0]]), "x_cat": torch.tensor([[1], [0]])}
FULL = {
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
}


def tiny(**changes: Any) -> PromptBart:
    torch.manual_seed(0)
    fields = {"d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    config = PromptBartConfig.for_tokenizer(TOKENIZER, **(fields | changes))
    return PromptBart(config).eval()


def run(model: PromptBart, **changes: Any) -> Any:
    batch = {
        "input_ids": IDS,
        "attention_mask": MASK,
        "decoder_input_ids": DECODER,
        **PATIENTS,
        **changes,
    }
    with torch.no_grad():
        return model(**batch)


def plain_twin(model: PromptBart) -> BartForConditionalGeneration:
    """A BART of transformers with the same weights."""
    fields = model.config.to_dict()
    own = set(PromptBartConfig().to_dict()) - set(BartConfig().to_dict())
    config = BartConfig(**{k: v for k, v in fields.items() if k not in {*own, "model_type"}})
    twin = BartForConditionalGeneration(config).eval()
    shared = {k: v for k, v in model.state_dict().items() if "_prompt." not in k}
    twin.load_state_dict(shared)
    return twin


# ------------------------------------------------------------------ size


def full_size(vocab_size: int, positions: int, **changes: Any) -> int:
    with torch.device("meta"):
        config = PromptBartConfig(
            vocab_size=vocab_size, max_position_embeddings=positions, **FULL, **changes
        )
        return sum(parameter.numel() for parameter in PromptBart(config).parameters())


def test_parameters_at_the_sources_configurations() -> None:
    no_prompts = {"num_scales": [], "cat_cardinalities": []}
    assert full_size(6_992, 512, **no_prompts) == 105_400_320
    assert full_size(6_992, 1_024, **no_prompts) == 106_186_752
    assert full_size(6_992, 512) == 105_794_816
    assert full_size(6_992, 512, prompt_decoder=False) == 105_400_320 + 197_248


def test_one_more_word_costs_one_row_because_the_head_is_tied() -> None:
    assert full_size(6_993, 512) - full_size(6_992, 512) == 768


# ------------------------------------------------------------------ plain BART


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({"demographics": "optional"}, {"x_num": None, "x_cat": None}),
        ({"prompt_encoder": False, "prompt_decoder": False}, {}),
        ({"num_scales": [], "cat_cardinalities": []}, {}),
    ],
    ids=["none given", "no side reads them", "no features"],
)
def test_without_demographics_it_is_plain_bart_to_the_last_bit(
    changes: dict[str, Any], given: dict[str, Any]
) -> None:
    model = tiny(**changes)
    twin = plain_twin(model)
    with torch.no_grad():
        expected = twin(input_ids=IDS, attention_mask=MASK, decoder_input_ids=DECODER)
    assert torch.equal(run(model, **given).logits, expected.logits)


def test_the_loss_is_plain_barts_on_the_scored_positions() -> None:
    model = tiny(demographics="optional")
    with torch.no_grad():
        expected = plain_twin(model)(
            input_ids=IDS, attention_mask=MASK, decoder_input_ids=DECODER, labels=LABELS
        )
    output = run(model, x_num=None, x_cat=None, labels=LABELS)
    torch.testing.assert_close(output.loss, expected.loss)
    assert output.loss_count == (LABELS != -100).sum()
    torch.testing.assert_close(output.loss_sum, expected.loss * output.loss_count)


def test_the_gradient_is_that_of_the_loss_over_all_positions() -> None:
    model = tiny()
    model(
        input_ids=IDS, attention_mask=MASK, decoder_input_ids=DECODER, labels=LABELS, **PATIENTS
    ).loss.backward()
    scored = model.model.shared.weight.grad.clone()
    model.zero_grad()
    logits = model(
        input_ids=IDS, attention_mask=MASK, decoder_input_ids=DECODER, **PATIENTS
    ).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), LABELS.flatten()).backward()
    torch.testing.assert_close(scored, model.model.shared.weight.grad)


def test_a_batch_without_a_scored_position_has_a_loss_of_zero() -> None:
    output = run(tiny(), labels=torch.full_like(LABELS, -100))
    assert (output.loss.item(), output.loss_count.item()) == (0.0, 0)


def test_logits_leave_out_the_prompts() -> None:
    assert run(tiny()).logits.shape == (2, 6, len(TOKENIZER))
    assert torch.equal(run(tiny(), labels=LABELS).logits, run(tiny()).logits)


# ------------------------------------------------------------------ who can see what


def test_age_and_sex_each_reach_the_logits_through_either_side() -> None:
    for side in ("prompt_encoder", "prompt_decoder"):
        model = tiny(**{side: False})
        before = run(model).logits
        for changed in ({"x_num": PATIENTS["x_num"] + 5}, {"x_cat": 1 - PATIENTS["x_cat"]}):
            assert (run(model, **changed).logits - before).abs().amax(dim=(1, 2)).min() > 1e-5


def jacobian(model: PromptBart, output: Any, inputs: Tensor) -> Tensor:
    """How much each position of the output depends on each position of the input."""
    size = output.shape[0]
    reach = torch.zeros(size, inputs.shape[1])
    for position in range(size):
        (gradient,) = torch.autograd.grad(output[position].sum(), inputs, retain_graph=True)
        reach[position] = gradient[0].abs().sum(-1)
    return reach


def test_a_prompt_never_sees_a_later_token_and_every_token_sees_the_prompts() -> None:
    model = tiny()
    seen: dict[str, Tensor] = {}

    def keep(module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        kwargs["inputs_embeds"] = kwargs["inputs_embeds"].detach().requires_grad_()
        seen["inputs"] = kwargs["inputs_embeds"]
        return kwargs

    decoder = model.model.decoder
    decoder.register_forward_pre_hook(
        lambda module, args, kwargs: (args, keep(module, args, kwargs)), with_kwargs=True
    )
    decoder.register_forward_hook(
        lambda module, args, output: seen.__setitem__("output", output.last_hidden_state)
    )
    one = {name: value[:1] for name, value in PATIENTS.items()}
    model(input_ids=IDS[:1], decoder_input_ids=DECODER[:1], **one)
    # The sum of a layer norm's outputs is constant: weigh them, so that it has a gradient.
    weighed = seen["output"][0] * torch.randn(32, generator=torch.Generator().manual_seed(1))
    reach = jacobian(model, weighed, seen["inputs"])  # (2 prompts + 6 tokens) squared
    assert reach.shape == (8, 8)
    assert torch.equal(reach.triu(1), torch.zeros(8, 8))
    assert (reach.tril() + torch.ones(8, 8).triu(1) > 0).all()


def test_a_row_does_not_depend_on_its_neighbours_padding() -> None:
    model = tiny()
    together = run(model).logits[1, :5]
    alone = run(
        model,
        input_ids=IDS[1:, :5],
        attention_mask=MASK[1:, :5],
        decoder_input_ids=DECODER[1:, :5],
        x_num=PATIENTS["x_num"][1:],
        x_cat=PATIENTS["x_cat"][1:],
    ).logits[0]
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_padding_on_the_left_of_the_decoder_can_be_masked() -> None:
    model = tiny()
    positions = DECODER.shape[1]
    padded = torch.cat([torch.zeros(2, 1, dtype=torch.long), DECODER], dim=1)
    mask = torch.cat([torch.zeros(2, 1, dtype=torch.long), torch.ones_like(DECODER)], dim=1)
    first = run(model, decoder_input_ids=padded, decoder_attention_mask=mask).logits
    padded[:, 0] = 33
    second = run(model, decoder_input_ids=padded, decoder_attention_mask=mask).logits
    assert torch.equal(first[:, 1:], second[:, 1:])
    assert first.shape[1] == positions + 1


@pytest.mark.parametrize("combination", ["concat", "sum"])
@pytest.mark.parametrize("side", ["encoder", "encoder outputs", "decoder"])
def test_a_mask_lacks_no_column_or_exactly_those_of_the_prompts(
    side: str, combination: str
) -> None:
    model = tiny(prompt_combination=combination)
    n_prompts = model.config.n_prompts
    positions = n_prompts + IDS.shape[1]
    whole = torch.ones(2, positions, dtype=torch.long)
    whole[1, -1] = 0
    name, given = "attention_mask", {}
    if side == "encoder outputs":
        given = {"encoder_outputs": model.encode(IDS, MASK, **PATIENTS)[0], "input_ids": None}
    if side == "decoder":
        name = "decoder_attention_mask"
    expected = run(model, **given, **{name: whole}).logits
    assert not expected.equal(run(model, **given, **{name: torch.ones_like(whole)}).logits)
    allowed = {IDS.shape[1], positions}
    for length in range(positions + 4):
        # Longer masks are whole at their end, so that only their length is wrong.
        mask = torch.cat([whole.new_ones(2, 3), whole], dim=1)[:, positions + 3 - length :]
        if length in allowed:
            assert run(model, **given, **{name: mask}).logits.equal(expected)
            continue
        with pytest.raises(InputError) as error:
            run(model, **given, **{name: mask})
        assert error.value.thing == name
        shapes = f"its shape is (2, {length}), not (2, {IDS.shape[1]})"
        assert shapes in error.value.problem


def test_a_mask_of_plain_bart_is_as_long_as_its_tokens() -> None:
    model = tiny(demographics="optional")
    plain = {"x_num": None, "x_cat": None}
    for length in range(IDS.shape[1] + 4):
        mask = torch.ones(2, length, dtype=torch.long)
        for name in ("attention_mask", "decoder_attention_mask"):
            if length == IDS.shape[1]:
                run(model, **plain, **{name: mask})
                continue
            with pytest.raises(InputError, match=rf"{name}: its shape is \(2, {length}\), not"):
                run(model, **plain, **{name: mask})


@pytest.mark.parametrize("mask", [MASK[:, None, None], MASK[:1], MASK[[0, 1, 1]]])
@pytest.mark.parametrize("name", ["attention_mask", "decoder_attention_mask"])
def test_a_mask_that_is_not_one_row_for_each_record_is_refused(name: str, mask: Tensor) -> None:
    with pytest.raises(InputError, match=rf"{name}: its shape is .*, not \(2, 6\)"):
        run(tiny(), **{name: mask})


@pytest.mark.parametrize("use_cache", [True, False])
def test_generation_takes_masks_of_tokens_or_of_prompts_and_tokens(use_cache: bool) -> None:
    model = tiny()
    encoded, _ = model.encode(IDS, MASK, **PATIENTS)
    settings = {"max_new_tokens": 5, "suppress_tokens": [TOKENIZER.eos_id], **PATIENTS}
    settings |= {"use_cache": use_cache, "do_sample": False}
    # Padding on the left of the decoder, which a mask must hide at every step.
    start = torch.tensor([[0, 2], [2, 1]])
    start_mask = torch.tensor([[0, 1], [1, 1]])
    settings |= {"decoder_input_ids": start}
    n_prompts = model.config.n_prompts
    ones = MASK.new_ones(2, n_prompts)

    def written(mask: Tensor, decoder_mask: Tensor) -> Tensor:
        return model.generate(
            attention_mask=mask,
            encoder_outputs=BaseModelOutput(encoded[0]),
            decoder_attention_mask=decoder_mask,
            **settings,
        )

    # The oracle feeds every prefix again.
    expected = start
    for step in range(5):
        mask = torch.cat([start_mask, start_mask.new_ones(2, step)], dim=1)
        logits = run(model, decoder_input_ids=expected, decoder_attention_mask=mask).logits
        logits[..., TOKENIZER.eos_id] = -torch.inf
        expected = torch.cat([expected, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    whole = torch.cat([ones, MASK], dim=1)
    whole_start = torch.cat([ones, start_mask], dim=1)
    for mask in (MASK, whole):
        for decoder_mask in (start_mask, whole_start):
            assert written(mask, decoder_mask).equal(expected)
    for length in range(n_prompts + IDS.shape[1] + 4):
        if length not in (IDS.shape[1], n_prompts + IDS.shape[1]):
            with pytest.raises(InputError, match=rf"^attention_mask: .* \(2, {length}\), not"):
                written(MASK.new_ones(2, length), start_mask)
    for length in range(n_prompts + start.shape[1] + 4):
        if length not in (start.shape[1], n_prompts + start.shape[1]):
            with pytest.raises(InputError, match=rf"decoder_.*mask: .* \(2, {length}\), not"):
                written(MASK, MASK.new_ones(2, length))


# ------------------------------------------------------------------ generation


@pytest.mark.parametrize(
    "settings",
    [{}, {"do_sample": True, "top_k": 5}, {"do_sample": True, "top_p": 0.9}, {"num_beams": 3}],
    ids=["greedy", "top-k", "top-p", "beam"],
)
def test_generation_with_a_cache_equals_generation_without(settings: dict[str, Any]) -> None:
    model = tiny()
    written = []
    for use_cache in (True, False):
        torch.manual_seed(3)
        written.append(
            model.generate(
                IDS,
                attention_mask=MASK,
                use_cache=use_cache,
                max_new_tokens=12,
                min_new_tokens=12,
                **settings,
                **PATIENTS,
            )
        )
    assert torch.equal(*written)
    assert written[0].shape == (2, 13)


def test_each_cached_step_has_the_logits_of_the_uncached_forward_pass() -> None:
    model = tiny()
    output = model.generate(
        IDS,
        attention_mask=MASK,
        max_new_tokens=10,
        min_new_tokens=10,
        return_dict_in_generate=True,
        output_logits=True,
        **PATIENTS,
    )
    whole = run(model, decoder_input_ids=output.sequences[:, :-1]).logits
    torch.testing.assert_close(torch.stack(output.logits, dim=1), whole, atol=2e-5, rtol=1e-4)


def test_the_decoders_prompts_enter_the_cache_once() -> None:
    output = tiny().generate(
        IDS,
        attention_mask=MASK,
        max_new_tokens=5,
        min_new_tokens=5,
        return_dict_in_generate=True,
        **PATIENTS,
    )
    assert output.past_key_values.get_seq_length() == 2 + 5


def test_the_encoder_runs_with_its_prompts_when_generating() -> None:
    model = tiny(prompt_decoder=False)
    output = model.generate(
        IDS,
        attention_mask=MASK,
        max_new_tokens=3,
        output_logits=True,
        return_dict_in_generate=True,
        **PATIENTS,
    )
    first = run(model, decoder_input_ids=output.sequences[:, :1]).logits[:, -1]
    torch.testing.assert_close(output.logits[0], first, atol=2e-5, rtol=1e-4)


def test_several_records_of_each_patient() -> None:
    written = tiny().generate(
        IDS,
        attention_mask=MASK,
        do_sample=True,
        num_return_sequences=3,
        max_new_tokens=6,
        **PATIENTS,
    )
    assert written.shape[0] == 6


def test_generation_goes_on_to_the_last_position_by_default() -> None:
    model = tiny(max_position_embeddings=24)
    written = model.generate(
        IDS, attention_mask=MASK, suppress_tokens=[TOKENIZER.eos_id], **PATIENTS
    )
    assert written.shape[1] == model.max_tokens == 22


# ------------------------------------------------------------------ as a model of transformers


def test_saved_and_loaded_it_is_bitwise_the_same(tmp_path: Path) -> None:
    model = tiny(age_encoder="fourier", prompt_combination="sum")
    model.save_pretrained(tmp_path)
    again = PromptBart.from_pretrained(tmp_path).eval()
    assert (again.config.age_encoder, again.config.prompt_combination) == ("fourier", "sum")
    assert all(
        torch.equal(left, right)
        for left, right in zip(
            again.state_dict().values(), model.state_dict().values(), strict=True
        )
    )
    assert torch.equal(run(again).logits, run(model).logits)


def test_weights_of_plain_bart_load_and_the_prompts_keep_their_own_start(tmp_path: Path) -> None:
    twin = plain_twin(tiny())
    twin.save_pretrained(tmp_path)
    model = PromptBart.from_pretrained(tmp_path, config=tiny().config)
    assert torch.equal(model.model.shared.weight, twin.model.shared.weight)
    prompt = model.encoder_prompt
    assert prompt.numerical.weight.abs().max() <= (6 / (1 + 128)) ** 0.5
    assert prompt.numerical.weight.std().item() > 0.05
    assert prompt.categorical.table.weight.std().item() == pytest.approx(0.08, rel=0.2)
    assert (prompt.numerical.scales.tolist(), prompt.categorical.offsets.tolist()) == ([90], [0])


def test_gradient_checkpointing_changes_no_gradient() -> None:
    gradients = []
    for checkpointing in (False, True):
        model = tiny(dropout=0.0).train()
        if checkpointing:
            model.activation_checkpointing_enable()
        model(
            input_ids=IDS,
            attention_mask=MASK,
            decoder_input_ids=DECODER,
            labels=LABELS,
            **PATIENTS,
        ).loss.backward()
        gradients.append(model.encoder_prompt.numerical.weight.grad)
    torch.testing.assert_close(*gradients)


def test_attention_is_fast_until_it_is_asked_for() -> None:
    model = tiny()
    assert model.config._attn_implementation == "sdpa"
    output = run(model, output_attentions=True)
    assert model.config._attn_implementation == "sdpa"
    assert [weights.shape for weights in output.encoder_attentions] == [(2, 4, 8, 8)] * 2
    assert [weights.shape for weights in output.decoder_attentions] == [(2, 4, 8, 8)] * 2
    assert [weights.shape for weights in output.cross_attentions] == [(2, 4, 8, 8)] * 2
    for weights in (*output.encoder_attentions, *output.cross_attentions):
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 8))
        assert weights[1, :, :, -1].max() == 0  # padding of the second row
    torch.testing.assert_close(output.logits, run(model).logits, atol=1e-5, rtol=1e-5)


def test_a_learners_own_prompt_takes_the_place_of_the_models() -> None:
    class Mine(torch.nn.Module):
        def forward(self, x_num: Tensor, x_cat: Tensor) -> Tensor:
            return torch.ones(len(x_num), 3, 32)

    model = tiny()
    model.encoder_prompt = model.decoder_prompt = Mine()
    output = run(model, output_attentions=True)
    assert output.logits.shape == (2, 6, len(TOKENIZER))
    assert output.cross_attentions[0].shape == (2, 4, 3 + 6, 3 + 6)


def test_sides_and_combinations_come_from_the_configuration() -> None:
    assert tiny(prompt_encoder=False).encoder_prompt is None
    assert isinstance(tiny().decoder_prompt, ConditionalPrompt)
    summed = tiny(prompt_combination="sum")
    assert (summed.config.n_prompts, summed.max_tokens) == (1, 255)
    assert (tiny().config.n_prompts, tiny().max_tokens) == (2, 254)
    bare = tiny(prompt_encoder=False, prompt_decoder=False)
    assert bare.max_tokens == 256


# ------------------------------------------------------------------ bad input


def test_a_batch_without_demographics_is_refused() -> None:
    with pytest.raises(InputError, match="demographics, x_num: the batch does not have it"):
        run(tiny(), x_num=None, x_cat=None)


def test_half_of_the_demographics_are_refused_where_they_are_optional() -> None:
    with pytest.raises(InputError, match="demographics, x_cat: the batch does not have it"):
        run(tiny(demographics="optional"), x_cat=None)


def test_patients_and_records_of_other_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="1 patients and 2 records"):
        run(tiny(), x_num=torch.tensor([[64.0]]), x_cat=torch.tensor([[1]]))


def test_a_sequence_longer_than_the_positions_is_refused_by_name_of_the_limit() -> None:
    model = tiny(max_position_embeddings=8)
    run(model)  # two prompts and six tokens just fit
    longer = torch.cat([IDS, IDS[:, :1]], dim=1)
    with pytest.raises(InputError, match=r"9 positions: this model has 8, .* at most 6 tokens"):
        run(model, input_ids=longer, attention_mask=torch.ones_like(longer))
    with pytest.raises(InputError, match=r"too_long=\"cut\""):
        run(model, decoder_input_ids=longer)


def test_labels_without_a_decoder_input_are_refused() -> None:
    with pytest.raises(InputError, match="decoder_input_ids"):
        run(tiny(), decoder_input_ids=None, labels=LABELS)


@pytest.mark.parametrize(
    ("field", "value"),
    [("prompt_combination", "mean"), ("age_encoder", "spline"), ("demographics", "never")],
)
def test_a_setting_that_does_not_exist_is_refused(field: str, value: str) -> None:
    with pytest.raises(InputError, match=field):
        PromptBartConfig(**{field: value})


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InputError, match="'tiny', 'small', 'full'"):
        PromptBartConfig.for_tokenizer(TOKENIZER, "huge")
