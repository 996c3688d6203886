"""The folder that ``train`` writes, as the other commands read it.

It holds the model, a prefix where one was trained, and how many patients there were of each age
and sex.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from ehr_course.cli.run_record import RunRecord, fingerprint_of_files, open_result
from ehr_course.errors import InputError
from ehr_course.generation.patients import Wanted
from ehr_course.models.pointer_generator import PointerGenerator
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import LoadedModel, load_model
from ehr_course.records import MAX_AGE, PatientRecord

MODEL, PREFIX, CHECKPOINTS = "model", "prefix", "checkpoints"
"""What is in the folder of a run; a prefix is there where one was trained, for the model."""

_MADE_FOR = {PromptBart: ("patients", "generate"), PointerGenerator: ("summaries", "summarize")}


def open_run(folder: str | Path, *, wanted: type) -> tuple[LoadedModel, RunRecord]:
    """Load the model of a run, on the GPU if there is one.

    Args:
        folder: what ``train`` wrote.
        wanted: PromptBart or PointerGenerator. A PromptBart that was adapted comes as a
            PrefixTuned.

    Raises:
        InputError: if there is no such run, its training is not finished, or its model is of the
            other kind.
    """
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
    if not isinstance(loaded.model, wanted):
        what, command = _MADE_FOR[type(loaded.model)]
        raise InputError(
            folder, MODEL, f"this model writes {what}", f"Use it with: ehr-course {command}"
        )
    if torch.cuda.is_available():
        # Of several processes on a machine each has a GPU of its own, as far as they go.
        local = int(os.environ.get("LOCAL_RANK", "0"))
        loaded.model.to(f"cuda:{local % torch.cuda.device_count()}")
    if (folder / PREFIX).is_dir():
        tuned = PrefixTuned.load(folder / PREFIX, loaded.model).eval()
        loaded = replace(loaded, model=tuned)
    return loaded, run


def fingerprint_of_model(folder: Path) -> str:
    """A short text that differs when a weight of a run's model or prefix does."""
    weights = [folder / MODEL / "model.safetensors", folder / PREFIX / "prefix.safetensors"]
    return fingerprint_of_files(*(path for path in weights if path.is_file()))


# ------------------------------------------------------------------ ages and sexes


DEMOGRAPHICS = "demographics.csv"
"""The name of the file in a run's folder."""

_COLUMNS = ["age", "sex", "count"]


def write_demographics(records: Iterable[PatientRecord], path: Path) -> None:
    """Write how many patients there are of each age and sex; the whole file, or none of it."""
    counts = Counter((record.age, record.sex) for record in records)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows((age, sex, count) for (age, sex), count in sorted(counts.items()))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_demographics(path: Path) -> list[Wanted]:
    """One patient to write for each that was counted; to be drawn from.

    Raises:
        InputError: if the file is missing or something in it is no age, sex or count.
    """
    if not path.is_file():
        raise InputError(
            path, "", "there is no such file", "Train again, or put back the file of this run."
        )
    wanted: list[Wanted] = []
    # What is no UTF-8 is no number either: the line is named below.
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != _COLUMNS:
            raise InputError(
                path, "line 1", f"the columns are {rows.fieldnames}", "Write age,sex,count."
            )
        for row in rows:
            place, age, count = f"line {rows.line_num}", _number(row["age"]), _number(row["count"])
            if age is None or age > MAX_AGE or row["sex"] not in ("F", "M") or count is None:
                raise InputError(
                    path,
                    place,
                    "this is no age, sex and count",
                    f"Write completed years from 0 to {MAX_AGE}, F or M, and a whole number.",
                )
            wanted += [Wanted(age, row["sex"])] * count
    if not wanted:
        raise InputError(path, "", "nobody is counted in it", "Write at least one line.")
    return wanted


def _number(text: str | None) -> int | None:
    """A whole number of at most eight digits: more than anybody trains on."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= 8
    return int(text) if is_number else None
