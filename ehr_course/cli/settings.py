"""The settings of each command: all that a run depends on but its inputs' content.

They are what ``run.json`` holds, so that a run can be repeated from it. A name that is not among
them, a value of another type or one out of its range raises pydantic's ``ValidationError``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from ehr_course.errors import InputError

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
SystemOption = Literal["icd9", "icd10"] | None
"""A code system as an option names it."""


class Settings(BaseModel):
    """What the settings of all commands have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class PrepareSettings(Settings):
    """Settings of ``ehr-course prepare``.

    Attributes:
        data: folder of MIMIC-III, MIMIC-IV, MEDS, OMOP or Synthea, a table with a row for each
            code, or None for the embedded hospital.
        columns: of such a table: which column says what.
        code_map: a .csv file with ICD-9-CM or ICD-10-CM codes for those of the data, or None.
        codes: "icd9" or "icd10": the system whose diagnoses are taken, or None; of the embedded
            hospital, the one that it is coded in.
        map_to: "icd9" or "icd10": the system into which the others are translated, or None. Where
            both are None, see ``choose_systems``.
        notes: file with notes and summaries, "embedded", or None for patient records.
        patients: how many patients the embedded hospital has.
        hospital: "general" or "heart".
        malformed: "raise" or "drop".
        date_format: a format of strptime that dates may have, or None.
        whole_patients: whether patients of whom some admissions are dropped are left out.
        zeros_lost_ok: whether to go on where codes seem to have lost their leading zeros.
        validation, test: shares of the patients, 0 to 1.
        note_column, summary_column, patient_column: of the file with notes.
        min_note, min_summary: the shortest note and summary that are read, in characters.
        tokenizer: of notes: "words" or "pieces".
        min_count: how often a word must come to be in the vocabulary of words.
        vocabulary: how many pieces there are.
        max_source, max_target: the longest note and summary in tokens.
    """

    data: str | None = None
    columns: dict[str, str] | None = None
    code_map: str | None = None
    codes: SystemOption = None
    map_to: SystemOption = None
    notes: str | None = None
    patients: Count = 5_000
    hospital: Literal["general", "heart"] = "general"
    malformed: Literal["raise", "drop"] = "raise"
    date_format: str | None = None
    whole_patients: bool = False
    zeros_lost_ok: bool = False
    validation: Share = 0.1
    test: Share = 0.1
    note_column: str | None = None
    summary_column: str | None = None
    patient_column: str | None = None
    min_note: CountOrZero = 0
    min_summary: CountOrZero = 0
    tokenizer: Literal["words", "pieces"] = "words"
    min_count: Count = 2
    vocabulary: Count = 16_000
    max_source: Count = 768
    max_target: Count = 192


class TrainSettings(Settings):
    """Settings of ``ehr-course train``; see TrainingConfig.

    Attributes:
        prepared: the folder that ``prepare`` wrote.
        profile: the size of the model.
        adapt: the folder of a run whose model gets a prefix, or None for a new model.
        prefix: how many tokens the prefix has.
        coverage: whether the summariser has coverage.
        gradient_accumulation_steps: into how many parts a batch is cut, to fit into memory.
        plain: whether a model of records is the one of lessons 10 to 18, which has no copy head,
            no visit embeddings, and takes the age as it is.
        batches: what shares a batch: "mixed" lengths; "by-length", where a short record weighs
            more than a long one; or "equal-tokens", by length too, and every token weighs the
            same. None is what the recipe has; see ``training_recipe``.
        lr: the peak learning rate, or None for the recipe's.
        weight_decay: of weight matrices and embeddings, or None for the recipe's.
        max_grad_norm: the norm that the gradient is clipped to, or None for the recipe's.
        average: over which share of the steps the weights are averaged, 0 for no average, or None
            for the recipe's.
        steps: how often the weights change, or None: until the loss on the validation part has
            not fallen for some evaluations; see ``stopping``.
        evaluate_every: steps between evaluations; the model that is kept is then the best. 0 for
            none, None for what suits the data.
        patience: how many evaluations in a row without a lower loss are too many, or 0 for never;
            None is 0 where steps are given.
    """

    prepared: str
    profile: Literal["narrow", "tiny", "small", "full"] = "tiny"
    adapt: str | None = None
    prefix: Count = 8
    coverage: bool = False
    steps: Count | None = None
    batch_size: Count = 32
    gradient_accumulation_steps: Count = 1
    plain: bool = False
    batches: Literal["mixed", "by-length", "equal-tokens"] | None = None
    lr: float | None = None
    weight_decay: float | None = None
    max_grad_norm: float | None = None
    average: Share | None = None
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    evaluate_every: CountOrZero | None = None
    patience: CountOrZero | None = None
    checkpoint_every: CountOrZero = 200


