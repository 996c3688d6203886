"""The note tokenizer: training, pieces, ids, its file."""

import math
import random

import numpy as np
import pytest
import sentencepiece
import torch

from ehr_course.errors import InputError
from ehr_course.tokenizers.notes import NoteTokenizer


def made_up_notes(n=200, seed=0):
    rng = random.Random(seed)
    who = ["patient", "woman", "man", "infant"]
    what = ["fever", "cough", "chest pain", "shortness of breath", "hypertension", "nausea"]
    return [
        f"The {rng.choice(who)} has {rng.choice(what)} and {rng.choice(what)} for "
        f"{rng.randint(1, 9)} days.\nNo {rng.choice(what)}."
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def tokenizer():
    return NoteTokenizer.train(made_up_notes(), vocab_size=50)


# ---------------------------------------------------------------------- training


def test_special_pieces_have_ids_0_to_3(tokenizer):
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer._model)
    assert [model.unk_id(), model.bos_id(), model.eos_id(), model.pad_id()] == [0, 1, 2, 3]
    assert [tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id] == [0, 1, 2, 3]


def test_the_vocabulary_has_the_size_that_was_asked_for(tokenizer):
    assert len(tokenizer) == 50


def test_the_same_notes_give_the_same_model():
    assert NoteTokenizer.train(made_up_notes(), vocab_size=50) == NoteTokenizer.train(
        iter(made_up_notes()), vocab_size=50
    )


def test_other_notes_give_another_model(tokenizer):
    assert NoteTokenizer.train(made_up_notes(seed=1), vocab_size=50) != tokenizer


def test_training_says_nothing(capfd):
    NoteTokenizer.train(made_up_notes(), vocab_size=50)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_a_long_line_is_learned_from_too():
    long_line = " ".join(["quinapril"] * 1000)  # SentencePiece by itself reads 4,192 bytes
    trained = NoteTokenizer.train(["fever " * 3, long_line], vocab_size=17)
    assert trained.pieces("quinapril") == ["▁quinapril"]


def test_more_pieces_than_the_text_has():
    notes = ["the patient has a fever", "the patient has no fever"]
    with pytest.raises(InputError, match="need vocab_size <= 18, and it is 16000"):
        NoteTokenizer.train(notes)
    assert len(NoteTokenizer.train(notes, vocab_size=18)) == 18


def test_fewer_pieces_than_the_text_has_characters():
    notes = ["the patient has a fever", "the patient has no fever"]
    with pytest.raises(InputError, match="need vocab_size >= 17, and it is 5"):
        NoteTokenizer.train(notes, vocab_size=5)
    assert len(NoteTokenizer.train(notes, vocab_size=17)) == 17


@pytest.mark.parametrize("texts", [[], ["", "  \n "]])
def test_an_empty_corpus(texts):
    with pytest.raises(InputError, match="no text"):
        NoteTokenizer.train(texts, vocab_size=20)


def test_a_missing_note_is_named():
    with pytest.raises(InputError, match="text 1: None is not text"):
        NoteTokenizer.train(["fever", None], vocab_size=20)


def test_one_text_is_not_taken_for_a_list():
    with pytest.raises(InputError, match="a list of texts"):
        NoteTokenizer.train("the patient has a fever", vocab_size=20)


# ---------------------------------------------------------------------- pieces and ids


def test_decoding_undoes_encoding(tokenizer):
    for note in made_up_notes(20, seed=2):
        assert tokenizer.decode(tokenizer.encode(note)) == " ".join(note.split())


def test_bos_and_eos_are_added_on_request(tokenizer):
    plain = tokenizer.encode("no fever")
    assert tokenizer.encode("no fever", add_bos=True, add_eos=True) == [1, *plain, 2]


def test_the_pieces_make_up_the_text(tokenizer):
    text = "The woman has  nausea."
    assert "".join(tokenizer.pieces(text)) == "▁The▁woman▁has▁nausea." == tokenizer.normalize(text)


def test_a_code_is_shattered(tokenizer):
    assert len(tokenizer.pieces("4280")) > 1


