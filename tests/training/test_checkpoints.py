"""Checkpoints: a resumed training is the uninterrupted one, and none is ever half written."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import small
import torch

from ehr_course.errors import InputError
from ehr_course.training import checkpoints
from ehr_course.training.history import TrainingHistory


@functools.cache
def uninterrupted(precision: str) -> tuple[dict[str, torch.Tensor], list[dict]]:
    made = small.trainer(precision=precision, **SCALING)
    history = made.run()
    return small.weights(made), without_times(history)


def without_times(history: TrainingHistory) -> list[dict]:
    return [{n: value for n, value in row.items() if n != "seconds"} for row in history.rows]


SCALING = {"init_scale": 2.0**20, "growth_interval": 2, "ema_decay": 0.9}


@pytest.mark.parametrize(
    ("precision", "stop"), [("float32", 5), ("float16", 1), ("float16", 5), ("float16", 7)]
)
def test_a_resumed_training_is_bitwise_the_uninterrupted_one(
    tmp_path: Path, precision: str, stop: int
) -> None:
    # An epoch has five batches.
    settings = {"precision": precision, **SCALING}
    first = small.trainer(tmp_path, checkpoint_every=stop, **settings)
    small.stop_after(first, stop)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert not first.model.training
    torch.manual_seed(99)
    second = small.trainer(tmp_path, **settings)
    assert second.step == stop
    history = second.run()
    expected, rows = uninterrupted(precision)
    for name, weight in expected.items():
        assert torch.equal(weight, small.weights(second)[name]), name
    assert without_times(history) == rows
    assert {row["skipped"] for row in rows} == {False, precision == "float16"}


def test_a_checkpoint_saved_by_hand_between_two_runs_resumes_bitwise(tmp_path: Path) -> None:
    made = small.trainer(tmp_path, **SCALING)
    small.stop_after(made, 5)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    torch.rand(7)  # by somebody else, in between
    made.save()
    resumed = small.trainer(tmp_path, **SCALING)
    resumed.run(), made.run()
    for name, weight in uninterrupted("float32")[0].items():
        assert torch.equal(weight, small.weights(resumed)[name]), name
        assert torch.equal(weight, small.weights(made)[name]), name


def test_two_checkpoints_stay(tmp_path: Path) -> None:
    small.trainer(tmp_path, checkpoint_every=2).run()
    assert [path.name for path in checkpoints.checkpoints(tmp_path)] == [
        "step-000010",
        "step-000012",
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    files = sorted(file.name for file in (tmp_path / "step-000012").iterdir())
    assert files == [
        "model.safetensors",
        "optimizer.safetensors",
        "random.safetensors",
        "state.json",
    ]


def test_weights_of_another_shape_are_refused_and_change_nothing() -> None:
    model = small.model()
    before = checkpoints.model_tensors(model)
    before = {name: tensor.clone() for name, tensor in before.items()}
    other = checkpoints.model_tensors(small.model(d_model=32))
    with pytest.raises(InputError, match=r"the checkpoint has shape .*, this model shape"):
        checkpoints.load_model_tensors(model, other, "here")
    for name, tensor in checkpoints.model_tensors(model).items():
        assert torch.equal(tensor, before[name]), name


def test_a_damaged_checkpoint_is_named_with_the_way_out(tmp_path: Path) -> None:
    small.trainer(tmp_path, checkpoint_every=6).run()
    file = tmp_path / "step-000012" / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"step-000012: the checkpoint is damaged"):
        small.trainer(tmp_path, checkpoint_every=6)


def test_what_killed_processes_left_half_written_is_swept(tmp_path: Path) -> None:
    for name in (".step-000002.77", ".step-000001.removed.77"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").touch()
    small.trainer(tmp_path, steps=1).run()
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small.trainer(tmp_path, checkpoint_every=4)
    save_file = checkpoints.save_file
    written = []

    def full_later(tensors: dict, path: Path) -> None:
        written.append(path)
        if len(written) > 4:
            raise OSError(28, "No space left on device")
        save_file(tensors, path)

    monkeypatch.setattr(checkpoints, "save_file", full_later)
    with pytest.raises(InputError, match="No space left on device"):
        made.run()
    monkeypatch.undo()
    assert [path.name for path in checkpoints.checkpoints(tmp_path)] == ["step-000004"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert small.trainer(tmp_path, checkpoint_every=4).step == 4
