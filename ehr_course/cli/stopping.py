"""When ``ehr-course train`` stops, and what it says about that.

With ``--steps`` it stops after so many. Without, it stops when the loss on the validation part has
not fallen for some evaluations, at the latest after twenty epochs. A model that goes on longer
than that learns the patients by heart: it then writes copies of them.
"""

from __future__ import annotations

from ehr_course.cli.prepared_folder import NOTES, Prepared
from ehr_course.cli.settings import TrainSettings
from ehr_course.errors import InputError
from ehr_course.training.history import TrainingHistory

EPOCHS = 20
"""The most epochs without ``--steps``. The learning rate has fallen to 0 then."""

FEWEST_STEPS = 500
"""As many steps there may be at least: with few patients twenty epochs are not worth the name."""

EVALUATE_EVERY = 10
"""The fewest steps between two evaluations; with more patients there is one after each epoch."""

PATIENCE = 5
"""Evaluations in a row, without a lower loss, after which a training stops."""


def with_stopping(settings: TrainSettings, prepared: Prepared) -> TrainSettings:
    """Fill in when to stop and how often to evaluate, where nothing is asked for.

    Args:
        settings: with None for what is to be filled in.
        prepared: what is learned from; its sizes are all that is looked at.

    Returns:
        Settings with ``steps``, ``evaluate_every`` and ``patience``. Where steps were asked for,
        and neither evaluations nor patience, both are 0.

    Raises:
        InputError: if the training is to be judged by validation data, and there are none.
    """
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
            f"it has no {_people(prepared)}, and their loss says when to stop and which weights "
            "to keep",
            "Say with --steps how long to train, and leave --evaluate-every and --patience out; "
            "or prepare again with a --validation above 0.",
        )
    steps = max(EPOCHS * epoch, FEWEST_STEPS) if is_free else settings.steps
    return settings.model_copy(
        update={"steps": steps, "evaluate_every": every, "patience": patience}
    )


def why_it_stopped(settings: TrainSettings, prepared: Prepared, history: TrainingHistory) -> str:
    """Say after how many steps a training stopped, why, and which weights are kept.

    Args:
        settings: of the training, as ``with_stopping`` returned them.
        prepared: what it learned from.
        history: of the training, to its end.
    """
    done = history.rows[-1]["step"]
    if not settings.evaluate_every:
        return f"Stopped after {done:,} steps, as many as were asked for."
    found = history.best()
    assert found is not None  # where evaluations were asked for, there is one at the end
    best, _ = found
    if done < settings.steps:
        return (
            f"Stopped after {done:,} steps: the loss on {_people(prepared)} had not fallen for "
            f"{settings.patience} evaluations; the weights of step {best:,} are kept."
        )
    return (
        f"Stopped after {done:,} steps, the most that it was to take; the weights of step "
        f"{best:,} are kept, whose loss on {_people(prepared)} is the lowest."
    )


def _people(prepared: Prepared) -> str:
    return "validation notes" if prepared.kind == NOTES else "validation patients"
