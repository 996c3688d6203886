"""Every exercise of every lesson: right answers pass, each wrong idea gets its own diagnosis."""

import importlib

import pytest
from worked import cells_tagged, change, function_in, setup_of

from ehr_course.exercises import examine
from ehr_course.exercises.catalogue import all_exercises, lessons_with_exercises
from ehr_course.exercises.result import Outcome

EXERCISES = {exercise.id: exercise for exercise in all_exercises()}
WRONG = {
    exercise_id: edits
    for lesson in lessons_with_exercises()
    for exercise_id, edits in importlib.import_module(f"wrong_{lesson}").WRONG.items()
}
MISCONCEPTIONS = [
    (exercise.id, misconception.name)
    for exercise in EXERCISES.values()
    for misconception in exercise.misconceptions
]
SEEDS = range(3)


def lesson_of(exercise_id: str) -> str:
    return exercise_id.partition(".")[0]


def worked(exercise_id: str, kind: str = "answer") -> str:
    return cells_tagged("solutions", lesson_of(exercise_id), kind)[exercise_id]


@pytest.mark.parametrize("exercise_id", EXERCISES)
@pytest.mark.parametrize("kind", ["answer", "alternative"])
def test_the_worked_answer_and_its_alternative_are_solved(exercise_id: str, kind: str) -> None:
    function = function_in(worked(exercise_id, kind), setup_of(lesson_of(exercise_id)))
    for seed in SEEDS:
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome is Outcome.SOLVED, str(result)


@pytest.mark.parametrize(("exercise_id", "name"), MISCONCEPTIONS)
def test_a_misconception_gets_its_own_diagnosis_and_no_other(exercise_id: str, name: str) -> None:
    source = change(worked(exercise_id), *WRONG[exercise_id][name])
    function = function_in(source, setup_of(lesson_of(exercise_id)))
    (expected,) = (m for m in EXERCISES[exercise_id].misconceptions if m.name == name)
    for seed in SEEDS:
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR)
        assert result.misconception == name, str(result)
        assert result.message == expected.diagnosis


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_wrong_answers_stand_for_every_misconception_and_for_nothing_else(
    exercise_id: str,
) -> None:
    names = [misconception.name for misconception in EXERCISES[exercise_id].misconceptions]
    assert sorted(WRONG[exercise_id]) == sorted(names)
    assert len(names) == len(set(names)) >= 3


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_the_stub_of_the_lesson_is_not_attempted(exercise_id: str) -> None:
    stub = cells_tagged("lessons", lesson_of(exercise_id), "exercise")[exercise_id]
    result = examine(exercise_id, function_in(stub, setup_of(lesson_of(exercise_id))))
    assert result.outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_an_exception_shows_the_learners_own_line(exercise_id: str) -> None:
    source = worked(exercise_id)
    head, _, body = source.partition(":\n")
    broken = f"{head}:\n    return misspelt_name\n{body}"
    function = function_in(broken, setup_of(lesson_of(exercise_id)))
    result = examine(exercise_id, function, seed=1)
    assert result.outcome is Outcome.ERROR
    assert "return misspelt_name" in dict(result.details)["your line"]


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_hints_are_two_or_three_and_none_is_the_answer(exercise_id: str) -> None:
    hints = EXERCISES[exercise_id].hints
    assert len(hints) in (2, 3)
    lines = {line.strip() for line in worked(exercise_id).splitlines() if len(line.strip()) > 25}
    assert not any(line in hint for line in lines for hint in hints)


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_chosen_inputs_alone_tell_every_misconception_from_the_right_answer(
    exercise_id: str,
) -> None:
    from ehr_course.exercises.examine import same
    from ehr_course.exercises.learner_code import call

    exercise = EXERCISES[exercise_id]
    for misconception in exercise.misconceptions:
        assert any(
            not same(call(exercise.reference, probe), call(misconception.wrong, probe), 1e-6)
            for probe in exercise.chosen
        ), misconception.name
