"""What is said in the terminal of hidden folders that killed runs have left."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ehr_course.cli.output import warn
from ehr_course.new_folder import LeftBehind, left_behind


def mention_killed_runs(out: Path) -> None:
    """Warn of each hidden folder that a killed run left beside or in a place to write.

    Args:
        out: where the command is to write. A training writes hidden folders in it too.
    """
    for place in (out.parent, out):
        for found in left_behind(place):
            warn(in_words(found))


def in_words(found: LeftBehind) -> str:
    """What was left, and the command that puts things right."""
    if found.old is not None:
        move = "move" if os.name == "nt" else "mv"
        return (
            f"a run was killed while it replaced {found.folder}, and what was there is in "
            f"{found.old}. Put it back with: {move} {_quoted(found.old)} {_quoted(found.folder)}"
        )
    remove = "rmdir /s" if os.name == "nt" else "rm -r"
    return (
        f"a run that was killed left {found.path}, which is unfinished and may hold patients' "
        f"data. Remove it with: {remove} {_quoted(found.path)}"
    )


def _quoted(path: Path) -> str:
    return f'"{path}"' if os.name == "nt" else shlex.quote(str(path))
