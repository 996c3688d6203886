"""The options of ``prepare`` and ``train``, and what their help says."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ehr_course.cli.options import (
    MOST_PATIENTS,
    PROFILES,
    CodeMap,
    Codes,
    Columns,
    DateFormat,
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
from ehr_course.cli.settings import PrepareSettings, TrainSettings
from ehr_course.sources.code_tables import parse_columns


def _sizes(kind: str) -> str:
    """The sizes of models of a kind of data, in words."""
    *others, last = PROFILES[kind]
    return f"{', '.join(others)} or {last}"


def prepare(
    out: OutFolder,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Tables of MIMIC, OMOP or Synthea, a MEDS dataset, or a .csv or .parquet file "
            "with a row for each code; which of them it is, is "
            "recognised. By default the embedded hospital, whose patients are invented.",
        ),
    ] = None,
    columns: Columns = None,
    code_map: CodeMap = None,
    codes: Codes = None,
    map_to: MapTo = None,
    notes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Notes with summaries for the summariser, in place of patient records: a .csv, "
            ".jsonl or .parquet file, or 'embedded' for invented ones.",
        ),
    ] = None,
    patients: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_PATIENTS, help="How many patients the embedded hospital has."
        ),
    ] = 5_000,
    hospital: Annotated[
        Literal["general", "heart"],
        typer.Option(help="Which embedded hospital: every age, or old people's hearts."),
    ] = "general",
    malformed: OnMalformed = "raise",
    date_format: DateFormat = None,
    whole_patients: Annotated[
        bool,
        typer.Option(
            "--whole-patients",
            help="Leave out patients of whom some admissions are dropped, as those that --codes "
            "leaves out. Without it they are kept with the others, and counted.",
        ),
    ] = False,
    zeros_lost_ok: Annotated[
        bool,
        typer.Option(
            "--zeros-lost-ok",
            help="Go on although codes seem to have lost their leading zeros, because none of "
            "many begins with 0.",
        ),
    ] = False,
    validation: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the patients to choose a model by.")
    ] = 0.1,
    test: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the patients that no model sees.")
    ] = 0.1,
    note_column: NoteColumn = None,
    summary_column: SummaryColumn = None,
    patient_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column that says whose note it is, as subject_id."),
    ] = None,
    min_note: Annotated[
        int, typer.Option(min=0, help="Shortest note, in characters; shorter ones are dropped.")
    ] = 0,
    min_summary: Annotated[
        int, typer.Option(min=0, help="Shortest summary, in characters; shorter ones are dropped.")
    ] = 0,
    tokenizer: Annotated[
        Literal["words", "pieces"], typer.Option(help="Of notes: words, or pieces of words.")
    ] = "words",
    min_count: Annotated[
        int, typer.Option(min=1, help="Words that come less often are outside the vocabulary.")
    ] = 2,
    vocabulary: Annotated[int, typer.Option(min=5, help="How many pieces there are.")] = 16_000,
    max_source: Annotated[
        int, typer.Option(min=3, help="Longest note, in tokens; a longer one is cut.")
    ] = 768,
    max_target: Annotated[
        int, typer.Option(min=2, help="Longest summary, in tokens; a longer one is cut.")
    ] = 192,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Read patients or notes, and split them into parts that share no patient.

    \b
    Examples:
      ehr-course prepare --out prepared
      ehr-course prepare --data mimic-iii/ --malformed drop --out prepared
      ehr-course prepare --data mimic-iv/ --map icd10 --out prepared
      ehr-course prepare --notes discharge.csv --out prepared-notes

    The folder holds the three parts in the open format MEDS, the tokenizer of
    the training part, and a report of every row that was read, used or
    dropped. It holds patients' data: keep it as you keep them.
    """
    if data is not None and notes is not None:
        raise typer.BadParameter("give --data or --notes, not both")
    settings = PrepareSettings(
        data=data,
        columns=None if columns is None else parse_columns(columns),
        code_map=code_map,
        codes=codes,
        map_to=map_to,
        notes=notes,
        patients=patients,
        hospital=hospital,
        malformed=malformed,
        date_format=date_format,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        validation=validation,
        test=test,
        note_column=note_column,
        summary_column=summary_column,
        patient_column=patient_column,
        min_note=min_note,
        min_summary=min_summary,
        tokenizer=tokenizer,
        min_count=min_count,
        vocabulary=vocabulary,
        max_source=max_source,
        max_target=max_target,
        seed=seed,
    )
    run_command("prepare", settings, out, overwrite=overwrite, quiet=quiet)


