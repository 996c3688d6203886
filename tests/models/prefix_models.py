"""Small models with prefixes, and a batch for them: for the tests of prefix tuning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 60)])
IDS = torch.tensor([[1, 3, 20, 21, 4, 2], [1, 3, 30, 4, 2, 0]])
MASK = (IDS != 0).long()
DECODER = torch.tensor([[2, 1, 3, 20, 21, 4], [2, 1, 3, 30, 4, 2]])
LABELS = IDS.masked_fill(IDS == 0, -100)
PATIENTS = {"x_num": torch.tensor([[64.0], [3.0]]), "x_cat": torch.tensor([[1], [0]])}
BATCH = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": DECODER, **PATIENTS}
EVERYWHERE = {"cross": True, "encoder": True}
SIDES = [
    pytest.param({}, id="decoder"),
    pytest.param({"decoder": False, "cross": True}, id="cross"),
    pytest.param({"decoder": False, "encoder": True}, id="encoder"),
    pytest.param(EVERYWHERE, id="everywhere"),
    pytest.param({"shift_positions": True, "d_hidden": 8}, id="shifted"),
]


def conditioned(**changes: Any) -> PromptBart:
    torch.manual_seed(0)
    fields = {
        "d_model": 32,
        "encoder_layers": 3,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 4,
        "init_std": 0.2,
    }
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **(fields | changes))).eval()


def plain(**changes: Any) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    fields: dict[str, Any] = {
        "vocab_size": len(TOKENIZER),
        "d_model": 32,
        "max_position_embeddings": 40,
        "init_std": 0.2,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }
    for side in ("encoder", "decoder"):
        fields |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
    return BartForConditionalGeneration(BartConfig(**(fields | changes))).eval()


def tuned(base: nn.Module | None = None, n_tokens: int = 3, **settings: Any) -> PrefixTuned:
    return PrefixTuned(base or conditioned(), PrefixConfig(n_tokens, **settings))


def logits(model: nn.Module, **changes: Any) -> Tensor:
    with torch.no_grad():
        given = {name: value for name, value in (BATCH | changes).items() if value is not None}
        return model(**given).logits


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name
