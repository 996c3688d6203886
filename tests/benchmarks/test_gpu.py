"""The benchmark for a GPU: all of it runs at toy size on the processor."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    """The benchmark's module, which is a script."""
    specification = importlib.util.spec_from_file_location("gpu", BENCHMARKS / "gpu.py")
    module = importlib.util.module_from_spec(specification)
    before = sys.path[:]
    sys.modules["gpu"] = module  # its dataclasses look themselves up
    try:
        specification.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = before
        del sys.modules["gpu"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine tests what a machine without a GPU does."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_everything_is_measured_at_toy_size(gpu: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "new" / "toy.md"
    assert gpu.main(["--toy", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    rows = rows_of(text)
    for what in (
        "PromptBart, a training step",
        "Pointer-generator, a training step",
        "Patients a second",
        "Beam search",
    ):
        assert {"float32", "float16", "bfloat16"} == {row[2] for row in rows if row[0] == what}
    assert any("literal loop" in row[1] and row[2] == "float16" for row in rows)
    for row in rows:
        assert len(row) == 8
        assert float(row[3].split()[0]) > 0, row
        assert (row[7] != "") == (row[2] != "float32"), row
    for line in ("Device: the processor", "Command: `python benchmarks/gpu.py --toy", "Date: 20"):
        assert f"- {line}" in text
    assert "these numbers say nothing" in text
    assert [path.name for path in out.parent.iterdir()] == ["toy.md"]


def test_without_a_gpu_nothing_is_measured_at_full_size(
    gpu: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "full.md"
    with pytest.raises(SystemExit) as stopped:
        gpu.main(["--out", str(out)])
    assert stopped.value.code == 2
    assert "there is no GPU here; --toy runs everything" in capsys.readouterr().err
    assert not out.exists()


def jobs(gpu: ModuleType, error: Exception):
    def fails(sizes: object, device: torch.device):
        def prepare():
            raise error

        for precision in ("float32", "float16"):
            yield gpu.Job("A part", "of a size", precision, 1, "steps", prepare)

    return fails


@pytest.mark.parametrize(
    ("error", "said", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "out of memory", 0),
        (ValueError("wrong | shape\nand more"), "failed: ValueError: wrong / shape", 1),
    ],
    ids=["memory", "another error"],
)
def test_what_fails_is_a_row_and_the_others_are_measured(
    gpu: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    said: str,
    status: int,
) -> None:
    out = tmp_path / "toy.md"
    monkeypatch.setattr(gpu, "PARTS", (jobs(gpu, error), gpu.search_jobs))
    assert gpu.main(["--toy", "--out", str(out)]) == status
    rows = rows_of(out.read_text(encoding="utf-8"))
    assert [row[3] for row in rows[:2]] == [said, said]
    assert len(rows) == 2 + len(gpu.PRECISIONS)
    assert all(len(row) == 8 for row in rows)
    assert all(float(row[3].split()[0]) > 0 for row in rows[2:])


def test_what_is_not_reached_in_time_says_so(gpu: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "toy.md"
    assert gpu.main(["--toy", "--minutes", "0", "--out", str(out)]) == 0
    assert {row[3] for row in rows_of(out.read_text(encoding="utf-8"))} == {"not reached in time"}


def test_the_sizes_are_those_of_the_sources(gpu: ModuleType) -> None:
    sizes = gpu.FULL
    assert sizes.codes + 7 == 6_992
    assert sizes.profile == "full"
    assert (sizes.source, sizes.target, sizes.pointer) == (768, 192, {})
    assert 1 in sizes.notes
    assert (sizes.searched, sizes.search_tokens) == (8, 256)
