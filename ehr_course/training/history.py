"""The history of a training, step by step: as a table, as a bar, and in TensorBoard."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from tqdm import tqdm

from ehr_course.errors import InputError


class TrainingHistory:
    """One row for each step that was tried.

    Columns: ``step`` (updates so far), ``epoch``, ``batch`` (within it), ``loss`` (weighted,
    nats), each term of the loss if there are several, ``lr``, ``scale`` (of the loss in float16),
    ``gradient_norm`` (before clipping), ``skipped``, ``tokens`` (scored ones), ``seconds``.
    Evaluations add columns that begin with ``validation_``.
    """

    def __init__(self, rows: list[dict] | None = None) -> None:
        self.rows: list[dict] = rows if rows is not None else []

    def __len__(self) -> int:
        return len(self.rows)

    def best(self, metric: str = "loss") -> tuple[int, float] | None:
        """The first step with the lowest value of a metric, and that value; None without any."""
        name = f"validation_{metric}"
        found = [
            (row["step"], row[name]) for row in self.rows if math.isfinite(row.get(name, math.nan))
        ]
        return min(found, key=lambda step_and_value: step_and_value[1], default=None)

    @property
    def losses(self) -> list[float]:
        """The loss of every step that changed the weights."""
        return [row["loss"] for row in self.rows if not row["skipped"]]

    def loss(self, last: int = 50) -> float:
        """The mean loss of the last steps."""
        recent = self.losses[-last:]
        return sum(recent) / len(recent)

    @property
    def seconds(self) -> float:
        """The time that all steps took together."""
        return sum(row["seconds"] for row in self.rows)

    def table(self) -> pl.DataFrame:
        """The rows as a polars table."""
        return pl.DataFrame(self.rows, infer_schema_length=None)

    def write(self, path: str | Path) -> None:
        """Write the table to a .csv or .parquet file, whole or not at all."""
        path = Path(path)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        if path.suffix not in (".csv", ".parquet"):
            raise InputError(
                path, "", "its name does not say which format", "Use .csv or .parquet."
            )
        try:
            if path.suffix == ".csv":
                self.table().write_csv(unfinished)
            else:
                self.table().write_parquet(unfinished)
            unfinished.replace(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                path,
                "",
                f"the history cannot be written ({error})",
                "Make room or name another folder.",
            ) from error
        finally:
            unfinished.unlink(missing_ok=True)


class Progress:
    """Shows the steps of a training as a bar and in TensorBoard.

    Args:
        shown: whether to show a bar, with loss, learning rate, scale and tokens per second.
        tensorboard: a folder for TensorBoard's files, or None.
    """

    def __init__(self, *, shown: bool, tensorboard: str | Path | None = None) -> None:
        self.shown = shown
        self._board = None
        if tensorboard is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError(
                    "Trainer",
                    "tensorboard",
                    "the package is not installed",
                    "Install it with: pip install tensorboard",
                ) from None
            self._board = SummaryWriter(str(tensorboard))

    def bar(self, *, done: int, total: int) -> tqdm:
        """A bar of `total` steps, some of them done."""
        hidden = {} if self.shown else {"disable": True}  # when shown, TQDM_DISABLE decides
        return tqdm(total=total, initial=done, unit="step", leave=False, **hidden)

    def show_step(self, bar: tqdm, row: Mapping[str, Any]) -> None:
        """Show a row of the history."""
        if not row["skipped"]:
            bar.update()
        if self.shown:
            bar.set_postfix(
                loss=f"{row['loss']:.3f}",
                lr=f"{row['lr']:.1e}",
                scale=f"{row['scale']:g}",
                tokens_per_second=f"{row['tokens'] / row['seconds']:,.0f}",
                refresh=False,
            )
        names = ("loss", "lr", "scale", "gradient_norm")
        self._write({name: row[name] for name in names}, row["step"])

    def show_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Show an evaluation."""
        self._write({f"validation_{name}": value for name, value in metrics.items()}, step)

    def _write(self, values: Mapping[str, float], step: int) -> None:
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def flush(self) -> None:
        """Write out what TensorBoard still buffers."""
        if self._board is not None:
            self._board.flush()
