"""Files of notes: which columns and formats are read, and how much memory one line may take."""

from __future__ import annotations

import gzip
import json

import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.sources import long_lines, note_files, tables
from ehr_course.sources.long_lines import check_row_lengths
from ehr_course.sources.notes import read_notes
from ehr_course.sources.tables import Table

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
    assert note_files.found([name]) == f"found: {name}"


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
    assert note_files.found([name]) == (
        "found: 1 column whose name is not shown, for it may be text of a note"
    )


# ------------------------------------------------------------------ long lines


def test_the_limit_is_far_above_any_note():
    assert long_lines.LONGEST_LINE == 16_777_216


def refused(path, longest: int) -> str | None:
    try:
        check_row_lengths(path, longest=longest)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
def test_the_first_row_that_is_too_long_is_named_by_the_line_it_begins_on(
    tmp_path, monkeypatch, chunk
):
    monkeypatch.setattr(long_lines, "_CHUNK", chunk)
    path = tmp_path / "notes.csv"
    path.write_bytes(b'a,b\n"x\ny,",1\n\n"pp\n\nqq""\n",2\nc,d\n')
    lengths = {2: len('"x\ny,",1'), 5: len('"pp\n\nqq""\n",2')}
    assert refused(path, lengths[5]) is None
    assert "line 5: the row that begins here is longer" in refused(path, lengths[5] - 1)
    assert "line 2: " in refused(path, lengths[2] - 1)


def test_a_row_of_a_table_that_is_too_long(tmp_path, monkeypatch):
    path = tmp_path / "notes.csv"
    path.write_text(f'note,summary\n"{NOTE}",b\n"{NOTE * 300}",b\n', encoding="utf-8")
    assert refused(path, 10_000) == (
        "notes.csv, line 3: the row that begins here is longer than 10,000 bytes, the most that "
        "is read. Look for a quotation mark that is never closed, or for missing line ends."
    )


def test_a_line_of_json_that_is_too_long(tmp_path, monkeypatch):
    path = write_lines(
        tmp_path / "n.jsonl.gz",
        {"note": NOTE, "summary": SUMMARY},
        {"note": NOTE * 300, "summary": SUMMARY},
    )
    assert [number for number, _ in long_lines.read_lines(path)] == [1, 2]
    with pytest.raises(InputError) as error:
        list(long_lines.read_lines(path, longest=10_000))
    assert str(error.value) == (
        "n.jsonl.gz, line 2: the line that begins here is longer than 10,000 bytes, the most that "
        "is read. Write one note on a line, or cut this one into several."
    )


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_line_of_exactly_the_longest_length_is_read(tmp_path, end):
    path = tmp_path / "n.jsonl"
    path.write_bytes(b"x" * 100 + end.encode() * 2)
    assert next(long_lines.read_lines(path, longest=100)) == (1, b"x" * 100)
    with pytest.raises(InputError, match="longer than 99 bytes"):
        next(long_lines.read_lines(path, longest=99))


def test_a_value_of_parquet_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(note_files, "LONGEST_LINE", 10_000)
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
        ("code,title\nab,cd\n" + "x" * 90 + ",y\n", "line 3: the row"),
        ("code," + "x" * 90 + "\nab,cd\n", "line 1: the row"),
        ('code,title\n"a\nb",c\n"' + "x\n" * 45 + '",y\n', "line 4: the row"),
    ],
    ids=["row", "header", "quoted"],
)
def test_every_table_has_a_longest_row(tmp_path, monkeypatch, text, line):
    monkeypatch.setattr(tables, "LONGEST_LINE", 80)
    (tmp_path / "codes.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        Table("codes", tmp_path / "codes.csv", text=("code",), malformed="raise")
    assert str(error.value).startswith(f"codes.csv, {line} that begins here is longer than ")
    monkeypatch.setattr(tables, "LONGEST_LINE", 100)
    if line != "line 1: the row":
        table = Table("codes", tmp_path / "codes.csv", text=("code",), malformed="raise")
        assert table.rows_read == 2
