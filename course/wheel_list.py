"""Which wheels a Python on some system needs, as uv finds them: names, addresses, checksums."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from course.command_error import CommandError
from course.download_plan import CPU_BACKEND, CUDA_PACKAGE, SECONDS_TO_ANSWER, TORCH_BYTES
from course.environment import ASKED
from course.fetching import Remote
from course.installers import installer_environment
from course.wheelhouse import PLATFORMS, Target

UV_PLATFORMS = {
    "linux": "x86_64-unknown-linux-gnu",
    "linux-arm": "aarch64-unknown-linux-gnu",
    "macos": "aarch64-apple-darwin",
    "windows": "x86_64-pc-windows-msvc",
}
assert UV_PLATFORMS.keys() == PLATFORMS.keys()

MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
"""The oldest macOS that PyTorch has wheels for; uv would ask for an older one."""

LAST_PATCH = 99
"""Pins may differ between the patches of one Python, so its first and its last are asked for."""


@dataclass(frozen=True)
class Needed:
    """What one target needs: wheels, and sources of packages that publish no wheel."""

    wheels: tuple[Remote, ...]
    sources: tuple[Remote, ...]

    @property
    def size(self) -> int:
        """The bytes to fetch, where nothing is there yet."""
        return sum(file.size for file in (*self.wheels, *self.sources))


def needed_by(uv: Sequence[str], target: Target, *, root: Path) -> Needed:
    """Ask uv what a target's packages are, in the versions of constraints.txt.

    On Linux it is PyTorch's build without CUDA libraries, unless the variable UV_TORCH_BACKEND
    names another.

    Args:
        uv: the command that starts uv.
        target: the Python and the system.
        root: the clone.

    Raises:
        CommandError: if uv finds no such packages, or no network.
    """
    chosen = os.environ.get("UV_TORCH_BACKEND")
    backend = ("--torch-backend", chosen) if chosen else ()
    entries = _both_patches(uv, target, backend, root)
    if not chosen and any(CUDA_PACKAGE.match(entry["name"]) for entry in entries):
        entries = _both_patches(uv, target, CPU_BACKEND, root)
    wheels, sources = {}, {}
    for entry in entries:
        files = entry.get("wheels", [])
        if files:
            file = _remote(entry, files[0], root)  # all of them fit; the first is for this Python
            wheels[file.name] = file
        elif "sdist" in entry:
            file = _remote(entry, entry["sdist"], root)
            sources[file.name] = file
    return Needed(tuple(wheels.values()), tuple(sources.values()))


def _both_patches(
    uv: Sequence[str], target: Target, backend: tuple[str, ...], root: Path
) -> list[dict]:
    return [
        entry
        for patch in (0, LAST_PATCH)
        for entry in _lock(uv, f"{target.python}.{patch}", target, backend, root)
    ]


def _lock(
    uv: Sequence[str], python: str, target: Target, backend: tuple[str, ...], root: Path
) -> list[dict]:
    command = [*uv, "pip", "compile", "--quiet", "--format", "pylock.toml"]
    where = ["--python-version", python, "--python-platform", UV_PLATFORMS[target.platform]]
    try:
        answer = subprocess.run(
            [*command, *where, *backend, *ASKED],
            cwd=root,
            env=MACOS | installer_environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS_TO_ANSWER,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_found(target, str(error)) from None
    if answer.returncode != 0:
        raise _not_found(target, answer.stderr)
    entries = tomllib.loads(answer.stdout)["packages"]
    return [entry for entry in entries if "version" in entry]


def _remote(entry: dict, file: dict, root: Path) -> Remote:
    url = file.get("url") or (root / file["path"]).resolve().as_uri()
    name = file.get("name") or unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    size = file.get("size") or _size_of_local(url)
    if not size and entry["name"] == "torch":
        size = TORCH_BYTES
    return Remote(name, url, size, file.get("hashes", {}).get("sha256", ""), entry["name"])


def _size_of_local(url: str) -> int:
    parts = urlsplit(url)
    if parts.scheme != "file":
        return 0
    file = Path(url2pathname(parts.path))
    return file.stat().st_size if file.is_file() else 0


def _not_found(target: Target, said: str) -> CommandError:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said).strip().splitlines()
    told = "\n".join(f"  | {line}" for line in lines[:12])
    return CommandError(
        f"uv does not find the packages of {target}.\n{told}",
        "If it cannot reach the package index, check the network. If a package has no wheel for "
        "this Python on this system, leave that one out of --python or --platform.",
    )
