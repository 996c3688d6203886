"""What ``ehr-course train`` trains, on what and how: what its settings leave open is filled in.

Without ``--steps``, training stops when the validation loss has not fallen for some evaluations,
at the latest after twenty epochs: longer training makes a model write copies of patients.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import BatchDataset, RecordDataset
from ehr_course.batches.prepared_notes import read_prepared, read_report
from ehr_course.cli.prepare import cut_in_words
from ehr_course.cli.prepared_folder import NOTES, RECORDS, Prepared
from ehr_course.cli.run_record import (
    fingerprint_of_files,
    fingerprint_of_notes,
    fingerprint_of_records,
)
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.trained_run import fingerprint_of_model, open_patient_run
from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import HISTORY, PromptBart, PromptBartConfig
from ehr_course.models.saved import Tokenizer
from ehr_course.records import PatientRecord
from ehr_course.sources.options import OPTION_NAMES
from ehr_course.training.config import TrainingConfig

# ------------------------------------------------------------------ how it is trained

RECORDS_RECIPE: dict[str, Any] = {
    "lr": 4e-3,
    "weight_decay": 0.3,
    "batches": "equal-tokens",
    # Cuts only rare outliers: in a new model batches of short records have the longest gradients,
    # and cutting every gradient would make those patients count less (lesson 15).
    "max_grad_norm": 5.0,
    "average": 0.2,
}
"""For a new model of patient records, chosen on the embedded hospital; the book's page "Compared"
has what it gives beside other generators.
"""

NOTES_RECIPE: dict[str, Any] = {
    "lr": 4e-3,
    "weight_decay": 0.01,
    "batches": "mixed",
    "max_grad_norm": 1.0,
    "average": 0.0,
}
"""For a summariser."""

PREFIX_RECIPE = NOTES_RECIPE | {"lr": 3e-2}
"""For a prefix, which needs a higher rate."""

BASE_RECIPE = RECORDS_RECIPE | {"lr": 1e-4, "weight_decay": 0.01}
"""For pretrained weights, which a higher rate would undo."""

EPOCHS = 20
"""The most epochs without ``--steps``; the learning rate has fallen to 0 then."""

FEWEST_STEPS = 500
"""The fewest steps without ``--steps``: with few patients twenty epochs are too short."""

EVALUATE_EVERY = 10
"""The fewest steps between evaluations; with more patients there is one per epoch."""

PATIENCE = 5
"""Evaluations in a row without a lower loss after which a training stops."""


def filled_in(settings: TrainSettings, prepared: Prepared) -> TrainSettings:
    """Fill in how to train, when to stop and how often to evaluate, where settings are None.

    With steps but neither evaluations nor patience, both are 0. Of prepared only kind and sizes
    are used.

    Raises:
        InputError: if validation data are needed, and there are none.
    """
    recipe = RECORDS_RECIPE if prepared.kind == RECORDS else NOTES_RECIPE
    if settings.adapt is not None:
        recipe = PREFIX_RECIPE
    elif settings.base is not None:
        recipe = BASE_RECIPE
    missing = {name: value for name, value in recipe.items() if getattr(settings, name) is None}
    is_free = settings.steps is None
    patience = settings.patience
    if patience is None:
        patience = PATIENCE if is_free else 0
    every = settings.evaluate_every
    epoch = -(-prepared.sizes["train"] // settings.batch_size)
    if every is None:
        every = max(EVALUATE_EVERY, epoch) if is_free or patience else 0
    if every == 0 and (is_free or patience):
        raise InputError(
            "train",
            "--evaluate-every",
            "it is 0, and when to stop is seen in the evaluations",
            "Give --steps and no --patience, or leave --evaluate-every out.",
        )
    if every and not prepared.sizes["validation"]:
        raise InputError(
            prepared.folder,
            "",
            f"it has no {validation_part(prepared)}, and their loss says when to stop and which "
            "weights to keep",
            "Say with --steps how long to train, and leave --evaluate-every and --patience out; "
            "or prepare again with a --validation above 0.",
        )
    steps = max(EPOCHS * epoch, FEWEST_STEPS) if is_free else settings.steps
    stopping = {"steps": steps, "evaluate_every": every, "patience": patience}
    return settings.model_copy(update=missing | stopping)


def validation_part(prepared: Prepared) -> str:
    """What the part that says when to stop is called."""
    return "validation notes" if prepared.kind == NOTES else "validation patients"


def training_config(settings: TrainSettings) -> TrainingConfig:
    """The trainer's settings, from settings that ``filled_in`` returned."""
    given = settings.model_dump()
    names = (
        *("steps", "batch_size", "gradient_accumulation_steps", "lr", "weight_decay"),
        *("max_grad_norm", "precision", "evaluate_every", "patience", "checkpoint_every", "seed"),
    )
    averaged = given["average"] * given["steps"]
    return TrainingConfig(
        **{name: given[name] for name in names},
        warmup_steps=given["steps"] // 10,
        ema_decay=max(0.0, 1 - 1 / averaged) if averaged else 0.0,
        group_by_length=settings.batches != "mixed",
        equal_tokens=settings.batches == "equal-tokens",
    )


