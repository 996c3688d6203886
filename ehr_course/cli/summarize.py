"""``ehr-course summarize``: a summary of each note of a file, from a trained summariser."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from tqdm import tqdm

from ehr_course.cli.output import result_file, say, warn
from ehr_course.cli.run_record import RUN, RunRecord, check_inputs, fingerprint_of_files
from ehr_course.cli.settings import SummarizeSettings
from ehr_course.cli.trained_run import fingerprint_of_model, open_summary_run
from ehr_course.errors import InputError
from ehr_course.evaluation.summaries import rouge
from ehr_course.generation.search_settings import BeamSettings
from ehr_course.generation.summaries import summarize as write_summaries
from ehr_course.sources.note_files import NoteFile, found, is_header, open_note_file
from ehr_course.sources.notes import LAYOUTS

_AT_ONCE = 16
"""Batches between two steps of the bar; notes of similar length among them share a batch."""


def summarize(
    settings: SummarizeSettings,
    out: Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Write a summary of each note, and ROUGE where the file has reference summaries.

    Args:
        settings: which model and notes, and how to search.
        out: the CSV file to write. Its ``.run.json`` stands beside it.
        overwrite: whether to replace one that is there.
        quiet: whether to print nothing and show no bar.
        expected: the fingerprints that model and notes must have, or None.

    Raises:
        InputError: if there is no trained summariser, the notes cannot be read, a setting is out
            of its range, or out may not be written.
    """
    if out.suffix != ".csv":
        raise InputError(out, "", "its name does not end in .csv", "Name a CSV file.")
    beams = BeamSettings(
        beams=settings.beams,
        length_penalty=settings.length_penalty,
        min_length=settings.min_length,
        max_length=settings.max_length,
        no_repeat_ngram_size=settings.no_repeat_ngram_size,
    )
    run, notes = Path(settings.run), Path(settings.notes)
    with result_file(out, overwrite=overwrite, inputs=[run, notes]) as unfinished:
        loaded = open_summary_run(run)
        table = read_note_table(notes, note=settings.note_column, summary=settings.summary_column)
        inputs = {
            "model": fingerprint_of_model(run),
            "notes": fingerprint_of_files(notes),
        }
        check_inputs(expected, inputs)
        most, cut = loaded.model.config.max_source, 0
        for note in table.notes:
            # A note without a known word is refused, with its line, when its turn comes.
            with suppress(InputError):
                cut += len(loaded.tokenizer.encode_note(note).ids) > most
        summaries: list[str] = []
        hidden = {"disable": True} if quiet else {}
        at_once = _AT_ONCE * settings.batch_size
        with tqdm(total=len(table.notes), unit="note", leave=False, **hidden) as bar:
            for first in range(0, len(table.notes), at_once):
                some = table.notes[first : first + at_once]
                try:
                    written = write_summaries(
                        loaded.model,
                        loaded.tokenizer,
                        some,
                        settings=beams,
                        batch_size=settings.batch_size,
                    )
                except InputError as error:
                    raise _placed(error, notes, table.ids, first) from None
                summaries += [summary.text for summary in written]
                bar.update(len(some))
        pl.DataFrame(table.ids | {"summary": summaries}).write_csv(unfinished)
        result: dict[str, float] = {
            "notes": len(summaries),
            "blank": table.blank,
            "cut_notes": cut,
        }
        referenced = [
            (summary, reference)
            for summary, reference in zip(summaries, table.references or (), strict=False)
            if reference
        ]
        if referenced:
            result |= rouge(*map(list, zip(*referenced, strict=True)))
        RunRecord("summarize", settings, inputs, result).write(out.with_name(f"{out.stem}.{RUN}"))
    if table.blank:
        warn(f"{table.blank} rows without a note were left out.")
    if cut:
        warn(
            f"{cut:,} of {len(summaries):,} notes are longer than {most:,} tokens, the most that "
            "this model reads: what follows was not read. To read more, give 'ehr-course prepare' "
            "a higher --max-source, and train again."
        )
    say(f"{out}: {len(summaries):,} summaries.", quiet=quiet)
    for name in ("rouge1", "rouge2", "rougeL"):
        if name in result:
            say(f"{name} {result[name]:.3f}", quiet=quiet)


