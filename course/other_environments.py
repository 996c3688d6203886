"""`course test --oldest` and `--newest`: the library's tests with other versions of its packages.

`.venv` holds the versions of constraints.txt. The oldest are those that pyproject.toml still
accepts, its floors; the newest are what the package index has today. Either is installed into an
environment of its own, in `build/environments/`, which is kept for the next time; `.venv` stays
as it is.
"""

from __future__ import annotations

import re
import subprocess
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from course.command_error import CommandError
from course.console import duration, run_visibly, say
from course.download_plan import Plan, make_plan
from course.installers import installer_environment
from course.pythons import base_python, find_python, this_python

RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}

NOT_OF_THE_LIBRARY = ("browser", "book", "benchmarks", "course", "lessons", "real_data")
"""Folders of tests that try the course's pages and programs, with the versions of `.venv`."""

NEITHER = ("test_wheel.py",)


def main(root: Path, uv: Sequence[str], which: str, python: str | None, tests: list[str]) -> int:
    """Make or reuse the environment, and run the library's tests in it.

    Args:
        root: the clone.
        uv: the command that starts uv.
        which: "oldest" or "newest".
        python: the Python's version, such as "3.13", or None for the one that runs this.
        tests: pytest's arguments in place of all of the library's tests.

    Returns:
        pytest's exit code.

    Raises:
        CommandError: if the Python is not here, or the packages cannot be installed.
    """
    version = python or this_python()
    program = base_python() if python is None else find_python(python)
    if program is None:
        raise CommandError(
            f"This machine has no Python {version}.",
            "Install it, or leave --python out.",
        )
    folder = root / "build" / "environments" / f"{which}-{version}"
    plan = _plan(root, uv, which, Path(program))
    say(f"The {which} versions that pyproject.toml accepts, on Python {version}:")
    say(f"  {', '.join(f'{p.name} {p.version}' for p in direct(root, plan))}")
    ours = _environment(root, uv, folder, Path(program), plan)
    command: list[str | Path] = [
        ours,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-p",
        "no:cacheprovider",
    ]
    return run_visibly([*command, *(tests or library_tests(root))], cwd=root)


def library_tests(root: Path) -> list[str]:
    """Return what pytest runs: the library's examples, and every test but those of the course."""
    there = sorted((root / "tests").iterdir())
    kept = [
        path.relative_to(root).as_posix()
        for path in there
        if (path.is_dir() and path.name not in (*NOT_OF_THE_LIBRARY, "__pycache__"))
        or (path.name.startswith("test_") and path.name not in NEITHER)
    ]
    return ["ehr_course", *kept]


def direct(root: Path, plan: Plan) -> list:
    """Return the packages of a plan that pyproject.toml names itself as the library's."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    named = {
        re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]).lower()
        for line in tomllib.loads(text)["project"]["dependencies"]
    }
    return [package for package in plan.packages if package.name in named]


def _plan(root: Path, uv: Sequence[str], which: str, python: Path) -> Plan:
    asked = ["--resolution", RESOLUTIONS[which], "--extra", "dev", "pyproject.toml"]
    plan = make_plan(uv, python, asked, cwd=root, cuda=False)
    if plan is None:
        raise CommandError(
            f"uv finds no set of the {which} versions that fit together, or no package index.",
            "See what it says: uv pip compile --resolution "
            f"{RESOLUTIONS[which]} --extra dev pyproject.toml",
        )
    return plan


def _environment(root: Path, uv: Sequence[str], folder: Path, python: Path, plan: Plan) -> Path:
    """Return the Python of an environment with exactly these packages, made where it is not."""
    ours = folder / ("Scripts/python.exe" if (folder / "Scripts").exists() else "bin/python")
    pins = "".join(f"{p.name}=={p.version}\n" for p in plan.packages)
    made_from = folder / "made-from.txt"  # written last: without it, it was never finished
    if made_from.exists() and made_from.read_text(encoding="utf-8") == pins:
        say(f"They are in {folder.relative_to(root)} already.")
        return ours
    say(
        f"They are installed into {folder.relative_to(root)}: up to {plan.size / 1e6:.0f} MB to "
        f"fetch, {plan.cuda_size / 1e6:.0f} MB of them CUDA libraries."
    )
    started = time.monotonic()
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([*uv, "venv", "--clear", "--quiet", "--python", python, folder], root)
    ours = folder / ("Scripts/python.exe" if (folder / "Scripts").exists() else "bin/python")
    asked = folder / "asked.txt"
    asked.write_text(pins, encoding="utf-8")
    options = plan.torch_options
    _run([*uv, "pip", "install", "--quiet", "--python", ours, *options, "-r", asked], root)
    asked.replace(made_from)
    say(f"  done in {duration(time.monotonic() - started)}")
    return ours


def _run(command: Sequence[str | Path], root: Path) -> None:
    parts = [str(part) for part in command]
    done = subprocess.run(
        parts, cwd=root, env=installer_environment(), capture_output=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise CommandError(
            f"The packages could not be installed.\n{done.stderr.rstrip()}",
            "Look at what stands above, check the network, then start again.",
        )
