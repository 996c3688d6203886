"""The commands of `python3 -m course`, by name."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from course import checks, doctor, lab
from course.command_error import CommandError
from course.console import prepare_streams, say
from course.environment import become, ensure
from course.venv_stamp import runs_inside, work_needed

ROOT = Path(__file__).resolve().parent.parent

HELP = """\
python3 -m course COMMAND, from the clone's root:

  lab         open JupyterLab at the first lesson (--lesson 07, --no-browser, --port 8888)
  test        run everything that CI runs         (with arguments: only pytest, with them)
              --oldest, --newest, --wheel: test with other versions, or the wheel alone
  progress    show which exercises you have solved
  mine        print the model that you have written, as one file
  doctor      report on this machine, for a bug report
  new         make the files of a new lesson
  build       run the lessons' sources into notebooks
  book        build the book from the notebooks
  checkpoint  train again a model that the lessons load
  release     make a folder and a zip file of lessons for students
  grade       grade a folder of students' notebooks
  report      make the table and pages of a graded class again, or a table of a term
  wheelhouse  put all packages into a folder, for a class without a network

The first use makes .venv in the clone: minutes, about 3 GB, and the network. Nothing is installed
outside the clone. On Linux it brings no CUDA libraries where there is no NVIDIA GPU; with --cuda
after the command it does. With --wheelhouse FOLDER after the command, or such a folder beside the
clone, nothing comes from the network. `python3 -m course COMMAND --help` tells more of all but
progress, mine and doctor."""


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the command's name and what follows it.
    """
    prepare_streams()
    try:
        exit_code = _run(arguments)
        sys.stdout.flush()
        return exit_code
    except CommandError as error:
        sys.stdout.flush()
        print(f"\ncourse: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ncourse: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # what read the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(_help())
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise CommandError(
            f"There is no command {name!r}.",
            f"{meant}The commands are: {', '.join(COMMANDS)}.",
            exit_code=2,
        )
    _check_place()
    if name == "test" and rest[:1] in (["-h"], ["--help"]):
        say(_help())
        return 0
    rest, folder = _without_wheelhouse(rest)
    if "--cuda" in rest or folder is not None:
        cuda = "--cuda" in rest
        rest = [argument for argument in rest if argument != "--cuda"]
        ensure(ROOT, cuda=cuda, wheelhouse=folder)
    return COMMANDS[name](ROOT, rest)


def _without_wheelhouse(arguments: list[str]) -> tuple[list[str], str | None]:
    """Return the arguments without `--wheelhouse FOLDER`, and the folder, or None."""
    for place, argument in enumerate(arguments):
        name, equals, folder = argument.partition("=")
        if name != "--wheelhouse":
            continue
        used = 1 if equals else 2
        folder = folder or "".join(arguments[place + 1 : place + used])
        if not folder or folder.startswith("-"):
            raise CommandError(
                "--wheelhouse needs the folder of the wheelhouse.",
                "Give it: python3 -m course lab --wheelhouse FOLDER",
                exit_code=2,
            )
        return arguments[:place] + arguments[place + used :], folder
    return arguments, None


def _help() -> str:
    """The help, without the commands that a folder for students does not have."""
    absent = {f"  {name} " for name in MODULES if name not in COMMANDS}
    return "\n".join(line for line in HELP.splitlines() if not line.startswith((*absent,)))


def _check_place() -> None:
    absent = [
        name for name in ("pyproject.toml", "constraints.txt") if not (ROOT / name).is_file()
    ]
    if absent:
        raise CommandError(
            f"This is not a whole clone: {' and '.join(absent)} missing in {ROOT}",
            "Get the whole repository: with git clone, or as its complete archive.",
        )
    if Path.cwd().resolve() != ROOT:
        raise CommandError(
            "The course is run from the clone's root, and this is another folder.",
            f'Go there first: cd "{ROOT}"',
            exit_code=2,
        )


def _in_environment(name: str) -> Callable[[Path, list[str]], int]:
    """Make the command whose module, ``course.<name>``, needs what is installed in `.venv`."""

    def command(root: Path, arguments: list[str]) -> int:
        if not _is_inside(root):
            return _go_inside(root, [name, *arguments])
        module = importlib.import_module(f"course.{MODULES[name]}")
        from ehr_course.errors import InputError

        try:
            return module.main(arguments)
        except InputError as error:
            where = f"{error.thing}, {error.place}" if error.place else error.thing
            raise CommandError(f"{where}: {error.problem}.", error.remedy) from error

    return command


def _progress(root: Path, arguments: list[str]) -> int:
    if arguments:
        raise CommandError("course progress takes no arguments.", "Leave them out.", exit_code=2)
    if not _is_inside(root):
        return _go_inside(root, ["progress"])
    from ehr_course.exercises import progress

    progress()
    return 0


def _is_inside(root: Path) -> bool:
    return runs_inside(root) and work_needed(root) is None


def _go_inside(root: Path, arguments: list[str]) -> int:
    ensure(root)
    return become(root, ["-m", "course", *arguments])


def _is_here(module: str) -> bool:
    """Say whether a module is there: a folder for students lacks what only a teacher needs."""
    return (ROOT / "course" / f"{module.replace('.', '/')}.py").is_file()


MODULES = {
    "mine": "mine",
    "new": "new_lesson",
    "build": "build",
    "book": "bookmaker",
    "checkpoint": "checkpoint",
    "release": "release",
    "grade": "grading.command",
    "report": "grading.report",
    "wheelhouse": "wheelhouse_maker",
}

COMMANDS: dict[str, Callable[[Path, list[str]], int]] = {
    "lab": lab.main,
    "test": checks.main,
    "progress": _progress,
    "doctor": doctor.main,
    **{name: _in_environment(name) for name, module in MODULES.items() if _is_here(module)},
}
