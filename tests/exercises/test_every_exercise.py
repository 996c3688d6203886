"""Every exercise of every lesson: right answers pass, each wrong idea gets its own diagnosis."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from long_runs import ASKED_FOR

from ehr_course.exercises import examine
from ehr_course.exercises.catalogue import all_exercises
from ehr_course.exercises.diagnose import same
from ehr_course.exercises.exercise import Exercise
from ehr_course.exercises.learner_code import call
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import answer_name, as_function, worked_answer

ROOT = Path(__file__).parents[2]
EXERCISES = {task.id: task for task in all_exercises() if isinstance(task, Exercise)}
MISCONCEPTIONS = [
    (exercise.id, name, number)
    for exercise in EXERCISES.values()
    for name, misconception in exercise.misconceptions.items()
    for number in range(len(misconception.changes))
]
REMARKS = [
    (exercise.id, name, number)
    for exercise in EXERCISES.values()
    for name, remark in exercise.remarks.items()
    for number in range(len(remark.changes or ()))
]
SEEDS = range(3)
"""Of the fresh inputs: a right answer has to be right with each of them."""

ONE_IN_TURN = {one: (place % len(SEEDS),) for place, one in enumerate(MISCONCEPTIONS)}
"""There are many wrong ideas: each is tried with one of the seeds, and in `.ci/extra` with all."""

each_exercise = pytest.mark.parametrize("exercise_id", EXERCISES)


def stub_of(exercise_id: str) -> str:
    """The lesson's cell without its call of check, with what it imports and defines besides."""
    (lesson,) = (ROOT / "lessons").glob(f"{exercise_id.partition('.')[0]}_*.py")
    cells = re.split(r"^# %%", lesson.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (cell,) = (cell for cell in cells if f'"exercise:{exercise_id}"' in cell)
    return cell.partition("\n")[2].rpartition("\ncheck(")[0]


@each_exercise
def test_the_worked_answer_is_solved(exercise_id: str) -> None:
    function = as_function(exercise_id, worked_answer(exercise_id))
    for seed in SEEDS:
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome is Outcome.SOLVED, str(result)


@each_exercise
def test_the_alternative_is_solved_perhaps_with_a_remark(exercise_id: str) -> None:
    function = as_function(exercise_id, worked_answer(exercise_id, "alternative"))
    for seed in SEEDS:
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome.is_solved, str(result)


@pytest.mark.parametrize(("exercise_id", "name", "number"), MISCONCEPTIONS)
def test_a_misconception_gets_its_own_diagnosis_and_no_other(
    exercise_id: str, name: str, number: int
) -> None:
    misconception = EXERCISES[exercise_id].misconceptions[name]
    function = EXERCISES[exercise_id].changed_answer(misconception.changes[number])
    for seed in SEEDS if os.environ.get(ASKED_FOR) else ONE_IN_TURN[exercise_id, name, number]:
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR)
        assert result.misconception == name, str(result)
        assert result.message == misconception.diagnosis


@pytest.mark.parametrize(("exercise_id", "name", "number"), REMARKS)
def test_a_remark_is_made_on_what_it_describes(exercise_id: str, name: str, number: int) -> None:
    remark = EXERCISES[exercise_id].remarks[name]
    function = EXERCISES[exercise_id].changed_answer(remark.changes[number])
    for seed in SEEDS:
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome is Outcome.REMARK, str(result)
        assert remark.remark in result.message


@each_exercise
def test_the_stub_of_the_lesson_is_not_attempted(exercise_id: str) -> None:
    result = examine(exercise_id, as_function(exercise_id, stub_of(exercise_id)))
    assert result.outcome is Outcome.NOT_ATTEMPTED


@each_exercise
def test_the_stub_says_which_types_are_asked_for(exercise_id: str) -> None:
    tree = ast.parse(stub_of(exercise_id))
    stubs = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    unfinished = [
        node for node in stubs if any(isinstance(inner, ast.Raise) for inner in node.body)
    ]
    assert unfinished
    for node in unfinished:
        arguments = [*node.args.args, *node.args.kwonlyargs]
        assert node.returns is not None, node.name
        named = [argument for argument in arguments if argument.arg != "self"]
        assert all(argument.annotation is not None for argument in named), node.name


@each_exercise
def test_an_exception_shows_the_learners_own_line(exercise_id: str) -> None:
    source, name = worked_answer(exercise_id), answer_name(exercise_id)
    node = next(n for n in ast.parse(source).body if getattr(n, "name", "") == name)
    if isinstance(node, ast.ClassDef):
        node = next(n for n in node.body if isinstance(n, ast.FunctionDef))
    lines, first = source.splitlines(), node.body[0]
    lines.insert(first.lineno - 1, " " * first.col_offset + "return misspelt_name")
    result = examine(exercise_id, as_function(exercise_id, "\n".join(lines)), seed=1)
    assert result.outcome is Outcome.ERROR
    assert "return misspelt_name" in dict(result.details)["your line"]


@each_exercise
def test_no_hint_is_the_answer(exercise_id: str) -> None:
    hints = EXERCISES[exercise_id].hints
    source = worked_answer(exercise_id)
    lines = {line.strip() for line in source.splitlines() if len(line.strip()) > 25}
    assert not any(line in hint for line in lines for hint in hints)


@each_exercise
def test_chosen_inputs_alone_tell_every_misconception_from_the_right_answer(
    exercise_id: str,
) -> None:
    exercise = EXERCISES[exercise_id]
    expected = [call(exercise.worked_answer, probe) for probe in exercise.chosen]
    for name, misconception in exercise.misconceptions.items():
        for change in misconception.changes:
            wrong = exercise.changed_answer(change)
            assert any(
                not same(right, call(wrong, probe), 1e-6)
                for right, probe in zip(expected, exercise.chosen, strict=True)
            ), name


def test_there_are_exercises_with_misconceptions() -> None:
    assert len(EXERCISES) >= 75
    assert len(MISCONCEPTIONS) >= 1230