class GenerateSettings(Settings):
    """Settings of ``ehr-course generate``; see Sampling.

    Attributes:
        run: the folder that ``train`` wrote.
        patients: how many to write.
        formats: what to write: "meds", "mimic3", "parquet".
        top_p: None is what the model was calibrated for, or 1.
        eligible_only: whether codes that age or sex rules out are kept out.
        batch_size: how many patients are written at a time.
    """

    run: str
    patients: Count = 1_000
    # JSON has lists and no tuples.
    formats: Annotated[
        tuple[Literal["meds", "mimic3", "parquet"], ...], Field(min_length=1), Strict(False)
    ] = ("meds",)
    temperature: float = 1.0
    top_k: CountOrZero = 0
    top_p: float | None = None
    eligible_only: bool = False
    batch_size: Count = 512


class EvaluateSettings(Settings):
    """Settings of ``ehr-course evaluate``.

    Attributes:
        real: the folder that ``prepare`` wrote.
        synthetic: what ``generate`` wrote, or a cohort of another tool (see load_cohort); or
            several of them by their names.
        columns: of a .csv or .parquet file: which of them says what.
        malformed: "raise" or "drop".
        date_format: a format of strptime that dates may have, or None.
        code_map: a .csv file with ICD-9-CM or ICD-10-CM codes for those of the synthetic cohort,
            or None.
        codes, map_to: of the synthetic cohorts, as in PrepareSettings.
        model: the folder that ``train`` wrote, or None; of several cohorts by the name of the
            cohort that it wrote.
        limit: at most so many patients of each cohort, or None for all.
        title: of the report.
    """

    real: str
    synthetic: str | Annotated[dict[str, str], Field(min_length=2)]
    columns: dict[str, str] | None = None
    malformed: Literal["raise", "drop"] = "raise"
    date_format: str | None = None
    code_map: str | None = None
    codes: SystemOption = None
    map_to: SystemOption = None
    model: str | dict[str, str] | None = None
    limit: Annotated[int, Field(ge=2)] | None = None
    title: str = "Synthetic patients beside real ones"


class SummarizeSettings(Settings):
    """Settings of ``ehr-course summarize``; see BeamSettings.

    Attributes:
        run: the folder that ``train`` wrote.
        notes: the file with the notes.
        note_column, summary_column: its columns, or None for those that are recognised.
        batch_size: how many notes are read at a time.
    """

    run: str
    notes: str
    note_column: str | None = None
    summary_column: str | None = None
    beams: int = 4
    length_penalty: float = 1.0
    min_length: int = 2
    max_length: int = 128
    no_repeat_ngram_size: int = 3
    batch_size: Count = 8


Command = Literal["prepare", "train", "generate", "evaluate", "summarize"]
"""The name of a command that writes a result."""

OF_COMMAND: dict[Command, type[Settings]] = {
    "prepare": PrepareSettings,
    "train": TrainSettings,
    "generate": GenerateSettings,
    "evaluate": EvaluateSettings,
    "summarize": SummarizeSettings,
}


def settings_error(error: ValidationError, thing: object, *place: str) -> InputError:
    """Say which setting is wrong, why, and what to do about it.

    Args:
        error: the first of its complaints is told.
        thing: the file that the settings stand in.
        place: the part of the file that was checked.
    """
    first = error.errors()[0]
    where = ", ".join((*place, *map(str, first["loc"])))
    if first["type"] == "missing":
        return InputError(thing, where, "it is missing", "Give the command itself.")
    if first["type"] == "extra_forbidden":
        return InputError(
            thing,
            where,
            "this version has no such setting",
            "Repeat the run with the version of ehr_course that the file names.",
        )
    problem = f"{first['msg'][:1].lower()}{first['msg'][1:]}, and it is {first['input']!r}"
    return InputError(thing, where, problem, "Correct it.")
