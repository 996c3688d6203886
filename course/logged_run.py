"""Run an installer: its output goes to a log, and how far it is to the terminal."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from course.console import end
from course.download_bar import ESCAPES, DownloadBar

COLUMNS, ROWS = 200, 500
"""The size of the terminal that uv believes to have: no bar is cut off or left out."""

LINE_ENDS = re.compile(rb"[\r\n]+")
SPINNER = re.compile("[\u2800-\u28ff█░]")
"""What uv turns or fills while it waits: dots or a block begin such a line."""


def run_logged(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path,
    bar: DownloadBar | None = None,
    on_terminal: bool = False,
) -> tuple[int, str]:
    """Run a command to its end.

    Args:
        command: the program and its arguments.
        log: the file that its output is appended to.
        env: its environment variables.
        cwd: its working folder.
        bar: what is drawn while it runs; None draws nothing.
        on_terminal: True to let it believe that it writes to a terminal, as uv must before it
            tells how much of a file is here. Windows has no such thing: there it is ignored.

    Returns:
        Its exit code, and all it wrote to stdout and stderr, less what only showed progress.

    Raises:
        OSError: if the program cannot be started or the log cannot be written.
        KeyboardInterrupt: on Ctrl-C, after the program has ended.
    """
    parts = [str(part) for part in command]
    lines: list[str] = []
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(parts)}\n")
        process, output = _start(parts, env, cwd, on_terminal and os.name == "posix")
        arrived: queue.Queue[str | None] = queue.Queue()
        # A thread reads, because a download can be silent for minutes and still needs its signs.
        reader = threading.Thread(target=_read_lines, args=(output, arrived), daemon=True)
        reader.start()
        try:
            while True:
                try:
                    line = arrived.get(timeout=0.2)
                except queue.Empty:
                    line = ""
                if line is None:
                    break
                text = ESCAPES.sub("", line).rstrip()
                only_progress = bar is not None and bar.read(text)
                if text and not only_progress and not SPINNER.match(text):
                    lines.append(f"{text}\n")
                    file.write(f"{text}\n")
                if bar is not None:
                    bar.draw()
            return process.wait(), "".join(lines)
        finally:
            if bar is not None:
                bar.clear()
            end(process)


def _start(
    parts: list[str], env: Mapping[str, str], cwd: Path, on_terminal: bool
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start the program; return it, and the file that its output is read from."""
    if not on_terminal:
        process = subprocess.Popen(
            parts,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        return process, process.stdout
    import fcntl
    import struct
    import termios

    ours, its = os.openpty()
    try:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            parts, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=its, stderr=its
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)
    return process, os.fdopen(ours, "rb", buffering=0)


def _read_lines(output: IO[bytes], arrived: queue.Queue[str | None]) -> None:
    """Pass on what is written, cut where a line ends or is drawn over."""
    rest = b""
    with output:
        while True:
            try:
                read = os.read(output.fileno(), 65536)
            except OSError:  # Linux: nobody writes to this terminal any more
                break
            if not read:
                break
            *whole, rest = LINE_ENDS.split(rest + read)
            for line in whole:
                arrived.put(line.decode("utf-8", errors="replace"))
    if rest:
        arrived.put(rest.decode("utf-8", errors="replace"))
    arrived.put(None)
