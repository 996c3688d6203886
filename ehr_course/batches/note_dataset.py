"""Notes and their summaries as a dataset that hands out whole batches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypedDict, overload

import numpy as np
import torch
from torch.utils.data import Dataset

from ehr_course.batches.collate import NOT_SCORED, SourceIds, TargetIds
from ehr_course.batches.datasets import BatchKey
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

SHORTEST_SOURCE = 3
"""The fewest tokens of a note: <s>, one to read, </s>."""

SHORTEST_TARGET = 2
"""The fewest tokens of a summary: <s>, and one to write."""


class NoteBatch(TypedDict):
    """What a model of notes takes as keywords, each row padded on the right.

    Ids at or above the size of the vocabulary are the extended ids of that row's note, see
    EncodedNote.

    Attributes:
        input_ids: int64 (batch, source), the notes; the id of <pad> on padding.
        attention_mask: int64 (batch, source), 1 on tokens, 0 on padding.
        decoder_input_ids: int64 (batch, target), the summaries from <s> on, without their last
            token. A model reads the extended ids among them as <unk>.
        labels: int64 (batch, target), the summaries from their first word on; -100 on padding.
    """

    input_ids: SourceIds
    attention_mask: SourceIds
    decoder_input_ids: TargetIds
    labels: TargetIds


class NoteDataset(Dataset):
    """Pairs of note and summary, encoded once; batches of them.

    Args:
        pairs: the notes and summaries.
        tokenizer: of words or of pieces.
        max_source: the most tokens of a note, ``<s>`` and ``</s>`` included; 3 or more. A note
            that is cut still ends in ``</s>``.
        max_target: the most tokens of a summary, both included; 2 or more. A summary that is cut
            does not end in ``</s>``, or a model would learn to stop in mid-sentence.

    Attributes:
        pairs, tokenizer: as they were given.
        sources: Ragged, the ids of each note, with extended ids.
        targets: Ragged, the ids of each summary, from ``<s>`` to ``</s>``.
        lengths: int64 (pairs,), the number of tokens of each note.
        oov: the words of each note that have extended ids; those cut off do not.
        cut_notes: how many notes were cut.
        cut_summaries: how many summaries were cut.

    >>> pair = NotePair("given quinapril for pressure", "given quinapril")
    >>> dataset = NoteDataset([pair], WordTokenizer(["for", "given", "pressure"]))
    >>> batch = dataset.batch([0])
    >>> batch["input_ids"]
    tensor([[1, 5, 7, 4, 6, 2]])
    >>> batch["decoder_input_ids"], batch["labels"]
    (tensor([[1, 5, 7]]), tensor([[5, 7, 2]]))
    >>> dataset.oov
    [('quinapril',)]
    """

    def __init__(
        self,
        pairs: Iterable[NotePair],
        tokenizer: NoteTokenizer | WordTokenizer,
        *,
        max_source: int = 768,
        max_target: int = 192,
    ) -> None:
        for option, value, least in (
            ("max_source", max_source, SHORTEST_SOURCE),
            ("max_target", max_target, SHORTEST_TARGET),
        ):
            if value < least:
                raise InputError(
                    "NoteDataset", option, f"{value!r} is out of range", f"Use {least} or more."
                )
        given = list(pairs)
        if not given:
            raise InputError("NoteDataset", "pairs", "the list is empty", "Were any notes loaded?")
        special = {tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}
        sources, targets, all_oov = [], [], []
        cut_notes = cut_summaries = 0
        for number, pair in enumerate(given):
            name = _pair_name(number, pair)
            try:
                encoded = tokenizer.encode_note(pair.note)
            except InputError as error:
                raise InputError(name, "note", error.problem, error.remedy) from None
            cut_notes += len(encoded.ids) > max_source
            source, oov = encoded.cut(max_source, size=len(tokenizer), eos_id=tokenizer.eos_id)
            if set(source) <= special:
                raise InputError(
                    name,
                    "note",
                    f"every token that is read ({len(source)}) is unknown",
                    "Leave it out, or train the tokenizer on such notes.",
                )
            target = tokenizer.encode_summary(pair.summary, oov)
            if len(target) <= 2:
                raise InputError(name, "summary", "it has no word", "Leave the pair out.")
            cut_summaries += len(target) > max_target
            sources.append(source)
            targets.append(target[:max_target])
            all_oov.append(oov)
        self._keep(
            pairs=given,
            tokenizer=tokenizer,
            sources=Ragged.from_lists(sources),
            targets=Ragged.from_lists(targets),
            oov=all_oov,
            cut_notes=cut_notes,
            cut_summaries=cut_summaries,
        )

    @classmethod
    def from_encoded(cls, **attributes: Any) -> Self:
        """Make a dataset from pairs, tokenizer, sources, targets, oov and the two counts."""
        self = cls.__new__(cls)
        self._keep(**attributes)
        return self

    def _keep(
        self,
        *,
        pairs: list[NotePair],
        tokenizer: NoteTokenizer | WordTokenizer,
        sources: Ragged,
        targets: Ragged,
        oov: list[tuple[str, ...]],
        cut_notes: int,
        cut_summaries: int,
    ) -> None:
        self.pairs, self.tokenizer = pairs, tokenizer
        self.sources, self.targets, self.oov = sources, targets, oov
        self.lengths = sources.lengths
        self.cut_notes, self.cut_summaries = cut_notes, cut_summaries
        for ragged in (sources, targets):
            ragged.values.setflags(write=False)
            ragged.lengths.setflags(write=False)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> NotePair: ...
    @overload
    def __getitem__(self, index: BatchKey) -> NoteBatch: ...
    def __getitem__(self, index: int | BatchKey) -> NotePair | NoteBatch:
        """A pair by its place, or the batch that a key of a batch sampler names."""
        if isinstance(index, BatchKey):
            return self.batch(index.indices)
        return self.pairs[index]

    def batch(self, indices: Sequence[int]) -> NoteBatch:
        """Make a batch of the pairs at `indices`."""
        sources = self.sources.chosen(indices, "NoteDataset.batch")
        return _collated(sources, self.targets.take(indices), pad_id=self.tokenizer.pad_id)

    @property
    def fingerprint(self) -> str:
        """A short text that differs when the ids, their order or the vocabulary do."""
        digest = hashlib.sha256(self.tokenizer.fingerprint.encode())
        for ragged in (self.sources, self.targets):
            digest.update(ragged.lengths.tobytes())
            digest.update(ragged.values.tobytes())
        digest.update(repr(self.oov).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()[:16]


def collate_notes(
    rows: Iterable[tuple[Sequence[int], Sequence[int]]], *, pad_id: int = WordTokenizer.pad_id
) -> NoteBatch:
    """Pad encoded pairs to a batch, as wide as its longest note and summary.

    Args:
        rows: pairs of a note's ids from ``encode_note`` and its summary's from ``encode_summary``.
        pad_id: of the tokenizer that encoded them.

    >>> batch = collate_notes([([1, 7, 8, 2], [1, 8, 2]), ([1, 9, 2], [1, 9, 5, 2])])
    >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    ([[1, 7, 8, 2], [1, 9, 2, 3]], [[1, 1, 1, 1], [1, 1, 1, 0]])
    >>> batch["decoder_input_ids"].tolist()
    [[1, 8, 3], [1, 9, 5]]
    >>> batch["labels"].tolist()
    [[8, 2, -100], [9, 5, 2]]
    """
    sources, targets = zip(*rows, strict=True)
    return _collated(Ragged.from_lists(sources), Ragged.from_lists(targets), pad_id=pad_id)


def _collated(sources: Ragged, targets: Ragged, *, pad_id: int) -> NoteBatch:
    input_ids, attended = sources.padded(pad_id)
    whole, written = targets.padded(pad_id)
    # All tokens of a summary but the last are read, and all but the first are written.
    labels = np.where(written, whole, NOT_SCORED)[:, 1:]
    read = np.where(written[:, 1:], whole[:, :-1], pad_id)
    return NoteBatch(
        input_ids=torch.from_numpy(input_ids),
        attention_mask=torch.from_numpy(attended.astype(np.int64)),
        decoder_input_ids=torch.from_numpy(read),
        labels=torch.from_numpy(np.ascontiguousarray(labels)),
    )


def _pair_name(number: int, pair: NotePair) -> str:
    """What an error calls a pair: its place, and its patient if known."""
    # What does not look like a patient's number is not shown: it may be text of a note.
    is_shown = re.fullmatch(r"(?=.*[0-9])[0-9A-Za-z._-]{1,20}", str(pair.subject_id))
    return f"pair {number} (patient {pair.subject_id})" if is_shown else f"pair {number}"
