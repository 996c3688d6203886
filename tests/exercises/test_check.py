"""What a learner sees of check, hint and progress."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ehr_course.exercises import WrongAnswerError, check, examine, hint, progress, store
from ehr_course.exercises.compare import first_difference
from ehr_course.exercises.result import Outcome


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EHR_COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EHR_COURSE_RAISE", raising=False)
    monkeypatch.delenv("EHR_COURSE_RUN_LOG", raising=False)
    return tmp_path / "home"


def right(visits):
    return len({code for visit in visits for code in visit})


def stub(visits):
    raise NotImplementedError


def test_a_right_answer_is_solved_and_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    check("00.1", right)
    assert "00.1 How many different codes?: Solved" in capsys.readouterr().out
    assert store.read_standings()["00.1"].solved_at is not None


def test_a_stub_is_not_attempted_and_leaves_no_attempt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check("00.1", stub)
    assert "Not attempted yet" in capsys.readouterr().out
    assert store.read_standings() == {}


def test_a_library_call_that_is_not_implemented_is_an_error_not_a_stub() -> None:
    def answer(visits):
        return torch.empty(2, device="meta").tolist()

    assert examine("00.1", answer).outcome is Outcome.ERROR


def test_a_failure_can_be_repeated_by_the_seed_its_message_names() -> None:
    def answer(visits):
        return len(visits) if len(visits) > 3 else right(visits)

    failures = [examine("00.1", answer, seed=seed) for seed in range(10)]
    failed = next(result for result in failures if result.outcome is Outcome.NOT_YET)
    seed = int(failed.repeat.rpartition("seed=")[2].rstrip(")"))
    assert examine("00.1", answer, seed=seed) == failed


def test_random_inputs_differ_from_check_to_check() -> None:
    seen = []
    for _ in range(2):
        examine("00.1", lambda visits: seen.append(visits))
    assert seen[: len(seen) // 2] != seen[len(seen) // 2 :]


def test_an_unknown_mistake_gets_expected_and_actual_on_the_smallest_input() -> None:
    result = examine("00.1", lambda visits: right(visits) + 1, seed=0)
    assert result.misconception is None
    assert dict(result.details)["input"] == "visits = []"
    assert (dict(result.details)["expected"], dict(result.details)["got"]) == ("0", "1")


def test_a_forgotten_return_is_named() -> None:
    assert "return statement" in examine("00.1", lambda visits: None, seed=0).message


def test_a_call_instead_of_the_function_is_named() -> None:
    result = examine("00.1", right([["4280"]]))
    assert result.outcome is Outcome.NOT_YET
    assert "without parentheses" in result.message


def test_an_answer_that_changes_its_input_is_not_solved() -> None:
    def answer(visits):
        count = right(visits)
        visits.clear()
        return count

    result = examine("00.1", answer)
    assert result.outcome is Outcome.NOT_YET
    assert "changed its input" in result.message


def test_what_the_answer_prints_is_shown_with_the_failing_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(visits):
        print("visits:", len(visits))
        return -1

    result = examine("00.1", answer, seed=0)
    assert dict(result.details)["printed"] == "visits: 0"
    assert capsys.readouterr().out == ""


def test_an_error_in_a_helper_of_the_learner_shows_the_helpers_line() -> None:
    def helper(visits):
        return visits["first"]

    def answer(visits):
        return helper(visits)

    result = examine("00.1", answer, seed=0)
    assert result.outcome is Outcome.ERROR
    assert 'return visits["first"]' in dict(result.details)["your line"]


def test_an_error_inside_a_library_shows_the_line_that_called_it() -> None:
    def answer(visits):
        return np.concatenate(visits)

    line = dict(examine("00.1", answer, seed=0).details)["your line"]
    assert "return np.concatenate(visits)" in line


def test_wrong_parameters_are_an_error_that_says_so() -> None:
    result = examine("00.1", lambda: 1)
    assert result.outcome is Outcome.ERROR
    assert "parameters" in dict(result.details)["your line"]


def test_under_a_test_run_a_wrong_answer_raises_its_diagnosis(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EHR_COURSE_RAISE", "1")
    monkeypatch.setenv("EHR_COURSE_RUN_LOG", str(tmp_path / "log"))
    check("00.1", stub)
    check("00.1", right)
    with pytest.raises(WrongAnswerError, match="You counted the visits"):
        check("00.1", len)
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    outcomes = [(json.loads(line)["outcome"], json.loads(line)["name"]) for line in lines]
    assert outcomes == [("not attempted", None), ("solved", None), ("not yet", "counts_visits")]


@pytest.mark.parametrize("exercise_id", ["00.9", "99.1", "", 7.1, "07"])
def test_an_unknown_exercise_is_an_error_that_lists_the_known(exercise_id: object) -> None:
    with pytest.raises(ValueError, match=r"exercise"):
        check(exercise_id, right)


def test_html_and_text_say_the_same_and_html_is_escaped() -> None:
    result = examine("07.4", lambda ids, vocabulary: "<b>", seed=0)
    bundle = result._repr_mimebundle_()
    assert "&lt;b&gt;" in bundle["text/html"] and "<b>" not in bundle["text/html"]
    for text in (result.message, *(label for label, _ in result.details)):
        assert text in bundle["text/html"]
        assert text in " ".join(bundle["text/plain"].split())


def test_hints_come_one_after_the_other_and_then_the_last_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = []
    for _ in range(4):
        hint("00.1")
        shown.append(capsys.readouterr().out)
    assert [text.split(" for ")[0] for text in shown] == [
        "Hint 1 of 3",
        "Hint 2 of 3",
        "Hint 3 of 3",
        "Hint 3 of 3",
    ]
    with pytest.raises(ValueError, match="hints 1 to 3"):
        hint("00.1", 4)


def test_progress_lists_every_exercise_and_counts_the_solved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check("00.1", right)
    check("00.1", len)
    capsys.readouterr()
    progress()
    text = capsys.readouterr().out
    assert "00.1  How many different codes?" in text
    assert "1 of " in text
    row = next(line for line in text.splitlines() if line.startswith("00.1"))
    assert row.split()[-3:] == ["solved", "2", "0"]


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        ([1, 2], [1, 3], "value"),
        ([1, 2], [1], "length"),
        ([1], 1, "type"),
        (1, True, "type"),
        (True, 1, "type"),
        (0.5, 0.6, "value"),
        ({"a": 1}, {"b": 1}, "keys"),
        ("4280", 4280, "type"),
        (torch.ones(2), torch.ones(3), "shape"),
        (torch.ones(2), [1.0, 1.0], "type"),
        (torch.tensor([1, 0]), torch.tensor([1, 1]), "value"),
        (torch.tensor([0.5]), torch.tensor([1]), "type"),
        (None, 0, "type"),
    ],
)
def test_values_that_differ_are_told_apart(expected: object, actual: object, kind: str) -> None:
    assert first_difference(expected, actual, 1e-6).kind == kind


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([1, (2, 3)], (1, [2, 3])),
        (3, np.int64(3)),
        (0.1 + 0.2, 0.3),
        (float("nan"), float("nan")),
        (torch.tensor([1, 0]), torch.tensor([True, False])),
        ({"a": [1]}, {"a": (1,)}),
        (None, None),
        ({1, 2}, {2, 1}),
    ],
)
def test_values_that_are_equal_stay_equal(expected: object, actual: object) -> None:
    assert first_difference(expected, actual, 1e-6) is None
