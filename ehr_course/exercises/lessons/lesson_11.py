"""The exercises of lesson 11: model architecture."""

from __future__ import annotations

import random

import torch
from torch import Tensor, tensor
from transformers.models.bart.modeling_bart import (
    shift_tokens_right,
)

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import numbers
from ehr_course.exercises.machine_to_fill import Machine


def _right_padded(rng: random.Random, length: int) -> Tensor:
    real = rng.randint(1, length)
    return tensor([1] * real + [0] * (length - real))


# 11.1 Scaled dot-product attention


_QUERY = tensor([[1.0, 0.5], [-0.5, 2.0]])
_KEY = tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.5]])
_VALUE = tensor([[1.0, 3.0], [0.0, -2.0], [5.0, 0.5]])
_FAR = tensor([[12.0, 0.0], [11.9, 0.5]])
_FAR_KEY = tensor([[-14.0, 1.0], [-14.1, 0.0], [20.0, 1.0]])
_NOT_THE_LAST = tensor([[True, True, False]] * 2)
_STATES = tensor([[0.4, -1.2], [1.5, 0.3], [-0.7, 0.9]])


def _fresh_attention(rng: random.Random) -> Arguments:
    target, source, width = rng.randint(2, 3), rng.randint(2, 4), rng.randint(2, 4)
    mask = None
    if rng.random() < 0.7:
        rows = [[rng.random() < 0.5 for _ in range(source)] for _ in range(target)]
        for row in rows:
            row[rng.randrange(source)] = True
        mask = tensor(rows)
    return (
        numbers(rng, target, width),
        numbers(rng, source, width),
        numbers(rng, source, rng.choice((width, 1, 3))),
        mask,
    )


ATTENTION = Exercise(
    id="11.1",
    chosen=(
        (_QUERY, _KEY, _VALUE, None),
        (_QUERY, _KEY, _VALUE, tensor([[True, True, False], [True, True, False]])),
        (_STATES, _KEY, _VALUE, torch.ones(3, 3, dtype=torch.bool).tril()),
        (_QUERY, _KEY, tensor([[1.0], [2.0], [4.0]]), tensor([[True, False, True]] * 2)),
        (
            tensor([[1.0, -1.0, 0.5, 2.0], [0.5, 0.5, -1.0, 1.0]]),
            tensor([[0.5, 1.0, 1.0, 1.0], [2.0, -0.5, 0.0, 0.5]]),
            tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 3.0, -1.0]]),
            None,
        ),
        # A visible score of 0 is a score like any other.
        (
            tensor([[1.0, 0.0], [0.0, 1.0]]),
            tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]),
            _VALUE,
            tensor([[True, True, False], [True, True, True]]),
        ),
        # Scores near -120, and a hidden key that scores 170: it must score less than any number
        # that a visible one has, and what a softmax over all keys leaves to the others is 0.
        (_FAR, _FAR_KEY, tensor([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]), _NOT_THE_LAST),
        # The scores of one query lie near 120, those of the other near -120.
        (_FAR * tensor([[1.0], [-1.0]]), _FAR_KEY[:2], _VALUE[:2], None),
    ),
    extreme=((_FAR * 1e4, _FAR_KEY * 1e4, _VALUE, _NOT_THE_LAST),),
    fresh=_fresh_attention,
    tolerance=1e-5,
)


# 11.2 Causal mask with prompts


def _fresh_mask(rng: random.Random) -> Arguments:
    return rng.randint(1, 3), _right_padded(rng, rng.randint(2, 5))


DECODER_MASK = Exercise(
    id="11.2",
    chosen=(
        (2, tensor([1, 1, 0])),
        (1, tensor([1, 1])),
        (0, tensor([1, 1, 1])),
        (3, tensor([1, 1])),
        (2, tensor([1, 0, 0, 0])),
    ),
    fresh=_fresh_mask,
)


# 11.3 Embed tokens and positions


_TOKENS = tensor(
    [[0.1, -0.1], [1.0, 1.5], [-1.0, 2.0], [0.5, 0.5], [2.0, -0.5], [0.7, 0.3], [1.2, -2.0]]
)
_POSITIONS = tensor(
    [[10.0, 20.0], [30.0, 50.0], [70.0, 110.0], [130.0, 170.0], [190.0, 230.0], [290.0, 310.0]]
)
_PROMPTS = tensor([[0.25, 0.75], [-0.25, 0.35]])


def _fresh_embedding(rng: random.Random) -> Arguments:
    width, real = rng.randint(2, 3), rng.randint(1, 3)
    ids = [rng.randint(1, 6) for _ in range(real)] + [0] * rng.randint(0, 2)
    n_prompts = rng.randint(1, 2)
    return (
        tensor(ids),
        numbers(rng, n_prompts, width),
        numbers(rng, 7, width),
        numbers(rng, n_prompts + len(ids) + 2, width),
    )


