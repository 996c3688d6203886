"""A folder or a file that is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ehr_course.errors import InputError


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Fill a folder under another name, and give it its own name when all of it is written.

    Where something goes wrong on the way, what was there before stays as it was. Only a process
    that is killed leaves its unfinished folder, whose name begins with a dot.

    Args:
        folder: one that is not there yet, or empty.
        overwrite: whether a folder with something in it is replaced as a whole.

    Yields:
        the folder to write into.

    Raises:
        InputError: if the name is a file's, the folder cannot be made, or there is something in
            it and it is not to be replaced.

    >>> with tempfile.TemporaryDirectory() as place:
    ...     with new_folder(Path(place) / "report") as unfinished:
    ...         _ = (unfinished / "a.txt").write_text("all", encoding="utf-8")
    ...     [path.name for path in (Path(place) / "report").iterdir()]
    ['a.txt']
    """
    folder = Path(folder)
    check_new_folder(folder, overwrite=overwrite)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-")
    except OSError as error:
        raise InputError(
            folder,
            "",
            f"the folder cannot be made ({error})",
            "Name another one, in a place where you may write.",
        ) from None
    with scratch:
        unfinished, old = Path(scratch.name) / folder.name, Path(scratch.name) / "old"
        unfinished.mkdir()
        yield unfinished
        if folder.exists():
            folder.rename(old)
        try:
            unfinished.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise


def check_new_folder(folder: str | Path, *, overwrite: bool = False) -> None:
    """Say before the work begins whether a folder may be written.

    Raises:
        InputError: as new_folder does.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(folder, "", "this is a file, not a folder", "Name another folder.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise InputError(
            folder, "", "there is something here already", "Name a new or an empty folder."
        )


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Write a file under another name, and let it take its place when all of it is written."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        with suppress(OSError):  # it is not there, or its folder is not
            unfinished.unlink()
