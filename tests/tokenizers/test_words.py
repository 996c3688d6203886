"""The word tokenizer: how text is cut, a closed vocabulary, extended ids, its file."""

import random
import unicodedata

import numpy as np
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.tokenizers.words import WordTokenizer, join_words, split_words

NOTE = "Patient's BP 120/80 (HR 72), given quinapril 2.5 mg. Quinapril stopped; rales."
TOKENIZER = WordTokenizer(
    [*"(),.;", "120/80", "2.5", "72", "bp", "given", "hr", "mg", "patient's", "stopped"]
)
SIZE = 18  # four special ones and fourteen words


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No Fever", ["no", "fever"]),
        ("patient's follow-up, and/or", ["patient's", "follow-up", ",", "and/or"]),
        ("'quoted' -5 n/ /a-", ["'", "quoted", "'", "-", "5", "n", "/", "/", "a", "-"]),
        ("2.5 1,000 10:30", ["2.5", "1,000", "10:30"]),
        ("p.o. bp:120 a,b 3.", ["p", ".", "o", ".", "bp", ":", "120", "a", ",", "b", "3", "."]),
        ("10%!?", ["10", "%", "!", "?"]),
        ("seen by ___ on _", ["seen", "by", "___", "on", "_"]),
        ("a\t\n\u00a0b\u200bc\ufeffd", ["a", "b", "c", "d"]),  # an invisible character separates
        ("ﬁbrosis ² Ａ", ["fibrosis", "2", "a"]),  # NFKC
        ("patient’s T‐cell", ["patient's", "t-cell"]),
        ("Sjo\u0308gren x\u0302y", ["sjögren", "x\u0302y"]),  # the second has no composed form
        ("发热 ÉTÉ", ["发热", "été"]),
        ("", []),
        (" \u200b\n", []),
    ],
)
def test_words_of_a_text(text, words):
    assert split_words(text) == words == TOKENIZER.words(text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["fever", ",", "cough", ":", "no", ";", "ok", "."], "fever, cough: no; ok."),
        (["(", "2", "days", ")", "[", "x", "]", "{", "y", "}"], "(2 days) [x] {y}"),
        (["(", "(", "a", ")", ")", ".", "(", "b"], "((a)). (b"),
        (["5", "%", "!", "?", ".", "."], "5%!?.."),
        (["a", "-", "b", "/", "'", "c"], "a - b / ' c"),
        ([], ""),
    ],
)
def test_words_as_a_text(words, text):
    assert join_words(words) == text


def test_a_text_of_its_words_has_the_same_words():
    rng = random.Random(0)
    alphabet = "aB1 .,:;()[]'-/_%\u0301İΣς’‐…½发\u200b\u00ad\n\ud800µ가\u1161\u05b0é²ﬁ"
    for _ in range(3000):
        words = split_words("".join(rng.choice(alphabet) for _ in range(rng.randint(0, 14))))
        assert split_words(join_words(words)) == words


# ---------------------------------------------------------------------- vocabulary


def test_special_tokens_have_ids_0_to_3_and_words_follow_sorted():
    assert [TOKENIZER.piece(i) for i in range(4)] == ["<unk>", "<s>", "</s>", "<pad>"]
    assert (TOKENIZER.unk_id, TOKENIZER.bos_id, TOKENIZER.eos_id, TOKENIZER.pad_id) == (0, 1, 2, 3)
    assert len(TOKENIZER) == SIZE
    assert list(TOKENIZER.vocabulary) == sorted(TOKENIZER.vocabulary)
    assert [TOKENIZER.encode(word) for word in TOKENIZER.vocabulary] == [[i] for i in range(4, 18)]


def test_the_vocabulary_is_that_of_the_texts_in_any_order():
    texts = ["Fever, cough", "no fever"]
    assert WordTokenizer.from_texts(texts).vocabulary == (",", "cough", "fever", "no")
    assert WordTokenizer.from_texts(iter(texts[::-1])) == WordTokenizer.from_texts(texts)


def test_rare_words_stay_outside():
    texts = ["a a a b b c", "b"]
    assert WordTokenizer.from_texts(texts, min_count=3).vocabulary == ("a", "b")


def test_no_text_is_taken_for_a_special_token():
    vocabulary = WordTokenizer.from_texts(["<s> <unk> </s> <pad>"])
    assert vocabulary.vocabulary == ("/", "<", ">", "pad", "s", "unk")
    assert min(vocabulary.encode("<s> <unk> </s> <pad>")) >= 4
    assert "<unk>" not in vocabulary
    assert "unk" in vocabulary


def test_a_text_of_one_repeated_word():
    one = WordTokenizer.from_texts(["fever " * 500])
    assert len(one) == 5
    assert one.encode_note("fever " * 500) == ([1, *[4] * 500, 2], ())
    assert TOKENIZER.encode_note("rales " * 500) == ([1, *[SIZE] * 500, 2], ("rales",))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "the most frequent one occurs 0 times"),
        (["", " \n"], "the most frequent one occurs 0 times"),
        ("fever", "a list of texts"),
        (["fever", None], "text 1: None is not text"),
    ],
)
def test_texts_that_give_no_vocabulary(texts, message):
    with pytest.raises(InputError, match=message):
        WordTokenizer.from_texts(texts)