def train(
    prepared: Annotated[
        str, typer.Argument(metavar="PREPARED", help="What 'prepare' wrote.", show_default=False)
    ],
    out: OutFolder,
    profile: Annotated[
        Literal["narrow", "tiny", "small", "full"],
        typer.Option(
            metavar="SIZE",
            help=f"Of a model of records: {_sizes('records')}. Of a summariser of notes: "
            f"{_sizes('notes')}. In this order: seconds, minutes, a laptop's evening, the "
            "sources' own.",
        ),
    ] = "tiny",
    adapt: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Train a prefix for the model of this run, in place of a new model: to adapt it "
            "to another hospital, with few patients.",
        ),
    ] = None,
    prefix: Annotated[int, typer.Option(min=1, help="Tokens of the prefix.")] = 8,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Of a summariser: attend where it has not yet been.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How often the weights change. By default, for a prefix and for notes too, the "
            "training stops when the loss on the validation part has not fallen for some "
            "evaluations, at the latest after 20 epochs or 500 steps, whichever is more.",
            show_default="until validation says so",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Patients or notes a step, over all processes together.")
    ] = 32,
    gradient_accumulation_steps: Annotated[
        int, typer.Option(min=1, help="Parts that a batch is cut into, to fit into memory.")
    ] = 1,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Of records: the model of lessons 10 to 18, without copy head, visit "
            "embeddings and waves of the age.",
        ),
    ] = False,
    batches: Annotated[
        Literal["mixed", "by-length", "equal-tokens"] | None,
        typer.Option(
            help="What shares a batch: any records; those of similar length, where short ones "
            "weigh more; or similar length and as many tokens in each, where none does.",
            show_default="equal-tokens; a summariser or a prefix mixed",
        ),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(help="Peak learning rate.", show_default="0.004; a prefix 0.03"),
    ] = None,
    weight_decay: Annotated[
        float | None,
        typer.Option(
            help="Of matrices and embeddings.",
            show_default="0.3; a summariser or a prefix 0.01",
        ),
    ] = None,
    max_grad_norm: Annotated[
        float | None,
        typer.Option(help="Clip the gradient to it.", show_default="5; a prefix or notes 1"),
    ] = None,
    average: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Average the weights over about this share of the steps; 0: do not.",
            show_default="0.2; a summariser or a prefix 0",
        ),
    ] = None,
    precision: Annotated[
        Literal["float32", "float16", "bfloat16"],
        typer.Option(help="float16 (with loss scaling) and bfloat16 pay on a GPU."),
    ] = "float32",
    evaluate_every: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Steps between evaluations; the best model is kept. 0: the last one.",
            show_default="an epoch, at least 10; with --steps 0",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Evaluations without a lower loss after which the training stops; 0: never.",
            show_default="5; with --steps 0",
        ),
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(min=0, help="Steps between checkpoints; 0: only one at the end.")
    ] = 200,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train a model that writes patients, or one that summarises notes.

    \b
    Examples:
      ehr-course train prepared --out run
      ehr-course train prepared --out run --profile small --steps 20000
      ehr-course train elsewhere --adapt run --out adapted
      torchrun --nproc-per-node 2 -m ehr_course.cli train prepared --out run

    Patient records give a PromptBart, notes a pointer-generator. A training
    that was stopped goes on when the same command is run again. The model may
    repeat what it learned: keep it as you keep the data.
    """
    settings = TrainSettings(
        prepared=prepared,
        profile=profile,
        adapt=adapt,
        prefix=prefix,
        coverage=coverage,
        steps=steps,
        batch_size=batch_size,
        gradient_accumulation_steps=gradient_accumulation_steps,
        plain=plain,
        batches=batches,
        lr=lr,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        average=average,
        precision=precision,
        evaluate_every=evaluate_every,
        patience=patience,
        checkpoint_every=checkpoint_every,
        seed=seed,
    )
    run_command("train", settings, out, quiet=quiet)
