"""The exercises of lesson 15: training loop."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.loop_to_try import Run
from ehr_course.exercises.loops_to_test import FAULTS as LOOP_FAULTS
from ehr_course.exercises.loops_to_test import Loop
from ehr_course.exercises.trainers_to_test import FAULTS, STEPS, Trainers

FLOAT32 = 1e-5
"""The tolerance of values that come from a few products in float32."""

BITWISE = 0.0

# 15.1 Warm-up and cosine


def _fresh_step(rng: random.Random) -> Arguments:
    warmup, rest = rng.choice((0, 1, 3, 5, 8)), rng.choice((4, 7, 10, 20))
    total = warmup + rest
    return rng.randint(0, total + 4), rng.choice((1.0, 0.5, 0.002)), warmup, total


SCHEDULE = Exercise(
    id="15.1",
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


def _fresh_stop(rng: random.Random) -> Arguments:
    stop = rng.randint(6, 9)
    return rng.randint(0, 999), stop, stop + rng.randint(2, 4)


RESUME = Exercise(
    id="15.5",
    chosen=((0, 9, 13), (1, 6, 10), (2, 7, 11), (3, 10, 13), (4, 8, 12), (5, 3, 9)),
    fresh=_fresh_stop,
    tolerance=BITWISE,
    fresh_inputs=2,
)


# 15.6 Train, stop, resume, compare


def _fresh_trainers(rng: random.Random) -> Arguments:
    return Trainers(rng.choice(list(FAULTS)), seed=rng.randrange(100)), rng.randint(1, STEPS - 1)


CAPSTONE = Exercise(
    id="15.6",
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


# 15.7 Find the broken stage


def _fresh_loop(rng: random.Random) -> Arguments:
    return (Loop(rng.choice(list(LOOP_FAULTS))),)


BROKEN_PLACE = Exercise(
    id="15.7",
    chosen=tuple((Loop(fault),) for fault in LOOP_FAULTS),
    fresh=_fresh_loop,
    fresh_inputs=2,
)

# 15.8 Blank page

_HALF: dict[str, Any] = {"dtype": torch.float16}
_BATCHES = (
    ([(1.0, -0.25)],),
    ([(0.5, -1.0), (1.5, -0.25)],),
    ([(-2.0, 1.0), (-0.25, 3.0), (-0.5, 0.5)],),
)
_PARTS = (
    ([(4.0, -1.0)], [(0.25, -0.5), (0.5, -0.25), None, (1.0, -2.0)]),
    ([(-1.0, 1.0), (-3.0, 0.5)], [(-2.0, 2.0)], [None, (-0.25, 0.25)]),
)
_LONG_AND_SHORT = (
    ([(24.0, -32.0)], [(0.25, -0.25)]),
    ([(0.25, 0.5)], [(0.5, 0.25)]),
    ([(0.25, -4.0)],),
)


def _fresh_run(rng: random.Random) -> Arguments:
    def batch(signs: tuple[int, int]) -> tuple[list[tuple[float, ...]], ...]:
        sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        return tuple(
            [tuple(sign * rng.randint(1, 16) / 4 for sign in signs) for _ in range(size)]
            for size in sizes
        )

    rows = tuple(batch((rng.choice((1, -1)), rng.choice((1, -1)))) for _ in range(3))
    asked: dict[str, Any] = {"steps": rng.randint(4, 8), "warmup_steps": rng.randint(1, 3)}
    asked["max_norm"] = rng.choice((0.5, 2.0, 8.0))
    return (Run("random batches", rows, asked),)


BLANK_PAGE = Exercise(
    id="15.8",
    chosen=tuple(
        (run,)
        for run in (
            Run("whole batches", _BATCHES, {"steps": 7, "warmup_steps": 2, "max_norm": 1e3}),
            Run("micro-batches", _PARTS, {"steps": 5, "warmup_steps": 1, "max_norm": 1e3}),
            Run("long gradients", _LONG_AND_SHORT, {"steps": 6, "max_norm": 1.0}),
            Run("with look", _BATCHES, {"steps": 5, "every": 2, "look": "...", "max_norm": 1e3}),
            Run(
                "killed and resumed",
                _PARTS,
                {"steps": 7, "warmup_steps": 4, "every": 3, "max_norm": 1.0},
                died=6,
                left=4,
            ),
            Run("bfloat16", _BATCHES, {"steps": 3, "dtype": torch.bfloat16, "max_norm": 1e3}),
            Run("float16, tiny gradients", _BATCHES, {"steps": 4} | _HALF, size=2.0**-26),
            Run(
                "float16, long and short gradients",
                (
                    ([(0.5, -0.25)] * 2,),
                    ([(0.03125, -0.0625)], [(0.0625, -0.03125)]),
                    ([(-0.125, 0.5)] * 2,),
                ),
                {"steps": 6, "max_norm": 0.0625} | _HALF,
                size=0.25,
            ),
            Run(
                "float16, overflows at first",
                (([(0.25, -0.5), (0.125, -0.25)],),),
                {"steps": 5, "warmup_steps": 3} | _HALF,
                size=4.0,
            ),
            Run(
                "float16, overflows at first, killed and resumed",
                (([(0.25, -0.5), (0.125, -0.25)],),),
                {"steps": 7, "every": 2} | _HALF,
                size=4.0,
                died=8,
                left=3,
            ),
        )
    ),
    fresh=_fresh_run,
    fresh_inputs=2,
    tolerance=5e-3,  # fused or not, decayed or not, divided before or after
)

EXERCISES = (
    SCHEDULE,
    ACCUMULATE,
    LOSS_SCALING,
    UNSCALE,
    RESUME,
    CAPSTONE,
    BROKEN_PLACE,
    BLANK_PAGE,
)
