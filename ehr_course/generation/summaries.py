"""From notes to summaries: text in, text out, and where each word came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from ehr_course.batches.note_dataset import SHORTEST_SOURCE, collate_notes
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import (
    DEFAULT_SETTINGS,
    BeamSettings,
    beam_search,
    coverage_before,
)
from ehr_course.models.pointer_generator import PointerGenerator
from ehr_course.tokenizers.base import EncodedNote
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer


@dataclass(frozen=True)
class Summary:
    """The summary of one note, and how it was written.

    Attributes:
        text: the summary, without special tokens but for ``<unk>``.
        ids: its tokens, without <s>; </s> is the last if the summary is finished. Extended ids
            stand for words of its note that are outside the vocabulary.
        pieces: each of its tokens as text.
        source_pieces: each token of the note that was read as text, <s> and </s> included.
        attention: float (tokens, source): where the model looked as it wrote each token.
        p_gen: float (tokens,): how much it generated rather than copied, 0 to 1; None where the
            model cannot copy.
        score: log P divided by the length penalty.
        finished: whether it ends with </s>, rather than where max_length cut it.
    """

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    source_pieces: tuple[str, ...]
    attention: Tensor = field(repr=False, compare=False)
    p_gen: Tensor | None = field(repr=False, compare=False)
    score: float
    finished: bool

    @property
    def coverage(self) -> Tensor:
        """Float (tokens, source): the attention that was spent before each token, summed."""
        return coverage_before(self.attention)


def summarize(
    model: PointerGenerator,
    tokenizer: NoteTokenizer | WordTokenizer,
    notes: Sequence[str],
    *,
    settings: BeamSettings = DEFAULT_SETTINGS,
    batch_size: int = 8,
    max_source: int | None = None,
    too_long: Literal["cut", "raise"] = "cut",
) -> list[Summary]:
    """Write a summary of each note with beam search.

    Notes of similar length share a batch, so that little of it is padding. Batches change nothing
    but the time it takes (and the last digits of the scores).

    Args:
        model: a trained one; it is used in evaluation mode, where it stands, and left as it was.
        tokenizer: the one that it was trained with.
        notes: any number of texts.
        settings: of the search.
        batch_size: how many notes are read at a time.
        max_source: the most tokens of a note, <s> and </s> included; by default those of the
            model's configuration.
        too_long: what happens to a longer note: "cut" reads its beginning, as NoteDataset does;
            "raise" raises an InputError.

    Returns:
        A Summary of each, in the order of the notes.

    Raises:
        InputError: if a note is empty or has no word, is longer than max_source under "raise",
            the tokenizer is not the model's, or a number is out of its range.
    """
    limit = model.config.max_source if max_source is None else max_source
    _check(model, tokenizer, notes, batch_size, limit, too_long)
    read = [
        _encoded(model, tokenizer, note, f"note {number}", limit, too_long)
        for number, note in enumerate(notes)
    ]
    order = sorted(range(len(read)), key=lambda number: -len(read[number].ids))
    summaries: dict[int, Summary] = {}
    for first in range(0, len(order), batch_size):
        some = order[first : first + batch_size]
        # A training batch also holds summaries; these notes have none yet.
        nothing = [tokenizer.bos_id, tokenizer.eos_id]
        batch = collate_notes([(read[number].ids, nothing) for number in some])
        results = beam_search(
            model,
            batch["input_ids"].to(model.device),
            batch["attention_mask"].to(model.device),
            settings=settings,
        )
        for number, result in zip(some, results, strict=True):
            best, (ids, oov) = result.best, read[number]
            assert best.attention is not None  # a PointerGenerator always says where it looks
            summaries[number] = Summary(
                text=tokenizer.decode(best.tokens, oov),
                ids=best.tokens,
                pieces=tuple(tokenizer.piece(token, oov) for token in best.tokens),
                source_pieces=tuple(tokenizer.piece(token, oov) for token in ids),
                attention=best.attention[:, : len(ids)],
                p_gen=best.p_gen,
                score=best.score,
                finished=best.finished,
            )
    return [summaries[number] for number in range(len(read))]


def _encoded(
    model: PointerGenerator,
    tokenizer: NoteTokenizer | WordTokenizer,
    note: str,
    name: str,
    limit: int,
    too_long: str,
) -> EncodedNote:
    if not isinstance(note, str):
        raise InputError(
            "summarize", name, f"it is {type(note).__name__}, not text", "Give a list of texts."
        )
    try:
        encoded = tokenizer.encode_note(note)
    except InputError as error:
        raise InputError("summarize", name, error.problem, error.remedy) from None
    if len(encoded.ids) > limit and too_long == "raise":
        raise InputError(
            "summarize",
            name,
            f"it has {len(encoded.ids)} tokens, the limit is {limit}",
            f'Use too_long="cut" to read the first {limit}, or a higher max_source.',
        )
    encoded = encoded.cut(limit, size=len(tokenizer), eos_id=tokenizer.eos_id)
    if set(encoded.ids) <= set(model.config.special_ids):
        raise InputError(
            "summarize",
            name,
            f"its first {len(encoded.ids)} tokens are all unknown: there is nothing to look at",
            "Leave it out, or train tokenizer and model on such notes.",
        )
    return encoded


def _check(
    model: PointerGenerator,
    tokenizer: NoteTokenizer | WordTokenizer,
    notes: Sequence[str],
    batch_size: int,
    limit: int,
    too_long: str,
) -> None:
    if isinstance(notes, str):
        raise InputError("summarize", "notes", "it is one text", "Give a list of texts.")
    if model.config.vocab_size != len(tokenizer):
        raise InputError(
            "summarize",
            "tokenizer",
            f"it has {len(tokenizer)} tokens, the model {model.config.vocab_size}",
            "Use the tokenizer that the model was trained with.",
        )
    if model.config.vocabulary not in (None, tokenizer.fingerprint):
        raise InputError(
            "summarize",
            "tokenizer",
            "its vocabulary is not that of the model, though it is as large",
            "Use the tokenizer that the model was trained with.",
        )
    if batch_size < 1:
        raise InputError(
            "summarize", "batch_size", f"{batch_size} is not a batch size", "Use 1 or more."
        )
    if limit < SHORTEST_SOURCE:
        raise InputError(
            "summarize",
            "max_source",
            f"{limit} is out of range",
            f"Use {SHORTEST_SOURCE} or more: <s>, a word and </s>.",
        )
    if too_long not in ("cut", "raise"):
        raise InputError(
            "summarize", "too_long", f"{too_long!r} is not a policy", 'Use "cut" or "raise".'
        )
