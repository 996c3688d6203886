"""The exercises of lesson 13: multi-task learning."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor, tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers, tensors


def _rows(lengths: Sequence[int], width: int) -> Tensor:
    """Rows of so many tokens, padded on the right: bool (rows, width)."""
    return tensor([[place < length for place in range(width)] for length in lengths])


# 13.1 The last real token


def _fresh_states(rng: random.Random) -> Arguments:
    batch, length = rng.randint(2, 3), rng.randint(3, 4)
    lengths = [rng.randint(1, length) for _ in range(batch)]
    return numbers(rng, batch, length, 2), _rows(lengths, length)


_STATES = tensor(
    [
        [[0.1, 1.0], [0.2, 2.0], [0.3, 3.0], [0.4, 4.0]],
        [[1.1, 5.0], [1.2, 6.0], [1.3, 7.0], [1.4, 8.0]],
        [[2.1, 9.0], [2.2, 1.5], [2.3, 2.5], [2.4, 3.5]],
    ]
)

LAST_REAL = Exercise(
    id="13.1",
    chosen=(
        (_STATES[:2], _rows([2, 4], 4)),
        (_STATES[:2], _rows([4, 3], 4)),
        (_STATES, _rows([3, 2, 1], 4)),
        (_STATES[:2], _rows([2, 3], 4)),
        (_STATES[:1], _rows([4], 4)),
        (_STATES[1:2, :3], _rows([2], 3)),
        (_STATES[:2], _rows([4, 4], 4)),
    ),
    fresh=_fresh_states,
)


# 13.2 Age brackets


def _fresh_ages(rng: random.Random) -> Arguments:
    bounds = sorted(rng.sample(range(10, 86), rng.randint(2, 4)))
    ages = [float(rng.choice(bounds)), rng.choice(bounds) - 0.3, rng.choice((0.0, 90.0))]
    ages += [rng.randint(0, 180) / 2 for _ in range(2)]
    rng.shuffle(ages)
    return tensor(ages), bounds


_SIX = [18, 30, 50, 65, 80]

BRACKETS = Exercise(
    id="13.2",
    chosen=(
        (tensor([0.0, 17.0, 18.0, 29.0, 30.0]), _SIX),
        (tensor([90.0, 80.0, 79.0, 65.0, 50.0]), _SIX),
        # 79.2 tells rounding from rounding up, 18.4 a bound that is passed from one passed by 1.
        (tensor([17.7, 29.5, 64.9, 79.2, 18.4, 18.7]), _SIX),
        (tensor([0.0, 40.0, 89.0, 90.0]), [1, 40]),
        (tensor([12.0, 60.0]), [60]),
        (tensor([44.0, 89.5, 90.0]), [45, 90]),
    ),
    fresh=_fresh_ages,
)


# 13.3 A loss at each token

NOT_SCORED = -100


def _fresh_answers(rng: random.Random) -> Arguments:
    batch, n_prompts, length, n_classes = 2, rng.randint(1, 2), rng.randint(2, 3), 2
    # The first row is shorter than the second, so that a mean of means is not the mean.
    lengths = [rng.randint(1, length - 1), length]
    labels = tensor(
        [
            [rng.choice((1, 3, 7, 8, 9)) if place < n else NOT_SCORED for place in range(length)]
            for n in lengths
        ]
    )
    logits = numbers(rng, batch, n_prompts + length, n_classes)
    return logits, labels, tensor(rng.choice(([0, 1], [1, 0]))), n_prompts


_TWO_ROWS = tensor(
    [
        [[0.5, -1.0], [2.0, 0.3], [0.1, 1.0], [-0.4, 0.9]],
        [[1.5, 0.2], [-0.6, 0.8], [0.7, -2.0], [1.2, 1.1]],
    ]
)
_LABELS = tensor([[1, 7, NOT_SCORED], [3, 8, 9]])

TOKEN_LOSS = Exercise(
    id="13.3",
    chosen=(
        tensors([[[0.5, -1.0], [2.0, 0.3]]], [[7]], [1], 1),
        (_TWO_ROWS, _LABELS, tensor([0, 1]), 1),
        (_TWO_ROWS, _LABELS, tensor([1, 0]), 1),
        (_TWO_ROWS, tensor([[7, NOT_SCORED], [8, 9]]), tensor([1, 0]), 2),
        (_TWO_ROWS[:, 1:], _LABELS, tensor([1, 1]), 0),
        # Labels that could be classes: to score them as such is wrong and does not raise.
        (_TWO_ROWS[:1], tensor([[0, 1, NOT_SCORED]]), tensor([1]), 1),
        tensors([[[9.0, -9.0], [200.0, -200.0], [-1.0, 1.0]]], [[7, 2]], [1], 1),
        tensors(
            [[[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [3.0, 0.5, -1.0], [0.2, 0.1, 2.0]]],
            [[3, 7, NOT_SCORED]],
            [2],
            1,
        ),
    ),
    fresh=_fresh_answers,
    tolerance=FLOAT32,
)


# 13.4 Find the leak, and close it


class ToyDecoder:
    """A causal decoder of a few lines, with a weight for what each position takes of the prompts.

    Its state at a token is tanh of the mean of the embeddings so far, plus the mean of the
    prompts times the weight of the position. No prompts are read as zeros. It is frozen: no
    gradient flows through it.

    Args:
        weights: one for each position; 0 reads nothing of the prompts there.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = list(weights)

    @torch.no_grad()
    def __call__(self, prompts: Tensor, embeddings: Tensor) -> Tensor:
        """(batch, n_prompts, d_model) and (batch, length, d_model) to (batch, length, d_model)."""
        weights = tensor(self.weights)[: embeddings.shape[1], None]
        counts = torch.arange(1.0, embeddings.shape[1] + 1)[:, None]
        read = embeddings.cumsum(dim=1) / counts
        mean = prompts.sum(dim=1, keepdim=True) / max(1, prompts.shape[1])
        return torch.tanh(read + weights * mean)

    def __repr__(self) -> str:
        """How the exercise's messages name it."""
        weights = ", ".join(f"{weight:g}" for weight in self.weights)
        return f"<decoder that reads the prompts {weights} times at its tokens>"


