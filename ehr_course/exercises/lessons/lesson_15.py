"""The exercises of lesson 15: training loop."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import get_cosine_schedule_with_warmup

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.loops_to_test import FAULTS as LOOP_FAULTS
from ehr_course.exercises.loops_to_test import Loop, fault_in
from ehr_course.exercises.tiny_training import TinyTraining
from ehr_course.exercises.trainers_to_test import FAULTS, STEPS, Trainers, fault_of

FLOAT32 = 1e-5
"""The tolerance of values that come from a few products in float32."""

BITWISE = 0.0

# 15.1 Warm-up and cosine


def _rate(step: int, peak: float, warmup_steps: int, total_steps: int) -> float:
    """The reference: the schedule of transformers, whose warm-up begins with a rate of 0.

    So its step s + 1 is our step s during the warm-up. After the end it would rise again.
    """
    if step >= total_steps:
        return 0.0
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    schedule = get_cosine_schedule_with_warmup(optimizer, warmup_steps, total_steps)
    (factor,) = schedule.lr_lambdas
    return peak * factor(step + 1 if step < warmup_steps else step)


def _fresh_step(rng: random.Random) -> Arguments:
    warmup, rest = rng.choice((0, 1, 3, 5, 8)), rng.choice((4, 7, 10, 20))
    total = warmup + rest
    return rng.randint(0, total + 4), rng.choice((1.0, 0.5, 0.002)), warmup, total


SCHEDULE = Exercise(
    id="15.1",
    reference=_rate,
    chosen=(
        *((step, 1.0, 4, 12) for step in (0, 1, 3, 4, 5, 8, 11, 12, 13, 18, 20)),
        (0, 0.5, 0, 5),
        (3, 0.5, 0, 5),
        (0, 2.0, 1, 6),
        (2, 2.0, 6, 6),
        (6, 2.0, 6, 6),
        (5, 0.003, 5, 25),
        (10_000, 0.5, 1_000, 45_000),
        (400, 0.5, 1_000, 45_000),
    ),
    fresh=_fresh_step,
)


# 15.2 Accumulate a large batch

Part = tuple[Tensor, Tensor]
Parts = list[Part]


def _summed(table: Tensor, parts: Sequence[Part]) -> Tensor:
    """The summed loss of all scored tokens of some parts, laid out in one row."""
    inputs = torch.cat([inputs.flatten() for inputs, _ in parts])
    labels = torch.cat([labels.flatten() for _, labels in parts])
    return cross_entropy(table[inputs], labels, reduction="sum")


def _scored(parts: Sequence[Part]) -> int:
    return sum(int((labels != -100).sum()) for _, labels in parts)


def _gradient(table: Tensor, parts: Sequence[Part]) -> Tensor:
    table = table.clone().requires_grad_()
    _summed(table, parts).backward()
    assert table.grad is not None  # as the loss depends on it
    return table.grad


def _trained_whole(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    """The reference: one mean and one gradient for each batch as a whole."""
    for parts in batches:
        table = table - lr * _gradient(table, parts) / _scored(parts)
    return table


def _part(inputs: list[list[int]], labels: list[list[int]]) -> Part:
    return torch.tensor(inputs), torch.tensor(labels)


def _fresh_batches(rng: random.Random) -> Arguments:
    n_tokens = 3
    values = [[rng.randint(-10, 10) / 10 for _ in range(n_tokens)] for _ in range(n_tokens)]
    batches = []
    for _ in range(rng.randint(1, 2)):
        parts = []
        for _ in range(rng.randint(2, 3)):
            rows, length = rng.randint(1, 2), rng.randint(1, 4)
            scored = [rng.randint(1, length) for _ in range(rows)]
            inputs = [[rng.randrange(n_tokens) for _ in range(length)] for _ in range(rows)]
            labels = [
                [rng.randrange(n_tokens) if i < n else -100 for i in range(length)] for n in scored
            ]
            parts.append(_part(inputs, labels))
        batches.append(parts)
    return torch.tensor(values), batches, rng.choice((0.5, 1.0))


_TABLE = torch.tensor([[0.5, -1.0], [0.0, 1.0]])
_LONG = _part([[0, 1, 0, 1]], [[1, 1, 1, 0]])
_SHORT = _part([[1, 0]], [[0, -100]])
_TWO_ROWS = _part([[0, 1], [1, 0]], [[0, 1], [0, -100]])

ACCUMULATE = Exercise(
    id="15.2",
    reference=_trained_whole,
    chosen=(
        (_TABLE, [[_LONG, _SHORT]], 1.0),
        (_TABLE, [[_TWO_ROWS, _SHORT]], 1.0),
        (_TABLE, [[_SHORT, _TWO_ROWS], [_LONG]], 0.5),
        (_TABLE, [[_LONG, _SHORT], [_SHORT, _TWO_ROWS]], 0.5),
        (_TABLE, [[_SHORT], [_LONG], [_TWO_ROWS, _SHORT, _LONG]], 0.5),
    ),
    fresh=_fresh_batches,
    tolerance=FLOAT32,
)


# 15.3 Loss scaling


def _torch_scaling(
    gradients: Tensor, scale: float, growth_interval: int
) -> tuple[Tensor, list[float]]:
    """The reference: PyTorch's own GradScaler, with an optimizer that shows what it is given."""
    weights = nn.Parameter(torch.zeros(gradients.shape[1]))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=growth_interval)
    applied, scales = torch.zeros_like(gradients), []
    for step, gradient in enumerate(gradients):
        weights.grad = scaler.scale(gradient).half().float()
        scaler.step(optimizer)
        scaler.update()
        applied[step] = 0 - weights.detach()
        scales.append(scaler.get_scale())
        weights.data.zero_()
    return applied, scales


