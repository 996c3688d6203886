"""The folder that ``prepare`` writes, as the other commands read it, without PyTorch.

It holds either ``records/``, a MEDS dataset with splits, beside the ``tokenizer.json`` of its
training part, or ``notes/``, encoded notes with their tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ehr_course.cli.run_record import RUN, open_result
from ehr_course.cli.settings import PrepareSettings
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, complete_records
from ehr_course.sources.meds import load_meds
from ehr_course.sources.splits import Split
from ehr_course.tokenizers.codes import CodeTokenizer

RECORDS, NOTES, TOKENIZER, LOAD_REPORT = "records", "notes", "tokenizer.json", "load_report.txt"

_MEDS_NAMES = {"train": "train", "validation": "tuning", "test": "held_out"}


@dataclass(frozen=True)
class Prepared:
    """A prepared folder.

    Attributes:
        kind: "records" or "notes".
        sizes: how many patients or notes each of "train", "validation" and "test" has.
        is_embedded: whether all of it is invented.
    """

    folder: Path
    kind: str
    sizes: dict[str, int]
    is_embedded: bool

    def split(self) -> Split:
        """The patient records of the three parts, of which any may be empty."""
        return Split(*(self._part(part) for part in _MEDS_NAMES))

    def _part(self, part: str) -> list[PatientRecord]:
        if not self.sizes.get(part):
            return []
        # ``prepare`` has checked the codes.
        loaded = load_meds(self.folder / RECORDS, split=_MEDS_NAMES[part], zeros_lost_ok=True)
        return complete_records(loaded.records)

    def tokenizer(self) -> CodeTokenizer:
        """The tokenizer of codes, made from the training part."""
        return CodeTokenizer.load(self.folder / TOKENIZER)


def open_prepared(folder: str | Path, *, wanted: str | None = None) -> Prepared:
    """Open a folder that ``prepare`` wrote, reading only its run.json.

    Raises:
        InputError: if ``prepare`` did not write it, or it holds another kind than is wanted.
    """
    remedy = "Make it with: ehr-course prepare --out FOLDER"
    folder, run = open_result(
        folder, "prepare", nothing="no prepared data are in it", remedy=remedy
    )
    settings = run.settings
    assert isinstance(settings, PrepareSettings)  # as ``prepare`` wrote them
    kind = NOTES if settings.notes else RECORDS
    if wanted not in (None, kind):
        raise InputError(folder, "", f"it holds {kind}, and this needs {wanted}", remedy)
    if not (folder / kind).is_dir():
        raise InputError(folder, kind, "the folder is missing", remedy)
    parts: Any = run.result.get("parts")
    are_sizes = (
        isinstance(parts, dict)
        and list(parts) == list(_MEDS_NAMES)
        and all(type(size) is int and size >= 0 for size in parts.values())
        and parts["train"] > 0
    )
    if not are_sizes:
        raise InputError(
            folder / RUN, "result, parts", f"{parts!r} are not sizes", "Prepare the data again."
        )
    is_embedded = settings.data is None and settings.notes in (None, "embedded")
    return Prepared(folder, kind, dict(parts), is_embedded)
