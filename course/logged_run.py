"""Run an installer: its output goes to a log, and a sign of life to the terminal."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from course.console import duration, end, say

SECONDS_BETWEEN_SIGNS = 15.0
WIDTH = 76
TELLING = re.compile(
    r"\s*(Collecting|Downloading|Processing|Preparing|Building|Installing|Resolved|Prepared|"
    r"WARNING: Retrying)"
)
"""Lines of pip or uv that say what it is at; the others belong in the log."""


def run_logged(
    command: Sequence[str | Path], *, log: Path, env: Mapping[str, str], cwd: Path
) -> tuple[int, str]:
    """Run a command to its end.

    Args:
        command: the program and its arguments.
        log: the file that its output is appended to.
        env: its environment variables.
        cwd: its working folder.

    Returns:
        Its exit code, and all it wrote to stdout and stderr.

    Raises:
        OSError: if the program cannot be started or the log cannot be written.
        KeyboardInterrupt: on Ctrl-C, after the program has ended.
    """
    parts = [str(part) for part in command]
    started = time.monotonic()
    signed = started
    lines: list[str] = []
    latest = "waiting"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(parts)}\n")
        process = subprocess.Popen(
            parts,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        arrived: queue.Queue[str | None] = queue.Queue()
        # A thread reads, because a download can be silent for minutes and still needs its signs.
        reader = threading.Thread(target=_read_lines, args=(process, arrived), daemon=True)
        reader.start()
        try:
            while True:
                try:
                    line = arrived.get(timeout=1.0)
                except queue.Empty:
                    line = ""
                if line is None:
                    break
                if line:
                    lines.append(line)
                    file.write(line)
                    if TELLING.match(line):
                        latest = line.strip()
                if time.monotonic() - signed >= SECONDS_BETWEEN_SIGNS:
                    signed = time.monotonic()
                    say(f"      {duration(signed - started)}: {_short(latest)}")
            return process.wait(), "".join(lines)
        finally:
            end(process)


def _read_lines(process: subprocess.Popen, arrived: queue.Queue[str | None]) -> None:
    for line in process.stdout:
        arrived.put(line)
    arrived.put(None)


def _short(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
