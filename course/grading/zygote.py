"""A process with PyTorch imported, of which every student's process is a fork.

To import the libraries takes seconds, to fork a few hundredths of one. It is started on its own
and never holds a worked answer. The judge asks for a process by sending one end of a line,
and gets a handle with which the process can be killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import socket
import sys
from collections.abc import Iterable

from course.grading.sandbox.confine import Limits, Walls
from course.grading.worker import serve

EXERCISES = "ehr_course.exercises.lessons.lesson_"
"""How the modules begin that no student's process may hold."""


def run(control: socket.socket, walls: Walls, imports: Iterable[str]) -> None:
    """Import what the answers will import, and fork a process for each request.

    Args:
        control: a socket of whole messages; each brings the limits of a process, and one end of a
            line to it.
        walls: of the processes.
        imports: statements of the lessons, `import torch`; one that fails is left out.
    """
    import torch

    torch.set_num_threads(1)
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        for statement in imports:
            with contextlib.suppress(Exception):
                exec(statement, {"__name__": "imports"})
    _forget_checks()
    held = [name for name in sys.modules if name.startswith(EXERCISES)]
    if held:
        raise SystemExit(f"An import has brought {held[0]} into the process of the students.")
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    while True:
        ready, _, _ = select.select([control], [], [], 1.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not ready:
            continue
        message, lines, _, _ = socket.recv_fds(control, 4096, 2)
        if not message:
            break
        _start(control, lines, pickle.loads(message), walls)


def _start(control: socket.socket, lines: list[int], limits: Limits, walls: Walls) -> None:
    """Fork a process for one line; answer on the second one with a handle to kill it."""
    line, answer = lines
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            control.close()
            os.close(answer)
            os.environ.clear()
            os.environ.update(PATH=os.defpath, HOME="/", LC_ALL="C.UTF-8", OMP_NUM_THREADS="1")
            serve((line, line), limits, walls)
        finally:
            os._exit(0)
    handle = os.pidfd_open(child)
    with socket.socket(fileno=answer) as reply:
        socket.send_fds(reply, [b"1"], [handle])
    os.close(handle)
    os.close(line)


def _forget_checks() -> None:
    """Put functions that do nothing in the place of `check` and its like."""
    exercises = importlib.import_module("ehr_course.exercises")
    for name in ("check", "hint", "progress", "examine"):
        setattr(exercises, name, lambda *arguments, **words: None)


def main(arguments: list[str]) -> None:
    """Run on the socket whose number is the first argument."""
    control = socket.socket(fileno=int(arguments[0]))
    walls, imports = pickle.loads(bytes.fromhex(arguments[1]))
    run(control, walls, imports)


if __name__ == "__main__":
    main(sys.argv[1:])
