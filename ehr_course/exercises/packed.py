"""Inputs, words and worked answers in one file: how a folder for students carries them.

Checks need them on the student's machine. Where the file `exercises.pack` stands beside this
module, they are read from it, and no source, `help` or `inspect` shows them. That hides them from
browsing and from search, no more: who wants to read them can, with a few lines of Python. In a
clone there is no such file, and everything is read from the files that authors edit.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType

from ehr_course.errors import InputError

PACK = Path(__file__).with_name("exercises.pack")
MODULES = "ehr_course.exercises.lessons"

_HEAD = b"EHRPACK1"
_COVER = bytes((7 + 91 * place) % 256 for place in range(256))  # so that no tool sees zlib's data


def packed(files: Mapping[str, str]) -> bytes:
    """Pack texts by name into the bytes of a file, the same for the same texts.

    >>> unpacked(packed({"lesson_07.yml": "words"}))
    {'lesson_07.yml': 'words'}
    """
    text = json.dumps(dict(sorted(files.items())), ensure_ascii=False)
    return _HEAD + _covered(zlib.compress(text.encode("utf-8"), 9))


def unpacked(data: bytes) -> dict[str, str]:
    """Return the texts of a packed file.

    Raises:
        ValueError: if it is not a pack.
    """
    if not data.startswith(_HEAD):
        raise ValueError("it is not a pack of exercises")
    try:
        return json.loads(zlib.decompress(_covered(data[len(_HEAD) :])))
    except zlib.error:
        raise ValueError("it is damaged") from None


def _covered(data: bytes) -> bytes:
    cover = (_COVER * (len(data) // len(_COVER) + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(cover, "big")).to_bytes(len(data), "big")


@cache
def texts() -> dict[str, str] | None:
    """Return the packed texts by name, or None where nothing is packed.

    Raises:
        InputError: if the pack cannot be read.
    """
    if not PACK.is_file():
        return None
    try:
        return unpacked(PACK.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(PACK, "", str(error), "Get the folder again from your teacher.") from None


def packed_text(name: str) -> str | None:
    """Return one packed text, or None where there is none of this name."""
    return (texts() or {}).get(name)


class _PackedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packed modules of the lessons' exercises; nothing can ask it for their source."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how a packed module is loaded, and None for any other."""
        package, _, name = fullname.rpartition(".")
        if package != MODULES or packed_text(f"{name}.py") is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Run a packed module."""
        name = module.__name__.rpartition(".")[2]
        exec(_code(name), module.__dict__)


@cache
def _code(name: str) -> CodeType:
    # Without docstrings, which `help` would show.
    return compile(packed_text(f"{name}.py") or "", f"<{name}>", "exec", optimize=2)


def find_packed_modules() -> None:
    """Let Python find the packed modules, where there are any."""
    if texts() is not None and not any(isinstance(one, _PackedModules) for one in sys.meta_path):
        sys.meta_path.append(_PackedModules())
