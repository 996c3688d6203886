"""Two mistakes at once, what is visible, remarks, and a teacher's own misconceptions."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.exercises import examine
from ehr_course.exercises.catalogue import all_exercises, find_exercise
from ehr_course.exercises.diagnose import RANKING_INPUTS, diagnose, same
from ehr_course.exercises.exercise import Exercise
from ehr_course.exercises.learner_code import call_own
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

# ------------------------------------------------------------------ two mistakes at once

PAIRS = {
    "00.1": ("first_visit_only", "counts_categories"),
    "07.4": ("pads_left", "mask_first"),
    "08.3": ("order_by_hadm_id", "seq_num_ignored"),
    "09.1": ("forgets_the_clamp", "rounds"),
    "10.1": ("sorts_everything", "in_percent"),
    "11.1": ("no_scale", "returns_the_weights"),
    "12.4": ("prompt_last", "zeros_for_prompts"),
    "13.2": ("bound_belongs_below", "counts_from_one"),
    "14.2": ("mean_over_the_vocabulary", "opposite_sign"),
    "15.1": ("begins_at_zero", "rises_again"),
    "16.3": ("p_gen_swapped", "outside_left_out"),
    "17.2": ("product_for_minimum", "mean_over_the_source"),
    "18.4": ("without_tanh", "mean_of_the_tokens"),
    "19.3": ("first_visits_alone", "counts"),
}


@pytest.fixture
def time_enough(monkeypatch) -> None:
    """Look for a pair as long as it takes, also on a slow machine."""
    searched = importlib.import_module("ehr_course.exercises.diagnose")
    monkeypatch.setattr(searched, "PAIR_SECONDS", 60.0)


def test_every_lesson_has_a_pair() -> None:
    lessons = {task.id.partition(".")[0] for task in all_exercises() if isinstance(task, Exercise)}
    assert {exercise.partition(".")[0] for exercise in PAIRS} == lessons


@pytest.mark.usefixtures("time_enough")
@pytest.mark.parametrize(("exercise_id", "names"), PAIRS.items(), ids=PAIRS)
def test_two_mistakes_at_once_get_both_diagnoses(exercise_id: str, names: tuple[str, str]) -> None:
    exercise = find_exercise(exercise_id)
    first, second = (exercise.misconceptions[name] for name in names)
    both = exercise.changed_answer(first.changes[0], second.changes[0])
    for seed in range(3):
        result = examine(exercise_id, both, seed=seed)
        assert result.outcome in (Outcome.NOT_YET, Outcome.ERROR)
        assert set(result.misconception.split(" + ")) == set(names)
        assert first.diagnosis in result.message and second.diagnosis in result.message
        assert result.message.startswith("Two mistakes at once. ")


@pytest.mark.usefixtures("time_enough")
@pytest.mark.parametrize(("exercise_id", "names"), PAIRS.items(), ids=PAIRS)
def test_the_input_that_is_shown_is_one_on_which_both_mistakes_act(
    exercise_id: str, names: tuple[str, str]
) -> None:
    exercise = find_exercise(exercise_id)
    changes = [exercise.misconceptions[name].changes[0] for name in names]
    both = exercise.changed_answer(*changes)
    probes = exercise.probes(0)
    calls = [call_own(both, probe) for probe in probes]
    right = [call_own(exercise.worked_answer, probe) for probe in probes]
    alone = [
        [call_own(exercise.changed_answer(change), probe) for probe in probes]
        for change in changes
    ]
    differ = [
        [not same(left, made, exercise.tolerance) for left, made in zip(of, calls, strict=True)]
        for of in (right, *alone)
    ]
    failing = [i for i, wrong in enumerate(differ[0]) if wrong]
    found = diagnose(exercise, probes, calls, failing)
    assert found is not None and found.shown in failing
    on_both = [i for i in failing[:RANKING_INPUTS] if differ[1][i] and differ[2][i]]
    assert found.shown == (on_both or failing)[0]


def test_a_pair_is_only_named_where_it_does_what_the_answer_did() -> None:
    def answer(visits, code_ids):  # codes sorted, and no <EOS>, but only with three visits
        ids = [1]
        for visit in visits:
            codes = [code_ids[code] for code in visit]
            ids += [3, *(sorted(codes) if len(visits) == 3 else codes), 4]
        return ids if len(visits) == 3 else [*ids, 2]

    assert examine("07.2", answer, seed=0).misconception is None


# ------------------------------------------------------------------ what is visible


def changed_by(exercise_id: str, spoil: Callable[[Any], Any]) -> Callable[..., Any]:
    """A right answer whose value is spoilt in a way that is no known misconception."""
    right = as_function(exercise_id, worked_answer(exercise_id))
    return lambda *arguments: spoil(right(*arguments))


def with_padding_in_the_scores(query, states, mask, w_h, w_d, v):
    right = as_function("16.1", worked_answer("16.1"))
    scores, context = right(query, states, mask, w_h, w_d, v)
    return scores, context + 0.125 * states.std(dim=1, correction=0)


@pytest.mark.parametrize(
    ("exercise_id", "answer", "seen"),
    [
        ("16.8", changed_by("16.8", lambda r: r**1.5), "sums to "),
        ("16.3", changed_by("16.3", lambda r: r * 0.5), "is to be a distribution"),
        ("16.1", changed_by("16.1", lambda r: (r[0], r[1] / 0)), "Your value is "),
        ("14.3", changed_by("14.3", lambda r: [x * math.nan for x in r]), "Your value is nan"),
        ("16.1", with_padding_in_the_scores, "depends on padding: another number at states"),
        ("12.1", changed_by("12.1", lambda r: r.flip(-1)), "the right ones, in another order"),
        ("12.1", changed_by("12.1", lambda r: r.flatten()), "right, in another shape: expected"),
        ("11.1", changed_by("11.1", lambda r: r.T.contiguous()), "exchanged"),
        ("12.1", changed_by("12.1", lambda r: -r), "has the opposite sign"),
        ("12.1", changed_by("12.1", lambda r: r * 3), "is 3 times the right one"),
        ("12.1", changed_by("12.1", lambda r: r + 2.5), "is 2.5 above the right one"),
        ("12.1", changed_by("12.1", lambda r: r * 0), "are all 0"),
        (
            "10.4",
            changed_by("10.4", lambda r: r * 3),
            "On every input, your value is 3 times the right",
        ),
        (
            "00.1",
            changed_by("00.1", lambda r: r + 7),
            "On every input, your value is 7 above the right",
        ),
        ("07.5", changed_by("07.5", lambda r: [*r, "zz"]), "'zz' is in your result, and scores"),
        ("07.5", changed_by("07.5", lambda r: [*r[1:], r[0]]), "The items of your result are"),
        ("07.4", changed_by("07.4", lambda r: (r[0].bool(), r[1])), "torch.bool"),
    ],
)
def test_what_is_visible_is_said_before_the_difference(
    exercise_id: str, answer: Callable[..., Any], seen: str
) -> None:
    messages = []
    for seed in range(3):
        result = examine(exercise_id, answer, seed=seed)
        assert result.outcome is Outcome.NOT_YET
        assert result.misconception is None
        messages.append(result.message)
    assert any(seen in message for message in messages), messages


def test_a_cut_gradient_is_said() -> None:
    diagnosing = importlib.import_module("ehr_course.exercises.diagnose")
    weight = torch.ones(2, requires_grad=True)
    pair = diagnosing.Pair("[0]", weight * 2, torch.full((2,), 3.0))
    assert "No gradient can flow through your result[0]" in diagnosing._without_gradient(pair)


# ------------------------------------------------------------------ remarks


@pytest.mark.parametrize(
    ("exercise_id", "spoil", "words"),
    [
        ("12.1", lambda r: r.numpy(), "NumPy array where the task asks for a tensor"),
        ("07.4", lambda r: tuple(x.numpy() for x in r), "NumPy array where the task asks"),
        ("07.2", np.array, "tolist"),
        ("07.2", torch.tensor, "tolist"),
    ],
)
def test_right_values_in_another_container_are_solved_with_a_remark(
    exercise_id: str, spoil: Callable[[Any], Any], words: str
) -> None:
    result = examine(exercise_id, changed_by(exercise_id, spoil), seed=0)
    assert result.outcome is Outcome.REMARK and words in result.message, str(result)
    assert result.outcome.is_solved and "Solved, with a remark" in str(result)


def test_wrong_values_in_another_container_are_not_solved() -> None:
    result = examine("12.1", changed_by("12.1", lambda r: r.numpy() + 1), seed=0)
    assert result.outcome is Outcome.NOT_YET


# ------------------------------------------------------------------ a teacher's own

OWN = """\
"07.1":
  misconceptions:
    starts_at_a_hundred:
      diagnosis: Your ids begin at 100.
      change: {"7 + ": "100 + "}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a teacher's file, and have it read."""
    monkeypatch.setenv("EHR_COURSE_MISCONCEPTIONS", str(tmp_path))

    def write(text: str) -> Path:
        path = tmp_path / "my_class.yml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def starts_at_a_hundred(code, vocabulary):
    return 100 + vocabulary.index(code)


