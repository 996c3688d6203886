"""The decoder's step in plain tensor operations, against PromptBart's own forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from ehr_course.models.prefix_injection import prefixes_in
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.prompt_bart_step import WRITTEN_OUT, PromptBartStep, attend, fits
from ehr_course.models.static_cache import ROOM, StaticCache
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 40)])
# Known visits of three lengths, padded; three patients.
IDS = torch.tensor([[1, 6, 2, 0, 0, 0], [1, 3, 9, 6, 4, 2], [1, 3, 6, 4, 2, 0]])
BATCH = {
    "input_ids": IDS,
    "attention_mask": (IDS != 0).long(),
    "x_num": torch.tensor([[64.0], [3.0], [40.0]]),
    "x_cat": torch.tensor([[1], [0], [0]]),
}
OPENING = torch.tensor([[2, 1, 3]]).expand(3, -1)
ROWS = torch.tensor([0, 1, 2, 2, 0])  # five rows go on from three sequences
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"prompt_encoder": False},
    {"prompt_decoder": False},
    {"prompt_encoder": False, "prompt_decoder": False},
    {"prompt_combination": "sum"},
    {"age_encoder": "fourier", "demographics": "optional"},
    {"num_scales": []},
    {"decoder_layers": 1, "encoder_layers": 3},
    {"decoder_layers": 3, "decoder_attention_heads": 2},
    {"scale_embedding": True, "activation_function": "relu"},
    {"age_weight": 0.3, "sex_weight": 0.2},
    {"attn_implementation": "eager"},
    {"copy_head": True},
    {"max_visit_embeddings": 4},
    {"copy_head": True, "max_visit_embeddings": 32},
    {"copy_head": True, "scale_embedding": True, "prompt_decoder": False},
    {"end_bias": True},
    {"copy_head": True, "max_visit_embeddings": 4, "end_bias": True},
]


def small(**changes: Any) -> PromptBart:
    torch.manual_seed(0)
    fields = {"d_model": 24, "max_position_embeddings": 120, "init_std": 0.3} | changes
    made = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **fields)).eval()
    for name, parameter in made.named_parameters():
        if name.endswith(("bias", "norm.weight")):  # those that start as zeros and ones
            nn.init.normal_(parameter, 1.0 if name.endswith("weight") else 0.0, 0.3)
    for bias in (made.final_logits_bias, *(made.end_bias.buffers() if made.end_bias else ())):
        nn.init.normal_(bias)
    return made.double()


def written(length: int) -> Tensor:
    """Five rows of tokens, with visits that begin and end at places of their own."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(7, len(TOKENIZER), (5, length), generator=generator)
    for row in range(5):
        tokens[row, 3 + row :: 5 + row], tokens[row, 4 + row :: 5 + row] = 4, 3
    return tokens


def started(model: PromptBart) -> PromptBartStep:
    step = PromptBartStep(model)
    start(step, model)
    return step


@torch.no_grad()
def start(step: PromptBartStep, model: PromptBart) -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    encoded, mask = model.encode(**BATCH)
    model(
        encoder_outputs=encoded,
        attention_mask=mask,
        decoder_input_ids=OPENING,
        past_key_values=cache,
        use_cache=True,
        x_num=BATCH["x_num"],
        x_cat=BATCH["x_cat"],
    )
    step.start(cache, mask, OPENING, ROWS)


@torch.no_grad()
def whole(model: PromptBart, tokens: Tensor) -> Tensor:
    """The logits at each of the tokens, from one forward without a cache."""
    batch = {name: tensor[ROWS] for name, tensor in BATCH.items()}
    ids = torch.cat([OPENING[ROWS], tokens], dim=1)
    return model(**batch, decoder_input_ids=ids).logits[:, OPENING.shape[1] :]


@pytest.mark.parametrize(
    "changes", CONFIGURATIONS, ids=lambda changes: " ".join(changes) or "as is"
)
@torch.no_grad()
def test_each_step_says_what_the_forward_says(changes: dict[str, Any]) -> None:
    length = WRITTEN_OUT + 10  # past the cache's first room and past both kinds of attention
    assert length > ROOM
    model, tokens = small(**changes), written(length)
    assert fits(model)
    step = started(model)
    said = torch.stack([step(tokens[:, place]) for place in range(length)], dim=1)
    torch.testing.assert_close(said, whole(model, tokens), rtol=1e-12, atol=1e-12)


MEMORIES = [
    {},
    {"end_bias": True},
    {"copy_head": True},
    {"copy_head": True, "max_visit_embeddings": 4},
]


