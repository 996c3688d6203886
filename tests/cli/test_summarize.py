"""`ehr-course summarize`: a summary for every note, scored where there are references."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from ehr_course.evaluation.summaries import rouge
from ehr_course.generation.beam_search import BeamSettings
from ehr_course.generation.summaries import summarize
from ehr_course.models.saved import load_model
from ehr_course.sources.synthetic import make_cohort, make_notes

PAIRS = make_notes(make_cohort(9, seed=7), seed=7)
SHORT = ("--max-length", 6, "--beams", 2)


@pytest.fixture
def notes(tmp_path) -> Path:
    """Nine notes with their references in a CSV; the fourth of ten rows is blank."""
    path = tmp_path / "notes.csv"
    rows = [(pair.subject_id, pair.note, pair.summary) for pair in PAIRS]
    rows.insert(3, (1, "  ", "no note"))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["SUBJECT_ID", "Note", "summary"])
        writer.writerows(rows)
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def expected(run: Path, **settings: int) -> list[str]:
    loaded = load_model(run / "model")
    texts = [pair.note for pair in PAIRS]
    found = summarize(loaded.model, loaded.tokenizer, texts, settings=BeamSettings(**settings))
    return [summary.text for summary in found]


def test_each_note_has_its_summary_and_the_rouge_of_all_is_printed(
    ehr_course, notes_run, notes, tmp_path
):
    out = tmp_path / "summaries.csv"
    done = ehr_course("summarize", notes_run, notes, "--out", out, *SHORT)
    assert done.exit_code == 0
    assert "1 rows without a note were left out" in done.stderr
    texts = expected(notes_run, max_length=6, beams=2)
    assert rows_of(out) == [
        {"line": str(line), "subject_id": str(pair.subject_id), "summary": text}
        for line, pair, text in zip((2, 3, 4, 6, 7, 8, 9, 10, 11), PAIRS, texts, strict=True)
    ]
    scores = rouge(texts, [pair.summary for pair in PAIRS])
    assert f"rougeL {scores['rougeL']:.3f}" in done.stdout
    about = json.loads((tmp_path / "summaries.run.json").read_text(encoding="utf-8"))
    assert about["result"] == {"notes": 9, "blank": 1, "cut_notes": 0, **scores}
    assert about["settings"]["beams"] == 2


def test_parquet_notes_without_references(ehr_course, notes_run, tmp_path):
    path, out = tmp_path / "notes.parquet", tmp_path / "s.csv"
    pl.DataFrame({"Input": [pair.note for pair in PAIRS]}).write_parquet(path)
    done = ehr_course("summarize", notes_run, path, "--out", out, *SHORT)
    assert done.exit_code == 0
    assert "rouge" not in done.stdout
    found = rows_of(out)
    assert [row["row"] for row in found] == [str(n) for n in range(1, 10)]
    assert [row["summary"] for row in found] == expected(notes_run, max_length=6, beams=2)


def test_columns_of_other_names(ehr_course, notes_run, notes, tmp_path):
    other = tmp_path / "other.csv"
    text = notes.read_text(encoding="utf-8")
    other.write_text(text.replace("Note,summary", "Text,Gold", 1), encoding="utf-8")
    out, columns = tmp_path / "s.csv", ("--note-column", "TEXT", "--summary-column", "gold")
    done = ehr_course("summarize", notes_run, other, "--out", out, *SHORT, *columns)
    assert done.exit_code == 0
    assert "rougeL" in done.stdout


def test_the_same_run_again_writes_the_same_bytes(ehr_course, notes_run, notes, tmp_path):
    ehr_course("summarize", notes_run, notes, "--out", tmp_path / "one.csv", *SHORT)
    done = ehr_course("repeat", tmp_path / "one.run.json", "--out", tmp_path / "two.csv")
    assert done.exit_code == 0
    for name in ("{}.csv", "{}.run.json"):
        one, two = ((tmp_path / name.format(n)).read_bytes() for n in ("one", "two"))
        assert one == two


# ------------------------------------------------------------------ bad input


def refused(ehr_course, *arguments: object) -> str:
    result = ehr_course("summarize", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    return result.stderr


def test_a_file_that_is_there_is_replaced_on_request_alone(ehr_course, notes_run, notes, tmp_path):
    out = tmp_path / "s.csv"
    out.write_text("mine", encoding="utf-8")
    said = refused(ehr_course, notes_run, notes, "--out", out)
    assert said == f"{out}: this file exists already. Name another one, or give --overwrite.\n"
    assert out.read_text(encoding="utf-8") == "mine"
    done = ehr_course("summarize", notes_run, notes, "--out", out, *SHORT, "--overwrite")
    assert done.exit_code == 0
    assert len(rows_of(out)) == 9


def test_the_notes_are_never_replaced(ehr_course, notes_run, notes):
    said = refused(ehr_course, notes_run, notes, "--out", notes, "--overwrite")
    assert "which is read, would be replaced" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "subject_id,letter\n1,cough\n",
            "its columns do not say which of them holds the notes (found: ",
        ),
        ("note\n  \n\n", "notes.csv"),
        ("note,summary\n,empty\n", "column 'note': all 1 notes are blank"),
        ("", "the file is empty"),
        ("note;summary\na;b\n", "separated by semicolons, not by commas"),
    ],
)
def test_files_without_notes(ehr_course, notes_run, tmp_path, text, said):
    path = tmp_path / "notes.csv"
    path.write_text(text, encoding="utf-8")
    stderr = refused(ehr_course, notes_run, path, "--out", tmp_path / "s.csv")
    assert said in stderr
    assert not (tmp_path / "s.csv").exists()


def test_a_note_without_a_known_word_is_named_by_its_line(ehr_course, notes_run, tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text('note\n"fever and cough"\n"\u200b"\n', encoding="utf-8")
    said = refused(ehr_course, notes_run, path, "--out", tmp_path / "s.csv", "-q")
    assert said.startswith("notes.csv, line 3: ")


def test_a_column_that_is_not_there(ehr_course, notes_run, notes, tmp_path):
    said = refused(
        ehr_course, notes_run, notes, "--out", tmp_path / "s.csv", "--note-column", "letter"
    )
    assert "column 'letter' is missing (found: subject_id, note, summary)" in said


def test_a_model_of_patients_summarises_nothing(ehr_course, run, notes, tmp_path):
    said = refused(ehr_course, run, notes, "--out", tmp_path / "s.csv")
    assert "this model writes patients. Use it with: ehr-course generate" in said


def test_lengths_that_contradict_each_other(ehr_course, notes_run, notes, tmp_path):
    lengths = ("--min-length", 9, "--max-length", 3)
    said = refused(ehr_course, notes_run, notes, "--out", tmp_path / "s.csv", *lengths)
    assert said == "--max-length: 3 is out of range. Use --min-length or more.\n"


def test_a_missing_file_and_a_name_that_is_no_csv(ehr_course, notes_run, notes, tmp_path):
    said = refused(ehr_course, notes_run, tmp_path / "none.csv", "--out", tmp_path / "s.csv")
    assert "none.csv: there is no such file" in said
    said = refused(ehr_course, notes_run, notes, "--out", tmp_path / "s.txt")
    assert "this cannot be a CSV file" in said


def test_a_place_that_cannot_be_written_is_refused_before_the_work(ehr_course, tmp_path):
    (tmp_path / "file").touch()
    said = refused(ehr_course, "no-run", "no-notes.csv", "--out", tmp_path / "file" / "s.csv")
    assert said.startswith(f"{tmp_path / 'file' / 's.csv'}: the file cannot be made (")
