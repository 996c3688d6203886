"""The exercises of lesson 10: data flow."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise

Ids = list[int]


# 10.1 Padding waste and length buckets


def _fresh_lengths(rng: random.Random) -> Arguments:
    batch_size, pool_batches = rng.choice([(2, 2), (2, 3), (3, 2), (4, 2), (2, 4)])
    n_records = rng.randint(1, 2) * batch_size * pool_batches + rng.randint(1, batch_size + 2)
    return [rng.randint(5, 60) for _ in range(n_records)], batch_size, pool_batches


PADDING_SHARE = Exercise(
    id="10.1",
    chosen=(
        ([8, 20, 10, 12, 40, 6], 2, 2),
        ([8, 20, 10, 12, 40, 6], 2, 3),
        ([30, 9, 12, 26, 11, 8, 40], 2, 2),
        ([10, 10, 10, 10], 2, 1),
        ([10, 30], 2, 1),
        ([50, 6, 14, 7, 33, 21, 9, 60, 12], 3, 2),
        ([7, 9, 8, 31, 30, 6, 12, 55, 40, 18, 22], 2, 4),
    ),
    fresh=_fresh_lengths,
)


# 10.2 Fresh corruption that can be repeated


def _fresh_epoch(rng: random.Random) -> Arguments:
    n_batches = rng.randint(4, 7)
    start = rng.choice([0, 0, 1, 2])
    return rng.randint(1, 50), rng.randint(1, 9), start, n_batches, rng.randint(2, 3)


LOADER_NOISE = Exercise(
    id="10.2",
    chosen=(
        (7, 1, 2, 6, 2),  # first: it shows a fault of epoch, start and workers alike
        (7, 0, 0, 4, 1),
        (7, 1, 0, 4, 1),
        (7, 1, 0, 5, 2),
        (7, 1, 0, 5, 3),
        (7, 1, 2, 5, 2),
        (3, 2, 1, 4, 2),
        (8, 1, 0, 3, 2),
    ),
    fresh=_fresh_epoch,
)


# 10.3 The contract of a batch


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows of token ids as one tensor (batch, longest) int64, padded on the right with `value`."""
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(ids) for ids in rows], batch_first=True, padding_value=value
    )


NAMES = ("input_ids", "attention_mask", "decoder_input_ids", "labels", "x_num", "x_cat")
Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _shifted(labels: Tensor) -> list[list[int]]:
    return [[2, *(0 if label == -100 else label for label in row[:-1])] for row in labels.tolist()]


def _made_batch(rng: random.Random, n_rows: int = 2) -> Batch:
    """A batch that keeps the contract: rows of different lengths, on both sides."""
    source = [rng.randint(2, 4) for _ in range(n_rows)]
    target = [rng.randint(2, 4) for _ in range(n_rows)]
    ids = padded([[rng.randint(7, 19) for _ in range(n)] for n in source], 0)
    labels = padded([[rng.randint(7, 19) for _ in range(n)] for n in target], -100)
    x_num = torch.tensor([[float(rng.randint(20, 90))] for _ in range(n_rows)])
    x_cat = torch.tensor([[rng.randint(0, 1)] for _ in range(n_rows)])
    return ids, (ids != 0).long(), torch.tensor(_shifted(labels)), labels, x_num, x_cat


def _put(batch: Batch, name: str, tensor: Tensor) -> Batch:
    ids, mask, decoder, labels, x_num, x_cat = (
        tensor if n == name else t for n, t in zip(NAMES, batch, strict=True)
    )
    return ids, mask, decoder, labels, x_num, x_cat


def _get(batch: Batch, name: str) -> Tensor:
    return batch[NAMES.index(name)]


def _break_shapes(rng: random.Random, batch: Batch) -> Batch:
    name = rng.choice(["attention_mask", "decoder_input_ids", "labels", "x_num", "x_cat"])
    tensor = _get(batch, name)
    if name in ("x_num", "x_cat") and rng.random() < 0.5:
        return _put(batch, name, tensor[:, 0])
    if rng.random() < 0.5:
        return _put(batch, name, torch.cat([tensor, tensor[-1:]]))
    return _put(batch, name, torch.cat([tensor, tensor[:, -1:]], 1))


def _break_dtypes(rng: random.Random, batch: Batch) -> Batch:
    name = rng.choice(NAMES)
    if name == "x_num":
        return _put(batch, name, _get(batch, name).to(rng.choice([torch.float64, torch.int64])))
    other = [torch.int32, *([torch.bool] if name == "attention_mask" else [])]
    return _put(batch, name, _get(batch, name).to(rng.choice(other)))


def _flip_in_mask(batch: Batch, row: int, place: int) -> Batch:
    mask = _get(batch, "attention_mask").clone()
    mask[row, place] = 1 - mask[row, place]
    return _put(batch, "attention_mask", mask)


def _break_mask(rng: random.Random, batch: Batch) -> Batch:
    ids = _get(batch, "input_ids")
    if rng.random() < 0.3:
        return _put(batch, "attention_mask", 1 - (ids != 0).long())
    return _flip_in_mask(batch, rng.randrange(ids.shape[0]), rng.randrange(ids.shape[1]))