@pytest.mark.parametrize("memory", MEMORIES)
@torch.no_grad()
def test_rows_that_leave_and_change_places_take_their_past_along(memory: dict) -> None:
    model, tokens = small(**memory), written(16)
    expected, step, rows = whole(model, tokens), started(model), torch.arange(5)
    leave = {2: [0, 4, 2, 3], 5: [0, 1, 2, 3], 7: [3, 1, 2], 11: [2, 0], 14: [1]}
    for place in range(16):
        if place in leave:
            kept = torch.tensor(leave[place])
            step.keep(kept)
            rows = rows[kept]
        said = step(tokens[rows, place])
        torch.testing.assert_close(said, expected[rows, place], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", MEMORIES)
@torch.no_grad()
def test_a_second_batch_sees_nothing_of_the_first(memory: dict) -> None:
    model, tokens = small(**memory), written(40)
    step, expected = started(model), whole(model, tokens)
    for place in range(40):
        step(tokens[:, place].flip(0))
    step.keep(torch.tensor([4, 1]))
    start(step, model)
    for place in range(40):
        said = step(tokens[:, place])
        torch.testing.assert_close(said, expected[:, place], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("copy_head", [False, True])
@torch.no_grad()
def test_in_single_precision_it_differs_by_rounding_alone(copy_head: bool) -> None:
    model, tokens = small(copy_head=copy_head).float(), written(20)
    step = started(model)
    said = torch.stack([step(tokens[:, place]) for place in range(20)], dim=1)
    assert said.dtype == torch.float32
    torch.testing.assert_close(said, whole(model, tokens), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positions", [1, WRITTEN_OUT, WRITTEN_OUT + 1])
def test_both_kinds_of_attention_are_the_definition(positions: int) -> None:
    torch.manual_seed(0)
    query = torch.randn(3, 8).double()
    keys, values = torch.randn(2, positions, 3, 8).double()
    padding = torch.rand(positions, 3, 1) < 0.3
    padding[0] = False
    said = attend(query, keys, values, 2, padding)
    for row in range(3):
        for head in (slice(0, 4), slice(4, 8)):
            seen = ~padding[:, row, 0]
            weights = (keys[seen, row, head] @ query[row, head] / 2).softmax(0)
            torch.testing.assert_close(said[row, head], weights @ values[seen, row, head])


# ------------------------------------------------------------------ where it does not fit


class OtherLinear(nn.Linear):
    """A linear map of another class, as adapters put in place of one."""


def exchanged(model: PromptBart) -> None:
    model.model.decoder.layers[0].fc1 = OtherLinear(24, 192).double()


def hooked(model: PromptBart) -> None:
    model.model.decoder.layers[1].self_attn.register_forward_hook(lambda *_: None)


def hooked_before(model: PromptBart) -> None:
    model.model.encoder.register_forward_pre_hook(lambda *_: None)


def patched(model: PromptBart) -> None:
    model.model.decoder.layers[0].forward = model.model.decoder.layers[0].forward


def other_copy_head(model: PromptBart) -> None:
    model.copy_head = nn.Identity()


@pytest.mark.parametrize(
    "change",
    [exchanged, hooked, hooked_before, patched, other_copy_head],
    ids=lambda f: f.__name__,
)
def test_it_does_not_fit_a_model_with_a_part_that_it_would_not_see(change: Any) -> None:
    model = small()
    assert fits(model)
    change(model)
    assert not fits(model)


def test_it_does_not_fit_a_subclass_a_prefix_or_autocast() -> None:
    class Other(PromptBart):
        pass

    model = small()
    assert not fits(Other(model.config))
    assert not fits(small(tie_word_embeddings=False))  # prompts come with other embeddings
    tuned = PrefixTuned(model, PrefixConfig(n_tokens=2))
    assert not fits(tuned)
    with prefixes_in(model, dict(tuned.prefixes.items())):
        assert not fits(model)
    assert fits(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not fits(model)


# ------------------------------------------------------------------ the cache


def test_a_cache_grows_and_keeps_what_it_holds() -> None:
    cache, columns = StaticCache(), torch.randn(3 * ROOM, 4, 2)
    cache.fill(columns[:1].transpose(0, 1), torch.arange(4))
    for column in columns[1:]:
        seen = cache.append(column)
    assert torch.equal(seen, columns)


def test_a_cache_of_more_rows_than_before_has_room() -> None:
    cache = StaticCache()
    for rows in (2, 5, 3):
        read = torch.randn(rows, ROOM + 1, 2)
        cache.fill(read, torch.arange(rows))
        assert torch.equal(cache.seen(), read.transpose(0, 1))
