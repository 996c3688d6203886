"""The commands, called as a terminal calls them, and what they made of a small hospital."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ehr_course.cli.app import app

Command = Callable[..., Result]


def call(*arguments: object) -> Result:
    """Call ehr-course with these arguments."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="session")
def ehr_course() -> Command:
    """Calls a command and returns its exit code and what it printed."""
    return call


def made(place: Path, *arguments: object) -> Path:
    result = call(*arguments, "--out", place, "--quiet")
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 patients of the embedded hospital, prepared."""
    return made(tmp_path_factory.mktemp("cli") / "prepared", "prepare", "--patients", 200)


TINY = ("--steps", 12, "--batch-size", 16, "--profile", "narrow", "--checkpoint-every", 4)


@pytest.fixture(scope="session")
def run(prepared: Path) -> Path:
    """A model that learned from them for a moment."""
    return made(prepared.with_name("run"), "train", prepared, *TINY)


@pytest.fixture(scope="session")
def synthetic(run: Path) -> Path:
    """40 patients that it wrote, in every format."""
    formats = ("--format", "parquet", "--format", "mimic3", "--format", "meds")
    return made(run.with_name("synthetic"), "generate", run, "--patients", 40, *formats)


@pytest.fixture(scope="session")
def prepared_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 notes of the embedded hospital, prepared."""
    place = tmp_path_factory.mktemp("cli") / "notes"
    return made(place, "prepare", "--notes", "embedded", "--patients", 200)


@pytest.fixture(scope="session")
def notes_run(prepared_notes: Path) -> Path:
    """A summariser that learned from them for a moment."""
    return made(
        prepared_notes.with_name("notes-run"),
        *("train", prepared_notes, "--steps", 6, "--batch-size", 16, "--coverage"),
    )
