"""papermill finds each lesson's parameters and runs it with another seed."""

from __future__ import annotations

import papermill
import pytest
from lesson_files import LESSONS, name

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=name)


@each_lesson
def test_a_lesson_declares_profile_and_seed(lesson):
    declared = papermill.inspect_notebook(lesson.with_suffix(".ipynb"))
    defaults = {parameter: about["default"] for parameter, about in declared.items()}
    assert defaults == {"PROFILE": '"tiny"', "SEED": "0"}


@each_lesson
def test_a_lesson_runs_with_another_seed(lesson, solved_run):
    executed = solved_run(lesson).executed
    injected = [c for c in executed.cells if "injected-parameters" in c.metadata.tags]
    assert [cell.source for cell in injected] == ["# Parameters\nSEED = 1\n"]
