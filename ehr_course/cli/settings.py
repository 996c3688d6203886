"""The options of each command, defined once: the command line and ``run.json`` come from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from ehr_course.errors import InputError

MOST_PATIENTS = 10_000_000


class Format(StrEnum):
    """The formats of synthetic patients, in the order in which they are looked for."""

    MEDS = "meds"
    MIMIC3 = "mimic3"
    PARQUET = "parquet"


SystemName = Literal["icd9", "icd10"]
"""A code system as an option names it."""


def option(
    default: Any,
    words: str,
    *,
    name: str | None = None,
    metavar: str | None = None,
    shown: str | bool = True,
    typed: Any = None,
    **limits: Any,
) -> Any:
    """Define an option of a command.

    Args:
        default: its default value; ``...`` if it is required.
        words: what the help says of it.
        name: how it is typed, if not ``--`` and the field's name.
        metavar: what the help shows in place of its type.
        shown: what the help says about the default.
        typed: the type of what is typed, if not the field's; see ``from_words``.
        limits: of the value, as ``ge`` and ``le``.
    """
    of_typer = {"help": words, "metavar": metavar, "show_default": shown}
    of_typer |= {"min": limits.get("ge"), "max": limits.get("le")}
    extra = {"name": name, "typed": typed, "of_typer": of_typer}
    return Field(default, json_schema_extra=extra, **limits)


def argument(metavar: str, words: str) -> Any:
    """Define an argument, which is typed without a name."""
    return option(..., words, name="", metavar=metavar, shown=False)


class Settings(BaseModel):
    """The options of a command; its documentation is the command's help."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    seed: int = option(0, "Another seed, another result.", ge=0, le=2**32 - 1)

    @classmethod
    def from_words(cls, words: dict[str, Any]) -> Settings:
        """Make settings of what was typed."""
        if words.get("columns") is not None:
            # It imports polars.
            from ehr_course.sources.code_table import parse_columns

            words = words | {"columns": parse_columns(words["columns"])}
        return cls(**words)


COLUMNS: Any = option(
    None,
    "Columns of a .csv or .parquet file with a row for each code: patient, visit, code, and "
    "perhaps age, sex, time, sequence, version (of ICD).",
    metavar="WHAT=NAME,...",
    typed=str | None,
)
CODE_MAP: Any = option(
    None,
    "A .csv file with the columns 'from' and 'to': ICD-9-CM or ICD-10-CM codes for codes of "
    "another vocabulary.",
    metavar="FILE",
)
CODES: Any = option(
    None,
    "Take only diagnoses that are coded in this system; the others are dropped and counted.",
)
MAP_TO: Any = option(
    None,
    "Translate diagnoses of the other system into this one, by the General Equivalence "
    "Mappings; the report says how well they agree. Data in both are translated to icd9 where "
    "neither --codes nor --map is given.",
    name="--map",
)
MALFORMED: Any = option(
    "raise", "Stop at the first malformed row, or drop such rows and count them."
)
DATE_FORMAT: Any = option(
    None,
    "How dates are written, unless as 2101-01-31 17:05:00, in the letters of strptime: '%m/%d/%y "
    "%H:%M'. Years of two digits are 1969 to 2068.",
    metavar="FORMAT",
)
NOTE_COLUMN: Any = option(
    None, "Column of the notes; by default input, note or dialogue.", metavar="NAME"
)
SUMMARY_COLUMN: Any = option(
    None,
    "Column of the summaries; by default target, summary, section_text, or note beside dialogue.",
    metavar="NAME",
)


