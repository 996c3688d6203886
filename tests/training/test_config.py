"""The settings of a training: their ranges, and which of them a checkpoint holds on to."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import small

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.training.config import TrainingConfig, check_same_training, training_identity
from ehr_course.training.trainer import Trainer


def test_a_checkpoint_of_another_training_is_refused_by_name_of_the_setting(
    tmp_path: Path,
) -> None:
    small.trainer(tmp_path, steps=3).run()
    for name, other in (("lr", 1e-3), ("batch_size", 8), ("seed", 1), ("steps", 20)):
        with pytest.raises(InputError, match=rf"step-000003, {name}: it was"):
            small.trainer(tmp_path, **({"steps": 3} | {name: other}))
    small.trainer(tmp_path, steps=3, checkpoint_every=7, evaluate_every=2)  # these may change


def test_a_checkpoint_of_a_model_with_other_settings_is_refused_by_their_name(
    tmp_path: Path,
) -> None:
    small.trainer(tmp_path, steps=1).run()
    with pytest.raises(InputError, match=r"model\.dropout: it was 0\.1 .*, and is 0\.2 now"):
        small.trainer(tmp_path, steps=1, dropout=0.2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda then: then.pop("model.dropout"), r"model\.dropout: .* did not exist when"),
        (lambda then: then.update(shuffle=True), "shuffle: this setting no longer exists"),
    ],
)
def test_a_checkpoint_of_another_version_is_refused_as_such(change: Any, says: str) -> None:
    now = training_identity(small.model(), small.dataset(), TrainingConfig(steps=1), 1)
    then = dict(now)
    change(then)
    with pytest.raises(InputError, match=says) as caught:
        check_same_training("step-000003", then, now)
    assert "Finish it with that version" in caught.value.remedy


OLDER = [dataclasses.replace(small.RECORDS[0], age=1), *small.RECORDS[1:]]


@pytest.mark.parametrize(
    "data",
    [
        small.dataset(seed=3),
        small.dataset(corruption=Corruption(p_visit=0.9)),
        RecordDataset(OLDER, small.TOKENIZER),
        RecordDataset(small.RECORDS[::-1], small.TOKENIZER),
    ],
)
def test_a_checkpoint_of_other_patients_or_corruption_is_refused(
    tmp_path: Path, data: RecordDataset
) -> None:
    small.trainer(tmp_path, steps=1).run()
    config = TrainingConfig(**(small.SETTINGS | {"steps": 1, "warmup_steps": 1}))
    with pytest.raises(InputError, match="data: it was"):
        Trainer(small.model(dropout=0.1), data, config, folder=tmp_path, device="cpu")


@pytest.mark.parametrize(
    "setting",
    [
        {"steps": 0},
        {"gradient_accumulation_steps": 17},
        {"lr": 0.0},
        {"warmup_steps": 13},
        {"precision": "float8"},
        {"lr": math.inf},
        {"betas": (0.9, 1.0)},
        {"patience": 2},
        {"max_grad_norm": 0.0},
        {"seed": -1},
    ],
)
def test_a_setting_out_of_range_is_named(setting: dict) -> None:
    (name,) = setting
    with pytest.raises(InputError, match=f"TrainingConfig, {name}"):
        TrainingConfig(**(small.SETTINGS | setting))
