"""The table of gpu.py: what was measured, in Markdown, and where it was."""

from __future__ import annotations

import datetime
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]


class Row(NamedTuple):
    """A line of the table: what was measured, or why it was not.

    Attributes:
        part, what, precision: what it is.
        seconds: of each repetition; empty where nothing was measured.
        count, unit: how many of what a repetition makes, such as 256 patients.
        allocated, reserved: GB at the peak; None without a GPU.
        problem: why there is nothing.
    """

    part: str
    what: str
    precision: str
    seconds: tuple[float, ...] = ()
    count: int = 1
    unit: str = "steps"
    allocated: float | None = None
    reserved: float | None = None
    problem: str = ""

    @property
    def median(self) -> float:
        """The middle one of the seconds."""
        return statistics.median(self.seconds)


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown; each is compared with float32 of the same."""
    exact = {(r.part, r.what): r for r in rows if r.precision == "float32" and r.seconds}
    lines = [
        "| what | size | precision | seconds | a second | memory | reserved | against float32 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row.part, row.what, row.precision]
        if row.problem:
            # A bar would end the cell.
            cells += [row.problem.replace("|", "/"), "", "", "", ""]
        else:
            low, high = min(row.seconds), max(row.seconds)
            cells += [
                f"{row.median:.3g} ({low:.3g} to {high:.3g} in {len(row.seconds)})",
                f"{row.count / row.median:.3g} {row.unit}",
                "" if row.allocated is None else f"{row.allocated:.2f} GB",
                "" if row.reserved is None else f"{row.reserved:.2f} GB",
                _against(row, exact.get((row.part, row.what))),
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _against(row: Row, exact: Row | None) -> str:
    if exact is None or row.precision == "float32":
        return ""
    said = f"{row.median / exact.median:.2f} of the time"
    if row.allocated and exact.allocated:
        said += f", {row.allocated / exact.allocated:.2f} of the memory"
    return said


def provenance(device: torch.device, command: str, toy: bool) -> str:
    """Where, when and with what the table was made."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    name = "the processor"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name = f"{properties.name}, {properties.total_memory / 1e9:.1f} GB"
    lines = {
        "Device": name,
        "PyTorch": torch.__version__,
        "CUDA": torch.version.cuda or "none",
        "Command": f"`{command}`",
        "Commit": found.stdout.strip() or "not a git checkout",
        "Date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    text = "\n".join(f"- {name}: {value}" for name, value in lines.items())
    return text + ("\n- Toy sizes: these numbers say nothing" if toy else "")


def save(text: str, path: Path) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    Path(part).replace(path)