class PrepareSettings(Settings):
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

    data: str | None = option(
        None,
        "Tables of MIMIC, OMOP or Synthea, a MEDS dataset, or a .csv or .parquet file with a row "
        "for each code; the kind is recognised. By default the embedded hospital, whose patients "
        "are invented.",
        metavar="FOLDER",
    )
    columns: dict[str, str] | None = COLUMNS
    code_map: str | None = CODE_MAP
    codes: SystemName | None = CODES
    map_to: SystemName | None = MAP_TO
    notes: str | None = option(
        None,
        "Notes with summaries for the summariser, in place of patient records: a .csv, .jsonl "
        "or .parquet file, or 'embedded' for invented ones.",
        metavar="FILE",
    )
    patients: int = option(
        5_000, "How many patients the embedded hospital has.", ge=1, le=MOST_PATIENTS
    )
    hospital: Literal["general", "heart"] = option(
        "general", "Which embedded hospital: every age, or old people's hearts."
    )
    malformed: Literal["raise", "drop"] = MALFORMED
    date_format: str | None = DATE_FORMAT
    whole_patients: bool = option(
        False,
        "Leave out patients who lose some of their admissions, such as those that --codes leaves "
        "out. Without it, they keep the others and are counted.",
    )
    zeros_lost_ok: bool = option(
        False,
        "Go on even if the codes seem to have lost their leading zeros, because not one of many "
        "begins with 0.",
    )
    validation: float = option(0.1, "Share of the patients to choose a model by.", ge=0, le=1)
    test: float = option(0.1, "Share of the patients that no model sees.", ge=0, le=1)
    note_column: str | None = NOTE_COLUMN
    summary_column: str | None = SUMMARY_COLUMN
    patient_column: str | None = option(
        None, "Column that says whose note it is, such as subject_id.", metavar="NAME"
    )
    min_note: int = option(0, "Shortest note, in characters; shorter ones are dropped.", ge=0)
    min_summary: int = option(
        0, "Shortest summary, in characters; shorter ones are dropped.", ge=0
    )
    tokenizer: Literal["words", "pieces"] = option(
        "words", "What notes are cut into: words, or pieces of words."
    )
    min_count: int = option(2, "Rarer words are left out of the vocabulary.", ge=1)
    vocabulary: int = option(16_000, "How many pieces there are.", ge=5)
    max_source: int = option(768, "Longest note, in tokens; a longer one is cut.", ge=3)
    max_target: int = option(192, "Longest summary, in tokens; a longer one is cut.", ge=2)


class TrainSettings(Settings):
    """Train a model that writes patients, or one that summarises notes.

    \b
    Examples:
      ehr-course train prepared --out run
      ehr-course train prepared --out run --profile small --steps 20000
      ehr-course train prepared --out run --base facebook-bart-base
      ehr-course train elsewhere --adapt run --out adapted
      torchrun --nproc-per-node 2 -m ehr_course.cli train prepared --out run

    Patient records give a PromptBart, notes a pointer-generator. A training
    that was stopped goes on when the same command is run again. The model may
    repeat what it learned: keep it as you keep the data.
    """

    prepared: str = argument("PREPARED", "What 'prepare' wrote.")
    profile: Literal["narrow", "tiny", "small", "full"] = option(
        "tiny",
        "Size of the model: narrow (for records alone), tiny, small or full. In this order: "
        "seconds, minutes, an evening on a laptop, the size of the sources' own.",
        metavar="SIZE",
    )
    base: str | None = option(
        None,
        "For records: start from the weights of a BART, such as facebook/bart-base, that this "
        "folder holds in Hugging Face's form. They set the size; the codes are added to its "
        "vocabulary.",
        metavar="FOLDER",
    )
    adapt: str | None = option(
        None,
        "Train a prefix for the model of this run, in place of a new model: to adapt it to "
        "another hospital, with few patients.",
        metavar="RUN",
    )
    prefix: int = option(8, "Tokens of the prefix.", ge=1)
    coverage: bool = option(False, "For notes: penalise attending to the same place again.")
    steps: int | None = option(
        None,
        "How many times the weights change. By default, the training stops when the loss on the "
        "validation part has not fallen for some evaluations, and at the latest after 20 epochs "
        "or 500 steps, whichever is more.",
        shown="until validation says so",
        ge=1,
    )
    batch_size: int = option(32, "Patients or notes per step, over all processes together.", ge=1)
    gradient_accumulation_steps: int = option(
        1, "Parts that a batch is cut into, to fit into memory.", ge=1
    )
    plain: bool = option(
        False,
        "For records: the model of lessons 10 to 18, without copy head, visit embeddings and "
        "waves of the age.",
    )
    batches: Literal["mixed", "by-length", "equal-tokens"] | None = option(
        None,
        "What shares a batch: any records; those of similar length, where short ones weigh more; "
        "or similar length and as many tokens in each, where none does.",
        shown="equal-tokens; a summariser or a prefix mixed",
    )
    lr: float | None = option(
        None, "Peak learning rate.", shown="0.004; a prefix 0.03; with --base 0.0001"
    )
    weight_decay: float | None = option(
        None,
        "Decay of matrices and embeddings.",
        shown="0.3; a summariser, a prefix or with --base 0.01",
    )
    max_grad_norm: float | None = option(
        None, "The norm that the gradient is clipped to.", shown="5; a prefix or notes 1"
    )
    average: float | None = option(
        None,
        "Average the weights over about this share of the steps; 0: do not.",
        shown="0.2; a summariser or a prefix 0",
        ge=0,
        le=1,
    )
    precision: Literal["float32", "float16", "bfloat16"] = option(
        "float32", "float16 (with loss scaling) and bfloat16 pay off on a GPU."
    )
    evaluate_every: int | None = option(
        None,
        "Steps between evaluations; the best model is kept. 0: keep the last one.",
        shown="an epoch, at least 10; with --steps 0",
        ge=0,
    )
    patience: int | None = option(
        None,
        "Evaluations without a lower loss after which the training stops; 0: never.",
        shown="5; with --steps 0",
        ge=0,
    )
    checkpoint_every: int = option(200, "Steps between checkpoints; 0: only one at the end.", ge=0)


