"""The exercises of lesson 17: coverage and beam search."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, tensors


def _shares(rng: random.Random, n: int) -> list[float]:
    """Numbers in hundredths, 0 or more, that sum to 1."""
    cuts = sorted(rng.randint(0, 100) for _ in range(n - 1))
    return [(b - a) / 100 for a, b in itertools.pairwise([0, *cuts, 100])]


def _attention(rng: random.Random, *shape: int) -> Tensor:
    """Attention with two decimals: the last axis sums to 1."""
    rows = [_shares(rng, shape[-1]) for _ in range(math.prod(shape[:-1]))]
    return torch.tensor(rows).reshape(shape)


# 17.1 The coverage vector


def _fresh_attention(rng: random.Random) -> Arguments:
    return (_attention(rng, rng.randint(2, 4), rng.randint(2, 4)),)


COVERAGE = Exercise(
    id="17.1",
    chosen=(
        (torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]),),
        (torch.tensor([[0.8, 0.2, 0.0], [0.7, 0.1, 0.2], [0.6, 0.0, 0.4], [0.1, 0.3, 0.6]]),),
    ),
    fresh=_fresh_attention,
    extreme=((torch.tensor([[0.3, 0.7]]),),),  # a summary that is over with its first token
    tolerance=FLOAT32,
)


# 17.2 The coverage loss


def _ended(rng: random.Random, batch: int, target: int) -> Tensor:
    """Scored steps, bool (batch, target): rows of several lengths."""
    lengths = torch.tensor([rng.randint(1, target) for _ in range(batch)])
    return torch.arange(target) < lengths[:, None]


def _fresh_loss(rng: random.Random) -> Arguments:
    batch, target, source = rng.randint(1, 2), rng.randint(2, 4), rng.randint(2, 3)
    return _attention(rng, batch, target, source), _ended(rng, batch, target)


_TWO = torch.tensor(
    [
        [[0.8, 0.2, 0.0], [0.3, 0.5, 0.2], [0.6, 0.1, 0.3], [0.2, 0.2, 0.6]],
        [[0.1, 0.9, 0.0], [0.4, 0.4, 0.2], [0.7, 0.1, 0.2], [0.0, 0.5, 0.5]],
    ]
)

LOSS = Exercise(
    id="17.2",
    chosen=(
        tensors([[[0.75, 0.25], [0.5, 0.5]]], [[True, True]]),
        tensors([[[0.75, 0.25], [0.5, 0.5]]], [[True, False]]),
        (_TWO, torch.tensor([[True, True, True, False], [True, True, False, False]])),
        (_TWO, torch.tensor([[True] * 4] * 2)),
        (_TWO[1:, :3], torch.tensor([[True, True, False]])),
        # A second step that costs nothing.
        tensors([[[1.0, 0.0], [0.0, 1.0]]], [[True, True]]),
    ),
    fresh=_fresh_loss,
    tolerance=FLOAT32,
)


# 17.3 Block repeated trigrams

EOS = 2


def _fresh_tokens(rng: random.Random) -> Arguments:
    tokens = [rng.choice([5, 6, 7, 8]) for _ in range(rng.randint(0, 9))]
    if rng.random() < 0.25:
        tokens += [EOS] * rng.randint(1, 3)
    return (tokens,)


BLOCKING = Exercise(
    id="17.3",
    chosen=(
        ([5, 6, 7, 8, 5, 6],),
        ([],),
        ([5],),
        ([5, 6],),
        ([5, 5],),
        ([5, 5, 5],),
        ([5, 6, 7, 5, 6, 8, 5, 6],),
        ([6, 5, 7, 5, 6],),
        ([5, 6, 7, 5, 6, 7],),
        ([5, 6, 7, 8, 9, 7],),
        ([5, 6, 2, 2, 2],),
        ([5, 6, 7, 5, 6, 2, 2],),
        ([0, 5, 0, 7, 0, 5],),
        ([15, 6, 7, 5, 6],),
        ([5, 16, 7, 51, 6],),
        ([5, 5, 5, 6, 5, 5],),
        ([5, 6, 7, 8, 9, 4, 8, 7, 9, 8, 5, 6],),
    ),
    fresh=_fresh_tokens,
)


# 17.4 One step of a beam search


def _totals(log_probs: Tensor, scores: Tensor) -> Tensor:
    return scores[:, :, None] + log_probs


def _clear(log_probs: Tensor, scores: Tensor) -> bool:
    """Whether no two continuations of an example are nearly equal, however they are scored."""
    started = scores.masked_fill(scores.isinf(), 0.0)
    tables = [_totals(log_probs, started), log_probs]
    if bool(started.all()):
        tables.append(log_probs * scores[:, :, None])
    return all(
        float(table.flatten(1).sort(dim=1).values.diff(dim=1).min()) > 1e-3 for table in tables
    )


def _fresh_step(rng: random.Random) -> Arguments:
    while True:
        batch, beams, vocab = rng.randint(1, 2), rng.randint(2, 3), rng.randint(3, 4)
        n = batch * beams * vocab
        log_probs = torch.tensor([-rng.randint(10, 400) / 100 for _ in range(n)])
        scores = torch.tensor([-rng.randint(1, 300) / 100 for _ in range(batch * beams)])
        log_probs, scores = log_probs.reshape(batch, beams, vocab), scores.reshape(batch, beams)
        if rng.random() < 0.25:  # a first step: one hypothesis, the others not there yet
            scores[:], scores[:, 1:] = 0.0, -torch.inf
        if _clear(log_probs, scores):
            return log_probs, scores


_STEP = torch.tensor([[[-0.2, -2.0, -3.0], [-0.4, -1.2, -2.6]]])
_OTHER = torch.tensor([[[-2.4, -0.3, -1.75], [-1.1, -0.9, -0.6]]])

BEAM_STEP = Exercise(
    id="17.4",
    chosen=(
        (_STEP, torch.tensor([[-0.1, -1.5]])),
        (_STEP, torch.tensor([[-2.5, -0.3]])),
        (torch.cat([_STEP, _OTHER]), torch.tensor([[-0.1, -0.7], [-2.0, -3.1]])),
        (torch.cat([_OTHER, _STEP]), torch.tensor([[-0.1, -0.7], [-0.3, -3.1]])),
        tensors(
            [[[-0.5, -1.3, -2.2, -1.9], [-0.6, -1.4, -2.1, -1.8], [-0.4, -1.7, -2.3, -1.1]]],
            [[0.0, -math.inf, -math.inf]],
        ),
        # A long hypothesis, and a beam that is not there: no number is as low as minus infinity.
        (_OTHER, torch.tensor([[-300.0, -math.inf]])),
        (_STEP, torch.tensor([[-math.inf, -12_000.0]])),
        # As many beams as the vocabulary has tokens, and more.
        tensors([[[-0.3, -1.4], [-0.9, -0.6]]], [[-0.9, -0.2]]),
        tensors([[[-0.3, -1.4], [-0.9, -0.7], [-0.2, -2.0]]], [[-0.9, -0.25, -1.6]]),
        tensors([[[-3.0, -0.5, -2.1, -1.8], [-0.7, -2.9, -2.3, -1.15]]], [[-1.0, -0.9]]),
    ),
    fresh=_fresh_step,
    tolerance=FLOAT32,
)


# 17.5 The length penalty

Hypotheses = Sequence[Sequence[float]]


def _fresh_hypotheses(rng: random.Random) -> Arguments:
    while True:
        lengths = rng.sample(range(1, 8), rng.randint(2, 3))
        hypotheses = [[-rng.randint(5, 150) / 100 for _ in range(n)] for n in lengths]
        alpha = rng.choice([0.6, 1.0, 1.4, 2.0])
        # Equal log-probabilities, or scores that rounding down makes equal, would leave it to
        # the order of additions which hypothesis a wrong idea chooses.
        sums = [math.fsum(tokens) for tokens in hypotheses]
        rounded = [p / ((5 + n) // 6) ** alpha for p, n in zip(sums, lengths, strict=True)]
        if all(map(_apart, (sums, rounded, LENGTH_PENALTY.worked_answer(hypotheses, alpha)[0]))):
            return hypotheses, alpha


def _apart(scores: Sequence[float]) -> bool:
    return all(b - a > 0.02 for a, b in itertools.pairwise(sorted(scores)))


LENGTH_PENALTY = Exercise(
    id="17.5",
    chosen=(
        ([[-0.9, -0.3], [-0.4, -0.4, -0.4, -0.2]], 1.0),
        ([[-0.9, -0.3], [-0.4, -0.4, -0.4, -0.2]], 0.0),
        ([[-0.5], [-0.2, -0.3, -0.2, -0.1, -0.1]], 2.0),
        ([[-0.5, -0.7], [-0.4, -0.8, -0.6], [-0.3, -0.4, -0.5, -0.2, -0.1]], 0.5),
        ([[-0.9, -0.2], [-0.2, -0.1, -0.2, -0.1, -0.2, -0.1, -0.3, -0.2]], 1.0),
        # The longer one is the more probable one too.
        ([[-1.3], [-0.2, -0.1, -0.2, -0.1, -0.2, -0.1, -0.3]], 1.0),
    ),
    fresh=_fresh_hypotheses,
    tolerance=1e-6,
)


# 17.6 Who can still win?

Sums = Sequence[tuple[float, int]]


def _scores(some: Sums, alpha: float, length: int | None = None) -> list[float]:
    return [total / ((5 + (length or n)) / 6) ** alpha for total, n in some]


def _fresh_live(rng: random.Random) -> Arguments:
    while True:
        n = rng.randint(2, 7)
        max_length = n + rng.randint(1, 9)
        live = [(-rng.randint(20, 400) / 100, n) for _ in range(rng.randint(2, 4))]
        finished = [
            (-rng.randint(20, 300) / 100, rng.randint(2, n)) for _ in range(rng.randint(0, 3))
        ]
        alpha = rng.choice([0.0, 0.5, 1.0, 1.5])
        bounds = _scores(live, alpha, max_length)
        if _apart([*bounds, *_scores(finished, alpha)]):
            return live, finished, alpha, max_length


CAN_STILL_WIN = Exercise(
    id="17.6",
    chosen=(
        ([(-0.75, 4), (-3.25, 4), (-1.75, 4)], [(-1.5, 4)], 1.0, 13),
        ([(-1.5, 3), (-1.75, 3), (-2.6, 3), (-4.0, 3)], [(-1.6, 3)], 1.0, 13),
        ([(-2.9, 6), (-1.75, 6), (-2.2, 6)], [(-2.0, 3), (-2.4, 6), (-1.95, 2)], 1.0, 7),
        ([(-0.9, 4), (-1.1, 4)], [(-1.0, 3)], 0.0, 12),
        # As good as the best finished one is not better.
        ([(-1.0, 4), (-0.75, 4)], [(-1.0, 3)], 0.0, 12),
        ([(-2.0, 2), (-5.0, 2)], [], 1.0, 9),
        ([(-2.6, 5), (-3.4, 5), (-1.1, 5)], [(-1.2, 2), (-1.3, 5)], 2.0, 9),
        ([(-1.9, 7), (-2.3, 7), (-1.3, 7)], [(-1.35, 3), (-1.5, 6)], 0.5, 8),
        ([(-3.1, 5), (-2.4, 5)], [(-0.6, 4), (-2.9, 5)], 1.0, 7),
        ([(-2.6, 5), (-3.4, 5), (-1.1, 5)], [(-1.2, 2)], 2.0, 9),
        ([(-2.2, 4), (-1.5, 4)], [(-1.35, 3)], 0.5, 13),
        # Of two finished ones the less probable has the better score.
        ([(-2.1, 8), (-1.9, 8)], [(-1.2, 1), (-1.6, 7)], 1.0, 9),
        ([(-2.3, 8), (-3.3, 8)], [(-1.4, 1), (-1.9, 7)], 1.0, 16),
    ),
    fresh=_fresh_live,
)


# 17.7 ROUGE-L


_WORDS = ("pain", "painless", "fever", "no", "home", "and")


def _fresh_texts(rng: random.Random) -> Arguments:
    return tuple([rng.choice(_WORDS) for _ in range(rng.randint(1, 6))] for _ in range(2))


ROUGE_L = Exercise(
    id="17.7",
    chosen=(
        (["no", "fever", "home"], ["home", "no", "fever", "today"]),
        (["pain", "fever", "no", "home"], ["pain", "no", "fever", "and", "home"]),
        (["fever", "fever", "fever"], ["fever", "and", "pain"]),
        ([], ["fever"]),
        (["fever"], []),
        ([], []),
        (["no", "pain", "and", "fever", "no"], ["pain", "and", "no", "fever", "no", "home"]),
        (["pain", "home"], ["pain", "home"]),
        # Words that begin and end alike, and words that are a part of another.
        (["pain", "fever", "no"], ["painless", "fewer", "to"]),
        (["nothing", "painful"], ["no", "pain"]),
        (["no", "fever", "no", "pain"], ["no", "pain", "no", "fever"]),
        (["pain", "and", "fever"], ["fever", "and", "fever", "and", "pain"]),
        # The longest run is not a part of the longest subsequence, nor is any first choice.
        (["no", "fever", "and", "no", "home"], ["no", "home", "and", "no", "fever"]),
        (["no", "pain", "no", "no"], ["no", "no", "no"]),
    ),
    fresh=_fresh_texts,
    tolerance=1e-6,
)


EXERCISES = (COVERAGE, LOSS, BLOCKING, BEAM_STEP, LENGTH_PENALTY, CAN_STILL_WIN, ROUGE_L)
