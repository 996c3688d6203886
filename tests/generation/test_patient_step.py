"""The step in plain operations says what the model's forward says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ehr_course.generation.patient_decoder import Condition, Decoder
from ehr_course.generation.patient_step import ROOM, WRITTEN_OUT, can_be_written_out
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 60)])
CONDITIONS = [
    Condition((), 64, "F"),
    Condition(((9, 10), (11,)), 3, "M"),
    Condition((), 64, "F"),
    Condition(((7,),), 80, "F"),
    Condition((), 20, "M"),
]
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"prompt_encoder": False, "prompt_decoder": False},
    {"prompt_combination": "sum", "decoder_layers": 3, "decoder_attention_heads": 2},
    {"age_encoder": "fourier", "demographics": "optional", "encoder_layers": 3},
    {"scale_embedding": True, "activation_function": "relu", "copy_head": True},
    {"copy_head": True, "max_visit_embeddings": 4, "end_bias": True, "age_weight": 0.3},
    {"max_visit_embeddings": 4},
    {"end_bias": True, "attn_implementation": "eager"},
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


@pytest.mark.parametrize("changes", CONFIGURATIONS, ids=lambda changes: " ".join(changes) or "-")
@torch.no_grad()
def test_each_step_says_what_the_forward_says(changes: dict[str, Any]) -> None:
    length = WRITTEN_OUT + 10  # past the cache's first room and past both kinds of attention
    assert length > ROOM
    model, tokens = small(**changes), written(length)
    assert can_be_written_out(model)
    both = [Decoder(model, TOKENIZER, CONDITIONS, written_out=out) for out in (True, False)]
    rows = torch.arange(5)
    for place in range(length):
        torch.testing.assert_close(both[0].logits, both[1].logits, rtol=0, atol=1e-10)
        if place in (4, 40):  # some leave, and the last of the others take their places
            kept = torch.tensor([0, len(rows) - 1, 2][: len(rows) - 1])
            rows = rows[kept]
            for decoder in both:
                decoder.keep(kept)
        for decoder in both:
            decoder.read(tokens[rows, place])


def test_what_is_put_into_the_model_from_outside_is_seen_by_its_forward_alone() -> None:
    class Other(PromptBart):
        pass

    def exchanged(model: PromptBart) -> None:
        model.model.decoder.layers[1].fc1 = nn.Sequential(model.model.decoder.layers[1].fc1)

    def hooked(model: PromptBart) -> None:
        model.model.decoder.register_forward_hook(lambda *_: None)

    def replaced(model: PromptBart) -> None:
        model.lm_head.forward = lambda hidden: hidden

    def untied(model: PromptBart) -> None:
        model.model.decoder.embed_tokens = nn.Embedding(len(TOKENIZER), 24)

    for change in (exchanged, hooked, replaced, untied):
        model = small()
        change(model)
        assert not can_be_written_out(model), change.__name__
    assert not can_be_written_out(Other(small().config))
    assert not can_be_written_out(PrefixTuned(small(), PrefixConfig(n_tokens=3)))
    with torch.autocast("cpu"):
        assert not can_be_written_out(small())
    model = small()
    model.encoder_prompt = nn.Identity()  # prompts are read by the model itself
    assert can_be_written_out(model)
