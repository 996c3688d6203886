"""How a summary came about, word by word: where the model looked, what it could have said."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ehr_course.batches.note_dataset import collate_notes
from ehr_course.generation.beam_search import BeamSettings, beam_search, evaluating
from ehr_course.models.pointer_generator import PointerGenerator, Step
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

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
        copied: those of P_copy, the attention of a word's places added up; none in a model that
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
    settings = BeamSettings(
        beams=1, min_length=1, max_length=max_length, no_repeat_ngram_size=0, stop="first"
    )
    ids, oov = tokenizer.encode_note(note)
    # A training batch also holds summaries; this note has none yet.
    batch = collate_notes([(ids, [tokenizer.bos_id, tokenizer.eos_id])])
    source_ids = batch["input_ids"].to(model.device)
    with evaluating(model):
        written = beam_search(model, source_ids, settings=settings)[0].best.tokens
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