def _break_labels(rng: random.Random, batch: Batch) -> Batch:
    labels = _get(batch, "labels").clone()
    if (labels == -100).any():
        labels[labels == -100] = 0
    else:
        labels[-1, -1] = 0
    return _put(batch, "labels", labels)


def _break_decoder(rng: random.Random, batch: Batch) -> Batch:
    labels = _get(batch, "labels")
    decoder = _get(batch, "decoder_input_ids").clone()
    kind = rng.choice(["start", "unshifted", "one", "minus 100"])
    if kind == "start":
        decoder[:, 0] = 1
    elif kind == "unshifted":
        decoder = labels.clone()
    elif kind == "minus 100" and (labels[:, :-1] == -100).any():
        decoder[:, 1:] = labels[:, :-1]
    else:
        decoder[rng.randrange(len(decoder)), -1] += 30
    return _put(batch, "decoder_input_ids", decoder)


_BREAK = {
    "dtypes": _break_dtypes,
    "mask": _break_mask,
    "labels": _break_labels,
    "decoder": _break_decoder,
}


def _fresh_batch(rng: random.Random) -> Arguments:
    batch = _made_batch(rng, rng.randint(2, 3))
    if rng.random() < 0.2:
        return _break_shapes(rng, batch)
    names = rng.sample(list(_BREAK), rng.choice([0, 1, 1, 2]))
    # The type goes last: the other faults are put in with int64.
    for name in sorted(names, key=lambda name: name == "dtypes"):
        batch = _BREAK[name](rng, batch)
    return batch


def _batch(
    ids: list[Ids], mask: list[Ids], decoder: list[Ids], labels: list[Ids], age: list[float]
) -> Batch:
    """A batch whose patients are a man, a woman and so on."""
    x_cat = [[row % 2] for row in range(len(age))]
    return (
        torch.tensor(ids),
        torch.tensor(mask),
        torch.tensor(decoder),
        torch.tensor(labels),
        torch.tensor(age)[:, None],
        torch.tensor(x_cat),
    )


_IDS, _MASK = [[1, 6, 2], [1, 2, 0]], [[1, 1, 1], [1, 1, 0]]
_AGES = [64.0, 71.0]
_GOOD = _batch(_IDS, _MASK, [[2, 1, 8, 9], [2, 1, 7, 2]], [[1, 8, 9, 2], [1, 7, 2, -100]], _AGES)
_PADDED = _batch(
    _IDS, _MASK, [[2, 1, 8, 9], [2, 1, 2, 0]], [[1, 8, 9, 2], [1, 2, -100, -100]], _AGES
)
_SHORT = _batch(
    [[1, 6, 2], [1, 8, 2]], [[1] * 3] * 2, [[2, 1, 9], [2, 1, 8]], [[1, 9, 2], [1, 8, 2]], _AGES
)
_ONE_TYPE_WRONG = tuple(
    _put(_SHORT, name, _get(_SHORT, name).to(dtype))
    for name, *dtypes in (
        ("input_ids", torch.int32),
        ("attention_mask", torch.bool, torch.float32, torch.float64),
        ("decoder_input_ids", torch.int32),
        ("labels", torch.int32),
        ("x_num", torch.float64, torch.int64, torch.float16),
        ("x_cat", torch.int32, torch.float32),
    )
    for dtype in dtypes
)
# A label of 0 that is not the last of its row.
_INSIDE: Batch = (
    *_SHORT[:2],
    torch.tensor([[2, 1, 0], [2, 1, 8]]),
    torch.tensor([[1, 0, 2], [1, 8, 2]]),
    *_SHORT[4:],
)
# One patient, and a source that is longer than the target.
_LONG_SOURCE = _batch([[1, 3, 6, 8, 4, 2]], [[1] * 6], [[2, 1, 9]], [[1, 9, 2]], [64.0])
_ALL_WRONG: Batch = (
    _GOOD[0],
    torch.ones(2, 3, dtype=torch.int64),
    _GOOD[3],
    torch.tensor([[1, 8, 9, 2], [1, 7, 2, 0]]),
    _GOOD[4].double(),
    _GOOD[5],
)


def _one_more_row(batch: Batch, *names: str) -> Batch:
    for name in names:
        tensor = _get(batch, name)
        batch = _put(batch, name, torch.cat([tensor, tensor[-1:]]))
    return batch


