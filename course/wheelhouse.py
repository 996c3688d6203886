"""A wheelhouse: a folder with every package, from which `.venv` is made without a network.

`python3 -m course wheelhouse` makes it, in `course/wheelhouse_maker.py`. This module finds one,
says for whom it is, and checks it before anything is installed. Its file `wheelhouse.json`, which
is written last, says which wheels belong to which Python on which system, with their checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from course.command_error import CommandError
from course.console import say
from course.installers import installer_environment
from course.pythons import find_python, this_python

CONTENTS = "wheelhouse.json"
SUMS = "SHA256SUMS"
WHEELS = "wheels"

VARIABLE = "EHR_COURSE_WHEELHOUSE"
BY_ITSELF = "wheelhouse"
"""A folder of this name in the clone or beside it is found without being named."""

PLATFORMS = {
    "linux": "Linux on x86-64",
    "linux-arm": "Linux on ARM",
    "macos": "macOS 14 or newer on Apple silicon",
    "windows": "Windows on x86-64",
}

_MACHINES = {
    ("linux", "x86_64"): "linux",
    ("linux", "aarch64"): "linux-arm",
    ("darwin", "arm64"): "macos",
    ("win32", "amd64"): "windows",
}

NAMED_AT_MOST = 5


@dataclass(frozen=True, order=True)
class Target:
    """For whom wheels are: a version of Python and a system.

    Attributes:
        python: such as "3.12".
        platform: a name of PLATFORMS, or this system's own words where it is not among them.
    """

    python: str
    platform: str

    def __str__(self) -> str:
        return f"Python {self.python} for {PLATFORMS.get(self.platform, self.platform)}"


@dataclass(frozen=True)
class Wheel:
    """One file of a wheelhouse: its size in bytes and its SHA-256 checksum in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Wheelhouse:
    """What a wheelhouse holds.

    Attributes:
        folder: where it is.
        made_from: the fingerprint of the clone's packages, as `wanted_packages` gives it.
        files: the wheels, by file name.
        targets: the names of the wheels that each target needs.
        is_named: whether somebody named it, and did not merely leave it beside the clone.
    """

    folder: Path
    made_from: str
    files: Mapping[str, Wheel]
    targets: Mapping[Target, tuple[str, ...]]
    is_named: bool = True

    @property
    def wheels(self) -> Path:
        """The folder of the wheels."""
        return self.folder / WHEELS

    def size(self, target: Target) -> int:
        """Return the bytes of what a target needs."""
        return sum(self.files[name].size for name in self.targets[target])


def this_platform() -> str:
    """Return this system's name in PLATFORMS, or in its own words where it has none."""
    known = _MACHINES.get((sys.platform, platform.machine().lower()))
    return known or f"{platform.system()} on {platform.machine()}"


def this_target() -> Target:
    """Return the Python and the system that run this."""
    return Target(this_python(), this_platform())


def wanted_packages(root: Path) -> str:
    """Return a fingerprint of what a clone installs; the ends of its lines do not count."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((root / name).read_text(encoding="utf-8").encode())
    return digest.hexdigest()


def checksum(file: Path) -> str:
    """Return a file's SHA-256 checksum in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# --------------------------------------------------------------------------- which one


def find_wheelhouse(root: Path, named: str | None = None) -> Wheelhouse | None:
    """Return the wheelhouse that this machine's packages come from, or None.

    It is the one that is named, else the one in the variable EHR_COURSE_WHEELHOUSE, else a folder
    `wheelhouse` in the clone or beside it. One that was only found, and is for others, is left
    alone, and that is said.

    Args:
        root: the clone.
        named: what stands after `--wheelhouse`, or None.

    Raises:
        CommandError: if the one that was named is not a finished wheelhouse for this system.
    """
    if (folder := named or os.environ.get(VARIABLE)) is not None:
        found = read_wheelhouse(Path(folder).expanduser().resolve())
        if this_target() not in found.targets:
            raise _for_others(found)
        return found
    for beside in (root / BY_ITSELF, root.parent / BY_ITSELF):
        if not (beside / CONTENTS).is_file():
            continue
        found = read_wheelhouse(beside, is_named=False)
        if this_target() in found.targets:
            return found
        say(f"{_for_others(found)}\nIt is left alone: the packages come from the network.\n")
    return None


