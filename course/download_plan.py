"""What an installation will fetch: which packages, how many MB, and which build of PyTorch.

PyTorch's ordinary build for Linux brings NVIDIA's CUDA libraries, which are of no use without an
NVIDIA GPU. PyTorch offers a build for the processor alone in an index of its own, which uv knows
by name (`--torch-backend cpu`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.installers import installer_environment

CUDA_PACKAGE = re.compile(r"nvidia-|cuda-|triton$")
CPU_BACKEND = ("--torch-backend", "cpu")
TORCH_BYTES = 192_000_000
"""PyTorch's build for the processor. Its index does not say how large a file is."""

SECONDS_TO_ANSWER = 180


@dataclass(frozen=True)
class Package:
    """One package of a plan: name, version, and the bytes to fetch (0 for a local file)."""

    name: str
    version: str
    size: int

    @property
    def is_cuda(self) -> bool:
        """Whether it is one of NVIDIA's libraries, or needed by them alone."""
        return CUDA_PACKAGE.match(self.name) is not None


@dataclass(frozen=True)
class Plan:
    """What is installed: the packages, and uv's options for PyTorch's build of them."""

    packages: tuple[Package, ...]
    torch_options: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all packages."""
        return sum(package.size for package in self.packages)

    @property
    def cuda_size(self) -> int:
        """The bytes of NVIDIA's libraries among them."""
        return sum(package.size for package in self.packages if package.is_cuda)

    def without(self, installed: set[tuple[str, str]]) -> Plan:
        """Return the plan less what is there already, as pairs of name and version."""
        rest = tuple(p for p in self.packages if (p.name, p.version) not in installed)
        return Plan(rest, self.torch_options)


def has_nvidia_gpu() -> bool:
    """Return whether this machine seems to have an NVIDIA GPU with its driver."""
    files = ("/proc/driver/nvidia/version", "/dev/nvidiactl")
    return any(Path(file).exists() for file in files) or shutil.which("nvidia-smi") is not None


def make_plan(
    uv: Sequence[str], python: Path, requirements: Sequence[str], *, cwd: Path, cuda: bool
) -> Plan | None:
    """Ask uv what an installation would fetch.

    The packages come from wherever pip or uv are told to look. Only where that brings CUDA
    libraries that are not wanted, PyTorch's own index of builds for the processor is asked.
    The variable UV_TORCH_BACKEND names another of PyTorch's indexes, and is then followed.

    Args:
        uv: the command that starts uv.
        python: the environment's Python.
        requirements: the arguments of `uv pip compile`: files, extras and constraints.
        cwd: the folder that they are read from.
        cuda: True to take the CUDA libraries, whether or not there is a GPU.

    Returns:
        The plan, or None if uv gives none: there is no network, or this uv is too old.
    """
    chosen = os.environ.get("UV_TORCH_BACKEND")
    if chosen:
        return _ask(uv, python, requirements, ("--torch-backend", chosen), cwd)
    plan = _ask(uv, python, requirements, (), cwd)
    if plan is None or not plan.cuda_size or cuda or has_nvidia_gpu():
        return plan
    return _ask(uv, python, requirements, CPU_BACKEND, cwd) or plan


def _ask(
    uv: Sequence[str],
    python: Path,
    requirements: Sequence[str],
    torch_options: tuple[str, ...],
    cwd: Path,
) -> Plan | None:
    command = [
        *uv,
        "pip",
        "compile",
        "--quiet",
        "--python",
        str(python),
        "--format",
        "pylock.toml",
    ]
    try:
        answer = subprocess.run(
            [*command, *torch_options, *requirements],
            cwd=cwd,
            env=installer_environment(),
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=SECONDS_TO_ANSWER,
        )
        lock = tomllib.loads(answer.stdout)
        packages = [_package(entry) for entry in lock["packages"] if "version" in entry]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None
    return Plan(tuple(packages), torch_options) if packages else None


def _package(entry: dict) -> Package:
    """Read one entry of a pylock.toml that was made for one machine: it lists what fits there."""
    files = [*entry.get("wheels", []), *([entry["sdist"]] if "sdist" in entry else [])]
    file = files[0] if files else {}
    if file.get("url", "").startswith("file:") or "path" in file:
        size = 0
    else:
        size = file.get("size", TORCH_BYTES if entry["name"] == "torch" else 0)
    return Package(entry["name"], entry["version"], size)


def installed_packages(python: Path) -> set[tuple[str, str]]:
    """Return the names and versions of what an environment has, from its metadata folders."""
    library = "Lib/site-packages" if sys.platform == "win32" else "lib/python*/site-packages"
    found = set()
    for folder in python.parents[1].glob(f"{library}/*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
        found.add((re.sub(r"[-_.]+", "-", name).lower(), version))
    return found
