"""The clone's own environment, `.venv`: made on first use, mended when it no longer fits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from course.command_error import CommandError
from course.console import duration, run_visibly, say
from course.download_bar import DownloadBar
from course.download_plan import Plan, has_nvidia_gpu, installed_packages, make_plan
from course.install_failures import explain, no_venv_module
from course.installers import find_uv, installer_environment, uv_outside
from course.logged_run import run_logged
from course.preconditions import alone, check_folder, check_space
from course.pythons import base_python, this_python
from course.venv_stamp import (
    Work,
    has_cuda,
    stamp_file,
    venv_folder,
    venv_python,
    work_needed,
    write_json,
    write_stamp,
)
from course.wheelhouse import (
    Wheelhouse,
    check_wheels,
    find_wheelhouse,
    offline_environment,
    this_target,
    unpack_uv,
    wanted_packages,
)

LAB_SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}

WANTED = ("-c", "constraints.txt", "-e", ".[dev]")
"""What is installed, as pip and uv take it; environment.yml says the same."""

ASKED = ("-c", "constraints.txt", "--extra", "dev", "pyproject.toml")
"""The same, as `uv pip compile` takes it."""

PIP_WITH_PROGRESS = "pip>=24.1"
"""The first pip that says, for programs, how much of a file is here."""


def log_file(root: Path) -> Path:
    """Return where the installers' output is kept."""
    return root / "build" / "install.log"


def ensure(root: Path, *, cuda: bool = False, wheelhouse: str | None = None) -> Path:
    """Make or mend `.venv` where needed, saying each step, and return its Python.

    Args:
        root: the clone.
        cuda: True for PyTorch with CUDA libraries, whether or not this machine has a GPU. An
            environment that has them keeps them.
        wheelhouse: the folder that the packages come from, with no network; None for the one that
            is found by itself, if there is one.

    Raises:
        CommandError: if something is missing on this machine, or the installation fails.
    """
    if work_needed(root, cuda=cuda) is None:
        return venv_python(root)
    check_folder(root)
    with alone(root):
        work = work_needed(root, cuda=cuda)
        if work is not None:
            try:
                house = find_wheelhouse(root, wheelhouse)
                _make(root, work, cuda=cuda or has_cuda(root), house=house)
            except KeyboardInterrupt:
                raise CommandError(
                    "Stopped before .venv was ready.",
                    "It is not used as it is: the next start rebuilds it.",
                    exit_code=130,
                ) from None
            except OSError as error:
                raise _failure(root, str(error)) from None
    return venv_python(root)


def _make(root: Path, work: Work, *, cuda: bool, house: Wheelhouse | None) -> None:
    if house is not None:
        _check_wheelhouse(root, house, cuda=cuda)
    uv = uv_outside(root)
    if house is not None and uv is None:
        uv = str(unpack_uv(house, house.targets[this_target()], root / "build" / "uv"))
    # An environment that uv made has no pip.
    from_scratch = work.from_scratch or (uv is None and not _has_pip(venv_python(root)))
    if uv is None and from_scratch and not (find_spec("venv") and find_spec("ensurepip")):
        raise no_venv_module(this_python())
    tool = "uv" if uv else "venv and pip"
    say(f"{'Making' if from_scratch else 'Updating'} .venv with {tool}: {work.reason}.")
    started = time.monotonic()
    log_file(root).write_text("", encoding="utf-8")
    stamp_file(root).unlink(missing_ok=True)
    if from_scratch:
        if venv_folder(root).exists():
            with _step("    the old .venv is deleted"):
                _delete(venv_folder(root))
        check_space(root)
        with _step(f"1/3 a Python {this_python()} of its own"):
            if uv:
                place = venv_folder(root)
                _run(root, [uv, "venv", "--python", base_python(), place], house=house)
            else:
                _run(root, [base_python(), "-m", "venv", venv_folder(root)])
    with _step("2/3 the packages, in the versions of constraints.txt (minutes, the first time)"):
        if house is not None and uv is not None:
            _install_from(house, root, uv)
        else:
            _install(root, uv, cuda=cuda)
    with _step("3/3 JupyterLab's settings: no news from the network"):
        write_json(venv_folder(root) / "share/jupyter/lab/settings/overrides.json", LAB_SETTINGS)
    write_stamp(root, cuda=cuda)
    say(f".venv is ready after {duration(time.monotonic() - started)}.")


