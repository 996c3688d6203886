"""The exercises of lesson 10: data flow."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

Ids = list[int]


# 10.1 Dynamic padding


def _pad(rows: Sequence[Ids], value: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(ids) for ids in rows], batch_first=True, padding_value=value
    )


def _mask(rows: Sequence[Ids]) -> Tensor:
    return _pad([[1] * len(ids) for ids in rows], 0)


def _padded(inputs: Sequence[Ids], targets: Sequence[Ids], **changed: Tensor) -> dict[str, Tensor]:
    batch = {
        "input_ids": _pad(inputs, 0),
        "attention_mask": _mask(inputs),
        "labels": _pad(targets, -100),
    }
    return batch | changed


def _longer(padded: Tensor, length: int, value: int) -> Tensor:
    return torch.nn.functional.pad(padded, (0, length - padded.shape[1]), value=value)


def _all_as_long(inputs: Sequence[Ids], targets: Sequence[Ids], length: int) -> dict[str, Tensor]:
    fill = {"input_ids": 0, "attention_mask": 0, "labels": -100}
    batch = _padded(inputs, targets)
    return {name: _longer(batch[name], length, value) for name, value in fill.items()}


def _left(rows: Sequence[Ids], value: int) -> Tensor:
    return _pad([ids[::-1] for ids in rows], value).flip(1)


def _longest(rows: Sequence[Ids]) -> int:
    return max(len(ids) for ids in rows)


def _cut(rows: Sequence[Ids]) -> list[Ids]:
    return [ids[: min(map(len, rows))] for ids in rows]


def _fresh_rows(rng: random.Random) -> Arguments:
    def row() -> Ids:
        return [rng.randint(3, 19) for _ in range(rng.randint(1, 5))]

    n_rows = rng.randint(2, 3)
    return [row() for _ in range(n_rows)], [row() for _ in range(n_rows)]


PAD_BATCH = Exercise(
    id="10.1",
    title="Dynamic padding",
    parameters=("inputs", "targets"),
    reference=_padded,
    chosen=(
        ([[1, 3, 6, 4, 2], [1, 6, 2]], [[1, 3, 9, 8, 4, 2], [1, 3, 7, 4, 2]]),
        ([[1, 6, 2], [1, 3, 9, 4, 2]], [[1, 3, 8, 4, 2], [1, 3, 9, 4, 2]]),
        ([[5, 6], [7, 8, 9]], [[5, 6], [7, 8, 9]]),
        ([[1, 3, 7, 4, 2]], [[1, 3, 7, 8, 9, 4, 2]]),
        ([[1, 3, 7, 8, 4, 2], [1, 2]], [[1, 3, 7, 4, 2], [1, 3, 8, 4, 2]]),
    ),
    fresh=_fresh_rows,
    misconceptions=(
        Misconception(
            "pads_to_512",
            "You padded every row to 512 places. That is the most a row may have, not what these "
            "rows need: the model would spend its time on padding.",
            lambda inputs, targets: _all_as_long(inputs, targets, 512),
        ),
        Misconception(
            "one_length_for_both",
            "You padded inputs and targets to one common length. A corrupted row is often shorter "
            "than its target: each side needs only its own longest row.",
            lambda inputs, targets: _all_as_long(
                inputs, targets, max(_longest(inputs), _longest(targets))
            ),
        ),
        Misconception(
            "pads_left",
            "You padded on the left. BART counts positions from the left, so the same record "
            "would get other positions in every batch.",
            lambda inputs, targets: {
                "input_ids": _left(inputs, 0),
                "attention_mask": _mask(inputs).flip(1),
                "labels": _left(targets, -100),
            },
        ),
        Misconception(
            "barts_pad_id",
            "You padded input_ids with 1. That is <pad> in the published BART's vocabulary; in "
            "ours, 1 is <BOS> and <PAD> is 0.",
            lambda inputs, targets: _padded(inputs, targets, input_ids=_pad(inputs, 1)),
        ),
        Misconception(
            "barts_pad_id_and_mask",
            "You padded with 1, and your mask is 0 where the id is 1. That is <pad> in the "
            "published BART's vocabulary; in ours, 1 is <BOS>, and you hide it.",
            lambda inputs, targets: _padded(
                inputs,
                targets,
                input_ids=_pad(inputs, 1),
                attention_mask=(_pad(inputs, 1) != 1).long(),
            ),
        ),
        Misconception(
            "labels_padded_with_0",
            "You padded the labels with 0. The loss skips -100 and nothing else: a model trained "
            "on these labels is rewarded for writing <PAD>, and there is much of it.",
            lambda inputs, targets: _padded(inputs, targets, labels=_pad(targets, 0)),
        ),
        Misconception(
            "input_ids_padded_with_minus_100",
            "You padded input_ids with -100. That is a mark for the loss. The model looks up one "
            "row of a table for each id of its input, and there is no row -100.",
            lambda inputs, targets: _padded(inputs, targets, input_ids=_pad(inputs, -100)),
        ),
        Misconception(
            "inverted_mask",
            "Your mask is 1 on padding and 0 on real tokens. The model would attend to the "
            "padding and ignore the patient.",
            lambda inputs, targets: _padded(inputs, targets, attention_mask=1 - _mask(inputs)),
        ),
        Misconception(
            "mask_of_ones",
            "Your mask is 1 everywhere, padding included. Then it hides nothing.",
            lambda inputs, targets: _padded(
                inputs, targets, attention_mask=torch.ones_like(_mask(inputs))
            ),
        ),
        Misconception(
            "mask_of_the_targets",
            "You built the mask from the targets. It belongs to input_ids and has its shape: the "
            "encoder never sees a target.",
            lambda inputs, targets: _padded(inputs, targets, attention_mask=_mask(targets)),
        ),
        Misconception(
            "hides_the_mask_token",
            "Your mask hides <mask> (6) and the other special tokens. They are real: the model "
            "must see where something was removed. Only padding is hidden.",
            lambda inputs, targets: _padded(
                inputs, targets, attention_mask=(_pad(inputs, 0) >= 7).long()
            ),
        ),
        Misconception(
            "labels_from_the_inputs",
            "Your labels are the inputs. A model can copy those without knowing anything of "
            "patients; the labels are the clean rows, the targets.",
            lambda inputs, targets: _padded(inputs, targets, labels=_pad(inputs, -100)),
        ),
        Misconception(
            "cuts_to_the_shortest",
            "You cut the rows to the length of the shortest, and lost codes. Pad the short ones "
            "to the length of the longest instead.",
            lambda inputs, targets: _padded(_cut(inputs), _cut(targets)),
        ),
        Misconception(
            "float_ids",
            "Your ids are floats. A model looks up one row of a table for each id, and no table "
            "has a row 8.0. torch.zeros and torch.full make what their dtype says.",
            lambda inputs, targets: _padded(
                inputs,
                targets,
                input_ids=_pad(inputs, 0).float(),
                labels=_pad(targets, -100).float(),
            ),
        ),
        Misconception(
            "lists_for_tensors",
            "The values are right, but they are Python lists. A model takes tensors: "
            "torch.tensor(...) makes one of a list of equally long lists.",
            lambda inputs, targets: {k: v.tolist() for k, v in _padded(inputs, targets).items()},
        ),
    ),
    hints=(
        "This is 07.5 twice, once for the inputs and once for the targets. What differs?",
        "Each side has a longest row of its own, and a padding value of its own: <PAD> for what "
        "the model reads, -100 for what the loss reads.",
        "A helper that takes rows and a padding value does all three: the mask is what it makes "
        "of rows of ones.",
    ),
)


# 10.2 Padding waste and length buckets

Batches = list[list[int]]


def _batches(
    lengths: Sequence[int], batch_size: int, pool: int, *, sort: bool = True, down: bool = False
) -> Batches:
    """Cut into pools of so many records, sort each, and cut each into batches."""
    batches = []
    for first in range(0, len(lengths), pool):
        members = list(lengths[first : first + pool])
        if sort:
            members.sort(reverse=down)
        batches += [members[i : i + batch_size] for i in range(0, len(members), batch_size)]
    return batches


def _bucketed(lengths: Sequence[int], batch_size: int, pool_batches: int) -> Batches:
    return _batches(lengths, batch_size, pool_batches * batch_size)


def _share(batches: Batches, *, longest: int | None = None) -> float:
    places = sum(len(batch) * (longest or max(batch)) for batch in batches)
    return 1 - sum(map(sum, batches)) / places


def _of_batches(measure: Callable[[Batches], float]) -> Callable[..., float]:
    return lambda lengths, batch_size, pool_batches: measure(
        _bucketed(lengths, batch_size, pool_batches)
    )


def _padding(batches: Batches) -> int:
    return sum(max(batch) - length for batch in batches for length in batch)


def _padded_to_the_pool(lengths: Sequence[int], batch_size: int, pool_batches: int) -> float:
    return _share(_batches(lengths, batch_size * pool_batches, batch_size * pool_batches))


def _full_batches(lengths: Sequence[int], batch_size: int, pool_batches: int) -> Batches:
    batches = _bucketed(lengths, batch_size, pool_batches)
    return [batch for batch in batches if len(batch) == batch_size]


def _padding_share(lengths: Sequence[int], batch_size: int, pool_batches: int) -> float:
    """Count place by place what is padding."""
    padding = places = 0
    for batch in _bucketed(lengths, batch_size, pool_batches):
        for length in batch:
            for place in range(max(batch)):
                places += 1
                padding += place >= length
    return padding / places


def _fresh_lengths(rng: random.Random) -> Arguments:
    batch_size, pool_batches = rng.choice([(2, 2), (2, 3), (3, 2), (4, 2), (2, 4)])
    n_records = rng.randint(1, 2) * batch_size * pool_batches + rng.randint(1, batch_size + 2)
    return [rng.randint(5, 60) for _ in range(n_records)], batch_size, pool_batches


PADDING_SHARE = Exercise(
    id="10.2",
    title="Padding waste and length buckets",
    parameters=("lengths", "batch_size", "pool_batches"),
    reference=_padding_share,
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
    misconceptions=(
        Misconception(
            "never_sorts",
            "You cut the batches in the order of the records. A short record beside a long one is "
            "mostly padding: that is what the buckets are for.",
            lambda lengths, batch_size, pool_batches: _share(
                _batches(lengths, batch_size, batch_size, sort=False)
            ),
        ),
        Misconception(
            "sorts_everything",
            "You sorted all records at once. That wastes least, but then nearly the same records "
            "meet in every epoch; pools keep the shuffling alive.",
            lambda lengths, batch_size, pool_batches: _share(
                _batches(lengths, batch_size, len(lengths))
            ),
        ),
        Misconception(
            "sorts_everything_longest_first",
            "You sorted all records at once, longest first. Then nearly the same records meet "
            "in every epoch; pools keep the shuffling alive, each with its shortest record first.",
            lambda lengths, batch_size, pool_batches: _share(
                _batches(lengths, batch_size, len(lengths), down=True)
            ),
        ),
        Misconception(
            "pool_of_few_records",
            "Your pools hold pool_batches records. They hold pool_batches batches: batch_size "
            "times as many.",
            lambda lengths, batch_size, pool_batches: _share(
                _batches(lengths, batch_size, pool_batches)
            ),
        ),
        Misconception(
            "mean_of_the_shares",
            "You averaged the shares of the batches. A batch of long rows has more places than "
            "one of short rows, and the last may have few rows: add up first, divide once.",
            _of_batches(lambda batches: float(np.mean([_share([batch]) for batch in batches]))),
        ),
        Misconception(
            "pads_to_the_longest_of_all",
            "You padded every batch to the longest record of all. Each batch needs only its own "
            "longest row; otherwise sorting changes nothing.",
            lambda lengths, batch_size, pool_batches: _share([list(lengths)]),
        ),
        Misconception(
            "pads_to_the_pool",
            "You padded every batch to the longest record of its pool. A batch never sees the "
            "rest of its pool: it needs only its own longest row.",
            _padded_to_the_pool,
        ),
        Misconception(
            "pads_to_512",
            "You padded every row to 512 places. Then neither batches nor buckets matter.",
            _of_batches(lambda batches: _share(batches, longest=512)),
        ),
        Misconception(
            "padding_per_token",
            "You divided the padding by the real tokens. The share is of all places, real or "
            "not, so it is never above 1.",
            _of_batches(lambda batches: _padding(batches) / sum(map(sum, batches))),
        ),
        Misconception(
            "share_of_real_tokens",
            "You returned the share of real tokens. The waste is what is left: the share of "
            "padding.",
            _of_batches(lambda batches: 1 - _share(batches)),
        ),
        Misconception(
            "counts_the_padding",
            "You returned the number of padding places. A share is that number divided by all "
            "places, so that batches of any size can be compared.",
            _of_batches(_padding),
        ),
        Misconception(
            "counts_rows",
            "You counted rows that have padding, whether one place or fifty. What costs time is "
            "places: count those.",
            _of_batches(
                lambda batches: (
                    sum(length < max(batch) for batch in batches for length in batch)
                    / sum(map(len, batches))
                )
            ),
        ),
        Misconception(
            "longest_first",
            "You sorted each pool with its longest record first. Then the incomplete batch at the "
            "end gets the shortest records instead of the longest.",
            lambda lengths, batch_size, pool_batches: _share(
                _batches(lengths, batch_size, batch_size * pool_batches, down=True)
            ),
        ),
        Misconception(
            "fills_the_incomplete_batch",
            "You counted the incomplete batch at the end as if it had batch_size rows. It has as "
            "many rows as records were left.",
            lambda lengths, batch_size, pool_batches: (
                1
                - sum(lengths)
                / sum(
                    batch_size * max(batch)
                    for batch in _bucketed(lengths, batch_size, pool_batches)
                )
            ),
        ),
        Misconception(
            "drops_the_incomplete_batch",
            "You left out the incomplete batch at the end. Its patients are patients too, and its "
            "padding costs time.",
            lambda lengths, batch_size, pool_batches: _share(
                _full_batches(lengths, batch_size, pool_batches)
            ),
        ),
        Misconception(
            "in_percent",
            "You returned percent. A share runs from 0 to 1.",
            _of_batches(lambda batches: 100 * _share(batches)),
        ),
    ),
    hints=(
        "A batch of n records whose longest has m tokens has n times m places. How many of them "
        "are padding?",
        "range(0, len(lengths), pool) gives the first place of each pool, and a second range cuts "
        "the sorted pool into batches. A slice may run over the end of a list.",
        "Add up the places of all batches. The real tokens are the sum of the lengths. One minus "
        "their quotient is the share of padding.",
    ),
)


# 10.3 Fresh corruption that can be repeated

Keys = list[list[int]]


def _drawn(keys: Sequence[object]) -> list[int]:
    return [int(np.random.default_rng(key).integers(1_000)) for key in keys]


def _key_of(key: Callable[..., object]) -> Callable[..., list[int]]:
    """Draw with one generator a batch; `key` makes its seed of all that could matter."""

    def noise(seed: int, epoch: int, start: int, n_batches: int, n_workers: int) -> list[int]:
        return _drawn(
            [
                key(
                    seed=seed,
                    epoch=epoch,
                    number=number,
                    start=start,
                    n_batches=n_batches,
                    n_workers=n_workers,
                    worker=number % n_workers,
                )
                for number in range(start, n_batches)
            ]
        )

    return noise


def _one_generator(seed: int, epoch: int, start: int, n_batches: int, n_workers: int) -> list[int]:
    """One generator an epoch, drawn from as the batches come."""
    rng = np.random.default_rng([seed, epoch])
    return [int(rng.integers(1_000)) for _ in range(start, n_batches)]


def _one_generator_skipped(
    seed: int, epoch: int, start: int, n_batches: int, n_workers: int
) -> list[int]:
    return _one_generator(seed, epoch, 0, n_batches, n_workers)[start:]


def _one_generator_unseeded_epoch(
    seed: int, epoch: int, start: int, n_batches: int, n_workers: int
) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(rng.integers(1_000)) for _ in range(start, n_batches)]


def _generator_of_each_worker(key: Callable[[int, int, int], object]) -> Callable[..., list[int]]:
    """Every worker has one generator and draws from it as its batches come."""

    def noise(seed: int, epoch: int, start: int, n_batches: int, n_workers: int) -> list[int]:
        rngs = [np.random.default_rng(key(seed, epoch, worker)) for worker in range(n_workers)]
        return [int(rngs[n % n_workers].integers(1_000)) for n in range(start, n_batches)]

    return noise


def _fresh_epoch(rng: random.Random) -> Arguments:
    n_batches = rng.randint(4, 7)
    start = rng.choice([0, 0, 1, 2])
    return rng.randint(1, 50), rng.randint(1, 9), start, n_batches, rng.randint(2, 3)


LOADER_NOISE = Exercise(
    id="10.3",
    title="Fresh corruption that can be repeated",
    parameters=("seed", "epoch", "start", "n_batches", "n_workers"),
    reference=_key_of(lambda seed, epoch, number, **_: [seed, epoch, number]),
    chosen=(
        (7, 0, 0, 4, 1),
        (7, 1, 0, 4, 1),
        (7, 1, 0, 5, 2),
        (7, 1, 0, 5, 3),
        (7, 1, 2, 5, 2),
        (3, 2, 1, 4, 2),
        (8, 1, 0, 3, 2),
    ),
    fresh=_fresh_epoch,
    misconceptions=(
        Misconception(
            "same_noise_in_every_epoch",
            "Your noise does not depend on the epoch: every epoch sees the same corruption, and "
            "the model can learn its answers by heart.",
            _key_of(lambda seed, number, **_: [seed, number]),
        ),
        Misconception(
            "same_noise_in_every_batch",
            "Every batch of an epoch gets the same noise: you made the generator anew from what "
            "all of them share.",
            _key_of(lambda seed, epoch, **_: [seed, epoch]),
        ),
        Misconception(
            "same_noise_always",
            "Every batch of every epoch gets the same noise: a generator made from the seed alone "
            "begins with the same number each time.",
            _key_of(lambda seed, **_: seed),
        ),
        Misconception(
            "same_noise_in_all_workers",
            "Each worker draws from a copy of one generator, so the first batch of every worker "
            "gets the same noise, and so does the second.",
            _generator_of_each_worker(lambda seed, epoch, worker: [seed, epoch]),
        ),
        Misconception(
            "same_noise_in_all_workers_and_epochs",
            "Each worker draws from a copy of one generator made from the seed alone: the noise "
            "repeats in every worker, and again in every epoch.",
            _generator_of_each_worker(lambda seed, epoch, worker: seed),
        ),
        Misconception(
            "a_generator_for_each_worker",
            "Each worker has a generator of its own, and draws from it as its batches come. With "
            "another number of workers, or resumed in the middle, a batch gets other noise.",
            _generator_of_each_worker(lambda seed, epoch, worker: [seed, epoch, worker]),
        ),
        Misconception(
            "depends_on_the_worker",
            "The number of the worker is part of your seed. With more workers a batch is made by "
            "another one and gets other noise: nobody can repeat your run on another machine.",
            _key_of(lambda seed, epoch, number, worker, **_: [seed, epoch, number, worker]),
        ),
        Misconception(
            "depends_on_the_worker_before_the_batch",
            "The number of the worker is part of your seed. With more workers a batch is made by "
            "another one and gets other noise: nobody can repeat your run on another machine.",
            _key_of(lambda seed, epoch, number, worker, **_: [seed, epoch, worker, number]),
        ),
        Misconception(
            "worker_in_place_of_the_batch",
            "You seed with the worker in place of the batch. A worker makes many batches, and all "
            "of them get the same noise.",
            _key_of(lambda seed, epoch, worker, **_: [seed, epoch, worker]),
        ),
        Misconception(
            "adds_the_numbers",
            "You added the numbers up. Then batch 1 of epoch 0 and batch 0 of epoch 1 have one "
            "sum and one noise. A list keeps each number in its own place.",
            _key_of(lambda seed, epoch, number, **_: seed + epoch + number),
        ),
        Misconception(
            "adds_epoch_and_batch",
            "You added epoch and batch. Then batch 1 of epoch 0 and batch 0 of epoch 1 have one "
            "sum and one noise. A list keeps each number in its own place.",
            _key_of(lambda seed, epoch, number, **_: [seed, epoch + number]),
        ),
        Misconception(
            "adds_seed_and_epoch",
            "You added seed and epoch. Then epoch 1 of seed 7 repeats epoch 0 of seed 8, and "
            "trainings with neighbouring seeds are not independent.",
            _key_of(lambda seed, epoch, number, **_: [seed + epoch, number]),
        ),
        Misconception(
            "counts_from_the_start",
            "You numbered the batches from where the epoch was resumed. Batch 2 must get the "
            "noise of batch 2 whether batches 0 and 1 were made today or yesterday.",
            _key_of(lambda seed, epoch, number, start, **_: [seed, epoch, number - start]),
        ),
        Misconception(
            "begins_with_batch_0",
            "You returned the noise of the whole epoch. It is resumed at start: the batches "
            "before it are done, and must not come again.",
            lambda seed, epoch, start, n_batches, n_workers: _drawn(
                [[seed, epoch, number] for number in range(n_batches)]
            ),
        ),
        Misconception(
            "one_generator_from_the_start",
            "One generator serves the whole epoch, and a resumed epoch draws its first numbers "
            "again: batch 2 gets the noise of batch 0.",
            _one_generator,
        ),
        Misconception(
            "one_generator_for_all_epochs",
            "One generator made from the seed alone serves the batches in turn. Every epoch draws "
            "the same numbers again, and a resumed one draws those of its first batches.",
            _one_generator_unseeded_epoch,
        ),
        Misconception(
            "one_generator_for_the_epoch",
            "One generator serves the whole epoch. Here that works, because you drew for the "
            "batches of all workers. A worker makes only its own batches, and would have to draw "
            "the noise of all the others too: give each batch a generator of its own.",
            _one_generator_skipped,
        ),
        Misconception(
            "running_number",
            "You numbered the batches through all epochs. With another batch size an epoch has "
            "another number of batches, and every later epoch moves. Give epoch and batch a "
            "place of their own.",
            _key_of(
                lambda seed, epoch, number, n_batches, **_: [seed, epoch * n_batches + number]
            ),
        ),
        Misconception(
            "spawn_key",
            "Your noise is fresh and can be repeated. The task asks for one list that begins with "
            "the seed, so that the values can be compared; a spawn_key gives others.",
            _key_of(
                lambda seed, epoch, number, **_: np.random.SeedSequence(
                    seed, spawn_key=(epoch, number)
                )
            ),
        ),
        Misconception(
            "batch_before_epoch",
            "Your noise is fresh and can be repeated. The task names another order, so that the "
            "values can be compared: seed, epoch, number of the batch.",
            _key_of(lambda seed, epoch, number, **_: [seed, number, epoch]),
        ),
    ),
    hints=(
        "On what may the noise of a batch depend? Go through the parameters, and the number of "
        "the batch, one by one.",
        "Not on start, n_batches or n_workers: they differ from machine to machine and from run "
        "to run.",
        "For each batch number from start on, make a new generator from a list of three numbers "
        "and draw once.",
    ),
)


# 10.4 The contract of a batch

NAMES = ("input_ids", "attention_mask", "decoder_input_ids", "labels", "x_num", "x_cat")
Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _shapes_hold(
    ids: Tensor, mask: Tensor, decoder: Tensor, labels: Tensor, x_num: Tensor, x_cat: Tensor
) -> bool:
    batch = len(ids)
    return (
        ids.shape == mask.shape == (batch, ids.shape[1])
        and decoder.shape == labels.shape == (batch, labels.shape[1])
        and x_num.shape == x_cat.shape == (batch, 1)
    )


def _dtypes_hold(*batch: Tensor) -> bool:
    integers = [tensor for name, tensor in zip(NAMES, batch, strict=True) if name != "x_num"]
    return batch[4].dtype == torch.float32 and all(t.dtype == torch.int64 for t in integers)


def _mask_holds(*batch: Tensor) -> bool:
    pairs = zip(batch[0].flatten().tolist(), batch[1].flatten().tolist(), strict=True)
    return all(mask == (0 if token == 0 else 1) for token, mask in pairs)


def _labels_hold(*batch: Tensor) -> bool:
    return 0 not in batch[3].flatten().tolist()


def _decoder_holds(*batch: Tensor, start: int = 2, pad: int = 0) -> bool:
    expected = [
        [start, *(pad if label == -100 else label for label in row[:-1])]
        for row in batch[3].tolist()
    ]
    return batch[2].tolist() == expected


_CLAUSES: dict[str, Callable[..., bool]] = {
    "shapes": _shapes_hold,
    "dtypes": _dtypes_hold,
    "mask": _mask_holds,
    "labels": _labels_hold,
    "decoder": _decoder_holds,
}


def _problems(*batch: Tensor, **changed: Callable[..., bool]) -> list[str]:
    """The broken clauses, some of them tested in another way."""
    clauses = _CLAUSES | changed
    if not clauses["shapes"](*batch):
        return ["shapes"]
    return [name for name, holds in clauses.items() if not holds(*batch)]


def _with(**changed: Callable[..., bool]) -> Callable[..., list[str]]:
    return lambda *batch: _problems(*batch, **changed)


def _goes_on(*batch: Tensor) -> list[str]:
    ids, mask, decoder, labels, _, _ = batch
    broken = [] if _shapes_hold(*batch) else ["shapes"]
    broken += [] if _dtypes_hold(*batch) else ["dtypes"]
    broken += [] if bool((mask == (ids != 0)).all()) else ["mask"]
    broken += [] if _labels_hold(*batch) else ["labels"]
    shifted = torch.full_like(labels, 2)
    shifted[:, 1:] = labels[:, :-1]
    shifted[shifted == -100] = 0
    return broken + ([] if bool((shifted == decoder).all()) else ["decoder"])


def _made_batch(rng: random.Random, n_rows: int = 2) -> Batch:
    """A batch that keeps the contract: rows of different lengths, on both sides."""
    source = [rng.randint(2, 4) for _ in range(n_rows)]
    target = [rng.randint(2, 4) for _ in range(n_rows)]
    ids = _pad([[rng.randint(7, 19) for _ in range(n)] for n in source], 0)
    labels = _pad([[rng.randint(7, 19) for _ in range(n)] for n in target], -100)
    x_num = torch.tensor([[float(rng.randint(20, 90))] for _ in range(n_rows)])
    x_cat = torch.tensor([[rng.randint(0, 1)] for _ in range(n_rows)])
    return ids, (ids != 0).long(), _shifted(labels), labels, x_num, x_cat


def _shifted(labels: Tensor) -> Tensor:
    rows = [[2, *(max(label, 0) for label in row[:-1])] for row in labels.tolist()]
    return torch.tensor(rows)


def _put(batch: Batch, name: str, tensor: Tensor) -> Batch:
    return tuple(tensor if n == name else t for n, t in zip(NAMES, batch, strict=True))


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


_GOOD: Batch = (
    torch.tensor([[1, 6, 2], [1, 2, 0]]),
    torch.tensor([[1, 1, 1], [1, 1, 0]]),
    torch.tensor([[2, 1, 8, 9], [2, 1, 7, 2]]),
    torch.tensor([[1, 8, 9, 2], [1, 7, 2, -100]]),
    torch.tensor([[64.0], [71.0]]),
    torch.tensor([[0], [1]]),
)
_SHORT: Batch = (
    torch.tensor([[1, 6, 2], [1, 8, 2]]),
    torch.tensor([[1, 1, 1], [1, 1, 1]]),
    torch.tensor([[2, 1, 9], [2, 1, 8]]),
    torch.tensor([[1, 9, 2], [1, 8, 2]]),
    torch.tensor([[64.0], [71.0]]),
    torch.tensor([[0], [1]]),
)
_PADDED: Batch = (
    torch.tensor([[1, 6, 2], [1, 2, 0]]),
    torch.tensor([[1, 1, 1], [1, 1, 0]]),
    torch.tensor([[2, 1, 8, 9], [2, 1, 2, 0]]),
    torch.tensor([[1, 8, 9, 2], [1, 2, -100, -100]]),
    torch.tensor([[64.0], [71.0]]),
    torch.tensor([[0], [1]]),
)
_ONE_TYPE_WRONG = tuple(
    _put(_SHORT, name, tensor)
    for name, tensor in (
        ("input_ids", _SHORT[0].int()),
        ("attention_mask", _SHORT[1].bool()),
        ("attention_mask", _SHORT[1].float()),
        ("decoder_input_ids", _SHORT[2].int()),
        ("labels", _SHORT[3].int()),
        ("x_num", _SHORT[4].double()),
        ("x_num", _SHORT[4].long()),
        ("x_num", _SHORT[4].half()),
        ("attention_mask", _SHORT[1].double()),
        ("x_cat", _SHORT[5].int()),
        ("x_cat", _SHORT[5].float()),
    )
)

_INSIDE: Batch = (
    *_SHORT[:2],
    torch.tensor([[2, 1, 0], [2, 1, 8]]),
    torch.tensor([[1, 0, 2], [1, 8, 2]]),
    *_SHORT[4:],
)
"""A label of 0 that is not the last of its row."""
_LONG_SOURCE: Batch = (
    torch.tensor([[1, 3, 6, 8, 4, 2]]),
    torch.tensor([[1, 1, 1, 1, 1, 1]]),
    torch.tensor([[2, 1, 9]]),
    torch.tensor([[1, 9, 2]]),
    torch.tensor([[64.0]]),
    torch.tensor([[1]]),
)
"""One patient, and a source that is longer than the target."""
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
    id="10.4",
    title="The contract of a batch",
    parameters=NAMES,
    reference=_problems,
    chosen=(
        _GOOD,
        _SHORT,
        _PADDED,
        _LONG_SOURCE,
        *_ONE_TYPE_WRONG,
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
    misconceptions=(
        Misconception(
            "names_the_first_only",
            "You stopped at the first broken clause. Whoever repairs a batch wants to know all of "
            "them; only broken shapes end the search.",
            lambda *batch: _problems(*batch)[:1],
        ),
        Misconception(
            "names_what_holds",
            "You listed the clauses that hold. The task asks for the broken ones, so a good batch "
            "gives an empty list.",
            lambda *batch: [name for name in _CLAUSES if name not in _problems(*batch)],
        ),
        Misconception(
            "goes_on_after_the_shapes",
            "Your function goes on where the shapes are broken. Tensors of different shapes "
            "cannot be compared place by place: PyTorch raises, or stretches one of them.",
            _goes_on,
        ),
        Misconception(
            "one_length_for_both",
            "You want input_ids and labels to have one length. Corruption shortens the input, so "
            "source and target lengths differ in most batches.",
            _with(shapes=lambda *batch: _shapes_hold(*batch) and batch[0].shape == batch[3].shape),
        ),
        Misconception(
            "demographics_of_any_shape",
            "You did not look at the shapes of x_num and x_cat. A forgotten dimension there is "
            "stretched over the whole batch later, and nothing raises.",
            lambda *batch: _problems(
                *batch, shapes=lambda *b: _shapes_hold(*b[:4], *[torch.zeros(len(b[0]), 1)] * 2)
            ),
        ),
        Misconception(
            "any_whole_numbers",
            "You accept every type of whole numbers, or every type of floats. The contract names "
            "one of each: int64 and float32.",
            _with(
                dtypes=lambda *batch: (
                    batch[4].is_floating_point()
                    and not any(t.is_floating_point() for i, t in enumerate(batch) if i != 4)
                )
            ),
        ),
        Misconception(
            "mask_may_be_boolean",
            "You let a boolean mask pass. Much code accepts one, and this contract does not: all "
            "but x_num is int64.",
            _with(
                dtypes=lambda *batch: _dtypes_hold(
                    batch[0],
                    batch[1].long() if batch[1].dtype == torch.bool else batch[1],
                    *batch[2:],
                )
            ),
        ),
        Misconception(
            "mask_hides_padding_only_half",
            "You made sure that padding is masked, and let a masked token pass. The mask is 1 on "
            "every real token, too.",
            _with(mask=lambda *batch: bool((batch[1][batch[0] == 0] == 0).all())),
        ),
        Misconception(
            "mask_shows_tokens_only_half",
            "You made sure that real tokens are seen, and let seen padding pass. The mask is 0 on "
            "all padding, too.",
            _with(mask=lambda *batch: bool((batch[1][batch[0] != 0] == 1).all())),
        ),
        Misconception(
            "mask_of_any_number",
            "You looked whether the mask is 0 or not. A 2 is not 0 either; the contract says 1 on "
            "every real token.",
            _with(mask=lambda *batch: torch.equal(batch[1] != 0, batch[0] != 0)),
        ),
        Misconception(
            "counts_the_mask",
            "You compared how many ones the mask has with how many tokens there are. The number "
            "can be right and the places wrong.",
            _with(mask=lambda *batch: int(batch[1].sum()) == int((batch[0] != 0).sum())),
        ),
        Misconception(
            "inverted_mask",
            "You expect a mask that is 1 on padding. It is 1 on what the model shall see: the "
            "real tokens.",
            _with(mask=lambda *batch: bool(((batch[0] == 0) == batch[1]).all())),
        ),
        Misconception(
            "labels_must_have_padding",
            "You expect a -100 among the labels. Where all rows have the same length there is "
            "none, and nothing is wrong.",
            _with(labels=lambda *batch: bool((batch[3] == -100).any())),
        ),
        Misconception(
            "decoder_with_minus_100",
            "You compared decoder_input_ids with the labels as they are. The decoder reads <PAD> "
            "(0) where the label is -100: there is no token -100.",
            _with(
                decoder=lambda *batch: _decoder_holds(*batch, pad=-100),
            ),
        ),
        Misconception(
            "decoder_starts_with_bos",
            "You expect decoder_input_ids to start with <BOS> (1). BART's decoder starts with "
            "<EOS> (2); <BOS> is the first token it shall write.",
            _with(decoder=lambda *batch: _decoder_holds(*batch, start=1)),
        ),
        Misconception(
            "any_start",
            "You did not look at the first column of decoder_input_ids. Every row starts with 2.",
            _with(
                decoder=lambda *batch: _decoder_holds(
                    *batch[:2],
                    torch.cat([torch.full_like(batch[2][:, :1], 2), batch[2][:, 1:]], 1),
                    *batch[3:],
                )
            ),
        ),
        Misconception(
            "decoder_is_the_labels",
            "You expect decoder_input_ids to be the labels, not moved. The decoder would read at "
            "each place the token that it is about to predict there.",
            _with(
                decoder=lambda *batch: torch.equal(
                    batch[2], torch.where(batch[3] == -100, 0, batch[3])
                )
            ),
        ),
        Misconception(
            "first_row_only",
            "You looked at the first row. Padding stands in the short rows, and they can be any.",
            _with(
                mask=lambda *batch: _mask_holds(*(t[:1] for t in batch)),
                labels=lambda *batch: _labels_hold(*(t[:1] for t in batch)),
                decoder=lambda *batch: _decoder_holds(*(t[:1] for t in batch)),
            ),
        ),
    ),
    hints=(
        "Begin with the shapes, and return at once where they are broken. After that every clause "
        "is one comparison, and none ends the search.",
        "Comparing two tensors of one shape gives a tensor of booleans; .all() says whether it "
        "holds everywhere. torch.equal compares whole tensors.",
        "For the last clause build what the decoder should read: a column of 2, then all labels "
        "but the last column, with 0 in place of -100.",
    ),
)


# 10.5 The memory of a batch


def _tensors(batch_size: int, source: int, target: int) -> dict[str, Tensor]:
    return {
        "input_ids": torch.zeros(batch_size, source, dtype=torch.int64),
        "attention_mask": torch.zeros(batch_size, source, dtype=torch.int64),
        "decoder_input_ids": torch.zeros(batch_size, target, dtype=torch.int64),
        "labels": torch.zeros(batch_size, target, dtype=torch.int64),
        "x_num": torch.zeros(batch_size, 1, dtype=torch.float32),
        "x_cat": torch.zeros(batch_size, 1, dtype=torch.int64),
    }


def _bytes(batch_size: int, source: int, target: int) -> int:
    return sum(t.untyped_storage().nbytes() for t in _tensors(batch_size, source, target).values())


def _sizes(
    *, n_source: int = 2, n_target: int = 2, whole: int = 8, mask: int | None = None, x: int = 12
) -> Callable[[int, int, int], int]:
    """So many tensors of each length, `whole` bytes a number, and `x` bytes of demographics."""
    mask = whole if mask is None else mask

    def count(batch_size: int, source: int, target: int) -> int:
        row = whole * (n_source * source + n_target * target) + (mask - whole) * source
        return batch_size * (row + x)

    return count


def _fresh_sizes(rng: random.Random) -> Arguments:
    return rng.randint(2, 128), rng.randint(3, 200), rng.randint(3, 200)


MEMORY = Exercise(
    id="10.5",
    title="The memory of a batch",
    parameters=("batch_size", "source", "target"),
    reference=_bytes,
    chosen=((1, 1, 1), (2, 3, 5), (32, 20, 40), (16, 512, 512), (4, 7, 2), (1, 9, 9)),
    fresh=_fresh_sizes,
    misconceptions=(
        Misconception(
            "forgets_the_decoder",
            "You counted one tensor of the target's length. There are two: labels and "
            "decoder_input_ids, each as large as the other.",
            _sizes(n_target=1),
        ),
        Misconception(
            "forgets_the_target",
            "You counted what the encoder reads. decoder_input_ids and labels are in the batch "
            "too, with the length of the target.",
            _sizes(n_target=0),
        ),
        Misconception(
            "forgets_the_mask",
            "You counted one tensor of the source's length. There are two: attention_mask is as "
            "large as input_ids, one whole number a place.",
            _sizes(n_source=1, mask=8),
        ),
        Misconception(
            "whole_numbers_of_4_bytes",
            "You gave a whole number 4 bytes. That is int32; the batch holds int64, 64 bits a "
            "number.",
            _sizes(whole=4, x=8),
        ),
        Misconception(
            "mask_of_1_byte",
            "You gave a place of the mask one byte, as if it were a boolean. In this batch it is "
            "an int64 like the ids, however little it says.",
            _sizes(mask=1),
        ),
        Misconception(
            "mask_of_1_bit",
            "You gave a place of the mask one bit. PyTorch keeps every number of a tensor in its "
            "full size; here 64 bits.",
            lambda batch_size, source, target: (
                _sizes(n_source=1)(batch_size, source, target) + batch_size * source / 8
            ),
        ),
        Misconception(
            "float_of_8_bytes",
            "You gave the age 8 bytes. x_num is float32: 32 bits.",
            _sizes(x=16),
        ),
        Misconception(
            "category_of_4_bytes",
            "Your count is 4 bytes a patient too small. Either you gave the sex 4 bytes (x_cat "
            "is int64, because an embedding looks it up), or the age, x_num, is missing.",
            _sizes(x=8),
        ),
        Misconception(
            "forgets_the_demographics",
            "You left out x_num and x_cat. They are small, and they are in the batch.",
            _sizes(x=0),
        ),
        Misconception(
            "demographics_once",
            "You counted one age and one sex. There is one of each for every patient of the "
            "batch.",
            lambda batch_size, source, target: _sizes(x=0)(batch_size, source, target) + 12,
        ),
        Misconception(
            "counts_numbers",
            "You counted the numbers in the batch. Each takes several bytes.",
            lambda batch_size, source, target: batch_size * (2 * source + 2 * target + 2),
        ),
        Misconception(
            "counts_bits",
            "You counted bits. A byte has eight of them.",
            lambda *sizes: 8 * _bytes(*sizes),
        ),
        Misconception(
            "one_row",
            "You counted one patient. A batch has batch_size of them.",
            lambda batch_size, source, target: _bytes(1, source, target),
        ),
        Misconception(
            "in_kilobytes",
            "You returned kilobytes. The task asks for bytes, as a whole number.",
            lambda *sizes: _bytes(*sizes) / 1024,
        ),
    ),
    hints=(
        "Six tensors. How many numbers has each, and how many bytes has one of its numbers?",
        "int64 means 64 bits, and a byte has 8 bits.",
        "Two tensors have batch_size times source numbers, two batch_size times target, two "
        "batch_size. All but one of the six are int64.",
    ),
)

EXERCISES = (PAD_BATCH, PADDING_SHARE, LOADER_NOISE, CONTRACT, MEMORY)
