"""The folder of a training: it belongs to one training, and to one process at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ehr_course.cli.result_folders import CHECKPOINTS, DEMOGRAPHICS, MODEL
from ehr_course.cli.run_record import RUN, RunRecord, read_run
from ehr_course.errors import InputError
from ehr_course.training.checkpoints import checkpoints
from ehr_course.training.config import check_same_training

LOCK = ".training.lock"
"""The file in the folder that the process which trains there holds locked."""


@contextmanager
def claimed(out: Path, record: RunRecord) -> Iterator[None]:
    """Hold a folder for a training: a new one, or one that holds this training.

    Where the block raises before there is anything to go on from, a folder that was made here is
    removed, and one that was empty is empty again.

    Args:
        out: the folder.
        record: of the training, to be written there and compared.

    Raises:
        InputError: if the folder holds anything else, another process trains there, it cannot be
            written, or the disk is full.
    """
    if out.exists() and not out.is_dir():
        raise InputError(out, "", "this is a file", "Name a folder.")
    if _holds_something(out):
        _training_in(out)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        with _locked(out):
            is_new = not _holds_something(out)
            try:
                _begin(out, record, is_new=is_new)
                yield
            except BaseException:
                if is_new and not checkpoints(out / CHECKPOINTS) and not (out / MODEL).exists():
                    _empty(out)
                raise
    except BaseException as error:
        for folder in made:
            with suppress(OSError):  # it has something in it that is to stay
                folder.rmdir()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise InputError(
                out,
                "",
                "no space is left on its disk",
                "Make room, and run the same command again"
                + (": it goes on from the last checkpoint." if out.exists() else "."),
            ) from None
        raise


@contextmanager
def _locked(out: Path) -> Iterator[None]:
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
        raise _cannot_be_written(out, error) from None
    try:
        yield
    finally:
        # While it is held: afterwards it could be another process's.
        with suppress(OSError):
            (out / LOCK).unlink()
        lock.release()


def _begin(out: Path, record: RunRecord, *, is_new: bool) -> None:
    try:
        if is_new:
            record.write(out / RUN)
            return
        _check_same_run(out, record)
        for name in (RUN, DEMOGRAPHICS):
            for half in out.glob(f".{name}.*"):
                half.unlink()
    except OSError as error:
        raise _cannot_be_written(out, error) from None


def _holds_something(out: Path) -> bool:
    return out.is_dir() and any(path.name != LOCK for path in out.iterdir())


def _empty(out: Path) -> None:
    """Remove what a training has written before its first checkpoint."""
    with suppress(OSError):
        (out / RUN).unlink(missing_ok=True)
        (out / DEMOGRAPHICS).unlink(missing_ok=True)
        (out / CHECKPOINTS).rmdir()


def _cannot_be_written(out: Path, error: OSError) -> InputError:
    return InputError(out, "", f"it cannot be written ({error})", "Name another folder.")


def _training_in(out: Path) -> RunRecord:
    """The record of the training in a folder."""
    try:
        there = read_run(out)
    except InputError:
        raise InputError(
            out,
            "",
            "the folder is not empty, and no training is in it",
            "Name a new folder, or one whose training is to go on.",
        ) from None
    if there.command != "train":
        raise InputError(
            out, RUN, f"this is what 'ehr-course {there.command}' wrote", "Name a new folder."
        )
    return there


def _check_same_run(out: Path, record: RunRecord) -> None:
    then, now = (
        of.inputs | of.settings.model_dump(mode="json", exclude={"prepared"})
        for of in (_training_in(out), record)
    )
    check_same_training(out, then, now)
