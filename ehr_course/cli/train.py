"""``ehr-course train``: a model from a prepared folder, in one process or under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import distributed

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import BatchDataset, RecordDataset
from ehr_course.batches.prepared_notes import read_prepared
from ehr_course.cli.output import say
from ehr_course.cli.result_folders import (
    CHECKPOINTS,
    DEMOGRAPHICS,
    MODEL,
    NOTES,
    PREFIX,
    RECORDS,
    Prepared,
    fingerprint_of_model,
    open_prepared,
    open_run,
    write_demographics,
)
from ehr_course.cli.run_record import (
    RUN,
    RunRecord,
    check_inputs,
    fingerprint_of_notes,
    fingerprint_of_records,
    read_run,
)
from ehr_course.cli.settings import TrainSettings
from ehr_course.errors import InputError
from ehr_course.evaluation.overfitting import overfitting
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import Tokenizer, save_model
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig, check_same_training
from ehr_course.training.processes import Processes
from ehr_course.training.trainer import Trainer


def train(
    settings: TrainSettings,
    out: Path,
    *,
    quiet: bool = False,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Train a model, or go on with a training that stopped.

    Args:
        settings: what to train and how.
        out: the folder of the run. One that holds this training is resumed.
        quiet: whether to print nothing and show no bar.
        expected: the fingerprints that the data must have, or None.

    Raises:
        InputError: if a setting is out of its range, or out holds anything but this training.
    """
    processes = Processes.from_environment()
    try:
        _train(settings, out, processes, quiet=quiet, expected=expected)
    finally:
        if processes.world > 1:
            distributed.destroy_process_group()


def _train(
    settings: TrainSettings,
    out: Path,
    processes: Processes,
    *,
    quiet: bool,
    expected: Mapping[str, str] | None,
) -> None:
    prepared = open_prepared(settings.prepared)
    if settings.lr is None:
        settings = settings.model_copy(update={"lr": default_lr(settings, prepared)})
    config = _config(settings)
    task = task_of(settings, prepared)
    check_inputs(expected, task.fingerprints)
    if task.unknown:
        problem = "codes of the patients are unknown to the model and left out"
        say(f"Note: {task.unknown:,} {problem}.", quiet=quiet)
    record = RunRecord("train", settings, task.fingerprints)
    problem = processes.from_first(lambda: _claim(out, record))
    if problem is not None:
        raise problem

    trainer = Trainer(
        task.model,
        task.dataset,
        config,
        validation=task.validation,
        folder=out / CHECKPOINTS,
        progress=not quiet,
    )
    if trainer.step:
        say(f"Going on after step {trainer.step:,} of {config.steps:,}.", quiet=quiet)
    history = trainer.run()
    evaluated = [row["validation_loss"] for row in history.rows if "validation_loss" in row]
    if settings.evaluate_every and evaluated:
        trainer.load_best()
    if processes.is_first:
        result = {"steps": trainer.step, "loss": history.loss(), "processes": processes.world}
        if evaluated:
            kept = min(evaluated) if settings.evaluate_every else evaluated[-1]
            result["validation_loss"] = kept
        result |= {"kind": prepared.kind, "device": trainer.device.type}
        result["trained_parameters"] = task.n_trainable
        # Where patients are known: whom generate is to write.
        if task.patients is not None:
            write_demographics(task.patients, out / DEMOGRAPHICS)
        base = task.model
        if isinstance(task.model, PrefixTuned):
            base = task.model.base
            task.model.save(out / PREFIX)
        save_model(base, task.tokenizer, out / MODEL, metrics=result)
        replace(record, result=result).write(out / RUN)
    processes.wait()
    losses = f"last losses {history.loss():.3f}"
    if evaluated:
        losses += f", validation {evaluated[-1]:.3f}"
    if not quiet and processes.is_first and prepared.kind == RECORDS:
        say(_learned_by_heart(task, prepared))
    say(f"{out / MODEL}: trained {trainer.step:,} steps; {losses} nats a token.", quiet=quiet)
    if not prepared.is_embedded:
        say("A model can repeat what it learned. Keep it as you keep the data.", quiet=quiet)


def _learned_by_heart(task: TrainingTask, prepared: Prepared) -> str:
    """Whether the model knows validation patients worse than a table of frequencies does."""
    apart = prepared.split().validation
    if not apart:
        return (
            "No patients were kept apart for validation, so nothing tells yet whether the model "
            "learned its patients by heart: 'evaluate --model' does."
        )
    if not any(code in task.tokenizer for record in apart for code in record.codes):
        return "None of the codes of the validation patients is known to the model."
    found = overfitting(task.model, task.tokenizer, apart, task.patients)
    return found.in_words or (
        f"Perplexity {found.held_out:,.1f} a code on validation patients, where a table of the "
        f"codes' frequencies has {found.unigram:,.1f}."
    )


