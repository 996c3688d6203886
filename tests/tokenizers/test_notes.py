"""The note tokenizer: training, pieces, ids, its file."""

import json
import math
import pickle
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
    with pytest.raises(InputError, match=r"16,000 pieces are more than .* 18 at most") as caught:
        NoteTokenizer.train(notes)
    assert "vocab_size=18" in caught.value.remedy
    assert len(NoteTokenizer.train(notes, vocab_size=18)) == 18


def test_fewer_pieces_than_the_text_has_characters():
    notes = ["the patient has a fever", "the patient has no fever"]
    with pytest.raises(InputError, match=r"5 pieces are too few.* need 17"):
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
    with pytest.raises(InputError, match=r"place 1: .* is not the id of a piece"):
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


def test_a_saved_tokenizer_comes_back_equal(tokenizer, tmp_path):
    path = tmp_path / "new folder" / "notes.json"
    tokenizer.save(path)
    loaded = NoteTokenizer.load(path)
    assert loaded == tokenizer
    assert loaded.encode("no fever") == tokenizer.encode("no fever")
    assert [found.name for found in path.parent.iterdir()] == ["notes.json"]


def test_a_missing_tokenizer_file(tmp_path):
    with pytest.raises(InputError, match=r"notes\.json: there is no such file"):
        NoteTokenizer.load(tmp_path / "notes.json")


def test_a_folder_is_not_a_tokenizer_file(tmp_path):
    with pytest.raises(InputError, match="this is a folder"):
        NoteTokenizer.load(tmp_path)


def test_a_file_that_is_not_json(tmp_path):
    (tmp_path / "notes.json").write_bytes(b"\x0a\x0e\x00")
    with pytest.raises(InputError, match="not JSON"):
        NoteTokenizer.load(tmp_path / "notes.json")


def test_a_tokenizer_file_of_another_version(tokenizer, tmp_path):
    path = tmp_path / "notes.json"
    tokenizer.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | {"version": 0}), encoding="utf-8")
    with pytest.raises(InputError, match="has version 0, and this course reads version 1"):
        NoteTokenizer.load(path)


def test_a_damaged_tokenizer_file(tokenizer, tmp_path):
    path = tmp_path / "notes.json"
    tokenizer.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["content"]["pieces"] += 1
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match="damaged"):
        NoteTokenizer.load(path)


def test_other_bytes_are_not_a_model():
    with pytest.raises(InputError, match="not a SentencePiece model"):
        NoteTokenizer(b"something else")


def test_a_tokenizer_travels_to_other_processes(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy == tokenizer
    assert copy.pieces("chest pain") == tokenizer.pieces("chest pain")


def test_letters_and_digits_share_a_piece_only_where_they_may():
    texts = ["seen for V27.0", "V27.0 again", "fever", "V27.1 and V27.0 seen"] * 5
    apart = NoteTokenizer.train(texts, vocab_size=25)
    joined = NoteTokenizer.train(texts, vocab_size=25, split_by_number=False)
    assert apart.pieces("V27.0") == ["▁", "V", "27.0"]
    assert joined.pieces("V27.0") == ["▁V27.0"]
