"""Notes with summaries: from a CSV, JSON Lines or parquet file, or the embedded ones.

Known layouts: MIMIC-IV-BHC (PhysioNet; input, target), MTS-Dialog (Ben Abacha et al., EACL 2023;
dialogue, section_text) and ACI-Bench (Yim et al., Scientific Data 2023; dialogue, note).

No message shows a note. It shows a column's name only if that is made of words that name columns:
in a file without a header, the first patient's text stands where the names should be.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.sources.cohort import LoadReport, Reason
from ehr_course.sources.row_filter import RowFilter
from ehr_course.sources.splits import draw_parts
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.sources.tables import (
    LONGEST_LINE,
    check_is_header,
    check_not_lfs_pointer,
    parquet_columns,
    read_header,
    read_lines,
    read_parquet,
    read_table,
)

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
    groups = _groups(pairs)
    drawn = draw_parts(len(groups), fractions, seed, of="different notes or patients")
    parts = [sorted(place for group in part for place in groups[group]) for part in drawn]
    return NoteSplit(*([pairs[place] for place in part] for part in parts))


def real_notes() -> Path | None:
    """The file with real notes, or None if the variable is unset."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def choose_notes(embedded: int, *, seed: int) -> list[NotePair]:
    """The notes of the file that EHR_COURSE_NOTES names, or embedded ones, one a patient.

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
        raise file.wrong_columns(
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
    raise file.wrong_columns(f"it has none of the known pairs of columns, {known}", _NAME_THEM)


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


# ------------------------------------------------------------------ files with notes

_NAMING_WORDS = """
    abstract admission age article assessment body brief category chart chartdate charttime
    chief code comment complaint content context conversation course data dataset date
    description diagnosis dialog dialogue discharge doc document encounter file findings full
    gender gold hadm history hospital hpi id impression index input instruction label labels
    language length letter long medical name note notes number output patient person plan
    prompt question radiology raw reference report response row section sex short source
    speciality specialty split stay storetime subject summary tag target text time title
    transcript translation turn type value visit
"""
"""Column names made of these words are shown; any other name could be a patient's text."""

_NAMING = frozenset(_NAMING_WORDS.split())

_NAMES_SHOWN = 12
_OBJECTS_LOOKED_AT = 100
_JSON = (
    "JSON, not a table with a line of column names",
    "Export it as CSV; or write one JSON object on each line, and name the file .jsonl.",
)
_OTHER_FORMATS = {
    b"PAR1": ("a parquet file, not a CSV", "Rename it to end in .parquet."),
    b"PK\x03\x04": ("a spreadsheet or zip file, not a CSV", "Export it as CSV, or unpack it."),
    b"%PDF": ("a PDF, not a CSV", "Export the table as CSV."),
    b"{\\rtf": ("a text document (RTF), not a CSV", "Export the table as CSV."),
    b"\xd0\xcf\x11\xe0": ("an old office document, not a CSV", "Export the table as CSV."),
    b"<": ("XML or HTML, not a CSV", "Export the table as CSV."),
    b"{": _JSON,
    b"[": _JSON,
}
_ON_EACH_LINE = 'Write one JSON object on each line, as {"note": "...", "summary": "..."}.'


@dataclass(frozen=True)
class NoteFile:
    """A file with notes of which only the column names have been read.

    Attributes:
        columns: in lower case; of JSON Lines, the names in the first hundred objects.
        spelling: how the file spells each column.
    """

    path: Path
    kind: Literal["csv", "jsonl", "parquet"]
    columns: tuple[str, ...]
    spelling: dict[str, str]

    @property
    def place(self) -> str:
        """What errors call a place: "line", or "row" of a parquet file, both from 1."""
        return "row" if self.kind == "parquet" else "line"

    def read(self, texts: Sequence[str], others: Sequence[str] = ()) -> RowFilter:
        """Read columns as stripped text, "" where missing; others may hold numbers."""
        wanted = list(dict.fromkeys((*texts, *others)))
        if self.kind == "csv":
            rows = read_table(self.path, text={name: name for name in wanted}, malformed="drop")
        elif self.kind == "jsonl":
            rows = self._json_lines(wanted, texts)
        else:
            rows = self._parquet(wanted, texts)
        for name in texts:
            too_long = rows.frame.filter(pl.col(name).str.len_bytes() > LONGEST_LINE)["line"]
            if len(too_long):
                raise InputError(
                    self.path.name,
                    f"{self.place} {too_long[0]}",
                    f"the text is longer than {LONGEST_LINE:,} bytes, the most that is read",
                    "Cut it into several.",
                )
        return rows

    def _json_lines(self, wanted: list[str], texts: Sequence[str]) -> RowFilter:
        columns: dict[str, list[str]] = {name: [] for name in wanted}
        lines = []
        for number, found in _objects(self.path):
            lines.append(number)
            values = {name.strip().lower(): value for name, value in found.items()}
            for name, kept in columns.items():
                kept.append(self._json_text(number, name, values.get(name), name in texts))
        frame = pl.DataFrame(
            {"line": pl.Series(lines, dtype=pl.UInt32)}
            | {name: pl.Series(kept, dtype=pl.String) for name, kept in columns.items()}
        ).with_columns(pl.col(name).str.strip_chars() for name in wanted)
        return RowFilter(self.path.name, frame, malformed="drop")

    def _json_text(self, line: int, column: str, value: Any, is_text: bool) -> str:
        if value is None:
            return ""
        if not is_text and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_text and isinstance(value, int | float):
            return str(value)
        where = f"line {line}, column {column!r}"
        if not isinstance(value, str):
            raise InputError(
                self.path.name,
                where,
                f"it holds {_json_kind(value)}, not text",
                "Write the text as one JSON string.",
            )
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                self.path.name,
                where,
                "it holds half of a character (a lone surrogate)",
                "Write the text as UTF-8 again.",
            ) from None
        return value

    def _parquet(self, wanted: list[str], texts: Sequence[str]) -> RowFilter:
        file = self.path.name
        spelt = [self.spelling[name] for name in wanted]
        frame = read_parquet(self.path, spelt)
        if frame.is_empty():
            raise InputError(file, "", "it has columns but no rows", "Export or copy it again.")
        frame = frame.rename({self.spelling[name]: name for name in wanted})
        for name in wanted:
            kind = frame.schema[name]
            allowed = (pl.String, pl.Categorical, pl.Enum, pl.Null)
            if kind not in allowed and (name in texts or kind.is_nested()):
                raise InputError(
                    file,
                    f"column {self.spelling[name]!r}",
                    f"it holds values of type {kind.base_type()}, not text",
                    "Name the columns that hold the notes and the summaries.",
                )
            try:
                as_text = frame[name].cast(pl.String, strict=False)
            except pl.exceptions.ComputeError:
                raise InputError(
                    file,
                    f"column {self.spelling[name]!r}",
                    "it holds bytes that are not UTF-8 text",
                    "Write the column again, as text.",
                ) from None
            frame = frame.with_columns(as_text.fill_null("").str.strip_chars())
        frame = frame.with_row_index("line", offset=1)
        return RowFilter(file, frame, place="row {}".format, malformed="drop")

    def wrong_columns(self, problem: str, remedy: str) -> InputError:
        """The error that says which columns are missing, and which there are instead."""
        check_is_header(self.path.name, "line 1", self.columns)
        problem += f" ({found(self.columns)})"
        if self.kind == "csv" and not all(map(_names_a_column, self.columns)):
            problem += "; its first line must hold the names of the columns, separated by commas"
        return InputError(self.path.name, "", problem, remedy)


