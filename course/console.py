"""Lines for the terminal, and programs that write to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS_TO_END = 10


def prepare_streams() -> None:
    """Make stdout and stderr write any text: what they cannot encode appears escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str = "") -> None:
    """Print a line at once, so that it stands before what a program prints next."""
    print(text, flush=True)


def duration(seconds: float) -> str:
    """Return a duration as people read it.

    >>> duration(4.21), duration(96.4)
    ('4.2 s', '1 min 36 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def end(process: subprocess.Popen) -> None:
    """Ask a program to end, wait for it, and kill it if it does not."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout=SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_visibly(
    command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str] | None = None
) -> int:
    """Run a program with this terminal as its own, and return its exit code.

    On Ctrl-C the program, which has received it too, gets time to close its report.

    Args:
        command: the program and its arguments.
        cwd: where it runs.
        environment: its environment variables, or None for this process's own.
    """
    process = subprocess.Popen([str(part) for part in command], cwd=cwd, env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            end(process)
        raise
