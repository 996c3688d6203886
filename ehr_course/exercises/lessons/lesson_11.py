"""The exercises of lesson 11: model architecture."""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn, tensor
from transformers.models.bart.modeling_bart import (
    shift_tokens_right,
)

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers
from ehr_course.exercises.machine_to_fill import Machine
from ehr_course.exercises.worked_answers import worked


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


# 11.3 to 11.7: a BART, part by part


def _tried(exercise_id: str, rng: random.Random, settings: tuple, *given: object) -> Arguments:
    """A module of these settings with weights for all that the worked one has."""
    made = worked(exercise_id)(*settings)
    weights = {name: numbers(rng, *p.shape, up_to=9) for name, p in made.named_parameters()}
    return settings, weights, given


def _mask(rng: random.Random, *shape: int) -> Tensor:
    """A mask whose every row has a True, and here and there a False."""
    mask = numbers(rng, *shape) > -0.8
    mask[..., rng.randrange(shape[-1])] = True
    return mask


def _causal(length: int) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool).tril()


def _heads(
    rng: random.Random, width: int, heads: int, batch: int, target: int, source: int, rows: int
) -> Arguments:
    """Attention; its mask has so many rows, or is causal where rows is 0."""
    reader, read = numbers(rng, batch, target, width), numbers(rng, batch, source, width)
    mask = _mask(rng, batch, rows, source) if rows else _causal(target)
    return _tried("11.3", rng, (width, heads), reader, read, mask)


def _size(rng: random.Random) -> tuple[int, int]:
    heads = rng.randint(1, 3)
    return heads * rng.choice((2, 4)), heads


def _fresh_heads(rng: random.Random) -> Arguments:
    target = rng.randint(2, 4)
    rows = rng.choice((1, target))
    return _heads(rng, *_size(rng), rng.randint(1, 3), target, rng.randint(2, 4), rows)


HEADS = Exercise(
    id="11.3",
    chosen=(
        _heads(random.Random(0), 4, 1, 1, 2, 3, 2),
        _heads(random.Random(1), 6, 2, 1, 2, 3, 1),
        _heads(random.Random(2), 6, 2, 2, 3, 4, 3),  # as many records as heads
        _heads(random.Random(3), 6, 2, 2, 3, 3, 3),  # as many positions read as are read
        _heads(random.Random(4), 6, 2, 3, 4, 4, 0),  # one mask for all records
        _heads(random.Random(5), 8, 4, 1, 4, 4, 4),
        _heads(random.Random(6), 6, 3, 3, 2, 2, 1),
    ),
    fresh=_fresh_heads,
    fresh_inputs=8,
    tolerance=FLOAT32,
)


def _encoder_layer(rng: random.Random, *size: int, batch: int, length: int) -> Arguments:
    given = numbers(rng, batch, length, size[0]), _mask(rng, batch, 1, length)
    return _tried("11.4", rng, size, *given)


def _fresh_encoder_layer(rng: random.Random) -> Arguments:
    size = *_size(rng), rng.randint(2, 6)
    return _encoder_layer(rng, *size, batch=rng.randint(1, 3), length=rng.randint(2, 4))


ENCODER_LAYER = Exercise(
    id="11.4",
    chosen=(
        _encoder_layer(random.Random(0), 2, 1, 3, batch=1, length=2),
        _encoder_layer(random.Random(1), 4, 2, 6, batch=1, length=3),
        _encoder_layer(random.Random(2), 6, 2, 5, batch=2, length=4),
        _encoder_layer(random.Random(3), 4, 1, 4, batch=3, length=3),
    ),
    fresh=_fresh_encoder_layer,
    fresh_inputs=8,
    tolerance=FLOAT32,
)


def _decoder_layer(
    rng: random.Random, *size: int, batch: int, target: int, source: int
) -> Arguments:
    x, memory = numbers(rng, batch, target, size[0]), numbers(rng, batch, source, size[0])
    mask = _mask(rng, batch, 1, source)
    return _tried("11.5", rng, size, x, _causal(target), memory, mask)


def _fresh_decoder_layer(rng: random.Random) -> Arguments:
    size = *_size(rng), rng.randint(2, 6)
    target, source = rng.randint(2, 4), rng.randint(2, 4)
    return _decoder_layer(rng, *size, batch=rng.randint(1, 3), target=target, source=source)


DECODER_LAYER = Exercise(
    id="11.5",
    chosen=(
        _decoder_layer(random.Random(0), 2, 1, 3, batch=1, target=2, source=3),
        _decoder_layer(random.Random(1), 4, 2, 6, batch=1, target=3, source=3),
        _decoder_layer(random.Random(2), 6, 2, 5, batch=2, target=3, source=3),
        _decoder_layer(random.Random(3), 4, 2, 4, batch=2, target=4, source=2),
    ),
    fresh=_fresh_decoder_layer,
    fresh_inputs=8,
    tolerance=FLOAT32,
)


