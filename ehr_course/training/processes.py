"""One process or several: what all of them must agree on, and Ctrl-C that waits for a step."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from ehr_course.errors import InputError


@dataclass(frozen=True)
class Processes:
    """The processes of a training.

    Attributes:
        rank: the number of this one, from 0.
        world: how many there are.
    """

    rank: int = 0
    world: int = 1

    @classmethod
    def from_environment(cls) -> Processes:
        """Join the processes that ``torchrun`` started, or be the only one."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        distributed.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait until every process has come to this line."""
        if self.world > 1:
            distributed.barrier()

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, for all of them."""
        return self.gather(make() if self.is_first else None)[0]

    def agree(self, named: Mapping[str, Any]) -> None:
        """Raise an InputError, in every process, unless all of them have the same values."""
        everyone = self.gather(dict(named))
        for name in named:
            if any(other.get(name) != named[name] for other in everyone):
                raise InputError(
                    "training",
                    name,
                    f"the {self.world} processes have different ones",
                    "Give every process the same; each takes its own part of every batch.",
                )


# ------------------------------------------------------------------ interrupts


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Note an interrupt in place of raising it, so that a step is whole or not begun.

    A second one is raised at once. Outside the main thread interrupts do not arrive anyway.
    """
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield noted
        return

    def note(number: int, frame: Any) -> None:
        if noted.is_set():
            before(number, frame)
        noted.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def ignore_interrupts(worker: int) -> None:
    """Leave Ctrl-C to the process that started this one: a worker of a DataLoader.

    A worker that stops at once would leave the step without its batch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
