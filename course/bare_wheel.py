"""`course test --wheel`: what somebody has who installs the wheel, on each version of Python.

The wheel is built from a copy of its sources and installed, with the versions of constraints.txt,
into an environment outside the clone; `course/uses_of_a_wheel.py` then uses it there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.command_error import CommandError
from course.console import say
from course.download_plan import make_plan
from course.installers import installer_environment
from course.kernels import kernel_environment
from course.outputs import first_difference
from course.pythons import find_python

PYTHONS = ("3.11", "3.12", "3.13")
USES = ("library", "command_line", "checkpoints", "checks", "notebook", "opened_alone")
"""The last one takes the library out of the environment, and lets a notebook put it back."""
LESSON = "07_tokenization.ipynb"
WITH_A_KERNEL = ("ipykernel", "nbclient", "nbformat", "pip")
"""What brings the kernel; somebody who has a notebook open has these already."""

SOURCE_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SOURCE_FOLDERS = ("ehr_course", "solutions", "course/checkpoints")


PASSED = "passed"


class UseError(Exception):
    """A use that did not work, with what was printed."""


@dataclass(frozen=True)
class Row:
    """One line of the closing table: a version of Python, a use, how it went, seconds."""

    python: str
    use: str
    result: str
    seconds: float


def main(root: Path, uv: Sequence[str], pythons: Sequence[str]) -> int:
    """Build the wheel, use it on each Python, and end with a table.

    Args:
        root: the clone.
        uv: the command that starts uv.
        pythons: versions, such as "3.12". Without any: those of PYTHONS that this machine has.

    Returns:
        0 if everything passed on every version, otherwise 1.

    Raises:
        CommandError: if a Python that was named is not here, or the wheel cannot be built.
    """
    found = {version: find_python(version) for version in pythons or PYTHONS}
    absent = [version for version, python in found.items() if python is None]
    if absent and pythons:
        raise CommandError(
            f"This machine has no Python {' and no Python '.join(absent)}.",
            "Install it, or name those you have: python3 -m course test --wheel 3.11",
        )
    rows = [Row(version, "all", "SKIPPED: no such Python here", 0.0) for version in absent]
    with tempfile.TemporaryDirectory(prefix="ehr-course-wheel-") as scratch:
        wheel = build(root, uv, Path(scratch))
        say(f"Built {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB.")
        for version, python in found.items():
            if python is not None:
                rows += list(_use(root, uv, wheel, version, python, Path(scratch)))
    say(table(rows))
    failed = sum(row.result.startswith("FAILED") for row in rows)
    say(f"{failed} failed." if failed else "Everything passed that ran.")
    return 1 if failed else 0


def copy_sources(root: Path, target: Path) -> None:
    """Copy what a wheel is made from: a build leaves files beside its sources."""
    target.mkdir(parents=True, exist_ok=True)
    for file in SOURCE_FILES:
        shutil.copy(root / file, target)
    for folder in SOURCE_FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / folder, target / folder, ignore=ignored)


def build(root: Path, uv: Sequence[str], scratch: Path) -> Path:
    """Build the wheel of this clone and return its file."""
    copy_sources(root, scratch / "sources")
    command = [*uv, "build", "--quiet", "--wheel", "--out-dir", scratch / "dist"]
    done = subprocess.run(
        [*map(str, command), str(scratch / "sources")],
        env=installer_environment(),
        capture_output=True,
        encoding="utf-8",
    )
    wheels = list((scratch / "dist").glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise CommandError(
            f"The wheel cannot be built.\n{done.stderr.rstrip()}",
            "Look at what stands above; setuptools comes from the package index.",
        )
    return wheels[0]


def _use(
    root: Path, uv: Sequence[str], wheel: Path, version: str, python: str, scratch: Path
) -> Iterator[Row]:
    folder = scratch / f"python-{version}"
    installation = _attempt(version, "install", lambda: _install(root, uv, wheel, python, folder))
    yield installation
    if installation.result == PASSED:
        place = scratch / f"use-{version}"
        place.mkdir()
        shutil.copy(root / "course" / "uses_of_a_wheel.py", place)
        shutil.copy(root / "lessons" / LESSON, place)
        shutil.copy(wheel, place)
        for use in USES:
            yield _attempt(version, use, partial(_use_once, root, python_in(folder), place, use))
    shutil.rmtree(folder, ignore_errors=True)  # with CUDA libraries, 7 GB each


def _use_once(root: Path, python: Path, place: Path, use: str) -> None:
    # PYTHONPATH would let a clone in; the rest is what every lesson's kernel starts with.
    settings = kernel_environment(place / "home") | {"PYTHONPATH": "", "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(
        [str(python), "uses_of_a_wheel.py", use],
        cwd=place,
        env=settings,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode != 0:
        raise UseError(done.stdout + done.stderr)
    if use == "notebook":
        compare(root / "lessons" / LESSON, place / "run" / LESSON)


def _attempt(python: str, use: str, action: Callable[[], None]) -> Row:
    """Do one thing; say why if it fails, and return its row."""
    say(f"=== Python {python}: {use}")
    started = time.monotonic()
    result = PASSED
    try:
        action()
    except UseError as failure:
        say(str(failure).rstrip())
        result = "FAILED"
    return Row(python, use, result, time.monotonic() - started)


def python_in(environment: Path) -> Path:
    """Return the Python of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _install(root: Path, uv: Sequence[str], wheel: Path, python: str, folder: Path) -> None:
    """Make an environment with the wheel in it."""
    _installer([*uv, "venv", "--quiet", "--python", python, folder], folder.parent)
    ours = python_in(folder)
    asked = folder / "wanted.txt"
    wanted = [f"ehr-course[notebook] @ {wheel.as_uri()}", *WITH_A_KERNEL]
    asked.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    versions = ["-c", str(root / "constraints.txt")]
    plan = make_plan(uv, ours, [*versions, str(asked)], cwd=folder, cuda=False)
    if plan is not None:
        cuda = f", {plan.cuda_size / 1e6:.0f} MB of them CUDA" if plan.cuda_size else ""
        say(f"    {plan.size / 1e6:.0f} MB of packages{cuda}, where none are in uv's cache")
    options = plan.torch_options if plan is not None else ()
    install: list[str | Path] = [*uv, "pip", "install", "--quiet", "--python", ours, *options]
    _installer([*install, *versions, "-r", asked], folder)


def _installer(command: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=installer_environment(),
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode != 0:
        raise UseError(done.stderr)


def compare(stored: Path, now: Path) -> None:
    """Raise UseError at the first output that is another than the stored one."""
    before, after = (nbformat.read(file, as_version=4).cells for file in (stored, now))
    for old, new in zip(before, after, strict=True):
        if old.cell_type == "code" and "nbval-ignore-output" not in old.metadata.get("tags", []):
            difference = first_difference(_text(old), _text(new))
            if difference is not None:
                raise UseError(f"cell {old.id}: {difference[0]!r} has become {difference[1]!r}")


def _text(cell: NotebookNode) -> str:
    """Return what a cell prints or returns as plain text."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif "data" in output:
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(part.rstrip("\n") for part in parts)


def table(rows: Sequence[Row]) -> str:
    """Return the closing table.

    >>> print(table([Row("3.12", "checks", "passed", 2.04)]))
    python  use     result  seconds
    3.12    checks  passed      2.0
    """
    cells = [("python", "use", "result", "seconds")]
    cells += [(row.python, row.use, row.result, f"{row.seconds:.1f}") for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    return "\n".join(
        f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:<{widths[2]}}  {d:>{widths[3]}}"
        for a, b, c, d in cells
    )
