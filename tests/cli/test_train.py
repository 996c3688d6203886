"""`ehr-course train`: a model, resumed where it stopped, and what bad input says."""

from __future__ import annotations

import csv
import json
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.cli.prepare import open_prepared
from ehr_course.generation.calibration import calibrate
from ehr_course.models.pointer_generator import PointerGenerator
from ehr_course.models.prompt_bart import HISTORY, PromptBart, PromptBartConfig
from ehr_course.models.saved import load_model
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training import trainer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

TINY = ("--steps", 12, "--batch-size", 16, "--profile", "narrow", "--checkpoint-every", 4)


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name]), name


def test_the_model_is_what_the_trainer_makes(prepared, run):
    split, tokenizer = open_prepared(prepared).split(), open_prepared(prepared).tokenizer()
    torch.manual_seed(0)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "narrow", **HISTORY))
    dataset = RecordDataset(split.train, tokenizer, corruption=Corruption(p_empty=0.5))
    config = TrainingConfig(
        steps=12,
        batch_size=16,
        lr=4e-3,
        warmup_steps=1,
        weight_decay=0.3,
        group_by_length=True,
        equal_tokens=True,
        max_grad_norm=5.0,
        ema_decay=1 - 1 / (0.2 * 12),
    )
    Trainer(model, dataset, config).run()
    calibrate(model, dataset, seed=0)
    made = load_model(run / "model").model.state_dict()
    for name, weight in model.cpu().state_dict().items():
        torch.testing.assert_close(weight, made[name])


def test_a_plain_model_is_that_of_the_lessons(ehr_course, prepared, tmp_path):
    done = ehr_course("train", prepared, "--out", tmp_path / "plain", *TINY, "--plain")
    assert done.exit_code == 0
    config = load_model(tmp_path / "plain" / "model").model.config
    assert not config.copy_head and not config.max_visit_embeddings
    assert config.age_encoder == "affine"


def test_a_plain_model_is_refused_where_there_is_no_choice(
    ehr_course, prepared, run, prepared_notes, tmp_path
):
    for folder, options in ((prepared, ("--adapt", run)), (prepared_notes, ())):
        done = ehr_course("train", folder, "--out", tmp_path / "run", "--plain", *options)
        assert done.exit_code == 1
        assert "Leave --plain out" in done.stderr
        assert not (tmp_path / "run").exists()


def test_the_validation_loss_is_that_of_the_model_on_the_validation_part(prepared, run):
    loaded = load_model(run / "model")
    dataset = RecordDataset(
        open_prepared(prepared).split().validation,
        CodeTokenizer(loaded.tokenizer.codes, unseen="skip"),
        corruption=Corruption(p_empty=0.5),
    )
    with torch.no_grad():
        batch = dataset.batch(range(len(dataset)))
        loss = loaded.model(**batch).loss.item()
    # The corruption of one batch of twenty is not that of two batches: near, not equal.
    assert about(run)["result"]["validation_loss"] == pytest.approx(loss, rel=0.1)


def test_ages_and_sexes_of_the_training_part_are_counted(prepared, run):
    train = open_prepared(prepared).split().train
    with (run / "demographics.csv").open(encoding="utf-8", newline="") as file:
        rows = {(int(row["age"]), row["sex"]): int(row["count"]) for row in csv.DictReader(file)}
    assert rows == Counter((record.age, record.sex) for record in train)


def test_notes_give_a_summariser(notes_run):
    model = load_model(notes_run / "model").model
    assert isinstance(model, PointerGenerator)
    assert model.config.coverage
    assert about(notes_run)["settings"]["lr"] == 0.004
    assert not (notes_run / "demographics.csv").exists()


def test_evaluations_keep_the_best_model(ehr_course, prepared, tmp_path):
    out = tmp_path / "run"
    done = ehr_course(
        *("train", prepared, "--out", out, "--steps", 9, "--batch-size", 8),
        *("--profile", "narrow", "--evaluate-every", 3, "--lr", 0.05),
    )
    assert done.exit_code == 0
    with (out / "checkpoints" / "history.csv").open(encoding="utf-8", newline="") as file:
        losses = [
            float(r["validation_loss"]) for r in csv.DictReader(file) if r["validation_loss"]
        ]
    assert len(losses) == 3
    assert about(out)["result"]["validation_loss"] == min(losses)
    best = load_file(out / "checkpoints" / "best.safetensors")
    calibrated = {"final_logits_bias", "end_bias.visit", "end_bias.record"}
    for name, weight in weights(out).items():
        assert torch.equal(best[name], weight) == (name not in calibrated), name


