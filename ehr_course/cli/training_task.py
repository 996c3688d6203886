"""What ``ehr-course train`` trains, and on what: a model and its data, by the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import BatchDataset, RecordDataset
from ehr_course.batches.prepared_notes import read_prepared, read_report
from ehr_course.cli.cut_notes import cut_in_words
from ehr_course.cli.options import PROFILES
from ehr_course.cli.prepared_folder import NOTES, Prepared
from ehr_course.cli.result_folders import fingerprint_of_model, open_patient_run
from ehr_course.cli.run_record import fingerprint_of_notes, fingerprint_of_records
from ehr_course.cli.settings import TrainSettings
from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.prompt_bart_config import HISTORY
from ehr_course.models.saved import Tokenizer
from ehr_course.records import PatientRecord
from ehr_course.sources.options import OPTION_NAMES

P_EMPTY = 0.5
"""How often the encoder gets an empty record, which teaches the model to write one from age and
sex alone."""


@dataclass(frozen=True)
class TrainingTask:
    """What is trained, and on what.

    Attributes:
        model: new, or a prefix with its base.
        tokenizer: of the model.
        dataset: to learn from.
        validation: to judge by, or None.
        fingerprints: of what was read, by name.
        patients: those to learn from, or None where they are notes.
        unknown: codes in their records that the model has no token for.
        cut: what to say of notes and summaries that were cut when they were prepared.
    """

    model: PromptBart | PointerGenerator | PrefixTuned
    tokenizer: Tokenizer
    dataset: BatchDataset
    validation: BatchDataset | None
    fingerprints: dict[str, str]
    patients: list[PatientRecord] | None = None
    unknown: int = 0
    cut: tuple[str, ...] = ()

    @property
    def n_trainable(self) -> int:
        """How many parameters learn."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)


def task_of(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    """Read the data and make the model.

    Raises:
        InputError: if a setting does not fit the data, or the data do not fit the model.
    """
    sizes = PROFILES[prepared.kind]
    if settings.profile not in sizes:
        raise InputError(
            prepared.folder,
            "",
            f"it holds {prepared.kind}, and --profile {settings.profile} is not for them",
            f"Give --profile {', '.join(sizes[:-1])} or {sizes[-1]}.",
        )
    if prepared.kind == NOTES:
        if settings.adapt is not None:
            raise _misfit(prepared, "notes, and a prefix is for patient records", "--adapt")
        if settings.plain:
            raise _misfit(prepared, "notes, whose model has one kind only", "--plain")
        return _notes(settings, prepared)
    if settings.plain and settings.adapt is not None:
        raise _misfit(prepared, "records for a model that is there already", "--plain")
    if settings.coverage:
        raise _misfit(prepared, "patient records, and coverage is for notes", "--coverage")
    return _records(settings, prepared)


def _misfit(prepared: Prepared, problem: str, option: str) -> InputError:
    return InputError(prepared.folder, "", f"it holds {problem}", f"Leave {option} out.")


def _records(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    split = prepared.split()
    fingerprints = {"train": fingerprint_of_records(split.train)}
    model: PromptBart | PrefixTuned
    if settings.adapt is None:
        tokenizer = prepared.tokenizer()
        torch.manual_seed(settings.seed)
        options = {} if settings.plain else HISTORY
        model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, settings.profile, **options))
    else:
        adapted = open_patient_run(settings.adapt)
        if isinstance(adapted.model, PrefixTuned):
            raise InputError(
                settings.adapt,
                "",
                "this model has a prefix already",
                "Name the run of its base; a second prefix takes the place of the first.",
            )
        tokenizer = adapted.tokenizer
        _check_systems(prepared, settings.adapt, tokenizer.system)
        config = PrefixConfig(n_tokens=settings.prefix)
        model = PrefixTuned(adapted.model, config, seed=settings.seed)
        fingerprints["base"] = fingerprint_of_model(Path(settings.adapt))
    # Records of another part, or of another hospital, can have codes that the model lacks.
    lenient = tokenizer.skipping_unseen()

    def dataset(records: list[PatientRecord]) -> RecordDataset:
        return RecordDataset(
            records,
            lenient,
            corruption=Corruption(p_empty=P_EMPTY),
            seed=settings.seed,
            max_tokens=model.max_tokens,
            too_long="cut",
        )

    return TrainingTask(
        model,
        tokenizer,
        dataset(split.train),
        dataset(split.validation) if split.validation else None,
        fingerprints,
        split.train,
        lenient.unseen_codes(split.train).total(),
    )


def _check_systems(prepared: Prepared, run: str, of_model: CodeSystem) -> None:
    """Refuse patients who are coded in the other system than those that a model learned from."""
    system = prepared.tokenizer().system
    if system != of_model:
        raise InputError(
            prepared.folder,
            "",
            f"its codes are {SYSTEM_NAMES[system]}, and those of the model in {run} are "
            f"{SYSTEM_NAMES[of_model]}",
            f"Prepare the data with --map {OPTION_NAMES[of_model]}, or train a new model: leave "
            "--adapt out.",
        )


def _notes(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    folder = prepared.folder / NOTES
    training = read_prepared(folder, "train")
    validation = read_prepared(folder, "validation") if prepared.sizes["validation"] else None
    limits = {name: read_report(folder)[name] for name in ("max_source", "max_target")}
    config = PointerGeneratorConfig.for_tokenizer(
        training.tokenizer, settings.profile, coverage=settings.coverage, **limits
    )
    torch.manual_seed(settings.seed)
    return TrainingTask(
        PointerGenerator(config),
        training.tokenizer,
        training,
        validation,
        {"train": fingerprint_of_notes(training.pairs)},
        cut=tuple(
            cut_in_words(
                training.cut_notes,
                training.cut_summaries,
                of=len(training),
                command="ehr-course prepare",
                **limits,
            )
        ),
    )