# ------------------------------------------------------------------ what is trained

PROFILES = {
    "records": ("narrow", "tiny", "small", "full"),
    "notes": ("tiny", "small", "full"),
}
"""The sizes of models of each kind of data, smallest first."""

P_EMPTY = 0.5
"""The share of empty encoder inputs, which teach the model to write from age and sex alone."""


@dataclass(frozen=True)
class TrainingTask:
    """What is trained, and on what.

    Attributes:
        model: new, or a prefix with its base.
        validation: to judge by, or None.
        fingerprints: of what was read, by name.
        patients: those to learn from, or None for notes.
        remarks: what to say of codes that the model lacks, and of notes that were cut.
    """

    model: PromptBart | PointerGenerator | PrefixTuned
    tokenizer: Tokenizer
    dataset: BatchDataset
    validation: BatchDataset | None
    fingerprints: dict[str, str]
    patients: list[PatientRecord] | None = None
    remarks: tuple[str, ...] = ()


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
    is_notes, is_adapted = prepared.kind == NOTES, settings.adapt is not None
    is_based = settings.base is not None
    for option, is_misfit, problem in (
        ("--adapt", is_notes and is_adapted, "notes, and a prefix is for patient records"),
        ("--base", is_notes and is_based, "notes, whose model has a layout of its own"),
        ("--base", is_adapted and is_based, "records for a model that is there already"),
        ("--plain", is_notes and settings.plain, "notes, whose model has one kind only"),
        (
            "--plain",
            is_adapted and settings.plain,
            "records for a model that is there already",
        ),
        (
            "--coverage",
            not is_notes and settings.coverage,
            "patient records, and coverage is for notes",
        ),
    ):
        if is_misfit:
            raise InputError(prepared.folder, "", f"it holds {problem}", f"Leave {option} out.")
    return _notes(settings, prepared) if is_notes else _records(settings, prepared)


def _records(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    split = prepared.split()
    fingerprints = {"train": fingerprint_of_records(split.train)}
    model: PromptBart | PrefixTuned
    parts = {} if settings.plain else HISTORY
    torch.manual_seed(settings.seed)
    if settings.base is not None:
        folder = Path(settings.base)
        tokenizer = prepared.tokenizer().extending_bart(folder)
        model = _of_bart(folder, parts).resize_for(tokenizer)
        weights = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
        fingerprints["base"] = fingerprint_of_files(*weights)
    elif settings.adapt is None:
        tokenizer = prepared.tokenizer()
        model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, settings.profile, **parts))
    else:
        base, tokenizer, _ = open_patient_run(settings.adapt)
        if isinstance(base, PrefixTuned):
            raise InputError(
                settings.adapt,
                "",
                "this model has a prefix already",
                "Name the run of its base; a second prefix takes the place of the first.",
            )
        system = prepared.tokenizer().system
        if system != tokenizer.system:
            raise InputError(
                prepared.folder,
                "",
                f"its codes are {SYSTEM_NAMES[system]}, and those of the model in "
                f"{settings.adapt} are {SYSTEM_NAMES[tokenizer.system]}",
                f"Prepare the data with --map {OPTION_NAMES[tokenizer.system]}, or train a new "
                "model: leave --adapt out.",
            )
        model = PrefixTuned(base, PrefixConfig(n_tokens=settings.prefix), seed=settings.seed)
        fingerprints["base"] = fingerprint_of_model(Path(settings.adapt))
    # Records of another part or hospital can have codes that the model lacks.
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

    unknown = lenient.unseen_codes(split.train).total()
    remark = f"Note: {unknown:,} codes of the patients are unknown to the model and left out."
    return TrainingTask(
        model,
        tokenizer,
        dataset(split.train),
        dataset(split.validation) if split.validation else None,
        fingerprints,
        split.train,
        (remark,) if unknown else (),
    )


def _of_bart(folder: Path, parts: dict[str, Any]) -> PromptBart:
    """A model with the weights of a BART, the rest drawn at random."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # it would list what is drawn
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
        if kind != "bart":
            raise ValueError(f"config.json says that it is a {kind}")
        return PromptBart.from_pretrained(folder, local_files_only=True, **parts)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            folder,
            "",
            f"no BART can be read from it ({str(error).splitlines()[0].rstrip('.')})",
            "Name a Hugging Face folder with config.json and model.safetensors of a BART.",
        ) from None
    finally:
        logging.set_verbosity(verbosity)


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
        remarks=tuple(
            cut_in_words(
                training.cut_notes,
                training.cut_summaries,
                of=len(training),
                command="ehr-course prepare",
                **limits,
            )
        ),
    )
