"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LARGEST_SEED = 2**32 - 1
MOST_PATIENTS = 10_000_000

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
        metavar="NAME", help="Column of the summaries; by default target, summary or section_text."
    ),
]
