"""``ehr-course summarize``: a summary of each note of a file, from a trained summariser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
from tqdm import tqdm

from ehr_course.cli.note_table import read_note_table
from ehr_course.cli.output import result_file, say, warn
from ehr_course.cli.run_record import RUN, RunRecord, check_inputs, fingerprint_of_files
from ehr_course.cli.settings import SummarizeSettings
from ehr_course.cli.trained import fingerprint_of_model, open_run
from ehr_course.errors import InputError
from ehr_course.evaluation.summaries import rouge
from ehr_course.generation.search_settings import BeamSettings
from ehr_course.generation.summaries import summarize as write_summaries
from ehr_course.models.pointer_generator import PointerGenerator

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
        loaded, _ = open_run(run, wanted=PointerGenerator)
        table = read_note_table(notes, note=settings.note_column, summary=settings.summary_column)
        inputs = {
            "model": fingerprint_of_model(run),
            "notes": fingerprint_of_files(notes),
        }
        check_inputs(expected, inputs)
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
        result = {"notes": len(summaries), "blank": table.blank}
        result |= _scores(summaries, table.references)
        RunRecord("summarize", settings, inputs, result).write(out.with_name(f"{out.stem}.{RUN}"))
    if table.blank:
        warn(f"{table.blank} rows without a note were left out.")
    say(f"{out}: {len(summaries):,} summaries.", quiet=quiet)
    for name in ("rouge1", "rouge2", "rougeL"):
        if name in result:
            say(f"{name} {result[name]:.3f}", quiet=quiet)


def _scores(summaries: list[str], references: list[str] | None) -> dict[str, float]:
    """ROUGE F1 of the summaries that have a reference; nothing when none has."""
    pairs = [
        (summary, reference)
        for summary, reference in zip(summaries, references or summaries, strict=True)
        if references is not None and reference
    ]
    return rouge(*map(list, zip(*pairs, strict=True))) if pairs else {}


def _placed(error: InputError, notes: Path, ids: dict[str, list], first: int) -> InputError:
    """Say of which line of the file an error speaks, in place of the number of the note."""
    word, _, number = error.place.partition(" ")
    if word != "note" or not number.isdigit():
        return error
    name, places = next(iter(ids.items()))
    place = f"{name} {places[first + int(number)]}"
    return InputError(notes.name, place, error.problem, error.remedy)
