"""Patients as a dataset that hands out whole batches, freshly corrupted and yet reproducible."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from torch.utils.data import Dataset

from ehr_course.batches.collate import SEXES as SEXES
from ehr_course.batches.collate import Batch, checked_ages, collate_unchecked, sex_numbers
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.ragged import Ragged
from ehr_course.batches.record_checks import SHORTEST, check_records
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

DEFAULT_CORRUPTION = Corruption()


class BatchKey(NamedTuple):
    """Which batch: enough to make the same one in any process and at any time.

    Attributes:
        epoch: the pass over the patients, from 0.
        number: the place of the batch within its epoch, from 0.
        indices: the patients in it, as places in the dataset.
    """

    epoch: int
    number: int
    indices: tuple[int, ...]


class BatchDataset(Protocol):
    """What can be trained on: it makes the batch that a key names, the same one every time.

    Attributes:
        lengths: int64 (n,): how long each example is, so that like lengths can share a batch.
        fingerprint: a short text that differs when any batch does.
    """

    lengths: np.ndarray

    @property
    def fingerprint(self) -> str:
        """See Attributes."""

    def __getitem__(self, key: BatchKey) -> Mapping[str, Any]:
        """A batch: tensors whose first dimension is the rows, "labels" among them."""


class RecordDataset(Dataset):
    """Patients, encoded once; batches of them, corrupted anew each time.

    Args:
        records: the patients.
        tokenizer: its ``unseen`` decides about codes that it does not know. Under "skip", a
            patient of whom nothing is left is dropped, and counted in ``skipped``.
        corruption: what is done to the encoder's input; Corruption(p_visit=0) does nothing.
        seed: 0 to 2**32 - 1, of the corruption.
        max_tokens: the longest record, <BOS> and <EOS> included, or None for no limit. A model
            says how many it can read: ``model.max_tokens``.
        too_long: what happens to a longer one. "raise" raises an InputError. "cut" keeps its
            visits from the first on, whole, as long as they fit, and ends it there with <EOS>;
            when not even the first fits, that visit keeps its first codes, which are the most
            important ones. Cut records are counted in ``cut``.

    Attributes:
        records: the patients in the dataset, in their order.
        tokens: Ragged, the clean ids of each.
        lengths: int64 (patients,), how many tokens each has.
        cut: how many records were cut.
        skipped: how many patients were dropped because all their codes are unseen.

    Raises:
        InputError: if there are no patients, or none is left, one is too long, an age or a sex
            is none, or a visit is empty.

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
        _check_options(seed, max_tokens, too_long)
        given = list(records)
        if not given:
            raise InputError("RecordDataset", "records", "there are none", "Were any loaded?")
        kept, rows, self.cut = [], [], 0
        for record in given:
            ids = tokenizer.encode(record)
            if len(ids) <= 2:
                continue
            if max_tokens is not None and len(ids) > max_tokens:
                if too_long == "raise":
                    raise InputError(
                        f"patient {record.subject_id}",
                        f"{len(ids)} tokens",
                        f"the limit is {max_tokens}",
                        'Use too_long="cut" to keep the visits that fit, or a higher max_tokens.',
                    )
                ids = cut_record(ids, max_tokens)
                self.cut += 1
            kept.append(record)
            rows.append(ids)
        self.skipped = len(given) - len(kept)
        if not kept:
            raise InputError(
                "RecordDataset",
                "records",
                f"none of the codes of these {len(given)} patients is in the vocabulary",
                "Was the tokenizer built from other data?",
            )
        self.records = kept
        self.tokenizer = tokenizer
        self.corruption = corruption
        self.seed = seed
        self.tokens = Ragged.from_lists(rows)
        self.lengths = self.tokens.lengths
        for array in (self.tokens.values, self.lengths):
            array.setflags(write=False)
        names = [f"patient {record.subject_id}" for record in kept]
        self._ages = checked_ages([record.age for record in kept], names)
        self._sexes = sex_numbers([record.sex for record in kept], names)
        check_records(self.tokens, n_tokens=len(tokenizer), names=names)
        corruption.check_vocabulary(len(tokenizer))

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

    def batch(self, indices: Sequence[int], *, epoch: int = 0, number: int = 0) -> Batch:
        """Make a batch of some patients.

        The corruption is drawn from (seed, epoch, number), so the same call gives the same batch,
        whoever makes it, and another epoch or number gives another corruption.

        Args:
            indices: the places of the patients in the dataset, in the order of the rows.
            epoch: 0 or more.
            number: the number of the batch within its epoch, 0 or more.

        Raises:
            InputError: if there are no indices, or one is not that of a patient.
        """
        rows = np.asarray(indices, dtype=np.int64)
        if rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() >= len(self):
            raise InputError(
                "RecordDataset.batch",
                "indices",
                f"{indices!r} are not places of patients",
                f"Give a list of one or more numbers from 0 to {len(self) - 1}.",
            )
        clean = self.tokens.take(rows)
        inputs = self.corruption.apply_unchecked(
            clean,
            n_tokens=len(self.tokenizer),
            rng=np.random.default_rng([self.seed, epoch, number]),
        )
        return collate_unchecked(clean, inputs, self._ages[rows], self._sexes[rows])

    def __getitem__(self, key: BatchKey) -> Batch:
        """The batch that a key of a BatchPlan names."""
        if not isinstance(key, BatchKey):
            raise InputError(
                "RecordDataset",
                "",
                f"{key!r} is not the key of a batch",
                "Use dataset.batch([...]) for patients of your choice.",
            )
        return self.batch(key.indices, epoch=key.epoch, number=key.number)


def cut_record(ids: Sequence[int], max_tokens: int) -> list[int]:
    r"""Shorten a full record: whole visits from the first on, as many as fit, then <EOS>.

    When not even the first visit fits, it keeps its first codes.

    Args:
        ids: <BOS> <v> codes <\v> ... <EOS>.
        max_tokens: 5 or more.

    >>> cut_record([1, 3, 7, 8, 4, 3, 9, 4, 2], 8)
    [1, 3, 7, 8, 4, 2]
    >>> cut_record([1, 3, 7, 8, 9, 4, 2], 6)
    [1, 3, 7, 8, 4, 2]
    """
    ids = list(ids)
    if len(ids) <= max_tokens:
        return ids
    fitting = ids[: max_tokens - 1]
    for place in range(len(fitting) - 1, 0, -1):
        if fitting[place] == CodeTokenizer.visit_end_id:
            return [*fitting[: place + 1], CodeTokenizer.eos_id]
    return [*fitting[:-1], CodeTokenizer.visit_end_id, CodeTokenizer.eos_id]


def _check_options(seed: int, max_tokens: int | None, too_long: str) -> None:
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(
            "RecordDataset", "seed", f"{seed!r} is not a seed", "Use a number from 0 to 2**32 - 1."
        )
    if too_long not in ("raise", "cut"):
        raise InputError(
            "RecordDataset", "too_long", f"{too_long!r} is no policy", 'Use "raise" or "cut".'
        )
    if max_tokens is not None and max_tokens < SHORTEST:
        raise InputError(
            "RecordDataset",
            "max_tokens",
            f"{max_tokens} is too few for a record of one code",
            f"Use {SHORTEST} or more.",
        )
