"""The tokenizers as users of transformers meet them, and the extension of a BART's vocabulary."""

import json
import pickle

import pytest
import torch
from small_bart import save_bart_tokenizer
from transformers import BartTokenizer, DataCollatorForSeq2Seq, DataCollatorWithPadding

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

CODES = CodeTokenizer(["0389", "4280", "650"])
TEXTS = ["no fever", "fever and cough", "cough for two days"]
WORDS = WordTokenizer.from_texts(TEXTS)
PIECES = NoteTokenizer.train(TEXTS, vocab_size=24)
PATIENT = PatientRecord(1, "F", 64, (Visit(("4280", "0389")), Visit(("650",))))
GIVEN = [(CODES, PATIENT, [["4280"]]), (WORDS, TEXTS[0], TEXTS[2]), (PIECES, TEXTS[0], TEXTS[2])]


def encode(tokenizer, one):
    return tokenizer.encode(one) if tokenizer is CODES else tokenizer.encode_note(one).ids


# ---------------------------------------------------------------------- calls and batches


@pytest.mark.parametrize(("tokenizer", "one", "other"), GIVEN)
def test_a_tokenizer_is_called(tokenizer, one, other):
    a, b = encode(tokenizer, one), encode(tokenizer, other)
    assert dict(tokenizer(one)) == {"input_ids": a, "attention_mask": [1] * len(a)}
    assert tokenizer([one, other])["input_ids"] == [a, b]
    alone = tokenizer(other, return_tensors="pt")
    assert alone["input_ids"].tolist() == [b]
    batch = tokenizer([one, other], padding=True, return_tensors="pt")
    width = max(len(a), len(b))
    for ids, row, mask in zip([a, b], batch.input_ids, batch.attention_mask, strict=True):
        short = width - len(ids)
        assert row.tolist() == ids + [tokenizer.pad_token_id] * short
        assert mask.tolist() == [1] * len(ids) + [0] * short
    decoded = [tokenizer.decode(a), tokenizer.decode(b)]
    assert tokenizer.batch_decode(batch["input_ids"]) == decoded


def test_what_a_patient_is():
    visits = [["4280", "0389"], ["650"]]
    ids = CODES.encode(PATIENT)
    for one in (PATIENT, visits, list(PATIENT.visits), PATIENT.visits):
        assert CODES(one)["input_ids"] == ids
        assert CODES([one])["input_ids"] == [ids]
    # Before the first visit is known, an empty list is a patient among patients.
    assert CODES([[], visits])["input_ids"] == [[1, 2], ids]


@pytest.mark.parametrize(
    ("padding", "options", "width"),
    [
        ("longest", {}, 3),
        (True, {"pad_to_multiple_of": 4}, 4),
        ("max_length", {"max_length": 6}, 6),
        ("max_length", {}, 3),
    ],
)
def test_the_width_of_padding(padding, options, width):
    rows = [{"input_ids": [1, 2]}, {"input_ids": torch.tensor([1, 3, 2])}]
    batch = CODES.pad(rows, padding=padding, return_tensors="pt", **options)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, width)
    assert batch["attention_mask"].sum(1).tolist() == [2, 3]


def test_padding_keeps_a_mask_and_everything_else():
    rows = [
        {"input_ids": [1, 5, 2], "attention_mask": [1, 0, 1], "age": 3.5},
        {"input_ids": [1], "attention_mask": [1], "age": 70.0},
    ]
    batch = CODES.pad(rows, return_tensors="pt")
    assert batch["attention_mask"].tolist() == [[1, 0, 1], [1, 0, 0]]
    assert batch["age"].tolist() == [3.5, 70.0]
    assert CODES.pad({"input_ids": [[1, 2], [1]]}, padding=False).input_ids == [[1, 2], [1]]


