"""Notes and summaries in pieces, as a model that copies takes them."""

import pytest

from ehr_course.errors import InputError
from ehr_course.tokenizers.notes import NoteTokenizer

TEXTS = ["the patient has a fever", "no fever, no cough", "cough for two days"]


@pytest.fixture(scope="module")
def tokenizer():
    return NoteTokenizer.train(TEXTS, vocab_size=28)


def test_a_note_is_its_pieces_between_bos_and_eos_and_nothing_is_outside(tokenizer):
    ids, oov = tokenizer.encode_note("no fever")
    assert ids == [1, *tokenizer.encode("no fever"), 2]
    assert oov == ()


def test_a_summary_is_its_pieces_between_bos_and_eos(tokenizer):
    assert tokenizer.encode_summary("no fever") == [1, *tokenizer.encode("no fever"), 2]


@pytest.mark.parametrize("text", ["", " \n", "日", "日 本"])
def test_a_note_without_a_known_piece_is_refused(tokenizer, text):
    with pytest.raises(InputError, match="has no piece that is known"):
        tokenizer.encode_note(text)


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("no fever日", "no fever<unk>"),
        ("日 no", "<unk> no"),
        ("no 日 fever", "no <unk> fever"),
        ("no日fever", "no<unk>fever"),
    ],
)
def test_an_unknown_character_is_shown_as_unk(tokenizer, text, decoded):
    assert tokenizer.decode(tokenizer.encode_note(text).ids) == decoded


def test_a_piece_is_one_token(tokenizer):
    assert [tokenizer.piece(i) for i in range(4)] == ["<unk>", "<s>", "</s>", "<pad>"]
    text = "no fever"
    assert [tokenizer.piece(i) for i in tokenizer.encode(text)] == tokenizer.pieces(text)


@pytest.mark.parametrize("wrong", [28, -1, "a"])
def test_an_id_of_no_piece_is_refused(tokenizer, wrong):
    with pytest.raises(InputError, match="is not the id of a piece: they run from 0 to 27"):
        tokenizer.piece(wrong)


def test_the_fingerprint_is_that_of_the_model(tokenizer):
    assert tokenizer.fingerprint == NoteTokenizer.train(TEXTS, vocab_size=28).fingerprint
    assert tokenizer.fingerprint != NoteTokenizer.train(TEXTS, vocab_size=27).fingerprint