def _placed(error: InputError, notes: Path, ids: dict[str, list], first: int) -> InputError:
    """Say of which line of the file an error speaks, in place of the number of the note."""
    word, _, number = error.place.partition(" ")
    if word != "note" or not number.isdigit():
        return error
    name, places = next(iter(ids.items()))
    place = f"{name} {places[first + int(number)]}"
    return InputError(notes.name, place, error.problem, error.remedy)


# ------------------------------------------------------------------ the file with the notes


ID_COLUMNS = ("note_id", "subject_id")
"""Columns that are carried over to the summaries, where the file has them."""


@dataclass(frozen=True)
class NoteTable:
    """Notes as a file has them.

    Attributes:
        notes: the texts.
        references: the summary that somebody wrote of each, "" where there is none; None when
            the file has no such column.
        ids: "line" (or "row" of a parquet file, from 1) of each note, and the columns of
            ID_COLUMNS that the file has.
        blank: how many rows were left out because they have no note.
    """

    notes: list[str]
    references: list[str] | None
    ids: dict[str, list]
    blank: int


def read_note_table(
    path: str | Path, *, note: str | None = None, summary: str | None = None
) -> NoteTable:
    """Read the notes of a CSV, JSON Lines or parquet file, with summaries or without.

    Args:
        path: the file; see sources.note_files.open_note_file.
        note: the column of the notes; without it, the one of the pair of sources.notes.LAYOUTS
            that is there, or else the first column of notes in LAYOUTS that is there.
        summary: the column of reference summaries; without it, the one that belongs to the notes'
            column in LAYOUTS, where it is there.

    Raises:
        InputError: if the file is missing or malformed, lacks a column, has two pairs of LAYOUTS,
            or has no note. It quotes nothing that could be the text of a note.
    """
    file = open_note_file(path)
    note, summary = _columns(file, note, summary)
    ids = [name for name in ID_COLUMNS if name in file.columns]
    frame = file.read([note, *([summary] if summary else [])], ids).frame
    rows_read = frame.height
    frame = frame.filter(pl.col(note) != "")
    if frame.is_empty():
        raise InputError(
            file.path.name,
            f"column {note!r}",
            f"all {rows_read} notes are blank",
            "Name another one.",
        )
    return NoteTable(
        frame[note].to_list(),
        frame[summary].to_list() if summary else None,
        {file.place: frame["line"].to_list()} | {name: frame[name].to_list() for name in ids},
        rows_read - frame.height,
    )


def _columns(file: NoteFile, note: str | None, summary: str | None) -> tuple[str, str | None]:
    there = set(file.columns)
    pairs = [pair for pair in LAYOUTS if there.issuperset(pair)]
    if note is not None:
        note = note.strip().lower()
        pairs = [pair for pair in pairs if pair[0] == note]
    elif len({first for first, _ in pairs}) > 1:
        raise InputError(
            file.path.name,
            "",
            f"its columns are those of {len(pairs)} known layouts ({found(file.columns)})",
            "Name the notes with --note-column.",
        )
    else:
        known = [first for first, _ in (*pairs, *LAYOUTS) if first in there]
        if not known:
            raise _wrong_columns(
                file, "none of its columns is known to hold notes", "Name it with --note-column."
            )
        note = known[0]
    if summary is not None:
        summary = summary.strip().lower()
    elif pairs:
        summary = pairs[0][1]
    for name in (note, summary):
        if name is not None and name not in there:
            raise _wrong_columns(
                file,
                f"column {name!r} is missing",
                "Name the columns with --note-column and --summary-column, in upper or lower "
                "case.",
            )
    return note, summary


def _wrong_columns(file: NoteFile, problem: str, remedy: str) -> InputError:
    problem += f" ({found(file.columns)})"
    if file.kind == "csv" and not is_header(file.columns):
        problem += "; its first line must hold the names of the columns, separated by commas"
    return InputError(file.path.name, "", problem, remedy)
