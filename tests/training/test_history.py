"""What a training writes down about itself, and shows in TensorBoard."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import polars as pl
import pytest
import small

from ehr_course.errors import InputError
from ehr_course.training.history import TrainingHistory


def test_the_history_is_a_table_with_a_row_for_each_step(tmp_path: Path) -> None:
    made = small.trainer(tmp_path)
    history = made.run()
    table = history.table()
    assert table["step"].to_list() == list(range(1, 13))
    assert table["lr"].max() == pytest.approx(2e-3)
    assert table["tokens"].min() > 0
    written = pl.read_csv(tmp_path / "history.csv")
    assert written["loss"].to_list() == pytest.approx(history.losses)
    history.write(tmp_path / "history.parquet")
    assert pl.read_parquet(tmp_path / "history.parquet").equals(table)
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        history.write(tmp_path / "history.txt")


def test_tensorboard_gets_steps_and_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == "board"

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def flush(self) -> None:
            written.append("flushed")

    module = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    made = small.trainer(tensorboard="board", validation=small.dataset(), steps=2)
    rows = made.run().rows
    for row in rows:
        for name in ("loss", "lr", "scale", "gradient_norm"):
            assert (name, row[name], row["step"]) in written
    assert written[-2:] == [("validation_loss", rows[-1]["validation_loss"], 2), "flushed"]


def test_tensorboard_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="pip install tensorboard"):
        small.trainer(tensorboard="board")


def test_a_history_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    history = small.trainer(steps=1).run()
    for name in ("history.csv", "history.parquet"):
        with pytest.raises(InputError, match="the history cannot be written"):
            history.write(tmp_path / "missing" / name)


def test_the_best_step_is_the_first_with_the_lowest_value() -> None:
    rows = [{"step": step, "validation_loss": loss} for step, loss in ((1, 3.0), (2, 2.0))]
    rows += [{"step": 3}, {"step": 4, "validation_loss": float("nan"), "validation_other": 7.0}]
    rows += [{"step": 5, "validation_loss": 2.0}]
    history = TrainingHistory(rows)
    assert history.best() == (2, 2.0)
    assert history.best("other") == (4, 7.0)
    assert TrainingHistory([{"step": 1}]).best() is None
