"""Where a command writes: the terminal, and folders and files that are there whole or not at all.

Only the folder of a training fills up step by step; one process at a time holds it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import typer
from filelock import FileLock, Timeout

from ehr_course.cli.run_record import DEMOGRAPHICS, MODEL, RUN, RunRecord, read_run
from ehr_course.errors import InputError
from ehr_course.new_folder import new_file, new_folder
from ehr_course.printable import printable

CHECKPOINTS = "checkpoints"
LOCK = ".training.lock"
"""The lock file of the process that trains in a folder."""


def warn(text: str) -> None:
    """Print a line on stderr, even under --quiet."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(printable(f"Warning: {text}", keep="\n"), err=True)


@dataclass(frozen=True)
class Target:
    """Where a command writes, and how much it says.

    Attributes:
        out: the folder to write, or of ``summarize`` the file.
        overwrite: whether to replace what a command of ehr-course wrote.
        quiet: whether to print nothing and show no bar.
        expected: the fingerprints of a repeated run's inputs.
    """

    out: Path
    overwrite: bool = False
    quiet: bool = False
    expected: Mapping[str, str] | None = None

    def say(self, text: str) -> None:
        """Print a line for the user, in the first of several processes only."""
        if not self.quiet and os.environ.get("RANK", "0") == "0":
            typer.echo(printable(text, keep="\n"))

    def check_inputs(self, found: Mapping[str, str]) -> None:
        """Refuse, with an InputError, to repeat a run on data with other fingerprints."""
        expected = found if self.expected is None else self.expected
        for name in found:
            if expected.get(name) != found[name]:
                raise InputError(
                    RUN,
                    f"inputs, {name}",
                    f"its fingerprint was {expected.get(name)} in the run, and is {found[name]} "
                    "now",
                    "Put back the data of that run, or run the command itself on the new data.",
                )

    @contextmanager
    def folder(self, *inputs: str | Path | None) -> Iterator[Path]:
        """Give a folder to write into, and put it in its place when the block is done.

        When the block raises, nothing is changed.

        Args:
            inputs: what the block reads; the new folder must not replace it.

        Raises:
            InputError: if something is there that may not be replaced.
        """
        out = self.out
        if out.name in ("", ".."):
            raise InputError(out, "", "a folder cannot take its own place", "Name a folder in it.")
        _check_is_no_file(out)
        _check_not_an_input(out, inputs)
        if out.is_dir() and any(out.iterdir()):
            problem = "the folder is not empty"
            if not self.overwrite:
                remedy = "Name a new one, or give --overwrite to replace what a run wrote here."
                raise InputError(out, "", problem, remedy)
            try:
                read_run(out)
            except InputError:
                problem += ", and no run of ehr-course wrote it"
                remedy = "Name a new one: --overwrite replaces only what has a run.json."
                raise InputError(out, "", problem, remedy) from None
        with _naming_a_full_disk(out), new_folder(out, overwrite=self.overwrite) as unfinished:
            yield unfinished

    @contextmanager
    def file(self, *inputs: str | Path | None) -> Iterator[Path]:
        """Give a file to write, and put it in its place when the block is done; see folder."""
        out = self.out
        if out.is_dir():
            raise InputError(out, "", "this is a folder", "Name a file that ends in .csv.")
        _check_not_an_input(out, inputs)
        if out.exists() and not self.overwrite:
            problem = "this file exists already"
            raise InputError(out, "", problem, "Name another one, or give --overwrite.")
        with _naming_a_full_disk(out), new_file(out) as unfinished:
            try:
                # Fail before the work begins, not afterwards.
                out.parent.mkdir(parents=True, exist_ok=True)
                unfinished.touch()
            except OSError as error:
                problem = f"the file cannot be made ({error})"
                remedy = "Name another one, in a place where you may write."
                raise InputError(out, "", problem, remedy) from None
            yield unfinished


