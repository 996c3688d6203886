"""Evaluations during a training: their loss, and the best weights."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pytest
import small
import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.training.checkpoints import write_best


def test_the_validation_loss_is_the_mean_over_all_scored_tokens() -> None:
    made = small.trainer(validation=small.dataset(seed=5), steps=2, batch_size=9)
    history = made.run()
    total, count = 0.0, 0
    held_out = small.dataset(seed=5)
    for key in LengthBatchSampler(held_out.lengths, 9, shuffle=False, group_by_length=True):
        with torch.no_grad():
            output = made.model(**held_out[key])
        total, count = total + float(output.loss_sum), count + int(output.loss_count)
    assert history.rows[-1]["validation_loss"] == pytest.approx(total / count, rel=1e-5)
    assert "validation_loss" not in history.rows[0]


@pytest.mark.parametrize("batch_size", [70, 16])
def test_the_validation_loss_of_a_model_with_heads_is_that_of_one_large_batch(
    batch_size: int,
) -> None:
    held_out = small.dataset(corruption=Corruption(p_visit=0))
    made = small.trainer(validation=held_out, heads=True, batch_size=batch_size)
    with torch.no_grad():
        whole = float(made.model.eval()(**held_out.batch(range(70))).loss)
    assert made.evaluate()["loss"] == pytest.approx(whole, rel=1e-5)


def test_validation_patients_of_whom_nothing_is_scored_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held_out = small.dataset()
    batch = held_out.batch([0]) | {"labels": torch.full((1, 6), -100)}
    batch["decoder_input_ids"] = torch.full((1, 6), 2)
    monkeypatch.setattr(type(held_out), "__getitem__", lambda self, key: batch)
    with pytest.raises(InputError, match="validation: no token is scored"):
        small.trainer(validation=held_out).evaluate()


def test_evaluation_does_not_change_what_comes_after() -> None:
    def draw(model: torch.nn.Module) -> dict[str, float]:
        assert not model.training and not torch.is_grad_enabled()
        return {"drawn": torch.rand(())}

    often = small.trainer(validation=small.dataset(), evaluate=draw, evaluate_every=1)
    never = small.trainer()
    often.run(), never.run()
    for name, weight in small.weights(never).items():
        assert torch.equal(weight, small.weights(often)[name])


def test_the_best_weights_are_kept_and_training_stops_when_nothing_gets_better(
    tmp_path: Path,
) -> None:
    scores = iter([3.0, 1.0, 2.0, 2.0, 9.0])
    seen = []

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        seen.append(model.model.shared.weight.detach().clone())
        return {"distance": next(scores)}

    made = small.trainer(
        tmp_path, evaluate=evaluate, metric="distance", evaluate_every=2, patience=2, steps=100
    )
    made.run()
    assert made.step == 8
    made.load_best()
    assert torch.equal(made.model.model.shared.weight, seen[1])
    # Nobody evaluates or trains again what has stopped early, unless there is more patience.
    settings = {"evaluate": evaluate, "metric": "distance", "evaluate_every": 2, "steps": 100}
    again = small.trainer(tmp_path, patience=2, **settings)
    assert len(again.run()) == again.step == 8 and len(seen) == 4
    assert not small.trainer(tmp_path, patience=3, **settings).is_finished


@pytest.mark.parametrize(
    ("scores", "is_given_up"),
    [
        ([3.0, 4.0, 2.0, 4.0], False),  # two without a better one, and not in a row
        ([3.0, 4.0, 3.0], True),  # equal is not better
        ([math.nan, math.nan], True),
    ],
)
def test_patience_ends_after_two_evaluations_in_a_row_without_a_better(
    scores: list[float], is_given_up: bool
) -> None:
    remaining = iter(scores)
    made = small.trainer(
        evaluate=lambda model: {"loss": next(remaining)}, evaluate_every=1, patience=2, steps=99
    )
    with contextlib.suppress(StopIteration):
        made.run()
    assert made.is_finished == is_given_up
    assert next(remaining, None) is None


def test_a_resumed_training_remembers_how_good_the_best_was(tmp_path: Path) -> None:
    scores = iter([1.0, 2.0, math.nan, 1.5])

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        return {"loss": next(scores)}

    settings = {"evaluate": evaluate, "evaluate_every": 1, "checkpoint_every": 1, "steps": 4}
    made = small.trainer(tmp_path, **settings)
    small.stop_after(made, 1)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    best = small.weights(made)
    resumed = small.trainer(tmp_path, **settings)
    resumed.run()
    resumed.load_best()
    assert all(torch.equal(best[name], now) for name, now in small.weights(resumed).items())
    again = small.trainer(tmp_path, patience=3, **settings)
    assert again.is_finished and again.history.rows[-1]["validation_loss"] == 1.5


def test_a_metric_that_the_evaluation_lacks_is_refused() -> None:
    made = small.trainer(validation=small.dataset(), metric="accuracy", steps=1)
    with pytest.raises(InputError, match=r"the evaluation has no 'accuracy'\. It has: loss"):
        made.run()


def test_no_best_weights_is_said(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(InputError, match="no best weights"):
            small.trainer(folder).load_best()


def test_damaged_best_weights_are_named(tmp_path: Path) -> None:
    (tmp_path / "best.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"best\.safetensors: the file is damaged"):
        small.trainer(tmp_path).load_best()


def test_stopping_early_without_anything_to_evaluate_is_refused() -> None:
    with pytest.raises(InputError, match="patience: there is nothing to evaluate"):
        small.trainer(patience=2, evaluate_every=1)


def test_a_full_disk_leaves_the_best_weights_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small.trainer(tmp_path)
    write_best(made.model, tmp_path)
    before = (tmp_path / "best.safetensors").read_bytes()

    def full(tensors: dict, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ehr_course.training.checkpoints.save_file", full)
    with pytest.raises(InputError, match=r"the best weights cannot be written .*No space left"):
        write_best(made.model, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["best.safetensors"]
    assert (tmp_path / "best.safetensors").read_bytes() == before