def _fresh_gradients(rng: random.Random) -> Arguments:
    steps, n = rng.randint(4, 8), rng.randint(1, 2)
    rows = [
        [rng.choice((-1, 1)) * rng.choice((0.1, 0.3, 0.7, 1.5, 3.0, 6.0)) for _ in range(n)]
        for _ in range(steps)
    ]
    if rng.random() < 0.3:
        rows[rng.randrange(steps)][0] = rng.choice((math.nan, math.inf, -math.inf))
    return torch.tensor(rows), 2.0 ** rng.randint(12, 18), rng.randint(1, 3)


def _column(*values: float) -> Tensor:
    return torch.tensor(values)[:, None]


LOSS_SCALING = Exercise(
    id="15.3",
    reference=_torch_scaling,
    chosen=(
        (_column(0.1, 0.1, 0.1, 0.1), 8.0, 2),
        (_column(0.1, 0.1, 0.1, 0.1, 0.1), 8.0, 3),
        (_column(3.0, 0.3, 0.3, 0.3, 0.3), 65536.0, 2),
        (_column(0.3, 0.3, -3.0, 0.3, 0.3, 0.3), 65536.0, 3),
        (_column(0.3, 3.0, 3.0, 0.3, 0.3, 0.3), 65536.0, 2),
        (_column(0.3, math.nan, 0.3, 0.3), 1024.0, 2),
        (_column(0.3, -math.inf, 0.3, 0.3), 1024.0, 3),
        (torch.tensor([[0.3, 0.7], [0.3, 3.0], [0.1, 0.3], [0.3, 0.3]]), 65536.0, 2),
        (torch.tensor([[-0.3, math.nan], [0.3, 0.7], [0.3, 0.1]]), 1024.0, 1),
        (_column(6.0, 6.0, 6.0, 6.0), 65536.0, 1),
        (_column(-3.0, 0.3), 65536.0, 2),
        (_column(2e-6, 3e-7, 1e-9), 1024.0, 2),
        (_column(100_000.0, 3.0), 0.0625, 2),
        (_column(100_000.0, 100_000.0, 3.0), 1.0, 2),
        (_column(0.3, 0.9999, 0.3), 65536.0, 2),  # 65,529 is rounded to infinity
        (_column(0.3, 65_510 / 65_536, 0.3), 65536.0, 2),  # and 65,510 to 65,504
    ),
    fresh=_fresh_gradients,
    tolerance=BITWISE,  # a power of two changes no digit
)


# 15.4 Unscale, then clip

Gradients = list[Tensor]


