"""A clone in a temporary folder, with programs on its PATH that stand in for uv and .venv."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FAKE_UV = """\
#!/bin/sh
if [ "$2" = compile ]; then
    echo "$@" >> "$FAKE_LOG/uv-plans"
    case "$*" in
        *--torch-backend*) exec cat "$FAKE_LOG/cpu-lock.toml" ;;
        *) exec cat "$FAKE_LOG/lock.toml" ;;
    esac
fi
echo "$@" >> "$FAKE_LOG/uv-calls"
if [ "$1" = venv ]; then
    for last; do :; done
    mkdir -p "$last/bin"
    cp "$FAKE_LOG/fake-python" "$last/bin/python"
    exit 0
fi
echo "UV_FIND_LINKS=$UV_FIND_LINKS" >> "$FAKE_LOG/uv-environment"
if [ -n "$UV_SAYS" ]; then echo "$UV_SAYS"; fi
if [ -n "$UV_WAITS" ]; then touch "$FAKE_LOG/uv-waits"; exec sleep 60; fi
exit ${UV_EXIT:-0}
"""

FAKE_PYTHON = """\
#!/bin/sh
case "$*" in
    *"-I -S -c"*|*"import pip"*) exec "{real}" "$@" ;;
esac
echo "$@" >> "$FAKE_LOG/python-calls"
if [ -n "$PYTHON_SAYS" ]; then echo "ran $*"; fi
case "$*" in
    *"$FAIL_WHERE"*) [ -n "$FAIL_WHERE" ] && exit ${{FAIL_EXIT:-1}} ;;
esac
exit 0
"""


class Clone:
    """A folder with the course's commands, and the calls that the stand-ins received."""

    uv_program = FAKE_UV

    def __init__(self, root: Path, outside: Path) -> None:
        self.root = root
        self.outside = outside
        self.programs = outside / "programs"
        self.programs.mkdir()
        ignored = shutil.ignore_patterns("__pycache__", "book", "checkpoints")
        shutil.copytree(ROOT / "course", root / "course", ignore=ignored)
        for name in ("pyproject.toml", "constraints.txt"):
            (root / name).write_text(f"# {name}\n", encoding="utf-8")
        (root / "lessons").mkdir()
        for name in ("00_start_here", "07_tokenization"):
            (root / "lessons" / f"{name}.ipynb").write_text("{}", encoding="utf-8")
        self._program(outside / "fake-python", FAKE_PYTHON.format(real=sys.executable))

    def with_uv(self) -> Clone:
        """Put the stand-in for uv on the PATH."""
        self._program(self.programs / "uv", FAKE_UV)
        return self

    def environment(self, **settings: str) -> dict[str, str]:
        """Return a small environment, in which uv is found only after `with_uv`."""
        return {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "HOME": str(self.outside),
            "FAKE_LOG": str(self.outside),
            "PYTHONDONTWRITEBYTECODE": "1",
            **settings,
        }

    def start(self, *arguments: str, **settings: str) -> subprocess.Popen:
        """Start `python -m course` in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "course", *arguments],
            cwd=self.root,
            env=self.environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )

    def course(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess:
        """Run `python -m course` to its end."""
        process = self.start(*arguments, **settings)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def calls(self, name: str) -> list[str]:
        """Return the argument lines that "uv" or "python" received so far."""
        file = self.outside / f"{name}-calls"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    @staticmethod
    def _program(file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """Return a clone whose path holds a space and a letter outside ASCII."""
    if os.name == "nt":
        pytest.skip("the stand-ins for uv and python are shell scripts")
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "my clöne"
    root.mkdir()
    return Clone(root, outside)