EMBED = Exercise(
    id="11.3",
    chosen=(
        (tensor([3, 2]), _PROMPTS, _TOKENS, _POSITIONS),
        (tensor([5, 0]), _PROMPTS, _TOKENS, _POSITIONS),
        (tensor([5, 2, 0]), _PROMPTS[1:], _TOKENS, _POSITIONS),
        (tensor([1, 6, 2]), _PROMPTS[:0], _TOKENS, _POSITIONS),
        (tensor([4]), _PROMPTS[:1], _TOKENS, _POSITIONS),
    ),
    fresh=_fresh_embedding,
    tolerance=1e-5,
)

# 11.4 Give each patient another record


def _batch(records: list[list[int]], ages: list[int], sexes: list[int]) -> dict[str, Tensor]:
    """A batch as the data set makes it; the encoder reads each record with a code masked."""
    longest = max(map(len, records))
    labels = tensor([ids + [-100] * (longest - len(ids)) for ids in records])
    damaged = labels.masked_fill(labels == -100, 0)
    damaged[:, 2] = 5
    return {
        "input_ids": damaged,
        "attention_mask": (labels != -100).long(),
        "decoder_input_ids": shift_tokens_right(labels, 0, 2),
        "labels": labels,
        "x_num": tensor([[float(age)] for age in ages]),
        "x_cat": tensor([[sex] for sex in sexes]),
    }


def _fresh_batch(rng: random.Random) -> Arguments:
    n = rng.randint(2, 4)
    records = [[1, 3, *rng.sample(range(7, 30), rng.randint(1, 4)), 4, 2] for _ in range(n)]
    return (_batch(records, rng.sample(range(90), n), [rng.randint(0, 1) for _ in range(n)]),)


EXCHANGE_PATIENTS = Exercise(
    id="11.4",
    chosen=(
        (_batch([[1, 3, 7, 8, 9, 4, 2], [1, 3, 11, 4, 2]], [64, 31], [0, 1]),),
        (
            _batch(
                [[1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2], [1, 3, 12, 13, 14, 4, 2]],
                [25, 70, 48],
                [1, 0, 0],
            ),
        ),
        (
            _batch(
                [[1, 3, 21, 4, 2], [1, 3, 8, 22, 4, 2], [1, 3, 9, 15, 23, 4, 2], [1, 3, 24, 4, 2]],
                [5, 81, 33, 59],
                [0, 1, 0, 1],
            ),
        ),
    ),
    fresh=_fresh_batch,
)


# 11.5 Count the parameters of BART


def _fresh_size(rng: random.Random) -> Arguments:
    heads = rng.choice((2, 3, 4))
    return (
        rng.randint(20, 60),
        heads * rng.randint(2, 5),
        rng.randint(1, 3),
        rng.randint(1, 3),
        heads,
        rng.randint(6, 40),
        rng.randint(8, 40),
    )


COUNT = Exercise(
    id="11.5",
    chosen=(
        (20, 4, 1, 1, 2, 6, 8),
        (31, 6, 2, 1, 3, 13, 10),
        (40, 8, 1, 3, 2, 24, 16),
        (6992, 768, 6, 6, 12, 3072, 512),
        (5569, 768, 6, 6, 12, 3072, 1024),
    ),
    fresh=_fresh_size,
)


# 11.6 The largest batch


def _machine(update: int, held: int, record: int, memory: int) -> Arguments:
    return Machine(update=update, held=held, record=record, memory=memory), memory


def _fresh_machine(rng: random.Random) -> Arguments:
    while True:
        weights = rng.randint(1_000_000, 500_000_000)
        update, held = 4 * weights, 3 * weights + rng.randint(0, weights // 2)
        record = int(weights * 10 ** rng.uniform(-1.5, 0.7))
        memory = int(rng.uniform(4.1, 12) * max(update, held + record))
        fits, left = divmod(memory - held, record)
        # No answer shall hang on the last bit of a division.
        if 0.1 < left / record < 0.9 and fits <= 500:
            return _machine(update, held, record, memory)


LARGEST_BATCH = Exercise(
    id="11.6",
    chosen=(
        # The peak grows from the first record on.
        _machine(40, 36, 10, 197),
        # It stands still up to the 2nd, the 3rd, the 12th and the 60th record.
        _machine(4_000, 3_000, 700, 17_800),
        _machine(1_693_000_000, 1_270_000_000, 181_000_000, 8_100_000_000),
        _machine(1_693_000_000, 1_270_000_000, 35_000_000, 8_000_000_000),
        _machine(400_000, 300_000, 1_650, 1_601_000),
        # One record takes more than everything else.
        _machine(8_243_000, 6_182_000, 29_000_000, 512_000_000),
    ),
    fresh=_fresh_machine,
)

EXERCISES = (
    ATTENTION,
    DECODER_MASK,
    EMBED,
    EXCHANGE_PATIENTS,
    COUNT,
    LARGEST_BATCH,
)