CONTRACT = Exercise(
    id="10.3",
    chosen=(
        _GOOD,
        _SHORT,
        _PADDED,
        _LONG_SOURCE,
        *_ONE_TYPE_WRONG,
        (*(t.int() for t in _SHORT[:4]), _SHORT[4], _SHORT[5].int()),
        _put(_SHORT, "x_num", torch.tensor([64.0, 71.0])),
        _put(_SHORT, "x_cat", torch.tensor([0, 1])),
        _put(_put(_SHORT, "x_num", torch.tensor([64.0, 71.0])), "x_cat", torch.tensor([0, 1])),
        _put(_SHORT, "x_num", torch.tensor([[64.0, 71.0]])),
        _put(_SHORT, "x_cat", torch.tensor([[0, 1]])),
        _put(_SHORT, "x_num", torch.tensor([[64.0, 1.0], [71.0, 1.0]])),
        _one_more_row(_SHORT, "x_num"),
        _one_more_row(_SHORT, "input_ids"),
        _one_more_row(_SHORT, "attention_mask"),
        _one_more_row(_SHORT, "decoder_input_ids"),
        _one_more_row(_SHORT, "labels"),
        _put(_SHORT, "x_cat", torch.tensor([[0, 1], [1, 1]])),
        _put(_SHORT, "x_cat", torch.tensor([[0], [1], [1]])),
        _put(_GOOD, "attention_mask", torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])),
        _put(_GOOD, "labels", torch.tensor([[1, 8, 9], [1, 7, 2]])),
        _put(_put(_SHORT, "x_num", torch.tensor([64, 71])), "labels", _SHORT[3] * 0),
        _one_more_row(_SHORT, "decoder_input_ids", "labels"),
        _one_more_row(_SHORT, "input_ids", "attention_mask"),
        _one_more_row(_SHORT, "x_num", "x_cat"),
        _INSIDE,
        _ALL_WRONG,
        _put(_ALL_WRONG, "attention_mask", _GOOD[1]),
        _put(_ALL_WRONG, "x_num", _GOOD[4]),
        _put(_put(_GOOD, "labels", _ALL_WRONG[3]), "attention_mask", _ALL_WRONG[1]),
        _put(_GOOD, "attention_mask", torch.tensor([[1, 1, 1], [1, 2, 0]])),
        _put(_GOOD, "attention_mask", torch.tensor([[1, 1, 1], [1, 1, 2]])),
        _flip_in_mask(_GOOD, 1, 2),
        _flip_in_mask(_GOOD, 1, 1),
        _flip_in_mask(_flip_in_mask(_GOOD, 1, 2), 1, 1),
        _flip_in_mask(_GOOD, 0, 2),
        _put(_GOOD, "attention_mask", 1 - _GOOD[1]),
        _put(_GOOD, "labels", torch.tensor([[1, 8, 9, 2], [1, 7, 2, 0]])),
        _put(_PADDED, "labels", torch.tensor([[1, 8, 9, 2], [1, 2, 0, 0]])),
        _put(_PADDED, "labels", torch.tensor([[1, 8, 9, 2], [1, 2, -100, 0]])),
        _put(_SHORT, "decoder_input_ids", torch.tensor([[1, 1, 9], [1, 1, 8]])),
        _put(_SHORT, "decoder_input_ids", torch.tensor([[2, 1, 9], [1, 1, 8]])),
        _put(_SHORT, "decoder_input_ids", _SHORT[3]),
        _put(_SHORT, "decoder_input_ids", torch.tensor([[2, 1, 6], [2, 1, 8]])),
        _put(_SHORT, "decoder_input_ids", torch.tensor([[2, 1, 9], [2, 1, 7]])),
        _put(_PADDED, "decoder_input_ids", torch.tensor([[2, 1, 8, 9], [2, 1, 2, -100]])),
        _put(_PADDED, "decoder_input_ids", torch.tensor([[2, 1, 8, 9], [2, 1, 2, 1]])),
        _put(
            _put(_flip_in_mask(_GOOD, 1, 2), "x_num", _GOOD[4].double()),
            "decoder_input_ids",
            _GOOD[3],
        ),
    ),
    fresh=_fresh_batch,
)


# 10.4 A budget of places


def _fresh_budget(rng: random.Random) -> Arguments:
    lengths = [rng.randint(2, 15) for _ in range(rng.randint(5, 9))]
    longest = max(lengths)
    return lengths, longest + rng.randint(1, 2 * longest), rng.randint(1, 20)


_EPOCH = [(7 * i * i + 3 * i) % 41 + 5 for i in range(40)]

BUDGET = Exercise(
    id="10.4",
    chosen=(
        ([2, 6, 5, 2], 18, 3),
        ([2, 6, 5, 2], 12, 3),
        ([4, 4, 4], 12, 2),
        ([4, 6], 10, 5),
        ([3, 9], 20, 1),
        ([3, 9], 20, 8),
        ([9, 2, 2, 9], 18, 3),
        ([8, 3, 11, 2, 8, 7], 19, 12),
        ([2, 4, 5], 20, 2),  # to join, or not to join, costs the same at first
        ([9, 7, 6], 30, 2),
        ([3, 5, 9, 8, 14, 15], 27, 13),
        ([2, 12, 15, 6, 14], 33, 3),
        ([2, 14, 6, 4, 15, 14], 36, 3),
        ([4, 7, 7, 12, 12, 8, 3, 7], 21, 13),
        ([3, 2, 2, 11, 3, 2, 2, 3, 2, 2, 12, 3, 2, 2, 2, 3], 48, 10),  # a batch of many
        (_EPOCH, 100, 25),
    ),
    fresh=_fresh_budget,
)

EXERCISES = (PADDING_SHARE, LOADER_NOISE, CONTRACT, BUDGET)
