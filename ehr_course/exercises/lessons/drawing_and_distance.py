"""Exercises 19.1 and 19.2: how codes are drawn, and how far two counts of codes are apart."""

from __future__ import annotations

import math
import random

import numpy as np
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise

# 19.1 Top-k and top-p


def _warped(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
    """The reference: the three warpers of transformers, one after the other."""
    from transformers.generation.logits_process import (  # half a second, so only here
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    warpers = [TemperatureLogitsWarper(float(temperature))]
    warpers += [TopKLogitsWarper(k)] if k else []
    warpers.append(TopPLogitsWarper(float(p)))
    scores = logits.double()
    for warper in warpers:
        scores = warper(None, scores)
    return scores.softmax(-1)


def _top_k(logits: Tensor, k: int, *, off_by: int = 0, excluded: float = -math.inf) -> Tensor:
    """Logits with all but the k greatest of each row excluded."""
    if not k:
        return logits
    ranks = logits.argsort(-1, descending=True).argsort(-1)
    return logits.masked_fill(ranks >= k + off_by, excluded)


def _clear_of_a_sum(probs: Tensor, p: float) -> bool:
    """Whether no sum of the likeliest tokens is nearly p: rounding must not decide."""
    sums = probs.sort(-1, descending=True).values.cumsum(-1)
    return bool(((sums - p).abs() > 5e-3).all())


def _fresh_logits(rng: random.Random) -> Arguments:
    while True:
        rows, vocab = rng.randint(1, 3), rng.randint(4, 6)
        values = [[tenth / 10 for tenth in rng.sample(range(-25, 26), vocab)] for _ in range(rows)]
        logits = torch.tensor(values)
        if rng.random() < 0.3:
            logits[rng.randrange(rows), rng.randrange(vocab)] = -math.inf
        temperature = rng.choice((0.5, 0.7, 1.0, 1.5, 2.0))
        k = rng.choice((0, *range(1, vocab)))
        p = rng.choice((0.3, 0.5, 0.6, 0.8, 0.9, 0.95))
        kept = _top_k(logits.double() / temperature, k).softmax(-1)
        if _clear_of_a_sum(kept, p):
            return logits, temperature, k, p


SAMPLING = Exercise(
    id="19.1",
    reference=_warped,
    chosen=(
        (torch.tensor([[0.0, 2.0, 1.0]]), 1.0, 2, 0.95),
        (torch.tensor([[1.0, 3.0, 0.0, 2.0]]), 1.0, 0, 0.7),
        (torch.tensor([[0.0, 4.0, 1.0]]), 1.0, 0, 0.5),
        (torch.tensor([[0.4, 1.0, 0.8, 0.0]]), 2.0, 0, 0.6),
        (torch.tensor([[0.5, 1.5, 1.0, 0.0]]), 0.5, 3, 0.8),
        (torch.tensor([[0.5, 1.5, 1.0, 0.0]]), 0.5, 0, 0.8),
        (torch.tensor([[1.0, 0.8, 0.6, 0.4]]), 1.0, 2, 0.5),
        (torch.tensor([[1.0, 0.8, 0.6, 0.4, 0.2]]), 1.0, 3, 0.6),
        (torch.tensor([[0.0, 1.0, 3.0], [5.0, 4.0, 4.5]]), 1.0, 1, 0.95),
        (torch.tensor([[-1.0, -2.0, -0.5], [0.3, -math.inf, 1.3]]), 1.0, 2, 0.95),
        (torch.tensor([[-1.0, -2.0, -0.5, -1.5]]), 2.0, 0, 0.95),
        (torch.tensor([[2.0, 0.0, 1.0, 1.5]]), 0.7, 0, 0.3),
        (torch.tensor([[-30000.0, -30002.0, -30001.0]]), 1.0, 2, 0.95),
        (torch.tensor([[-30000.0, -math.inf, -30001.0]]), 1.0, 0, 0.95),
    ),
    fresh=_fresh_logits,
    tolerance=1e-4,
)


# 19.2 The distance between code distributions


def _distance(real: np.ndarray, synthetic: np.ndarray) -> float:
    """The reference: SciPy's, which divides each by its sum."""
    return float(jensenshannon(real.astype(float), synthetic.astype(float), base=2))


def _counts(rng: random.Random, n: int) -> np.ndarray:
    counts = [rng.choice((0, 0, 1, 2, 3, 5, 8, 13)) for _ in range(n)]
    counts[rng.randrange(n)] += 1
    return np.array(counts)


def _fresh_counts(rng: random.Random) -> Arguments:
    n = rng.randint(3, 6)
    while True:
        real, synthetic = _counts(rng, n), _counts(rng, n)
        if _distance(real, synthetic) > 0.05:
            return real, synthetic


DISTANCE = Exercise(
    id="19.2",
    reference=_distance,
    chosen=(
        (np.array([3, 1]), np.array([1, 3])),
        (np.array([2, 2]), np.array([6, 2])),
        (np.array([1, 0]), np.array([0, 4])),
        (np.array([1, 3, 0]), np.array([2, 6, 0])),
        (np.array([4, 4, 0]), np.array([4, 0, 4])),
        (np.array([10, 5, 1]), np.array([100, 20, 40])),
        (np.array([6, 3, 0, 1]), np.array([1, 2, 0, 3])),
        (np.array([6, 3, 1, 0, 2]), np.array([30, 9, 0, 4, 7])),
    ),
    fresh=_fresh_counts,
    tolerance=1e-6,
)

EXERCISES = (SAMPLING, DISTANCE)
