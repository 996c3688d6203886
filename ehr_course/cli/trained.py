"""What ``train`` wrote, for the commands that use it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ehr_course.cli.run_record import RunRecord, fingerprint_of_files, open_result
from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import PointerGenerator
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import LoadedModel, load_model

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
        loaded.model.to("cuda")
    if (folder / PREFIX).is_dir():
        tuned = PrefixTuned.load(folder / PREFIX, loaded.model).eval()
        loaded = replace(loaded, model=tuned)
    return loaded, run


def fingerprint_of_model(folder: Path) -> str:
    """A short text that differs when a weight of a run's model or prefix does."""
    weights = [folder / MODEL / "model.safetensors", folder / PREFIX / "prefix.safetensors"]
    return fingerprint_of_files(*(path for path in weights if path.is_file()))
