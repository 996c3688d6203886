"""Notes with summaries: from a CSV, JSON Lines or parquet file, or the embedded ones.

Known layouts: MIMIC-IV-BHC (PhysioNet; input, target), MTS-Dialog (Ben Abacha et al., EACL 2023;
dialogue, section_text) and ACI-Bench (Yim et al., Scientific Data 2023; dialogue, note).
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.sources.cohort import LoadReport, Reason
from ehr_course.sources.note_files import NoteFile, found, is_header, open_note_file
from ehr_course.sources.splits import check_fractions
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.sources.tables import check_is_header

VARIABLE = "EHR_COURSE_NOTES"
"""The environment variable that names a file with notes and summaries."""

COLUMNS_VARIABLE = "EHR_COURSE_NOTES_COLUMNS"
"""The environment variable that names its two columns, such as "dialogue,section_text"."""

LAYOUTS = (
    ("input", "target"),
    ("note", "summary"),
    ("dialogue", "section_text"),
    ("dialogue", "note"),
)
"""The columns of note and summary that are recognised without being named."""

_NAME_THEM = (
    "Name them with --note-column and --summary-column (note= and summary=), or as "
    f'{COLUMNS_VARIABLE}="dialogue,section_text".'
)
_PATIENT_COLUMNS = ("subject_id", "note_id")  # the first that is there counts
_BHC_NOTE_ID = re.compile(r"(\d+)-[A-Z]+-\d+")  # patient, kind of note, running number
_VISIBLE = r"[^\s\x1c-\x1f]"  # what str.isspace does not hold for


@dataclass(frozen=True, slots=True, repr=False)
class NoteCorpus:
    """Notes with summaries in the order of the file, and the account of every row."""

    pairs: tuple[NotePair, ...]
    report: LoadReport

    def __repr__(self) -> str:
        patients = {pair.subject_id for pair in self.pairs} - {None}
        of = f" of {len(patients):,} patients" if patients else ""
        return f"NoteCorpus({len(self.pairs):,} notes with summaries{of})"


class NoteSplit(NamedTuple):
    """The parts of a corpus; no patient and no note is in two of them."""

    train: list[NotePair]
    validation: list[NotePair]
    test: list[NotePair]


def read_notes(
    path: str | Path,
    *,
    note: str | None = None,
    summary: str | None = None,
    patient: str | None = None,
    min_note: int = 0,
    min_summary: int = 0,
) -> NoteCorpus:
    """Read notes with summaries from a CSV, JSON Lines or parquet file, one pair a row.

    A CSV is UTF-8 text separated by commas, perhaps gzipped; quoted values may hold commas and
    line breaks. JSON Lines (.jsonl or .jsonl.gz) has an object on each line, with the columns as
    names. Column names may be in upper or lower case. White space around a text is removed. No
    error quotes what could be the text of a note.

    Args:
        path: .parquet, .jsonl or .jsonl.gz; any other name is read as a CSV.
        note: the column of the notes; without it and summary, one of LAYOUTS.
        summary: the column of the summaries.
        patient: the column of the patient, who is unknown where it is blank; by default
            subject_id, or else note_id as MIMIC-IV writes it ("10000032-DS-21": the first number).
        min_note, min_summary: the fewest characters of a note and a summary; empty ones are always
            dropped. The summariser's source takes 50 and 10 for MIMIC-IV-BHC.

    Returns:
        at least one pair, and a report in which every row is used or dropped for a reason.
    """
    path = Path(path)
    file = open_note_file(path)
    texts, whose = _choose_columns(file, note, summary, patient)
    rows = file.read(texts, whose)
    source, target = map(pl.col, texts)
    no_note, no_summary = (~text.str.contains(_VISIBLE) for text in (source, target))
    rows.drop(no_note & no_summary, Reason.NO_TEXT)
    rows.drop(no_note, Reason.NO_NOTE)
    rows.drop(no_summary, Reason.NO_SUMMARY)
    rows.drop(source.str.len_chars() < min_note, Reason.SHORT_NOTE)
    rows.drop(target.str.len_chars() < min_summary, Reason.SHORT_SUMMARY)
    rows.drop_repeated_rows((*texts, *whose))
    report = LoadReport((rows.account(),))
    if rows.frame.is_empty():
        why = "; ".join(f"{count} {reason}" for (_, reason), count in report.dropped.items())
        raise InputError(
            path.name,
            "",
            f"no note is left of {rows.rows_read} rows ({why})",
            "Lower min_note and min_summary (--min-note, --min-summary), or name other columns.",
        )
    owners = _patients(rows.frame, *whose)
    pairs = zip(*rows.frame.select(texts), owners, strict=True)
    return NoteCorpus(tuple(NotePair(*pair) for pair in pairs), report)


def split_notes(
    pairs: Sequence[NotePair],
    *,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    seed: int = 42,
) -> NoteSplit:
    """Split notes at random into parts for training, validation and test.

    All notes of a patient go to one part, and so do notes that differ only in white space and
    capital letters; notes tied by a chain of such bonds form a group, and groups are what is
    drawn. The parts depend on the seed and the set of notes, not on their order, which each part
    keeps.

    Args:
        pairs: notes of known or unknown patients.
        fractions: of the groups, for training, validation and test; at least 0, 1 in all.
        seed: of the draw. The default is that of the summariser's source.

    >>> pairs = [NotePair(f"note {n // 2}", "summary") for n in range(20)]
    >>> [len(part) for part in split_notes(pairs)]
    [16, 2, 2]
    """
    check_fractions(fractions)
    groups = _groups(pairs)
    shuffled = np.random.default_rng(seed).permutation(len(groups))
    ends = [round(math.fsum(fractions[: part + 1]) * len(groups)) for part in range(2)]
    parts = [
        sorted(place for group in some for place in groups[group])
        for some in np.split(shuffled, ends)
    ]
    for part, fraction in zip(parts, fractions, strict=True):
        if fraction > 0 and not part:
            raise InputError(
                "notes",
                "",
                f"{len(groups)} different notes or patients are too few for a part of "
                f"{fraction:g}",
                "Take more notes, or a larger fraction.",
            )
    return NoteSplit(*([pairs[place] for place in part] for part in parts))


def real_notes() -> Path | None:
    """The file with real notes, or None if the variable is unset."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def choose_notes(embedded: int, *, seed: int) -> list[NotePair]:
    """The notes of the file that EHR_COURSE_NOTES names, or so many embedded ones, one a patient.

    EHR_COURSE_NOTES_COLUMNS names the columns of notes and summaries, as "dialogue,section_text",
    unless they are one of LAYOUTS.
    """
    path = real_notes()
    if path is None:
        return make_notes(make_cohort(embedded, seed=seed), seed=seed)
    named = os.environ.get(COLUMNS_VARIABLE)
    if not named:
        return list(read_notes(path).pairs)
    names = [name.strip() for name in named.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(
            COLUMNS_VARIABLE,
            "",
            f"{named!r} is not two column names",
            'Name the columns of notes and summaries, as "dialogue,section_text".',
        )
    return list(read_notes(path, note=names[0], summary=names[1]).pairs)


def _choose_columns(
    file: NoteFile, note: str | None, summary: str | None, patient: str | None
) -> tuple[tuple[str, str], tuple[str, ...]]:
    """The columns of notes and summaries, and the patient's, if any."""
    if (note is None) != (summary is None):
        raise InputError(
            "read_notes",
            "note and summary (--note-column, --summary-column)",
            "one is given, the other is not",
            "Name both columns, or neither.",
        )
    if note is None or summary is None:
        note, summary = _known_layout(file)
    texts = (note.strip().lower(), summary.strip().lower())
    if texts[0] == texts[1]:
        raise InputError(
            "read_notes",
            "note and summary (--note-column, --summary-column)",
            f"both are the column {note!r}",
            "Name two columns.",
        )
    whose = () if patient is None else (patient.strip().lower(),)
    missing = [name for name in (*texts, *whose) if name not in file.columns]
    if missing:
        raise wrong_columns(
            file,
            f"column {' and '.join(map(repr, missing))} is missing",
            "Name the columns with --note-column, --summary-column and --patient-column (note=, "
            "summary= and patient=), in upper or lower case.",
        )
    return texts, whose or tuple(c for c in _PATIENT_COLUMNS if c in file.columns)[:1]


def _known_layout(file: NoteFile) -> tuple[str, str]:
    there = [layout for layout in LAYOUTS if set(layout) <= set(file.columns)]
    if len(there) == 1:
        return there[0]
    if there:
        raise InputError(
            file.path.name,
            "",
            f"its columns are those of {len(there)} known layouts ({found(file.columns)})",
            _NAME_THEM,
        )
    known = " or ".join(", ".join(layout) for layout in LAYOUTS)
    raise wrong_columns(file, f"it has none of the known pairs of columns, {known}", _NAME_THEM)


def wrong_columns(file: NoteFile, problem: str, remedy: str) -> InputError:
    """Say which columns are missing, and which there are instead."""
    check_is_header(file.path.name, "line 1", file.columns)
    problem += f" ({found(file.columns)})"
    if file.kind == "csv" and not is_header(file.columns):
        problem += "; its first line must hold the names of the columns, separated by commas"
    return InputError(file.path.name, "", problem, remedy)


def _patients(frame: pl.DataFrame, column: str | None = None) -> list[int | str | None]:
    if column is None:
        return [None] * frame.height
    values: list[str] = frame[column].to_list()
    if column == "note_id":
        matches = map(_BHC_NOTE_ID.fullmatch, values)
        values = [match[1] if match else "" for match in matches]
    # "007" stays text: it may not be the patient "7".
    numbers = (v.isascii() and v.isdigit() and (v == "0" or v[0] != "0") for v in values)
    return [int(v) if n else v or None for v, n in zip(values, numbers, strict=True)]


def _groups(pairs: Sequence[NotePair]) -> list[list[int]]:
    """The positions of notes that must stay together, groups in the order of their texts."""
    if not pairs:
        return []
    texts = [" ".join(pair.note.split()).casefold() for pair in pairs]
    # A graph of notes, and the texts and patients that tie them.
    ties: dict[Hashable, int] = {}
    edges = []
    for place, (pair, text) in enumerate(zip(pairs, texts, strict=True)):
        edges.append((place, ties.setdefault(("note", text), len(pairs) + len(ties))))
        if pair.subject_id is not None:
            tie = ties.setdefault(("patient", pair.subject_id), len(pairs) + len(ties))
            edges.append((place, tie))
    size = len(pairs) + len(ties)
    graph = coo_array((np.ones(len(edges)), np.array(edges).T), shape=(size, size))
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(connected_components(graph)[1][: len(pairs)].tolist()):
        groups[group].append(place)
    return sorted(groups.values(), key=lambda group: min(texts[place] for place in group))