def _install(root: Path, uv: str | None, *, cuda: bool) -> None:
    """Install the packages: with uv if the machine has it, otherwise with pip."""
    python = venv_python(root)
    if uv is None:
        # Pip installs, because a machine's settings may be pip's; uv tells the sizes, and knows
        # where PyTorch keeps its build without CUDA. It works without either.
        helpers = [PIP_WITH_PROGRESS, "uv", "-c", "constraints.txt"]
        say("      pip's newest version and uv, which helps it")
        _try(root, [python, "-m", "pip", "install", *helpers])
    say("      looking up what is needed")
    planner = [uv] if uv else find_uv(root)
    plan = make_plan(planner, python, ASKED, cwd=root, cuda=cuda) if planner else None
    plan = plan.without(installed_packages(python)) if plan else None
    for line in announcement(plan, cuda=cuda):
        say(f"      {line}")
    before = len(installed_packages(python))
    bar = DownloadBar(
        plan.size if plan else 0,
        packages=len(plan.packages) if plan else 0,
        placed=lambda: len(installed_packages(python)) - before,
    )
    torch = plan.torch_options if plan else ()
    if uv:
        command: list[str | Path] = [uv, "pip", "install", "--python", python, *torch, *WANTED]
        _run(root, command, bar=bar, on_terminal=True)
        return
    if torch and planner:
        alone = ["--no-deps", "-c", "constraints.txt", "torch"]
        command = [*planner, "pip", "install", "--python", str(python), *torch, *alone]
        _run(root, command, bar=bar, on_terminal=True)
    shown = "raw" if _pip_tells_progress(python) else "off"
    install: list[str | Path] = [python, "-m", "pip", "install", "--progress-bar", shown]
    _run(root, [*install, *WANTED], bar=bar)


def _check_wheelhouse(root: Path, house: Wheelhouse, *, cuda: bool) -> None:
    """Say which wheelhouse is used, and compare its wheels with their checksums."""
    target = this_target()
    names = house.targets[target]
    size = house.size(target) / 1e6
    say(
        f"The packages come from the wheelhouse {house.folder}, {size:.0f} MB: nothing is fetched."
    )
    if cuda and not any(name.startswith("nvidia_") for name in names):
        raise CommandError(
            "This wheelhouse has no CUDA libraries, and --cuda asks for them.",
            "Leave --cuda out, or move the wheelhouse away, to fetch them from the network.",
        )
    check_wheels(house, names)
    if house.made_from != wanted_packages(root):
        say("It was made for another version of the course, so a package may be missing.")


def _install_from(house: Wheelhouse, root: Path, uv: str) -> None:
    """Install the packages from a wheelhouse and from nowhere else."""
    python = venv_python(root)
    before = len(installed_packages(python))
    bar = DownloadBar(
        0,
        packages=len(house.targets[this_target()]),
        placed=lambda: len(installed_packages(python)) - before,
    )
    bar.nothing_to_fetch()
    command: list[str | Path] = [uv, "pip", "install", "--python", python, *WANTED]
    _run(root, command, bar=bar, on_terminal=True, house=house)


def announcement(plan: Plan | None, *, cuda: bool) -> list[str]:
    """Return what is said before the packages are fetched: how many MB, and which PyTorch.

    Args:
        plan: what is to be fetched, or None if that is not known.
        cuda: whether CUDA libraries were asked for.
    """
    if plan is None:
        return ["The packages are about 400 MB; with CUDA libraries on Linux, 3 GB."]
    if not plan.packages:
        return ["Every package is here already, in its version."]
    lines = [f"Up to {plan.size / 1e6:.0f} MB are fetched: less where they were fetched before."]
    if not any(package.name == "torch" for package in plan.packages):
        return lines
    if plan.cuda_size:
        why = (
            "because --cuda asks for them"
            if cuda
            else "because this machine has an NVIDIA GPU"
            if has_nvidia_gpu()
            else "because PyTorch's index of builds without them cannot be reached"
        )
        lines.append(f"{plan.cuda_size / 1e6:.0f} MB of them are CUDA libraries, {why}.")
    elif cuda:
        lines.append("There are no CUDA libraries where the packages come from.")
    elif sys.platform == "linux":
        lines.append("PyTorch is its build without CUDA libraries; --cuda brings them.")
    return lines


@contextmanager
def _step(title: str) -> Iterator[None]:
    started = time.monotonic()
    say(f"  {title}")
    yield
    say(f"      done in {duration(time.monotonic() - started)}")


def _run(
    root: Path,
    command: Sequence[str | Path],
    *,
    bar: DownloadBar | None = None,
    on_terminal: bool = False,
    house: Wheelhouse | None = None,
) -> None:
    env: Mapping[str, str] = (
        installer_environment() if house is None else offline_environment(house)
    )
    code, output = run_logged(
        command,
        log=log_file(root),
        env=env,
        cwd=root,
        bar=bar,
        on_terminal=on_terminal,
    )
    if code != 0:
        raise _failure(root, output, house)


def _try(root: Path, command: Sequence[str | Path]) -> None:
    """Run what helps and is not needed; if it fails, the log says so."""
    run_logged(command, log=log_file(root), env=installer_environment(), cwd=root)


def _failure(root: Path, output: str, house: Wheelhouse | None = None) -> CommandError:
    log = log_file(root).relative_to(root)
    free = shutil.disk_usage(root).free
    wheelhouse = house.folder if house is not None else None
    return explain(output, log=log, free_bytes=free, python=this_python(), wheelhouse=wheelhouse)


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


def _pip_tells_progress(python: Path) -> bool:
    question = [str(python), "-m", "pip", "install", "--progress-bar", "raw", "--help"]
    return subprocess.run(question, capture_output=True, check=False).returncode == 0


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
