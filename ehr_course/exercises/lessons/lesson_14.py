"""The exercises of lesson 14: loss functions."""

from __future__ import annotations

import math
import random
from typing import Literal

import torch
from torch import Tensor, tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers, tensors
from ehr_course.exercises.loss_to_probe import WAYS, HiddenLoss
from ehr_course.losses import LossTerm

NOT_SCORED = -100


def _labels(rng: random.Random, batch: int, length: int, vocab: int) -> Tensor:
    """Labels of a padded batch: rows of several lengths, -100 after the end of each."""
    labels = torch.full((batch, length), NOT_SCORED)
    for row in labels:
        n_scored = rng.randint(1, length)
        row[:n_scored] = tensor([rng.randrange(vocab) for _ in range(n_scored)])
    return labels


# 14.1 Masked cross-entropy


def _fresh_logits(rng: random.Random) -> Arguments:
    batch, length, vocab = rng.randint(2, 3), rng.randint(2, 4), rng.randint(3, 4)
    labels = _labels(rng, batch, length, vocab)
    labels[rng.randrange(batch), 0] = rng.randrange(vocab)
    return numbers(rng, batch, length, vocab, up_to=30), labels


_S22 = tensor([[[1.0, 0.0], [0.0, 2.0]], [[0.5, 1.0], [3.0, 0.0]]])

MASKED = Exercise(
    id="14.1",
    chosen=(
        tensors([[[2.0, 0.0, 1.0]]], [[0]]),
        tensors([[[1.0, 0.0], [0.0, 2.0]]], [[0, -100]]),
        (_S22, tensor([[1, 0], [1, -100]])),
        (_S22, tensor([[1, 1], [-100, -100]])),
        tensors([[[120.0, 118.0], [-120.0, -121.0]]], [[1, 0]]),
        tensors([[[120.0, 118.0], [121.0, 119.0]]], [[1, 0]]),
        tensors([[[150.0, 0.0], [0.0, 1.0]]], [[1, 0]]),
        tensors([[[40.0, 0.0], [0.0, 1.0]]], [[0, 0]]),
        tensors([[[0.0, 1.0], [2.0, 0.0], [1.0, 1.5]]], [[-100, 1, 0]]),
        tensors([[[0.5, 1.0, 2.0]] * 3, [[1.0, -1.0, 0.5]] * 3], [[2, 1, 0], [1, -100, -100]]),
    ),
    fresh=_fresh_logits,
    tolerance=FLOAT32,
)


# 14.2 Label smoothing


def _fresh_smoothing(rng: random.Random) -> Arguments:
    n, vocab = rng.randint(2, 4), rng.randint(3, 4)
    labels = tensor([rng.randrange(vocab) for _ in range(n)])
    if rng.random() < 0.5:
        labels[rng.randrange(1, n)] = NOT_SCORED
    return numbers(rng, n, vocab, up_to=30), labels, rng.choice((0.05, 0.1, 0.2, 0.3, 0.6))


_S3 = tensor([[2.0, 0.0, 1.0], [0.0, 0.5, -1.0], [1.0, 3.0, 0.0]])

SMOOTHED = Exercise(
    id="14.2",
    chosen=(
        tensors([[2.0, 0.0]], [0], 0.1),
        tensors([[2.0, 0.0]], [1], 0.4),
        (_S3, tensor([0, 1, 2]), 0.0),
        (_S3, tensor([0, 1, 2]), 0.1),
        (_S3, tensor([0, -100, 2]), 0.1),
        (_S3, tensor([1, -100, -100]), 0.3),
        (_S3, tensor([-100, 2, 1]), 1.0),
        tensors([[90.0, 0.0, -90.0], [-1.0, 0.0, 1.0]], [0, 1], 0.2),
        tensors([[120.0, 118.0, 119.0]], [1], 0.2),
        tensors([[40.0, 0.0], [0.0, 1.0]], [0, 0], 0.0),
    ),
    fresh=_fresh_smoothing,
    tolerance=FLOAT32,
)


# 14.3 One loss over unequal micro-batches


