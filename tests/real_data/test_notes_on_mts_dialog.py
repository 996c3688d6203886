"""Reading and splitting MTS-Dialog, against the csv module's view of the same files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ehr_course.sources.cohort import Reason
from ehr_course.sources.note_corpus import (
    COLUMNS_VARIABLE,
    VARIABLE,
    choose_notes,
    read_notes,
    split_notes,
)

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "mts-dialog"
FILES = {
    "MTS-Dialog-TrainingSet.csv": (1201, 1200),
    "MTS-Dialog-ValidationSet.csv": (100, 100),
    "MTS-Dialog-TestSet-1-MEDIQA-Chat-2023.csv": (200, 200),
    "MTS-Dialog-TestSet-2-MEDIQA-Sum-2023.csv": (200, 200),
}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="MTS-Dialog is not at ../shared/data/mts-dialog"
)


def rows(name: str) -> list[tuple[str, str]]:
    with (FOLDER / name).open(encoding="utf-8-sig", newline="") as lines:
        return [
            (row["dialogue"].strip(), row["section_text"].strip()) for row in csv.DictReader(lines)
        ]


@pytest.mark.parametrize("name", FILES)
def test_the_pairs_are_those_of_the_csv_module(name):
    corpus = read_notes(FOLDER / name)
    assert [(pair.note, pair.summary) for pair in corpus.pairs] == list(dict.fromkeys(rows(name)))
    assert {pair.subject_id for pair in corpus.pairs} == {None}


@pytest.mark.parametrize(("name", "read", "used"), [(name, *FILES[name]) for name in FILES])
def test_every_row_is_read_and_accounted_for(name, read, used):
    (table,) = read_notes(FOLDER / name).report.tables
    assert (table.rows_read, table.rows_used) == (read, used) == (len(rows(name)), used)
    assert table.rows_dropped == read - used


def test_with_shortest_lengths_rows_are_dropped_for_three_reasons():
    name = "MTS-Dialog-TrainingSet.csv"
    assert read_notes(FOLDER / name, min_note=50, min_summary=10).report.dropped == {
        (name, Reason.SHORT_NOTE): 7,
        (name, Reason.SHORT_SUMMARY): 75,
        (name, Reason.SAME_ROW): 1,
    }


def test_without_shortest_lengths_only_repeated_rows_are_dropped():
    name = "MTS-Dialog-TrainingSet.csv"
    corpus = read_notes(FOLDER / name)
    assert corpus.report.dropped == {(name, Reason.SAME_ROW): 1}


def test_no_dialogue_is_in_two_parts():
    pairs = read_notes(FOLDER / "MTS-Dialog-TrainingSet.csv").pairs
    parts = split_notes(pairs)
    assert sorted(map(id, pairs)) == sorted(id(pair) for part in parts for pair in part)
    notes = [{pair.note for pair in part} for part in parts]
    assert sum(map(len, notes)) == len(set.union(*notes))
    assert [len(part) for part in parts] == pytest.approx([960, 120, 120], abs=3)


def test_a_lesson_reads_it_where_the_environment_names_it(monkeypatch: pytest.MonkeyPatch):
    path = FOLDER / "MTS-Dialog-ValidationSet.csv"
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.delenv(COLUMNS_VARIABLE, raising=False)
    assert choose_notes(10, seed=0) == list(read_notes(path).pairs)
