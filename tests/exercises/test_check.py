"""What a learner sees of check, hint and progress."""

import contextlib
import importlib
import itertools
import json
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
import torch

from ehr_course.exercises import (
    WrongAnswerError,
    check,
    examine,
    hint,
    learner_code,
    progress,
    store,
)
from ehr_course.exercises.catalogue import all_exercises
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
    assert "00.1 How many different codes? · Solved" in capsys.readouterr().out
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
    assert dict(result.details)["input"] == "visits = [['0389']]"
    assert (dict(result.details)["expected"], dict(result.details)["got"]) == ("1", "2")


def test_a_forgotten_return_is_named() -> None:
    assert "return statement" in examine("00.1", lambda visits: None, seed=0).message


def test_printing_instead_of_returning_is_named() -> None:
    message = examine("00.1", lambda visits: print(right(visits)), seed=0).message
    assert "printed something and returned None" in message


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


def test_a_wrong_value_from_a_changed_input_says_both() -> None:
    def answer(visits):
        visits.clear()
        return len(visits)

    result = examine("00.1", answer, seed=0)
    assert ("besides", "your function changed its input") in result.details


def test_what_outlives_a_call_is_named() -> None:
    seen, shared = set(), []

    def accumulates(visits):
        seen.update(code for visit in visits for code in visit)
        return len(seen)

    def empties_one_list(visits, code_ids):
        shared.clear()
        shared.append(1)
        for visit in visits:
            shared.extend([3, *(code_ids[code] for code in visit), 4])
        shared.append(2)
        return shared

    assert examine("00.1", accumulates, seed=0).misconception == "remembers_earlier_calls"
    assert examine("07.2", empties_one_list, seed=0).misconception == "remembers_earlier_calls"


def test_an_exception_on_every_input_gets_no_diagnosis() -> None:
    def answer(ids, vocabulary):
        return [][0]

    result = examine("07.3", answer, seed=0)
    assert (result.outcome, result.misconception) == (Outcome.ERROR, None)


def test_an_answer_that_exits_has_raised() -> None:
    result = examine("00.1", lambda visits: sys.exit(3), seed=0)
    assert result.outcome is Outcome.ERROR
    assert dict(result.details)["raised"] == "SystemExit: 3"


def test_the_learners_own_interrupt_passes_through() -> None:
    def answer(visits):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        examine("00.1", answer)


@pytest.fixture
def short_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ehr_course.exercises.examine")
    monkeypatch.setattr(module, "SECONDS_A_CALL", 0.2)


@pytest.mark.usefixtures("short_of_time")
def test_an_answer_that_never_ends_is_stopped_and_its_line_is_shown() -> None:
    end = time.monotonic() + 30

    def answer(visits):
        while time.monotonic() < end:
            visits = list(visits)

    result = examine("00.1", answer, seed=0)
    assert (result.outcome, result.misconception) == (Outcome.NOT_YET, "takes_too_long")
    assert " of answer:  " in dict(result.details)["stopped at"]


@pytest.mark.usefixtures("short_of_time")
@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_an_answer_is_stopped_although_the_process_ignores_interrupts(
    before: signal.Handlers,
) -> None:
    def answer(visits):
        end = time.monotonic() + 5
        while time.monotonic() < end:
            visits = list(visits)

    handler = signal.signal(signal.SIGINT, before)
    try:
        result = examine("00.1", answer, seed=0)
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, handler)
    assert result.misconception == "takes_too_long"


@pytest.mark.usefixtures("short_of_time")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_answer_is_stopped_although_an_interrupt_is_lost_in_a_finaliser() -> None:
    class Slow:
        def __del__(self):
            time.sleep(0.4)  # the first interrupt arrives here, where Python drops it

    def answer(visits):
        Slow()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            visits = list(visits)

    assert examine("00.1", answer, seed=0).misconception == "takes_too_long"


def endless() -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass


