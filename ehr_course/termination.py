"""How a process leaves when another one asks it to, with SIGTERM."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def leave(number: int, frame: FrameType | None) -> None:
    """Handle a signal: raise SystemExit(128 + number), once no module is being imported.

    Modules made with Cython ignore every error in a part of their import, and so would lose
    the exit: the process would go on, and nobody would ask again. A second signal does not
    interrupt the cleaning up.

    Raises:
        SystemExit: with the exit code that a shell gives to a process that a signal ended.
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
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
