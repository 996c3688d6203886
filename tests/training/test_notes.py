"""The trainer with notes: the promises that it makes for patients hold for them."""

from __future__ import annotations

import multiprocessing
import os
import socket
from pathlib import Path

import pytest
import small_notes
import torch
from safetensors.torch import load_file

from ehr_course.training.checkpoints import checkpoints
from ehr_course.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]


def weights(trained: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in trained.model.named_parameters()}


def distance(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> float:
    """How far weights are from others, as a share of their length."""
    assert some.keys() == others.keys()
    apart = sum(float((some[name] - others[name]).double().square().sum()) for name in some)
    return (apart / sum(float(w.double().square().sum()) for w in others.values())) ** 0.5


def test_the_loss_of_every_part_falls() -> None:
    rows = small_notes.trainer(steps=60).run().rows
    first, last = rows[0], rows[-1]
    assert last["negative_log_likelihood"] < 0.8 * first["negative_log_likelihood"]
    assert last["loss"] == pytest.approx(
        last["negative_log_likelihood"] + last["coverage"], rel=1e-5
    )


def test_a_resumed_training_is_bitwise_the_uninterrupted_one(tmp_path: Path) -> None:
    whole = small_notes.trainer()
    whole.run()
    first = small_notes.trainer(tmp_path, checkpoint_every=5)
    after = first._after

    def stop(row: dict) -> None:
        after(row)
        if first.step == 5:
            raise KeyboardInterrupt

    first._after = stop
    with pytest.raises(KeyboardInterrupt):
        first.run()
    torch.manual_seed(99)
    second = small_notes.trainer(tmp_path)
    assert second.step == 5
    second.run()
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(second)[name]), name


@pytest.mark.parametrize("accumulation", [3, 16])
def test_a_batch_in_parts_gives_the_gradient_of_the_whole(accumulation: int) -> None:
    of = {"dropout": 0.0}
    whole = small_notes.trainer(of=of)
    parts = small_notes.trainer(of=of, gradient_accumulation_steps=accumulation)
    whole.run()
    parts.run()
    assert distance(weights(parts), weights(whole)) < 2e-4


def test_float16_learns_what_float32_learns() -> None:
    of = {"dropout": 0.0}
    exact = small_notes.trainer(of=of, steps=30).run().losses
    half = small_notes.trainer(of=of, steps=30, precision="float16").run().losses
    assert half[-1] == pytest.approx(exact[-1], rel=0.03)
    assert exact[-1] < 0.9 * exact[0]


def test_two_processes_train_the_weights_of_one(tmp_path: Path) -> None:
    alone = small_notes.trainer(of={"dropout": 0.0})
    alone.run()
    with socket.socket() as free, pytest.MonkeyPatch.context() as patch:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(Path(__file__).parent)]))
        context = multiprocessing.get_context("spawn")
        running = [
            context.Process(target=small_notes.train_as, args=(rank, port, tmp_path))
            for rank in range(2)
        ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0]
    together = load_file(checkpoints(tmp_path)[-1] / "model.safetensors")
    assert distance(together, weights(alone)) < 2e-4


def test_coverage_can_be_switched_on_in_a_trained_model() -> None:
    before = small_notes.trainer(of={"coverage": False, "dropout": 0.0}, steps=20)
    before.run()
    batch = before.dataset.batch([0, 1, 2])
    plain = before.model(**batch)
    before.model.add_coverage()
    covered = before.model(**batch)
    cost = covered.terms[1].total.item()
    torch.testing.assert_close(plain.loss_sum, covered.loss_sum, rtol=1e-6, atol=0)
    assert [term.name for term in covered.terms] == ["negative_log_likelihood", "coverage"]
    config = small_notes.trainer(steps=10).config
    Trainer(before.model, before.dataset, config, device="cpu").run()
    assert before.model.decoder.attention.cover.abs().max() > 0
    assert before.model(**batch).terms[1].total.item() < cost
