"""The folder of a training: one process at a time fills it, and the other commands read it."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import torch
from filelock import FileLock, Timeout
from torch import nn

from ehr_course.cli.output import naming_a_full_disk
from ehr_course.cli.run_record import (
    DEMOGRAPHICS,
    MODEL,
    RUN,
    RunRecord,
    fingerprint_of_files,
    open_result,
)
from ehr_course.errors import InputError
from ehr_course.generation.patients import PatientProfile
from ehr_course.models.pointer_generator import PointerGenerator
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import LoadedModel, load_model
from ehr_course.new_folder import new_file
from ehr_course.records import MAX_AGE, PatientRecord, Sex
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.training.config import check_same_training

CHECKPOINTS = "checkpoints"
PREFIX = "prefix"
"""The prefix in the folder of a run, if one was trained."""
LOCK = ".training.lock"
"""The lock file of the process that trains in a folder."""


# ------------------------------------------------------------------ filling it


@contextmanager
def claimed(out: Path, record: RunRecord) -> Iterator[None]:
    """Hold a folder for a training: a new one, or one that holds this training.

    If the block raises before there is anything to go on from, what was made here is removed.
    """
    if _holds_something(out):
        _training_in(out)
    was_there = out.exists()
    lock = FileLock(out / LOCK)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        problem = "another training is running in this folder"
        remedy = "Wait until it has ended, or name another folder with --out."
        raise InputError(out, "", problem, remedy) from None
    except OSError as error:
        if not was_there:
            _remove(out)
        problem = f"it cannot be written ({error})"
        raise InputError(out, "", problem, "Name another folder.") from None
    is_new = not _holds_something(out)
    try:
        with naming_a_full_disk(out):
            _begin(out, record, is_new=is_new)
            yield
    except BaseException:
        goes_on = (out / MODEL).exists() or any(out.glob(f"{CHECKPOINTS}/step-*"))
        if is_new and not goes_on:
            _remove(out / RUN, out / DEMOGRAPHICS, out / CHECKPOINTS)
        raise
    finally:
        # While it is held: afterwards it may belong to another process.
        _remove(out / LOCK)
        lock.release()
        if not was_there:
            _remove(out)


def _begin(out: Path, record: RunRecord, *, is_new: bool) -> None:
    """Write the record of a new training, or check that it is the existing one."""
    if is_new:
        record.write(out / RUN)
        return
    then, now = (
        # Data and weights may move, so their fingerprints replace their paths.
        of.settings.model_dump(mode="json", exclude={"prepared"}) | of.inputs
        for of in (_training_in(out), record)
    )
    check_same_training(out, then, now)
    for name in (RUN, DEMOGRAPHICS):  # of a process that was killed
        _remove(*out.glob(f".{name}.*"))


def _holds_something(out: Path) -> bool:
    return out.is_dir() and any(path.name != LOCK for path in out.iterdir())


def _remove(*paths: Path) -> None:
    """Remove files, and folders that are empty, where possible."""
    for path in paths:
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _training_in(out: Path) -> RunRecord:
    """The record of the training in a folder."""
    nothing = "the folder is not empty, and no training is in it"
    remedy = "Name a new folder, or one whose training is to go on."
    return open_result(out, "train", nothing=nothing, remedy=remedy)[1]


# ------------------------------------------------------------------ reading it


def open_patient_run(
    folder: str | Path,
) -> tuple[PromptBart | PrefixTuned, CodeTokenizer, RunRecord]:
    """Load a model that writes patients, on the GPU if there is one.

    It comes with its tokenizer and the record of its training.
    """
    loaded, record = _open(folder, writes="patients")
    model, tokenizer = loaded.of_patients()
    prefix = Path(folder) / PREFIX
    if prefix.is_dir():
        return PrefixTuned.load(prefix, model).eval(), tokenizer, record
    return model, tokenizer, record


def open_summary_run(
    folder: str | Path,
) -> tuple[PointerGenerator, WordTokenizer | NoteTokenizer]:
    """Load a model that writes summaries, on the GPU if there is one, and its tokenizer."""
    loaded, _ = _open(folder, writes="summaries")
    return loaded.of_notes()


def _open(
    folder: str | Path, *, writes: Literal["patients", "summaries"]
) -> tuple[LoadedModel, RunRecord]:
    """The model of a finished run, and the record of its training."""
    remedy = "Make it with: ehr-course train PREPARED --out RUN"
    folder, run = open_result(folder, "train", nothing="no training is in it", remedy=remedy)
    if not (folder / MODEL).is_dir():
        raise InputError(
            folder,
            MODEL,
            "there is no model: the training is not finished",
            "Run the same 'ehr-course train' again: it goes on from the last checkpoint.",
        )
    loaded = load_model(folder / MODEL)
    model: nn.Module = loaded.model
    written = "patients" if isinstance(model, PromptBart) else "summaries"
    if written != writes:
        command = "generate" if written == "patients" else "summarize"
        remedy = f"Use it with: ehr-course {command}"
        raise InputError(folder, MODEL, f"this model writes {written}", remedy)
    if torch.cuda.is_available():
        # Each process on a machine gets a GPU of its own, as far as they go.
        local = int(os.environ.get("LOCAL_RANK", "0"))
        model.to(f"cuda:{local % torch.cuda.device_count()}")
    return loaded, run


def fingerprint_of_model(folder: Path) -> str:
    """Hash the weights of a run's model and prefix."""
    weights = [folder / MODEL / "model.safetensors", folder / PREFIX / "prefix.safetensors"]
    return fingerprint_of_files(*(path for path in weights if path.is_file()))


# ------------------------------------------------------------------ ages and sexes

_COLUMNS = ["age", "sex", "count"]
_MOST = 100_000_000


def write_demographics(records: Iterable[PatientRecord], path: Path) -> None:
    """Write how many patients there are of each age and sex, the whole file or none of it."""
    counts = Counter((record.age, record.sex) for record in records)
    with new_file(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows((age, sex, count) for (age, sex), count in sorted(counts.items()))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def read_demographics(path: Path) -> list[PatientProfile]:
    """Return one profile for each patient that was counted, to draw from."""
    if not path.is_file():
        raise InputError(
            path, "", "there is no such file", "Train again, or put back the file of this run."
        )
    sexes: dict[str, Sex] = {"F": "F", "M": "M"}
    profiles: list[PatientProfile] = []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.reader(file)
        if next(rows, None) != _COLUMNS:
            raise InputError(path, "line 1", "these are not its columns", "Write age,sex,count.")
        for row in filter(None, rows):
            try:
                age, sex, count = _whole(row[0]), sexes[row[1]], _whole(row[2])
                is_possible = len(row) == 3 and age <= MAX_AGE and count < _MOST
            except (ValueError, KeyError, IndexError):
                is_possible = False
            if not is_possible:
                raise InputError(
                    path,
                    f"line {rows.line_num}",
                    "not an age, sex and count",
                    f"Write completed years from 0 to {MAX_AGE}, F or M, and a whole number.",
                )
            profiles += [PatientProfile(age, sex)] * count
    if not profiles:
        raise InputError(path, "", "nobody is counted in it", "Write at least one line.")
    return profiles
