"""The schedule against the one of transformers."""

from __future__ import annotations

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from ehr_course.training.optimization import warmup_cosine, warmup_cosine_factor


def rates(schedule_of: object, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=3.0)
    schedule = schedule_of(optimizer)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def test_after_the_warm_up_it_is_the_cosine_of_transformers() -> None:
    ours = rates(lambda opt: warmup_cosine(opt, warmup_steps=10, total_steps=50), 51)
    theirs = rates(lambda opt: get_cosine_schedule_with_warmup(opt, 10, 50), 51)
    assert ours[10:] == pytest.approx(theirs[10:])


def test_the_warm_up_rises_in_equal_parts_and_wastes_no_step() -> None:
    ours = rates(lambda opt: warmup_cosine(opt, warmup_steps=4, total_steps=50), 4)
    assert ours == pytest.approx([0.75, 1.5, 2.25, 3.0])


@pytest.mark.parametrize("step", [50, 51, 1000])
def test_the_rate_is_zero_at_the_end_and_stays_there(step: int) -> None:
    assert warmup_cosine_factor(step, warmup_steps=10, total_steps=50) == 0.0


def test_without_a_warm_up_it_begins_at_the_peak() -> None:
    assert warmup_cosine_factor(0, warmup_steps=0, total_steps=50) == 1.0
