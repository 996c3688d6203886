"""A pointer-generator learns from MTS-Dialog, and beats the first words of the dialogue."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from long_runs import takes_minutes

from ehr_course.batches.note_dataset import NoteDataset
from ehr_course.evaluation.summaries import rouge
from ehr_course.generation.beam_search import BeamSettings
from ehr_course.generation.summaries import summarize
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.sources.note_corpus import read_notes
from ehr_course.tokenizers.words import WordTokenizer, split_words
from ehr_course.training.trainer import train

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "mts-dialog"
MAX_SOURCE, MAX_TARGET, STEPS = 200, 60, 300

pytestmark = [
    takes_minutes,
    pytest.mark.skipif(
        not FOLDER.is_dir(), reason="MTS-Dialog is not at ../shared/data/mts-dialog"
    ),
]


def test_its_loss_falls_and_its_summaries_beat_the_first_words_of_the_dialogue() -> None:
    training = read_notes(FOLDER / "MTS-Dialog-TrainingSet.csv").pairs
    held_out = read_notes(FOLDER / "MTS-Dialog-ValidationSet.csv").pairs
    tokenizer = WordTokenizer.from_texts(
        [text for pair in training for text in (pair.note, pair.summary)], min_count=3
    )
    dataset = NoteDataset(training, tokenizer, max_source=MAX_SOURCE, max_target=MAX_TARGET)
    torch.manual_seed(0)
    model = PointerGenerator(
        PointerGeneratorConfig.for_tokenizer(tokenizer, d_hidden=128, d_embedding=64)
    )
    losses = train(
        model,
        dataset,
        steps=STEPS,
        batch_size=16,
        warmup_steps=50,
        max_grad_norm=2.0,
        progress=False,
    ).losses
    assert sum(losses[-20:]) / 20 < 0.7 * sum(losses[:20]) / 20

    notes = [pair.note for pair in held_out]
    references = [pair.summary for pair in held_out]
    # Without a shortest length it stops after a word or two: half of the summaries are so short.
    settings = BeamSettings(beams=4, min_length=15, max_length=MAX_TARGET)
    written = summarize(model, tokenizer, notes, settings=settings, max_source=MAX_SOURCE)
    ours = rouge([summary.text for summary in written], references)["rougeL"]
    theirs = max(
        rouge([" ".join(split_words(note)[:k]) for note in notes], references)["rougeL"]
        for k in (10, 15, 20, 30, 40)
    )
    assert ours > theirs
