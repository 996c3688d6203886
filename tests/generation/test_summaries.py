"""Summaries from text to text: in the order of the notes, with what each word came from."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from literal_search import following_of, literal_beam_search

from ehr_course.batches.note_dataset import NoteDataset
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamSettings
from ehr_course.generation.summaries import Summary, summarize
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.records import NotePair
from ehr_course.tokenizers.base import EncodedNote
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

NOTES = [
    "the patient was given lisinopril for pressure .",
    "fever and cough for two days",
    "no fever , no cough , given quinapril and zofenopril with food ; fever again in the night",
    "cough",
    "given quinapril for pressure , and the patient was well in two days",
]
WORDS = WordTokenizer.from_texts([NOTES[0], NOTES[1], "no fever with food in the night"])
PIECES = NoteTokenizer.train(NOTES, vocab_size=40)
SETTINGS = BeamSettings(min_length=5, max_length=15, beams=3)


def untrained(tokenizer: Any = WORDS, **changes: Any) -> PointerGenerator:
    """A model that is sure of what nobody taught it, and copies much."""
    torch.manual_seed(1)
    fields = {"d_embedding": 8, "d_hidden": 12, "coverage": True} | changes
    model = PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer, **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6)
        if model.decoder.p_gen is not None:
            model.decoder.p_gen.bias.fill_(-3.0)
    return model.eval()


def assert_same(made: list[Summary], expected: list[Summary]) -> None:
    assert [summary.ids for summary in made] == [summary.ids for summary in expected]
    for a, b in zip(made, expected, strict=True):
        assert (a.text, a.pieces, a.source_pieces) == (b.text, b.pieces, b.source_pieces)
        assert a.score == pytest.approx(b.score, abs=1e-5)
        torch.testing.assert_close(a.attention, b.attention, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(a.p_gen, b.p_gen, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["words", "pieces"])
def test_each_summary_is_that_of_a_literal_search_of_its_own_note(tokenizer: Any) -> None:
    model = untrained(tokenizer)
    made = summarize(model, tokenizer, NOTES, settings=SETTINGS)
    for note, summary in zip(NOTES, made, strict=True):
        ids, oov = tokenizer.encode_note(note)
        following = following_of(model, torch.tensor(ids), torch.ones(len(ids)))
        best = literal_beam_search(following, SETTINGS)[0]
        assert summary.ids == tuple(best.tokens)
        assert summary.score == pytest.approx(best.score, abs=1e-5)
        assert summary.finished == best.finished
        assert summary.text == tokenizer.decode(best.tokens, oov)
        looks = torch.stack([log_attention.exp() for log_attention, _ in best.rows])
        torch.testing.assert_close(summary.attention, looks, atol=1e-5, rtol=1e-4)


def test_every_token_has_its_piece_its_look_at_the_note_and_its_p_gen() -> None:
    for note, summary in zip(NOTES, summarize(untrained(), WORDS, NOTES), strict=True):
        assert summary.source_pieces == ("<s>", *WORDS.words(note), "</s>")
        assert summary.attention.shape == (len(summary.ids), len(summary.source_pieces))
        assert summary.p_gen.shape == (len(summary.ids),)
        torch.testing.assert_close(summary.attention.sum(1), torch.ones(len(summary.ids)))
        assert len(summary.pieces) == len(summary.ids)
        assert (summary.pieces[-1] == "</s>") == summary.finished
        shown = [piece for piece in summary.pieces if piece != "</s>"]
        assert WORDS.words(summary.text.replace("<unk>", "_")) == [
            piece.replace("<unk>", "_") for piece in shown
        ]


def test_words_outside_the_vocabulary_are_copied_as_words() -> None:
    model = untrained()
    with torch.no_grad():
        model.decoder.p_gen.bias.fill_(-40.0)  # it copies, and no more
    notes = ["quinapril nadolol ranitidine", "zofenopril quinapril senna dofetilide"]
    for note, summary in zip(
        notes, summarize(model, WORDS, notes, settings=SETTINGS), strict=True
    ):
        written = summary.text.split()
        assert len(written) >= SETTINGS.min_length - 1
        assert set(written) <= set(note.split())
        oov = WORDS.encode_note(note).oov
        assert [len(WORDS) + oov.index(word) for word in written] == [
            token for token in summary.ids if token != WORDS.eos_id
        ]


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_the_batch_size_changes_nothing(batch_size: int) -> None:
    model = untrained()
    made = summarize(model, WORDS, NOTES, settings=SETTINGS, batch_size=batch_size)
    assert_same(made, summarize(model, WORDS, NOTES, settings=SETTINGS, batch_size=3))
    assert len({summary.ids for summary in made}) == len(NOTES)


def test_coverage_is_the_attention_of_the_tokens_before() -> None:
    summary = summarize(untrained(), WORDS, NOTES[:1])[0]
    for t, row in enumerate(summary.coverage):
        torch.testing.assert_close(row, summary.attention[:t].sum(0), atol=1e-5, rtol=1e-4)


def test_no_note_has_no_summary() -> None:
    assert summarize(untrained(), WORDS, []) == []


def test_a_model_is_left_as_it_was() -> None:
    model = untrained(dropout=0.5, layers=2)
    expected = summarize(model, WORDS, NOTES, settings=SETTINGS)
    model.train()
    assert_same(summarize(model, WORDS, NOTES, settings=SETTINGS), expected)
    assert model.training


def test_a_model_that_cannot_copy_writes_words_of_its_vocabulary() -> None:
    made = summarize(untrained(pointer=False), WORDS, NOTES, settings=SETTINGS)
    assert max(max(summary.ids) for summary in made) < len(WORDS)
    assert all((summary.p_gen == 1).all() for summary in made)


# ---------------------------------------------------------------------- long notes


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["words", "pieces"])
def test_a_long_note_is_cut_as_it_is_for_training(tokenizer: Any) -> None:
    made = summarize(untrained(tokenizer), tokenizer, NOTES, settings=SETTINGS, max_source=9)
    pairs = [NotePair(note, "no fever") for note in NOTES]
    dataset = NoteDataset(pairs, tokenizer, max_source=9)
    for row, summary in enumerate(made):
        ids = dataset.batch([row])["input_ids"][0].tolist()
        oov = dataset.oov[row]
        assert summary.source_pieces == tuple(tokenizer.piece(i, oov) for i in ids)
    assert max(len(summary.source_pieces) for summary in made) == 9


def test_the_longest_note_is_that_of_the_configuration() -> None:
    made = summarize(untrained(max_source=6), WORDS, NOTES)
    assert [len(summary.source_pieces) for summary in made] == [6, 6, 6, 3, 6]


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize("empty", ["", "  \n\t", None, 3])
@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["words", "pieces"])
def test_an_empty_note_is_refused_with_its_place(tokenizer: Any, empty: Any) -> None:
    with pytest.raises(InputError, match="summarize, note 2: "):
        summarize(untrained(tokenizer), tokenizer, [*NOTES[:2], empty, NOTES[3]])


def test_a_note_whose_beginning_is_all_unknown_is_refused_with_its_place() -> None:
    class WithoutCopies(WordTokenizer):
        """Words outside the vocabulary are <unk>, in notes too."""

        def encode_note(self, text: str) -> EncodedNote:
            return EncodedNote(self.encode(text, add_bos=True, add_eos=True), ())

    tokenizer = WithoutCopies(WORDS.vocabulary)
    notes = [NOTES[0], "ranitidine nadolol fever"]
    model = untrained(tokenizer)
    assert len(summarize(model, tokenizer, notes, max_source=5)) == 2
    with pytest.raises(InputError, match="note 1: every token that is read"):
        summarize(model, tokenizer, notes, max_source=4)


@pytest.mark.parametrize(
    "place, changes",
    [
        ("batch_size", {"batch_size": 0}),
        ("notes", {"notes": "fever and cough"}),
        ("tokenizer", {"tokenizer": WordTokenizer(["fever"])}),
        ("tokenizer", {"tokenizer": WordTokenizer([f"{i}" for i in range(len(WORDS) - 4)])}),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(place: str, changes: dict[str, Any]) -> None:
    given = {"tokenizer": WORDS, "notes": NOTES} | changes
    with pytest.raises(InputError, match=f"summarize, {place}: "):
        summarize(untrained(), **given)
