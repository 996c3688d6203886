"""What a training shows while it runs: a bar, and TensorBoard on request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ehr_course.errors import InputError


class Progress:
    """Shows the steps of a training.

    Args:
        shown: whether there is a bar, with loss, learning rate, scale and tokens per second.
        tensorboard: a folder for TensorBoard's files, or None.

    Raises:
        InputError: if TensorBoard is asked for and not installed.
    """

    def __init__(self, *, shown: bool, tensorboard: str | Path | None = None) -> None:
        self.shown = shown
        self._board = None if tensorboard is None else _board(tensorboard)

    def bar(self, *, done: int, total: int) -> tqdm:
        """A bar for this many steps, some of them done."""
        hidden = {} if self.shown else {"disable": True}  # TQDM_DISABLE decides over the others
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
        if self._board is not None:
            for name in ("loss", "lr", "scale", "gradient_norm"):
                self._board.add_scalar(name, row[name], row["step"])

    def show_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Show an evaluation."""
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(f"validation_{name}", value, step)

    def flush(self) -> None:
        """Write what is still on its way to TensorBoard."""
        if self._board is not None:
            self._board.flush()


def _board(folder: str | Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "Trainer",
            "tensorboard",
            "the package is not installed",
            "Install it with: pip install tensorboard",
        ) from None
    return SummaryWriter(str(folder))
