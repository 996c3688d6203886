"""A plain BART, as facebook/bart-base is, becomes a PromptBart; and transformers' own classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_bart
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    BartModel,
    Trainer,
    TrainingArguments,
)

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.generation.calibration import calibrate
from ehr_course.generation.patients import generate_patients, sample_profiles
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_model, save_model
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

COHORT = make_cohort(60, seed=0)
CODES = CodeTokenizer.from_records(COHORT)
PARTS: dict[str, Any] = {
    "copy_head": True,
    "max_visit_embeddings": 8,
    "end_bias": True,
    "age_weight": 0.3,
    "sex_weight": 0.2,
}


@pytest.fixture(params=[BartForConditionalGeneration, BartModel])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small BART of facebook/bart-base's layout, saved by transformers itself."""
    small_bart.save_bart_tokenizer(tmp_path / "bart")
    pieces = len(CODES.extending_bart(tmp_path / "bart")) - len(CODES.codes) - 2
    torch.manual_seed(0)
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
    sizes |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_ffn_dim": 64 for side in ("encoder", "decoder")}
    config = BartConfig(vocab_size=pieces, max_position_embeddings=256, **sizes)
    request.param(config).save_pretrained(tmp_path / "bart")
    return tmp_path / "bart"


def dataset_of(model: PromptBart, tokenizer: CodeTokenizer) -> RecordDataset:
    return RecordDataset(
        COHORT,
        tokenizer,
        corruption=Corruption(p_empty=1.0),
        max_tokens=model.max_tokens,
        too_long="cut",
    )


def test_weights_of_a_bart_become_a_model_of_patients(folder: Path, tmp_path: Path) -> None:
    tokenizer = CODES.extending_bart(folder)
    bart = BartForConditionalGeneration.from_pretrained(folder)
    model = PromptBart.from_pretrained(folder, **PARTS)
    assert model.config.model_type == "prompt_bart"
    assert model.end_bias is not None
    assert not any(bias.any() for bias in model.end_bias.buffers())
    model.resize_for(tokenizer).eval()
    words = bart.config.vocab_size
    assert model.config.vocab_size == len(tokenizer) == words + 2 + len(tokenizer.codes)
    assert torch.equal(model.model.shared.weight[:words], bart.model.shared.weight)
    for name, weight in bart.model.encoder.layers.state_dict().items():
        assert torch.equal(model.model.encoder.layers.state_dict()[name], weight), name
    ids = (model.config.pad_token_id, model.config.bos_token_id, model.config.eos_token_id)
    assert ids == (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (1, 0, 2)

    batch = dataset_of(model, tokenizer).batch(range(8))
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5
    calibrate(model, dataset_of(model, tokenizer))
    save_model(model, tokenizer, tmp_path / "model")
    loaded, its_tokenizer = load_model(tmp_path / "model").of_patients()
    written = [
        generate_patients(one, its_tokenizer, sample_profiles(COHORT, 10))
        for one in (model, loaded)
    ]
    assert written[0] == written[1]
    assert {code for record in written[0] for code in record.codes} <= set(CODES.codes)
    x = {name: batch[name] for name in ("input_ids", "attention_mask", "x_num", "x_cat")}
    assert loaded.generate(**x, max_new_tokens=5).shape == (8, 6)


def test_a_tokenizer_that_does_not_extend_the_vocabulary_is_refused(folder: Path) -> None:
    model = PromptBart.from_pretrained(folder)
    with pytest.raises(InputError, match=r"does not extend .*pad_token_id is 0, not 1"):
        model.resize_for(CODES)


def test_the_auto_classes_read_what_it_saves(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PromptBart(PromptBartConfig.for_tokenizer(CODES, d_model=16, **PARTS)).eval()
    for bias in model.end_bias.buffers():
        bias.normal_()
    model.save_pretrained(tmp_path)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), PromptBartConfig)
    for auto in (AutoModel, AutoModelForSeq2SeqLM):
        loaded = auto.from_pretrained(tmp_path)
        assert type(loaded) is PromptBart
        for name, tensor in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor), name


@pytest.mark.parametrize("parts", [{}, PARTS], ids=["plain", "every part"])
def test_logits_stand_beside_the_loss(parts: dict[str, Any]) -> None:
    torch.manual_seed(0)
    fields = {"d_model": 16, "dropout": 0.0} | parts
    model = PromptBart(PromptBartConfig.for_tokenizer(CODES, **fields)).train()
    batch = dataset_of(model, CODES).batch(range(4))
    output = model(**batch)
    unlabelled = model(**{name: x for name, x in batch.items() if name != "labels"})
    assert torch.equal(output.logits, unlabelled.logits)
    loss = torch.nn.functional.cross_entropy(
        output.logits.flatten(0, 1), batch["labels"].flatten()
    )
    mean = output.loss_sum / output.loss_count
    torch.testing.assert_close(loss, mean)
    assert unlabelled.logits.requires_grad and not output.logits.requires_grad


def test_the_trainer_of_transformers_trains_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PromptBart(PromptBartConfig.for_tokenizer(CODES, d_model=16, age_weight=0.1))
    dataset = dataset_of(model, CODES)

    def accuracy(predictions: Any) -> dict[str, float]:
        scored = predictions.label_ids != -100
        right = predictions.predictions.argmax(-1) == predictions.label_ids
        return {"accuracy": float(np.mean(right[scored]))}

    trainer = Trainer(
        model,
        TrainingArguments(
            str(tmp_path / "run"),
            max_steps=30,
            per_device_train_batch_size=12,
            gradient_accumulation_steps=2,
            per_device_eval_batch_size=60,
            learning_rate=3e-3,
            report_to=[],
            save_strategy="steps",
            save_steps=30,
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=list(range(len(COHORT))),
        eval_dataset=list(range(len(COHORT))),
        data_collator=dataset.batch,
        compute_metrics=accuracy,
    )
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < before["eval_loss"] - 0.3
    assert after["eval_accuracy"] > before["eval_accuracy"]
    saved = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run" / "checkpoint-30")
    assert torch.equal(saved.model.shared.weight, model.model.shared.weight)
