"""The clone's own environment, `.venv`: made on first use, mended when it no longer fits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from course.command_error import CommandError
from course.console import duration, run_visibly, say
from course.install_failures import explain, no_venv_module
from course.logged_run import run_logged
from course.preconditions import alone, check_folder, check_space
from course.venv_stamp import (
    Work,
    stamp_file,
    venv_folder,
    venv_python,
    work_needed,
    write_json,
    write_stamp,
)

LAB_SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}


def log_file(root: Path) -> Path:
    """Return where the installers' output is kept."""
    return root / "build" / "install.log"


def ensure(root: Path) -> Path:
    """Make or mend `.venv` where needed, saying each step, and return its Python.

    Raises:
        CommandError: if something is missing on this machine, or the installation fails.
    """
    if work_needed(root) is None:
        return venv_python(root)
    check_folder(root)
    with alone(root):
        work = work_needed(root)
        if work is not None:
            try:
                _make(root, work)
            except KeyboardInterrupt:
                raise CommandError(
                    "Stopped before .venv was ready.",
                    "It is not used as it is: the next start makes it anew.",
                    exit_code=130,
                ) from None
            except OSError as error:
                raise _failure(root, str(error)) from None
    return venv_python(root)


def _make(root: Path, work: Work) -> None:
    uv = shutil.which("uv")
    # An environment that uv made has no pip.
    anew = work.anew or (uv is None and not _has_pip(venv_python(root)))
    if uv is None and anew and not (find_spec("venv") and find_spec("ensurepip")):
        raise no_venv_module(_this_python())
    tool = "uv" if uv else "venv and pip"
    say(f"{'Making' if anew else 'Updating'} .venv with {tool}: {work.reason}.")
    started = time.monotonic()
    log_file(root).write_text("", encoding="utf-8")
    stamp_file(root).unlink(missing_ok=True)
    if anew:
        if venv_folder(root).exists():
            with _step("    the old .venv is deleted"):
                _delete(venv_folder(root))
        check_space(root)
        with _step(f"1/3 a Python {_this_python()} of its own"):
            base = _base_python()
            if uv:
                _run(root, [uv, "venv", "--python", base, venv_folder(root)])
            else:
                _run(root, [base, "-m", "venv", venv_folder(root)])
    python = venv_python(root)
    with _step("2/3 the packages, in the versions of constraints.txt (minutes, the first time)"):
        if uv:
            installer: list[str | Path] = [uv, "pip", "install", "--python", python]
        else:
            installer = [python, "-m", "pip", "install"]
        _run(root, [*installer, "-c", "constraints.txt", "-e", ".[dev]"])
    with _step("3/3 JupyterLab's settings: no news from the network"):
        write_json(venv_folder(root) / "share/jupyter/lab/settings/overrides.json", LAB_SETTINGS)
    write_stamp(root)
    say(f".venv is ready after {duration(time.monotonic() - started)}.")


@contextmanager
def _step(title: str) -> Iterator[None]:
    started = time.monotonic()
    say(f"  {title}")
    yield
    say(f"      done in {duration(time.monotonic() - started)}")


def _run(root: Path, command: list[str | Path]) -> None:
    env = _installer_environment()
    code, output = run_logged(command, log=log_file(root), env=env, cwd=root)
    if code != 0:
        raise _failure(root, output)


def _failure(root: Path, output: str) -> CommandError:
    log = log_file(root).relative_to(root)
    free = shutil.disk_usage(root).free
    return explain(output, log=log, free_bytes=free, python=_this_python())


def _installer_environment() -> dict[str, str]:
    env = dict(os.environ)
    # An activated environment elsewhere must not attract the packages.
    env.pop("VIRTUAL_ENV", None)
    env.update(
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_NO_INPUT="1",
        PIP_PROGRESS_BAR="off",
        PYTHONUNBUFFERED="1",
        PYTHONIOENCODING="utf-8",
    )
    if env.get("PIP_FIND_LINKS") and "UV_FIND_LINKS" not in env:
        # pip separates by blanks, uv by commas.
        env["UV_FIND_LINKS"] = ",".join(env["PIP_FIND_LINKS"].split())
    return env


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise CommandError(
            f"The old .venv cannot be deleted ({error.strerror}: {error.filename}).",
            "Close the programs that use it, JupyterLab first, then start again.",
        ) from None


def _has_pip(python: Path) -> bool:
    question = [str(python), "-c", "import pip"]
    return subprocess.run(question, capture_output=True, check=False).returncode == 0


def _this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _base_python() -> str:
    # Inside a venv, sys.executable may be the very file that is about to be deleted.
    base: str = getattr(sys, "_base_executable", None) or sys.executable
    return base


def become(root: Path, arguments: list[str]) -> int:
    """Go on as the environment's Python with these arguments.

    On POSIX the process is replaced, so that signals and its number stay the same; Windows
    cannot do that, so there it waits and returns the exit code.
    """
    command = [str(venv_python(root)), *arguments]
    if os.name == "nt":
        return run_visibly(command, cwd=root)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)