def test_data_collators_of_transformers_take_the_tokenizers():
    features = [
        {"input_ids": [1, 9, 2], "labels": [9, 2]},
        {"input_ids": [1, 2], "labels": [8, 9, 2]},
    ]
    batch = DataCollatorForSeq2Seq(WORDS)([dict(row) for row in features])
    assert batch["input_ids"].tolist() == [[1, 9, 2], [1, 2, WORDS.pad_id]]
    assert batch["labels"].tolist() == [[9, 2, -100], [8, 9, 2]]
    batch = DataCollatorWithPadding(CODES)([{"input_ids": [1, 3, 2]}, {"input_ids": [1]}])
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


# ---------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("tokenizer", "ids"),
    [(CODES, (0, 1, 2, None, 6)), (WORDS, (3, 1, 2, 0, None)), (PIECES, (3, 1, 2, 0, None))],
)
def test_special_tokens_by_the_names_of_transformers(tokenizer, ids):
    names = ("pad", "bos", "eos", "unk", "mask")
    assert tuple(getattr(tokenizer, f"{name}_token_id") for name in names) == ids
    assert tokenizer.vocab_size == len(tokenizer)
    vocabulary = tokenizer.get_vocab()
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert [vocabulary[token] for token in tokens] == list(range(len(tokenizer)))
    assert tokenizer.convert_tokens_to_ids(tokens) == list(range(len(tokenizer)))
    last = len(tokenizer) - 1
    assert tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(last)) == last
    assert tokenizer.convert_tokens_to_ids("never seen") == tokenizer.unk_token_id


def test_words_outside_the_vocabulary_decode_with_the_words_of_their_notes():
    notes = [WORDS.encode_note("no rales"), WORDS.encode_note("wheezing and fever")]
    decoded = WORDS.batch_decode([note.ids for note in notes], [note.oov for note in notes])
    assert decoded == ["no rales", "wheezing and fever"]


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("tokenizer", [CODES, WORDS, PIECES])
def test_a_tokenizer_saves_itself_and_travels_to_other_processes(tokenizer, tmp_path):
    folder = tmp_path / "new" / "model"
    type(tokenizer)(tokenizer._model if tokenizer is PIECES else ["25000"]).save_pretrained(folder)
    tokenizer.save_pretrained(folder)  # in place of the other one
    assert [path.name for path in folder.iterdir()] == ["tokenizer.json"]
    for copy in (
        type(tokenizer).from_pretrained(folder),
        type(tokenizer).load(folder / "tokenizer.json"),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert copy == tokenizer
        assert copy.fingerprint == tokenizer.fingerprint and hash(copy) == hash(tokenizer)
        assert copy.batch_decode([[1, 5, 2]]) == tokenizer.batch_decode([[1, 5, 2]])


def test_a_save_that_fails_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "codes.json"
    CODES.save(path)

    def full_disk(self, text, **kwargs):
        with self.open("w", encoding="utf-8") as file:
            file.write(text[:20])
        raise OSError("No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full_disk)
    with pytest.raises(OSError, match="No space left"):
        CodeTokenizer(["25000"]).save(path)
    assert CodeTokenizer.load(path) == CODES
    assert list(tmp_path.iterdir()) == [path]


def other_content(text):
    document = json.loads(text)
    name, value = list(document["content"].items())[-1]
    document["content"][name] = value[:-1]
    return json.dumps(document)


@pytest.mark.parametrize("tokenizer", [CODES, WORDS, PIECES])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "not json", r"this is not a \w+ tokenizer file"),
        (lambda text: "\udcff", r"this is not a \w+ tokenizer file"),
        (lambda text: "[1, 2]", r"this is not a \w+ tokenizer file"),
        (lambda text: '{"format": "ehr_course prepared notes"}', r"this is not a \w+ tokenizer"),
        (lambda text: text.replace('"version": 1', '"version": 0'), "it has version 0, and this"),
        (other_content, "the file is damaged"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tokenizer, change, message, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    changed = change(path.read_text(encoding="utf-8"))
    path.write_text(changed, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError, match=message) as error:
        type(tokenizer).load(path)
    assert type(tokenizer).__name__ in error.value.remedy


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"codes\.json: it cannot be read: No such file"):
        CodeTokenizer.load(tmp_path / "codes.json")
    with pytest.raises(InputError, match="it cannot be read: Is a directory"):
        CodeTokenizer.load(tmp_path)


def test_how_unseen_codes_are_treated_is_said_when_loading(tmp_path):
    CODES.save_pretrained(tmp_path)
    assert CodeTokenizer.from_pretrained(tmp_path, unseen="skip").unseen == "skip"


# ---------------------------------------------------------------------- on BART's vocabulary


@pytest.fixture(params=["vocab.json", "tokenizer.json"])
def bart(request, tmp_path):
    """The folder of a small BART tokenizer in one of its two forms."""
    save_bart_tokenizer(tmp_path / "first")
    if request.param == "vocab.json":
        return tmp_path / "first"
    BartTokenizer.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / "second")
    assert not (tmp_path / "second" / "vocab.json").exists()
    return tmp_path / "second"