def _fresh_decoder(rng: random.Random) -> Arguments:
    batch, length, n_prompts = rng.randint(2, 3), rng.randint(2, 3), rng.randint(1, 2)
    weights = [rng.choice((0.0, 0.5, 1.0, 1.5)) for _ in range(length)]
    prompts, other_prompts = (numbers(rng, batch, n_prompts, 2) for _ in range(2))
    return ToyDecoder(weights), prompts, other_prompts, numbers(rng, batch, length, 2)


_MALE, _FEMALE = [[0.5, -1.0]], [[-0.8, 0.4]]
_PROMPTS = tensor([_MALE, _FEMALE])
_OTHERS = tensor([_FEMALE, _MALE])
_EMBEDDINGS = tensor(
    [[[1.0, 0.2], [-0.5, 0.6], [0.3, -1.0]], [[0.4, -0.7], [0.9, 0.1], [-1.2, 0.8]]]
)
_TWO_PROMPTS = torch.cat([_PROMPTS, tensor([[[0.3, 0.2]], [[0.7, 1.1]]])], dim=1)
_TWO_OTHERS = torch.cat([_OTHERS, tensor([[[0.7, 1.1]], [[0.3, 0.2]]])], dim=1)

LEAK = Exercise(
    id="13.4",
    chosen=(
        (ToyDecoder([1.0, 1.0, 1.0]), _PROMPTS, _OTHERS, _EMBEDDINGS.clone().requires_grad_()),
        (ToyDecoder([1.0, 0.5, 0.0]), _TWO_PROMPTS, _TWO_OTHERS, _EMBEDDINGS),
        (ToyDecoder([0.0, 0.0, 0.0]), _PROMPTS, _OTHERS, _EMBEDDINGS),
        (ToyDecoder([0.0, 2.0]), _PROMPTS, _OTHERS, _EMBEDDINGS[:, :2]),
        (ToyDecoder([1.5, 0.5, 1.0]), _PROMPTS[:1], _OTHERS[:1], _EMBEDDINGS[:1]),
    ),
    fresh=_fresh_decoder,
    tolerance=FLOAT32,
)


# 13.5 Read the weight sweep

Run = tuple[float, int, float]


def _runs(**values: list[float]) -> Arguments:
    """Runs of weight 0 and weight 1, with the seeds 0, 1 and so on."""
    weights = {"zero": 0.0, "one": 1.0}
    return (
        [(weights[name], seed, v) for name, of in values.items() for seed, v in enumerate(of)],
    )


