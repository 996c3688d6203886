"""What must be true before `.venv` is made: a folder to write to, space, and nobody else at it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course.command_error import CommandError
from course.venv_stamp import venv_folder

NEEDED_BYTES = 3_000_000_000


def check_folder(root: Path) -> None:
    """Raise a CommandError if `.venv` cannot be made in this folder; make its `build` folder."""
    if os.pathsep in str(root):
        raise CommandError(
            f"The clone's path holds {os.pathsep!r}, which no environment's path can: {root}",
            "Rename or move the folder, then start again.",
        )
    venv = venv_folder(root)
    if venv.is_symlink() or (venv.exists() and not venv.is_dir()):
        raise CommandError(
            ".venv is a link or a file, and it has to be made or updated here, as a folder.",
            "Move it away, then start again.",
        )
    try:
        (root / "build").mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=root / "build"), tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise CommandError(
            f"The clone's folder cannot be written to ({error.strerror}): {root}",
            "Move the clone to a folder of your own, or change its permissions.",
        ) from None


def check_space(root: Path) -> None:
    """Raise a CommandError if the disk has too little space for `.venv`."""
    free = shutil.disk_usage(root).free
    if free < NEEDED_BYTES:
        raise CommandError(
            f"The disk has {free / 1e9:.1f} GB free; .venv needs about "
            f"{NEEDED_BYTES / 1e9:.0f} GB.",
            "Free some space, or move the clone to a larger disk, then start again.",
        )


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Hold the installation's lock; the system frees it when the process ends, however it ends."""
    # Opened to append, because Windows may refuse to empty a file that another process has locked.
    with (root / "build" / "install.lock").open("a", encoding="utf-8") as file:
        try:
            _lock(file.fileno())
        except OSError:
            raise CommandError(
                "Another `python3 -m course` is making .venv at this moment.",
                "Wait until it is ready, then start again.",
            ) from None
        yield


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