def catching(*, times: int) -> None:
    """Catch every interrupt in a loop, and the interrupts of that in a loop around it."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(BaseException):
            catching(times=times - 1) if times else time.sleep(0.001)


def handler_and_threads() -> tuple[object, int]:
    for _ in range(1000):  # an interrupt that was still to come would arrive here
        pass
    return signal.getsignal(signal.SIGINT), threading.active_count()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("answer", [int, endless, partial(catching, times=2)])
def test_many_calls_leave_nothing_behind(answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_code, "SECONDS_TO_THE_NEXT_INTERRUPT", 0.0)
    before = handler_and_threads()
    for _ in range(40):
        made = learner_code.call(answer, (), seconds=0.001)
        assert made.value == 0 or isinstance(made.error, learner_code.NotFinishedError)
        assert handler_and_threads() == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("answer", "seconds"), [(int, 20.0), (endless, 0.005)])
def test_an_interrupt_at_any_line_of_a_call_is_raised_once(answer, seconds: float) -> None:
    """After the limit it counts as sent by the call, before it as the learner's own."""
    own = {module.__file__ for module in (learner_code, signal, threading)}
    before, trace = handler_and_threads(), sys.gettrace()
    for line in itertools.count(1):
        left = line

        def interrupt(frame: FrameType, event: str, _: object):
            nonlocal left
            if frame.f_code.co_filename not in own or frame.f_code.co_name == "close":
                return None  # close runs in a finaliser, where Python drops an interrupt
            left -= event == "line"
            if left == 0 and event == "line":
                signal.raise_signal(signal.SIGINT)
            return interrupt

        error: BaseException | None = None
        try:
            sys.settrace(interrupt)
            error = learner_code.call_own(answer, (), seconds=seconds).error
        except KeyboardInterrupt as arrived:
            error = arrived
        finally:
            sys.settrace(trace)
        assert handler_and_threads() == before, line
        if left > 0:
            break
        allowed = (KeyboardInterrupt, learner_code.NotFinishedError)
        assert isinstance(error, allowed if answer is endless else KeyboardInterrupt), line
    assert line > 50


@pytest.mark.usefixtures("short_of_time")
def test_an_answer_that_tries_every_segmentation_is_stopped() -> None:
    end = time.monotonic() + 30  # far more than is needed, and far less than memory allows

    def every(text, scores):
        if not text or time.monotonic() > end:
            return [[]]
        return [
            [text[:stop], *rest]
            for stop in range(1, len(text) + 1)
            if text[:stop] in scores
            for rest in every(text[stop:], scores)
        ]

    def answer(text, scores):
        return max(every(text, scores), key=lambda pieces: sum(map(scores.get, pieces)))

    assert examine("07.5", answer, seed=0).misconception == "takes_too_long"


@pytest.mark.usefixtures("short_of_time")
def test_a_wrong_value_before_the_stop_counts_more_than_the_stop() -> None:
    end = time.monotonic() + 30

    def answer(visits):
        while len(visits) > 3 and time.monotonic() < end:
            visits = list(visits)
        return len(visits)

    assert examine("00.1", answer, seed=0).misconception == "counts_visits"


def test_a_generator_without_end_is_not_read() -> None:
    def answer(visits, code_ids):
        while True:
            yield 3

    assert "a generator" in examine("07.2", answer, seed=0).message


