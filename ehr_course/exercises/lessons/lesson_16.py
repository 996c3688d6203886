"""The exercises of lesson 16: the pointer-generator."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers_and_0, tensors


def _shares(rng: random.Random, rows: int, n: int, *, of: int = 20) -> Tensor:
    """Rows of n probabilities of two decimals, none of them 0."""
    made = []
    for _ in range(rows):
        cuts = sorted(rng.sample(range(1, of), n - 1))
        made.append([(b - a) / of for a, b in zip([0, *cuts], [*cuts, of], strict=True)])
    return torch.tensor(made)


def _prefix_mask(rng: random.Random, batch: int, source: int) -> Tensor:
    """An attention mask (batch, source): rows of several lengths, 1 or more."""
    return torch.tensor(
        [
            [int(i < n) for i in range(source)]
            for n in (rng.randint(1, source) for _ in range(batch))
        ]
    )


# 16.1 Additive attention


def _fresh_attention(rng: random.Random) -> Arguments:
    batch, source, hidden, width = rng.choice(((1, 3, 2, 3), (2, 3, 1, 2), (2, 2, 2, 1)))
    return (
        numbers_and_0(rng, batch, hidden),
        numbers_and_0(rng, batch, source, width),
        _prefix_mask(rng, batch, source),
        numbers_and_0(rng, hidden, width),
        numbers_and_0(rng, hidden, hidden),
        numbers_and_0(rng, hidden),
    )


_ONE = torch.tensor([[1.0]])
_TWO_STATES = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]])
_WH = torch.tensor([[1.0, -0.5]])


_LIMIT = torch.finfo(torch.float32).max


def _places(v: float, states: list[float], mask: list[int]) -> Arguments:
    """One note whose places have the scores v * tanh(state)."""
    words = torch.tensor([[[state, 0.0] for state in states]])
    return 0 * _ONE, words, torch.tensor([mask]), _WH, _ONE, torch.tensor([v])


ATTENTION = Exercise(
    id="16.1",
    chosen=(
        (_ONE, _TWO_STATES, torch.tensor([[1, 1, 1]]), _WH, 0.5 * _ONE, torch.tensor([1.0])),
        (_ONE, _TWO_STATES, torch.tensor([[1, 1, 0]]), _WH, 0.5 * _ONE, torch.tensor([2.0])),
        tensors(
            [[0.5, -1.0], [1.0, 0.0]],
            [[[1.0], [-1.0]], [[0.5], [2.0]]],
            [[1, 1], [1, 0]],
            [[1.0], [0.5]],
            [[0.0, 1.0], [0.5, 0.0]],
            [1.0, -2.0],
        ),
        _places(-20.0, [1, 1, 1], [1, 1, 0]),
        _places(-300.0, [1, 1, 1], [1, 1, 0]),  # all scores -228: lower than -100
        _places(300.0, [-2, -2, 4], [1, 1, 0]),  # padding 589 above the words
        _places(300.0, [-2, 1, 4], [1, 1, 1]),  # too large for an exponential
        _places(-300.0, [-2, 1, 4], [1, 1, 1]),
    ),
    extreme=(
        _places(-_LIMIT, [20, 20, 20], [1, 1, 0]),  # the lowest score that float32 has
        _places(_LIMIT, [-20, -20, 20], [1, 1, 0]),
    ),
    fresh=_fresh_attention,
    tolerance=FLOAT32,
)


# 16.2 The generation probability


def _fresh_gate(rng: random.Random) -> Arguments:
    batch, width, hidden, d_embedding = rng.randint(1, 3), 2, 1, rng.randint(1, 2)
    return (
        numbers_and_0(rng, batch, width),
        numbers_and_0(rng, batch, hidden),
        numbers_and_0(rng, batch, d_embedding),
        numbers_and_0(rng, width + hidden + d_embedding),
        rng.randint(1, 20) / 10 * rng.choice((-1, 1)),
    )


GENERATION = Exercise(
    id="16.2",
    chosen=(
        tensors([[1.0, 0.0]], [[2.0]], [[-1.0]], [0.5, 1.0, -1.0, 0.25], 0.5),
        tensors(
            [[1.0, 2.0], [0.5, -1.0]], [[0.0], [2.0]], [[1.5], [-0.5]], [0.5, -0.2, 1.0, 2.0], -1.0
        ),
        tensors(
            [[10.0, 0.0], [-10.0, 0.0]],
            [[0.0], [1.0]],
            [[0.0, 1.0], [1.0, 0.0]],
            [3.0, 1.0, 0.5, 2.0, -1.0],
            1.0,
        ),
        tensors(
            [[1.0], [2.0], [3.0]],
            [[0.0], [1.0], [-1.0]],
            [[-1.0], [0.5], [0.0]],
            [0.5, 0.25, -0.5],
            0.0,
        ),
    ),
    fresh=_fresh_gate,
    tolerance=FLOAT32,
)


# 16.3 Mix the distributions


def _fresh_mixture(rng: random.Random) -> Arguments:
    batch, vocab, source, n_outside = rng.randint(1, 2), rng.randint(4, 5), 4, rng.randint(0, 2)
    ids = []
    for _ in range(batch):
        row = [rng.randrange(vocab + n_outside) for _ in range(source)]
        row[rng.randrange(1, source)] = row[0]
        ids.append(row)
    return (
        _shares(rng, batch, vocab),
        _shares(rng, batch, source),
        torch.tensor([rng.randint(1, 9) / 10 for _ in range(batch)]),
        torch.tensor(ids),
        n_outside,
    )


MIXED = Exercise(
    id="16.3",
    chosen=(
        tensors([[0.5, 0.3, 0.2]], [[0.5, 0.25, 0.25]], [0.4], [[2, 1, 2]], 0),
        tensors([[0.6, 0.4]], [[0.1, 0.7, 0.2]], [0.2], [[1, 2, 2]], 1),
        tensors(
            [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]],
            [[0.2, 0.5, 0.3, 0.0], [0.1, 0.6, 0.2, 0.1]],
            [0.9, 0.3],
            [[3, 2, 3, 1], [1, 4, 3, 1]],
            2,
        ),
        tensors([[0.25, 0.75]], [[0.3, 0.1, 0.6]], [0.5], [[1, 1, 0]], 0),
        tensors([[0.25, 0.75]], [[0.5, 0.5]], [1.0], [[2, 3]], 2),
    ),
    fresh=_fresh_mixture,
    tolerance=FLOAT32,
)


# 16.4 An extended vocabulary


_SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
_KNOWN = ("given", "with", "treated", "and", "for", "pain", "home")
_UNSEEN = ("nadolol", "senna", "mesna", "benazepril", "quinapril")


def _fresh_words(rng: random.Random) -> Arguments:
    known = rng.sample(_KNOWN, 3)
    unseen = rng.sample(_UNSEEN, 3)
    note = [rng.choice(known), *unseen[:2], rng.choice(known), rng.choice(unseen[:2])]
    rng.shuffle(note)
    summary = [rng.choice(note), rng.choice(unseen), rng.choice(known)]
    rng.shuffle(summary)
    return note, summary, _SPECIAL + known


EXTENDED = Exercise(
    id="16.4",
    chosen=(
        (["given", "senna"], ["senna"], [*_SPECIAL, "given", "with"]),
        (["senna", "and", "mesna", "and", "senna"], ["mesna", "and", "senna"], [*_SPECIAL, "and"]),
        (["with", "senna"], ["quinapril", "with", "senna"], [*_SPECIAL, "with", "given"]),
        (["home"], ["home", "given"], [*_SPECIAL, "given", "home"]),
        (
            ["quinapril", "senna", "quinapril", "nadolol"],
            ["nadolol", "mesna", "quinapril"],
            [*_SPECIAL, "with"],
        ),
        (["given"], [], [*_SPECIAL, "given"]),
        (["with", "pains", "pain"], ["pain", "with"], [*_SPECIAL, "without"]),  # parts of words
    ),
    fresh=_fresh_words,
)


# 16.5 The loss in log space


def _fresh_pointers(rng: random.Random) -> Arguments:
    n, vocab, source = 2, 4, 3
    logits, scores = numbers_and_0(rng, n, vocab), numbers_and_0(rng, n, source)
    ids = torch.tensor([[rng.randrange(1, vocab + 2) for _ in range(source)] for _ in range(n)])
    targets = []
    for row in range(n):
        if rng.random() < 0.3:
            ids[row, 0] = ids[row, 1]
        place = rng.randrange(2)
        targets.append(rng.choice((ids[row, place].item(), rng.randrange(1, vocab))))
        if rng.random() < 0.5:
            scores[row, 2] = -torch.inf
    return logits, scores, numbers_and_0(rng, n), ids, torch.tensor(targets)


def _target(
    logits: list[float], scores: list[float], gate: float, ids: list[int], target: int
) -> Arguments:
    one = (torch.tensor([x]) for x in (logits, scores, gate, ids, target))
    return tuple(one)


_INF = math.inf


LOG_SPACE = Exercise(
    id="16.5",
    chosen=(
        _target([0.0, 1.0, 2.0], [1.0, 0.0], 0.5, [1, 2], 1),
        _target([0.0, 1.0, 2.0], [1.0, 0.0, 0.5], -0.5, [2, 1, 2], 2),
        _target([0.0, 1.0, 0.5], [1.0, 0.0], 1.0, [3, 4], 4),  # outside the vocabulary
        _target([0.5, 1.0, 0.0], [1.0, 0.0], 1.0, [3, 1], 2),  # not in the note
        _target([0.5, 1.0, 0.0], [1.0, -_INF], 0.5, [1, 2], 2),  # in the note, and masked
        _target([0.0, 60.0], [0.0, 1.0], 5.0, [2, 3], 0),  # below 1e-8
        _target([0.0, 1.0], [0.0, 1.0], -60.0, [2, 3], 1),  # below 1e-8
        _target([0.0, 1.0], [0.0, 1.0], 200.0, [2, 3], 2),  # below every number of float32
        _target([0.0, 1.0], [0.0, 1.0], -900.0, [2, 3], 1),  # and of float64
        _target([0.0, 900.0], [0.0, 1.0], 0.5, [2, 3], 0),  # by the logits
        _target([0.0, 1.0], [0.0, 900.0], 0.5, [2, 3], 2),  # by the scores
        tensors(
            [[0.0, 1.0, 2.0], [1.0, 0.0, 0.5]],
            [[0.0, 1.0], [2.0, 0.5]],
            [0.5, -1.0],
            [[3, 1], [3, 3]],
            [1, 3],
        ),
    ),
    extreme=(  # closed ways are likelier than the open one where a finite number stands for them
        _target([0.0, 1.0], [0.0, 1.0], -_LIMIT, [2, 3], 1),
        _target([0.0, 1.0], [0.0, 1.0], _LIMIT, [2, 3], 2),
    ),
    fresh=_fresh_pointers,
    tolerance=FLOAT32,
)


# 16.6 Where did this word come from?


def _logs(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows).log()


def _fresh_origins(rng: random.Random) -> Arguments:
    n, vocab, source = 2, 3, 4
    ids = torch.tensor([rng.randrange(1, vocab + 2) for _ in range(source)])
    ids[1] = ids[0]
    log_attention = _shares(rng, n, source - 1).log()
    log_attention = torch.cat([log_attention, torch.full((n, 1), -math.inf)], dim=1)
    written = [
        int(ids[rng.randrange(source - 1)]) if rng.random() < 0.7 else rng.randrange(vocab)
        for _ in range(n)
    ]
    return (
        _shares(rng, n, vocab).log(),
        log_attention,
        numbers_and_0(rng, n),
        ids,
        torch.tensor(written),
    )


_EVEN, _FEW = [[0.5, 0.25, 0.25]], [[0.125, 0.375, 0.5]]


def _one_word(
    log_vocab: Tensor, log_attention: Tensor, gate: float, ids: list[int], word: int
) -> Arguments:
    return log_vocab, log_attention, torch.tensor([gate]), torch.tensor(ids), torch.tensor([word])


ORIGINS = Exercise(
    id="16.6",
    chosen=(
        _one_word(_logs(_FEW), _logs(_EVEN), 0.5, [1, 2, 0], 1),
        _one_word(_logs(_FEW), _logs([[0.5, 0.125, 0.375]]), -0.5, [2, 0, 2], 2),  # two places
        _one_word(_logs(_FEW), _logs([[0.5, 0.125, 0.375]]), 1.0, [3, 4, 3], 3),  # outside
        _one_word(_logs([[0.5, 0.25, 0.25]]), _logs(_EVEN), -1.0, [3, 4, 2], 1),  # not there
        _one_word(_logs(_FEW), _logs([[0.5, 0.5, 0.0]]), 0.5, [1, 0, 2], 2),  # there, and masked
        (
            _logs([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]]),
            _logs([[0.5, 0.5], [0.25, 0.75], [0.75, 0.25]]),
            torch.tensor([1.0, -1.0, 2.0]),
            torch.tensor([2, 1]),
            torch.tensor([1, 2, 1]),
        ),
        _one_word(_logs(_FEW), _logs(_EVEN), -200.0, [3, 4, 3], 2),  # below float32
        _one_word(_logs(_FEW), _logs(_EVEN), 900.0, [3, 4, 3], 3),  # and below float64
        _one_word(_logs([[0.5, 0.5]]), _logs([[0.5, 0.5]]), 0.0, [0, 1], 1),  # short, to be shown
        _one_word(
            torch.tensor([[0.0, -121.0, -150.0]]), torch.tensor([[-1.0, -1.0]]), 120.0, [1, 2], 1
        ),  # as likely in both ways, and the gate says 1
        _one_word(
            torch.tensor([[0.0, -900.0, -950.0]]), torch.tensor([[-901.0, 0.0]]), 0.5, [1, 2], 1
        ),
    ),
    extreme=(  # closed ways are likelier than the open one where a finite number stands for them
        _one_word(_logs(_FEW), _logs(_EVEN), -_LIMIT, [3, 4, 3], 2),
        _one_word(_logs(_FEW), _logs(_EVEN), _LIMIT, [3, 4, 2], 3),
    ),
    fresh=_fresh_origins,
    tolerance=FLOAT32,
)


# 16.7 Read a note in chunks


@dataclass(frozen=True)
class TwoWayReader:
    """A bidirectional recurrent layer of one number in each direction, small enough to follow.

    Forwards, ``state = keep * state + token`` from 0 on; backwards the same from the last token.

    Attributes:
        keep: how much of the state is kept from one token to the next.
    """

    keep: float

    def __call__(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read rows of tokens, each for itself.

        Args:
            rows: float (n, width), padded on the right.
            lengths: int64 (n,): how many tokens each row has, 1 to width.

        Returns:
            The states (n, width, 2), forwards and backwards, 0 on padding; and where each
            direction ends, (n, 2).

        Raises:
            ValueError: if a row has no token, as PyTorch's packing does, or too many.
        """
        if len(rows) != len(lengths):
            raise ValueError(f"there are {len(rows)} rows and {len(lengths)} lengths")
        if any(not 1 <= n <= rows.shape[1] for n in lengths.tolist()):
            raise ValueError(f"lengths must be 1 to {rows.shape[1]}, and are {lengths.tolist()}")
        states = torch.zeros(*rows.shape, 2)
        ends = torch.zeros(len(rows), 2)
        for row, (tokens, n) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
            for way, order in enumerate((range(n), range(n - 1, -1, -1))):
                state = 0.0
                for i in order:
                    state = self.keep * state + tokens[i]
                    states[row, i, way] = state
                ends[row, way] = state
        return states, ends


