"""The exercises of lesson 09: corruption."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.bart.modeling_bart import shift_tokens_right

from ehr_course.exercises.exercise import Arguments, Exercise

Ids = list[int]

PAD, BOS, EOS, VISIT, VISIT_END, END, MASK = range(7)
FIRST_CODE = 7


def _visit(codes: Sequence[int]) -> Ids:
    return [VISIT, *codes, VISIT_END]


def _some_visit(rng: random.Random, most: int) -> Ids:
    return _visit(rng.sample(range(FIRST_CODE, 40), rng.randint(1, most)))


# 09.1 Span lengths

_MORE_THAN_ANYONE_DRAWS = 80


def _clamped(mean: float, longest: int) -> list[float]:
    """Clamp every length that can be drawn, and add up where each one lands."""
    drawn = torch.arange(_MORE_THAN_ANYONE_DRAWS, dtype=torch.float64)
    shares = torch.distributions.Poisson(torch.tensor(mean, dtype=torch.float64)).log_prob(drawn)
    landed = drawn.long().clamp(1, longest)
    probabilities = torch.bincount(landed, shares.exp(), minlength=longest + 1)[1:].tolist()
    return [round(probability, 9) for probability in probabilities]  # 1.0, not 0.99...9


SPAN_LENGTHS = Exercise(
    id="09.1",
    reference=_clamped,
    chosen=((3.0, 5), (3.0, 3), (1.5, 2), (0.5, 4), (6.0, 4), (2.0, 1), (1.0, 6)),
    fresh=lambda rng: (round(rng.uniform(0.4, 6.0), 1), rng.randint(1, 8)),
)


# 09.2 Mask infilling


def _infill(visit: Ids, start: int, length: int) -> Ids:
    """Walk through the codes; say <mask> where the span begins, and nothing further on in it."""
    out = []
    for place, token in enumerate(visit[1:-1]):
        if place == start:
            out.append(MASK)
        if not start <= place < start + length:
            out.append(token)
    return _visit(out)


def _fresh_span(rng: random.Random) -> Arguments:
    visit = _some_visit(rng, 6)
    return visit, rng.randrange(len(visit) - 2), rng.randint(1, 4)


INFILL = Exercise(
    id="09.2",
    reference=_infill,
    chosen=(
        ([3, 12, 9, 30, 8, 4], 1, 2),
        ([3, 12, 9, 30, 8, 4], 0, 1),
        ([3, 12, 9, 30, 8, 4], 0, 3),
        ([3, 12, 9, 30, 8, 4], 3, 1),
        ([3, 12, 9, 30, 8, 4], 2, 4),
        ([3, 12, 9, 30, 8, 4], 3, 2),
        ([3, 21, 15, 4], 0, 2),
        ([3, 17, 4], 0, 1),
        ([3, 17, 4], 0, 3),
        ([3, 9, 12, 9, 30, 4], 2, 1),
        ([3, 9, 12, 9, 30, 4], 3, 1),
    ),
    fresh=_fresh_span,
)


# 09.3 Deletion


def _delete(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    """Walk backwards through the codes and take them out one by one."""
    codes = list(visit[1:-1])
    for place in reversed(range(len(codes))):
        if draws[place] < p:
            del codes[place]
    return _visit(codes or [visit[1 + spare]])


def _fresh_deletion(rng: random.Random) -> Arguments:
    visit = _some_visit(rng, 5)
    n = len(visit) - 2
    draws = [round(rng.random() * 0.99, 2) for _ in range(n)]
    p = rng.choice([0.15, 0.5, 0.5, 0.85, 1.0])
    return visit, draws, p, rng.randrange(n)


DELETE = Exercise(
    id="09.3",
    reference=_delete,
    chosen=(
        ([3, 12, 9, 30, 8, 4], [0.62, 0.05, 0.31, 0.9], 0.15, 2),
        ([3, 12, 9, 30, 8, 4], [0.02, 0.71, 0.1, 0.04], 0.15, 0),
        ([3, 12, 9, 30, 4], [0.05, 0.12, 0.08], 0.15, 2),
        ([3, 12, 9, 30, 4], [0.05, 0.08, 0.12], 0.15, 1),
        ([3, 12, 9, 30, 4], [0.12, 0.05, 0.08], 0.15, 1),
        ([3, 21, 15, 4], [0.4, 0.6], 0.5, 0),
        ([3, 21, 15, 4], [0.6, 0.4], 0.5, 1),
        ([3, 17, 4], [0.03], 0.15, 0),
        ([3, 17, 11, 4], [0.0, 0.99], 0.0, 1),
        ([3, 17, 11, 26, 4], [0.2, 0.99, 0.0], 1.0, 1),
        ([3, 12, 9, 30, 4], [0.8, 0.95, 0.7], 0.15, 0),
        ([3, 21, 15, 4], [0.5, 0.6], 0.5, 0),
        ([3, 9, 12, 9, 30, 4], [0.6, 0.4, 0.05, 0.8], 0.15, 1),
        ([3, 9, 12, 9, 4], [0.6, 0.05, 0.8], 0.15, 0),
    ),
    fresh=_fresh_deletion,
)


# 09.4 Replacement


def _replace(
    visit: Ids, draws: Sequence[float], p: float, picks: Sequence[float], n_tokens: int
) -> Ids:
    """Write down all the candidates for a code, and choose one."""
    out = []
    for code, draw, pick in zip(visit[1:-1], draws, picks, strict=True):
        others = [*range(FIRST_CODE, code), *range(code + 1, n_tokens)]
        out.append(others[int(pick * len(others))] if draw < p else code)
    return _visit(out)


def _clear_picks(rng: random.Random, count: int, n_tokens: int) -> list[float]:
    """Numbers that fall clearly between two candidates, however many one believes there are."""

    def clear(pick: float) -> bool:
        return all(
            0.01 < pick * size % 1 < 0.99 for size in range(max(1, n_tokens - 14), n_tokens + 1)
        )

    picks: list[float] = []
    while len(picks) < count:
        pick = round(rng.random() * 0.99, 2)
        if clear(pick):
            picks.append(pick)
    return picks


def _fresh_replacement(rng: random.Random) -> Arguments:
    n_tokens = rng.randint(12, 17)
    n = rng.randint(1, 4)
    visit = _visit(rng.sample(range(FIRST_CODE, n_tokens), n))
    draws = [round(rng.random() * 0.99, 2) for _ in range(n)]
    p = rng.choice([0.15, 0.5, 0.8, 1.0])
    return visit, draws, p, _clear_picks(rng, n, n_tokens), n_tokens


REPLACE = Exercise(
    id="09.4",
    reference=_replace,
    chosen=(
        ([3, 7, 9, 4], [0.05, 0.6], 0.15, [0.3, 0.6], 12),
        ([3, 7, 9, 4], [0.6, 0.05], 0.15, [0.3, 0.6], 12),
        ([3, 9, 4], [0.05], 0.15, [0.47], 12),
        ([3, 8, 4], [0.05], 0.15, [0.02], 12),
        ([3, 7, 4], [0.05], 0.15, [0.02], 12),
        ([3, 11, 4], [0.05], 0.15, [0.97], 12),
        ([3, 7, 4], [0.05], 0.15, [0.97], 12),
        ([3, 10, 7, 8, 4], [0.3, 0.7, 0.1], 0.5, [0.6, 0.1, 0.9], 12),
        ([3, 12, 9, 4], [0.1, 0.2], 1.0, [0.13, 0.71], 15),
        ([3, 12, 9, 14, 4], [0.0, 0.2, 0.9], 0.0, [0.13, 0.71, 0.52], 15),
        ([3, 9, 4], [0.5], 0.5, [0.47], 12),
        ([3, 9, 11, 9, 4], [0.6, 0.9, 0.05], 0.15, [0.3, 0.3, 0.7], 12),
    ),
    fresh=_fresh_replacement,
)


# 09.5 Labels and decoder input


def _targets(clean: Tensor, corrupted: Tensor, scored: Tensor) -> tuple[Tensor, Tensor]:
    """Go through every position; a padding position never counts."""
    labels = torch.full_like(clean, -100)
    for row, position in (scored & (clean != PAD)).nonzero().tolist():
        labels[row, position] = clean[row, position]
    return labels, shift_tokens_right(clean, PAD, EOS)


def _padded(rows: Sequence[Ids], width: int) -> Tensor:
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def _case(clean: Sequence[Ids], corrupted: Sequence[Ids], scored: Sequence[Ids]) -> Arguments:
    """Pad the rows to the longest one; `scored` is 1 from the start of a row where it ends."""
    width = max(len(row) for row in (*clean, *corrupted))
    flags = [row + [1] * (width - len(row)) for row in scored]
    return _padded(clean, width), _padded(corrupted, width), torch.tensor(flags).bool()


def _fresh_batch(rng: random.Random) -> Arguments:
    clean, corrupted, scored = [], [], []
    for _ in range(rng.randint(1, 2)):
        codes = rng.sample(range(FIRST_CODE, 40), rng.randint(2, 4))
        clean.append([BOS, *_visit(codes), EOS])
        wrong = rng.randrange(len(codes))
        noisy = [MASK if i == wrong else code for i, code in enumerate(codes)]
        if rng.random() < 0.4:
            noisy.pop(rng.randrange(len(noisy)))
        corrupted.append([BOS, *_visit(noisy), EOS])
        scored.append([int(rng.random() < 0.6) for _ in clean[-1]])
    return _case(clean, corrupted, scored)


_TWO_CLEAN = [[1, 3, 12, 9, 30, 4, 2], [1, 3, 8, 4, 2]]
_TWO_CORRUPTED = [[1, 3, 12, 6, 4, 2], [1, 3, 21, 4, 2]]

TARGETS = Exercise(
    id="09.5",
    reference=_targets,
    chosen=(
        _case(_TWO_CLEAN, _TWO_CORRUPTED, [[], []]),
        _case(_TWO_CLEAN, _TWO_CORRUPTED, [[0, 0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0]]),
        _case([[1, 3, 17, 4, 2]], [[1, 3, 6, 4, 2]], [[]]),
        _case([[1, 3, 17, 25, 4, 2]], [[1, 3, 25, 4, 2]], [[1, 1, 1, 0, 1, 1]]),
        _case([[1, 3, 17, 4, 2], [1, 3, 11, 4, 2]], [[1, 3, 6, 4, 2], [1, 3, 9, 4, 2]], [[], []]),
        _case([[1, 3, 17, 25, 4, 2], [1, 3, 11, 4, 2]], [[1, 6, 2], [1, 6, 2]], [[], []]),
    ),
    fresh=_fresh_batch,
)

EXERCISES = (SPAN_LENGTHS, INFILL, DELETE, REPLACE, TARGETS)
