"""The pictures that a lesson's widgets move through in the book, where no kernel draws them.

A build of a lesson takes them out of the notebook's outputs and stores them beside the book's
pages, as ``course/book/widgets/NN_name.zip``: one WebP file a picture, and ``widgets.json``, which
says which controls show which picture. The book puts them back, under the widget's cell.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from ehr_course.widgets.states import STATES

DESCRIPTION = "widgets.json"


def file_of(root: Path, lesson: str) -> Path:
    """Where the pictures of a lesson's widgets are stored."""
    return root / "course" / "book" / "widgets" / f"{lesson}.zip"


def take_out(notebook: NotebookNode) -> bytes | None:
    """Take the pictures out of a notebook's outputs; return the ZIP file that stores them.

    The same pictures give the same bytes. A picture that several states share is stored once.

    Args:
        notebook: as its kernel has left it; its outputs are changed in place.

    Returns:
        The ZIP file, or None where no widget has given pictures.
    """
    pictures: dict[bytes, str] = {}
    widgets: list[dict[str, Any]] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            widget = output.get("data", {}).pop(STATES, None)
            if widget is None:
                continue
            for state in widget["states"]:
                webp = base64.b64decode(state.pop("webp"))
                state["picture"] = pictures.setdefault(webp, f"{len(pictures):03}.webp")
            widgets.append({"cell": cell.id, **widget})
    if not widgets:
        return None
    description = json.dumps(widgets, ensure_ascii=False, indent=1)
    stored = {DESCRIPTION: description.encode("utf-8")}
    stored |= {name: webp for webp, name in pictures.items()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in stored.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # the date is always 1980-01-01
    return file.getvalue()


def widgets_in(file: Path) -> list[dict[str, Any]]:
    """What the stored pictures of a lesson are of: one entry a widget, with the id of its cell."""
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read(DESCRIPTION))


def put_into_the_book(file: Path, folder: Path, page: NotebookNode, address: str) -> NotebookNode:
    """Unpack a lesson's pictures, and add to its page what lets the controls move.

    Args:
        file: the ZIP file.
        folder: where the pictures go.
        page: the lesson as a page of the book; the cells behind widgets are added.
        address: of `folder`, as seen from the page.
    """
    folder.mkdir(parents=True)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    (folder / DESCRIPTION).unlink()
    moving = {widget["cell"]: widget for widget in widgets_in(file)}
    cells = []
    for cell in page.cells:
        cells.append(cell)
        widget = moving.pop(cell.get("id"), None)
        if widget is not None:
            description = json.dumps(widget, ensure_ascii=False).replace("<", "\\u003c")
            player = (
                f'<div class="course-widget" data-pictures="{address}">'
                f'<script type="application/json">{description}</script></div>'
            )
            cells.append(nbformat.v4.new_markdown_cell(player, id=f"{cell.id}-moves"))
    return nbformat.v4.new_notebook(cells=cells, metadata=page.metadata)
