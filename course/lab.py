"""`course lab`: open JupyterLab at a lesson."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from course.command_error import CommandError
from course.console import say
from course.environment import become, ensure


def main(root: Path, arguments: list[str]) -> int:
    """Make `.venv` where needed, then become JupyterLab.

    Args:
        root: the clone.
        arguments: what stands after `course lab` on the command line.

    Raises:
        CommandError: if the lesson does not exist or `.venv` cannot be made.
    """
    options = _parser().parse_args(arguments)
    lesson = _notebook(root, options.lesson)
    ensure(root)
    if options.prepare_only:
        say("Ready. To open the course: python3 -m course lab")
        return 0
    command = [
        "-m",
        "jupyterlab",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={root}",
        "--LabApp.extension_manager=readonly",
        f"--LabApp.default_url=/lab/tree/{lesson.relative_to(root).as_posix()}",
    ]
    if options.port is not None:
        command.append(f"--ServerApp.port={options.port}")
    if options.no_browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Containers run as root, and JupyterLab refuses root unless told.
        command.append("--allow-root")
    say(f"Opening {lesson.relative_to(root)} in JupyterLab. Stop it with Ctrl-C.")
    return become(root, command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m course lab",
        description="Make .venv where needed, and open JupyterLab at a lesson.",
    )
    parser.add_argument(
        "--lesson", default="00", metavar="NN", help="the lesson to open (default: 00)"
    )
    parser.add_argument("--port", type=int, help="JupyterLab's port (default: 8888 or the next)")
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address and open no browser"
    )
    parser.add_argument(
        "--prepare-only", action="store_true", help="make .venv and open nothing (for containers)"
    )
    return parser


def _notebook(root: Path, number: str) -> Path:
    folder = root / "lessons"
    for notebook in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
        if notebook.name[:2] == number.zfill(2):
            return notebook
    there = ", ".join(path.name[:2] for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")))
    raise CommandError(
        f"There is no lesson {number} in lessons/.",
        f"The lessons are: {there}."
        if there
        else "Get a complete clone, or build the notebooks: python3 -m course build",
        exit_code=2,
    )
