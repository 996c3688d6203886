"""``ehr-course train``: a model from a prepared folder, in one process or under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import distributed

from ehr_course.batches.datasets import RecordDataset
from ehr_course.cli.claimed_folder import claimed
from ehr_course.cli.output import say
from ehr_course.cli.prepared_folder import RECORDS, Prepared, open_prepared
from ehr_course.cli.result_folders import (
    CHECKPOINTS,
    DEMOGRAPHICS,
    MODEL,
    PREFIX,
    write_demographics,
)
from ehr_course.cli.run_record import (
    RUN,
    RunRecord,
    check_inputs,
)
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.stopping import why_it_stopped, with_stopping
from ehr_course.cli.training_recipe import training_config, with_recipe
from ehr_course.cli.training_task import TrainingTask, task_of
from ehr_course.errors import InputError
from ehr_course.evaluation.perplexity import overfitting
from ehr_course.generation.calibration import calibrate
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import save_model
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
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
    settings = with_stopping(with_recipe(settings, prepared), prepared)
    config = training_config(settings)
    task = task_of(settings, prepared)
    check_inputs(expected, task.fingerprints)
    if task.unknown:
        problem = "codes of the patients are unknown to the model and left out"
        say(f"Note: {task.unknown:,} {problem}.", quiet=quiet)
    for line in task.cut:
        say(line, quiet=quiet)
    record = RunRecord("train", settings, task.fingerprints)
    with ExitStack() as held:
        problem = processes.from_first(lambda: _claim(out, record, held))
        if problem is not None:
            raise problem
        _run(task, config, settings, prepared, record, out, processes, quiet=quiet)


def _claim(out: Path, record: RunRecord, held: ExitStack) -> InputError | None:
    """Take a folder for this run until held is closed, or say why it cannot be had."""
    try:
        held.enter_context(claimed(out, record))
    except InputError as error:
        return error
    return None


def _run(
    task: TrainingTask,
    config: TrainingConfig,
    settings: TrainSettings,
    prepared: Prepared,
    record: RunRecord,
    out: Path,
    processes: Processes,
    *,
    quiet: bool,
) -> None:
    """Train, write the model, and say what came of it."""
    trainer = Trainer(
        task.model,
        task.dataset,
        config,
        validation=task.validation,
        folder=out / CHECKPOINTS,
        progress=not quiet,
    )
    if trainer.step:
        at_most = "at most " * bool(config.patience)
        say(f"Going on after step {trainer.step:,} of {at_most}{config.steps:,}.", quiet=quiet)
    history = trainer.run()
    kept = history.rows[-1].get("validation_loss")
    if settings.evaluate_every:
        trainer.load_best()
        best = history.best()
        assert best is not None  # its weights are loaded
        kept = best[1]
    why = why_it_stopped(settings, prepared, history)
    if processes.is_first:
        result: dict[str, Any] = {
            "steps": trainer.step,
            "loss": history.loss(),
            "processes": processes.world,
        }
        if kept is not None:
            result["validation_loss"] = kept
        result["stopped"] = why
        result |= {"kind": prepared.kind, "device": trainer.device.type}
        result["trained_parameters"] = task.n_trainable
        # Where patients are known: whom generate is to write.
        if task.patients is not None:
            write_demographics(task.patients, out / DEMOGRAPHICS)
        model = task.model
        if isinstance(model, PromptBart) and model.end_bias is not None:
            assert isinstance(task.dataset, RecordDataset)
            say("Calibrating how often visits end and codes are written.", quiet=quiet)
            calibrate(model, task.dataset, seed=settings.seed)
        if isinstance(model, PrefixTuned):
            model.save(out / PREFIX)
            assert isinstance(model.base, PromptBart)  # as `task_of` adapts no other
            model = model.base
        save_model(model, task.tokenizer, out / MODEL, metrics=result)
        replace(record, result=result).write(out / RUN)
    processes.wait()
    losses = f"last losses {history.loss():.3f}"
    if kept is not None:
        losses += f", validation {kept:.3f}"
    say(why, quiet=quiet)
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
    assert isinstance(task.tokenizer, CodeTokenizer) and task.patients is not None
    if not any(code in task.tokenizer for record in apart for code in record.codes):
        return "None of the codes of the validation patients is known to the model."
    found = overfitting(task.model, task.tokenizer, apart, task.patients)
    return found.in_words("validation") or (
        f"Perplexity {found.held_out:,.1f} a code on validation patients, where a table of the "
        f"codes' frequencies has {found.unigram:,.1f}."
    )
