"""papermill finds the parameters of each lesson, and of the notebook beside them."""

from __future__ import annotations

import papermill
import pytest
from lesson_files import LESSONS, WHAT_HOLDS, name

each_lesson = pytest.mark.parametrize("lesson", [*LESSONS, WHAT_HOLDS], ids=name)


@each_lesson
def test_a_lesson_declares_profile_and_seed(lesson):
    declared = papermill.inspect_notebook(lesson.with_suffix(".ipynb"))
    defaults = {parameter: about["default"] for parameter, about in declared.items()}
    assert defaults == {"PROFILE": '"tiny"', "SEED": "0"}
