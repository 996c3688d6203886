"""The exercises of lesson 16: the pointer-generator."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers, numbers_and_0, tensors


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


# 16.6 Read the note, and 16.7 The pointer-generator


def _reader_shapes(n_words: int, d_word: int, d_state: int) -> dict[str, tuple[int, ...]]:
    gates = 4 * d_state
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (n_words, d_word)}
    for way in ("", "_reverse"):
        shapes[f"lstm.weight_ih_l0{way}"] = gates, d_word
        shapes[f"lstm.weight_hh_l0{way}"] = gates, d_state
        shapes |= {f"lstm.bias_{of}_l0{way}": (gates,) for of in ("ih", "hh")}
    return shapes


def _pointer_shapes(n_words: int, d_word: int, d_state: int) -> dict[str, tuple[int, ...]]:
    reader = _reader_shapes(n_words, d_word, d_state)
    features, gates = 3 * d_state + d_word, 4 * d_state
    return {f"reader.{name}": shape for name, shape in reader.items()} | {
        "embedding.weight": (n_words, d_word),
        "lstm.weight_ih": (gates, d_word + 2 * d_state),
        "lstm.weight_hh": (gates, d_state),
        "lstm.bias_ih": (gates,),
        "lstm.bias_hh": (gates,),
        "w_h.weight": (d_state, 2 * d_state),
        "w_d.weight": (d_state, d_state),
        "v": (d_state,),
        "vocabulary.weight": (n_words, features),
        "vocabulary.bias": (n_words,),
        "gate.weight": (1, features),
        "gate.bias": (1,),
    }


def _noted(
    rng: random.Random, n_ids: int, lengths: list[int], source: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Notes with their mask, and summaries. On padding stands any of the n_ids ids."""
    note, summary = (
        torch.tensor([[rng.randrange(n_ids) for _ in range(width)] for _ in lengths])
        for width in (source, 3)
    )
    note[0, 0] = summary[-1, 1] = n_ids - 1
    return note, torch.tensor([[int(i < n) for i in range(source)] for n in lengths]), summary


def _module(id: str, shapes_of: Callable[..., dict[str, tuple[int, ...]]], takes: int) -> Exercise:
    """An exercise that asks for a module whose `forward` takes so many tensors of `_noted`."""

    def made(
        rng: random.Random,
        settings: tuple[int, ...],
        lengths: list[int],
        source: int,
        outside: int,
    ) -> Arguments:
        shapes = shapes_of(*settings)
        weights = {name: numbers(rng, *shape) for name, shape in shapes.items()}
        return settings, weights, _noted(rng, settings[0] + outside, lengths, source)[:takes]

    def fresh(rng: random.Random) -> Arguments:
        source = rng.randint(2, 4)
        lengths = [rng.randint(1, source) for _ in range(2)]
        return made(rng, rng.choice(((5, 2, 1), (6, 1, 2))), lengths, source, 2)

    rng = random.Random(16)
    chosen = (
        made(rng, (6, 2, 1), [3], 3, 0),
        made(rng, (6, 2, 1), [1, 3], 3, 1),
        made(rng, (5, 3, 2), [3, 2], 3, 2),
        made(rng, (5, 3, 2), [2, 1], 4, 2),  # every note is shorter than the tensor is wide
    )
    return Exercise(id=id, chosen=chosen, fresh=fresh, tolerance=FLOAT32, fresh_inputs=6)


READER = _module("16.6", _reader_shapes, 2)
POINTER = _module("16.7", _pointer_shapes, 3)


# 16.8 Where did this word come from?


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
    id="16.8",
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


EXERCISES = (
    ATTENTION,
    GENERATION,
    MIXED,
    EXTENDED,
    LOG_SPACE,
    READER,
    POINTER,
    ORIGINS,
)
