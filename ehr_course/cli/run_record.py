"""``run.json``: what a run was asked for, what it read, and with which versions.

Without times and machine names, the same run writes the same file; paths stand as given.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ehr_course.cli.settings import OF_COMMAND, Command
from ehr_course.errors import InputError
from ehr_course.new_folder import new_file
from ehr_course.records import AnyRecord, NotePair

RUN, MODEL, DEMOGRAPHICS = "run.json", "model", "demographics.csv"
"""In the folder of a run: its record, and for a training the model and its patients."""

_PACKAGES = ("ehr-course", "numpy", "polars", "torch", "transformers")
_NAME_A_RECORD = "Name the run.json of a run, or the folder that it lies in."


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package.replace("-", "_")] = version(package)
        except PackageNotFoundError:
            found[package.replace("-", "_")] = "not installed"
    return found


class RunRecord(BaseModel):
    """One run of one command.

    Attributes:
        settings: all of them, defaults included.
        inputs: fingerprints of everything that was read, by name.
        result: what came out, in numbers; empty until the run is finished.
        versions: of Python and of the packages that the result depends on.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal["ehr_course run"] = "ehr_course run"
    version: Literal[1] = 1
    command: Command
    settings: Any
    inputs: dict[str, str]
    result: dict[str, Any] = {}
    versions: dict[str, str] = Field(default_factory=versions)

    def write(self, path: Path) -> None:
        """Write the record, whole or not at all."""
        text = json.dumps(self.model_dump(mode="json"), indent=1)
        with new_file(path) as unfinished:
            unfinished.write_text(f"{text}\n", encoding="utf-8")


def read_run(path: str | Path) -> RunRecord:
    """Read a record, from its file or its folder."""
    path = Path(path)
    if path.is_dir():
        path = path / RUN
    place: tuple[str, ...] = ()
    try:
        record = RunRecord.model_validate_json(path.read_bytes())
        place = ("settings",)
        settings = OF_COMMAND[record.command].model_validate(record.settings)
    except FileNotFoundError:
        raise InputError(path, "", "there is no such file", _NAME_A_RECORD) from None
    except ValidationError as error:
        first = error.errors()[0]
    else:
        return record.model_copy(update={"settings": settings})
    place = (*place, *map(str, first["loc"]))
    if place in ((), ("format",)):
        problem = "this is not the record of a run"
        problem += " (it is not JSON)" * (first["type"] == "json_invalid")
        raise InputError(path, "", problem, _NAME_A_RECORD)
    problem = f"{first['msg'][:1].lower()}{first['msg'][1:]}, and it is {first['input']!r}"
    if first["type"] == "missing":
        problem = "it is missing"
    elif first["type"] == "extra_forbidden":
        problem = "this version has no such setting"
    raise InputError(
        path,
        ", ".join(place),
        problem,
        "Correct it, or repeat the run with the version of ehr_course that the file names.",
    )


def open_result(
    folder: str | Path, command: Command, *, nothing: str, remedy: str
) -> tuple[Path, RunRecord]:
    """Find the result of a command in its folder, and read its record.

    Args:
        folder: where it should be.
        command: the command that should have written it.
        nothing: what to say of a folder without a record, such as "no training is in it".
        remedy: how to make such a result.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "this is a file" if folder.exists() else "there is no such folder"
        raise InputError(folder, "", problem, remedy)
    if not (folder / RUN).is_file():
        inside = ", ".join(sorted(path.name for path in folder.iterdir())[:8])
        raise InputError(folder, "", f"{nothing} (found: {inside or 'nothing'})", remedy)
    run = read_run(folder)
    if run.command != command:
        raise InputError(
            folder, RUN, f"this is what 'ehr-course {run.command}' wrote, not '{command}'", remedy
        )
    return folder, run


# ------------------------------------------------------------------ fingerprints


def fingerprint_of_records(records: Iterable[AnyRecord]) -> str:
    """Hash the codes, ages, sexes and numbers of patients, but no times or admission numbers."""
    digest = hashlib.sha256()
    for record in records:
        # ICD-9-CM is not named: fingerprints from before there were two systems stay valid.
        visits = ";".join(
            " ".join(visit.codes if visit.system == "ICD9CM" else (visit.system, *visit.codes))
            for visit in record.visits
        )
        digest.update(f"{record.subject_id},{record.sex},{record.age}:{visits}\n".encode())
    digest.update(b"--\n")
    return digest.hexdigest()[:16]


def fingerprint_of_notes(pairs: Iterable[NotePair]) -> str:
    """Hash notes, summaries and patients."""
    digest = hashlib.sha256()
    for pair in pairs:
        line = json.dumps([pair.note, pair.summary, pair.subject_id]) + "\n"
        digest.update(line.encode("ascii"))
    digest.update(b"--\n")
    return digest.hexdigest()[:16]


def fingerprint_of_files(*paths: Path) -> str:
    """Hash the content of files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
