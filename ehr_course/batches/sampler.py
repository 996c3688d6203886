"""Which patients make up which batch of an epoch, and a loader of these batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from ehr_course.batches.datasets import BatchDataset, BatchKey
from ehr_course.errors import InputError

POOL = 50
"""Batches in a pool, within which patients are sorted by length."""


class LengthBatchSampler(Sampler[BatchKey]):
    """The batches of an epoch, in their order, which depends on seed and epoch alone.

    Args:
        lengths: int (patients,), the number of tokens of each patient.
        batch_size: patients in a batch; with ``equal_tokens`` their mean number.
        seed: 0 to 2**32 - 1, of the order.
        epoch: from 0; another epoch, another order.
        start: how many batches of the epoch are done, and left out.
        shuffle: without it, patients (or the sorted pools) come in the order of the dataset.
        group_by_length: whether patients of similar length share a batch, which saves padding:
            pools of 50 batches are sorted by length, and all batches shuffled. A mean loss in
            each batch then lets short records weigh more: see lesson 15.
        equal_tokens: whether batches have about as many tokens each, rather than as many
            patients, so that every token weighs about the same.

    >>> for key in LengthBatchSampler([9, 5, 8, 6, 7], 2, shuffle=False, group_by_length=True):
    ...     print(key)
    BatchKey(epoch=0, number=0, indices=(1, 3))
    BatchKey(epoch=0, number=1, indices=(4, 2))
    BatchKey(epoch=0, number=2, indices=(0,))
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        batch_size: int,
        *,
        seed: int = 0,
        epoch: int = 0,
        start: int = 0,
        shuffle: bool = True,
        group_by_length: bool = False,
        equal_tokens: bool = False,
    ) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        for name, fits, problem, remedy in (
            ("lengths", len(self.lengths), "the list is empty", "Give one for each patient."),
            ("batch_size", batch_size >= 1, f"{batch_size} is not a size", "Use 1 or more."),
            ("seed", 0 <= seed < 2**32, f"{seed} is not a seed", "Use 0 to 2**32 - 1."),
        ):
            if not fits:
                raise InputError("LengthBatchSampler", name, problem, remedy)
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.group_by_length = group_by_length
        self.equal_tokens = equal_tokens
        self.set_epoch(epoch, start)

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Turn to an epoch, without its first ``start`` batches."""
        if epoch < 0 or not 0 <= start <= self.n_batches:
            raise InputError(
                "LengthBatchSampler",
                f"epoch {epoch}, start {start}",
                "there is no such batch",
                f"Epochs count from 0, and this one has {self.n_batches} batches.",
            )
        self.epoch, self.start = epoch, start

    @property
    def n_batches(self) -> int:
        """The batches of a whole epoch."""
        return -(-len(self.lengths) // self.batch_size)

    def __len__(self) -> int:
        """The batches that are still to come."""
        return self.n_batches - self.start

    def __iter__(self) -> Iterator[BatchKey]:
        batches = self._batches()
        for number in range(self.start, self.n_batches):
            yield BatchKey(self.epoch, number, tuple(batches[number].tolist()))

    def _batches(self) -> list[np.ndarray]:
        # The spawn key keeps this stream apart from the corruption's: to NumPy, [seed, epoch] and
        # [seed, epoch, 0] are the same seed.
        rng = np.random.default_rng(
            np.random.SeedSequence([self.seed, self.epoch], spawn_key=(1,))
        )
        patients = np.arange(len(self.lengths))
        if self.shuffle:
            rng.shuffle(patients)
        size = POOL * self.batch_size
        batches: list[np.ndarray] = []
        for first in range(0, len(patients), size):
            pool = patients[first : first + size]
            if self.group_by_length:
                pool = pool[np.argsort(self.lengths[pool], kind="stable")]
            batches += np.split(pool, self._cuts(pool))
        if self.shuffle and self.group_by_length:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        return batches

    def _cuts(self, pool: np.ndarray) -> np.ndarray:
        """Where a pool is cut into batches, each with at least one patient."""
        if not self.equal_tokens:
            return np.arange(self.batch_size, len(pool), self.batch_size)
        n_batches = -(-len(pool) // self.batch_size)
        number = np.arange(1, n_batches)
        ends = self.lengths[pool].cumsum()
        cuts = 1 + np.searchsorted(ends, ends[-1] * number / n_batches)
        # After a record with more tokens than a batch, the next batches still get one each.
        cuts = np.maximum.accumulate(cuts - number) + number
        return np.minimum(cuts, len(pool) - n_batches + number)


def data_loader(
    dataset: BatchDataset, batch_size: int, *, num_workers: int = 0, **order: Any
) -> DataLoader:
    """A DataLoader over the batches of an epoch, the same for any number of workers.

    Args:
        dataset: makes the batches.
        batch_size: patients in a batch.
        num_workers: processes that make batches; with 0 this process makes them.
        order: see LengthBatchSampler; ``loader.sampler.set_epoch`` turns to the next epoch.

    >>> from ehr_course.batches.datasets import RecordDataset
    >>> from ehr_course.sources.synthetic import make_cohort
    >>> from ehr_course.tokenizers.codes import CodeTokenizer
    >>> patients = make_cohort(70)
    >>> dataset = RecordDataset(patients, CodeTokenizer.from_records(patients))
    >>> [len(batch["x_num"]) for batch in data_loader(dataset, 32, shuffle=False)]
    [32, 32, 6]
    """
    return DataLoader(
        cast("Dataset[Mapping[str, Tensor]]", dataset),  # a loader asks only for __getitem__
        batch_size=None,  # the dataset makes whole batches
        sampler=LengthBatchSampler(dataset.lengths, batch_size, **order),
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        # A loader draws a seed for its workers at each start: its own generator leaves the global
        # one, which dropout draws from, as it was.
        generator=torch.Generator(),
    )
