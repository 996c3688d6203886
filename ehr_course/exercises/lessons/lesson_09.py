"""The exercises of lesson 09: corruption."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.sealed import Sealed

Ids = list[int]

PAD, BOS, EOS, VISIT, VISIT_END, END, MASK = range(7)
FIRST_CODE = 7


def _visit(codes: Sequence[int]) -> Ids:
    return [VISIT, *codes, VISIT_END]


def _some_visit(rng: random.Random, most: int) -> Ids:
    return _visit(rng.sample(range(FIRST_CODE, 40), rng.randint(1, most)))


# 09.1 Span lengths


SPAN_LENGTHS = Exercise(
    id="09.1",
    chosen=((3.0, 5), (3.0, 3), (1.5, 2), (0.5, 4), (6.0, 4), (2.0, 1), (1.0, 6)),
    fresh=lambda rng: (round(rng.uniform(0.4, 6.0), 1), rng.randint(1, 8)),
)


# 09.2 Mask infilling


def _fresh_span(rng: random.Random) -> Arguments:
    visit = _some_visit(rng, 6)
    return visit, rng.randrange(len(visit) - 2), rng.randint(1, 4)


INFILL = Exercise(
    id="09.2",
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


def _fresh_deletion(rng: random.Random) -> Arguments:
    visit = _some_visit(rng, 5)
    n = len(visit) - 2
    draws = [round(rng.random() * 0.99, 2) for _ in range(n)]
    p = rng.choice([0.15, 0.5, 0.5, 0.85, 1.0])
    return visit, draws, p, rng.randrange(n)


DELETE = Exercise(
    id="09.3",
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

# 09.6 Find corrupted labels

_SEEDS_THAT_TELL = 60
"""Corrupted labels show in the batches of so many seeds, from 0 on."""


class BatchMaker(Sealed):
    """Makes batches of the same patients, with other damage for each seed, labels corrupted or
    not.

    Args:
        records: the clean ids of the patients, each one visit of two codes or more.
        kinds: the kinds of damage: "infill", "delete" or "replace".
        often: in what share of the seeds anything is damaged.
        corrupted: the rows whose labels are made from the damaged record.
        scored: which places count: "all", "some" (drawn again for each seed), "damaged", or
            "undamaged".
        salt: makes the noise another one.
        at_once: whether every row is damaged in such a seed; otherwise some of them.
    """

    def __init__(
        self,
        records: Sequence[Ids],
        kinds: Sequence[str],
        *,
        often: float = 1.0,
        corrupted: Sequence[int] = (),
        scored: str = "all",
        salt: int = 0,
        at_once: bool = False,
    ) -> None:
        self._records, self._kinds, self._often = records, tuple(kinds), often
        self._corrupted, self._scored, self._salt = tuple(corrupted), scored, salt
        self._at_once = at_once

    def __call__(self, seed: int) -> dict[str, Tensor]:
        """Return `input_ids` (batch, source), padded with 0, and `labels` (batch, target)."""
        rng = random.Random(1_000_003 * self._salt + int(seed))
        any_damage = rng.random() < self._often
        inputs, labels = [], []
        for row, clean in enumerate(self._records):
            touched = any_damage and (self._at_once or rng.random() < 0.6)
            start, end, new = self._damage(clean, rng) if touched else (0, 0, [])
            damaged = [*clean[:start], *new, *clean[end:]]
            inputs.append(damaged)
            if row in self._corrupted:
                labels.append(self._counted(damaged, start, start + len(new), rng))
            else:
                labels.append(self._counted(clean, start, end, rng))
        return {"input_ids": _filled(inputs, PAD), "labels": _filled(labels, -100)}

    def _damage(self, clean: Ids, rng: random.Random) -> tuple[int, int, Ids]:
        """Where the damage begins and ends in the clean record, and what stands there then."""
        place = rng.choice([i for i, token in enumerate(clean) if token >= FIRST_CODE])
        kind = rng.choice(self._kinds)
        if kind == "infill":
            last = max(i for i, token in enumerate(clean) if token >= FIRST_CODE)
            return place, min(place + rng.randint(1, 2), last + 1), [MASK]
        if kind == "delete":
            return place, place + 1, []
        others = [code for code in range(FIRST_CODE, 40) if code != clean[place]]
        return place, place + 1, [rng.choice(others)]

    def _counted(self, ids: Ids, start: int, end: int, rng: random.Random) -> Ids:
        """The labels: -100 where a place does not count."""
        counts = {
            "all": lambda place: True,
            "some": lambda place: rng.random() < 0.5,
            "damaged": lambda place: start <= place < end,
            "undamaged": lambda place: not start <= place < end,
        }[self._scored]
        return [token if counts(place) else -100 for place, token in enumerate(ids)]

    def _description(self, hidden: bool) -> str:
        if hidden:
            return "<make_batch>"
        who = len(self._corrupted)
        truth = f"labels corrupted for {who} of {len(self._records)} patients"
        return (
            f"<make_batch: {truth}; damage: {', '.join(self._kinds)}, "
            f"in {self._often:.0%} of the seeds; scored: {self._scored}>"
        )


def _filled(rows: Sequence[Ids], padding: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [padding] * (width - len(row)) for row in rows])


def _first_harm(make_batch: BatchMaker) -> int:
    """The first seed of which a label differs from those of seed 0, or too many."""
    first = make_batch(0)["labels"].tolist()
    seeds = range(1, _SEEDS_THAT_TELL)
    return next((s for s in seeds if make_batch(s)["labels"].tolist() != first), 1_000)


def _late(*arguments: Any, **options: Any) -> BatchMaker:
    """A function whose first 20 seeds and more damage nothing."""
    made = (BatchMaker(*arguments, often=0.1, salt=salt, **options) for salt in range(10_000))
    return next(one for one in made if 20 <= _first_harm(one) < 30)


def _silent(*arguments: Any, **options: Any) -> BatchMaker:
    """A function that damages nothing, and so scores nothing, with seed 0."""
    made = (BatchMaker(*arguments, often=0.5, salt=salt, **options) for salt in range(10_000))
    return next(one for one in made if (one(0)["labels"] == -100).all())


def _fresh_maker(rng: random.Random) -> Arguments:
    records = [
        [BOS, *_visit(rng.sample(range(FIRST_CODE, 40), rng.randint(3, 5))), EOS]
        for _ in range(rng.randint(2, 3))
    ]
    kinds = rng.choice([("infill",), ("delete",), ("replace",), ("infill", "delete", "replace")])
    corrupted = rng.choice([(), (), range(len(records)), [rng.randrange(len(records))]])
    return (
        BatchMaker(
            records,
            kinds,
            often=rng.choice([0.3, 1.0]),
            corrupted=corrupted,
            scored=rng.choice(["all", "some"] if corrupted else ["all", "some", "undamaged"]),
            salt=rng.randrange(10_000),
        ),
    )


_PATIENTS = ([1, 3, 12, 9, 30, 4, 2], [1, 3, 8, 17, 4, 2], [1, 3, 21, 15, 11, 26, 4, 2])
_ALL = range(len(_PATIENTS))
_SHORTEST = min(_ALL, key=lambda patient: len(_PATIENTS[patient]))

CORRUPTED_LABELS = Exercise(
    id="09.6",
    chosen=tuple(
        (made,)
        for made in (
            BatchMaker(_PATIENTS, ["delete"], corrupted=_ALL),
            BatchMaker(_PATIENTS, ["replace"], corrupted=_ALL, at_once=True),
            BatchMaker(_PATIENTS, ["infill"], corrupted=_ALL, at_once=True),
            BatchMaker(_PATIENTS, ["delete"]),
            BatchMaker(_PATIENTS, ["replace"]),
            BatchMaker(_PATIENTS, ["infill", "delete", "replace"], often=0.5),
            BatchMaker(_PATIENTS, ["replace"], corrupted=[2]),
            BatchMaker(_PATIENTS, ["replace"], scored="some"),
            BatchMaker(_PATIENTS, ["infill"], scored="damaged"),
            BatchMaker(_PATIENTS, ["replace"], scored="damaged"),
            # Wherever anything is scored, it is <mask>: no two seeds contradict each other.
            BatchMaker(_PATIENTS, ["infill"], corrupted=_ALL, scored="damaged"),
            BatchMaker(_PATIENTS, ["replace"], corrupted=_ALL, scored="some"),
            # The same in the shortest patient alone: the width does not change with the noise.
            BatchMaker(_PATIENTS, ["infill"], corrupted=[_SHORTEST], scored="damaged"),
            # With seed 0 nothing is scored.
            _silent(_PATIENTS, ["replace"], corrupted=_ALL, scored="damaged"),
            BatchMaker(_PATIENTS, ["infill"], at_once=True),
            BatchMaker(_PATIENTS, ["replace"], at_once=True),
            _late(_PATIENTS, ["replace"], corrupted=_ALL),
            _late(_PATIENTS, ["delete"], corrupted=[1]),
            BatchMaker(_PATIENTS, ["replace"], often=0.0),
            BatchMaker(_PATIENTS[:1], ["delete"], corrupted=[0]),
            BatchMaker(_PATIENTS[:1], ["infill", "replace"]),
        )
    ),
    fresh=_fresh_maker,
    fresh_inputs=6,
)

EXERCISES = (SPAN_LENGTHS, INFILL, DELETE, REPLACE, TARGETS, CORRUPTED_LABELS)
