"""Write a folder or a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ehr_course.errors import InputError


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a scratch folder, which takes the name `folder` when the block has filled it.

    After an error, what was there before is unchanged. Only a killed process leaves its
    scratch folder behind, whose name begins with a dot.

    Args:
        folder: one that does not exist yet, or is empty.
        overwrite: whether to replace a folder that is not empty.

    Raises:
        InputError: if it is a file, cannot be made, or is not empty and not to be replaced.
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
        unfinished = Path(scratch.name) / folder.name
        old = Path(scratch.name) / f"{folder.name}.old"
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
    """Raise the InputError of `new_folder` before the work begins, if it would raise one."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(folder, "", "this is a file, not a folder", "Name another folder.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise InputError(
            folder, "", "there is something here already", "Name a new or an empty folder."
        )


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a scratch path, which takes the name `path` when the block has written it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        with suppress(OSError):  # it or its folder may not exist
            unfinished.unlink()
