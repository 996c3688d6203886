"""``ehr-course summarize``: a summary of each note of a file, from a trained summariser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

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
from ehr_course.sources.note_corpus import LAYOUTS, open_note_file

ID_COLUMNS = ("note_id", "subject_id")
"""Columns that are copied to the summaries, if the file has them."""

_AT_ONCE = 16
"""Batches between two steps of the bar; their notes are sorted by length."""


def summarize(settings: SummarizeSettings, target: Target) -> None:
    """Write a summary of each note, and ROUGE where the file has reference summaries."""
    names = {"beams", "length_penalty", "min_length", "max_length", "no_repeat_ngram_size"}
    beams = BeamSettings(**settings.model_dump(include=names))
    out, run, path = target.out, Path(settings.run), Path(settings.notes)
    with target.file(run, path) as unfinished:
        model, tokenizer = open_summary_run(run)
        ids, notes, references, n_blank = read_note_table(
            path, note=settings.note_column, summary=settings.summary_column
        )
        inputs = {"model": fingerprint_of_model(run), "notes": fingerprint_of_files(path)}
        target.check_inputs(inputs)
        most, cut = model.config.max_source, 0
        for note in notes:
            # A note without a known word is refused with its line later.
            with suppress(InputError):
                cut += len(tokenizer.encode_note(note).ids) > most
        summaries: list[str] = []
        hidden = {"disable": True} if target.quiet else {}
        at_once = _AT_ONCE * settings.batch_size
        with tqdm(total=len(notes), unit="note", leave=False, **hidden) as bar:
            for first in range(0, len(notes), at_once):
                some = notes[first : first + at_once]
                try:
                    written = write_summaries(
                        model,
                        tokenizer,
                        some,
                        settings=beams,
                        batch_size=settings.batch_size,
                    )
                except InputError as error:
                    raise _placed(error, path, ids[first : first + at_once]) from None
                summaries += [summary.text for summary in written]
                bar.update(len(some))
        ids.with_columns(summary=pl.Series(summaries)).write_csv(unfinished)
        result: dict[str, float] = {"notes": len(notes), "blank": n_blank, "cut_notes": cut}
        referenced = [pair for pair in zip(summaries, references, strict=True) if pair[1]]
        if referenced:
            result |= rouge(*map(list, zip(*referenced, strict=True)))
        record = RunRecord(command="summarize", settings=settings, inputs=inputs, result=result)
        record.write(out.with_name(f"{out.stem}.{RUN}"))
    if n_blank:
        warn(f"{n_blank} rows without a note were left out.")
    if cut:
        warn(
            f"{cut:,} of {len(notes):,} notes are longer than {most:,} tokens, the most that "
            "this model reads: what follows was not read. To read more, give 'ehr-course prepare' "
            "a higher --max-source, and train again."
        )
    target.say(f"{out}: {len(notes):,} summaries.")
    for name in ("rouge1", "rouge2", "rougeL"):
        if name in result:
            target.say(f"{name} {result[name]:.3f}")


def _placed(error: InputError, path: Path, ids: pl.DataFrame) -> InputError:
    """Name the line of the file in an error, in place of the note's number."""
    word, _, number = error.place.partition(" ")
    if word != "note" or not number.isdigit():
        return error
    place = f"{ids.columns[0]} {ids.item(int(number), 0)}"
    return InputError(path.name, place, error.problem, error.remedy)


def read_note_table(
    path: Path, *, note: str | None, summary: str | None
) -> tuple[pl.DataFrame, list[str], list[str], int]:
    """Read the notes of a CSV, JSON Lines or parquet file, with summaries or without.

    Args:
        path: the file.
        note: the column of the notes; by default the first in LAYOUTS that is there, preferably of
            a whole pair.
        summary: the column of reference summaries; by default the partner of the notes' column in
            LAYOUTS, if it is there.

    Returns:
        for each note its "line" (or "row" in a parquet file, from 1) and the ID_COLUMNS that the
        file has; the notes; their reference summaries, "" where missing; and how many rows were
        left out because they have no note.

    Raises:
        InputError: if the file is missing or malformed, lacks a column, has two pairs of LAYOUTS,
            or has no note. It quotes nothing that could be the text of a note.
    """
    file = open_note_file(path)
    pairs = [pair for pair in LAYOUTS if set(pair) <= set(file.columns)]
    if note is None:
        there = [first for first, _ in pairs or LAYOUTS if first in file.columns]
        if not there or (pairs and len(set(there)) > 1):
            problem = "its columns do not say which of them holds the notes"
            raise file.wrong_columns(problem, "Name it with --note-column.")
        note = there[0]
    note = note.strip().lower()
    if summary is None:
        summary = next((second for first, second in pairs if first == note), None)
    texts = [name.strip().lower() for name in (note, summary) if name is not None]
    for name in texts:
        if name not in file.columns:
            remedy = "Name the columns with --note-column and --summary-column."
            raise file.wrong_columns(f"column {name!r} is missing", remedy)
    ids = [name for name in ID_COLUMNS if name in file.columns]
    rows = file.read(texts, ids).frame
    frame = rows.filter(pl.col(note) != "")
    if frame.is_empty():
        problem = f"all {rows.height} notes are blank"
        raise InputError(file.path.name, f"column {note!r}", problem, "Name another one.")
    return (
        frame.select(pl.col("line").alias(file.place), *ids),
        frame[note].to_list(),
        frame[texts[1]].to_list() if len(texts) > 1 else [""] * frame.height,
        rows.height - frame.height,
    )
