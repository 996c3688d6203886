"""Lesson 08 as it stands, and its section of What holds, on the MIMIC-III demo."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat import NotebookNode

from course.build import ROOT
from course.kernels import kernel_environment
from course.notebook import read_source, run

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"

pytestmark = pytest.mark.skipif(
    not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory, quick_kernels: None) -> NotebookNode:
    notebook = read_source(ROOT / "lessons" / "08_data_loading.py")
    home = tmp_path_factory.mktemp("home")
    run(notebook, home, kernel_environment(home, EHR_COURSE_DATA=str(DEMO)))
    return notebook


@pytest.fixture(scope="module")
def what_holds(tmp_path_factory: pytest.TempPathFactory, quick_kernels: None) -> NotebookNode:
    notebook = read_source(ROOT / "lessons" / "what_holds.py")
    next_lesson = [cell.source.startswith("## 09 ") for cell in notebook.cells].index(True)
    notebook.cells = notebook.cells[:next_lesson]
    home = tmp_path_factory.mktemp("home")
    run(notebook, home, kernel_environment(home, EHR_COURSE_DATA=str(DEMO)))
    return notebook


def printed(lesson: NotebookNode, tag: str) -> str:
    (cell,) = [cell for cell in lesson.cells if tag in cell.metadata.get("tags", [])]
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("claim:4", "41 of 100 ages differ"),
        ("claim:5", "8 of 100 patients are above 89\nlargest raw age: 300"),
        ("claim:7", "71 rows: the code has lost a leading zero"),
        ("claim:8", "104 different codes, 30.1% of the codes in validation and test"),
    ],
)
def test_a_claim_is_measured_on_the_demo(lesson: NotebookNode, claim: str, expected: str) -> None:
    assert expected in printed(lesson, claim)


def test_what_holds_is_measured_on_the_demo(what_holds: NotebookNode) -> None:
    categories = "275 categories; cut to three characters: 263"
    assert categories in printed(what_holds, "claim:9")
    assert "subject 10006: F, 70, [21] codes" in printed(what_holds, "claim:10")