def open_note_file(path: str | Path) -> NoteFile:
    """Find out the kind of a file by its name, and its columns.

    A .jsonl or .jsonl.gz file has an object on each line; .parquet is parquet; any other name is a
    CSV: UTF-8 text separated by commas, perhaps .gz, with column names in its first line.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(path, "", "there is no such file", "Check the path.")
    if path.is_dir():
        raise InputError(path, "", "this is a folder", "Name the file with the notes.")
    check_not_lfs_pointer(path)
    name = path.name.lower()
    kind: Literal["csv", "jsonl", "parquet"]
    if name.endswith(".parquet"):
        kind, header = "parquet", list(parquet_columns(path))
    elif name.endswith((".jsonl", ".jsonl.gz")):
        kind, header = "jsonl", _names_in_objects(path)
    else:
        with path.open("rb") as file:
            start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        for mark, (what, remedy) in _OTHER_FORMATS.items():
            if start.startswith(mark):
                raise InputError(path.name, "", f"this is {what}", remedy)
        kind, header = "csv", read_header(path)
    spelling: dict[str, str] = {}
    for spelt in header:
        other = spelling.setdefault(spelt.strip().lower(), spelt)
        if kind == "parquet" and other != spelt:
            raise InputError(
                path.name,
                "",
                f"two columns have the same name but for case ({found(header)})",
                "Keep one of them.",
            )
    return NoteFile(path, kind, tuple(spelling), spelling)


def found(header: Sequence[str]) -> str:
    """Name the columns, except those whose names could be a patient's text."""
    shown = [name.strip() for name in header if _names_a_column(name)]
    hidden = len(header) - len(shown)
    if not hidden:
        more = f", ... ({len(shown)} in all)" if len(shown) > _NAMES_SHOWN else ""
        return f"found: {', '.join(shown[:_NAMES_SHOWN])}{more}"
    before = f"{', '.join(shown[:_NAMES_SHOWN])} and " if shown else ""
    columns = (
        "column whose name is not shown, for it"
        if hidden == 1
        else ("columns whose names are not shown, for they")
    )
    return f"found: {before}{hidden} {columns} may be text of a note"


def _names_a_column(name: str) -> bool:
    words = re.split(r"[_-]", name.strip().lower())
    return len(words) <= 4 and all(word in _NAMING or not word for word in words)


# ------------------------------------------------------------------ JSON Lines and parquet


def _names_in_objects(path: Path) -> list[str]:
    names: dict[str, None] = {}
    empty = True
    for number, some in islice(_objects(path), _OBJECTS_LOOKED_AT):
        empty = False
        folded = {name.strip().lower() for name in some}
        if len(folded) < len(some):
            raise InputError(
                path.name,
                f"line {number}",
                "two columns have the same name but for case",
                "Keep one of them.",
            )
        names |= dict.fromkeys(some)
    if empty:
        raise InputError(path.name, "", "the file is empty", "Export or copy it again.")
    return list(names)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each object of a JSON Lines file, with the number of its line."""
    for number, line in read_lines(path):
        if number == 1:
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(path.name, "", "it is UTF-16 text", "Save it as UTF-8.")
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        yield number, _object(path.name, number, line)


def _object(file: str, number: int, line: bytes) -> dict[str, Any]:
    place = f"line {number}"
    problem = None
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        problem, remedy = "it is not UTF-8 text", "Save the file as UTF-8."
    except (ValueError, RecursionError):
        problem, remedy = "this is not JSON", _ON_EACH_LINE
    # Raised outside the handlers: the error handled there holds the text of the line.
    if problem is not None:
        raise InputError(file, place, problem, remedy)
    if not isinstance(value, dict):
        raise InputError(
            file, place, f"it holds {_json_kind(value)}, not an object", _ON_EACH_LINE
        )
    return value


def _json_kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "nothing" if value is None else kinds.get(type(value), "a number")
