"""`course wheelhouse`: every package in one folder, for a class without a network."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from course.command_error import CommandError
from course.console import duration, say
from course.download_bar import DownloadBar
from course.fetching import UNFINISHED, Remote, fetch_all
from course.installers import find_uv, installer_environment
from course.pythons import OLDEST, this_python
from course.venv_stamp import write_json
from course.wheel_list import needed_by
from course.wheelhouse import (
    CONTENTS,
    PLATFORMS,
    SUMS,
    WHEELS,
    Target,
    Wheel,
    checksum,
    this_platform,
    wanted_packages,
)

ROOT = Path(__file__).resolve().parent.parent

READ_ME = "README.md"
NOT_FINISHED = "NOT_FINISHED.txt"
"""Stands in the folder while it is filled, and says so."""

SPARE_BYTES = 100_000_000


def main(arguments: list[str]) -> int:
    """Make a wheelhouse, or go on with one, and return 0.

    Args:
        arguments: what stands after `course wheelhouse` on the command line.

    Raises:
        CommandError: if the folder holds something else, the disk is too small, or a package
            cannot be found or fetched.
    """
    options = _parser().parse_args(arguments)
    targets = [
        Target(python, platform)
        for platform in dict.fromkeys(options.platform or [_here()])
        for python in dict.fromkeys(options.python)
    ]
    uv = find_uv(ROOT)
    if uv is None:
        raise CommandError(
            "uv is missing in .venv, which finds the packages.",
            "Delete .venv and start again, or install uv.",
        )
    make(ROOT, uv, options.out.expanduser().resolve(), targets)
    return 0


def make(root: Path, uv: Sequence[str], out: Path, targets: Sequence[Target]) -> None:
    """Fill a folder with the packages of some targets, saying each step.

    Args:
        root: the clone.
        uv: the command that starts uv.
        out: the folder: new, empty, or a wheelhouse, finished or not. What it has of these
            packages is kept, and a wheel that is needed no more is deleted.
        targets: for whom it is.

    Raises:
        CommandError: as main does.
    """
    _check_folder(out)
    started = time.monotonic()
    say("Looking up the packages.")
    needed = {}
    for target in targets:
        needed[target] = needed_by(uv, target, root=root)
        count = len(needed[target].wheels) + len(needed[target].sources)
        say(f"  {target}: {count} packages, {needed[target].size / 1e6:.0f} MB")
    wheels = {file.name: file for one in needed.values() for file in one.wheels}
    sources = {file.name: file for one in needed.values() for file in one.sources}
    _begin(out)
    folder = out / WHEELS
    absent = [file for file in wheels.values() if not (folder / file.name).is_file()]
    size = sum(file.size - _part(folder, file) for file in absent)
    say(f"Up to {size / 1e6:.0f} MB are fetched into {folder}.")
    _check_space(out, size)
    bar = DownloadBar(sum(file.size for file in wheels.values()))
    fetch_all(list(wheels.values()), folder, bar)
    built = _build_all(uv, list(sources.values()), folder)
    names = {
        target: sorted({f.name for f in one.wheels} | {built[f.name] for f in one.sources})
        for target, one in needed.items()
    }
    _finish(root, out, names)
    total = sum(file.stat().st_size for file in folder.iterdir())
    say(
        f"{out} is ready after {duration(time.monotonic() - started)}: {total / 1e6:.0f} MB, "
        f"{len(list(folder.iterdir()))} wheels.\n"
        f"Its {READ_ME} says to the class what to do. Beside a clone, as a folder named "
        "wheelhouse, it is found by itself."
    )


def _here() -> str:
    here = this_platform()
    if here not in PLATFORMS:
        raise CommandError(
            f"No wheelhouse can be made for {here}.",
            f"Say for which system it is: --platform {' | '.join(PLATFORMS)}",
            exit_code=2,
        )
    return here


def _check_folder(out: Path) -> None:
    """Raise a CommandError if the folder is not ours to fill."""
    if out.exists() and not out.is_dir():
        raise CommandError(f"{out} is a file, not a folder.", "Name another one.", exit_code=2)
    ours = (CONTENTS, NOT_FINISHED)
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in ours):
        raise CommandError(
            f"{out} has something in it that is not a wheelhouse.",
            "Name a new or an empty folder.",
            exit_code=2,
        )


def _begin(out: Path) -> None:
    try:
        (out / WHEELS).mkdir(parents=True, exist_ok=True)
        text = "This wheelhouse is not finished. The command that makes it goes on with it.\n"
        (out / NOT_FINISHED).write_text(text, encoding="utf-8")
        (out / CONTENTS).unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(
            f"{out} cannot be written to ({error.strerror}).", "Name another folder."
        ) from None


def _part(folder: Path, file: Remote) -> int:
    part = folder / f"{file.name}{UNFINISHED}"
    return part.stat().st_size if part.is_file() else 0


def _check_space(out: Path, size: int) -> None:
    free = shutil.disk_usage(out).free
    if free < size + SPARE_BYTES:
        raise CommandError(
            f"The disk has {free / 1e6:.0f} MB free; the wheelhouse needs "
            f"{(size + SPARE_BYTES) / 1e6:.0f} MB more.",
            "Free some space, or choose a folder on a larger disk.",
        )


def _build_all(uv: Sequence[str], sources: Sequence[Remote], folder: Path) -> dict[str, str]:
    """Build the wheels of packages that publish none; return their names by their sources'."""
    built = {}
    for source in sources:
        with tempfile.TemporaryDirectory(prefix="ehr-course-wheelhouse-") as scratch:
            say(f"{source.package} publishes no wheel: it is built here.")
            fetch_all([source], Path(scratch), DownloadBar(source.size))
            command = [*uv, "build", "--quiet", "--wheel", "--out-dir", f"{scratch}/built"]
            done = subprocess.run(
                [*command, f"{scratch}/{source.name}"],
                env=installer_environment(),
                capture_output=True,
                encoding="utf-8",
            )
            wheels = list(Path(scratch, "built").glob("*.whl"))
            if done.returncode != 0 or len(wheels) != 1:
                raise CommandError(
                    f"{source.name} cannot be built.\n{done.stderr.rstrip()}",
                    "Check the network: building needs setuptools from the package index.",
                )
            [wheel] = wheels
            if not wheel.name.endswith("-none-any.whl"):
                raise CommandError(
                    f"{wheel.name} is for this machine alone, and {source.package} publishes no "
                    "wheel for others.",
                    "Report this: the course must not need such a package.",
                )
            shutil.copyfile(wheel, folder / f"{wheel.name}{UNFINISHED}")
            (folder / f"{wheel.name}{UNFINISHED}").replace(folder / wheel.name)
            built[source.name] = wheel.name
    return built


