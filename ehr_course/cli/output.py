"""Where a command writes: a folder or file that is there whole or not at all, and the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ehr_course.cli.run_record import was_written_here
from ehr_course.errors import InputError
from ehr_course.new_folder import new_folder
from ehr_course.printable import printable


def say(text: str, *, quiet: bool = False) -> None:
    """Print a line for the user, in the first of several processes alone."""
    if not quiet and os.environ.get("RANK", "0") == "0":
        typer.echo(printable(text, keep="\n"))


def warn(text: str) -> None:
    """Print a line that is shown even under --quiet, on stderr."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(printable(f"Warning: {text}", keep="\n"), err=True)


@contextmanager
def result_folder(out: Path, *, overwrite: bool, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Give a folder to write into, and put it in its place when the block is done.

    When the block raises, nothing is changed.

    Args:
        out: where the folder is to be.
        overwrite: whether it may take the place of one that a command of ehr-course wrote.
        inputs: what the block reads; the new folder must not take its place.

    Raises:
        InputError: if there is something at its place that may not be replaced.
    """
    check_place(out, overwrite=overwrite, inputs=inputs)
    with _naming(out), new_folder(out, overwrite=overwrite) as unfinished:
        yield unfinished


@contextmanager
def result_file(out: Path, *, overwrite: bool, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Give a file to write, and put it in its place when the block is done; see result_folder."""
    if out.is_dir():
        raise InputError(out, "", "this is a folder", "Name a file that ends in .csv.")
    _check_not_an_input(out, inputs)
    if out.exists() and not overwrite:
        raise InputError(
            out, "", "there is such a file already", "Name another one, or give --overwrite."
        )
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        # Before the work begins, and not when it is done.
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished.touch()
    except OSError as error:
        raise InputError(
            out,
            "",
            f"the file cannot be made ({error})",
            "Name another one, in a place where you may write.",
        ) from None
    try:
        with _naming(out):
            yield unfinished
            unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _naming(out: Path) -> Iterator[None]:
    """Say what could not be written when a disk is full: polars and pyarrow name no file."""
    try:
        yield
    except OSError as error:
        if "No space left" not in str(error):
            raise
        raise InputError(
            out, "", "no space is left on its disk", "Make room, or name another place."
        ) from None


def check_place(out: Path, *, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise an InputError unless a folder may be written here; see result_folder."""
    if out.name in ("", ".."):
        raise InputError(out, "", "a folder cannot take its own place", "Name a folder in it.")
    if out.exists() and not out.is_dir():
        raise InputError(out, "", "this is a file", "Name a folder.")
    _check_not_an_input(out, inputs)
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not overwrite:
        raise InputError(
            out,
            "",
            "the folder is not empty",
            "Name a new one, or give --overwrite to replace what a run wrote here.",
        )
    if not was_written_here(out):
        raise InputError(
            out,
            "",
            "the folder is not empty, and no run of ehr-course wrote it",
            "Name a new one: --overwrite replaces only what has a run.json.",
        )


def _check_not_an_input(out: Path, inputs: Iterable[Path]) -> None:
    place = out.resolve()
    for path in inputs:
        source = path.resolve()
        if place == source or place in source.parents:
            raise InputError(
                out, "", f"{path}, which is read, would be replaced", "Name another place."
            )
        # MEDS: every parquet file under data/, at any depth, is a part of the dataset.
        if source / "data" in place.parents:
            raise InputError(
                out, "", f"it would become a part of {path}, which is read", "Name another place."
            )
