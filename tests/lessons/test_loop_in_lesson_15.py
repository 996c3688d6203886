"""The loop that lesson 15 writes in its cells is the trainer's, bit for bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from lesson_files import ROOT, read_source, tags

from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

LESSON = ROOT / "lessons" / "15_training_loop.py"


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """What the lesson's cells define: its parameters, its imports, and the cells of the loop."""
    cells = [cell for cell in read_source(LESSON).cells if cell.cell_type == "code"]
    _, parameters, imports = cells[:3]
    assert tags(parameters) == ["parameters"]
    assert imports.source.startswith("# set-up: imports\nimport ")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EHR_COURSE_DATA", raising=False)
        for cell in (parameters, imports, *(c for c in cells if "loop" in tags(c))):
            exec(compile(cell.source, f"<cell {cell.id}>", "exec"), names)
    return names


def trained_by_both(
    lesson: dict[str, Any], *, dropout: float = 0.1, **changes: Any
) -> tuple[list[dict], Trainer, torch.nn.Module]:
    """Train with the lesson's loop and with the library's trainer, from the same weights."""
    config: TrainingConfig = dataclasses.replace(lesson["config"], **changes)
    model = lesson["new_model"](dropout)
    rows = lesson["train"](model, config)
    trainer = Trainer(lesson["new_model"](dropout), lesson["dataset"], config, device="cpu")
    trainer.run()
    return rows, trainer, model


def assert_same_bits(trainer: Trainer, model: torch.nn.Module) -> None:
    theirs = dict(trainer.model.named_parameters())
    for name, weight in model.named_parameters():
        assert torch.equal(weight, theirs[name]), name


@pytest.mark.parametrize(
    "changes",
    [
        {},  # with the dropout and the overflows that the lesson shows
        {"gradient_accumulation_steps": 1},
        {"gradient_accumulation_steps": 3, "batch_size": 10, "seed": 5},
        {"init_scale": 1.0, "growth_interval": 1},
        {"max_grad_norm": 0.01, "weight_decay": 0.5, "betas": (0.8, 0.9), "warmup_steps": 0},
    ],
    ids=["the lesson's own", "whole batches", "three parts", "a growing scale", "other settings"],
)
def test_the_whole_loop_trains_the_weights_of_the_trainer(
    lesson: dict[str, Any], changes: dict
) -> None:
    rows, trainer, model = trained_by_both(lesson, **changes)
    assert_same_bits(trainer, model)
    theirs = trainer.history.rows
    assert [row["skipped"] for row in rows] == [row["skipped"] for row in theirs]
    assert [row["scale"] for row in rows] == [row["scale"] for row in theirs]
    assert [row["loss"] for row in rows] == [row["loss"] for row in theirs]


def test_the_lessons_own_training_skips_steps_and_reads_more_than_one_epoch(
    lesson: dict[str, Any],
) -> None:
    rows = lesson["train"](lesson["new_model"](), lesson["config"])
    assert any(row["skipped"] for row in rows)
    batches_of_an_epoch = -(-len(lesson["dataset"]) // lesson["config"].batch_size)
    assert len(rows) > batches_of_an_epoch


def test_weights_of_another_seed_are_others(lesson: dict[str, Any]) -> None:
    _, trainer, _ = trained_by_both(lesson, steps=4, init_scale=65_536.0)
    _, _, other = trained_by_both(lesson, steps=4, init_scale=65_536.0, seed=3)
    theirs = dict(trainer.model.named_parameters())
    assert not all(torch.equal(p, theirs[name]) for name, p in other.named_parameters())
