"""The loops of lesson 15 go wrong as they say, and only there."""

from __future__ import annotations

import copy

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.exercises import examine
from ehr_course.exercises.loops_to_test import FAULTS, Loop
from ehr_course.exercises.trainers_to_test import FAULTS as FAULTS_OF_TRAINERS
from ehr_course.exercises.trainers_to_test import STEPS, Trainers
from ehr_course.exercises.worked_answers import as_function, worked_answer

PARTS = [torch.tensor([[4.0]]), torch.tensor([[0.0], [0.0], [0.0]])]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "mean of means"])
def test_a_batch_without_an_overflow_and_too_short_to_clip_hides_every_other_fault(fault):
    found = Loop(fault)([PARTS], rates=[0.5], scale=1.0, max_norm=10.0)
    assert found.tolist() == [[-0.5]]


def test_a_sound_loop_skips_halves_and_keeps_the_rate():
    one = [[torch.tensor([[1.0]])]] * 4
    found = Loop()(one, rates=[1.0, 2.0, 4.0, 8.0], scale=2.0**17, max_norm=10.0)
    assert found[:, 0].tolist() == [0.0, 0.0, -1.0, -3.0]


@pytest.mark.parametrize(
    "batches",
    [[[torch.ones(2)]], [[]], [[torch.ones(0, 1)]], [[torch.ones(1, 1), torch.ones(1, 2)]]],
)
def test_what_is_no_batch_is_refused_and_told_why(batches):
    with pytest.raises(InputError):
        Loop()(batches, rates=[1.0], scale=1.0, max_norm=1.0)


def test_a_copy_does_not_tell_its_fault():
    assert "clips" in repr(Loop("never clips"))
    assert repr(copy.deepcopy(Loop("never clips"))) == "<a loop>"


def test_reading_the_fault_off_the_words_of_the_loop_is_refused():
    words = {f"<a loop that {what}>": name for name, what in FAULTS.items()}
    result = examine("15.7", lambda loop: words.get(repr(loop), "none"), seed=0)
    assert not result.outcome.is_solved


@pytest.mark.parametrize("seed", range(3))
def test_another_order_of_the_probes_is_solved(seed):
    answer = as_function("15.7", worked_answer("15.7", "alternative"))
    assert examine("15.7", answer, seed=seed).outcome.is_solved


@pytest.mark.parametrize("fault", FAULTS_OF_TRAINERS)
def test_trainers_go_wrong_as_they_say_wherever_they_are_stopped(fault: str | None) -> None:
    report = as_function("15.6", worked_answer("15.6"))
    for seed in range(4):
        for stop in range(1, STEPS):
            expected = (0, True) if fault == "starts again" else (stop, fault is None)
            assert report(Trainers(fault, seed=seed), stop) == expected
