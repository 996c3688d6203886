"""Files of notes: which columns and formats are read, and how much memory one line may take."""

from __future__ import annotations

import gzip
import json

import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.sources import note_corpus, tables
from ehr_course.sources.note_corpus import read_notes
from ehr_course.sources.tables import read_table

NOTE = "admitted with a cough that began three days ago, given amoxicillin."
SUMMARY = "cough, amoxicillin."


def write_lines(path, *objects: dict, start: str = ""):
    text = start + "".join(json.dumps(one) + "\n" for one in objects)
    raw = text.encode("utf-8")
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


# ------------------------------------------------------------------ JSON Lines


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.jsonl.gz", "NOTES.JSONL"])
def test_json_lines_are_read(tmp_path, name):
    path = write_lines(
        tmp_path / name,
        {"note": NOTE, "summary": SUMMARY, "subject_id": 10000032},
        {"summary": "another summary", "note": f"  {NOTE}\n\nsecond paragraph\t", "subject_id": 7},
    )
    assert read_notes(path).pairs == (
        NotePair(NOTE, SUMMARY, 10000032),
        NotePair(f"{NOTE}\n\nsecond paragraph", "another summary", 7),
    )


def test_json_lines_are_read_as_parquet_of_the_same_rows_is(tmp_path):
    rows = [
        {"note": NOTE + sign, "summary": SUMMARY + sign, "note_id": f"{n}-DS-1"}
        for n, sign in enumerate(["", "ä", '"', "\u2028", "\\", " \t", "🩺", "\u0085x"])
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "notes.parquet")
    path = write_lines(tmp_path / "notes.jsonl", *rows)
    assert read_notes(path).pairs == read_notes(tmp_path / "notes.parquet").pairs
    assert len(read_notes(path).pairs) == len(rows)


def test_names_of_json_lines_are_in_either_case_and_in_any_order(tmp_path):
    path = write_lines(
        tmp_path / "n.jsonl",
        {"Summary": SUMMARY, "NOTE": NOTE},
        {"NOTE": NOTE, "Summary": "again a summary"},
        start="\ufeff",
    )
    assert [pair.summary for pair in read_notes(path).pairs] == [SUMMARY, "again a summary"]


def test_what_a_line_lacks_is_missing_and_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "notes.jsonl"
    full = json.dumps({"note": NOTE, "summary": SUMMARY})
    path.write_text(
        f'\n{{"note": "{NOTE}"}}\n\n{full}\n{{"note": null, "summary": "{SUMMARY}"}}',
        encoding="utf-8",
    )
    corpus = read_notes(path)
    assert len(corpus.pairs) == 1
    assert [(drop.reason.value, drop.examples) for drop in corpus.report.tables[0].drops] == [
        ("no note", ("line 5",)),
        ("no summary", ("line 2",)),
    ]


@pytest.mark.parametrize(
    ("value", "patient"),
    [(7, 7), (7.0, 7), ("7", 7), ("A-7", "A-7"), (None, None), ("007", "007")],
)
def test_patients_of_json_lines(tmp_path, value, patient):
    path = write_lines(
        tmp_path / "n.jsonl", {"note": NOTE, "summary": SUMMARY, "subject_id": value}
    )
    assert read_notes(path).pairs[0].subject_id == patient


