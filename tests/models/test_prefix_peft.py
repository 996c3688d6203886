"""Prefixes beside those of the peft package, on the same weights, and adapters for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel, PrefixTuningConfig, get_peft_model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned

IDS = torch.tensor([[1, 3, 20, 21, 4, 2], [1, 3, 30, 4, 2, 0]])
MASK = (IDS != 0).long()
DECODER = torch.tensor([[2, 1, 3, 20, 21, 4], [2, 1, 3, 30, 4, 2]])
LABELS = IDS.masked_fill(IDS == 0, -100)
BATCH = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": DECODER}
LIKE_PEFT = {"shift_positions": True}
PROJECTIONS = [pytest.param(None, id="direct"), pytest.param(6, id="projected")]
FIELDS: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 32,
    "max_position_embeddings": 40,
    "init_std": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}


def bart(layers: int = 2, **changes: Any) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    depth = {"encoder_layers": layers, "decoder_layers": layers}
    return BartForConditionalGeneration(BartConfig(**(FIELDS | depth | changes))).eval()


def peft_model(layers: int = 2, d_hidden: int | None = None, **changes: Any) -> PeftModel:
    """A BART with a random prefix of peft."""
    projection = {"prefix_projection": True, "encoder_hidden_size": d_hidden} if d_hidden else {}
    config = PrefixTuningConfig(
        task_type="SEQ_2_SEQ_LM", num_virtual_tokens=3, **projection, **changes
    )
    base = bart(layers)
    torch.manual_seed(1)
    return get_peft_model(base, config).eval()


def assert_same_outputs(ours: nn.Module, theirs: nn.Module) -> None:
    with torch.no_grad():
        torch.testing.assert_close(
            ours(**BATCH).logits, theirs(**BATCH).logits, atol=1e-5, rtol=1e-5
        )
    batch = {"input_ids": IDS, "attention_mask": MASK, "max_new_tokens": 12}
    for how in ({}, {"num_beams": 3}):
        written = ours.generate(**batch, **how)
        assert torch.equal(written, theirs.generate(**batch, **how)), how
        assert written.shape[1] > 2


def backward(model: nn.Module) -> None:
    logits = model(**BATCH).logits
    cross_entropy(logits.flatten(0, 1), LABELS.flatten()).backward()


# ------------------------------------------------------------------ there


@pytest.mark.parametrize("d_hidden", PROJECTIONS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_what_is_saved_here_does_the_same_in_peft(
    tmp_path: Path, layers: int, d_hidden: int | None
) -> None:
    ours = PrefixTuned(bart(layers), PrefixConfig(3, d_hidden, **LIKE_PEFT))
    ours.save_as_peft(tmp_path / "adapter")
    theirs = PeftModel.from_pretrained(bart(layers), tmp_path / "adapter")
    assert_same_outputs(ours, theirs)
    assert {path.name for path in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }


@pytest.mark.parametrize("layers", [2, 3])
def test_the_gradient_of_a_prefix_is_that_of_peft(tmp_path: Path, layers: int) -> None:
    ours = PrefixTuned(bart(layers), PrefixConfig(3, **LIKE_PEFT))
    ours.save_as_peft(tmp_path / "adapter")
    theirs = PeftModel.from_pretrained(bart(layers), tmp_path / "adapter")
    rows = theirs.prompt_encoder["default"].embedding.weight.requires_grad_(True)
    backward(ours), backward(theirs)
    by_vector = rows.grad.view(3, -1, 32)
    own = ours.prefixes["decoder"].embedding.grad.view(3, layers, 2, 32)
    assert own.abs().amax((0, 2, 3)).min() > 1e-4
    torch.testing.assert_close(own, by_vector[:, peft_vectors(layers, 2 * layers)])


@pytest.mark.parametrize("layers", [2, 3])
def test_the_gradient_of_a_projection_is_that_of_peft(layers: int) -> None:
    ours = PrefixTuned(bart(layers), PrefixConfig(3, 6, **LIKE_PEFT))
    theirs = peft_model(layers, 6, num_layers=2 * layers)
    own, other = ours.prefixes["decoder"], theirs.prompt_encoder["default"]
    used = peft_vectors(layers, 2 * layers)
    with torch.no_grad():
        own.embedding.copy_(other.embedding.weight)
        for part in ("weight", "bias"):
            getattr(own.transform[0], part).copy_(getattr(other.transform[0], part))
            theirs_last = getattr(other.transform[2], part)
            getattr(own.transform[2], part).copy_(dealt(theirs_last, used))
    backward(ours), backward(theirs)
    torch.testing.assert_close(own.embedding.grad, other.embedding.weight.grad)
    for part in ("weight", "bias"):
        first, last = (
            (getattr(own.transform[n], part).grad, getattr(other.transform[n], part).grad)
            for n in (0, 2)
        )
        torch.testing.assert_close(*first)
        torch.testing.assert_close(last[0], dealt(last[1], used))


def peft_vectors(n_layers: int, peft_layers: int) -> Tensor:
    """Which of peft's 2 * num_layers vectors are a layer's key and value, (n_layers, 2)."""
    first = 4 * torch.arange(n_layers) % (2 * peft_layers)
    return torch.stack([first, first + 1], dim=1)


def dealt(rows: Tensor, used: Tensor) -> Tensor:
    """The rows of a last layer that make the vectors in use, in the order of layers."""
    return rows.view(-1, 32, *rows.shape[1:])[used.flatten()].flatten(0, 1)


def test_with_an_even_number_of_layers_peft_trains_half_of_its_prefix() -> None:
    for layers, trained in ((2, [0, 1]), (4, [0, 1, 4, 5]), (3, [0, 1, 2, 3, 4, 5])):
        theirs = peft_model(layers)
        backward(theirs)
        gradient = theirs.prompt_encoder["default"].embedding.weight.grad.view(3, -1, 32)
        used = gradient.abs().amax((0, 2)).nonzero().flatten().tolist()
        assert used == trained == sorted(set(peft_vectors(layers, layers).flatten().tolist()))


# ------------------------------------------------------------------ bad input


def test_what_peft_does_not_have_is_not_saved_for_it(tmp_path: Path) -> None:
    for settings in ({"cross": True}, {"decoder": False, "encoder": True}):
        model = PrefixTuned(bart(), PrefixConfig(3, **settings, **LIKE_PEFT))
        with pytest.raises(InputError, match="for the decoder only"):
            model.save_as_peft(tmp_path / "adapter")
    with pytest.raises(InputError, match="shift_positions"):
        PrefixTuned(bart(), PrefixConfig(3)).save_as_peft(tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_a_folder_with_more_than_an_adapter_is_not_replaced(tmp_path: Path) -> None:
    peft_model().save_pretrained(tmp_path)
    (tmp_path / "training_args.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="training_args"):
        PrefixTuned(bart(), PrefixConfig(3, **LIKE_PEFT)).save_as_peft(tmp_path)
