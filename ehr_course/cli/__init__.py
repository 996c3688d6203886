"""The command line: ``ehr-course prepare | train | generate | evaluate | summarize | repeat``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType


def main() -> None:
    """Run the command that the arguments name, and leave with its exit code.

    0 done; 1 the input cannot be used; 2 wrong usage; 130 interrupted; 143 terminated.
    """
    # An end that another process asks for (kill, a cluster's scheduler) cleans up as any other.
    # Processes of torchrun wait for each other: they end at once, as it expects.
    if "RANK" not in os.environ:
        signal.signal(signal.SIGTERM, _leave)
    try:
        from ehr_course.cli.app import app

        app(prog_name="ehr-course")
    except KeyboardInterrupt:  # before any command has begun
        sys.exit(130)


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave for a signal, once no module is being imported.

    Modules made with Cython ignore every error in a part of their import, and so would lose
    the exit: the command would go on, and nobody would ask again.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            # To the main thread, which it wakes; Windows delivers no such signal.
            main_thread = threading.main_thread().ident
            again = threading.Timer(0.05, signal.pthread_kill, (main_thread, number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    sys.exit(128 + number)
