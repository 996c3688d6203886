"""``ehr-course train``: a model from a prepared folder, in one process or under torchrun.

Without ``--steps``, training stops when the validation loss has not fallen for some evaluations,
at the latest after twenty epochs: longer training makes a model write copies of patients.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import BatchDataset, RecordDataset
from ehr_course.batches.prepared_notes import read_prepared, read_report
from ehr_course.cli.output import Target
from ehr_course.cli.prepare import NOTES, RECORDS, Prepared, cut_in_words, open_prepared
from ehr_course.cli.run_record import (
    DEMOGRAPHICS,
    MODEL,
    RUN,
    RunRecord,
    fingerprint_of_files,
    fingerprint_of_notes,
    fingerprint_of_records,
)
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.trained_run import (
    CHECKPOINTS,
    PREFIX,
    claimed,
    fingerprint_of_model,
    open_patient_run,
    write_demographics,
)
from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.evaluation.perplexity import overfitting
from ehr_course.generation.calibration import calibrate
from ehr_course.models import pointer_generator, prompt_bart
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import HISTORY, PromptBart, PromptBartConfig
from ehr_course.models.saved import Tokenizer, save_model
from ehr_course.records import PatientRecord
from ehr_course.sources.cohort import OPTION_NAMES
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.history import TrainingHistory
from ehr_course.training.processes import joined_processes
from ehr_course.training.trainer import Trainer


def train(settings: TrainSettings, target: Target) -> None:
    """Train a model, or go on with the training that the folder holds."""
    with joined_processes() as (processes, enter):
        prepared = open_prepared(settings.prepared)
        settings = filled_in(settings, prepared)
        config = training_config(settings)
        task = task_of(settings, prepared)
        target.check_inputs(task.fingerprints)
        for line in task.remarks:
            target.say(line)
        record = RunRecord(command="train", settings=settings, inputs=task.fingerprints)
        enter(claimed(target.out, record))
        trainer = Trainer(
            task.model,
            task.dataset,
            config,
            validation=task.validation,
            folder=target.out / CHECKPOINTS,
            progress=not target.quiet,
        )
        if trainer.step:
            at_most = "at most " * bool(config.patience)
            target.say(f"Going on after step {trainer.step:,} of {at_most}{config.steps:,}.")
        history = trainer.run()
        kept = history.rows[-1].get("validation_loss")
        best = history.best() if settings.evaluate_every else None
        if best is not None:
            trainer.load_best()
            kept = best[1]
        why = why_it_stopped(settings, prepared, history)
        if processes.is_first:
            trained = sum(p.numel() for p in task.model.parameters() if p.requires_grad)
            result = {
                "steps": trainer.step,
                "loss": history.loss(),
                "processes": processes.world,
                **({} if kept is None else {"validation_loss": kept}),
                "stopped": why,
                "kind": prepared.kind,
                "device": trainer.device.type,
                "trained_parameters": trained,
            }
            _write(task, target, result, seed=settings.seed)
            record.model_copy(update={"result": result}).write(target.out / RUN)
        processes.wait()
        losses = f"last losses {history.loss():.3f}"
        if kept is not None:
            losses += f", validation {kept:.3f}"
        target.say(why)
        if not target.quiet and processes.is_first and task.patients is not None:
            target.say(_learned_by_heart(task, prepared))
        target.say(f"{target.out / MODEL}: trained {trainer.step:,} steps; {losses} nats a token.")
        if not prepared.is_embedded:
            target.say("A model can repeat what it learned. Keep it as you keep the data.")


def _write(task: TrainingTask, target: Target, result: Mapping[str, Any], *, seed: int) -> None:
    """Write the model, and the demographics that ``generate`` draws from."""
    out = target.out
    if task.patients is not None:
        write_demographics(task.patients, out / DEMOGRAPHICS)
    model = task.model
    if isinstance(model, PromptBart) and model.end_bias is not None:
        assert isinstance(task.dataset, RecordDataset)
        target.say("Calibrating how often visits end and codes are written.")
        calibrate(model, task.dataset, seed=seed)
    if isinstance(model, PrefixTuned):
        model.save(out / PREFIX)
        assert isinstance(model.base, PromptBart)  # as `task_of` adapts no other
        model = model.base
    save_model(model, task.tokenizer, out / MODEL, metrics=result)


def why_it_stopped(settings: TrainSettings, prepared: Prepared, history: TrainingHistory) -> str:
    """Say after how many steps a training stopped, why, and which weights are kept."""
    done, found = history.rows[-1]["step"], history.best()
    if not settings.evaluate_every or found is None:
        return f"Stopped after {done:,} steps, as many as were asked for."
    if done < settings.steps:
        return (
            f"Stopped after {done:,} steps: the loss on {_validation_part(prepared)} had not "
            f"fallen for {settings.patience} evaluations; the weights of step {found[0]:,} are "
            "kept."
        )
    return (
        f"Stopped after {done:,} steps, the most that it was to take; the weights of step "
        f"{found[0]:,} are kept, whose loss on {_validation_part(prepared)} is the lowest."
    )


def _learned_by_heart(task: TrainingTask, prepared: Prepared) -> str:
    """Say whether the model knows validation patients worse than a table of frequencies does."""
    apart = prepared.split().validation
    if not apart:
        return (
            "No patients were kept apart for validation, so nothing tells yet whether the model "
            "learned its patients by heart: 'evaluate --model' does."
        )
    assert isinstance(task.tokenizer, CodeTokenizer) and task.patients is not None
    if not any(code in task.tokenizer for record in apart for code in record.codes):
        return "The model knows none of the codes of the validation patients."
    found = overfitting(task.model, task.tokenizer, apart, task.patients)
    return found.in_words("validation") or (
        f"Perplexity {found.held_out:,.1f} a code on validation patients, where a table of the "
        f"codes' frequencies has {found.unigram:,.1f}."
    )


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
            "it is 0, and the evaluations say when to stop",
            "Give --steps and no --patience, or leave --evaluate-every out.",
        )
    if every and not prepared.sizes["validation"]:
        raise InputError(
            prepared.folder,
            "",
            f"it has no {_validation_part(prepared)}, and their loss says when to stop and which "
            "weights to keep",
            "Say with --steps how long to train, and leave --evaluate-every and --patience out; "
            "or prepare again with a --validation above 0.",
        )
    steps = max(EPOCHS * epoch, FEWEST_STEPS) if is_free else settings.steps
    stopping = {"steps": steps, "evaluate_every": every, "patience": patience}
    return settings.model_copy(update=missing | stopping)


def _validation_part(prepared: Prepared) -> str:
    """What the part that says when to stop is called."""
    return "validation notes" if prepared.kind == NOTES else "validation patients"


def training_config(settings: TrainSettings) -> TrainingConfig:
    """The trainer's settings, from settings that ``filled_in`` returned."""
    assert settings.average is not None and settings.steps is not None
    averaged = settings.average * settings.steps
    return TrainingConfig(
        **settings.model_dump(include={field.name for field in fields(TrainingConfig)}),
        warmup_steps=settings.steps // 10,
        ema_decay=max(0.0, 1 - 1 / averaged) if averaged else 0.0,
        group_by_length=settings.batches != "mixed",
        equal_tokens=settings.batches == "equal-tokens",
    )


