"""One process, or those that ``torchrun`` started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from torch import distributed

from ehr_course.errors import InputError
from ehr_course.training.processes import Processes


@contextmanager
def joined_processes(**how: Any) -> Iterator[tuple[Processes, ExitStack]]:
    """The processes that share the work, and what is held until it is done."""
    processes = Processes.from_environment(**how)
    try:
        with ExitStack() as held:
            yield processes, held
    finally:
        if processes.world > 1:
            distributed.destroy_process_group()


def held_by_first(processes: Processes, held: ExitStack, place: AbstractContextManager) -> Any:
    """Enter a place in the first process; all get its value, or its InputError."""

    def enter() -> Any:
        try:
            return held.enter_context(place)
        except InputError as error:
            return error

    given = processes.from_first(enter)
    if isinstance(given, InputError):
        raise given
    return given