def _torch_clipped(gradients: Gradients, scale: float, max_norm: float) -> Gradients | None:
    """The reference: what PyTorch's own GradScaler and clip_grad_norm_ make of them."""
    weights = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    optimizer = torch.optim.SGD(weights, lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(torch.ones(()))  # it makes its scale when it is first needed
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(weights, max_norm)
    clipped = [weight.grad for weight in weights if weight.grad is not None]
    assert len(clipped) == len(weights)
    return clipped if norm.isfinite() else None


def _fresh_scaled(rng: random.Random) -> Arguments:
    scale = float(2 ** rng.randint(1, 4))
    gradients = [
        torch.tensor([rng.choice((-1, 1)) * rng.randint(1, 40) / 10 * scale for _ in range(n)])
        for n in (rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
    ]
    if rng.random() < 0.2:
        gradients[rng.randrange(len(gradients))][0] = rng.choice((math.nan, math.inf, -math.inf))
    return gradients, scale, rng.choice((0.5, 1.0, 2.0, 5.0, 20.0))


UNSCALE = Exercise(
    id="15.4",
    reference=_torch_clipped,
    chosen=(
        ([torch.tensor([24.0, 32.0])], 8.0, 1.0),
        ([torch.tensor([24.0]), torch.tensor([[32.0, 0.0]])], 8.0, 1.0),
        ([torch.tensor([24.0, -4.0]), torch.tensor([[8.0], [32.0]])], 8.0, 2.0),
        ([torch.tensor([2.0, 1.0]), torch.tensor([-2.0])], 8.0, 1.0),
        ([torch.tensor([6.0]), torch.tensor([6.0])], 8.0, 1.0),
        ([torch.tensor([12.0, -12.0])], 4.0, 2.0),
        ([torch.tensor([0.0, 0.0]), torch.tensor([0.0])], 8.0, 1.0),
        ([torch.tensor([4.0, math.inf]), torch.tensor([8.0])], 8.0, 1.0),
        ([torch.tensor([4.0]), torch.tensor([-math.inf, 8.0])], 8.0, 1.0),
        ([torch.tensor([4.0, math.nan]), torch.tensor([8.0])], 8.0, 1.0),
        ([torch.tensor([0.3, 0.4])], 1.0, 1.0),
    ),
    fresh=_fresh_scaled,
    tolerance=1e-4,  # PyTorch adds 1e-6 to the norm before it divides
)


# 15.5 Resume to the bit


def _uninterrupted(seed: int, stop: int, steps: int) -> Tensor:
    """The reference: nothing is saved and nothing is loaded."""
    training = TinyTraining(seed)
    for _ in range(steps):
        training.step()
    return training.weights


def _fresh_stop(rng: random.Random) -> Arguments:
    stop = rng.randint(6, 9)
    return rng.randint(0, 999), stop, stop + rng.randint(2, 4)


RESUME = Exercise(
    id="15.5",
    reference=_uninterrupted,
    chosen=((0, 9, 13), (1, 6, 10), (2, 7, 11), (3, 10, 13), (4, 8, 12), (5, 3, 9)),
    fresh=_fresh_stop,
    tolerance=BITWISE,
    fresh_inputs=2,
)


# 15.6 Train, stop, resume, compare

Report = tuple[int, bool]


def _truth(make: Trainers, stop: int) -> Report:
    """The reference knows what is wrong with the trainers, and trains nothing."""
    fault = fault_of(make)
    return (0, True) if fault == "starts again" else (stop, fault is None)


def _fresh_trainers(rng: random.Random) -> Arguments:
    return Trainers(rng.choice(list(FAULTS)), seed=rng.randrange(100)), rng.randint(1, STEPS - 1)


CAPSTONE = Exercise(
    id="15.6",
    reference=_truth,
    chosen=(
        (Trainers(), 2),
        (Trainers(seed=1), STEPS - 1),
        (Trainers("optimizer"), 3),
        (Trainers("place"), 2),
        (Trainers("dropout", seed=2), STEPS - 1),
        (Trainers("weights"), 4),
        (Trainers("head"), 1),
        (Trainers("starts again"), 3),
        *((Trainers("last bit", seed=seed), 3) for seed in range(4)),  # in each of the tensors
        (Trainers("exchanged", seed=0), 2),
        (Trainers("exchanged", seed=1), 4),
    ),
    fresh=_fresh_trainers,
    tolerance=BITWISE,
    fresh_inputs=2,
)


# 15.7 Find the broken place


def _fresh_loop(rng: random.Random) -> Arguments:
    return (Loop(rng.choice(list(LOOP_FAULTS))),)


BROKEN_PLACE = Exercise(
    id="15.7",
    reference=fault_in,  # it knows what is wrong, and runs nothing
    chosen=tuple((Loop(fault),) for fault in LOOP_FAULTS),
    fresh=_fresh_loop,
    fresh_inputs=2,
)

EXERCISES = (SCHEDULE, ACCUMULATE, LOSS_SCALING, UNSCALE, RESUME, CAPSTONE, BROKEN_PLACE)
