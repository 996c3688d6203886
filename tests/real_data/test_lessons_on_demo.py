"""Lessons 09 to 15, 19 and 20, as they stand, on the patients of the MIMIC-III demo."""

from __future__ import annotations

from pathlib import Path

import pytest
from long_runs import takes_minutes

from course.build import ROOT
from course.kernels import kernel_environment
from course.notebook import read_source, run

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"

pytestmark = [
    takes_minutes,
    pytest.mark.skipif(
        not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
    ),
]


@pytest.mark.parametrize(
    ("name", "patients"),
    [
        ("09_corruption", 100),
        ("10_data_flow", 100),
        ("11_model_architecture", 100),
        ("12_conditional_prompt", 100),
        ("13_multi_task_learning", 80),  # those to learn from
        ("14_loss_functions", 100),
        ("15_training_loop", 80),
        ("19_generation_and_evaluation", 100),
        ("20_your_own_study", 100),
    ],
)
def test_every_cell_runs_and_every_claim_holds_on_the_demo(
    name: str, patients: int, tmp_path: Path, quick_kernels: None
) -> None:
    notebook = read_source(ROOT / "lessons" / f"{name}.py")
    run(notebook, tmp_path, kernel_environment(tmp_path, EHR_COURSE_DATA=str(DEMO)))
    printed = "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    )
    assert f"{patients} patients" in printed
