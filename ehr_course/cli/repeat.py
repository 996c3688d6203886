"""``ehr-course repeat``: the same run once more, from its run.json."""

from __future__ import annotations

from pathlib import Path

from ehr_course.cli.options import command_named
from ehr_course.cli.output import warn
from ehr_course.cli.run_record import read_run, versions
from ehr_course.errors import InputError


def repeat(run: Path, out: Path, *, overwrite: bool = False, quiet: bool = False) -> None:
    """Do what a run did: the same command, settings and data, into another place.

    Versions may be others than those of the run; each one that is gives a warning.

    Args:
        run: its run.json, or the folder that this lies in.
        out: the place to write.
        overwrite: whether to replace what is there; not for a training.
        quiet: whether to print nothing.

    Raises:
        InputError: if the file is none, the data are not those of the run, and as the command.
    """
    record = read_run(run)
    now = versions()
    for name, then in record.versions.items():
        if now.get(name) != then:
            warn(
                f"{name} was {then} in that run and is {now.get(name)} now: the result can differ."
            )
    options = {"quiet": quiet, "expected": record.inputs}
    if record.command != "train":
        options["overwrite"] = overwrite
    elif overwrite:
        raise InputError(
            "repeat", "--overwrite", "a training replaces nothing", "Name a new folder."
        )
    command_named(record.command)(record.settings, out, **options)
