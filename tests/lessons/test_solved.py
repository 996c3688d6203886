"""Every lesson runs with another seed and with its worked answers, each of them once.

What looks at such a run stands in this one file, so that tests that are shared out by files do
not run a lesson twice. The slow lessons run so in `.ci/extra`. Of them every run of the tests sees
the same cells with the usual seed, under nbval, where each widget has to be live too; each worked
answer with its check, in tests/exercises; and in test_answers.py that it fits its lesson.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
import pytest
from lesson_files import LESSONS, ROOT, name, number, tags, with_answers
from long_runs import takes_minutes
from nbformat import NotebookNode

from course.kernels import kernel_environment
from course.syllabus import load_syllabus
from course.work_sharing import read_lesson_times

QUICK = 27
"""A lesson of at most so many seconds, in the book's table of times, runs here every time."""


def with_mark(lesson: Path, times: dict[str, int]) -> object:
    """The lesson as a parameter, marked where it takes minutes."""
    slow = times.get(lesson.stem, 0) > QUICK
    return pytest.param(lesson, marks=takes_minutes) if slow else lesson


each_lesson = pytest.mark.parametrize(
    "lesson", [with_mark(lesson, read_lesson_times(ROOT)) for lesson in LESSONS], ids=name
)

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

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


@pytest.fixture(scope="module")
def solved_run(
    tmp_path_factory: pytest.TempPathFactory, quick_kernels: None
) -> Callable[[Path], SolvedRun]:
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


@each_lesson
def test_a_lesson_runs_with_another_seed(lesson, solved_run):
    executed = solved_run(lesson).executed
    injected = [c for c in executed.cells if "injected-parameters" in c.metadata.tags]
    assert [cell.source for cell in injected] == ["# Parameters\nSEED = 1\n"]


@each_lesson
def test_every_worked_answer_is_solved_in_its_lesson(lesson, solved_run):
    (about,) = [one for one in load_syllabus() if one.number == number(lesson)]
    checks = solved_run(lesson).checks
    not_solved = [check for check in checks if check["outcome"] != "solved"]
    assert not_solved == []
    assert [check["exercise"] for check in checks] == [exercise.id for exercise in about.exercises]


@each_lesson
def test_every_widget_is_live_where_a_kernel_runs(lesson, solved_run):
    for cell in (cell for cell in solved_run(lesson).executed.cells if "widget" in tags(cell)):
        assert any(WIDGET_VIEW in output.get("data", {}) for output in cell.outputs), cell.source


def test_some_lessons_are_quick_enough_to_run_here_every_time():
    times = read_lesson_times(ROOT)
    assert sum(times[lesson.stem] <= QUICK for lesson in LESSONS) >= 3
