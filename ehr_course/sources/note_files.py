"""Files with notes: CSV, JSON Lines or parquet, read so that no message shows a note.

A message shows a column's name only if it is made of words that name columns: in a file without a
header, the first patient's text stands where the names should be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.row_filter import RowFilter
from ehr_course.sources.tables import (
    LONGEST_LINE,
    check_not_lfs_pointer,
    parquet_columns,
    read_header,
    read_lines,
    read_parquet,
    read_table,
)

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
_OTHER_FORMATS = {
    b"PAR1": ("a parquet file, not a CSV", "Rename it to end in .parquet."),
    b"PK\x03\x04": ("a spreadsheet or zip file, not a CSV", "Export it as CSV, or unpack it."),
    b"%PDF": ("a PDF, not a CSV", "Export the table as CSV."),
    b"{\\rtf": ("a text document (RTF), not a CSV", "Export the table as CSV."),
    b"\xd0\xcf\x11\xe0": ("an old office document, not a CSV", "Export the table as CSV."),
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
        read = {"csv": self._csv, "jsonl": self._json_lines, "parquet": self._parquet}[self.kind]
        rows = read(wanted, texts)
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

    def _csv(self, wanted: list[str], texts: Sequence[str]) -> RowFilter:
        return read_table(self.path, text={name: name for name in wanted}, malformed="drop")

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
        name = self.path.name
        return RowFilter(name, frame, file=name, place="line {}".format, malformed="drop")

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
        frame = _of_parquet(file, lambda: read_parquet(self.path, spelt))
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
        frame = _of_parquet(
            file,
            lambda: frame.with_columns(
                pl.col(name).cast(pl.String).fill_null("").str.strip_chars() for name in wanted
            ),
        ).with_row_index("line", offset=1)
        return RowFilter(file, frame, file=file, place="row {}".format, malformed="drop")


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
        kind, header = (
            "parquet",
            list(_of_parquet(path.name, lambda: parquet_columns(path))),
        )
    elif name.endswith((".jsonl", ".jsonl.gz")):
        kind, header = "jsonl", _names_in_objects(path)
    else:
        _check_is_csv(path)
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


def is_header(header: Sequence[str]) -> bool:
    """Whether every name is made of words that name columns."""
    return all(_names_a_column(name) for name in header)


def _names_a_column(name: str) -> bool:
    words = re.split(r"[_-]", name.strip().lower())
    return len(words) <= 4 and all(word in _NAMING or not word for word in words)


# ------------------------------------------------------------------ what is no table


def _check_is_csv(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(4096)
    for mark, (what, remedy) in _OTHER_FORMATS.items():
        if start.startswith(mark):
            raise InputError(path.name, "", f"this is {what}", remedy)
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        raise InputError(
            path.name,
            "",
            "this is JSON, not a table with a line of column names",
            "Export it as CSV; or write one JSON object on each line, and name the file .jsonl.",
        )
    if text.startswith(b"<"):
        raise InputError(
            path.name, "", "this is XML or HTML, not a CSV", "Export the table as CSV."
        )


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


def _of_parquet(file: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise InputError(file, "", "it cannot be read as parquet", "Export or copy it again.")
