"""The sweep of lesson 18: what is stored is what its recipe makes."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import polars as pl
import pytest
import torch

from course import second_hospital
from course.second_hospital import METHODS, SEEDS, sweep, token_loss
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.course_files import checkpoint_folder
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.saved import load_checkpoint
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

STORED = checkpoint_folder("second_hospital") / "sweep.csv"
TRAINED = [name for name, method in METHODS.items() if method.rates]


def test_the_stored_sweep_has_each_method_with_each_seed() -> None:
    rows = pl.read_csv(STORED).select("seed", "method").rows()
    assert rows == [(seed, name) for seed in SEEDS for name in METHODS]


def test_the_stored_numbers_are_losses_divergences_and_settings_of_the_grid() -> None:
    table = pl.read_csv(STORED)
    assert table["loss"].is_between(1.5, 4).all()
    assert table["divergence"].is_between(0, math.log(2)).all()
    for name, method in METHODS.items():
        of_method = table.filter(pl.col("method") == name)
        assert set(of_method["lr"].drop_nulls()) <= set(method.rates), name
        assert len(of_method["lr"].drop_nulls()) == (len(SEEDS) if method.rates else 0), name


def test_the_model_as_it_is_scores_the_stored_loss_on_every_seeds_test() -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    tokenizer = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
    test = make_cohort(second_hospital.TEST, seed=second_hospital.TEST_SEED, hospital="heart")
    loss = token_loss(
        loaded.model, RecordDataset(test, tokenizer, corruption=Corruption(p_empty=1.0))
    )
    stored = pl.read_csv(STORED).filter(pl.col("method") == "nothing")["loss"]
    assert stored.to_list() == [pytest.approx(loss, abs=2e-3)] * len(SEEDS)


@pytest.mark.parametrize("name", TRAINED)
def test_the_stored_count_is_what_a_method_trains(name: str) -> None:
    base = copy.deepcopy(load_checkpoint("tiny_prompt_bart").model)
    model = METHODS[name].make(base, 0)
    n_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    stored = pl.read_csv(STORED).filter(pl.col("method") == name)["trained"]
    assert set(stored) == {n_trained}


FROZEN = [name for name in TRAINED if name not in ("full", "from scratch")]


@pytest.mark.parametrize("name", FROZEN)
def test_a_method_that_freezes_the_base_trains_only_what_it_adds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    before = {n: p.detach().clone() for n, p in loaded.model.named_parameters()}
    tokenizer = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
    patients = RecordDataset(make_cohort(20, seed=0, hospital="heart"), tokenizer)
    model = METHODS[name].make(copy.deepcopy(loaded.model), 0)
    best = second_hospital._Best()
    start = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    monkeypatch.setattr(second_hospital, "STEPS", 2)
    second_hospital._train(model, patients, patients, 1e-2, 0, best)
    base = model.base if isinstance(model, PrefixTuned) else model
    kept = dict(base.named_parameters())
    for n in before.keys() & kept.keys():
        assert torch.equal(before[n], kept[n]), n
    moved = [not torch.equal(p, dict(model.named_parameters())[n]) for n, p in start.items()]
    assert moved and all(moved)


def test_the_best_model_is_kept_as_it_was_at_its_step() -> None:
    best = second_hospital._Best()
    model = torch.nn.Linear(1, 1)
    for step, loss in enumerate((3.0, 1.0, 2.0)):
        torch.nn.init.constant_(model.weight, loss)
        best.judge(model, loss, lr=0.1, step=step)
    assert (best.loss, best.lr, best.step, best.model.weight.item()) == (1.0, 0.1, 1, 1.0)


def test_the_recipe_writes_a_table_like_the_stored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SEEDS": (0,),
        "STEPS": 2,
        "EVALUATE_EVERY": 1,
        "LEARN": 20,
        "CHOOSE": 5,
        "TEST": 10,
        "METHODS": {name: METHODS[name] for name in ("nothing", "prompt", "prefix")},
    }.items():
        monkeypatch.setattr(second_hospital, name, value)
    assert sweep(tmp_path) == 3
    made = pl.read_csv(tmp_path / "sweep.csv")
    assert made.columns == pl.read_csv(STORED).columns
    assert made["method"].to_list() == ["nothing", "prompt", "prefix"]
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.csv"]
