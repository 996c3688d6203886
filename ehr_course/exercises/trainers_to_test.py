"""Trainers that resume, and trainers that resume badly: what the test of 15.6 is tried on."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.losses import LossTerm, classification_loss, language_model_loss
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

STEPS = 6
"""How many steps each training has."""

FAULTS = {
    None: "resume as they should",
    "adamw": "forget what AdamW remembers",
    "place": "begin the data again",
    "tokens": "lose the weights of the tokens",
    "head": "lose the weights of one head",
    "last bits": "change the last bits of one weight",
    "starts again": "find no checkpoint and start again",
}
"""What is wrong with a trainer, in words."""


class Stopped(Exception):  # noqa: N818  # it is no error: the training was to stop there
    """A training came to an end in the middle, as if its process had died."""


class Trainers:
    """Makes trainers of one and the same training.

    Each works in a folder, named by the caller, of a temporary one; where it finds a checkpoint
    there, it resumes.

    Args:
        fault: what goes wrong when one resumes; a key of FAULTS.
        seed: of the training.

    >>> make = Trainers()
    >>> make("whole").run().table().height
    6
    >>> try:
    ...     make("parts", stop=2).run()
    ... except Stopped:
    ...     print("resumes at step", make("parts").step)
    resumes at step 2
    """

    def __init__(self, fault: str | None = None, *, seed: int = 0) -> None:
        self.fault, self.seed = fault, seed
        self._folder: Path | None = None
        self._removed: weakref.finalize | None = None

    def __call__(self, folder: str, *, stop: int | None = None) -> Trainer:
        """Make a trainer of STEPS steps.

        Args:
            folder: the name of its folder.
            stop: after how many steps a checkpoint is written; in the next step the training
                dies, and ``run()`` raises Stopped. Without one it trains to its end.

        Raises:
            InputError: if stop is not 1 to STEPS - 1.
        """
        if stop is not None and not 1 <= stop < STEPS:
            raise InputError("Trainers", "stop", f"{stop} is no step", f"Use 1 to {STEPS - 1}.")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ehr-course-", dir=_in_memory()))
            self._removed = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        place = self._folder / folder
        resumes = stop is None and place.is_dir()
        if resumes and self.fault == "starts again":
            shutil.rmtree(place)
        torch.manual_seed(self.seed)
        config = TrainingConfig(
            steps=STEPS,
            batch_size=4,
            lr=0.1,
            warmup_steps=2,
            max_grad_norm=1e6,
            evaluate_every=0 if stop is None else stop + 1,
            checkpoint_every=stop or 0,
            seed=self.seed,
            group_by_length=False,
        )
        trainer = Trainer(
            _Frequencies(len(_dataset().tokenizer)),
            _dataset(),
            config,
            folder=place,
            evaluate=None if stop is None else _dies_after(stop),
            device="cpu",
        )
        if resumes and trainer.step:
            _spoil(trainer, self.fault)
        return trainer

    def close(self) -> None:
        """Remove what the trainers have written; it happens by itself in the end."""
        if self._removed is not None:
            self._removed()

    def __deepcopy__(self, memo: dict[int, Any]) -> Trainers:
        # A check makes a copy for each call. Where something keeps those alive, an exception's
        # frames for instance, their folders must not stay.
        copy = Trainers(self.fault, seed=self.seed)
        _COPIES.append(copy)
        if len(_COPIES) > 3:
            _COPIES.popleft().close()
        return copy

    def __repr__(self) -> str:
        return f"<trainers that {FAULTS[self.fault]}, seed {self.seed}>"


def _in_memory() -> str | None:
    """A folder in memory, where there is one: checkpoints wait for a disk, and here are many."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) else None


_COPIES: deque[Trainers] = deque()


class _Output(NamedTuple):
    terms: tuple[LossTerm, ...]


class _Frequencies(nn.Module):
    """How frequent each token is, and each sex: a model that takes next to no time."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(0.1 * torch.randn(n_tokens))
        self.dropout = nn.Dropout(0.3)
        self.sexes = nn.Parameter(0.1 * torch.randn(2))

    def forward(self, *, labels: Tensor, x_cat: Tensor, **rest: Tensor) -> _Output:
        """The losses of a batch."""
        targets = labels.flatten()
        logits = self.dropout(self.tokens).expand(len(targets), -1)
        sexes = x_cat[:, 0]
        of_sexes = classification_loss(self.sexes.expand(len(sexes), 2), sexes)
        return _Output(
            (
                LossTerm("tokens", *language_model_loss(logits, targets)),
                LossTerm("sex", *of_sexes, per="row"),
            )
        )


def _dataset() -> RecordDataset:
    if not _DATASETS:
        records = make_cohort(12, seed=0)
        _DATASETS.append(RecordDataset(records, CodeTokenizer.from_records(records)))
    return _DATASETS[0]


_DATASETS: list[RecordDataset] = []


def _dies_after(stop: int) -> Callable[[nn.Module], dict[str, float]]:
    """An evaluation that stops the training when it is first called, in step stop + 1."""
    died = False

    def evaluate(model: nn.Module) -> dict[str, float]:
        nonlocal died
        if died:
            return {"loss": 0.0}
        died = True
        raise Stopped(f"the process died in step {stop + 1}; the checkpoint is of step {stop}")

    return evaluate


@torch.no_grad()
def _spoil(trainer: Trainer, fault: str | None) -> None:
    if fault == "adamw":
        trainer.optimizer.state.clear()
    elif fault == "place":
        trainer.epoch, trainer.batch = 2, 0
    elif fault == "tokens":
        trainer.model.tokens.neg_()
    elif fault == "head":
        trainer.model.sexes.neg_()
    elif fault == "last bits":
        trainer.model.sexes.mul_(1 + 1e-6)
