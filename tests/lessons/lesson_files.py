"""The lessons and solutions that the tests read. Without lessons there is nothing to test."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "lessons").glob("[0-9]*.py"))
WHAT_HOLDS = ROOT / "lessons" / "what_holds.py"  # a reference beside the lessons
SOLUTIONS = sorted((ROOT / "solutions").glob("[0-9]*.py"))

if not LESSONS:
    raise FileNotFoundError("lessons/ holds no lesson")


def name(path: Path) -> str:
    """Return "lessons/07_tokenization", to name a test by."""
    return path.relative_to(ROOT).with_suffix("").as_posix()


def number(path: Path) -> str:
    """Return a lesson's number as its file's name has it: "07"."""
    return path.name.split("_")[0]


def solution_of(lesson: Path) -> Path:
    """Return the source of the lesson's worked answers."""
    return ROOT / "solutions" / lesson.name


@cache
def read_source(path: Path) -> NotebookNode:
    """Read a percent script as jupytext reads it, once: it is to be looked at, not changed."""
    return jupytext.read(path, fmt="py:percent")


def read_stored(path: Path) -> NotebookNode:
    """Read the notebook beside a percent script."""
    return nbformat.read(path.with_suffix(".ipynb"), as_version=4)


def tags(cell: NotebookNode) -> list[str]:
    """Return a cell's tags."""
    return cell.metadata.get("tags", [])


def cells_tagged(notebook: NotebookNode, kind: str) -> dict[str, NotebookNode]:
    """Return the cells with a tag "kind:label", by label, in order; no label may occur twice."""
    found: dict[str, NotebookNode] = {}
    for cell in notebook.cells:
        for tag in tags(cell):
            if tag.startswith(f"{kind}:"):
                label = tag.partition(":")[2]
                assert label not in found, f"two cells are tagged {tag}"
                found[label] = cell
    return found


def with_answers(lesson: Path) -> NotebookNode:
    """Return the stored lesson with each exercise's cell replaced by its worked answer."""
    notebook = read_stored(lesson)
    answers = cells_tagged(read_source(solution_of(lesson)), "answer")
    for exercise, cell in cells_tagged(notebook, "exercise").items():
        cell.source = answers[exercise].source
    return notebook
