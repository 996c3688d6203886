"""``run.json``: what a run was asked for, what it read, and with which versions.

It holds no time and no name of a machine, so the same run writes the same file. Paths stand as
they were given.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ehr_course.cli.settings import OF_COMMAND, Command, Settings, settings_error
from ehr_course.errors import InputError
from ehr_course.records import AnyRecord, NotePair

RUN = "run.json"
"""The name of the file in a folder that a command wrote."""

_PACKAGES = {
    "ehr_course": "ehr-course",
    "numpy": "numpy",
    "polars": "polars",
    "torch": "torch",
    "transformers": "transformers",
}
_NAME_A_RECORD = "Name the run.json of a run, or the folder that it lies in."


class _Document(BaseModel):
    """The content of the file, apart from what the settings are."""

    model_config = ConfigDict(strict=True)

    format: Literal["ehr_course run"]
    version: Literal[1]
    command: Command
    settings: dict[str, Any]
    inputs: dict[str, str]
    result: dict[str, Any]
    versions: dict[str, str]


@dataclass(frozen=True)
class RunRecord:
    """One run of one command.

    Attributes:
        command: one of settings.OF_COMMAND.
        settings: every one of them, defaults included.
        inputs: a fingerprint of everything that was read, by name.
        result: what came out, in numbers; empty while the run is not finished.
        versions: of Python and of the packages that the result depends on.
    """

    command: Command
    settings: Settings
    inputs: dict[str, str]
    result: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=lambda: versions())

    def write(self, path: Path) -> None:
        """Write the record, whole or not at all."""
        document = _Document(
            format="ehr_course run",
            version=1,
            command=self.command,
            settings=self.settings.model_dump(mode="json"),
            inputs=self.inputs,
            result=self.result,
            versions=self.versions,
        )
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            unfinished.write_text(
                json.dumps(document.model_dump(), indent=1) + "\n", encoding="utf-8"
            )
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def open_result(
    folder: str | Path, command: Command, *, nothing: str, remedy: str
) -> tuple[Path, RunRecord]:
    """Find the result of a command, and read its record.

    Args:
        folder: where it should be.
        command: the one that should have written it.
        nothing: what to say of a folder without a record, such as "no training is in it".
        remedy: how to make such a result.

    Raises:
        InputError: if there is no such folder, or another command wrote it, or none.
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


def read_run(path: str | Path) -> RunRecord:
    """Read a record, from its file or from the folder that it lies in.

    Raises:
        InputError: if it is missing, damaged, or written by another version of the course.
    """
    path = Path(path)
    if path.is_dir():
        path = path / RUN
    try:
        document = _Document.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(path, "", "there is no such file", _NAME_A_RECORD) from None
    except ValidationError as error:
        raise _refused(path, error) from None
    try:
        settings = OF_COMMAND[document.command].model_validate(document.settings)
    except ValidationError as error:
        raise settings_error(error, path, "settings") from None
    return RunRecord(
        document.command, settings, document.inputs, document.result, document.versions
    )


def _refused(path: Path, error: ValidationError) -> InputError:
    """Say what is wrong with a record, apart from its settings."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return InputError(path, "", "this is not JSON", _NAME_A_RECORD)
    if first["loc"] in ((), ("format",)):
        return InputError(path, "", "this is not the record of a run", _NAME_A_RECORD)
    if first["loc"] == ("version",) and first["type"] == "literal_error":
        return InputError(
            path,
            "version",
            f"it is {first['input']!r}, and this course reads {first['ctx']['expected']}",
            "Read it with the version of ehr_course that it names.",
        )
    return settings_error(error, path)


def was_written_here(folder: Path) -> bool:
    """Whether a command of ehr-course wrote this folder."""
    try:
        read_run(folder)
    except InputError:
        return False
    return True


def check_inputs(expected: Mapping[str, str] | None, found: Mapping[str, str]) -> None:
    """Refuse to repeat a run on other data than it had.

    Args:
        expected: the fingerprints of the run, or None for a run that repeats none.
        found: those of the data that are there now.

    Raises:
        InputError: it names the first input that is another.
    """
    if expected is None:
        return
    for name in found:
        if expected.get(name) != found[name]:
            raise InputError(
                RUN,
                f"inputs, {name}",
                f"its fingerprint was {expected.get(name)} in the run, and is {found[name]} now",
                "Put back the data of that run, or run the command itself on the new data.",
            )


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


# ------------------------------------------------------------------ fingerprints


def fingerprint_of_records(*cohorts: Iterable[AnyRecord]) -> str:
    """A short text that differs when any code, age, sex or number of these cohorts does.

    Times and the numbers of admissions are left out: nothing is learned from them.
    """
    digest = hashlib.sha256()
    for records in cohorts:
        for record in records:
            # ICD-9-CM is not named, so that what was written before there were two systems fits.
            visits = ";".join(
                " ".join(visit.codes if visit.system == "ICD9CM" else (visit.system, *visit.codes))
                for visit in record.visits
            )
            digest.update(f"{record.subject_id},{record.sex},{record.age}:{visits}\n".encode())
        digest.update(b"--\n")
    return digest.hexdigest()[:16]


def fingerprint_of_notes(*parts: Iterable[NotePair]) -> str:
    """A short text that differs when any note, summary or patient of these parts does."""
    digest = hashlib.sha256()
    for pairs in parts:
        for pair in pairs:
            line = json.dumps([pair.note, pair.summary, pair.subject_id]) + "\n"
            digest.update(line.encode("ascii"))
        digest.update(b"--\n")
    return digest.hexdigest()[:16]


def fingerprint_of_files(*paths: Path) -> str:
    """A short text that differs when the content of any of these files does."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
