from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
import pytest
from lesson_files import with_answers
from nbformat import NotebookNode

from course.kernels import kernel_environment

OTHER_SEED = 1


@dataclass(frozen=True)
class SolvedRun:
    """A lesson that papermill ran with another seed and with the worked answers filled in.

    Attributes:
        notebook: what ran, as far as it came.
        checks: one entry a check, in order.
        error: what ended the run early, or None.
    """

    notebook: NotebookNode | None
    checks: list[dict]
    error: Exception | None

    @property
    def executed(self) -> NotebookNode:
        """The notebook that ran to its end; fails with the last line of what stopped it."""
        if self.error is not None:
            pytest.fail(str(self.error).strip().splitlines()[-1], pytrace=False)
        return self.notebook


@pytest.fixture(scope="session")
def solved_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], SolvedRun]:
    """Return a function that runs a lesson solved; each lesson is run once."""
    runs: dict[Path, SolvedRun] = {}

    def run(lesson: Path) -> SolvedRun:
        if lesson not in runs:
            runs[lesson] = run_solved(lesson, tmp_path_factory.mktemp(lesson.stem))
        return runs[lesson]

    return run


def run_solved(lesson: Path, folder: Path) -> SolvedRun:
    solved, executed, log = folder / "solved.ipynb", folder / "executed.ipynb", folder / "log"
    nbformat.write(with_answers(lesson), solved)
    error = None
    environment = kernel_environment(folder / "home", EHR_COURSE_RUN_LOG=str(log))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MPLBACKEND", raising=False)
        for variable, value in environment.items():
            patch.setenv(variable, value)
        try:
            papermill.execute_notebook(
                solved,
                executed,
                parameters={"SEED": OTHER_SEED},
                cwd=lesson.parent,
                progress_bar=False,
            )
        except Exception as raised:
            error = raised
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    notebook = nbformat.read(executed, as_version=4) if executed.exists() else None
    return SolvedRun(notebook, [json.loads(line) for line in lines], error)