class GenerateSettings(Settings):
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

    run: str = argument("RUN", "What 'train' wrote.")
    patients: int = option(1_000, "How many patients to write.", ge=1, le=MOST_PATIENTS)
    # JSON has lists and words.
    formats: Annotated[tuple[Annotated[Format, Strict(False)], ...], Strict(False)] = option(
        (Format.MEDS,),
        "What to write; may be given several times.",
        name="--format",
        typed=list[Format],
        min_length=1,
    )
    temperature: float = option(1.0, "Above 0; below 1 makes likely codes likelier.")
    top_k: int = option(0, "Draw from the k likeliest; 0: all.", ge=0)
    top_p: float | None = option(
        None,
        "Draw from the likeliest that sum to p; 1: all.",
        shown="0.95; a model trained with --plain 1",
    )
    eligible_only: bool = option(
        False,
        "Write no code that the patient's age or sex rules out, and say how many there would have "
        "been. The report's validity then says nothing about the model.",
    )
    batch_size: int = option(512, "Patients written at a time.", ge=1)

    @classmethod
    def from_words(cls, words: dict[str, Any]) -> Settings:
        """Make settings of what was typed."""
        return super().from_words(words | {"formats": tuple(dict.fromkeys(words["formats"]))})


class EvaluateSettings(Settings):
    """Judge synthetic patients beside real ones: fidelity, validity, privacy, utility.

    \b
    Examples:
      ehr-course evaluate --real prepared --synthetic synthetic --out report
      ehr-course evaluate --real prepared --synthetic others.csv --out report \\
        --columns patient=subject,visit=encounter,code=icd
      ehr-course evaluate --real prepared --synthetic synthetic \\
        --synthetic other=others.csv --out report

    Writes report.html, to be read, and report.json, to be computed with.
    Neither holds a row of a patient. What needs an age or a sex is left out
    where the synthetic cohort has none.
    """

    real: str = option(..., "What 'prepare' wrote.", metavar="PREPARED", shown=False)
    synthetic: str | Annotated[dict[str, str], Field(min_length=2)] = option(
        ...,
        "What 'generate' wrote; a folder of MEDS, MIMIC, OMOP or Synthea; a .csv or .parquet file "
        "with a row for each code; or a .json file with lists of visits. May be given several "
        "times: one page, a column for each.",
        metavar="[NAME=]COHORT",
        shown=False,
        typed=list[str],
    )
    columns: dict[str, str] | None = COLUMNS
    malformed: Literal["raise", "drop"] = MALFORMED
    date_format: str | None = DATE_FORMAT
    code_map: str | None = CODE_MAP
    codes: SystemName | None = CODES
    map_to: SystemName | None = MAP_TO
    model: str | dict[str, str] | None = option(
        None,
        "What 'train' wrote from the same PREPARED: adds perplexity, and whether its likelihoods "
        "tell who was in the training part. Of several cohorts, NAME is the one that it wrote.",
        metavar="[NAME=]RUN",
        typed=list[str] | None,
    )
    limit: int | None = option(None, "At most this many patients of each cohort.", ge=2)
    title: str = option("Synthetic patients beside real ones", "The title of the report.")

    @classmethod
    def from_words(cls, words: dict[str, Any]) -> Settings:
        """Make settings of what was typed."""
        cohorts, models = name_cohorts(words["synthetic"], words["model"] or ())
        return super().from_words(words | {"synthetic": cohorts, "model": models})


