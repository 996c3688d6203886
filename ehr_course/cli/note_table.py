"""The notes of a file that are to be summarised, each with what tells it from the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.notes import LAYOUTS
from ehr_course.sources.tables import Table, read_header

ID_COLUMNS = ("note_id", "subject_id")
"""Columns that are carried over to the summaries, where the file has them."""


@dataclass(frozen=True)
class NoteTable:
    """Notes as a file has them.

    Attributes:
        notes: the texts.
        references: the summary that somebody wrote of each, "" where there is none; None when
            the file has no such column.
        ids: "line" (of a CSV) or "row" (of a parquet file, from 1) of each note, and the columns
            of ID_COLUMNS that the file has.
        blank: how many rows were left out because they have no note.
    """

    notes: list[str]
    references: list[str] | None
    ids: dict[str, list]
    blank: int


def read_note_table(
    path: str | Path, *, note: str | None = None, summary: str | None = None
) -> NoteTable:
    """Read the notes of a CSV (.csv, .csv.gz) or parquet file, with summaries or without.

    Args:
        path: the file.
        note: the column of the notes; without it, the first of sources.notes.LAYOUTS that is
            there.
        summary: the column of reference summaries; without it, the one that belongs to the notes'
            column in LAYOUTS, where it is there.

    Raises:
        InputError: if the file is missing or malformed, lacks a column, or has no note.
    """
    path = Path(path)
    if not path.is_file():
        problem = "this is a folder" if path.is_dir() else "there is no such file"
        raise InputError(path, "", problem, "Name a CSV or parquet file with notes.")
    is_parquet = path.name.lower().endswith(".parquet")
    spelling = _parquet_columns(path) if is_parquet else {n: n for n in read_header(path)}
    note, summary = _columns(path, list(spelling), note, summary)
    ids = [name for name in ID_COLUMNS if name in spelling]
    wanted = [note, *([summary] if summary else []), *ids]
    frame = _read_parquet(path, spelling, wanted) if is_parquet else _read_csv(path, wanted)
    rows_read = frame.height
    frame = frame.filter(pl.col(note) != "")
    if frame.is_empty():
        raise InputError(
            path.name, f"column {note!r}", f"all {rows_read} notes are blank", "Name another one."
        )
    place = "row" if is_parquet else "line"
    return NoteTable(
        frame[note].to_list(),
        frame[summary].to_list() if summary else None,
        {place: frame["line"].to_list()} | {name: frame[name].to_list() for name in ids},
        rows_read - frame.height,
    )


def _columns(
    path: Path, found: list[str], note: str | None, summary: str | None
) -> tuple[str, str | None]:
    if note is None:
        note, belongs = next(
            ((first, second) for first, second in LAYOUTS if first in found), (None, None)
        )
        if note is None:
            raise InputError(
                path.name,
                "",
                f"none of its columns is known to hold notes (found: {', '.join(found)})",
                "Name it with --note-column.",
            )
    else:
        note = note.strip().lower()
        belongs = dict(LAYOUTS).get(note)
    if summary is None and belongs in found:
        summary = belongs
    elif summary is not None:
        summary = summary.strip().lower()
    for name in (note, summary):
        if name is not None and name not in found:
            raise InputError(
                path.name,
                "",
                f"column {name!r} is missing (found: {', '.join(found)})",
                "Name the columns with --note-column and --summary-column, in either case.",
            )
    return note, summary


def _read_csv(path: Path, columns: list[str]) -> pl.DataFrame:
    return Table(path.name, path, text=columns, malformed="raise").frame


def _parquet_columns(path: Path) -> dict[str, str]:
    try:
        return {name.strip().lower(): name for name in pl.read_parquet_schema(path)}
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            path.name, "", f"it cannot be read ({str(error).splitlines()[0]})", "Write it again."
        ) from None


def _read_parquet(path: Path, spelling: dict[str, str], columns: list[str]) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path, columns=[spelling[name] for name in columns])
        return (
            frame.rename({spelling[name]: name for name in columns})
            .with_columns(pl.all().cast(pl.String).fill_null("").str.strip_chars())
            .with_row_index("line", offset=1)
        )
    except pl.exceptions.PolarsError as error:
        raise InputError(
            path.name,
            "",
            f"its columns cannot be read as text ({str(error).splitlines()[0]})",
            "Name the columns that hold text.",
        ) from None
