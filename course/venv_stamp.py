"""What `.venv` was made from, and whether it still fits.

A stamp inside `.venv` names its sources, its Python and the folder it was made in. It is written
last: an environment without a stamp was never finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from course.pythons import version_of


@dataclass(frozen=True)
class Work:
    """What there is to do before `.venv` can be used.

    Attributes:
        reason: why, as the end of a sentence about `.venv`.
        from_scratch: True to delete what is there and begin again, False to install into it.
    """

    reason: str
    from_scratch: bool


def venv_folder(root: Path) -> Path:
    """Return the folder of the clone's environment."""
    return root / ".venv"


def venv_python(root: Path) -> Path:
    """Return the Python of the clone's environment."""
    return venv_folder(root) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def runs_inside(root: Path) -> bool:
    """Return whether this very process runs on the clone's environment."""
    return Path(sys.prefix).resolve() == venv_folder(root).resolve()


def work_needed(root: Path, *, cuda: bool = False) -> Work | None:
    """Return what must be done before `.venv` can be used, or None when it is ready.

    Args:
        root: the clone.
        cuda: True if it has to have been made with CUDA libraries.
    """
    if not venv_folder(root).exists():
        return Work("there is none yet", from_scratch=True)
    stamp = _read_stamp(root)
    if stamp is None:
        return Work("it was not made by this command, or not finished", from_scratch=True)
    if stamp["clone"] != str(root):
        return Work("the clone was moved or copied here", from_scratch=True)
    if version_of(venv_python(root)) != stamp["python"]:
        return Work(f"its Python {stamp['python']} is no longer there", from_scratch=True)
    if cuda and not has_cuda(root):
        return Work("it was made without --cuda", from_scratch=True)
    if stamp["made_from"] != _fingerprint(root, stamp["python"]):
        return Work("pyproject.toml or constraints.txt has changed", from_scratch=False)
    return None


def write_stamp(root: Path, *, cuda: bool) -> None:
    """Declare `.venv` finished, made with CUDA libraries or without."""
    version = version_of(venv_python(root))
    fingerprint = _fingerprint(root, version)
    write_json(
        stamp_file(root),
        {"made_from": fingerprint, "python": version, "clone": str(root), "cuda": str(cuda)},
    )


def has_cuda(root: Path) -> bool:
    """Return whether `.venv` was made with `--cuda`; True holds for updates of it too."""
    stamp = _read_stamp(root)
    return stamp is not None and stamp["cuda"] == "True"


def write_json(file: Path, content: dict) -> None:
    """Write a JSON file whole or not at all, making its folder where needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    temporary.replace(file)


def stamp_file(root: Path) -> Path:
    """Return where the stamp is."""
    return venv_folder(root) / "course-stamp.json"


def _read_stamp(root: Path) -> dict[str, str] | None:
    try:
        stamp = json.loads(stamp_file(root).read_text(encoding="utf-8"))
        needed = {key: stamp[key] for key in ("made_from", "python", "clone")}
        return {**needed, "cuda": stamp.get("cuda", "False")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _fingerprint(root: Path, python: str) -> str:
    digest = hashlib.sha256(python.encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()