class LayerToStack(nn.Module):
    """A layer for 11.6, without attention: what it was given and its place can be seen."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, *given: Tensor) -> Tensor:
        """Multiply by the scale, and add all that was given."""
        return x * self.scale + sum(given)


def _stack(
    rng: random.Random, width: int, n_layers: int, shape: tuple[int, int], given: int, spare: int
) -> Arguments:
    """A stack whose layers are given so many tensors, with spare positions."""
    settings = [LayerToStack(width) for _ in range(n_layers)], width, shape[1] + spare
    return _tried("11.6", rng, settings, *(numbers(rng, *shape, width) for _ in range(1 + given)))


def _fresh_stack(rng: random.Random) -> Arguments:
    width, shape = rng.randint(2, 4), (rng.randint(1, 3), rng.randint(1, 4))
    return _stack(rng, width, rng.randint(1, 3), shape, rng.randint(0, 2), rng.randint(0, 3))


STACK = Exercise(
    id="11.6",
    chosen=(
        _stack(random.Random(0), 2, 1, (1, 2), given=0, spare=2),
        _stack(random.Random(1), 3, 2, (1, 2), given=1, spare=2),
        _stack(random.Random(2), 3, 2, (2, 3), given=1, spare=2),
        _stack(random.Random(3), 4, 3, (2, 2), given=2, spare=2),
        _stack(random.Random(4), 2, 2, (3, 4), given=0, spare=0),
    ),
    fresh=_fresh_stack,
    fresh_inputs=8,
    tolerance=FLOAT32,
)


def _bart(
    rng: random.Random,
    method: str,
    n_layers: int,
    batch: int,
    prompts: tuple[int, int],
    lengths: tuple[int, int],
) -> Arguments:
    """A TinyBart whose method is tried; prompts and lengths are those of encoder and decoder."""
    width, n_tokens = 4, 9
    masks = [_right_padded(rng, lengths[0]) for _ in range(batch - 1)]
    mask = torch.stack([*masks, torch.ones(lengths[0], dtype=torch.int64)])
    ids, decoder_ids = (
        tensor([[rng.randrange(1, n_tokens) for _ in range(n)] for _ in range(batch)])
        for n in lengths
    )
    before, decoder_before = (numbers(rng, batch, n, width) for n in prompts)
    memory = numbers(rng, batch, sum(lengths), width), _mask(rng, batch, 1, sum(lengths))
    given = {
        "forward": (ids * mask, mask, decoder_ids, before, decoder_before),
        "encode": ("encode", ids * mask, mask, before),
        "decode": ("decode", decoder_ids, decoder_before, *memory),
    }[method]
    return _tried("11.7", rng, (n_tokens, width, 2, 3, n_layers, 8), *given)


def _fresh_bart(rng: random.Random) -> Arguments:
    method = rng.choice(("forward", "forward", "encode", "decode"))
    prompts, lengths = (
        (rng.randint(0, 2), rng.randint(0, 2)),
        (rng.randint(2, 4), rng.randint(2, 4)),
    )
    return _bart(rng, method, rng.randint(1, 2), rng.randint(1, 3), prompts, lengths)


TINY_BART = Exercise(
    id="11.7",
    chosen=(
        _bart(random.Random(0), "encode", 1, 1, prompts=(1, 1), lengths=(3, 2)),
        _bart(random.Random(1), "encode", 1, 2, prompts=(2, 2), lengths=(3, 3)),
        _bart(random.Random(2), "decode", 1, 2, prompts=(2, 2), lengths=(3, 3)),
        _bart(random.Random(3), "forward", 1, 1, prompts=(1, 1), lengths=(3, 2)),
        _bart(random.Random(4), "forward", 2, 2, prompts=(0, 0), lengths=(3, 2)),
        _bart(random.Random(5), "forward", 1, 2, prompts=(2, 1), lengths=(4, 3)),
        _bart(random.Random(6), "forward", 2, 2, prompts=(2, 2), lengths=(3, 3)),
        _bart(random.Random(7), "decode", 1, 2, prompts=(0, 1), lengths=(2, 3)),
    ),
    fresh=_fresh_bart,
    fresh_inputs=8,
    tolerance=1e-3,
)

# 11.8 Give each patient another record


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
    id="11.8",
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


# 11.9 Count the parameters of BART


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
    id="11.9",
    chosen=(
        (20, 4, 1, 1, 2, 6, 8),
        (31, 6, 2, 1, 3, 13, 10),
        (40, 8, 1, 3, 2, 24, 16),
        (6992, 768, 6, 6, 12, 3072, 512),
        (5569, 768, 6, 6, 12, 3072, 1024),
    ),
    fresh=_fresh_size,
)


# 11.10 The largest batch


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
    id="11.10",
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
    HEADS,
    ENCODER_LAYER,
    DECODER_LAYER,
    STACK,
    TINY_BART,
    EXCHANGE_PATIENTS,
    COUNT,
    LARGEST_BATCH,
)
