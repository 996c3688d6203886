"""The options of the commands that use a trained model, and what their help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ehr_course.cli.cohort_names import name_cohorts
from ehr_course.cli.options import (
    MOST_PATIENTS,
    CodeMap,
    Codes,
    Columns,
    DateFormat,
    Format,
    MapTo,
    NoteColumn,
    OnMalformed,
    OutFolder,
    Overwrite,
    Quiet,
    Seed,
    SummaryColumn,
    run_command,
)
from ehr_course.cli.settings import EvaluateSettings, GenerateSettings, SummarizeSettings
from ehr_course.sources.code_tables import parse_columns


def generate(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="What 'train' wrote.", show_default=False)
    ],
    out: OutFolder,
    patients: Annotated[
        int, typer.Option(min=1, max=MOST_PATIENTS, help="How many patients to write.")
    ] = 1_000,
    formats: Annotated[
        list[Format], typer.Option("--format", help="What to write; may be given several times.")
    ] = [Format.MEDS],  # noqa: B006
    temperature: Annotated[
        float, typer.Option(help="Above 0; below 1 makes likely codes likelier.")
    ] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from the k likeliest; 0: all.")] = 0,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Draw from the likeliest that sum to p; 1: all.",
            show_default="0.95; a model trained with --plain 1",
        ),
    ] = None,
    eligible_only: Annotated[
        bool,
        typer.Option(
            "--eligible-only",
            help="Write no code that the patient's age or sex rules out, and say how many there "
            "would have been. The report's validity then says nothing about the model.",
        ),
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Patients written at a time.")] = 512,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write synthetic patients, with ages and sexes as the model's training part had them.

    \b
    Examples:
      ehr-course generate run --out synthetic --patients 10000
      ehr-course generate run --out synthetic --format parquet --seed 1

    meds is a MEDS dataset, mimic3 the tables of MIMIC-III, parquet one table
    with a row for each code: subject_id, sex, age (years at the first visit),
    visit and seq_num (both from 1), code (ICD-9-CM without its dot; where it
    is ICD-10-CM, icd_version is 10).
    All dates are invented: the first visit is between 2100 and 2149, each
    next one 180 days later.
    """
    settings = GenerateSettings(
        run=run,
        patients=patients,
        formats=tuple(dict.fromkeys(name.value for name in formats)),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        eligible_only=eligible_only,
        batch_size=batch_size,
        seed=seed,
    )
    run_command("generate", settings, out, overwrite=overwrite, quiet=quiet)


def evaluate(
    real: Annotated[
        str, typer.Option(metavar="PREPARED", help="What 'prepare' wrote.", show_default=False)
    ],
    synthetic: Annotated[
        list[str],
        typer.Option(
            metavar="[NAME=]COHORT",
            help="What 'generate' wrote; a folder of MEDS, MIMIC, OMOP or Synthea; a .csv or "
            ".parquet file with a row for each code; or a .json file with lists of visits. May "
            "be given several times: one page, a column for each.",
            show_default=False,
        ),
    ],
    out: OutFolder,
    columns: Columns = None,
    malformed: OnMalformed = "raise",
    date_format: DateFormat = None,
    code_map: CodeMap = None,
    codes: Codes = None,
    map_to: MapTo = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]RUN",
            help="What 'train' wrote from the same PREPARED: adds perplexity, and whether its "
            "likelihoods tell who was in the training part. Of several cohorts, NAME is the one "
            "that it wrote.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=2, help="At most so many patients of each cohort.")
    ] = None,
    title: Annotated[
        str, typer.Option(help="Of the report.")
    ] = "Synthetic patients beside real ones",
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Judge synthetic patients beside real ones: fidelity, validity, privacy, utility.

    \b
    Examples:
      ehr-course evaluate --real prepared --synthetic synthetic --out report
      ehr-course evaluate --real prepared --synthetic others.csv --out report \
        --columns patient=subject,visit=encounter,code=icd
      ehr-course evaluate --real prepared --synthetic synthetic \
        --synthetic other=others.csv --out report

    Writes report.html, to be read, and report.json, to be computed with.
    Neither holds a row of a patient. What needs an age or a sex is left out
    where the synthetic cohort has none.
    """
    cohorts, models = name_cohorts(synthetic, model or ())
    settings = EvaluateSettings(
        real=real,
        synthetic=cohorts,
        columns=None if columns is None else parse_columns(columns),
        malformed=malformed,
        date_format=date_format,
        code_map=code_map,
        codes=codes,
        map_to=map_to,
        model=models,
        limit=limit,
        title=title,
        seed=seed,
    )
    run_command("evaluate", settings, out, overwrite=overwrite, quiet=quiet)


def summarize(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="What 'train' wrote from notes.", show_default=False),
    ],
    notes: Annotated[
        str,
        typer.Argument(
            metavar="NOTES", help="A .csv, .jsonl or .parquet file with notes.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="The .csv to write.", show_default=False),
    ],
    note_column: NoteColumn = None,
    summary_column: SummaryColumn = None,
    beams: Annotated[int, typer.Option(min=1, max=100, help="Hypotheses followed at a time.")] = 4,
    length_penalty: Annotated[
        float, typer.Option(min=0, help="Exponent of the length penalty; 0: none.")
    ] = 1.0,
    min_length: Annotated[int, typer.Option(min=1, help="Shortest summary, in tokens.")] = 2,
    max_length: Annotated[int, typer.Option(min=1, help="Longest summary, in tokens.")] = 128,
    no_repeat_ngram_size: Annotated[
        int, typer.Option(min=0, help="No run of so many tokens comes twice; 0: it may.")
    ] = 3,
    batch_size: Annotated[int, typer.Option(min=1, help="Notes read at a time.")] = 8,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Summarise every note of a file, and score the summaries where it has references.

    \b
    Example:
      ehr-course summarize run-notes discharge.csv --out summaries.csv

    The columns of the result are line (row of a parquet file), note_id and
    subject_id where the file has them, and summary. A summary can be wrong:
    treat nobody by it.
    """
    settings = SummarizeSettings(
        run=run,
        notes=notes,
        note_column=note_column,
        summary_column=summary_column,
        beams=beams,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=max_length,
        no_repeat_ngram_size=no_repeat_ngram_size,
        batch_size=batch_size,
    )
    run_command("summarize", settings, out, overwrite=overwrite, quiet=quiet)


def repeat(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN.JSON", help="Of a run, or the folder it lies in.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PLACE", help="Where to write now.", show_default=False),
    ],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Do once more what a run did: the same command, the same settings, the same data.

    \b
    Example:
      ehr-course repeat synthetic/run.json --out again

    With the same versions on the same machine the result is the same, to the
    byte. Start it where the run was started: paths stand in run.json as they
    were given.
    """
    run_command("repeat", run, out, overwrite=overwrite, quiet=quiet)
