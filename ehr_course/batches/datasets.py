"""Patients as a dataset that hands out whole batches, freshly corrupted and yet reproducible."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, overload

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.utils.data import Dataset

from ehr_course.batches.collate import Batch, collate, demographics
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

DEFAULT_CORRUPTION = Corruption()

SHORTEST = 5
"""The tokens of the shortest record: <BOS>, a visit of one code with its markers, <EOS>."""


class BatchKey(NamedTuple):
    """Which batch: enough to make the same one in any process and at any time.

    Attributes:
        epoch: from 0.
        number: the place of the batch within its epoch, from 0.
        indices: the places of its patients in the dataset.
    """

    epoch: int
    number: int
    indices: tuple[int, ...]


class BatchDataset(Protocol):
    """What can be trained on: it makes the batch that a key names, the same one every time.

    Attributes:
        lengths: int64 (n,), the length of each example.
        fingerprint: a short text that differs when any batch does.
    """

    lengths: np.ndarray

    @property
    def fingerprint(self) -> str:
        """See Attributes."""

    def __getitem__(self, key: BatchKey) -> Mapping[str, Any]:
        """A batch: tensors whose first dimension is the rows, "labels" among them."""


class RecordDataset(Dataset):
    """Patients, encoded once; batches of them, newly corrupted each time.

    ``dataset[0]`` is the first patient. Batches of ``data_loader`` can be made again in any
    process; ``DataLoader(dataset, batch_size=32, collate_fn=dataset.collate)`` works too.

    Args:
        records: the patients.
        tokenizer: its ``unseen`` decides about unknown codes; under "skip", a patient without a
            known code is dropped.
        corruption: of the encoder's input; Corruption(p_visit=0) does nothing.
        seed: 0 to 2**32 - 1, of the corruption.
        max_tokens: the longest record, <BOS> and <EOS> included, such as ``model.max_tokens``; or
            None for no limit.
        too_long: "raise" raises an InputError for a longer record, "cut" shortens it with
            ``cut_record``.

    Attributes:
        records: the patients in the dataset, in their order.
        tokens: Ragged, the clean ids of each.
        lengths: int64 (patients,), the number of tokens of each.
        cut: how many records were cut.
        skipped: how many patients were dropped.

    Raises:
        InputError: if no patients are left, one is too long, or an option is out of range.

    >>> from ehr_course.records import Visit
    >>> patients = [PatientRecord(1, "F", 64, (Visit(("4280", "0389")),))]
    >>> dataset = RecordDataset(patients, CodeTokenizer.from_records(patients))
    >>> dataset.batch([0])["labels"]
    tensor([[1, 3, 8, 7, 4, 2]])
    """

    def __init__(
        self,
        records: Iterable[PatientRecord],
        tokenizer: CodeTokenizer,
        *,
        corruption: Corruption = DEFAULT_CORRUPTION,
        seed: int = 0,
        max_tokens: int | None = None,
        too_long: Literal["raise", "cut"] = "raise",
    ) -> None:
        for name, value, fits, remedy in (
            (
                "seed",
                seed,
                isinstance(seed, int) and 0 <= seed < 2**32,
                "Use a number from 0 to 2**32 - 1.",
            ),
            (
                "max_tokens",
                max_tokens,
                max_tokens is None or max_tokens >= SHORTEST,
                f"Use {SHORTEST} or more: a record of one code has as many.",
            ),
            ("too_long", too_long, too_long in ("raise", "cut"), 'Use "raise" or "cut".'),
        ):
            if not fits:
                raise InputError("RecordDataset", name, f"{value!r} is out of range", remedy)
        corruption.check_vocabulary(tokenizer)
        self.tokenizer = tokenizer
        self.corruption = corruption
        self.seed = seed
        self.max_tokens = max_tokens
        self.too_long = too_long
        given = list(records)
        if not given:
            raise InputError("RecordDataset", "records", "the list is empty", "Were any loaded?")
        encoded = [(record, tokenizer.encode(record)) for record in given]
        known = [(record, ids) for record, ids in encoded if len(ids) > 2]
        self.skipped = len(given) - len(known)
        if not known:
            raise InputError(
                "RecordDataset",
                "records",
                f"none of the codes of these {len(given)} patients is in the vocabulary",
                "Was the tokenizer built from other data?",
            )
        self.records = [record for record, _ in known]
        self.cut = sum(max_tokens is not None and len(ids) > max_tokens for _, ids in known)
        self.tokens = Ragged.from_lists([self._fitting(record, ids) for record, ids in known])
        self.lengths = self.tokens.lengths
        self._people = _people(self.records)
        for array in (self.tokens.values, self.lengths):
            array.setflags(write=False)

    def _fitting(self, record: PatientRecord, ids: list[int]) -> list[int]:
        if self.max_tokens is None or len(ids) <= self.max_tokens:
            return ids
        if self.too_long == "raise":
            raise InputError(
                f"patient {record.subject_id}",
                f"{len(ids)} tokens",
                f"the limit is {self.max_tokens}",
                'Use too_long="cut" to keep the visits that fit, or a higher max_tokens.',
            )
        return cut_record(ids, self.max_tokens, self.tokenizer)

    def __len__(self) -> int:
        """The number of patients."""
        return len(self.records)

    @property
    def fingerprint(self) -> str:
        """A short text that differs when the patients, their order or the corruption do."""
        digest = hashlib.sha256(self.tokens.values.tobytes())
        digest.update(self.lengths.tobytes())
        people = [(record.age, record.sex) for record in self.records]
        digest.update(repr((people, self.corruption, self.seed, len(self.tokenizer))).encode())
        return digest.hexdigest()[:16]

    @overload
    def __getitem__(self, index: int) -> PatientRecord: ...
    @overload
    def __getitem__(self, index: BatchKey) -> Batch: ...
    def __getitem__(self, index: int | BatchKey) -> PatientRecord | Batch:
        """A patient by its place, or the batch that a key of a LengthBatchSampler names."""
        if isinstance(index, BatchKey):
            return self.batch(index.indices, epoch=index.epoch, number=index.number)
        return self.records[index]

    def batch(self, indices: Sequence[int], *, epoch: int = 0, number: int = 0) -> Batch:
        """Make a batch of the patients at `indices`, corrupted by (seed, epoch, number) alone."""
        clean = self.tokens.chosen(indices, "RecordDataset.batch")
        rng = np.random.default_rng([self.seed, epoch, number])
        people = {name: column[list(indices)] for name, column in self._people.items()}
        return self._collate(clean, people, rng)

    def collate(self, records: Sequence[PatientRecord]) -> Batch:
        """Make a batch of patients, whose corruption follows ``torch.manual_seed``.

        This serves as ``collate_fn`` of a DataLoader or ``data_collator`` in transformers.
        """
        rows = [self._fitting(record, self.tokenizer.encode(record)) for record in records]
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        return self._collate(Ragged.from_lists(rows), _people(records), rng)

    def _collate(self, clean: Ragged, people: dict[str, Tensor], rng: Generator) -> Batch:
        inputs = self.corruption.apply(clean, self.tokenizer, rng=rng)
        return collate(clean, inputs, people, self.tokenizer)


def _people(records: Sequence[PatientRecord]) -> dict[str, Tensor]:
    return demographics([record.age for record in records], [record.sex for record in records])


def cut_record(ids: Sequence[int], max_tokens: int, tokenizer: CodeTokenizer) -> list[int]:
    """Shorten an encoded record to as many whole visits as fit, and <EOS>.

    If not even the first visit fits, its first codes stay, which are the most important.
    `max_tokens` is 5 or more.

    >>> tokenizer = CodeTokenizer(["0389", "4019", "4280"])
    >>> cut_record([1, 3, 7, 8, 4, 3, 9, 4, 2], 8, tokenizer)
    [1, 3, 7, 8, 4, 2]
    >>> cut_record([1, 3, 7, 8, 9, 4, 2], 6, tokenizer)
    [1, 3, 7, 8, 4, 2]
    """
    ids = list(ids)
    if len(ids) <= max_tokens:
        return ids
    fitting = ids[: max_tokens - 1]
    for place in range(len(fitting) - 1, 0, -1):
        if fitting[place] == tokenizer.visit_end_id:
            return [*fitting[: place + 1], tokenizer.eos_id]
    return [*fitting[:-1], tokenizer.visit_end_id, tokenizer.eos_id]