def _check_is_no_file(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(out, "", "this is a file", "Name a folder.")


def _check_not_an_input(out: Path, inputs: Iterable[str | Path | None]) -> None:
    place = out.resolve()
    for path in inputs:
        if path is None:
            continue
        source, problem = Path(path).resolve(), ""
        if place == source or place in source.parents:
            problem = f"{path}, which is read, would be replaced"
        # MEDS: every parquet file under data/, at any depth, belongs to the dataset.
        elif source / "data" in place.parents:
            problem = f"it would become a part of {path}, which is read"
        if problem:
            raise InputError(out, "", problem, "Name another place.")


@contextmanager
def _naming_a_full_disk(out: Path) -> Iterator[None]:
    """Name the place that could not be written: polars and pyarrow name no file."""
    try:
        yield
    except OSError as error:
        if "No space left" not in str(error):
            raise
        raise InputError(
            out, "", "no space is left on its disk", "Make room, or name another place."
        ) from None


# ------------------------------------------------------------------ the folder of a training


@contextmanager
def claimed(out: Path, record: RunRecord) -> Iterator[None]:
    """Hold a folder for a training: a new one, or one that holds this training.

    If the block raises before there is anything to go on from, what was made here is removed.

    Raises:
        InputError: if the folder holds anything else, another process trains there, it cannot be
            written, or the disk is full.
    """
    _check_is_no_file(out)
    if _holds_something(out):
        _training_in(out)
    was_there = out.exists()
    lock = FileLock(out / LOCK)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            out,
            "",
            "another training is running in this folder",
            "Wait until it has ended, or name another folder with --out.",
        ) from None
    except OSError as error:
        if not was_there:
            _remove(out)
        raise _cannot_be_written(out, error) from None
    is_new = not _holds_something(out)
    try:
        _begin(out, record, is_new=is_new)
        yield
    except BaseException as error:
        goes_on = (out / MODEL).exists() or any(out.glob(f"{CHECKPOINTS}/step-*"))
        if is_new and not goes_on:
            _remove(out / RUN, out / DEMOGRAPHICS, out / CHECKPOINTS)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            again = (
                "run the same command again" + ": it goes on from the last checkpoint" * goes_on
            )
            raise InputError(
                out, "", "no space is left on its disk", f"Make room, and {again}."
            ) from None
        raise
    finally:
        # While it is held: afterwards it may belong to another process.
        _remove(out / LOCK)
        lock.release()
        if not was_there:
            _remove(out)


def _begin(out: Path, record: RunRecord, *, is_new: bool) -> None:
    """Write the record of a new training, or check that it is the existing one."""
    try:
        if is_new:
            record.write(out / RUN)
            return
        # It imports PyTorch.
        from ehr_course.training.config import check_same_training

        then, now = (
            # Data and weights may move, so their fingerprints replace their paths.
            of.settings.model_dump(mode="json", exclude={"prepared"}) | of.inputs
            for of in (_training_in(out), record)
        )
        check_same_training(out, then, now)
        for name in (RUN, DEMOGRAPHICS):
            for half in out.glob(f".{name}.*"):
                half.unlink()
    except OSError as error:
        raise _cannot_be_written(out, error) from None


def _holds_something(out: Path) -> bool:
    return out.is_dir() and any(path.name != LOCK for path in out.iterdir())


def _remove(*paths: Path) -> None:
    """Remove files, and folders that are empty, where possible."""
    for path in paths:
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _cannot_be_written(out: Path, error: OSError) -> InputError:
    return InputError(out, "", f"it cannot be written ({error})", "Name another folder.")


def _training_in(out: Path) -> RunRecord:
    """The record of the training in a folder."""
    try:
        there = read_run(out)
    except InputError:
        problem = "the folder is not empty, and no training is in it"
        remedy = "Name a new folder, or one whose training is to go on."
        raise InputError(out, "", problem, remedy) from None
    if there.command != "train":
        problem = f"this is what 'ehr-course {there.command}' wrote"
        raise InputError(out, RUN, problem, "Name a new folder.")
    return there