# ------------------------------------------------------------------ going on


def test_the_same_command_again_changes_nothing(ehr_course, prepared, run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = ehr_course("train", prepared, "--out", run, *TINY)
    assert done.exit_code == 0
    assert "Going on after step 12 of 12." in done.stdout
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_ctrl_c_saves_and_the_same_command_goes_on(
    ehr_course, prepared, run, tmp_path, monkeypatch
):
    out, shown = tmp_path / "run", trainer.show_step

    def show(bar: object, row: dict) -> None:
        shown(bar, row)
        if row["step"] == 6:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trainer, "show_step", show)
    stopped = ehr_course("train", prepared, "--out", out, *TINY)
    assert stopped.exit_code == 130
    assert stopped.stdout.endswith("Stopped after step 6.\n")
    assert stopped.stderr.endswith(
        "Interrupted. Run the same command again: it goes on from the last checkpoint.\n"
    )
    assert not (out / "model").exists()
    assert about(out)["result"] == {}
    monkeypatch.undo()
    done = ehr_course("train", prepared, "--out", out, *TINY)
    assert done.exit_code == 0
    assert "Going on after step 6 of 12." in done.stdout
    assert_same_weights(out, run)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("--steps", 13), "steps: it was 12 in the training that wrote this, and is 13 now"),
        (("--lr", 0.1), "lr: it was 0.004 in the training that wrote this, and is 0.1 now"),
        (("--profile", "tiny"), "profile: it was 'narrow' in the training that wrote this"),
    ],
)
def test_a_folder_of_another_training_is_refused(ehr_course, prepared, run, changes, said):
    result = ehr_course("train", prepared, "--out", run, *TINY, *changes)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "train into another folder" in result.stderr


def test_a_folder_of_a_training_on_other_patients_is_refused(ehr_course, run, tmp_path):
    other = tmp_path / "prepared"
    assert ehr_course("prepare", "--patients", 200, "--seed", 1, "--out", other).exit_code == 0
    result = ehr_course("train", other, "--out", run, *TINY)
    assert result.exit_code == 1
    assert "train: it was" in result.stderr


def test_a_prepared_folder_may_move(ehr_course, prepared, run, tmp_path):
    (tmp_path / "moved").symlink_to(prepared, target_is_directory=True)
    assert ehr_course("train", tmp_path / "moved", "--out", run, *TINY).exit_code == 0


def test_more_checkpoints_are_the_same_training(ehr_course, prepared, run):
    often = ("--checkpoint-every", 1)
    assert ehr_course("train", prepared, "--out", run, *TINY, *often).exit_code == 0


# ------------------------------------------------------------------ bad input


def refused(ehr_course, *arguments: object) -> str:
    result = ehr_course("train", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    return result.stderr


def test_a_folder_of_anything_else_is_refused(ehr_course, prepared, tmp_path):
    (tmp_path / "file").touch()
    said = refused(ehr_course, prepared, "--out", tmp_path)
    assert said == (
        f"{tmp_path}: the folder is not empty, and no training is in it (found: file). "
        "Name a new folder, or one whose training is to go on.\n"
    )
    said = refused(ehr_course, prepared, "--out", prepared)
    assert f"{prepared}, run.json: this is what 'ehr-course prepare' wrote" in said


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.touch(), "this is a file"),
        (lambda path: path.mkdir(), "no prepared data are in it (found: nothing)"),
    ],
    ids=["missing", "file", "empty"],
)
def test_what_is_not_prepared_is_refused(ehr_course, tmp_path, make, said):
    make(tmp_path / "data")
    stderr = refused(ehr_course, tmp_path / "data", "--out", tmp_path / "out")
    assert said in stderr
    assert "Make it with: ehr-course prepare --out FOLDER" in stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "parts", [None, 3, {"train": 160}, {"train": 0, "validation": 20, "test": 20}]
)
def test_prepared_data_whose_sizes_are_damaged_are_refused(ehr_course, prepared, tmp_path, parts):
    shutil.copytree(prepared, tmp_path / "data")
    document = about(prepared)
    document["result"]["parts"] = parts
    (tmp_path / "data" / "run.json").write_text(json.dumps(document), encoding="utf-8")
    said = refused(ehr_course, tmp_path / "data", "--out", tmp_path / "out")
    assert f"run.json, result, parts: {parts!r} are not sizes. Prepare the data again." in said


