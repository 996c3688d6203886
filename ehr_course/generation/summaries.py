"""From notes to summaries: text in, text out, and where each word came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ehr_course.batches.note_dataset import collate_notes
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import (
    DEFAULT_SETTINGS,
    BeamSettings,
    beam_search,
    coverage_before,
    evaluating,
)
from ehr_course.models.pointer_generator import PointerGenerator, Step
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
        p_gen: float (tokens,): how much it generated rather than copied, 0 to 1; 1 in a model
            that cannot copy.
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
        max_source: the most tokens of a note, <s> and </s> included, after which it is cut; by
            default those of the model's configuration.

    Returns:
        A Summary of each, in the order of the notes.

    Raises:
        InputError: if a note is empty or has no word, or the tokenizer is not the model's.
    """
    if isinstance(notes, str):
        raise InputError("summarize", "notes", "it is one text", "Give a list of texts.")
    if batch_size < 1:
        raise InputError(
            "summarize", "batch_size", f"{batch_size} is not a batch size", "Use 1 or more."
        )
    sizes = len(tokenizer), model.config.vocab_size
    if sizes[0] != sizes[1] or model.config.vocabulary not in (None, tokenizer.fingerprint):
        raise InputError(
            "summarize",
            "tokenizer",
            f"its vocabulary of {sizes[0]} tokens is not the model's of {sizes[1]}",
            "Use the tokenizer that the model was trained with.",
        )
    limit = model.config.max_source if max_source is None else max_source
    read = [
        _encoded(model, tokenizer, note, f"note {number}", limit)
        for number, note in enumerate(notes)
    ]
    order = sorted(range(len(read)), key=lambda number: -len(read[number].ids))
    summaries: dict[int, Summary] = {}
    for first in range(0, len(order), batch_size):
        some = order[first : first + batch_size]
        ids, mask = _batch(model, tokenizer, [read[number] for number in some])
        results = beam_search(model, ids, mask, settings=settings)
        for number, result in zip(some, results, strict=True):
            best, (source, oov) = result.best, read[number]
            assert best.attention is not None  # a PointerGenerator always says where it looks
            summaries[number] = Summary(
                text=tokenizer.decode(best.tokens, oov),
                ids=best.tokens,
                pieces=tuple(tokenizer.piece(token, oov) for token in best.tokens),
                source_pieces=tuple(tokenizer.piece(token, oov) for token in source),
                attention=best.attention[:, : len(source)],
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
) -> EncodedNote:
    if not isinstance(note, str):
        raise InputError(
            "summarize", name, f"it is {type(note).__name__}, not text", "Give a list of texts."
        )
    try:
        encoded = tokenizer.encode_note(note)
    except InputError as error:
        raise InputError("summarize", name, error.problem, error.remedy) from None
    encoded = encoded.cut(limit, size=len(tokenizer), eos_id=tokenizer.eos_id)
    if set(encoded.ids) <= set(model.config.special_ids):
        raise InputError(
            "summarize",
            name,
            f"every token that is read ({len(encoded.ids)}) is unknown",
            "Leave it out, or train tokenizer and model on such notes.",
        )
    return encoded


def _batch(
    model: PointerGenerator, tokenizer: NoteTokenizer | WordTokenizer, notes: list[EncodedNote]
) -> tuple[Tensor, Tensor]:
    """The ids and the mask of some notes, int64 (batch, source), on the model's device."""
    # A training batch also holds summaries; these notes have none yet.
    nothing = [tokenizer.bos_id, tokenizer.eos_id]
    batch = collate_notes([(note.ids, nothing) for note in notes], pad_id=tokenizer.pad_id)
    return batch["input_ids"].to(model.device), batch["attention_mask"].to(model.device)


# ---------------------------------------------------------------------- word by word

MOST_WORDS = 5
"""How many words of each distribution a step keeps."""

Words = tuple[tuple[str, float], ...]
"""The most probable words and their probabilities, greatest first."""


@dataclass(frozen=True)
class TraceStep:
    """One word of a summary, and how it was chosen.

    Attributes:
        written: the word.
        attention: for each token of the note, from 0 to 1; they sum to 1.
        p_gen: the weight of the vocabulary, from 0 to 1; 1 in a model that cannot copy.
        generated: the likeliest words of P_vocab, five at most.
        copied: those of P_copy, the attention of a word's places added up; empty in a model that
            cannot copy.
        mixed: those of the mixture of both.
        from_copying: the share of the written word's probability that comes from copying.
    """

    written: str
    attention: tuple[float, ...]
    p_gen: float
    generated: Words
    copied: Words
    mixed: Words
    from_copying: float


@dataclass(frozen=True)
class GenerationTrace:
    """A note, and the summary that a model wrote of it by taking the likeliest word each time.

    Attributes:
        note: the tokens of the note as text, <s> and </s> included.
        oov: those words of it that the vocabulary lacks.
        steps: one for each word of the summary; the last one wrote </s>, if it was reached.
    """

    note: tuple[str, ...]
    oov: tuple[str, ...]
    steps: tuple[TraceStep, ...]


def trace_summary(
    model: PointerGenerator,
    tokenizer: NoteTokenizer | WordTokenizer,
    note: str,
    *,
    max_length: int = 40,
) -> GenerationTrace:
    """Let a model write a summary with greedy search, and keep what it says at each word.

    Args:
        model: a trained one; it is used in evaluation mode and left as it was.
        tokenizer: the one that it was trained with.
        note: a text.
        max_length: the most tokens of the summary, 1 or more.

    Raises:
        InputError: if the note has no word, or max_length is less than 1.
    """
    greedy = BeamSettings(
        beams=1, length_penalty=0.0, min_length=1, max_length=max_length, no_repeat_ngram_size=0
    )
    ids, oov = encoded = tokenizer.encode_note(note)
    source_ids, _ = _batch(model, tokenizer, [encoded])
    with evaluating(model):
        written = beam_search(model, source_ids, settings=greedy)[0].best.tokens
        # The search does not tell all that the model says: it reads its summary once more.
        source = model.encode(source_ids)
        state, said = model.first_state(source), []
        for last in (tokenizer.bos_id, *written[:-1]):
            said.append(model.step(source_ids.new_full((1, 1), last), state, source))
            state = said[-1].state
    here, can_copy = torch.tensor(ids), model.config.pointer

    def likeliest(probabilities: Tensor) -> Words:
        values, places = probabilities.topk(min(MOST_WORDS, len(probabilities)))
        pairs = zip(places.tolist(), values.tolist(), strict=True)
        return tuple((tokenizer.piece(i, oov), p) for i, p in pairs if p > 0)

    def traced(token: int, said: Step) -> TraceStep:
        mixed = said.log_probs[0, 0].double().exp().cpu()
        attention = said.log_attention[0, 0].double().exp().cpu()
        p_gen = said.p_gen[0, 0].item() if can_copy else 1.0
        copied = torch.zeros_like(mixed)
        if can_copy:
            copied.scatter_add_(0, here, attention)
        return TraceStep(
            tokenizer.piece(token, oov),
            tuple(attention.tolist()),
            p_gen,
            likeliest(said.log_vocabulary[0, 0].double().exp().cpu()),
            likeliest(copied),
            likeliest(mixed),
            min(1.0, (1 - p_gen) * copied[token].item() / mixed[token].item()),
        )

    return GenerationTrace(
        tuple(tokenizer.piece(i, oov) for i in ids),
        tuple(oov),
        tuple(map(traced, written, said)),
    )
