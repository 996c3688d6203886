"""Find a Python of a wanted version on this machine; nothing is installed for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from course.command_error import CommandError

OLDEST = (3, 11)


def this_python() -> str:
    """Return the version of the Python that runs this, "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def base_python() -> str:
    """Return the Python that runs this, or the one that its environment was made from."""
    # Inside a venv, sys.executable may be the very file that is about to be deleted.
    base: str = getattr(sys, "_base_executable", None) or sys.executable
    return base


def find_python(version: str) -> str | None:
    """Return a Python of this version, or None.

    Tried are this very Python, those on the PATH, pyenv's, and on Windows those of the launcher.

    Args:
        version: such as "3.12".

    Raises:
        CommandError: if this is not a version, or one that the course is too new for.
    """
    if not re.fullmatch(r"3\.\d+", version) or int(version[2:]) < OLDEST[1]:
        raise CommandError(
            f"{version!r} is not a version of Python that the course runs on.",
            "Give one from 3.11 on, with two parts: 3.12.",
            exit_code=2,
        )
    return next((p for p in _candidates(version) if version_of(p) == version), None)


def _candidates(version: str) -> Iterator[str]:
    if version == this_python():
        yield base_python()
    for folder in os.get_exec_path():
        found = shutil.which(f"python{version}", path=folder)
        if found:
            yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for installed in sorted((pyenv / "versions").glob(f"{version}.*"), reverse=True):
        yield str(installed / "bin" / "python")
    launcher = shutil.which("py") if os.name == "nt" else None
    if launcher:
        # In UTF-8, because the path may hold a user's name.
        program = "import sys; print(sys.executable)"
        question = [launcher, f"-{version}", "-X", "utf8", "-c", program]
        answer = subprocess.run(question, capture_output=True, encoding="utf-8", check=False)
        if answer.returncode == 0:
            yield answer.stdout.strip()


def version_of(python: str | Path) -> str:
    """Return the version of a Python ("3.11"), or "" if it does not run."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [str(python), "-I", "-S", "-c", question],
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.stdout.strip()