def test_codes_extend_the_vocabulary_of_a_bart(bart):
    theirs = BartTokenizer.from_pretrained(bart)
    n = len(theirs)
    extended = CODES.extending_bart(bart)
    assert (extended.bos_id, extended.pad_id, extended.eos_id, extended.unk_id) == (0, 1, 2, 3)
    assert extended.mask_id == theirs.mask_token_id == n - 1
    assert extended.tokens(range(n)) == theirs.convert_ids_to_tokens(range(n))
    assert extended.tokens(range(n, len(extended))) == ["<v>", "<\\v>", "0389", "4280", "650"]
    assert (extended.visit_start_id, extended.visit_end_id) == (n, n + 1)
    assert extended.first_code_id == n + 2
    # "650" is a piece of text to this BART as well, and that is another token.
    assert theirs.convert_tokens_to_ids("650") < n < extended.code_to_id("650")


def test_patients_in_the_ids_of_an_extended_bart(bart):
    extended = CODES.extending_bart(bart)
    v, end, code = extended.visit_start_id, extended.visit_end_id, extended.code_to_id
    ids = [0, v, code("4280"), code("0389"), end, v, code("650"), end, 2]
    assert extended.encode(PATIENT) == extended(PATIENT)["input_ids"] == ids
    assert extended.decode([2, *ids, 1, 1]) == [["4280", "0389"], ["650"]]
    # A piece of BART's text is not a code, even if it looks like one.
    assert extended.decode([0, v, extended.mask_id, 7, code("650"), end, 2]) == [["650"]]
    assert extended.skipping_unseen().encode([["V103", "650"]]) == [0, v, code("650"), end, 2]
    batch = extended([[["650"]], PATIENT], padding=True, return_tensors="pt")
    assert batch["input_ids"][0].tolist() == [0, v, code("650"), end, 2, 1, 1, 1, 1]


def test_an_extended_tokenizer_comes_back_from_its_file(bart, tmp_path):
    extended = CODES.extending_bart(bart)
    extended.save_pretrained(tmp_path)
    loaded = CodeTokenizer.from_pretrained(tmp_path)
    assert loaded == extended != CODES
    assert loaded.encode(PATIENT) == extended.encode(PATIENT)
    assert loaded.fingerprint == extended.fingerprint != CODES.fingerprint


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (None, "", "it holds no tokenizer"),
        ("vocab.json", "{", "this is not the tokenizer of a BART"),
        ("vocab.json", '{"<s>": 0, "<pad>": 2}', "this is not the tokenizer of a BART"),
        ("tokenizer.json", '{"format": "ehr_course code tokenizer"}', "not the tokenizer of"),
        ("vocab.json", json.dumps({"<s>": 0, "<pad>": 1}), "it has no token </s>, <unk>, <mask>"),
    ],
)
def test_a_folder_without_a_bart_tokenizer_is_refused(tmp_path, name, content, problem):
    if name:
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        CODES.extending_bart(tmp_path)
