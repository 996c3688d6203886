"""Lessons 16 and 17 as they stand, on the shorter dialogues of MTS-Dialog.

A step of training takes as long as its longest dialogue and its longest summary.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from long_runs import takes_minutes

from course.build import ROOT
from course.kernels import kernel_environment
from course.notebook import read_source, run

NOTES = (
    Path(__file__).resolve().parents[3]
    / "shared"
    / "data"
    / "mts-dialog"
    / "MTS-Dialog-TrainingSet.csv"
)

pytestmark = [
    takes_minutes,
    pytest.mark.skipif(
        not NOTES.is_file(), reason="MTS-Dialog is not at ../shared/data/mts-dialog"
    ),
]


@pytest.fixture(scope="module")
def shorter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of those with at most 90 words, and 40 in the summary: more than half of them."""
    table = pl.read_csv(NOTES)
    words = {name: pl.col(name).str.count_matches(r"\S+") for name in ("dialogue", "section_text")}
    kept = table.filter(words["dialogue"] <= 90, words["section_text"] <= 40)
    assert 2 * len(kept) > len(table)
    file = tmp_path_factory.mktemp("dialogues") / "shorter.csv"
    kept.write_csv(file)
    return file


@pytest.mark.parametrize(
    ("name", "says", "of_the_embedded"),
    [
        ("16_pointer_generator", "notes to learn from", "1,760 notes"),
        ("17_coverage_and_beam_search", "references that repeat", "repeat a trigram: 0.0%"),
    ],
)
def test_every_cell_runs_and_every_claim_holds_on_dialogues(
    name: str, says: str, of_the_embedded: str, shorter: Path, tmp_path: Path, quick_kernels: None
) -> None:
    notebook = read_source(ROOT / "lessons" / f"{name}.py")
    run(notebook, tmp_path, kernel_environment(tmp_path, EHR_COURSE_NOTES=str(shorter)))
    printed = "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    )
    assert says in printed
    assert of_the_embedded not in printed