def _fresh_parts(rng: random.Random) -> Arguments:
    micro_batches = []
    for _ in range(rng.randint(2, 3)):
        rows, length = rng.randint(1, 2), rng.randint(1, 3)
        losses = tensor([rng.randint(1, 60) / 10 for _ in range(rows * length)])
        micro_batches.append((losses.reshape(rows, length), _labels(rng, rows, length, 30)))
    return (micro_batches,)


def _part(losses: list[list[float]], labels: list[list[int]]) -> tuple[Tensor, Tensor]:
    return tensor(losses), tensor(labels)


PARTS = Exercise(
    id="14.3",
    chosen=(
        ([_part([[1.0, 3.0]], [[7, 8]]), _part([[2.0, 9.0]], [[8, -100]])],),
        ([_part([[2.0, 4.0, 3.0]], [[1, 9, 2]])],),
        (
            [
                _part([[6.0]], [[2]]),
                _part([[1.0, 2.0, 3.0], [2.0, 5.0, 5.0]], [[1, 9, 2], [2] * 3]),
            ],
        ),
        (
            [
                _part([[1.0, 2.0], [3.0, 8.0]], [[0, 2], [1, -100]]),
                _part([[5.0, 1.0, 1.0]], [[1, 9, 2]]),
                _part([[4.0], [2.0], [9.0]], [[1], [2], [-100]]),
            ],
        ),
        ([_part([[3.0, 7.0]], [[-100, -100]]), _part([[2.0, 5.0]], [[1, 2]])],),
        ([_part([[0.0, 3.0]], [[4, 1]]), _part([[2.0]], [[5]])],),
        # What stands on padding means nothing, and may be no number at all.
        ([_part([[2.0, math.nan]], [[4, -100]]), _part([[2.0, math.inf]], [[5, -100]])],),
    ),
    fresh=_fresh_parts,
    tolerance=FLOAT32,
)


# 14.4 A penalty with a gradient


def _symmetric(rng: random.Random, vocab: int) -> Tensor:
    """Pairs of tokens, none of them with token 0, which is padding."""
    never = torch.zeros(vocab, vocab, dtype=torch.bool)
    pairs = [(i, j) for i in range(1, vocab) for j in range(i + 1, vocab)]
    for i, j in rng.sample(pairs, rng.randint(2, 4)):
        never[i, j] = never[j, i] = True
    return never


def _fresh_penalty(rng: random.Random) -> Arguments:
    vocab, batch, length = 5, 2, rng.randint(2, 3)
    labels = _labels(rng, batch, length, vocab - 1)
    labels[labels >= 0] += 1
    read = torch.zeros(batch, length, dtype=torch.long)
    read[:, 0] = tensor([rng.randrange(1, vocab) for _ in range(batch)])
    read[:, 1:] = labels[:, :-1].clamp(min=0)
    return numbers(rng, batch, length, vocab), read, _symmetric(rng, vocab), labels


def _pairs(vocab: int, *pairs: tuple[int, int]) -> Tensor:
    never = torch.zeros(vocab, vocab, dtype=torch.bool)
    for i, j in pairs:
        never[i, j] = never[j, i] = True
    return never


_L3 = tensor([[[0.0, 1.0, 0.5, -0.5], [1.0, 0.0, 2.0, 0.5], [0.5, 0.5, 0.0, 1.0]]])
_TWO = tensor(
    [
        [[0.0, 2.0, 1.0, 0.0], [1.0, 0.0, -1.0, 2.0], [0.0, 1.0, 0.0, 0.5]],
        [[0.5, 0.0, 1.0, 1.0], [2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 1.0]],
    ]
)

PENALTY = Exercise(
    id="14.4",
    chosen=(
        (tensor([[[0.0, 1.0, 2.0]]]), tensor([[1]]), _pairs(3, (1, 2)), tensor([[1]])),
        (_L3, tensor([[1, 2, 3]]), _pairs(4, (1, 3)), tensor([[2, 3, 3]])),
        (_L3, tensor([[1, 2, 2]]), _pairs(4, (1, 3), (2, 3)), tensor([[2, 2, 1]])),
        (_L3, tensor([[2, 1, 0]]), _pairs(4, (1, 3)), tensor([[1, 2, -100]])),
        (
            _TWO,
            tensor([[1, 3, 2], [2, 1, 0]]),
            _pairs(4, (1, 3), (1, 2)),
            tensor([[3, 2, 3], [1, -100, -100]]),
        ),
        (_L3, tensor([[1, 2, 3]]), _pairs(4), tensor([[2, 3, 3]])),
        (_L3, tensor([[1, 2, 3]]), _pairs(4, (1, 3)), tensor([[2, 0, 3]])),
    ),
    fresh=_fresh_penalty,
    tolerance=FLOAT32,
)