def _finish(root: Path, out: Path, names: dict[Target, list[str]]) -> None:
    """Delete what is needed no more, and write what the folder says of itself."""
    folder = out / WHEELS
    wanted = {name for some in names.values() for name in some}
    for file in folder.iterdir():
        if file.name not in wanted:
            file.unlink()
    files = {
        name: Wheel((folder / name).stat().st_size, checksum(folder / name))
        for name in sorted(wanted)
    }
    _write(out / SUMS, "".join(f"{one.sha256}  {WHEELS}/{name}\n" for name, one in files.items()))
    _write(out / READ_ME, read_me(names, sum(one.size for one in files.values())))
    # From here on it is a wheelhouse.
    write_json(
        out / CONTENTS,
        {
            "made_from": wanted_packages(root),
            "targets": [{**asdict(target), "wheels": some} for target, some in names.items()],
            "files": {name: asdict(one) for name, one in files.items()},
        },
    )
    (out / NOT_FINISHED).unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)


def read_me(names: dict[Target, list[str]], size: int) -> str:
    """Return the page for the class.

    Args:
        names: the wheels of each target.
        size: the bytes of all wheels.
    """
    rows = "\n".join(f"- {target}" for target in names)
    pythons = sorted({target.python for target in names}, key=lambda version: int(version[2:]))
    return _READ_ME.format(
        rows=rows, megabytes=f"{size / 1e6:.0f}", pythons=" or ".join(pythons), newest=pythons[-1]
    )


_READ_ME = """\
# The course without a network

This folder holds every package that the course installs, {megabytes} MB. It is for:

{rows}

You need one of these Pythons, which the folder does not hold, the course's own folder, which your
teacher gives you, and 3 GB of disk.

1. Copy this folder onto your machine, beside the course's folder, and call it `wheelhouse`:

   ```
   class/
       course/          the course's folder: a clone, or what your teacher released
       wheelhouse/      this folder
   ```

2. Open a terminal, go into the course's folder, and start. It takes a few minutes, and nothing is
   fetched:

   ```
   cd class/course
   python3 -m course lab
   ```

   On Windows it is `py -{newest} -m course lab`. If several Pythons are on your machine, name one
   of those above, for example `python{newest}`.

From then on the same command opens the lessons in seconds, and this folder can be deleted.

## If it lies elsewhere

`python3 -m course lab --wheelhouse FOLDER`, or the variable `EHR_COURSE_WHEELHOUSE=FOLDER`. It can
stay on a stick or on a shared drive: it is only read.

## If something is missing or damaged

The command names the wheel. Copy it again. `sha256sum --check SHA256SUMS` in this folder (on a Mac
`shasum -a 256 --check SHA256SUMS`) compares all of them.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m course wheelhouse",
        description="Put every package of the course into one folder, from which `course lab` "
        "makes .venv without a network. It says first how many MB it fetches; started again, it "
        "goes on where it stopped, and renews what has changed.",
        epilog="The folder has no wheel of the course itself, which would hold the worked "
        "answers: give the class a clone, or what `python3 -m course release` makes.",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder; named wheelhouse, it is found"
    )
    parser.add_argument(
        "--python",
        nargs="+",
        type=_version,
        default=[this_python()],
        metavar="VERSION",
        help=f"the Pythons of the class, such as 3.11 3.12 (default: {this_python()})",
    )
    parser.add_argument(
        "--platform",
        nargs="+",
        choices=PLATFORMS,
        metavar="SYSTEM",
        help=f"the systems of the class: {', '.join(PLATFORMS)} (default: this machine's)",
    )
    return parser


def _version(text: str) -> str:
    major, _, minor = text.partition(".")
    if major != "3" or not minor.isdecimal() or int(minor) < OLDEST[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version from 3.11 on, such as 3.12")
    return text
