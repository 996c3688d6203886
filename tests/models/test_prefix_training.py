"""A prefix in the course's trainer: it learns, and the base does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small
import torch
from prefix_models import assert_same, weights

from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer, train


def trainer(folder: Path | None = None, **changes: Any) -> Trainer:
    prefix = changes.pop("prefix", {"d_hidden": 4, "cross": True, "encoder": True})
    model = PrefixTuned(small.model(dropout=0.1), PrefixConfig(4, **prefix))
    config = TrainingConfig(**(small.SETTINGS | {"lr": 1e-2} | changes))
    return Trainer(model, small.dataset(), config, folder=folder, device="cpu")


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_only_the_prefix_learns(precision: str) -> None:
    made = trainer(steps=30, warmup_steps=3, precision=precision)
    base, before = made.model.base, weights(made.model)
    history = made.run()
    losses = [row["loss"] for row in history.rows]
    assert sum(losses[-5:]) < sum(losses[:5])
    for name, tensor in made.model.state_dict().items():
        assert torch.equal(tensor, before[name]) is name.startswith("base."), name
    own = {id(parameter) for parameter in made.model.prefixes.parameters()}
    assert {id(parameter) for parameter in made.optimizer.state} == own
    assert all(parameter.grad is None for parameter in base.parameters())


def test_dropout_of_the_base_is_on_in_training_alone() -> None:
    model = PrefixTuned(small.model(dropout=0.5), PrefixConfig(4))
    train(model, small.dataset(), steps=1, progress=False)
    batch = small.dataset().batch([0, 1])
    model.train()
    assert model(**batch).loss != model(**batch).loss
    model.eval()
    assert model(**batch).loss == model(**batch).loss


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_training_goes_on_bit_for_bit(tmp_path: Path, precision: str) -> None:
    whole = trainer(precision=precision)
    whole.run()
    settings = {"precision": precision, "checkpoint_every": 5}
    first = trainer(tmp_path, **settings)
    with pytest.raises(StopIteration):
        stop_after(first, 5)
    again = trainer(tmp_path, **settings)
    assert again.step == 5
    again.run()
    assert_same(weights(again.model), weights(whole.model))


def stop_after(training: Trainer, step: int) -> None:
    save = training.save

    def save_and_stop() -> None:
        save()
        if training.step >= step:
            raise StopIteration

    training.save = save_and_stop
    training.run()


@pytest.mark.parametrize("changed", [{"d_hidden": 5}, {"shift_positions": True}])
def test_the_checkpoint_of_another_prefix_is_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    trainer(tmp_path, prefix={"d_hidden": 4}).run()
    with pytest.raises(InputError, match=r"model\.prefix_tuning"):
        trainer(tmp_path, prefix={"d_hidden": 4} | changed)


def test_the_checkpoint_of_another_base_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path).run()
    base = small.model(dropout=0.1)
    with torch.no_grad():
        base.model.shared.weight[5, 0] += 0.5
    model = PrefixTuned(base, PrefixConfig(4, d_hidden=4, cross=True, encoder=True))
    config = TrainingConfig(**(small.SETTINGS | {"lr": 1e-2}))
    with pytest.raises(InputError, match=r"model\.prefix_tuning.*'base'"):
        Trainer(model, small.dataset(), config, folder=tmp_path, device="cpu")
