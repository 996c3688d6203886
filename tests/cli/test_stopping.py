"""When a training stops without --steps, and what it says then."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ehr_course.cli import train
from ehr_course.cli.prepare import NOTES, RECORDS, Prepared
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.train import filled_in, why_it_stopped
from ehr_course.errors import InputError
from ehr_course.training import trainer
from ehr_course.training.history import TrainingHistory


def prepared_of(train: int, validation: int = 10, kind: str = RECORDS) -> Prepared:
    sizes = {"train": train, "validation": validation, "test": 10}
    return Prepared(Path("prepared"), kind, sizes, is_embedded=True)


def filled(train: int = 4_000, validation: int = 10, **settings: object) -> tuple[int, int, int]:
    made = filled_in(
        TrainSettings(prepared="prepared", **settings), prepared_of(train, validation)
    )
    return made.steps, made.evaluate_every, made.patience


# ------------------------------------------------------------------ what is filled in


@pytest.mark.parametrize(
    ("train", "batch_size", "expected"),
    [
        (4_000, 32, (2_500, 125, 5)),  # twenty epochs, and an evaluation after each
        (4_001, 32, (2_520, 126, 5)),  # the last batch of an epoch may be smaller
        (60, 32, (500, 10, 5)),
        (1, 32, (500, 10, 5)),
        (4_000, 256, (500, 16, 5)),
    ],
)
def test_without_steps_they_follow_from_the_patients(train, batch_size, expected):
    assert filled(train, batch_size=batch_size) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"steps": 300}, (300, 0, 0)),
        ({"steps": 300, "evaluate_every": 20}, (300, 20, 0)),
        ({"steps": 300, "patience": 2}, (300, 125, 2)),
        ({"evaluate_every": 20}, (2_500, 20, 5)),
        ({"patience": 2}, (2_500, 125, 2)),
        ({"patience": 0}, (2_500, 125, 0)),
    ],
)
def test_what_is_asked_for_stays(settings, expected):
    assert filled(**settings) == expected


def test_steps_alone_need_no_validation_patients():
    assert filled(validation=0, steps=300) == (300, 0, 0)


@pytest.mark.parametrize(
    "settings", [{}, {"steps": 300, "patience": 2}, {"steps": 300, "evaluate_every": 20}]
)
def test_without_validation_patients_steps_must_be_given(settings):
    with pytest.raises(InputError, match=r"it has no validation patients.* --steps"):
        filled(validation=0, **settings)


@pytest.mark.parametrize("settings", [{}, {"steps": 300, "patience": 2}])
def test_without_evaluations_nothing_could_stop_it(settings):
    with pytest.raises(InputError, match=r"--evaluate-every: it is 0"):
        filled(evaluate_every=0, **settings)


# ------------------------------------------------------------------ what is said


def history_of(losses: dict[int, float], last: int) -> TrainingHistory:
    rows = [{"step": step, "loss": 1.0, "skipped": False} for step in range(1, last + 1)]
    for step, loss in losses.items():
        rows[step - 1]["validation_loss"] = loss
    return TrainingHistory(rows)


@pytest.mark.parametrize(
    ("kind", "who"), [(RECORDS, "validation patients"), (NOTES, "validation notes")]
)
def test_a_training_that_stopped_early_says_so(kind, who):
    settings = TrainSettings(prepared="p", steps=5_000, evaluate_every=600, patience=2)
    history = history_of({600: 3.0, 1_200: 2.0, 1_800: 2.0, 2_400: 2.5}, 2_400)
    assert why_it_stopped(settings, prepared_of(9, kind=kind), history) == (
        f"Stopped after 2,400 steps: the loss on {who} had not fallen for 2 evaluations; "
        "the weights of step 1,200 are kept."
    )


def test_a_training_that_came_to_its_end_says_so():
    settings = TrainSettings(prepared="p", steps=30, evaluate_every=10, patience=2)
    history = history_of({10: 3.0, 20: 2.0, 30: 2.1}, 30)
    assert why_it_stopped(settings, prepared_of(9), history) == (
        "Stopped after 30 steps, the most that it was to take; the weights of step 20 are kept, "
        "whose loss on validation patients is the lowest."
    )


def test_a_training_of_some_steps_says_so():
    settings = TrainSettings(prepared="p", steps=12, evaluate_every=0, patience=0)
    said = why_it_stopped(settings, prepared_of(9), history_of({12: 1.0}, 12))
    assert said == "Stopped after 12 steps, as many as were asked for."


# ------------------------------------------------------------------ the command


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options of a training that stops within seconds: its rate is too high to get far."""
    monkeypatch.setattr(train, "FEWEST_STEPS", 60)
    monkeypatch.setattr(train, "EPOCHS", 1)
    few = ("--profile", "narrow", "--batch-size", "8", "--patience", "2")
    return (*few, "--lr", "0.3", "--weight-decay", "0.01", "--plain", "--batches", "mixed")


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def validation_losses(run: Path) -> dict[int, float]:
    with (run / "checkpoints" / "history.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {int(r["step"]): float(r["validation_loss"]) for r in rows if r["validation_loss"]}


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def test_a_training_without_steps_stops_and_keeps_the_best_weights(
    ehr_course, prepared, tmp_path, soon
):
    out = tmp_path / "run"
    soon = (*soon, "--average", 0, "--max-grad-norm", 1)  # an average gets better for longer
    done = ehr_course("train", prepared, "--out", out, *soon, "--evaluate-every", 5)
    assert done.exit_code == 0
    losses = validation_losses(out)
    best, last = min(losses, key=losses.get), max(losses)
    assert last == best + 10 < 60
    said = (
        f"Stopped after {last} steps: the loss on validation patients had not fallen for 2 "
        f"evaluations; the weights of step {best} are kept."
    )
    assert said in done.stdout.splitlines()
    result = about(out)["result"]
    assert (result["stopped"], result["steps"]) == (said, last)
    assert result["validation_loss"] == losses[best]
    kept = load_file(out / "checkpoints" / "best.safetensors")
    for name, weight in weights(out).items():
        assert torch.equal(kept[name], weight), name

    again = tmp_path / "again"
    repeated = ehr_course("repeat", out / "run.json", "--out", again)
    assert repeated.exit_code == 0
    assert about(again)["result"] == result
    for name, weight in weights(out).items():
        assert torch.equal(weights(again)[name], weight), name


def test_ctrl_c_and_going_on_change_nothing(ehr_course, prepared, tmp_path, soon, monkeypatch):
    every = ("--evaluate-every", 5)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert ehr_course("train", prepared, "--out", whole, *soon, *every).exit_code == 0
    shown = trainer.show_step

    def show(bar: object, row: dict) -> None:
        shown(bar, row)
        if row["step"] == 8:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "show_step", show)
        assert ehr_course("train", prepared, "--out", parts, *soon, *every).exit_code == 130
    done = ehr_course("train", prepared, "--out", parts, *soon, *every)
    assert "Going on after step 8 of at most 60." in done.stdout
    assert about(parts) == about(whole)
    assert validation_losses(parts) == validation_losses(whole)
    for name, weight in weights(whole).items():
        assert torch.equal(weights(parts)[name], weight), name


def test_prepared_without_validation_patients_is_refused_before_anything_is_made(
    ehr_course, tmp_path
):
    prepared, out = tmp_path / "prepared", tmp_path / "run"
    options = ("--patients", 20, "--validation", 0, "--test", 0.1)
    assert ehr_course("prepare", *options, "--out", prepared).exit_code == 0
    done = ehr_course("train", prepared, "--out", out)
    assert done.exit_code == 1
    assert done.stderr == (
        f"{prepared}: it has no validation patients, and their loss says when to stop and which "
        "weights to keep. Say with --steps how long to train, and leave --evaluate-every and "
        "--patience out; or prepare again with a --validation above 0.\n"
    )
    assert not out.exists()
