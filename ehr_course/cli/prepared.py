"""What ``prepare`` writes and the other commands read: three parts that share no patient.

``records/`` is a MEDS dataset with splits beside the ``tokenizer.json`` of its training part;
``notes/`` is a folder of encoded notes, its tokenizer in it. A prepared folder has one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ehr_course.cli.run_record import RUN, open_result
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord
from ehr_course.sources.meds import load_meds
from ehr_course.sources.splits import Split
from ehr_course.tokenizers.codes import CodeTokenizer

RECORDS, NOTES, TOKENIZER, LOAD_REPORT = "records", "notes", "tokenizer.json", "load_report.txt"

_MEDS_NAMES = {"train": "train", "validation": "tuning", "test": "held_out"}


@dataclass(frozen=True)
class Prepared:
    """A prepared folder.

    Attributes:
        folder: where it is.
        kind: "records" or "notes".
        sizes: how many patients or notes each of "train", "validation" and "test" has.
        is_embedded: whether all of it is invented.
    """

    folder: Path
    kind: str
    sizes: dict[str, int]
    is_embedded: bool

    def split(self) -> Split:
        """The patient records of the three parts; a part that was left out is empty."""
        return Split(*(self._part(part) for part in _MEDS_NAMES))

    def _part(self, part: str) -> list[PatientRecord]:
        if not self.sizes.get(part):
            return []
        return list(load_meds(self.folder / RECORDS, split=_MEDS_NAMES[part]).records)

    def tokenizer(self) -> CodeTokenizer:
        """The tokenizer of codes that was made from the training part."""
        return CodeTokenizer.load(self.folder / TOKENIZER)


def open_prepared(folder: str | Path, *, wanted: str | None = None) -> Prepared:
    """Open a folder that ``prepare`` wrote, reading nothing but its run.json.

    Args:
        folder: the folder.
        wanted: "records" or "notes", or None when both will do.

    Raises:
        InputError: if it is none, or holds the other kind.
    """
    remedy = "Make it with: ehr-course prepare --out FOLDER"
    folder, run = open_result(
        folder, "prepare", nothing="no prepared data are in it", remedy=remedy
    )
    kind = NOTES if run.settings.notes else RECORDS
    if wanted not in (None, kind):
        raise InputError(folder, "", f"it holds {kind}, and this needs {wanted}", remedy)
    if not (folder / kind).is_dir():
        raise InputError(folder, kind, "the folder is missing", remedy)
    is_embedded = run.settings.data is None and run.settings.notes in (None, "embedded")
    return Prepared(folder, kind, _sizes(folder, run.result.get("parts")), is_embedded)


def _sizes(folder: Path, parts: object) -> dict[str, int]:
    """How many each part has, as run.json says; there is somebody to learn from."""
    sizes = parts if isinstance(parts, dict) else {}
    are_counts = all(type(sizes.get(part)) is int for part in _MEDS_NAMES)
    if not are_counts or min(sizes.values()) < 0 or sizes["train"] < 1:
        raise InputError(
            folder / RUN, "result, parts", f"{parts!r} are no sizes", "Prepare the data again."
        )
    return sizes