def test_prepared_data_whose_list_of_parts_is_cut_are_refused(ehr_course, prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "data")
    splits = tmp_path / "data" / "records" / "metadata" / "subject_splits.parquet"
    splits.write_bytes(splits.read_bytes()[:50])
    said = refused(ehr_course, tmp_path / "data", "--out", tmp_path / "out")
    assert "subject_splits.parquet: it is cut or not a parquet file that can be read" in said


def test_a_run_is_not_prepared(ehr_course, run, tmp_path):
    said = refused(ehr_course, run, "--out", tmp_path / "out")
    assert "this is what 'ehr-course train' wrote, not 'prepare'" in said


def test_coverage_is_for_notes(ehr_course, prepared, tmp_path):
    said = refused(ehr_course, prepared, "--out", tmp_path / "out", "--coverage")
    assert "it holds patient records, and they have no such option. Leave --coverage out." in said


def test_a_size_that_summarisers_do_not_have(ehr_course, prepared_notes, tmp_path):
    said = refused(ehr_course, prepared_notes, "--out", tmp_path / "out", "--profile", "narrow")
    assert said == (
        f"{prepared_notes}: it holds notes, and --profile narrow is not for them. "
        "Give --profile tiny, small or full.\n"
    )


def test_settings_out_of_range(ehr_course, prepared, tmp_path):
    said = refused(
        ehr_course,
        prepared,
        "--out",
        tmp_path / "out",
        "--batch-size",
        4,
        "--gradient-accumulation-steps",
        5,
    )
    assert "--gradient-accumulation-steps: 5 is out of range" in said
    said = refused(ehr_course, prepared, "--out", tmp_path / "out", "--lr", 0)
    assert "--lr: 0.0 is out of range" in said


@pytest.mark.parametrize(
    "arguments", [("--steps", 0), ("--precision", "half"), ("--seed", -1), ("--speed", 3)]
)
def test_wrong_usage(ehr_course, prepared, tmp_path, arguments):
    result = ehr_course("train", prepared, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------ by heart


def test_after_a_training_it_is_said_whether_the_model_beats_a_table(
    ehr_course, prepared, tmp_path
):
    done = ehr_course("train", prepared, *TINY, "--out", tmp_path / "run")
    assert done.exit_code == 0
    # Twelve steps are too few to learn anything.
    assert "The model has learned too little from its training patients" in done.stdout
    assert "on validation patients, where a table" in done.stdout
    assert "held-out" not in done.stdout


def test_a_model_that_learned_a_few_patients_by_heart_is_told(ehr_course, tmp_path):
    prepared = tmp_path / "prepared"
    parts = ("--patients", 60, "--validation", 0.5, "--test", 0.2)
    assert ehr_course("prepare", *parts, "--out", prepared).exit_code == 0
    how = ("--steps", 150, "--batch-size", 18, "--profile", "narrow", "--lr", 0.01)
    done = ehr_course("train", prepared, *how, "--out", tmp_path / "run")
    assert "by heart (overfitting)" in done.stdout and "leave --steps out" in done.stdout


def test_without_validation_patients_nothing_is_said_of_them(ehr_course, tmp_path):
    prepared = tmp_path / "prepared"
    assert ehr_course("prepare", "--patients", 40, "--validation", 0, "--out", prepared)
    done = ehr_course("train", prepared, *TINY, "--out", tmp_path / "run")
    assert "No patients were kept apart for validation" in done.stdout
