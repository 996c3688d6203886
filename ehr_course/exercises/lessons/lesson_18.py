"""The exercises of lesson 18: prefix tuning."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers_and_0, tensors
from ehr_course.exercises.lora_to_try import Layer, Model

# 18.1 Attention with a prefix


def _causal(target: int, source: int) -> Tensor:
    return torch.ones(target, source, dtype=torch.bool).tril()


def _fresh_attention(rng: random.Random) -> Arguments:
    target, source = rng.randint(2, 3), rng.randint(2, 3)
    mask = torch.tensor([[rng.random() < 0.6 for _ in range(source)] for _ in range(target)])
    for row in mask:
        row[rng.randrange(source)] = True
    return _heads(rng, rng.randint(1, 2), 2, rng.randint(1, 2), mask)


def _heads(
    rng: random.Random,
    batch: int,
    heads: int,
    n: int,
    mask: Tensor,
    *,
    up_to: int = 20,
    width: int = 2,
) -> Arguments:
    """Queries, keys and values of these shapes, and those of a prefix."""
    target, source = mask.shape
    q = numbers_and_0(rng, batch, heads, target, width, up_to=up_to)
    k = numbers_and_0(rng, batch, heads, source, width, up_to=up_to)
    v = numbers_and_0(rng, batch, heads, source, width)
    prefix_k = numbers_and_0(rng, heads, n, width, up_to=up_to)
    return q, k, v, prefix_k, numbers_and_0(rng, heads, n, width), mask


def _far_below_0(query: float, hidden: float) -> Arguments:
    """The first query sees two keys whose scores are minus itself, and not the hidden one."""
    numbers = [[query], [10.0]], [[-1.0], [hidden]], [[4.0], [7.0]], [[-1.0]], [[9.0]]
    q, k, v, prefix_k, prefix_v = tensors(*([part] for part in numbers))
    return q[None], k[None], v[None], prefix_k, prefix_v, _causal(2, 2)


_LARGEST = torch.finfo(torch.float32).max

PREFIX_ATTENTION = Exercise(
    id="18.1",
    chosen=(
        tensors([[[[0.0]]]], [[[[5.0]]]], [[[[4.0]]]], [[[1.0]]], [[[10.0]]], [[True]]),
        _heads(random.Random(1), 1, 2, 1, _causal(3, 3)),
        _heads(random.Random(2), 2, 2, 2, _causal(3, 3)),
        # Cross-attention: other lengths, and a source that is padded.
        _heads(random.Random(3), 1, 2, 1, torch.tensor([[True, True, False]] * 2)),
        _heads(
            random.Random(4), 1, 2, 2, torch.tensor([[False, True, True], [True, False, True]])
        ),
        _heads(
            random.Random(5), 1, 1, 2, torch.tensor([[True, False], [False, True], [True] * 2])
        ),
        # Scores so large that float32 cannot hold e to their power.
        _heads(random.Random(6), 1, 2, 1, _causal(2, 2), up_to=200),
        # Heads that are not as wide as they are many.
        _heads(random.Random(7), 1, 2, 1, _causal(2, 2), width=3),
        # The hidden key has a score a little lower than the others, or by far the largest.
        _far_below_0(280.0, hidden=-1.1),
        _far_below_0(280.0, hidden=1.1),
    ),
    fresh=_fresh_attention,
    extreme=(_far_below_0(_LARGEST, hidden=-1.0), _far_below_0(_LARGEST, hidden=1.0)),
    tolerance=FLOAT32,
)


# 18.2 Keys and values for each layer


def _fresh_table(rng: random.Random) -> Arguments:
    batch, n = rng.randint(1, 2), rng.randint(2, 3)
    n_layers, n_heads, head_dim = rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 2)
    values = rng.sample(range(100), batch * n * n_layers * 2 * n_heads * head_dim)
    return torch.tensor(values).float().reshape(batch, n, -1), n_layers, n_heads


def _counted(batch: int, n: int, n_layers: int, n_heads: int, head_dim: int) -> Arguments:
    shape = batch, n, n_layers * 2 * n_heads * head_dim
    return torch.arange(math.prod(shape)).float().reshape(shape), n_layers, n_heads


PER_LAYER = Exercise(
    id="18.2",
    chosen=(
        (torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]), 1, 1),
        _counted(1, 2, 2, 2, 2),
        _counted(2, 3, 2, 2, 1),
        _counted(2, 2, 2, 2, 2),
        _counted(1, 3, 3, 1, 2),
    ),
    fresh=_fresh_table,
)


# 18.3 Count what is trained


COUNTS = Exercise(
    id="18.3",
    chosen=(
        (2, 3, 4, 5),
        (20, 32, 4096, 512),
        (1, 1, 1, 1),
        # An odd number that float32 does not have.
        (21, 32, 4097, 511),
    ),
    fresh=lambda rng: (
        rng.randint(1, 30),
        rng.randint(1, 12),
        rng.choice((8, 12, 64, 96, 768)),
        rng.randint(1, 64),
    ),
)


# 18.4 Fold the projection away


def _fresh_projection(rng: random.Random) -> Arguments:
    n, d, h, width = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3), rng.choice((2, 4))
    return _projection(rng, n, d, h, width)


def _projection(rng: random.Random, n: int, d: int, h: int, width: int) -> Arguments:
    shapes = (n, d), (h, d), (h,), (width, h), (width,)
    return tuple(numbers_and_0(rng, *shape, up_to=15) for shape in shapes)


FOLD = Exercise(
    id="18.4",
    chosen=(
        tensors([[1.0], [-1.0]], [[0.5]], [0.5], [[2.0], [1.0]], [0.0, 1.0]),
        _projection(random.Random(1), 2, 3, 2, 4),
        _projection(random.Random(3), 2, 2, 2, 2),
        _projection(random.Random(4), 1, 2, 3, 4),
    ),
    fresh=_fresh_projection,
    tolerance=1e-5,
)


# 18.5 Which method wins


_METHODS = {"nothing": 0, "prompt": 40, "prefix": 160, "projected": 900, "full": 5000}


def _table(
    losses: dict[str, Sequence[float]],
    order: Sequence[tuple[str, int]] | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2, 3),
) -> Arguments:
    """Rows of methods with one loss for each seed, in the order that is given."""
    places = order or [(m, place) for place in range(4) for m in losses if place < len(losses[m])]
    return ([(m, _METHODS[m], seeds[place], losses[m][place]) for m, place in places],)


def _fresh_results(rng: random.Random) -> Arguments:
    methods = rng.sample([*_METHODS], rng.randint(2, 4))
    n_seeds = rng.randint(2, 4)
    effect = {method: rng.choice((0, 5, 10, 20)) for method in methods}
    of_seed = {seed: rng.randint(0, 30) for seed in rng.sample(range(50), n_seeds)}
    while True:
        hundredths = {
            method: [
                200 + effect[method] + extra + rng.randint(0, 8) for extra in of_seed.values()
            ]
            for method in methods
        }
        # Equal means would differ by the rounding of their sums.
        if len({sum(losses) for losses in hundredths.values()}) == len(methods):
            break
    rows = [
        (method, _METHODS[method], seed, loss / 100)
        for method in methods
        for seed, loss in zip(of_seed, hundredths[method], strict=True)
    ]
    rng.shuffle(rows)
    return (rows,)


WINS = Exercise(
    id="18.5",
    chosen=(
        (
            [
                ("full", 500, 0, 2.3),
                ("prefix", 80, 0, 2.4),
                ("prefix", 80, 1, 2.5),
                ("full", 500, 1, 2.6),
            ],
        ),
        # The seeds are harder or easier; with each of them "prefix" is a little better.
        _table({"full": (2.31, 2.62, 2.45), "prefix": (2.28, 2.6, 2.4)}),
        # The same in an order that pairs other seeds.
        _table(
            {"full": (2.31, 2.62, 2.45), "prefix": (2.28, 2.6, 2.4)},
            [("full", s) for s in (0, 2, 1)] + [("prefix", s) for s in (1, 0, 2)],
        ),
        # Better in order of size and not seed by seed.
        _table({"full": (2.3, 2.5, 2.7), "prefix": (2.6, 2.2, 2.4)}),
        # A tie in one seed.
        _table({"prompt": (2.4, 2.5), "prefix": (2.4, 2.3)}),
        # "projected" beats "prompt" and nobody beats "full", whose seeds differ most.
        _table(
            {
                "full": (2.2, 2.7, 2.35, 2.9),
                "projected": (2.5, 2.4, 2.3, 2.45),
                "prefix": (2.45, 2.6, 2.4, 2.3),
                "prompt": (2.55, 2.5, 2.35, 2.6),
            }
        ),
        # One winner; it is neither the cheapest nor the one with the most parameters.
        _table({"prompt": (2.5, 2.7), "prefix": (2.3, 2.4), "full": (2.4, 2.6)}),
        # All alike in every seed.
        _table({"prompt": (2.5, 2.4), "full": (2.5, 2.4)}),
        # The lowest mean and the lowest median belong to two methods.
        _table({"prompt": (2.4, 2.4, 3.4), "prefix": (2.5, 2.5, 2.5), "full": (2.45, 2.6, 2.3)}),
        # Lowest, median and highest are lower, and the second lowest is not.
        _table({"prompt": (2.2, 2.25, 2.5, 2.7), "prefix": (2.1, 2.3, 2.3, 2.6)}),
        # Seeds are names, not places.
        _table({"prefix": (2.3, 2.5, 2.4), "full": (2.2, 2.4, 2.3)}, seeds=(7, 42, 3)),
        # With the first row, or the lowest number of a seed, another one is better.
        _table({"prefix": (2.3, 2.5), "full": (2.2, 2.61)}, seeds=(12, 5)),
        # One difference is in the fourth decimal.
        _table({"prefix": (2.49, 2.50676), "prompt": (2.49637, 2.50661)}),
        # Zero trained parameters is a count, not a missing value.
        _table({"full": (2.4, 2.7), "nothing": (2.5, 2.5)}),
        _table({"prefix": (2.4,)}),
        # "prefix" beats "prompt". The lowest mean, median and loss are those of "full", which
        # beats neither.
        _table({"prompt": (2.5, 2.6, 2.5), "prefix": (2.4, 2.5, 2.4), "full": (2.2, 2.7, 2.2)}),
    ),
    fresh=_fresh_results,
)


# 18.6 How low can a bias go


def _record(rng: random.Random, rows: int, vocabulary: int, *, up_to: int) -> Arguments:
    """Scores, and labels among which every token stands once at least."""
    # One token is as frequent as all others together, and the model does not know it.
    often = rng.randrange(vocabulary)
    labels = [*range(vocabulary)]
    while len(labels) < rows:
        labels.append(often if rng.random() < 0.5 else rng.randrange(vocabulary))
    rng.shuffle(labels)
    return numbers_and_0(rng, rows, vocabulary, up_to=up_to), torch.tensor(labels)


def _fresh_record(rng: random.Random) -> Arguments:
    vocabulary = rng.randint(2, 5)
    return _record(rng, rng.randint(8, 14), vocabulary, up_to=rng.choice((10, 20)))


LOWEST_LOSS = Exercise(
    id="18.6",
    chosen=(
        (torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])),
        # The model is wrong by a bias alone: 2 for the first token.
        tensors([[2.0, 0.0]] * 4, [0, 1, 1, 1]),
        # It knows which rows are which, and is too sure of one token.
        tensors(
            [[4.0, 0.0, 1.0], [3.0, 1.5, 0.0], [3.5, 0.0, 2.5], [4.0, 1.0, 1.0]], [0, 1, 2, 0]
        ),
        # As frequent as the model expects, and not where it expects them: nothing to gain.
        tensors([[1.0, 0.0], [0.0, 1.0]], [1, 0]),
        _record(random.Random(1), 12, 4, up_to=20),
        # It is sure of itself, so that a correction goes only part of the way.
        _record(random.Random(2), 10, 3, up_to=70),
        _record(random.Random(3), 14, 5, up_to=10),
        # One score for all tokens of a row changes nothing.
        tensors([[7.0, 5.0, 6.0], [-5.0, -4.0, -7.0], [50.0, 52.0, 51.0]] * 2, [1, 1, 2, 1, 0, 1]),
    ),
    fresh=_fresh_record,
    tolerance=1e-3,
    fresh_inputs=3,
)


# 18.7 A linear layer with LoRA


def _layer(
    rng: random.Random, width: int, out: int, r: int, alpha: float, *, plain: bool = True
) -> Arguments:
    weight, b = numbers_and_0(rng, out, width), numbers_and_0(rng, out, r)
    bias, x = numbers_and_0(rng, out), numbers_and_0(rng, 2, width)
    a = numbers_and_0(rng, r, width)
    return (Layer(weight, bias if plain else None, a, b, alpha, x if plain else x[None]),)


LORA_LINEAR = Exercise(
    id="18.7",
    chosen=(
        _layer(random.Random(1), 2, 3, 1, 3.0),
        _layer(random.Random(2), 3, 2, 2, 6.0),
        _layer(random.Random(3), 3, 3, 2, 8.0),  # A and B could be exchanged
        # Without a bias, and with an x of three dimensions.
        _layer(random.Random(4), 4, 4, 3, 1.0, plain=False),
    ),
    fresh=lambda rng: _layer(
        rng, rng.randint(2, 4), rng.randint(2, 4), rng.randint(1, 2), rng.choice((1.0, 4.0, 6.0))
    ),
    fresh_inputs=6,
    tolerance=FLOAT32,
)


# 18.8 Put LoRA into a model

ADD_LORA = Exercise(
    id="18.8",
    chosen=tuple((Model(*of),) for of in ((1, 1, 1, 3, 0.1), (2, 1, 2, 1, 0.05))),
    fresh=lambda rng: (Model(rng.randint(1, 2), 2, rng.randint(1, 3), 8, 1e-2),),
    fresh_inputs=1,
    tolerance=1e-4,
)


EXERCISES = (PREFIX_ATTENTION, PER_LAYER, COUNTS, FOLD, WINS, LOWEST_LOSS, LORA_LINEAR, ADD_LORA)
