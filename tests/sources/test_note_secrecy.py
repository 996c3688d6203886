"""No message about a file of notes shows the text of a note, whatever is wrong with the file."""

from __future__ import annotations

import traceback

import malformed_notes
import pytest
from malformed_notes import CANARY, write_malformed

from ehr_course.errors import InputError
from ehr_course.sources.note_corpus import read_notes

COLUMNS = (
    {},
    {"note": "text", "summary": "label"},
    {"note": "note", "summary": "summary", "patient": "subject_id"},
)


@pytest.mark.parametrize("columns", COLUMNS, ids=["known", "others", "patient"])
@pytest.mark.parametrize("name", malformed_notes.NAMES)
def test_nothing_of_a_note_is_in_a_message_a_log_or_a_traceback(
    tmp_path, capfd, caplog, name, columns
):
    path, said = write_malformed(tmp_path, name), ""
    try:
        said = str(read_notes(path, **columns).report)
    except InputError as error:
        assert error.problem and error.remedy
        said = "".join([str(error), repr(error), *traceback.format_exception(error)])
    printed = "".join(capfd.readouterr())
    assert CANARY.lower() not in (said + printed + caplog.text).lower()


def test_the_canary_would_be_seen(tmp_path):
    shown = []
    for name in malformed_notes.NAMES:
        path = write_malformed(tmp_path, name)
        if not name.endswith((".gz", ".parquet", "packed.csv", "utf16.csv")):
            shown.append(CANARY.encode() in path.read_bytes())
    assert shown and all(shown)


def message(tmp_path, name: str) -> str:
    with pytest.raises(InputError) as refused:
        read_notes(write_malformed(tmp_path, name))
    return str(refused.value)


@pytest.mark.parametrize("name", ["list.csv", "object.csv", "lines.csv", "list.json"])
def test_json_is_told_from_a_table(tmp_path, name):
    assert message(tmp_path, name) == (
        f"{name}: this is JSON, not a table with a line of column names. Export it as CSV; or "
        "write one JSON object on each line, and name the file .jsonl."
    )


def test_a_file_without_a_header_is_told_so(tmp_path):
    assert message(tmp_path, "no_header_with_ids.csv") == (
        "no_header_with_ids.csv: it has none of the known pairs of columns, input, target or "
        "note, summary or dialogue, section_text or dialogue, note (found: 3 columns whose names "
        "are not shown, for they may be text of a note); its first line must hold the names of "
        "the columns, separated by commas. Name them with --note-column and --summary-column "
        "(note= and summary=), or as "
        'EHR_COURSE_NOTES_COLUMNS="dialogue,section_text".'
    )


def test_names_that_are_made_of_known_words_are_shown_beside_those_that_are_not(tmp_path):
    assert "(found: note and 1 column whose name is not shown, for it may be text of a note)" in (
        message(tmp_path, "name_beside_known_ones.csv")
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pretty.jsonl", "pretty.jsonl, line 1: this is not JSON. Write one JSON object on each"),
        ("cut.jsonl", "cut.jsonl, line 2: this is not JSON. Write one JSON object on each line"),
        ("deep.jsonl", "deep.jsonl, line 1: this is not JSON."),
        ("list.jsonl", "list.jsonl, line 1: it holds a list, not an object."),
        ("strings.jsonl", "strings.jsonl, line 1: it holds a text, not an object."),
        ("turns.jsonl", "turns.jsonl, line 1, column 'note': it holds a list, not text."),
        ("numbers.jsonl", "numbers.jsonl, line 1, column 'note': it holds a number, not text."),
        ("patient_lists.jsonl", "line 1, column 'subject_id': it holds a list, not text."),
        ("surrogate.jsonl", "column 'note': it holds half of a character (a lone surrogate)."),
        ("names_twice.jsonl", "line 1: two columns have the same name but for case."),
        ("latin1.jsonl", "latin1.jsonl, line 1: it is not UTF-8 text. Save the file as UTF-8."),
        ("cut.jsonl.gz", "cut.jsonl.gz: the file is cut: it ends before its end mark."),
        ("plain.jsonl.gz", "plain.jsonl.gz: this is not a sound gzip file."),
        ("xml.csv", "xml.csv: this is XML or HTML, not a CSV. Export the table as CSV."),
        ("rtf.csv", "rtf.csv: this is a text document (RTF), not a CSV."),
        (
            "text.parquet",
            "text.parquet: it is cut or not a parquet file that can be read. Export or copy it "
            "again.",
        ),
        ("lists.parquet", "lists.parquet, column 'note': it holds values of type List, not text."),
        ("too_many.csv", "too_many.csv, line 2: 3 values, where line 1 names 2 columns."),
        ("never_closed.csv", "line 2: a quotation mark is opened and never closed."),
    ],
)
def test_what_is_wrong_is_named_without_the_content(tmp_path, name, said):
    assert said in message(tmp_path, name)