def test_an_unknown_character_becomes_unk(tokenizer):
    assert tokenizer.unk_id in tokenizer.encode("日")


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_decode_takes_lists_arrays_and_tensors(tokenizer, kind):
    ids = tokenizer.encode("no fever", add_bos=True, add_eos=True)
    assert tokenizer.decode(kind([*ids, tokenizer.pad_id])) == "no fever"


@pytest.mark.parametrize("wrong", [50, -100, 2.0, "a"])
def test_an_unknown_id_raises_with_its_place(tokenizer, wrong):
    with pytest.raises(InputError, match=r"place 1: .* is not the id of a token"):
        tokenizer.decode([5, wrong])


def every_segmentation(text, pieces):
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in pieces:
            for rest in every_segmentation(text[end:], pieces):
                yield [text[:end], *rest]


@pytest.mark.parametrize("text", ["no fever", "chest pain", "breath", "man has"])
def test_the_scores_choose_the_pieces(tokenizer, text):
    scores = tokenizer.scores()
    best = max(
        every_segmentation(tokenizer.normalize(text), scores),
        key=lambda pieces: sum(scores[piece] for piece in pieces),
    )
    assert tokenizer.pieces(text) == best


def test_scores_are_log_probabilities_of_the_pieces_of_text(tokenizer):
    scores = tokenizer.scores()
    assert len(scores) == len(tokenizer) - 4
    assert not {"<unk>", "<s>", "</s>", "<pad>"} & set(scores)
    assert 0.8 < sum(math.exp(score) for score in scores.values()) < 1.05


# ---------------------------------------------------------------------- files


def test_other_bytes_are_not_a_model():
    with pytest.raises(InputError, match="not a SentencePiece model"):
        NoteTokenizer(b"something else")


def test_letters_and_digits_share_a_piece_only_where_they_may():
    texts = ["seen for V27.0", "V27.0 again", "fever", "V27.1 and V27.0 seen"] * 5
    apart = NoteTokenizer.train(texts, vocab_size=25)
    joined = NoteTokenizer.train(texts, vocab_size=25, split_by_number=False)
    assert apart.pieces("V27.0") == ["▁", "V", "27.0"]
    assert joined.pieces("V27.0") == ["▁V27.0"]


# ---------------------------------------------------------------------- as a model reads them


@pytest.fixture(scope="module")
def small():
    return NoteTokenizer.train(TEXTS, vocab_size=28)


TEXTS = ["the patient has a fever", "no fever, no cough", "cough for two days"]


def test_a_note_is_its_pieces_between_bos_and_eos_and_nothing_is_outside(small):
    ids, oov = small.encode_note("no fever")
    assert ids == [1, *small.encode("no fever"), 2]
    assert oov == ()


def test_a_summary_is_its_pieces_between_bos_and_eos(small):
    assert small.encode_summary("no fever") == [1, *small.encode("no fever"), 2]


@pytest.mark.parametrize("text", ["", " \n", "日", "日 本"])
def test_a_note_without_a_known_piece_is_refused(small, text):
    with pytest.raises(InputError, match="has no piece that is known"):
        small.encode_note(text)


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("no fever日", "no fever<unk>"),
        ("日 no", "<unk> no"),
        ("no 日 fever", "no <unk> fever"),
        ("no日fever", "no<unk>fever"),
    ],
)
def test_an_unknown_character_is_shown_as_unk(small, text, decoded):
    assert small.decode(small.encode_note(text).ids) == decoded


def test_a_piece_is_one_token(small):
    assert [small.piece(i) for i in range(4)] == ["<unk>", "<s>", "</s>", "<pad>"]
    text = "no fever"
    assert [small.piece(i) for i in small.encode(text)] == small.pieces(text)


@pytest.mark.parametrize("wrong", [28, -1, "a"])
def test_an_id_of_no_piece_is_refused(small, wrong):
    with pytest.raises(InputError, match="is not the id of a token: they run from 0 to 27"):
        small.piece(wrong)


def test_the_fingerprint_is_that_of_the_model(small):
    assert small.fingerprint == NoteTokenizer.train(TEXTS, vocab_size=28).fingerprint
    assert small.fingerprint != NoteTokenizer.train(TEXTS, vocab_size=27).fingerprint
