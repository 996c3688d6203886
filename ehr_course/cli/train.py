"""``ehr-course train``: a model from a prepared folder, in one process or under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import distributed

from ehr_course.cli.demographics import DEMOGRAPHICS, write_demographics
from ehr_course.cli.output import say
from ehr_course.cli.prepared import open_prepared
from ehr_course.cli.run_record import RUN, RunRecord, check_inputs, read_run
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.trained import CHECKPOINTS, MODEL, PREFIX
from ehr_course.cli.training_task import default_lr, task_of
from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.saved import save_model
from ehr_course.training.config import TrainingConfig
from ehr_course.training.identity import check_same_training
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
        settings = replace(settings, lr=default_lr(settings, prepared))
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
    say(f"{out / MODEL}: trained {trainer.step:,} steps; {losses} nats a token.", quiet=quiet)
    if not prepared.is_embedded:
        say("A model can repeat what it learned. Keep it as you keep the data.", quiet=quiet)


def _config(settings: TrainSettings) -> TrainingConfig:
    return TrainingConfig(
        steps=settings.steps,
        batch_size=settings.batch_size,
        accumulation=settings.accumulation,
        lr=settings.lr,
        warmup_steps=settings.steps // 10,
        precision=settings.precision,
        evaluate_every=settings.evaluate_every,
        checkpoint_every=settings.checkpoint_every,
        seed=settings.seed,
        bucketed=settings.by_length,
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
        {**of.inputs, **{n: v for n, v in of.settings.to_json().items() if n != "prepared"}}
        for of in (there, record)
    )
    check_same_training(out, then, now)
