"""Trainers that resume, and trainers that resume badly: what the test of 15.6 is tried on."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ehr_course.errors import InputError
from ehr_course.exercises.sealed import Sealed
from ehr_course.exercises.tiny_training import TinyTraining

STEPS = 6
"""How many steps each training has."""

FAULTS = {
    None: "resume as they should",
    "optimizer": "forget what AdamW remembers",
    "place": "begin the data again",
    "dropout": "draw other random numbers",
    "weights": "lose the weights of the first layer",
    "head": "end without the weights of the last layer",
    "last bit": "end with another last bit in one weight",
    "exchanged": "end with two weights exchanged",
    "starts again": "find no checkpoint and start again",
}
"""What is wrong with trainers, in words."""

_WITH_STATE = ("model", "optimizer", "schedule", "scaler")


class Stopped(Exception):  # noqa: N818  # not an error: the training was to stop there
    """A training came to an end in the middle, as if its process had died."""


class Trainers(Sealed):
    """Makes trainers of one and the same training, a `TinyTraining` without overflows.

    Each works in a folder, named by the caller; where it finds a checkpoint there, it resumes.
    The folders are kept in memory.

    Args:
        fault: what goes wrong when one resumes; a key of FAULTS.
        seed: of the training.

    >>> make = Trainers()
    >>> make("whole").run()
    >>> try:
    ...     make("parts", stop=2).run()
    ... except Stopped:
    ...     print("resumes at step", make("parts").step)
    resumes at step 2
    """

    def __init__(self, fault: str | None = None, *, seed: int = 0) -> None:
        self._fault, self.seed = fault, seed
        self._folders: dict[str, dict[str, Any]] = {}  # the newest checkpoint of each

    def __call__(self, folder: str, *, stop: int | None = None) -> TinyTrainer:
        """Make a trainer of STEPS steps.

        Args:
            folder: the name of its folder.
            stop: after how many steps a checkpoint is written; in the next step the training
                dies, and ``run()`` raises Stopped. Without one it trains to its end, and writes
                a checkpoint there.

        Raises:
            InputError: if stop is not 1 to STEPS - 1.
        """
        if stop is not None and not 1 <= stop < STEPS:
            raise InputError("Trainers", "stop", f"{stop} is not a step", f"Use 1 to {STEPS - 1}.")
        fault = self._fault if stop is None else None
        if fault == "starts again":
            self._folders.pop(folder, None)
        return TinyTrainer(self.seed, self._folders, folder, stop=stop, fault=fault)

    def _description(self, hidden: bool) -> str:
        fault = "" if hidden else f" that {FAULTS[self._fault]}"
        return f"<trainers{fault}, seed {self.seed}>"


class TinyTrainer:
    """Trains for STEPS steps, and resumes from the checkpoint in its folder.

    Like the course's Trainer it draws from random numbers of its own, and a finished one that is
    run again does nothing.

    Attributes:
        model: what it trains.
        step: how many steps have been taken.
    """

    def __init__(
        self,
        seed: int,
        folders: dict[str, dict[str, Any]],
        folder: str,
        *,
        stop: int | None,
        fault: str | None,
    ) -> None:
        self._folders, self._folder, self._stop = folders, folder, stop
        self.step, self._fault = 0, None
        with torch.random.fork_rng(devices=[]):
            self._training = TinyTraining(seed, scale=1.0)
            self._random = torch.get_rng_state()
        if folder in folders:
            self._load(folders[folder])
            self._fault = fault
            _spoil(self._training, fault)
            if fault == "dropout":
                self._random = torch.Generator().manual_seed(seed + 1).get_state()

    @property
    def model(self) -> nn.Module:
        """What it trains."""
        return self._training.model

    def run(self) -> None:
        """Train until the last step.

        Raises:
            Stopped: if the training is to die on the way.
        """
        stop = self._stop
        if stop is not None and self.step < stop:
            self._train_to(stop)
            self._save()
        if stop is not None and self.step == stop:
            self._train_to(stop + 1)
            raise Stopped(f"the process died in step {stop + 1}; the checkpoint is of step {stop}")
        if self.step < STEPS:
            self._train_to(STEPS)
            _spoil_at_the_end(self._training, self._fault)
            self._save()

    def _train_to(self, step: int) -> None:
        """Train, or take over the end of an earlier training that began with the same weights.

        A check runs the same few trainings very often.
        """
        weights = self._training.weights.numpy().tobytes()
        key = self._training.seed, self._fault, self.step, step, weights
        if key in _ENDS:
            self._load(_ENDS[key])
            return
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random)
            for _ in range(self.step, step):
                self._training.step()
            self.step, self._random = step, torch.get_rng_state()
        _ENDS[key] = self._state()

    def _save(self) -> None:
        self._folders[self._folder] = self._state()

    def _state(self) -> dict[str, Any]:
        training = self._training
        return copy.deepcopy(
            {name: getattr(training, name).state_dict() for name in _WITH_STATE}
            | {"place": (training.epoch, training.batch)}
            | {"step": self.step, "random": self._random}
        )

    def _load(self, saved: dict[str, Any]) -> None:
        saved = copy.deepcopy(saved)
        for name in _WITH_STATE:
            getattr(self._training, name).load_state_dict(saved[name])
        self._training.epoch, self._training.batch = saved["place"]
        self.step, self._random = saved["step"], saved["random"]


_ENDS: dict[tuple[int, str | None, int, int, bytes], dict[str, Any]] = {}


def _weight_of(training: TinyTraining, place: int) -> Tensor:
    layer = training.model[place]
    assert isinstance(layer, nn.Linear)
    return layer.weight


@torch.no_grad()
def _spoil(training: TinyTraining, fault: str | None) -> None:
    if fault == "optimizer":
        training.optimizer.state.clear()
    elif fault == "place":
        training.epoch, training.batch = 2, 0
    elif fault == "weights":
        _weight_of(training, 0).neg_()


@torch.no_grad()
def _spoil_at_the_end(training: TinyTraining, fault: str | None) -> None:
    parameters = list(training.model.parameters())
    if fault == "head":
        _weight_of(training, 2).zero_()
    elif fault == "last bit":
        values = parameters[training.seed % 4].view(-1)
        smallest = values.abs().argmin()
        values[smallest] = values[smallest].nextafter(torch.tensor(torch.inf))
    elif fault == "exchanged":
        values = parameters[training.seed % 3].view(-1)
        values[:2] = values[:2].flip(0)
