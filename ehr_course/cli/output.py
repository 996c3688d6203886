"""Where a command writes: the terminal, and folders and files, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from ehr_course.cli.run_record import RUN, read_run
from ehr_course.errors import InputError
from ehr_course.new_folder import new_file, new_folder
from ehr_course.printable import printable


def warn(text: str) -> None:
    """Print a line on stderr, even under --quiet."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(printable(f"Warning: {text}", keep="\n"), err=True)


@dataclass(frozen=True)
class Target:
    """Where a command writes, and how much it says.

    Attributes:
        out: the folder to write, or of ``summarize`` the file.
        overwrite: whether to replace what a command of ehr-course wrote.
        quiet: whether to print nothing and show no bar.
        expected: the fingerprints of a repeated run's inputs.
    """

    out: Path
    overwrite: bool = False
    quiet: bool = False
    expected: Mapping[str, str] | None = None

    def say(self, text: str) -> None:
        """Print a line for the user, in the first of several processes only."""
        if not self.quiet and os.environ.get("RANK", "0") == "0":
            typer.echo(printable(text, keep="\n"))

    def check_inputs(self, found: Mapping[str, str]) -> None:
        """Refuse, with an InputError, to repeat a run on data with other fingerprints."""
        expected = found if self.expected is None else self.expected
        for name in found:
            if expected.get(name) != found[name]:
                raise InputError(
                    RUN,
                    f"inputs, {name}",
                    f"its fingerprint was {expected.get(name)} in the run, and is {found[name]} "
                    "now",
                    "Put back the data of that run, or run the command itself on the new data.",
                )

    @contextmanager
    def folder(self, *inputs: str | Path | None) -> Iterator[Path]:
        """Give a folder to write into, and put it in its place when the block is done.

        When the block raises, nothing is changed.

        Args:
            inputs: what the block reads; the new folder must not replace it.
        """
        out = self.out
        if out.name in ("", ".."):
            raise InputError(out, "", "a folder cannot take its own place", "Name a folder in it.")
        _check_not_an_input(out, inputs)
        if out.is_dir() and any(out.iterdir()):
            problem = "the folder is not empty"
            if not self.overwrite:
                remedy = "Name a new one, or give --overwrite to replace what a run wrote here."
                raise InputError(out, "", problem, remedy)
            try:
                read_run(out)
            except InputError:
                problem += ", and no run of ehr-course wrote it"
                remedy = "Name a new one: --overwrite replaces only what has a run.json."
                raise InputError(out, "", problem, remedy) from None
        with naming_a_full_disk(out), new_folder(out, overwrite=self.overwrite) as unfinished:
            yield unfinished

    @contextmanager
    def file(self, *inputs: str | Path | None) -> Iterator[Path]:
        """Give a file to write, and put it in its place when the block is done; see folder."""
        out = self.out
        if out.suffix != ".csv" or out.is_dir():
            raise InputError(out, "", "this cannot be a CSV file", "Name one that ends in .csv.")
        _check_not_an_input(out, inputs)
        if out.exists() and not self.overwrite:
            problem = "this file exists already"
            raise InputError(out, "", problem, "Name another one, or give --overwrite.")
        with naming_a_full_disk(out), new_file(out) as unfinished:
            try:
                # Fail before the work begins, not afterwards.
                out.parent.mkdir(parents=True, exist_ok=True)
                unfinished.touch()
            except OSError as error:
                problem = f"the file cannot be made ({error})"
                remedy = "Name another one, in a place where you may write."
                raise InputError(out, "", problem, remedy) from None
            yield unfinished


def _check_not_an_input(out: Path, inputs: Iterable[str | Path | None]) -> None:
    place = out.resolve()
    for path in inputs:
        if path is None:
            continue
        source, problem = Path(path).resolve(), ""
        if place == source or place in source.parents:
            problem = f"{path}, which is read, would be replaced"
        # MEDS: every parquet file under data/, at any depth, belongs to the dataset.
        elif source / "data" in place.parents:
            problem = f"it would become a part of {path}, which is read"
        if problem:
            raise InputError(out, "", problem, "Name another place.")


@contextmanager
def naming_a_full_disk(out: Path) -> Iterator[None]:
    """Name the place that could not be written: polars and pyarrow name no file."""
    try:
        yield
    except OSError as error:
        if "No space left" not in str(error):
            raise
        remedy = "Make room and run the same command again, or name another place."
        raise InputError(out, "", "no space is left on its disk", remedy) from None