def name_cohorts(
    cohorts: Sequence[str], models: Sequence[str] = ()
) -> tuple[str | dict[str, str], str | dict[str, str] | None]:
    """The paths of cohorts, and of the models that wrote them, by the names of the cohorts.

    For a single cohort it returns the path alone, and None without models.

    Args:
        cohorts: each "PATH", named by its last part without its ending, or "NAME=PATH".
        models: each "PATH", if there is one cohort, or "NAME=PATH".

    >>> name_cohorts(["synthetic", "b.csv", "halo=out.json"], ["synthetic=run"])
    ({'synthetic': 'synthetic', 'b': 'b.csv', 'halo': 'out.json'}, {'synthetic': 'run'})
    """
    named: dict[str, str] = {}
    for text in cohorts:
        name, path = _split(text)
        if not name:
            ending = r"(?i)(?<=.)\.(csv\.gz|csv|parquet|json)$"
            name = re.sub(ending, "", Path(path).resolve().name)
        if name in named:
            raise InputError(
                "--synthetic",
                repr(name),
                f"{named[name]} and {path} would both have this name",
                f"Name them: --synthetic first={named[name]} --synthetic second={path}.",
            )
        named[name] = path
    for name in ("train", "held_out"):
        if name in named and len(named) > 1:
            raise InputError(
                "--synthetic",
                repr(name),
                "the report calls real patients by this name",
                f"Give the cohort another one: --synthetic NAME={named[name]}.",
            )
    first = next(iter(named))
    written_by: dict[str, str] = {}
    for text in models:
        name, path = _split(text)
        if not name and len(named) == 1:
            name = first
        if name not in named or name in written_by:
            raise InputError(
                "--model",
                repr(text),
                f"each model must name a cohort of its own (there are: {', '.join(named)})",
                f"Write --model {first}={path}.",
            )
        written_by[name] = path
    if len(named) == 1:
        return named[first], written_by.get(first)
    return named, written_by or None


def _split(text: str) -> tuple[str, str]:
    """Split into NAME, perhaps "", and PATH, which may hold a "="."""
    name, _, path = text.partition("=")
    if not name or not path or "/" in name or Path(text).exists():
        return "", text
    return name, path


class SummarizeSettings(Settings):
    """Summarise every note of a file, and score the summaries where it has references.

    \b
    Example:
      ehr-course summarize run-notes discharge.csv --out summaries.csv

    The columns of the result are line (row of a parquet file), note_id and
    subject_id where the file has them, and summary. A summary can be wrong:
    treat nobody by it.
    """

    run: str = argument("RUN", "What 'train' wrote from notes.")
    notes: str = argument("NOTES", "A .csv, .jsonl or .parquet file with notes.")
    note_column: str | None = NOTE_COLUMN
    summary_column: str | None = SUMMARY_COLUMN
    beams: int = option(4, "Hypotheses followed at a time.", ge=1, le=100)
    length_penalty: float = option(1.0, "Exponent of the length penalty; 0: none.", ge=0)
    min_length: int = option(2, "Shortest summary, in tokens.", ge=1)
    max_length: int = option(128, "Longest summary, in tokens.", ge=1)
    no_repeat_ngram_size: int = option(
        3, "No run of this many tokens comes twice; 0: it may.", ge=0
    )
    batch_size: int = option(8, "Notes read at a time.", ge=1)


Command = Literal["prepare", "train", "generate", "evaluate", "summarize"]
"""The name of a command that writes a result."""

OF_COMMAND: dict[Command, type[Settings]] = {
    "prepare": PrepareSettings,
    "train": TrainSettings,
    "generate": GenerateSettings,
    "evaluate": EvaluateSettings,
    "summarize": SummarizeSettings,
}
