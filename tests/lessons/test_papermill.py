"""papermill finds each lesson's parameters."""

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