# ------------------------------------------------------------------ what is trained

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
    """Read the data and make the model."""
    is_notes = prepared.kind == NOTES
    sizes = [*(pointer_generator if is_notes else prompt_bart).PROFILES]
    if settings.profile not in sizes:
        raise InputError(
            prepared.folder,
            "",
            f"it holds {prepared.kind}, and --profile {settings.profile} is not for them",
            f"Give --profile {', '.join(sizes[:-1])} or {sizes[-1]}.",
        )
    options: tuple[str, ...] = ("coverage",)
    what = "patient records, and they have no such option"
    if is_notes:
        options, what = ("adapt", "base", "plain"), "notes, and they have no such option"
    elif settings.adapt is not None:
        options, what = ("coverage", "base", "plain"), "records for a model that is there already"
    for option in options:
        if getattr(settings, option):
            remedy = f"Leave --{option} out."
            raise InputError(prepared.folder, "", f"it holds {what}", remedy)
    return _notes(settings, prepared) if is_notes else _records(settings, prepared)


def _records(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    split = prepared.split()
    tokenizer = prepared.tokenizer()
    fingerprints = {"train": fingerprint_of_records(split.train)}
    model: PromptBart | PrefixTuned
    parts = {} if settings.plain else HISTORY
    torch.manual_seed(settings.seed)
    if settings.base is not None:
        folder = Path(settings.base)
        tokenizer = tokenizer.extending_bart(folder)
        model = _of_bart(folder, parts).resize_for(tokenizer)
        weights = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
        fingerprints["base"] = fingerprint_of_files(*weights)
    elif settings.adapt is None:
        model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, settings.profile, **parts))
    else:
        system = tokenizer.system
        base, tokenizer, _ = open_patient_run(settings.adapt)
        if isinstance(base, PrefixTuned):
            raise InputError(
                settings.adapt,
                "",
                "this model has a prefix already",
                "Name the run of its base; a second prefix takes the place of the first.",
            )
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
    cut = {"cut_notes": training.cut_notes, "cut_summaries": training.cut_summaries}
    cut_notes = {"parts": {"train": len(training)}, **cut}
    return TrainingTask(
        PointerGenerator(config),
        training.tokenizer,
        training,
        validation,
        {"train": fingerprint_of_notes(training.pairs)},
        remarks=tuple(cut_in_words(cut_notes, **limits, give="give 'ehr-course prepare'")),
    )
