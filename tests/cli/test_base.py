"""`ehr-course train --base`: a model of patients from the weights of a plain BART."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import small_bart
import torch
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.models.saved import load_model

SHORT = ("--steps", 3, "--batch-size", 8, "--quiet")


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BART of facebook/bart-base's layout, saved by transformers itself."""
    folder = tmp_path_factory.mktemp("bart") / "bart"
    small_bart.save_bart_tokenizer(folder)
    words = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
    torch.manual_seed(0)
    config = BartConfig(vocab_size=words, max_position_embeddings=256, **sizes)
    BartForConditionalGeneration(config).save_pretrained(folder)
    return folder


def test_a_model_starts_from_its_weights_and_writes_patients(ehr_course, prepared, bart, tmp_path):
    run = tmp_path / "run"
    command = ("train", prepared, "--base", bart, "--out", run, *SHORT)
    slow = ehr_course(*command, "--lr", 1e-9, "--average", 0)
    assert slow.exit_code == 0, slow.output
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert record["settings"]["base"] == str(bart)
    assert record["settings"]["weight_decay"] == 0.01
    model = load_model(run / "model").model
    source = BartForConditionalGeneration.from_pretrained(bart)
    words = source.config.vocab_size
    torch.testing.assert_close(model.model.shared.weight[:words], source.model.shared.weight)
    assert model.copy_head is not None
    done = ehr_course("generate", run, "--patients", 5, "--out", tmp_path / "synthetic")
    assert done.exit_code == 0, done.output
    again = ehr_course("repeat", run, "--out", tmp_path / "again", "--quiet")
    assert again.exit_code == 0, again.output
    for name in ("model/model.safetensors", "run.json"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()


def test_other_weights_are_another_training(ehr_course, prepared, bart, tmp_path):
    other, run = tmp_path / "other", tmp_path / "run"
    shutil.copytree(bart, other)
    command = ("train", prepared, "--base", other, "--out", run, *SHORT)
    assert ehr_course(*command).exit_code == 0
    weights = other / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\x80?")  # a 1
    done = ehr_course(*command)
    assert done.exit_code == 1 and f"{run}, base: it was " in done.stderr


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("vocab.json", "it holds no tokenizer. Name a Hugging Face folder"),
        ("config.json", "no BART can be read from it ("),
        ("model.safetensors", "no BART can be read from it ("),
    ],
)
def test_a_folder_without_a_bart_is_refused(ehr_course, prepared, bart, tmp_path, missing, said):
    shutil.copytree(bart, tmp_path / "bart")
    (tmp_path / "bart" / missing).unlink()
    done = ehr_course("train", prepared, "--base", tmp_path / "bart", "--out", tmp_path / "run")
    assert done.exit_code == 1 and f"{tmp_path / 'bart'}: {said}" in done.stderr
    assert not (tmp_path / "run").exists()


def test_notes_and_models_that_are_there_have_no_base(
    ehr_course, prepared, prepared_notes, run, bart, tmp_path
):
    for folder, options in ((prepared_notes, ()), (prepared, ("--adapt", run))):
        done = ehr_course("train", folder, "--base", bart, *options, "--out", tmp_path / "run")
        assert done.exit_code == 1 and "Leave --base out." in done.stderr
        assert not (tmp_path / "run").exists()
