"""The options that several commands share, and the late import of what a command does."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

LARGEST_SEED = 2**32 - 1
MOST_PATIENTS = 10_000_000

PROFILES = {
    "records": ("narrow", "tiny", "small", "full"),
    "notes": ("tiny", "small", "full"),
}
"""The sizes of models of each kind of data, smallest first."""

OutFolder = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="The folder to write.", show_default=False)
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace what a run wrote there, once the new result is complete.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No bar and no text.")]
Seed = Annotated[
    int,
    typer.Option(min=0, max=LARGEST_SEED, help="Another seed, another result."),
]
NoteColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of the notes; by default input, note or dialogue."),
]
SummaryColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of the summaries; by default target, summary, section_text, or note beside "
        "dialogue.",
    ),
]


Columns = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT=NAME,...",
        help="Columns of a .csv or .parquet file with a row for each code: patient, visit, code, "
        "and perhaps age, sex, time, sequence, version (of ICD).",
    ),
]
CodeMap = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A .csv file with the columns 'from' and 'to': ICD-9-CM or ICD-10-CM codes for "
        "codes of another vocabulary.",
    ),
]
Codes = Annotated[
    Literal["icd9", "icd10"] | None,
    typer.Option(
        help="Take the diagnoses that are coded in this system alone; the others are dropped and "
        "counted.",
    ),
]
MapTo = Annotated[
    Literal["icd9", "icd10"] | None,
    typer.Option(
        "--map",
        help="Translate diagnoses of the other system into this one, by the General Equivalence "
        "Mappings; the report says how well they agree. Data in both are translated to icd9 where "
        "neither --codes nor --map is given.",
    ),
]
OnMalformed = Annotated[
    Literal["raise", "drop"],
    typer.Option(help="Stop at the first malformed row, or drop such rows and count them."),
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        help="How dates are written where it is not as 2101-01-31 17:05:00, in the letters of "
        "strptime: '%m/%d/%y %H:%M'. Years of two digits are 1969 to 2068.",
    ),
]


class Format(StrEnum):
    """The formats of synthetic patients, in the order in which they are looked for."""

    MEDS = "meds"
    MIMIC3 = "mimic3"
    PARQUET = "parquet"


def command_named(name: str) -> Callable[..., None]:
    """The function that does the work of a command, in the module of its name."""
    # torch and its like take seconds to import, which --help must not cost.
    return getattr(import_module(f"ehr_course.cli.{name}"), name)


def run_command(command: str, what: Any, out: Path, **options: Any) -> None:
    """Do the work of a command, after a word on what killed runs have left where it writes.

    Args:
        command: its name.
        what: its settings; of ``repeat``, the run.
        out: where it is to write.
        options: the others that it takes.
    """
    work = command_named(command)
    import_module("ehr_course.cli.killed_runs").mention_killed_runs(out)
    work(what, out, **options)
