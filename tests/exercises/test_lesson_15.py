"""The loops of lesson 15 go wrong as they say, and only there."""

from __future__ import annotations

import copy

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.exercises import examine
from ehr_course.exercises.catalogue import find_exercise
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


# ------------------------------------------------------------------ 15.8

ZERO = "        optimizer.zero_grad()\n"
BACK = "            scaler.scale(share).backward()\n"
SCALE = "        scale = scaler.get_scale()\n"
STEP = "        step += 1\n"
LOOPS = {
    "fused": {"lr=lr)": "lr=lr, fused=True)"},
    "gradients of zeros": {"zero_grad()": "zero_grad(set_to_none=False)"},
    "zeroed first": {ZERO: "", "        count = sum": f"{ZERO}        count = sum"},
    "zeroed by the model": {"optimizer.zero_grad()": "model.zero_grad()"},
    "losses as tensors": {"loss += share.item()": "loss = loss + share.detach()"},
    "losses as one tensor": {"return losses": "return torch.tensor(losses)"},
    "losses of the steps that were taken": {
        "        losses.append(loss)\n": "",
        STEP: f"{STEP}        losses.append(loss)\n",
    },
    "Adam": {"torch.optim.AdamW": "torch.optim.Adam"},
    "more decay": {"lr=lr)": "lr=lr, weight_decay=0.02)"},
    "a skipped batch is tried again": {
        "        read += 1\n": "",
        STEP: f"{STEP}        read += 1\n",
    },
    "saved after every step": {"step % every == 0 and file": "file"},
    "looks at the end, too": {
        "step % every == 0 and look is": "(step % every == 0 or step == steps) and look is"
    },
    "train mode in each iteration": {
        "        read += 1\n": "        read += 1\n        model.train()\n"
    },
    "a scale in every number format": {"enabled=dtype == torch.float16": "enabled=True"},
    "no scaler where there is none": {
        "if scaler.get_scale() < scale": "if scaler.is_enabled() and scaler.get_scale() < scale"
    },
    "autocast as a with of its own": {"dtype=dtype, enabled=half": "dtype, half"},
    "backward inside autocast": {BACK: f"    {BACK}"},
    "clipped without foreach": {"max_norm)\n": "max_norm, foreach=False)\n"},
}


@pytest.mark.parametrize("changes", LOOPS.values(), ids=LOOPS)
def test_a_loop_that_is_organised_in_another_way_is_solved(changes):
    answer = find_exercise("15.8").changed_answer(changes)
    result = examine("15.8", answer, seed=1)
    assert result.outcome.is_solved, str(result)


def test_of_two_mistakes_in_a_loop_the_first_is_named():
    first, second = (
        find_exercise("15.8").misconceptions[name].changes[0]
        for name in ("skipped_steps_counted", "resumed_without_random_numbers")
    )
    result = examine("15.8", find_exercise("15.8").changed_answer(first, second), seed=1)
    assert result.misconception == "skipped_steps_counted"
    assert result.message.startswith("There is more than one thing to mend. First: A step")


WRONG = {
    "returns nothing": ({"return losses": "return None"}, "a list"),
    "a loss that is no number": ({"losses.append(loss)": "losses.append(str(loss))"}, "losses"),
    "unscaled twice": (
        {SCALE: f"{SCALE}        scaler.unscale_(optimizer)\n"},
        "unscale_() has already been called",
    ),
    "float16 weights": ({"    optimizer =": "    model.to(dtype)\n    optimizer ="}, "15.8"),
}


@pytest.mark.parametrize(("changes", "said"), WRONG.values(), ids=WRONG)
def test_what_has_no_diagnosis_is_refused_and_shown(changes, said):
    result = examine("15.8", find_exercise("15.8").changed_answer(changes), seed=1)
    assert not result.outcome.is_solved
    assert said in str(result)
