"""A folder that is there whole or not at all."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ehr_course.errors import InputError

_LOCK, _OLD = "lock", "old"
"""Beside the unfinished folder: a lock while it is filled, and what it takes the place of."""

_LOCK_SECONDS = 10.0
_SCRATCH = re.compile(r"\.(.+)-[a-z0-9_]{8}")


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Fill a folder under another name, and give it its own name when all of it is written.

    Where something goes wrong on the way, nothing is left, and what was there before stays. Only
    a process that is killed leaves its unfinished folder, which ``left_behind`` finds.

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
    with _parents_of(folder):
        try:
            scratch = tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-")
        except OSError as error:
            raise _cannot_be_made(folder, error) from None
        with scratch, FileLock(Path(scratch.name) / _LOCK, timeout=_LOCK_SECONDS):
            unfinished = Path(scratch.name) / folder.name
            unfinished.mkdir()
            yield unfinished
            old = Path(scratch.name) / _OLD
            if folder.exists():
                folder.rename(old)
            try:
                unfinished.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise


@contextmanager
def _parents_of(folder: Path) -> Iterator[None]:
    """Make the folders above one, and remove those that were made if the block raises."""
    made = [parent for parent in folder.parents if not parent.exists()]
    try:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_be_made(folder, error) from None
        yield
    except BaseException:
        for parent in made:
            # One in which somebody else has put something stays.
            with suppress(OSError):
                parent.rmdir()
        raise


def _cannot_be_made(folder: Path, error: OSError) -> InputError:
    return InputError(
        folder,
        "",
        f"the folder cannot be made ({error})",
        "Name another one, in a place where you may write.",
    )


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


# ------------------------------------------------------------------ what a killed run leaves


@dataclass(frozen=True)
class LeftBehind:
    """A hidden folder of a run that was killed before it could remove it.

    Attributes:
        path: the hidden folder.
        folder: the one that was to be made.
        old: where in the hidden folder the earlier content of ``folder`` is, if the run was killed
            while it took its place; None otherwise.
    """

    path: Path
    folder: Path
    old: Path | None


def left_behind(place: Path) -> list[LeftBehind]:
    """Find what killed runs of new_folder have left in a folder, by name.

    One that is still being filled is not among them: the process that fills it holds its lock.

    Args:
        place: the folder to look in; one that is not there has nothing.
    """
    found = []
    for path in sorted(place.glob(".*-*")) if place.is_dir() else ():
        match = _SCRATCH.fullmatch(path.name)
        if match is None or not _is_abandoned(path, match[1]):
            continue
        folder, old = place / match[1], path / _OLD
        lost = old.is_dir() and not folder.exists()
        found.append(LeftBehind(path, folder, old if lost else None))
    return found


def _is_abandoned(path: Path, name: str) -> bool:
    try:
        is_ours = (path / _LOCK).is_file() and ((path / name).is_dir() or (path / _OLD).is_dir())
        if not is_ours:
            return False
        with FileLock(path / _LOCK, timeout=0):
            return True
    except (Timeout, OSError):  # somebody fills it, or it belongs to somebody else
        return False
