"""What the terminal says of notes: what was cut, what sizes there are, and never their text."""

from __future__ import annotations

import csv
import json

import malformed_notes
import pytest
from malformed_notes import CANARY, write_malformed

from ehr_course.models.pointer_generator import PointerGeneratorConfig

N = 30


@pytest.fixture
def long_notes(tmp_path):
    """30 pairs; 3 notes have more than 20 words, and 1 summary more than 8."""
    path = tmp_path / "notes.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dialogue", "note", "subject_id"])
        for n in range(N):
            more = " and a cough" * (5 if n < 3 else 0)
            after = " and rest and sleep and water" * (n == 7)
            writer.writerow(
                [
                    f"a patient came with a fever of the word{n} kind{more} today",
                    f"fever word{n} treated now{after}",
                    n,
                ]
            )
    return path


LIMITS = ("--max-source", 20, "--max-target", 8, "--min-count", 1)
CUT = (
    "3 of 30 notes are longer than 20 tokens: each was cut there, and what follows is not read. "
    "To keep more, give a higher --max-source.\n"
    "1 of 30 summaries is longer than 8 tokens: each was cut there, and what follows is not "
    "learned. To keep more, give a higher --max-target.\n"
)


def test_prepare_says_how_many_notes_it_cut_and_which_option_keeps_more(
    ehr_course, long_notes, tmp_path
):
    out = tmp_path / "out"
    done = ehr_course("prepare", "--notes", long_notes, "--out", out, *LIMITS)
    assert done.exit_code == 0, done.output
    assert CUT in done.stdout
    result = json.loads((out / "run.json").read_text(encoding="utf-8"))["result"]
    assert (result["cut_notes"], result["cut_summaries"]) == (3, 1)
    assert "subject_id" not in done.stdout


def test_prepare_says_nothing_of_cuts_where_nothing_was_cut(ehr_course, long_notes, tmp_path):
    done = ehr_course("prepare", "--notes", long_notes, "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert "longer than" not in done.stdout


def test_quiet_says_nothing_of_cuts(ehr_course, long_notes, tmp_path):
    done = ehr_course("prepare", "--notes", long_notes, "--out", tmp_path / "out", *LIMITS, "-q")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_train_and_summarize_say_what_the_model_does_not_read(ehr_course, long_notes, tmp_path):
    made, run, out = tmp_path / "made", tmp_path / "run", tmp_path / "s.csv"
    shares = ("--validation", 0, "--test", 0)
    assert (
        ehr_course("prepare", "--notes", long_notes, "--out", made, *LIMITS, *shares).exit_code
        == 0
    )
    done = ehr_course("train", made, "--out", run, "--steps", 1)
    assert done.exit_code == 0, done.output
    assert (
        "3 of 30 notes are longer than 20 tokens: each was cut there, and what follows is not "
        "read. To keep more, give 'ehr-course prepare' a higher --max-source.\n"
    ) in done.stdout
    # The model reads as much as its notes were prepared with.
    config = PointerGeneratorConfig.from_pretrained(run / "model")
    assert (config.max_source, config.max_target) == (20, 8)
    done = ehr_course("summarize", run, long_notes, "--out", out, "--max-length", 3, "--beams", 1)
    assert done.exit_code == 0, done.output
    assert done.stderr == (
        "Warning: 3 of 30 notes are longer than 20 tokens, the most that this model reads: what "
        "follows was not read. To read more, give 'ehr-course prepare' a higher --max-source, and "
        "train again.\n"
    )
    about = json.loads((tmp_path / "s.run.json").read_text(encoding="utf-8"))
    assert about["result"]["cut_notes"] == 3
    # The notes are the dialogues, and the notes beside them the references.
    assert "rougeL" in done.stdout


# ------------------------------------------------------------------ sizes


def test_the_help_offers_each_kind_of_data_its_own_sizes(ehr_course, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    text = " ".join(ehr_course("train", "--help").stdout.replace("│", " ").split())
    assert "Size of the model: narrow (for records alone), tiny, small or full." in text
    assert "[narrow|" not in text


def test_a_size_of_neither_kind_is_wrong_usage(ehr_course, prepared, tmp_path):
    done = ehr_course("train", prepared, "--out", tmp_path / "out", "--profile", "huge")
    assert done.exit_code == 2


# ------------------------------------------------------------------ what is never shown


@pytest.mark.parametrize("name", malformed_notes.NAMES)
def test_no_command_shows_the_text_of_a_note(ehr_course, notes_run, tmp_path, capfd, caplog, name):
    path, out = write_malformed(tmp_path, name), tmp_path / "out"
    shares = ("--validation", 0, "--test", 0)
    columns = ("--note-column", "note", "--summary-column", "summary")
    search = ("--beams", 1, "--max-length", 2)
    commands = [
        ("prepare", "--notes", path, "--out", out, *shares),
        ("prepare", "--notes", path, "--out", out / "b", *shares, *columns),
        ("summarize", notes_run, path, "--out", tmp_path / "s.csv", *search),
        ("summarize", notes_run, path, "--out", tmp_path / "t.csv", *search, *columns),
    ]
    said = [ehr_course(*command).output for command in commands]
    assert CANARY.lower() not in "".join([*said, *capfd.readouterr(), caplog.text]).lower()


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        ("words", "train: pair 30, note: the text has no word. "),
        ("pieces", "train: pair 30, note: the text has no piece that is known. "),
    ],
)
def test_a_note_that_cannot_be_read_is_named_and_not_shown(
    ehr_course, long_notes, tmp_path, tokenizer, said
):
    invisible = "\u200b" * 60
    with long_notes.open("a", encoding="utf-8") as file:
        file.write(f"{invisible},fever word5 treated,{CANARY} came\n")
    done = ehr_course(
        *("prepare", "--notes", long_notes, "--out", tmp_path / "out", "--min-count", 1),
        *("--tokenizer", tokenizer, "--vocabulary", 40, "--validation", 0, "--test", 0),
    )
    assert done.exit_code == 1
    assert done.stderr.startswith(said)
    assert CANARY not in done.output and "\u200b" not in done.output
