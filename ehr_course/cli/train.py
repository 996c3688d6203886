"""``ehr-course train``: a model from a prepared folder, in one process or under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ehr_course.batches.datasets import RecordDataset
from ehr_course.cli.output import CHECKPOINTS, Target, claimed
from ehr_course.cli.prepared_folder import Prepared, open_prepared
from ehr_course.cli.processes import held_by_first, joined_processes
from ehr_course.cli.run_record import DEMOGRAPHICS, MODEL, RUN, RunRecord
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.trained_run import PREFIX, write_demographics
from ehr_course.cli.training_task import (
    TrainingTask,
    filled_in,
    task_of,
    training_config,
    validation_part,
)
from ehr_course.evaluation.perplexity import overfitting
from ehr_course.generation.calibration import calibrate
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import save_model
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.history import TrainingHistory
from ehr_course.training.trainer import Trainer


def train(settings: TrainSettings, target: Target) -> None:
    """Train a model, or go on with the training that the folder holds.

    Raises:
        InputError: if a setting is out of its range, or the folder holds anything but this
            training.
    """
    with joined_processes() as (processes, held):
        prepared = open_prepared(settings.prepared)
        settings = filled_in(settings, prepared)
        config = training_config(settings)
        task = task_of(settings, prepared)
        target.check_inputs(task.fingerprints)
        for line in task.remarks:
            target.say(line)
        record = RunRecord("train", settings, task.fingerprints)
        held_by_first(processes, held, claimed(target.out, record))
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
            replace(record, result=result).write(target.out / RUN)
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
            f"Stopped after {done:,} steps: the loss on {validation_part(prepared)} had not "
            f"fallen for {settings.patience} evaluations; the weights of step {found[0]:,} are "
            "kept."
        )
    return (
        f"Stopped after {done:,} steps, the most that it was to take; the weights of step "
        f"{found[0]:,} are kept, whose loss on {validation_part(prepared)} is the lowest."
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
        return "None of the codes of the validation patients is known to the model."
    found = overfitting(task.model, task.tokenizer, apart, task.patients)
    return found.in_words("validation") or (
        f"Perplexity {found.held_out:,.1f} a code on validation patients, where a table of the "
        f"codes' frequencies has {found.unigram:,.1f}."
    )
