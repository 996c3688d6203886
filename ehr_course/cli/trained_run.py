"""The folder that ``train`` writes, as the other commands read it."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from ehr_course.cli.run_record import (
    MODEL,
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

PREFIX = "prefix"
"""The prefix in the folder of a run, if one was trained."""


PatientRun = tuple[PromptBart | PrefixTuned, CodeTokenizer, RunRecord]
"""A model that writes patients, its tokenizer, and the record of its training."""

SummaryRun = tuple[PointerGenerator, WordTokenizer | NoteTokenizer, RunRecord]
"""A model that writes summaries, its tokenizer, and the record of its training."""


def open_patient_run(folder: str | Path) -> PatientRun:
    """Load a model that writes patients, on the GPU if there is one.

    Raises:
        InputError: if there is no such run, it is not finished, or its model writes summaries.
    """
    folder, loaded, record = _open(folder)
    if isinstance(loaded.model, PointerGenerator):
        raise _other_kind(folder, "summaries", "summarize")
    model, tokenizer = loaded.of_patients()
    if (folder / PREFIX).is_dir():
        return PrefixTuned.load(folder / PREFIX, model).eval(), tokenizer, record
    return model, tokenizer, record


def open_summary_run(folder: str | Path) -> SummaryRun:
    """Load a model that writes summaries, on the GPU if there is one.

    Raises:
        InputError: if there is no such run, it is not finished, or its model writes patients.
    """
    folder, loaded, record = _open(folder)
    if isinstance(loaded.model, PromptBart):
        raise _other_kind(folder, "patients", "generate")
    return (*loaded.of_notes(), record)


def _open(folder: str | Path) -> tuple[Path, LoadedModel, RunRecord]:
    """The folder of a finished run, its model, and its record."""
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
    if torch.cuda.is_available():
        # Each process on a machine gets a GPU of its own, as far as they go.
        local = int(os.environ.get("LOCAL_RANK", "0"))
        model.to(f"cuda:{local % torch.cuda.device_count()}")
    return folder, loaded, run


def _other_kind(folder: Path, what: str, command: str) -> InputError:
    return InputError(
        folder, MODEL, f"this model writes {what}", f"Use it with: ehr-course {command}"
    )


def fingerprint_of_model(folder: Path) -> str:
    """Hash the weights of a run's model and prefix."""
    weights = [folder / MODEL / "model.safetensors", folder / PREFIX / "prefix.safetensors"]
    return fingerprint_of_files(*(path for path in weights if path.is_file()))


# ------------------------------------------------------------------ ages and sexes

_COLUMNS = ["age", "sex", "count"]


def write_demographics(records: Iterable[PatientRecord], path: Path) -> None:
    """Write how many patients there are of each age and sex, the whole file or none of it."""
    counts = Counter((record.age, record.sex) for record in records)
    with new_file(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows((age, sex, count) for (age, sex), count in sorted(counts.items()))


def read_demographics(path: Path) -> list[PatientProfile]:
    """Return one profile for each patient that was counted, to draw from.

    Raises:
        InputError: if the file is missing, or holds anything but ages, sexes and counts.
    """
    if not path.is_file():
        raise InputError(
            path, "", "there is no such file", "Train again, or put back the file of this run."
        )
    sexes: dict[str, Sex] = {"F": "F", "M": "M"}
    profiles: list[PatientProfile] = []
    # What is not UTF-8 is not a number, and is refused with its line below.
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != _COLUMNS:
            raise InputError(
                path, "line 1", f"the columns are {rows.fieldnames}", "Write age,sex,count."
            )
        for row in rows:
            age, sex, count = _number(row["age"]), sexes.get(row["sex"]), _number(row["count"])
            if age is None or age > MAX_AGE or sex is None or count is None:
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


def _number(text: str | None) -> int | None:
    """A whole number of at most eight digits: more than anybody trains on."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 8):
        return None
    return int(text)