def _fresh_chunks(rng: random.Random) -> Arguments:
    batch, chunk = 2, rng.randint(2, 3)
    source = rng.randint(chunk + 1, 3 * chunk)
    lengths = [rng.randint(1, source) for _ in range(batch)]
    if rng.random() < 0.7:  # else all of them may be shorter than the tensor is wide
        lengths[rng.randrange(batch)] = source
    tokens = torch.tensor(
        [[float(rng.randint(1, 9)) for _ in range(source)] for _ in range(batch)]
    )
    return TwoWayReader(rng.choice((0.5, 0.2))), tokens, torch.tensor(lengths), chunk


_HALF = TwoWayReader(0.5)

CHUNKS = Exercise(
    id="16.7",
    chosen=(
        (_HALF, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([4]), 2),
        (_HALF, torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), torch.tensor([5]), 2),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]),
            torch.tensor([4, 4]),
            2,
        ),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 6.0, 9.0, 9.0, 9.0]]),
            torch.tensor([5, 2]),
            2,
        ),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0, 9.0, 9.0, 9.0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]),
            torch.tensor([3, 6]),
            2,
        ),
        (_HALF, torch.tensor([[1.0, 2.0]]), torch.tensor([2]), 3),
        (_HALF, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([4]), 3),  # 3 + 1, not 2 + 2
        (
            _HALF,  # nobody has a token at the last place
            torch.tensor([[1.0, 2.0, 3.0, 9.0, 9.0], [4.0, 9.0, 9.0, 9.0, 9.0]]),
            torch.tensor([3, 1]),
            2,
        ),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0], [4.0, 5.0, 9.0]]),
            torch.tensor([3, 1, 2]),
            1,
        ),
    ),
    fresh=_fresh_chunks,
    tolerance=FLOAT32,
)

EXERCISES = (ATTENTION, GENERATION, MIXED, EXTENDED, LOG_SPACE, ORIGINS, CHUNKS)
