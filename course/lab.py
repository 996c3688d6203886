"""`course lab`: open JupyterLab at a lesson."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from course.command_error import CommandError
from course.console import say
from course.environment import become, ensure

# JupyterLab's settings for the course (a learner's own override them), and how its panels stand at
# first: the lessons on the left, the table of contents of the open one on the right.
SETTINGS = Path(__file__).resolve().parent / "lab_settings"

# JupyterLab's own file name for the workspace "default": a hash of the word ends it.
WORKSPACE = "default-37a8.jupyterlab-workspace"

# What the file browser does not list: first what JupyterLab leaves out anyway, then what the
# course adds. Saving a lesson's notebook writes its .py, so a learner need not see that one.
NOT_LISTED = (
    *("__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~"),
    *("*.egg-info", "[0-9][0-9]_*.py", "what_holds.py"),
)


def main(root: Path, arguments: list[str]) -> int:
    """Make `.venv` where needed, then become JupyterLab.

    Args:
        root: the clone.
        arguments: what stands after `course lab` on the command line.

    Raises:
        CommandError: if the lesson does not exist, or something cannot be made in the clone.
    """
    options = _parser().parse_args(arguments)
    lesson = _notebook(root, options.lesson)
    ensure(root)
    if options.prepare_only:
        say("Ready. To open the course: python3 -m course lab")
        return 0
    arrange_panels(root)
    command = server_command(
        root, lesson, ip=options.ip, port=options.port, open_browser=not options.no_browser
    )
    say(f"Opening {lesson.relative_to(root)} in JupyterLab. Stop it with Ctrl-C.")
    return become(root, command)


def server_command(
    root: Path,
    lesson: Path,
    *,
    ip: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = True,
) -> list[str]:
    """Return the arguments with which Python becomes JupyterLab, open at a lesson.

    Args:
        root: the clone, above which JupyterLab shows nothing.
        lesson: the notebook to open, in the clone.
        ip: the address that JupyterLab listens on.
        port: JupyterLab's port, or None for 8888 or the next that is free.
        open_browser: False to print the address only.
    """
    command = [
        "-m",
        "jupyterlab",
        f"--ServerApp.ip={ip}",
        f"--ServerApp.root_dir={root}",
        "--LabApp.extension_manager=readonly",
        f"--LabApp.app_settings_dir={SETTINGS}",
        f"--LabApp.workspaces_dir={_workspaces(root)}",
        f"--LabApp.default_url=/lab/tree/{lesson.relative_to(root).as_posix()}",
        *(f"--ContentsManager.hide_globs={pattern}" for pattern in NOT_LISTED),
    ]
    if port is not None:
        command.append(f"--ServerApp.port={port}")
    if not open_browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Containers run as root, and JupyterLab refuses root unless told.
        command.append("--allow-root")
    return command


def arrange_panels(root: Path) -> None:
    """Put the course's arrangement of panels where JupyterLab looks for it, the first time.

    JupyterLab writes the learner's changes into the same file, so a later start leaves it alone.

    Args:
        root: the clone.

    Raises:
        CommandError: if they cannot be written there.
    """
    file = _workspaces(root) / WORKSPACE
    if file.exists():
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SETTINGS / WORKSPACE, file)
    except OSError as error:
        raise CommandError(
            f"JupyterLab's panels cannot be kept in build/lab ({error.strerror}).",
            "Delete build/lab, or give yourself the right to write in the clone.",
        ) from None


def _workspaces(root: Path) -> Path:
    return root / "build" / "lab" / "workspaces"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m course lab",
        description="Make .venv where needed, and open JupyterLab at a lesson.",
        epilog="JupyterLab's panels stay as you leave them. To have them as they were at first, "
        "stop JupyterLab and delete build/lab. With --wheelhouse FOLDER the packages come "
        "from there and not from the network; with --cuda PyTorch brings its CUDA libraries.",
    )
    parser.add_argument("--lesson", metavar="NN", help="the lesson to open (default: the first)")
    parser.add_argument(
        "--ip",
        default="127.0.0.1",
        help="the address to listen on (default: %(default)s, this machine alone; a container "
        "needs 0.0.0.0)",
    )
    parser.add_argument("--port", type=int, help="JupyterLab's port (default: 8888 or the next)")
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address and open no browser"
    )
    parser.add_argument(
        "--prepare-only", action="store_true", help="make .venv and open nothing (for containers)"
    )
    return parser


def _notebook(root: Path, number: str | None) -> Path:
    notebooks = sorted((root / "lessons").glob("[0-9][0-9]_*.ipynb"))
    for notebook in notebooks:
        if number is None or notebook.name[:2] == number.zfill(2):
            return notebook
    there = ", ".join(path.name[:2] for path in notebooks)
    raise CommandError(
        f"There is no lesson {number or ''} in lessons/.".replace("  ", " "),
        f"The lessons are: {there}."
        if there
        else "Get a complete clone, or build the notebooks: python3 -m course build",
        exit_code=2,
    )