def _on_the_edge(runs: Sequence[Run]) -> bool:
    """Whether rounding could decide."""
    read = SWEEP.worked_answer(runs)
    mean, spread, _ = read[0.0]
    return any(
        abs(abs(one[0] - mean) - one[1] - spread) < 1e-3 for weight, one in read.items() if weight
    )


def _fresh_runs(rng: random.Random) -> Arguments:
    weights = [0.0, *rng.sample((0.01, 0.1, 0.3, 1.0, 3.0), 2)]
    while True:
        runs = [
            (weight, seed, round(rng.gauss(3 + rng.choice((0, 0, 1)) * weight, 0.4), 2))
            for weight in weights
            for seed in range(3)
        ]
        rng.shuffle(runs)
        if not _on_the_edge(runs):
            return (runs,)


SWEEP = Exercise(
    id="13.5",
    chosen=(
        _runs(zero=[3.0, 3.4], one=[5.0, 5.2]),
        _runs(one=[2.0, 3.5], zero=[3.0, 3.4]),
        ([(0.3, 0, 1.0), (0.0, 0, 3.0), (0.3, 1, 1.4), (0.0, 1, 3.2), (0.3, 2, 1.1)],),
        (
            [
                (1.0, 0, 4.1),
                (1.0, 1, 4.0),
                (0.1, 0, 3.9),
                (0.1, 1, 4.2),
                *_runs(zero=[3.0, 3.1])[0],
            ],
        ),
        # Wide at weight 0 and narrow at weight 1; and the other way round.
        _runs(zero=[2.0, 4.0], one=[4.2, 4.3]),
        _runs(zero=[4.2, 4.3], one=[2.0, 4.0]),
        # Between the root of the sum of the squares and the sum of the two spreads; and between
        # the larger of them and that root.
        _runs(zero=[2.0, 3.0], one=[3.2, 4.2]),
        _runs(zero=[2.0, 3.0], one=[2.85, 3.85]),
        _runs(zero=[0.5, 0.5], one=[0.5, 0.5]),
        _runs(zero=[1.0, 1.2, 3.0], one=[4.0, 4.1, 4.2]),
    ),
    fresh=_fresh_runs,
)


# 13.6 A ceiling for honest heads


def _fresh_patients(rng: random.Random) -> Arguments:
    codes = rng.sample(("4280", "4019", "25000", "650", "V270", "5990"), 2)
    patients = [
        (rng.choice("FM"), [rng.choice(codes) for _ in range(rng.choice((0, 1, 2, 2, 3)))])
        for _ in range(rng.randint(4, 8))
    ]
    return (patients,)


CEILING = Exercise(
    id="13.6",
    chosen=(
        ([("F", ["4280"]), ("M", ["4280"]), ("M", ["4280"])],),
        ([("M", ["4019"]), ("F", ["25000"]), ("M", ["4019"]), ("F", ["25000"]), ("F", [])],),
        # What is read later is not known yet; and a last code alone is less than all of them.
        ([("F", ["4019"]), ("M", ["4019", "600"]), ("F", ["650", "4019"]), ("M", ["5990"])],),
        ([("F", ["650", "5990"]), ("M", ["600", "5990"]), ("M", ["600", "5990"])],),
        # The order tells, and so does having a code twice.
        ([("F", ["4019", "25000"]), ("M", ["25000", "4019"]), ("F", []), ("M", [])],),
        ([("F", ["4019", "4019"]), ("M", ["4019"]), ("M", ["4019"])],),
        # Two lists of codes that are one and the same when their letters are joined.
        ([("F", ["042", "0380"]), ("M", ["0420", "380"]), ("F", ["042", "0380"])],),
        # One patient has most of the moments.
        (
            [
                ("M", ["4280", "4019", "5990", "25000"]),
                ("F", ["4280"]),
                ("F", ["4280"]),
                ("F", []),
            ],
        ),
        ([("F", []), ("F", []), ("M", [])],),
        ([("M", ["4280"]), ("M", ["4019", "5990"])],),
    ),
    fresh=_fresh_patients,
)

EXERCISES = (LAST_REAL, BRACKETS, TOKEN_LOSS, LEAK, SWEEP, CEILING)
