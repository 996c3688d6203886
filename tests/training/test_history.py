"""What a training writes down about itself."""

from __future__ import annotations

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


def test_a_history_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    history = small.trainer(steps=1).run()
    with pytest.raises(InputError, match="the history cannot be written"):
        history.write(tmp_path / "missing" / "history.csv")


def test_the_best_step_is_the_first_with_the_lowest_value() -> None:
    rows = [{"step": step, "validation_loss": loss} for step, loss in ((1, 3.0), (2, 2.0))]
    rows += [{"step": 3}, {"step": 4, "validation_loss": float("nan"), "validation_other": 7.0}]
    rows += [{"step": 5, "validation_loss": 2.0}]
    history = TrainingHistory(rows)
    assert history.best() == (2, 2.0)
    assert history.best("other") == (4, 7.0)
    assert TrainingHistory([{"step": 1}]).best() is None
