"""The settings of each command: all that a run depends on but its inputs' content.

They are what ``run.json`` holds, so that a run can be repeated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, get_args, get_type_hints

from ehr_course.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the settings of all commands have in common."""

    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:
            raise InputError(
                "settings", "seed", f"{self.seed} is out of range", "Use 0 to 2**32 - 1."
            )

    @classmethod
    def from_json(cls, found: Mapping[str, Any], place: object) -> Self:
        """Read settings back that ``to_json`` gave.

        Args:
            found: the settings by name; those that are missing have their defaults.
            place: the file that they stand in, for the message.

        Raises:
            InputError: if a name is unknown, one without a default is missing, or a value is of
                another type.
        """
        hints = get_type_hints(cls)
        for name, value in found.items():
            if name not in hints:
                raise InputError(
                    place,
                    f"settings, {name}",
                    "this version has no such setting",
                    "Repeat the run with the version of ehr_course that the file names.",
                )
            if not _fits(value, hints[name]):
                raise InputError(
                    place, f"settings, {name}", f"{value!r} is of another type", "Correct it."
                )
        values = {n: tuple(v) if isinstance(v, list) else v for n, v in found.items()}
        try:
            return cls(**values)
        except TypeError:
            missing = [field.name for field in fields(cls) if field.name not in found]
            raise InputError(
                place,
                "settings",
                f"some are missing (perhaps {', '.join(missing)})",
                "Give the command itself.",
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Every setting by its name."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class PrepareSettings(Settings):
    """Settings of ``ehr-course prepare``.

    Attributes:
        data: folder of MIMIC-III, MIMIC-IV or MEDS, or None for the embedded hospital.
        notes: file with notes and summaries, "embedded", or None for patient records.
        patients: how many patients the embedded hospital has.
        hospital: "general" or "heart".
        malformed: "raise" or "drop".
        validation, test: shares of the patients, 0 to below 1.
        note_column, summary_column, patient_column: of the file with notes.
        tokenizer: of notes: "words" or "pieces".
        min_count: how often a word must come to be in the vocabulary of words.
        vocabulary: how many pieces there are.
        max_source, max_target: the longest note and summary in tokens.
    """

    data: str | None = None
    notes: str | None = None
    patients: int = 5_000
    hospital: str = "general"
    malformed: str = "raise"
    validation: float = 0.1
    test: float = 0.1
    note_column: str | None = None
    summary_column: str | None = None
    patient_column: str | None = None
    tokenizer: str = "words"
    min_count: int = 2
    vocabulary: int = 16_000
    max_source: int = 768
    max_target: int = 192


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """Settings of ``ehr-course train``; see TrainingConfig.

    Attributes:
        prepared: the folder that ``prepare`` wrote.
        profile: the size of the model.
        adapt: the folder of a run whose model gets a prefix, or None for a new model.
        prefix: how many tokens the prefix has.
        coverage: whether the summariser has coverage.
        by_length: whether records of similar length share a batch. Each batch is a mean over its
            own tokens, so a short record then weighs more than a long one.
        lr: the peak learning rate, or None: 0.002, a summariser's 0.004, a prefix's 0.03.
        evaluate_every: steps between evaluations; the model that is kept is then the best.
    """

    prepared: str
    profile: str = "tiny"
    adapt: str | None = None
    prefix: int = 8
    coverage: bool = False
    steps: int = 2_000
    batch_size: int = 32
    accumulation: int = 1
    by_length: bool = False
    lr: float | None = None
    precision: str = "float32"
    evaluate_every: int = 0
    checkpoint_every: int = 200


@dataclass(frozen=True, kw_only=True)
class GenerateSettings(Settings):
    """Settings of ``ehr-course generate``; see Sampling.

    Attributes:
        run: the folder that ``train`` wrote.
        patients: how many to write.
        formats: what to write: "meds", "mimic3", "parquet".
        batch_size: how many patients are written at a time.
    """

    run: str
    patients: int = 1_000
    formats: tuple[str, ...] = ("meds",)
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    batch_size: int = 64


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Settings):
    """Settings of ``ehr-course evaluate``.

    Attributes:
        real: the folder that ``prepare`` wrote.
        synthetic: what ``generate`` wrote, or any folder or file in one of its formats.
        model: the folder that ``train`` wrote, or None.
        limit: at most so many patients of each cohort, or None for all.
        title: of the report.
    """

    real: str
    synthetic: str
    model: str | None = None
    limit: int | None = None
    title: str = "A synthetic cohort beside the real one"


@dataclass(frozen=True, kw_only=True)
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
    batch_size: int = 8


OF_COMMAND: dict[str, type[Settings]] = {
    "prepare": PrepareSettings,
    "train": TrainSettings,
    "generate": GenerateSettings,
    "evaluate": EvaluateSettings,
    "summarize": SummarizeSettings,
}


def _fits(value: Any, hint: Any) -> bool:
    """Whether JSON gave what the hint asks for: a plain type, one or None, or tuple[str, ...]."""
    if hint == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    kinds = get_args(hint) or (hint,)
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds) or (float in kinds and isinstance(value, int))
