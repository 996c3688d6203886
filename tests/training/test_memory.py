"""What a step holds: compared with sums by hand, and with PyTorch's own allocator."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from ehr_course.training.memory import MemoryTrace, activation_bytes, held_bytes

ROWS, WIDTH = 50, 40


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))


@pytest.fixture
def states() -> torch.Tensor:
    return torch.ones(ROWS, WIDTH)


def test_a_weight_that_is_used_twice_is_held_once(model: nn.Module) -> None:
    assert held_bytes(model) == 4 * 2 * (WIDTH * WIDTH + WIDTH)
    model[2].weight = model[0].weight
    assert held_bytes(model) == 4 * (WIDTH * WIDTH + 2 * WIDTH)


def test_kept_are_the_inputs_of_each_layer_once_and_no_weights(
    model: nn.Module, states: torch.Tensor
) -> None:
    # The input of the first layer, and what tanh made, which is the second layer's input too.
    assert activation_bytes(lambda: model(states), model) == 2 * 4 * ROWS * WIDTH


def test_without_a_gradient_nothing_is_kept(model: nn.Module, states: torch.Tensor) -> None:
    with torch.no_grad():
        assert activation_bytes(lambda: model(states), model) == 0


def test_what_is_dropped_is_no_longer_counted(states: torch.Tensor) -> None:
    with MemoryTrace(held=100) as trace:
        doubled = states * 2
        trace.mark("made")
        del doubled
        states.sum()
    assert trace.bytes[0] == 100
    assert trace.bytes[trace.marks["made"] - 1] == trace.peak == 100 + 4 * ROWS * WIDTH
    assert trace.bytes[-1] < trace.peak


def test_a_view_takes_no_memory(states: torch.Tensor) -> None:
    with MemoryTrace() as trace:
        states.view(-1).unsqueeze(0)
        states.add_(1)
    assert trace.peak == 0


def test_the_peak_of_a_step_is_that_of_the_allocator(
    model: nn.Module, states: torch.Tensor
) -> None:
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(states).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()  # makes the moments
    with MemoryTrace() as trace:
        step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    events = profiled.profiler.kineto_results.events()
    memory = sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    now = peak = 0
    for event in memory:
        now += event.nbytes()
        peak = max(peak, now)
    assert peak > 0
    assert trace.peak == pytest.approx(peak, rel=0.02)


def test_gradients_are_told_apart() -> None:
    layer = nn.Linear(10, 10, bias=False)
    with MemoryTrace(held_bytes(layer), layer) as trace:
        loss = layer(torch.ones(1, 10)).sum()
        trace.mark("forward")
        loss.backward()
        torch.zeros(1)  # one operation more, after the gradient has come
    assert set(trace.gradients[: trace.marks["forward"]]) == {0}
    assert trace.gradients[-1] == 400
    assert len(trace.gradients) == len(trace.bytes)
