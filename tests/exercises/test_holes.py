"""Answers that were once misjudged (`holes.yml`): wrong ones are told why, right ones pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ehr_course.exercises import examine
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

HOLES = yaml.safe_load(Path(__file__).with_name("holes.yml").read_text(encoding="utf-8"))
ROWS = [
    pytest.param(exercise_id, row, id=f"{exercise_id}-{number}")
    for exercise_id, rows in HOLES.items()
    for number, row in enumerate(rows)
]


@pytest.mark.parametrize(("exercise_id", "row"), ROWS)
def test_an_answer_gets_its_outcome_and_is_told_why(exercise_id: str, row: dict[str, Any]) -> None:
    source = row.get("source") or changed(worked_answer(exercise_id), row["change"])
    answer = as_function(exercise_id, source + "\n")
    for seed in range(4):
        result = examine(exercise_id, answer, seed=seed)
        assert result.outcome == row.get("outcome", Outcome.NOT_YET), str(result)
        raised = dict(result.details).get("raised", "")
        told = row.get("told", "")
        assert told == result.misconception or told in result.message + raised, str(result)
        assert "untold" not in row or row["untold"] not in result.message
