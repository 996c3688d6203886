"""How a process exits on SIGTERM."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def leave(number: int, frame: FrameType | None) -> None:
    """Handle a signal: raise SystemExit(128 + number), once no module is being imported.

    A second signal does not interrupt the cleaning up.
    """
    # Part of the import of a Cython module ignores every error, and would lose the exit.
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            # Sent to the main thread, which it wakes; Windows does not deliver such a signal.
            main_thread = threading.main_thread().ident
            again = threading.Timer(0.05, signal.pthread_kill, (main_thread, number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
