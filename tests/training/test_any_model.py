"""The trainer with models that are not of the course: whatever their forward returns as a loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import small
import torch
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

RETURNS = {
    "an output": lambda loss: SimpleNamespace(loss=loss),
    "a dictionary": lambda loss: {"loss": loss},
    "a tuple": lambda loss: (loss, "logits"),
    "the loss": lambda loss: loss,
}


class NextToken(nn.Module):
    """Guesses each token from the one before it; it knows nothing of age, sex or the encoder."""

    def __init__(self, returns: str = "a dictionary") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(len(small.TOKENIZER), len(small.TOKENIZER))
        self.returns = RETURNS[returns]

    def forward(self, decoder_input_ids: Tensor, labels: Tensor) -> Any:
        logits = self.table(decoder_input_ids)  # (batch, target, vocabulary)
        return self.returns(nn.functional.cross_entropy(logits.transpose(1, 2), labels))


def trained(model: nn.Module, **changes: Any) -> Trainer:
    config = TrainingConfig(**(small.SETTINGS | {"steps": 6} | changes))
    made = Trainer(model, small.dataset(), config, validation=small.dataset(), device="cpu")
    made.run()
    return made


def by_hand(model: nn.Module) -> nn.Module:
    """The first step of the same training."""
    dataset = small.dataset()
    batch = dataset[next(iter(LengthBatchSampler(dataset.lengths, 16, seed=0)))]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model(batch["decoder_input_ids"], batch["labels"])["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return model


@pytest.mark.parametrize("returns", RETURNS)
def test_a_plain_module_is_trained_whatever_it_returns_its_loss_in(returns: str) -> None:
    made = trained(NextToken(returns), steps=1, warmup_steps=0)
    torch.testing.assert_close(made.model.table.weight, by_hand(NextToken()).table.weight)
    (row,) = made.history.rows
    assert row["loss"] == pytest.approx(made.evaluate()["loss"], rel=0.2)
    assert not row.keys() & {"language_model", "terms"}


def test_a_batch_in_parts_gives_the_gradient_of_the_whole_batch() -> None:
    whole, parts = (trained(NextToken(), gradient_accumulation_steps=n) for n in (1, 8))
    torch.testing.assert_close(whole.model.table.weight, parts.model.table.weight)
    assert parts.history.losses == pytest.approx(whole.history.losses)
    assert parts.history.rows[-1]["validation_loss"] == pytest.approx(
        whole.history.rows[-1]["validation_loss"]
    )


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_bart_itself_is_trained(precision: str) -> None:
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=len(small.TOKENIZER),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    made = trained(BartForConditionalGeneration(config), steps=40, lr=1e-2, precision=precision)
    assert made.history.loss(5) < 0.8 * made.history.losses[0]


def test_a_model_without_a_loss_is_refused() -> None:
    class Silent(NextToken):
        def forward(self, decoder_input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"logits": self.table(decoder_input_ids)}

    with pytest.raises(InputError, match="training, dict: what the model returned has no loss"):
        trained(Silent())