# 14.5 The total loss


def _term(
    name: str,
    total: float,
    n: int,
    weight: float = 1.0,
    per: Literal["token", "row"] = "token",
) -> LossTerm:
    return LossTerm(name, tensor(total, requires_grad=True), tensor(n), weight, per)


def _fresh_terms(rng: random.Random) -> Arguments:
    rows = rng.randint(2, 4)
    tokens = rows * rng.randint(5, 9)
    own = rng.randint(2, tokens - 3)
    names = rng.sample(("age", "sex", "co_occurrence"), 2)
    counted: tuple[Literal["token", "row"], ...] = ("token", "row")
    kinds = zip(names, rng.sample(counted, 2), strict=True)
    terms = [_term("language_model", rng.randint(10, 90) / 2, own, rng.choice((1.0, 2.0)))]
    for name, per in kinds:
        count = own if per == "token" else 1
        weight = rng.choice((0.1, 0.2, 0.5, 3.0))
        terms.append(_term(name, rng.randint(4, 40) / 2, count, weight, per))
    return terms, {"token": tokens, "row": rows}


_LM = _term("language_model", 30.0, 10)

TOTAL = Exercise(
    id="14.5",
    chosen=(
        ([_LM], {"token": 10, "row": 2}),
        # One term alone has a gradient: first the second, then the first.
        ([_LM._replace(total=tensor(30.0)), _term("age", 0.8, 2, 0.5)], {"token": 10, "row": 2}),
        ([_LM, LossTerm("age", tensor(0.8), tensor(2), 0.5)], {"token": 10, "row": 2}),
        ([_LM, _term("age", 0.8, 2, 0.5, "row")], {"token": 10, "row": 2}),
        (
            [_term("language_model", 30.0, 10, 0.5), _term("sex", 8.0, 10, 0.2)],
            {"token": 20, "row": 5},
        ),
        (
            [
                _term("language_model", 18.0, 6),
                _term("age", 3.0, 1, 2.0, "row"),
                _term("sex", 4.0, 6, 0.25),
            ],
            {"token": 24, "row": 3},
        ),
        ([_term("age", 3.0, 2, 0.5, "row"), _term("sex", 4.0, 8, 3.0)], {"token": 16, "row": 4}),
        (
            [_LM, _term("age", 6.0, 10, 0.5), _term("sex", 2.0, 2, 0.2, "row")],
            {"token": 20, "row": 4},
        ),
        ([_LM, _term("age", 6.0, 2, 0.0, "row")], {"token": 20, "row": 4}),
    ),
    fresh=_fresh_terms,
    tolerance=FLOAT32,
)

# 14.6 What does this loss compute?


def _fresh_hidden(rng: random.Random) -> Arguments:
    return (HiddenLoss(rng.choice(WAYS), rng.randint(1, 999) / 1000),)


PROBED = Exercise(
    id="14.6",
    chosen=tuple(
        (HiddenLoss(way, smoothing),)
        for way, smoothing in (
            ("scored", 0.1),
            ("sum", 0.0),
            ("places", 0.0),
            ("scored", 0.0),
            ("rows", 0.0),
            ("rows", 0.255),
            ("places", 0.36),
            ("sum", 0.42),
            # Most or all of the target is spread.
            ("sum", 0.95),
            ("places", 0.95),
            ("scored", 0.95),
            ("rows", 1.0),
        )
    ),
    fresh=_fresh_hidden,
    tolerance=1e-3,
    fresh_inputs=6,
)

EXERCISES = (MASKED, SMOOTHED, PARTS, PENALTY, TOTAL, PROBED)