def test_a_teachers_own_misconception_is_recognised(own: Callable[[str], Path]) -> None:
    assert examine("07.1", starts_at_a_hundred, seed=0).misconception is None
    own(OWN)
    result = examine("07.1", starts_at_a_hundred, seed=0)
    assert result.misconception == "starts_at_a_hundred"
    assert result.message == "Your ids begin at 100."
    known = find_exercise("07.1").misconceptions
    assert list(known)[-1] == "starts_at_a_hundred" and "forgets_offset" in known


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"7 + "', '"8 + "', r"line 5, .*stands 0 times in the worked answer"),
        ("change:", "changes:", r"line 5, .*changes.*spelling"),
        ("07.1", "07.9", r"line 1, 07\.9: there is no such exercise"),
        ("07.1", "06.1", r"line 1, 06\.1: there is no such lesson"),
        ("starts_at_a_hundred", "forgets_offset", r"line 3, .*of this name"),
        ("starts_at_a_hundred", "not a name", r"line 2, .*'not a name' is not a name"),
        ('"100 + "', '"100 + ("', r"line 5, .*does not run \(SyntaxError"),
        ("diagnosis: Your ids begin at 100.", "diagnosis: ''", r"line 4, .*at least 1 char"),
    ],
)
def test_what_is_wrong_in_a_teachers_file_is_named_by_file_and_line(
    own: Callable[[str], Path], old: str, new: str, message: str
) -> None:
    path = own(OWN.replace(old, new))
    with pytest.raises(InputError, match=f"^{path}, {message}"):
        examine("07.1", starts_at_a_hundred, seed=0)


def test_a_teachers_folder_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EHR_COURSE_MISCONCEPTIONS", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="nowhere: there is no such folder"):
        examine("07.1", starts_at_a_hundred, seed=0)


# ------------------------------------------------------------------ changes


def test_a_change_is_made_to_a_text_that_stands_once() -> None:
    assert changed("a = b\nc = b\n", {"a = b": "a = d", "c = b": "c = a"}) == "a = d\nc = a\n"
    for text, count in (("b", 2), ("x", 0)):
        with pytest.raises(ValueError, match=f"stands {count} times"):
            changed("a = b\nc = b\n", {text: "d"})


def test_no_two_misconceptions_of_an_exercise_are_the_same_change() -> None:
    for exercise in (task for task in all_exercises() if isinstance(task, Exercise)):
        changes = [
            tuple(change.items())
            for misconception in exercise.misconceptions.values()
            for change in misconception.changes
        ]
        assert len(changes) == len(set(changes)), exercise.id
