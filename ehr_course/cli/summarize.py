"""``ehr-course summarize``: a summary of each note of a file, from a trained summariser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import polars as pl
from tqdm import tqdm

from ehr_course.cli.output import Target, warn
from ehr_course.cli.run_record import RUN, RunRecord, fingerprint_of_files
from ehr_course.cli.settings import SummarizeSettings
from ehr_course.cli.trained_run import fingerprint_of_model, open_summary_run
from ehr_course.errors import InputError
from ehr_course.evaluation.summaries import rouge
from ehr_course.generation.beam_search import BeamSettings
from ehr_course.generation.summaries import summarize as write_summaries
from ehr_course.sources.note_corpus import LAYOUTS
from ehr_course.sources.note_files import NoteFile, found, is_header, open_note_file

_AT_ONCE = 16
"""Batches between two steps of the bar; their notes are sorted by length."""


def summarize(settings: SummarizeSettings, target: Target) -> None:
    """Write a summary of each note, and ROUGE where the file has reference summaries.

    Raises:
        InputError: if there is no trained summariser, the notes cannot be read, a setting is out
            of its range, or out may not be written.
    """
    out = target.out
    if out.suffix != ".csv":
        raise InputError(out, "", "its name does not end in .csv", "Name a CSV file.")
    names = {"beams", "length_penalty", "min_length", "max_length", "no_repeat_ngram_size"}
    beams = BeamSettings(**settings.model_dump(include=names))
    run, notes = Path(settings.run), Path(settings.notes)
    with target.file(run, notes) as unfinished:
        model, tokenizer, _ = open_summary_run(run)
        table = read_note_table(notes, note=settings.note_column, summary=settings.summary_column)
        inputs = {
            "model": fingerprint_of_model(run),
            "notes": fingerprint_of_files(notes),
        }
        target.check_inputs(inputs)
        most, cut = model.config.max_source, 0
        for note in table.notes:
            # A note without a known word is refused with its line later.
            with suppress(InputError):
                cut += len(tokenizer.encode_note(note).ids) > most
        summaries: list[str] = []
        hidden = {"disable": True} if target.quiet else {}
        at_once = _AT_ONCE * settings.batch_size
        with tqdm(total=len(table.notes), unit="note", leave=False, **hidden) as bar:
            for first in range(0, len(table.notes), at_once):
                some = table.notes[first : first + at_once]
                try:
                    written = write_summaries(
                        model,
                        tokenizer,
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
    target.say(f"{out}: {len(summaries):,} summaries.")
    for name in ("rouge1", "rouge2", "rougeL"):
        if name in result:
            target.say(f"{name} {result[name]:.3f}")


def _placed(error: InputError, notes: Path, ids: dict[str, list], first: int) -> InputError:
    """Name the line of the file in an error, in place of the note's number."""
    word, _, number = error.place.partition(" ")
    if word != "note" or not number.isdigit():
        return error
    name, places = next(iter(ids.items()))
    place = f"{name} {places[first + int(number)]}"
    return InputError(notes.name, place, error.problem, error.remedy)


# ------------------------------------------------------------------ the file with the notes


ID_COLUMNS = ("note_id", "subject_id")
"""Columns that are copied to the summaries, if the file has them."""


class NoteTable(NamedTuple):
    """Notes as a file has them.

    Attributes:
        notes: the texts.
        references: the reference summary of each, "" where missing; None without such a column.
        ids: "line" (or "row" of a parquet file, from 1) of each note, and the ID_COLUMNS that the
            file has.
        blank: how many rows were left out because they have no note.
    """

    notes: list[str]
    references: list[str] | None
    ids: dict[str, list]
    blank: int


def read_note_table(path: Path, *, note: str | None, summary: str | None) -> NoteTable:
    """Read the notes of a CSV, JSON Lines or parquet file, with summaries or without.

    Args:
        path: the file.
        note: the column of the notes; by default the first in LAYOUTS that is there, preferably of
            a whole pair.
        summary: the column of reference summaries; by default the partner of the notes' column in
            LAYOUTS, if it is there.

    Raises:
        InputError: if the file is missing or malformed, lacks a column, has two pairs of LAYOUTS,
            or has no note. It quotes nothing that could be the text of a note.
    """
    file = open_note_file(path)
    pairs = [pair for pair in LAYOUTS if set(pair) <= set(file.columns)]
    if note is not None:
        note = note.strip().lower()
    elif len({first for first, _ in pairs}) > 1:
        problem = f"its columns are those of {len(pairs)} known layouts ({found(file.columns)})"
        raise InputError(file.path.name, "", problem, "Name the notes with --note-column.")
    else:
        note = next((first for first, _ in (*pairs, *LAYOUTS) if first in file.columns), None)
        if note is None:
            problem = "none of its columns is known to hold notes"
            raise _wrong_columns(file, problem, "Name it with --note-column.")
    if summary is not None:
        summary = summary.strip().lower()
    else:
        summary = next((second for first, second in pairs if first == note), None)
    columns = [name for name in (note, summary) if name is not None]
    for name in columns:
        if name not in file.columns:
            raise _wrong_columns(
                file,
                f"column {name!r} is missing",
                "Name the columns with --note-column and --summary-column, in upper or lower "
                "case.",
            )
    ids = [name for name in ID_COLUMNS if name in file.columns]
    rows = file.read(columns, ids).frame
    frame = rows.filter(pl.col(note) != "")
    if frame.is_empty():
        problem = f"all {rows.height} notes are blank"
        raise InputError(file.path.name, f"column {note!r}", problem, "Name another one.")
    return NoteTable(
        frame[note].to_list(),
        frame[summary].to_list() if summary else None,
        {file.place: frame["line"].to_list()} | {name: frame[name].to_list() for name in ids},
        rows.height - frame.height,
    )


def _wrong_columns(file: NoteFile, problem: str, remedy: str) -> InputError:
    problem += f" ({found(file.columns)})"
    if file.kind == "csv" and not is_header(file.columns):
        problem += "; its first line must hold the names of the columns, separated by commas"
    return InputError(file.path.name, "", problem, remedy)