def test_an_empty_file_of_json_lines(tmp_path):
    (tmp_path / "n.jsonl").write_text("\n\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"n\.jsonl: the file is empty\. Export or copy it again"):
        read_notes(tmp_path / "n.jsonl")


# ------------------------------------------------------------------ columns


def test_a_dialogue_beside_the_note_that_was_written_of_it(tmp_path):
    path = write_lines(tmp_path / "n.jsonl", {"dialogue": NOTE, "note": SUMMARY, "dataset": "x"})
    assert read_notes(path).pairs == (NotePair(NOTE, SUMMARY),)


def test_a_dialogue_with_two_summaries_is_not_guessed_at(tmp_path):
    path = write_lines(tmp_path / "n.jsonl", {"dialogue": NOTE, "note": SUMMARY, "summary": "x"})
    with pytest.raises(InputError) as refused:
        read_notes(path)
    assert str(refused.value).startswith(
        "n.jsonl: its columns are those of 2 known layouts (found: dialogue, note, summary). "
    )


@pytest.mark.parametrize("name", ["patient", "Discharge_Summary", "note-id", "section text"[:7]])
def test_names_of_columns_are_shown(name):
    assert note_corpus.found([name]) == f"found: {name}"


@pytest.mark.parametrize(
    "name",
    [
        "fever",
        "Note about Mrs Miller",
        "10000032",
        "note_10000032",
        "note summary",
        "x" * 500,
        "é",
    ],
)
def test_what_may_be_text_is_not_shown(name):
    assert note_corpus.found([name]) == (
        "found: 1 column whose name is not shown, for it may be text of a note"
    )


# ------------------------------------------------------------------ long lines


def test_the_limit_is_far_above_any_note():
    assert tables.LONGEST_LINE == 16_777_216


def test_a_line_of_json_that_is_too_long(tmp_path, monkeypatch):
    path = write_lines(
        tmp_path / "n.jsonl.gz",
        {"note": NOTE, "summary": SUMMARY},
        {"note": NOTE * 300, "summary": SUMMARY},
    )
    assert [number for number, _ in tables.read_lines(path)] == [1, 2]
    with pytest.raises(InputError) as error:
        list(tables.read_lines(path, longest=10_000))
    assert str(error.value) == (
        "n.jsonl.gz, line 2: the line that begins here is longer than 10,000 bytes, the most that "
        "is read. Write one note on a line, or cut this one into several."
    )


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_line_of_exactly_the_longest_length_is_read(tmp_path, end):
    path = tmp_path / "n.jsonl"
    path.write_bytes(b"x" * 100 + end.encode() * 2)
    assert next(tables.read_lines(path, longest=100)) == (1, b"x" * 100)
    with pytest.raises(InputError, match="longer than 99 bytes"):
        next(tables.read_lines(path, longest=99))


def test_patients_of_parquet_in_bytes_are_read_as_text_or_refused(tmp_path):
    path = tmp_path / "notes.parquet"
    rows = {"subject_id": [b"7", b"8"], "note": [NOTE] * 2, "summary": [SUMMARY] * 2}
    pl.DataFrame(rows).write_parquet(path)
    assert [pair.subject_id for pair in read_notes(path).pairs] == [7, 8]
    pl.DataFrame(rows | {"subject_id": [b"7", b"\xff"]}).write_parquet(path)
    with pytest.raises(InputError, match="column 'subject_id': it holds bytes that are not UTF-8"):
        read_notes(path)


def test_a_value_of_parquet_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(note_corpus, "LONGEST_LINE", 10_000)
    path = tmp_path / "notes.parquet"
    pl.DataFrame({"note": [NOTE, NOTE * 300], "summary": [SUMMARY] * 2}).write_parquet(path)
    with pytest.raises(InputError) as error:
        read_notes(path)
    assert str(error.value) == (
        "notes.parquet, row 2: the text is longer than 10,000 bytes, the most that is read. Cut "
        "it into several."
    )


# ------------------------------------------------------------------ tables of any kind


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("code,title\nab,cd\n" + "x" * 300 + ",y\n", 3),
        ("code," + "x" * 300 + "\nab,cd\n", 1),
        ('code,title\n"a\nb",c\n"' + "x\n" * 150 + '",y\n', 4),
    ],
    ids=["row", "header", "quoted"],
)
def test_every_table_has_a_longest_row(tmp_path, monkeypatch, text, line):
    path = tmp_path / "codes.csv"
    path.write_text(text, encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(tables, "LONGEST_LINE", 80)
        with pytest.raises(InputError) as error:
            read_table(path, text={"code": "code"}, malformed="raise")
    assert str(error.value) == (
        f"codes.csv, line {line}: the row that begins here is longer than 80 bytes, the most that "
        "is read. Look for a quotation mark that is never closed, or for missing line ends."
    )
    assert read_table(path, text={"code": "code"}, malformed="raise").rows_read in (1, 2)