def _config(settings: TrainSettings) -> TrainingConfig:
    return TrainingConfig(
        steps=settings.steps,
        batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        lr=settings.lr,
        warmup_steps=settings.steps // 10,
        precision=settings.precision,
        evaluate_every=settings.evaluate_every,
        checkpoint_every=settings.checkpoint_every,
        seed=settings.seed,
        group_by_length=settings.group_by_length,
    )


def _claim(out: Path, record: RunRecord) -> InputError | None:
    """Take a folder for this run, or say why it cannot be had."""
    try:
        if out.exists() and not out.is_dir():
            raise InputError(out, "", "this is a file", "Name a folder.")
        if out.is_dir() and any(out.iterdir()):
            _check_same_run(out, record)
            for half in out.glob(f".{RUN}.*"):
                half.unlink()
        else:
            out.mkdir(parents=True, exist_ok=True)
            record.write(out / RUN)
    except InputError as error:
        return error
    except OSError as error:
        return InputError(out, "", f"it cannot be written ({error})", "Name another folder.")
    return None


def _check_same_run(out: Path, record: RunRecord) -> None:
    try:
        there = read_run(out)
    except InputError:
        raise InputError(
            out,
            "",
            "the folder is not empty, and no training is in it",
            "Name a new folder, or one whose training is to go on.",
        ) from None
    if there.command != "train":
        raise InputError(
            out, RUN, f"this is what 'ehr-course {there.command}' wrote", "Name a new folder."
        )
    then, now = (
        of.inputs | of.settings.model_dump(mode="json", exclude={"prepared"})
        for of in (there, record)
    )
    check_same_training(out, then, now)


# ------------------------------------------------------------------ what is trained, and on what


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
    """

    model: PromptBart | PointerGenerator | PrefixTuned
    tokenizer: Tokenizer
    dataset: BatchDataset
    validation: BatchDataset | None
    fingerprints: dict[str, str]
    patients: list[PatientRecord] | None = None
    unknown: int = 0

    @property
    def n_trainable(self) -> int:
        """How many parameters learn."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)


def default_lr(settings: TrainSettings, prepared: Prepared) -> float:
    """The peak learning rate where none is asked for: a prefix needs a higher one."""
    if settings.adapt is not None:
        return 3e-2
    return 2e-3 if prepared.kind == RECORDS else 4e-3


def task_of(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    """Read the data and make the model.

    Raises:
        InputError: if a setting does not fit the data, or the data do not fit the model.
    """
    if prepared.kind == NOTES:
        if settings.adapt is not None:
            raise _misfit(prepared, "notes, and a prefix is for patient records", "--adapt")
        return _notes(settings, prepared)
    if settings.coverage:
        raise _misfit(prepared, "patient records, and coverage is for notes", "--coverage")
    return _records(settings, prepared)


def _misfit(prepared: Prepared, problem: str, option: str) -> InputError:
    return InputError(prepared.folder, "", f"it holds {problem}", f"Leave {option} out.")


def _records(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    split = prepared.split()
    fingerprints = {"train": fingerprint_of_records(split.train)}
    if settings.adapt is None:
        tokenizer = prepared.tokenizer()
        torch.manual_seed(settings.seed)
        model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, settings.profile))
    else:
        loaded, _ = open_run(settings.adapt, wanted=PromptBart)
        if isinstance(loaded.model, PrefixTuned):
            raise InputError(
                settings.adapt,
                "",
                "this model has a prefix already",
                "Name the run of its base; a second prefix takes the place of the first.",
            )
        tokenizer = loaded.tokenizer
        config = PrefixConfig(n_tokens=settings.prefix)
        model = PrefixTuned(loaded.model, config, seed=settings.seed)
        fingerprints["base"] = fingerprint_of_model(Path(settings.adapt))
    # Records of another part, or of another hospital, can have codes that the model lacks.
    lenient = CodeTokenizer(tokenizer.codes, unseen="skip")

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


def _notes(settings: TrainSettings, prepared: Prepared) -> TrainingTask:
    folder = prepared.folder / NOTES
    training = read_prepared(folder, "train")
    validation = read_prepared(folder, "validation") if prepared.sizes["validation"] else None
    config = PointerGeneratorConfig.for_tokenizer(
        training.tokenizer, settings.profile, coverage=settings.coverage
    )
    torch.manual_seed(settings.seed)
    return TrainingTask(
        PointerGenerator(config),
        training.tokenizer,
        training,
        validation,
        {"train": fingerprint_of_notes(training.pairs)},
    )