def read_wheelhouse(folder: Path, *, is_named: bool = True) -> Wheelhouse:
    """Read what a wheelhouse says of itself; its wheels are not looked at.

    Raises:
        CommandError: if the folder is not a wheelhouse, or not finished.
    """
    remedy = f"Make it where there is a network: python3 -m course wheelhouse --out {folder.name}"
    if not folder.is_dir():
        raise CommandError(f"There is no such wheelhouse: {folder}", remedy)
    try:
        told = json.loads((folder / CONTENTS).read_text(encoding="utf-8"))
        files = {name: Wheel(**wheel) for name, wheel in told["files"].items()}
        targets = {
            Target(entry["python"], entry["platform"]): tuple(entry["wheels"])
            for entry in told["targets"]
        }
        if any(name not in files for names in targets.values() for name in names):
            raise ValueError("a target names a wheel that is not listed")
        return Wheelhouse(folder, told["made_from"], files, targets, is_named)
    except FileNotFoundError:
        raise CommandError(
            f"This folder is not a wheelhouse, or was not finished: {folder}\n"
            f"Its {CONTENTS} is missing, which is written last.",
            f"If it was copied, copy it again. If it was being made, the same command goes on "
            f"where it stopped. {remedy}",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{folder / CONTENTS} cannot be read: {error}", remedy) from None


def _for_others(found: Wheelhouse) -> CommandError:
    ours = this_target()
    made_for = "; ".join(sorted(map(str, found.targets)))
    problem = (
        f"The wheelhouse in {found.folder} is for other machines than this one.\n"
        f"It is for: {made_for}.\nThis is: {ours}."
    )
    here = sorted(
        (target.python for target in found.targets if target.platform == ours.platform),
        key=lambda version: int(version[2:]),
        reverse=True,
    )
    for version in here:
        if find_python(version):
            program = f"py -{version}" if os.name == "nt" else f"python{version}"
            return CommandError(
                problem, f"This machine has that Python, so start with it: {program} -m course lab"
            )
    if here:
        return CommandError(problem, f"Install Python {here[0]} on this machine, and start it.")
    if ours.platform not in PLATFORMS:
        return CommandError(problem, "No wheelhouse can be made for it: it needs the network.")
    return CommandError(
        problem,
        "Make one for it where there is a network: python3 -m course wheelhouse --out FOLDER "
        f"--python {ours.python} --platform {ours.platform}",
    )


# --------------------------------------------------------------------------- whether it is whole


def check_wheels(house: Wheelhouse, names: Iterable[str]) -> None:
    """Compare wheels with their checksums.

    Args:
        house: the wheelhouse.
        names: the wheels that are needed.

    Raises:
        CommandError: if one is missing or is not what was put there; it names them.
    """
    faults = []
    for name in names:
        file = house.wheels / name
        if not file.is_file():
            faults.append(f"{name} is missing")
        elif (size := file.stat().st_size) != house.files[name].size:
            faults.append(f"{name} has {size} bytes in place of {house.files[name].size}")
        elif checksum(file) != house.files[name].sha256:
            faults.append(f"{name} is damaged: its checksum is another")
    if faults:
        more = f"\n  and {len(faults) - NAMED_AT_MOST} more" if faults[NAMED_AT_MOST:] else ""
        listed = "\n  ".join(faults[:NAMED_AT_MOST])
        raise CommandError(
            f"The wheelhouse in {house.folder} is not whole:\n  {listed}{more}",
            "Copy these files again from the machine where it was made. There, the command that "
            "made it fetches what is missing.",
        )


# --------------------------------------------------------------------------- how it is used


def unpack_uv(house: Wheelhouse, names: Iterable[str], folder: Path) -> Path:
    """Take the program uv out of its wheel, so that nothing need be installed to install.

    Args:
        house: the wheelhouse.
        names: the wheels of the target, uv's among them.
        folder: where it is put.

    Returns:
        The program.

    Raises:
        CommandError: if the wheelhouse has no uv.
    """
    program = "uv.exe" if os.name == "nt" else "uv"
    for name in names:
        if not name.startswith("uv-"):
            continue
        with zipfile.ZipFile(house.wheels / name) as wheel:
            inside = next((one for one in wheel.namelist() if one.endswith(f"/{program}")), None)
            if inside is None:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f"{program}.unfinished"
            with wheel.open(inside) as source, unfinished.open("wb") as target:
                shutil.copyfileobj(source, target)
            unfinished.chmod(0o755)
            unfinished.replace(folder / program)
            return folder / program
    raise CommandError(
        f"The wheelhouse in {house.folder} has no uv, which installs the packages.",
        "Make it again: python3 -m course wheelhouse",
    )


def offline_environment(house: Wheelhouse) -> dict[str, str]:
    """Return the variables with which uv takes packages from a wheelhouse and nowhere else."""
    env = installer_environment()
    elsewhere = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX_URL")
    for name in (*elsewhere, "UV_TORCH_BACKEND", "UV_CONFIG_FILE"):
        env.pop(name, None)
    return env | {
        "UV_NO_CONFIG": "1",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        # As an address, because uv takes a comma for the end of a folder's name.
        "UV_FIND_LINKS": house.wheels.as_uri(),
    }
