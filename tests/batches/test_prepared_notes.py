"""Encoded notes in files: what was written is read, and damage is noticed."""

import json
from types import SimpleNamespace

import polars as pl
import pytest
import torch

from ehr_course.batches.note_dataset import NoteDataset
from ehr_course.batches.prepared_notes import PARTS, read_prepared, read_report, write_prepared
from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

WORDS = WordTokenizer(["fever", "given", "no", "was"])
SPLIT = SimpleNamespace(
    train=[
        NotePair('was given "quinapril"\nno rales', "given quinapril", 3),
        NotePair("no fever", "no fever, no warfarin", 1),
        NotePair("fever was given", "fever"),
    ],
    validation=[NotePair("发热 no fever", "发热", 7)],
    test=[NotePair("given digoxin", "digoxin was given", 2)],
)


@pytest.fixture
def folder(tmp_path):
    write_prepared(SPLIT, WORDS, tmp_path / "prepared")
    return tmp_path / "prepared"


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


# ---------------------------------------------------------------------- there and back


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("limits", [{}, {"max_source": 4, "max_target": 3}], ids=["whole", "cut"])
def test_what_is_read_is_what_was_written(tmp_path, part, limits):
    write_prepared(SPLIT, WORDS, tmp_path / "a" / "b", **limits)
    dataset = read_prepared(tmp_path / "a" / "b", part)
    expected = NoteDataset(getattr(SPLIT, part), WORDS, **limits)
    everything = range(len(expected))
    assert same(dataset.batch(everything), expected.batch(everything))
    assert dataset.pairs == expected.pairs
    assert dataset.oov == expected.oov
    assert dataset.lengths.tolist() == expected.lengths.tolist()
    assert dataset.tokenizer == WORDS
    assert (dataset.cut_notes, dataset.cut_summaries) == (
        expected.cut_notes,
        expected.cut_summaries,
    )
    assert dataset.fingerprint == expected.fingerprint


def test_pieces_come_back_with_their_tokenizer(tmp_path):
    pieces = NoteTokenizer.train(["no fever was given", "fever was given"], vocab_size=18)
    write_prepared(SPLIT, pieces, tmp_path / "prepared")
    dataset = read_prepared(tmp_path / "prepared", "train")
    assert dataset.tokenizer == pieces
    assert dataset.fingerprint == NoteDataset(SPLIT.train, pieces).fingerprint


def test_other_programs_can_read_the_files(folder):
    frame = pl.read_parquet(folder / "train.parquet")
    note, summary = [1, 7, 5, 8, 9, 8, 6, 10, 2], [1, 5, 9, 2]
    assert frame["src_ids"].to_list()[0] == note
    assert frame["tgt_ids"].to_list()[0] == summary
    assert frame["src_len"].to_list() == [9, 4, 5]
    assert frame["tgt_len"].to_list() == [4, 7, 3]
    assert frame["oov"].to_list() == [['"', "quinapril", "rales"], [], []]
    assert frame["note"].to_list() == [pair.note for pair in SPLIT.train]
    assert frame["subject_id"].to_list() == [3, 1, None]


def test_patients_may_be_called_by_text(tmp_path):
    split = SimpleNamespace(
        train=[NotePair("no fever", "no", "P-1")], validation=[], test=[NotePair("no", "no")]
    )
    write_prepared(split, WORDS, tmp_path / "prepared")
    assert read_prepared(tmp_path / "prepared", "train").pairs == split.train
    assert read_prepared(tmp_path / "prepared", "test").pairs == split.test


def test_a_part_without_pairs_has_no_file(tmp_path):
    split = SimpleNamespace(train=SPLIT.train, validation=[], test=SPLIT.test)
    write_prepared(split, WORDS, tmp_path / "prepared")
    assert not (tmp_path / "prepared" / "validation.parquet").exists()
    with pytest.raises(InputError, match=r"validation: this part had no pairs .* train, test"):
        read_prepared(tmp_path / "prepared", "validation")


def test_the_report_counts(tmp_path):
    report = write_prepared(SPLIT, WORDS, tmp_path / "prepared", max_source=6, max_target=5)
    assert read_report(tmp_path / "prepared") == report
    assert report["tokenizer"] == {
        "kind": "WordTokenizer",
        "size": 8,
        "fingerprint": WORDS.fingerprint,
    }
    assert (report["max_source"], report["max_target"]) == (6, 5)
    assert [report["parts"][part]["fraction"] for part in PARTS] == [0.6, 0.2, 0.2]
    train = dict(report["parts"]["train"])
    del train["sha256"], train["fraction"]
    assert train == {
        "pairs": 3,
        "cut_notes": 1,  # <s> was given " quinapril </s>
        "cut_summaries": 1,  # <s> no fever , no
        "source_tokens": 6 + 4 + 5,
        "target_tokens": 4 + 5 + 3,
        "oov": 2,
        "unknown": 1,  # the comma, which is not in its note
    }


# ---------------------------------------------------------------------- whole or not at all


def test_nothing_is_left_when_a_pair_cannot_be_encoded(tmp_path):
    split = SimpleNamespace(
        train=SPLIT.train, validation=SPLIT.validation, test=[NotePair("\u200b", "no", 9)]
    )
    with pytest.raises(InputError, match=r"test: pair 0 \(patient 9\), note: .* has no word"):
        write_prepared(split, WORDS, tmp_path / "prepared")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match="something here already"):
        write_prepared(SPLIT, WordTokenizer(["no"]), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "prepared").mkdir()
    write_prepared(SPLIT, WORDS, tmp_path / "prepared")
    assert len(read_prepared(tmp_path / "prepared", "train")) == 3


def test_a_split_without_training_pairs_is_refused(tmp_path):
    split = SimpleNamespace(train=[], validation=[], test=SPLIT.test)
    with pytest.raises(InputError, match="train: there are no pairs"):
        write_prepared(split, WORDS, tmp_path / "prepared")


@pytest.mark.parametrize("ids", [(1, "P-2"), (2**70, 1), (1.5, None)], ids=str)
def test_patients_of_mixed_names_are_refused(tmp_path, ids):
    train = [NotePair("no fever", "no", subject_id) for subject_id in ids]
    split = SimpleNamespace(train=train, validation=[], test=[])
    with pytest.raises(InputError, match="train: subject_id: they are not all whole numbers"):
        write_prepared(split, WORDS, tmp_path / "prepared")


# ---------------------------------------------------------------------- damage


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="o such file"):
        read_prepared(tmp_path / "prepared", "train")


@pytest.mark.parametrize("name", ["train.parquet", "tokenizer.json", "report.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: .*(o such file|is missing)"):
        read_prepared(folder, "train")


@pytest.mark.parametrize("name", ["train.parquet", "tokenizer.json", "report.json"])
def test_a_file_that_lost_its_end_is_noticed(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=name):
        read_prepared(folder, "train")


def test_a_file_with_one_other_byte_is_noticed(folder):
    path = folder / "train.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="the file is missing or damaged"):
        read_prepared(folder, "train")


def test_a_changed_report_is_noticed(folder):
    path = folder / "report.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["content"]["parts"]["train"]["cut_notes"] = 5
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match="damaged"):
        read_prepared(folder, "train")


def test_another_tokenizer_in_its_place_is_noticed(folder):
    WordTokenizer(["fever", "given", "no", "wax"]).save(folder / "tokenizer.json")
    with pytest.raises(InputError, match="another tokenizer than the one that made the ids"):
        read_prepared(folder, "train")
