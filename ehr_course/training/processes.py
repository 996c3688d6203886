"""One process or several: what all of them must agree on, and Ctrl-C that waits for a step."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from ehr_course.errors import InputError
from ehr_course.termination import leave


@dataclass(frozen=True)
class Processes:
    """The processes that share a training, or the patients to generate.

    Attributes:
        rank: the number of this one, from 0.
        world: how many there are.
    """

    rank: int = 0
    world: int = 1

    @classmethod
    def from_environment(
        cls, *, backend: str | None = None, timeout: timedelta | None = None
    ) -> Processes:
        """Join the processes that ``torchrun`` started, or be the only one.

        Args:
            backend: "nccl" or "gloo"; by default "nccl" if there is a GPU.
            timeout: how long a process waits for the others; torch's default if None.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not distributed.is_initialized():
            if backend is None:
                backend = "nccl" if torch.cuda.is_available() else "gloo"
            distributed.init_process_group(backend, timeout=timeout)
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def best_device(self) -> str:
        """A GPU of its own for each process, or else the CPU."""
        if not torch.cuda.is_available():
            return "cpu"
        return f"cuda:{self.rank % torch.cuda.device_count()}"

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        with self._naming_an_end():
            distributed.all_gather_object(values, value)
        return values

    def gather_in_first(self, value: Any) -> list[Any] | None:
        """The values of all processes, by rank, in the first one; None in the others."""
        if self.world == 1:
            return [value]
        values: list[Any] | None = [None] * self.world if self.is_first else None
        with self._naming_an_end():
            distributed.gather_object(value, values)
        return values

    @contextlib.contextmanager
    def _naming_an_end(self) -> Iterator[None]:
        """Say that another process has ended, where torch's own error speaks of sockets."""
        try:
            yield
        except RuntimeError:
            raise InputError(
                f"process {self.rank} of {self.world}",
                "",
                "another process ended before all of them were done",
                "See what that one said, and start all of them again.",
            ) from None

    def wait(self) -> None:
        """Wait until every process gets here."""
        self.gather(None)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, given to all of them."""
        return self.gather(make() if self.is_first else None)[0]

    def agree(self, named: Mapping[str, Any], *, what: str = "training") -> None:
        """Raise an InputError, in every process, unless all of them have the same values."""
        everyone = self.gather(dict(named))
        for name in named:
            if any(other.get(name) != named[name] for other in everyone):
                raise InputError(
                    what,
                    name,
                    f"the {self.world} processes have different ones",
                    "Give every process the same; each takes its own part of every batch.",
                )


@contextlib.contextmanager
def joined_processes(
    **how: Any,
) -> Iterator[tuple[Processes, Callable[[AbstractContextManager], Any]]]:
    """The processes that share the work (see ``from_environment``), and how they enter a place.

    The first process enters it and holds it until the work is done; all of them get its value, or
    its InputError.
    """
    processes = Processes.from_environment(**how)
    with contextlib.ExitStack() as held:
        if processes.world > 1:
            held.callback(distributed.destroy_process_group)

        def enter(place: AbstractContextManager) -> Any:
            def in_first() -> Any:
                try:
                    return held.enter_context(place)
                except InputError as error:
                    return error

            given = processes.from_first(in_first)
            if isinstance(given, InputError):
                raise given
            return given

        yield processes, enter


# ------------------------------------------------------------------ interrupts


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Set an event at the first Ctrl-C instead of raising it, so that the step can finish.

    A second Ctrl-C is raised at once.
    """
    noted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # Interrupts arrive in the main thread alone.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
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


@contextlib.contextmanager
def unwound_when_terminated() -> Iterator[None]:
    """Let SIGTERM, which ``torchrun`` sends when a process has died, unwind the block.

    Half-written files are then removed; the exit code is 143. Outside the main thread the signal
    keeps its handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ignore_interrupts(worker: int) -> None:
    """Leave Ctrl-C to the main process: a worker that stopped would leave it without a batch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
