"""Ctrl-C that waits until a step is whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


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