def test_a_count_that_no_word_reaches():
    with pytest.raises(InputError, match="the most frequent one occurs 2 times"):
        WordTokenizer.from_texts(["no fever", "no cough"], min_count=3)


@pytest.mark.parametrize("words", [[], "fever", ["Fever"], ["no fever"], [""], ["ok", 3], ["<s>"]])
def test_a_vocabulary_of_what_no_text_is_cut_into(words):
    with pytest.raises(InputError, match="WordTokenizer, words"):
        WordTokenizer(words)


# ---------------------------------------------------------------------- encoding


def test_a_word_outside_the_vocabulary_is_unk():
    assert TOKENIZER.encode("given rales 发热 .") == [TOKENIZER.encode("given")[0], 0, 0, 7]


def test_bos_and_eos_are_added_on_request():
    plain = TOKENIZER.encode("given mg")
    assert TOKENIZER.encode("given mg", add_bos=True) == [1, *plain]
    assert TOKENIZER.encode("given mg", add_eos=True) == [*plain, 2]


def slow_encode_note(tokenizer, text):
    """Extended ids by a search from the front for every word."""
    ids, oov = [1], []
    for word in tokenizer.words(text):
        if word in tokenizer.vocabulary:
            ids.append(4 + tokenizer.vocabulary.index(word))
        else:
            if word not in oov:
                oov.append(word)
            ids.append(len(tokenizer) + oov.index(word))
    return [*ids, 2], tuple(oov)


def test_a_word_outside_has_one_extended_id_wherever_the_note_has_it():
    ids, oov = TOKENIZER.encode_note(NOTE)
    assert oov == ("quinapril", "rales")
    assert ids.count(SIZE) == 2
    assert ids.count(SIZE + 1) == 1
    assert TOKENIZER.unk_id not in ids


def test_extended_ids_are_those_of_a_slow_search():
    rng = random.Random(1)
    for _ in range(200):
        text = " ".join(rng.choices(["bp", "hr", "mg", "a", "b", "c", "d"], k=12))
        assert TOKENIZER.encode_note(text) == slow_encode_note(TOKENIZER, text)


@pytest.mark.parametrize("text", ["", "  \n", "\u200b"])
def test_a_note_without_a_word_is_refused(text):
    with pytest.raises(InputError, match="has no word"):
        TOKENIZER.encode_note(text)


def test_a_summary_has_the_ids_of_its_note():
    oov = TOKENIZER.encode_note(NOTE).oov
    given, dot = TOKENIZER.encode("given .")
    ids = TOKENIZER.encode_summary("Given rales, quinapril; given warfarin.", oov)
    comma, semicolon = TOKENIZER.encode(", ;")
    assert ids == [1, given, SIZE + 1, comma, SIZE, semicolon, given, 0, dot, 2]


def test_a_summary_without_its_note_has_unk():
    assert TOKENIZER.encode_summary("given rales") == [1, TOKENIZER.encode("given")[0], 0, 2]


# ---------------------------------------------------------------------- decoding


def test_decoding_a_note_gives_the_normalised_text():
    text = "patient's bp 120/80 (hr 72), given quinapril 2.5 mg. quinapril stopped; rales."
    assert TOKENIZER.decode(*TOKENIZER.encode_note(NOTE)) == text == TOKENIZER.normalize(NOTE)
    accented = unicodedata.normalize("NFD", "Café :  no\n( Ménière )")
    assert TOKENIZER.decode(*TOKENIZER.encode_note(accented)) == "café: no (ménière)"


def test_decoding_without_the_words_outside_shows_unk():
    assert TOKENIZER.decode(TOKENIZER.encode("given rales.")) == "given <unk>."


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_decode_takes_lists_arrays_and_tensors_and_passes_over_special_tokens(kind):
    ids = [1, *TOKENIZER.encode("given mg"), SIZE, 2, 3, 3]
    assert TOKENIZER.decode(kind(ids), ("rales",)) == "given mg rales"


@pytest.mark.parametrize("wrong", [SIZE + 1, -1, -100, 4.0, "bp", None, True])
def test_an_id_that_stands_for_nothing_raises_with_its_place(wrong):
    with pytest.raises(InputError, match=r"place 1: .* from 0 to 18"):
        TOKENIZER.decode([5, wrong], ("rales",))


def test_a_piece_is_one_token():
    assert TOKENIZER.piece(SIZE + 1, ("rales", "quinapril")) == "quinapril"
    assert TOKENIZER.piece(torch.tensor(4)) == "("
    with pytest.raises(InputError, match="18 is not the id of a token"):
        TOKENIZER.piece(SIZE)


# ---------------------------------------------------------------------- files


def test_other_words_have_another_fingerprint():
    assert WordTokenizer(["a"]).fingerprint != WordTokenizer(["b"]).fingerprint
    assert WordTokenizer(["a"]) != WordTokenizer(["b"])
