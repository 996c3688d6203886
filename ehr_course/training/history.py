"""The history of a training, step by step."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
from tqdm import tqdm

from ehr_course.errors import InputError
from ehr_course.new_folder import new_file


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
        """Write the table to a CSV file, whole or not at all."""
        path = Path(path)
        if path.suffix != ".csv":
            raise InputError(path, "", "it is not the name of a CSV file", "End it in .csv.")
        try:
            with new_file(path) as unfinished:
                self.table().write_csv(unfinished)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                path,
                "",
                f"the history cannot be written ({error})",
                "Make room or name another folder.",
            ) from error


def show_step(bar: tqdm, row: dict) -> None:
    """Show a row of the history: loss, learning rate, scale and tokens per second."""
    bar.update(not row["skipped"])
    bar.set_postfix(
        loss=f"{row['loss']:.3f}",
        lr=f"{row['lr']:.1e}",
        scale=f"{row['scale']:g}",
        tokens_per_second=f"{row['tokens'] / row['seconds']:,.0f}",
        refresh=False,
    )
