"""The cell that lets a lesson be opened alone: on Colab, on Kaggle, in VS Code.

Its text stands here alone. `course build` puts it into every lesson and every page of solutions,
behind the head, and renews it there. It is not counted among the cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

from course.repository import repository_address

ROOT = Path(__file__).resolve().parent.parent

OPENED_ALONE = "opened-alone"
"""The tag of the cell. The book leaves a cell with this tag out."""

TAGS = (OPENED_ALONE, "hide-input")

_TEXT = """\
# Opened alone, as on Colab or Kaggle? This cell installs the course.
from importlib.util import find_spec

if not find_spec("ehr_course"):
    from pathlib import Path

    name = "ehr_course-*.whl"
    found = [*Path().glob(name), *Path("/kaggle/input").rglob(name)]
INSTALL
    from ehr_course import after_installation

    after_installation()"""
_FROM_A_FILE = """\
    if not found:
        raise ModuleNotFoundError(
            "The course is missing. In a clone, take the kernel of .venv; "
            "elsewhere, put ehr_course-….whl beside this notebook."
        )
    get_ipython().run_line_magic("pip", f'install "{found[0]}[notebook]"')"""
_FROM_A_FILE_OR_THE_REPOSITORY = """\
    course = f"{found[0]}[notebook]" if found else (
        "ehr-course[notebook] @ git+"
        "ADDRESS"
    )
    get_ipython().run_line_magic("pip", f'install "{course}"')"""


def first_cell_text(root: Path = ROOT) -> str:
    """Return the cell's text for this clone.

    Where no file of the wheel is near the notebook, it installs from the repository, if
    pyproject.toml has its address, and otherwise says what to do.

    Args:
        root: the clone.
    """
    address = repository_address(root)
    install = _FROM_A_FILE
    if address is not None:
        install = _FROM_A_FILE_OR_THE_REPOSITORY.replace("ADDRESS", address)
    return _TEXT.replace("INSTALL", install)


def is_first_cell(cell: NotebookNode) -> bool:
    """Say whether a cell is the one that installs the course."""
    return OPENED_ALONE in cell.metadata.get("tags", [])


def place_of_the_first_cell(cells: Iterable[NotebookNode]) -> int:
    """Return where the cell belongs among the others: behind the head, if there is one."""
    first = next(iter(cells), None)
    return 1 if first is not None and first.cell_type == "markdown" else 0
