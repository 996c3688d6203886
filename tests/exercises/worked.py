"""Read the worked answers of solutions/, and make wrong ones by changing one thing."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
_numbers = itertools.count()


@cache
def _cells(folder: str, lesson: str) -> list[NotebookNode]:
    """Return the cells of the source of a lesson, or of its solutions; each file is read once."""
    (path,) = (ROOT / folder).glob(f"{lesson}_*.py")
    return jupytext.read(path).cells


def cells_tagged(folder: str, lesson: str, prefix: str) -> dict[str, str]:
    """Return the sources of a notebook's cells tagged "<prefix>:<id>", by exercise id."""
    found = {}
    for cell in _cells(folder, lesson):
        for tag in cell.metadata.get("tags", []):
            kind, _, exercise_id = tag.partition(":")
            if kind == prefix:
                assert exercise_id not in found, f"{folder}, {lesson}: two cells are tagged {tag}"
                found[exercise_id] = cell.source
    return found


def setup_of(lesson: str) -> str:
    """Return the imports of a solutions notebook: its first code cell."""
    return next(cell.source for cell in _cells("solutions", lesson) if cell.cell_type == "code")


def function_in(source: str, setup: str) -> Callable[..., Any]:
    """Run an exercise cell as a notebook would, without its call of check, and return what it
    hands to check."""
    body, _, call = source.rpartition("\ncheck(")
    name = call.partition(",")[2].strip().rstrip(")")
    filename = f"<cell {next(_numbers)}>"
    text = f"{setup}\n{body}\n"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), namespace)
    return namespace[name]


def change(source: str, *edits: tuple[str, str]) -> str:
    """Replace each old text, which must stand exactly once, by the new one."""
    for old, new in edits:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in\n{source}"
        source = source.replace(old, new)
    return source