class Unfriendly(str):
    """Text that cannot be compared or shown."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    def __repr__(self) -> str:
        raise ValueError("no")


def endless_list() -> list:
    inner: list = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    "value",
    [
        [[Unfriendly("0389")]],
        endless_list(),
        10**5000,
        float("nan"),
        np.array([["0389"]]),
        torch.eye(2).to_sparse(),
        type("", (), {})(),
    ],
    ids=["unfriendly", "endless", "huge", "nan", "array", "sparse", "nameless"],
)
@pytest.mark.parametrize("exercise_id", ["00.1", "07.3", "07.4"])
def test_any_value_at_all_gets_a_result(exercise_id: str, value: object) -> None:
    result = examine(exercise_id, lambda *arguments: value, seed=0)
    assert result.outcome is Outcome.NOT_YET
    assert "got" in dict(result.details)


def test_an_answer_that_closes_its_output_gets_a_result() -> None:
    def answer(visits):
        print("last words")
        sys.stdout.close()

    assert dict(examine("00.1", answer, seed=0).details)["printed"] == "last words"


def test_a_long_message_is_cut() -> None:
    def answer(visits):
        print("p" * 10_000)
        raise ValueError("m" * 10_000)

    details = dict(examine("00.1", answer, seed=0).details)
    assert len(details["raised"]) < 500
    assert len(details["printed"]) <= 400


def test_numbers_are_shown_as_pythons_and_objects_without_their_address() -> None:
    numbers = examine("07.2", lambda visits, code_ids: [np.int64(3), np.float32(0.5)], seed=0)
    assert dict(numbers.details)["got"] == "[3, 0.5]"
    mapped = examine("07.2", lambda visits, code_ids: map(int, visits), seed=0)
    assert dict(mapped.details)["got"] == "<map object>"


@pytest.mark.parametrize("exercise_id", ["00.1", "07.2", "07.4", "07.5"])
def test_no_line_of_the_text_is_wider_than_the_books_page(exercise_id: str) -> None:
    def answer(*arguments):
        print("a long line of words, " * 20)
        return "a long value " * 40

    lines = str(examine(exercise_id, answer, seed=0)).splitlines()
    assert max(map(len, lines)) <= 74


def test_what_the_answer_prints_is_shown_with_the_failing_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(visits):
        print("visits:", len(visits))
        return -1

    result = examine("00.1", answer, seed=0)
    assert dict(result.details)["printed"] == "visits: 1"
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
        return np.concatenate(visits, axis=7)

    line = dict(examine("00.1", answer, seed=0).details)["your line"]
    assert "return np.concatenate(visits, axis=7)" in line


def test_an_error_in_a_callable_object_shows_its_line() -> None:
    class Answer:
        def __call__(self, visits):
            return visits["first"]

    result = examine("00.1", Answer(), seed=0)
    assert 'return visits["first"]' in dict(result.details)["your line"]
    assert result.repeat == 'check("00.1", your_function, seed=0)'


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
    result = examine("07.3", lambda ids, vocabulary: "<b>", seed=0)
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
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert any(row.startswith("00.1 How many different codes?") for row in rows)
    assert any(row.startswith("07.6 Pieces that can still become a code (opt") for row in rows)
    optional = sum(one.optional for one in all_exercises())
    required = len(all_exercises()) - optional
    expected = f"1 of {required} exercises solved, and 0 of {optional} optional ones"
    assert text.splitlines()[-1] == expected
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
        (torch.tensor([8, 9]), torch.tensor([8.0, 9.0]), "type"),
        (torch.tensor([8, 9]), torch.tensor([8, 9], dtype=torch.int8), "type"),
        (torch.tensor([1, 0]), torch.tensor([1, 0]).to_sparse(), "type"),
        (torch.tensor([1, 0]), torch.tensor([1, 0], device="meta"), "type"),
        (torch.tensor([1, 0]), torch.tensor([1, 0], dtype=torch.complex64), "type"),
        (8, 8.0, "type"),
        (8, 8 + 0j, "type"),
        (8, 10**400, "value"),
        ([3, 4], (number for number in (3, 4)), "type"),
        ([3, 4], np.array([3, 4]), "type"),
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
        (3, np.array(3)),
        (3, torch.tensor(3)),
        (torch.tensor([1, 0]), torch.tensor([True, False])),
        (torch.tensor([1, 0]), torch.tensor([1.0, 0.0], dtype=torch.float16)),
        (torch.tensor([1, 0]), torch.nn.Parameter(torch.tensor([1.0, 0.0]))),
        (torch.tensor([8, 9]), torch.tensor([8, 9], dtype=torch.int32)),
        ({"a": [1]}, {"a": (1,)}),
        (None, None),
        ({1, 2}, {2, 1}),
        ({1, 2}, frozenset({2, 1})),
        ([{"a"}], [frozenset("a")]),
    ],
)
def test_values_that_are_equal_stay_equal(expected: object, actual: object) -> None:
    assert first_difference(expected, actual, 1e-6) is None


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (-0.40000003576278687, 3.7670845985412598, "expected -0.4, got 3.767"),
        (0.12345678, 0.12345901, "expected 0.12345678, got 0.12345901"),
        (1e-20, 0.0, "expected 1e-20, got 0"),
        (0.5, 2, "expected 0.5, got 2"),
        (0.1 + 0.2, 0.3, "expected 0.30000000000000004, got 0.3"),
    ],
)
def test_a_float_is_written_with_the_digits_that_tell_it_apart(
    expected: float, actual: float, text: str
) -> None:
    assert first_difference(expected, actual, 0.0).text == text


def test_where_booleans_are_expected_a_float_mask_is_none() -> None:
    expected = torch.tensor([True, False])
    assert first_difference(expected, torch.tensor([1, 0]), 1e-6) is None
    difference = first_difference(expected, torch.tensor([1.0, 0.0]), 1e-6)
    assert difference.text == "expected booleans, got torch.float32"
