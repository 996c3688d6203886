"""A book whose lessons are short, for tests that look at its pages in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from course import reference
from course.bookmaker import make_book

ROOT = Path(__file__).resolve().parents[2]


def short_book(
    root: Path, chosen: Callable[[str, list[NotebookNode]], list[NotebookNode]]
) -> Path:
    """Build a book of lessons that have their title, what is chosen, and the cells of claims.

    Of the reference it has one page: the others take longest, and no browser test looks at them.

    Args:
        root: an empty folder, for the book and what it is made of.
        chosen: given a lesson's number and its cells, returns the cells between title and claims.

    Returns:
        The folder of its pages.
    """
    shutil.copytree(ROOT / "course", root / "course")
    (root / "lessons").mkdir()
    for file in (ROOT / "lessons").glob("*.ipynb"):
        notebook = nbformat.read(file, as_version=4)
        title, *others = notebook.cells
        claims = [c for c in others if any(t[:6] == "claim:" for t in c.metadata.get("tags", []))]
        for cell in claims:
            cell.outputs = []
        notebook.cells = [title, *chosen(file.name[:2], others), *claims]
        nbformat.write(notebook, root / "lessons" / file.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "ROOMS", reference.ROOMS[:1])
        return make_book(root, root / "build").parent
