"""Lessons 16 and 17 as they stand, on the dialogues of MTS-Dialog."""

from __future__ import annotations

from pathlib import Path

import pytest

from course.build import ROOT, read_source, run
from course.kernels import kernel_environment

NOTES = (
    Path(__file__).resolve().parents[3]
    / "shared"
    / "data"
    / "mts-dialog"
    / "MTS-Dialog-TrainingSet.csv"
)

pytestmark = pytest.mark.skipif(
    not NOTES.is_file(), reason="MTS-Dialog is not at ../shared/data/mts-dialog"
)


@pytest.mark.parametrize("name", ["16_pointer_generator", "17_coverage_and_beam_search"])
def test_every_cell_runs_and_every_claim_holds_on_dialogues(name: str, tmp_path: Path) -> None:
    notebook = read_source(ROOT / "lessons" / f"{name}.py")
    run(notebook, tmp_path, kernel_environment(tmp_path, EHR_COURSE_NOTES=str(NOTES)))
    printed = "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    )
    # 1,118 pairs are long enough; nine tenths or eight tenths of them are learned from.
    assert "notes to learn from" in printed
    assert "2,200" not in printed
