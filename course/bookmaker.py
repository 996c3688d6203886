"""The book: the pages of ``course/book`` and the lessons as they were last run, as HTML.

``python3 -m course book`` runs no lesson: it shows the outputs that the notebooks store, and needs
no network. Sphinx wants its pages in one folder, so they are gathered in ``build/book-source``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.command_error import CommandError
from course.first_cell import is_first_cell
from course.notebook import ASIDE, WHAT_HOLDS
from course.reference import write_reference
from course.syllabus import Lesson, load_syllabus
from course.widget_states import file_of, put_into_the_book

ROOT = Path(__file__).resolve().parent.parent


def make_book(root: Path, build: Path) -> Path:
    """Build the book; any warning of Sphinx is an error.

    Args:
        root: the course's folder.
        build: the folder to write into; ``book-source`` and ``book`` are rebuilt in it.

    Returns:
        The book's first page.

    Raises:
        CommandError: if a lesson has no notebook, Sphinx is missing, or the book has a mistake.
    """
    if find_spec("sphinx") is None:
        raise CommandError(
            "Sphinx is not installed, and the book needs it.",
            "Install the developer's packages: pip install -c constraints.txt -e .[dev]",
        )
    source, book = build / "book-source", build / "book"
    gather(root, source)
    shutil.rmtree(book, ignore_errors=True)
    strict = ["-b", "html", "-W", "--keep-going", "-q", "--no-color"]
    folders = ["-d", str(book / "doctrees"), str(source), str(book / "html")]
    sphinx = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, *folders], capture_output=True, encoding="utf-8"
    )
    if sphinx.returncode:
        raise CommandError(
            f"The book has mistakes:\n{sphinx.stderr.strip()}",
            "These files are copies: mend the page in course/book or the lesson's source.",
        )
    return book / "html" / "index.html"


def gather(root: Path, source: Path) -> None:
    """Gather the book's pages, the lessons' notebooks and the reference in one empty folder.

    Raises:
        CommandError: if a lesson of the syllabus has no notebook.
    """
    shutil.rmtree(source, ignore_errors=True)
    not_pages = shutil.ignore_patterns("__pycache__", "*.zip")
    shutil.copytree(root / "course" / "book", source, ignore=not_pages)
    (source / "lessons").mkdir()
    lessons = load_syllabus(root / "course" / "syllabus.yml")
    glossary = source / "glossary.md"
    text = glossary.read_text(encoding="utf-8")
    glossary.write_text(with_links_to_lessons(text, lessons), encoding="utf-8")
    terms = terms_of(text)
    for name in [*(lesson.name for lesson in lessons), WHAT_HOLDS]:
        notebook = root / "lessons" / f"{name}.ipynb"
        if not notebook.is_file():
            raise CommandError(
                f"lessons/{name}.ipynb is missing.", f"Build it: python3 -m course build {name}"
            )
        page = for_the_book(nbformat.read(notebook, as_version=4), terms)
        pictures = file_of(root, name)
        if pictures.is_file():
            folder = source / "_static" / "widgets" / name
            address = f"../_static/widgets/{name}"
            page = put_into_the_book(pictures, folder, page, address)
        nbformat.write(page, source / "lessons" / notebook.name)
    write_reference(source)
    (source / "lesson_list.md").write_text(lesson_list(lessons), encoding="utf-8")


def with_links_to_lessons(glossary: str, lessons: tuple[Lesson, ...]) -> str:
    """Turn each "First met in lesson 07." of the glossary into a link to that lesson."""
    names = {lesson.number: lesson.name for lesson in lessons}
    return re.sub(
        r"First met in lesson (\d\d)\.",
        lambda met: f"First met in lesson [{met[1]}](lessons/{names[met[1]]}.ipynb).",
        glossary,
    )


def terms_of(glossary: str) -> dict[str, str]:
    """The glossary's terms by what a link to them says: lower case, with hyphens for spaces.

    >>> terms_of("```{glossary}\\nnearest-neighbour accuracy\\n  A share.\\n```")
    {'nearest-neighbour-accuracy': 'nearest-neighbour accuracy'}
    """
    inside = re.findall(r"```\{glossary\}\n(.*?)```", glossary, re.DOTALL)
    lines = [line for part in inside for line in part.splitlines()]
    terms = [line.strip() for line in lines if line and not line.startswith(" ")]
    return {term.lower().replace(" ", "-"): term for term in terms}


def for_the_book(notebook: NotebookNode, terms: dict[str, str]) -> NotebookNode:
    """Return a notebook with what a page adds: places to link to, and alternative texts.

    A cell tagged ``claim:4`` gets the target ``claim-4``. A cell's picture gets the
    sentence beside it, its plain text, as its alternative text. A link to the glossary goes to the
    term, one to another page of ``course/book`` to where that page stands. What goes further is
    folded up to the next heading. The cell that installs the course is left out.
    """
    cells = []
    folded = None  # the id of the cell that began what is folded
    for cell in notebook.cells:
        if is_first_cell(cell):
            continue
        if cell.cell_type == "markdown":
            if folded and cell.source.startswith(("## ", "### ")):
                cells.append(_end_of_fold(folded))
                folded = None
            if folded:
                cell.source = _HEADING_IN_A_FOLD.sub(_RUBRIC, cell.source)
            cell.source = _GLOSSARY_LINK.sub(lambda link: _to_the_term(link, terms), cell.source)
            cell.source = cell.source.replace("](../course/book/", "](../")
            if cell.source.startswith(ASIDE):
                folded = cell.id
                cell.source += _ASIDE_FOLD
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("claim:"):
                target = f"({tag.replace(':', '-')})="
                cells.append(nbformat.v4.new_markdown_cell(target, id=f"{cell.id}-target"))
        sentence = _alternative_text(cell)
        if sentence:
            cell.metadata["mystnb"] = {"image": {"alt": sentence}}
        cells.append(cell)
    if folded:
        cells.append(_end_of_fold(folded))
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


_GLOSSARY_LINK = re.compile(r"\[([^\]]+)\]\(\.\./course/book/glossary\.md(?:#([^)]*))?\)")
_HEADING_IN_A_FOLD = re.compile(r"^#### (.+)$", re.MULTILINE)
# A section would begin inside the fold and end outside.
_RUBRIC = r"```{rubric} \1\n:heading-level: 4\n```"
_ASIDE_FOLD = """

<details class="folded-section"><summary>Optional: read on</summary>
"""


def _end_of_fold(begun_by: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell("</details>", id=f"{begun_by}-end-of-fold")


def _to_the_term(link: re.Match, terms: dict[str, str]) -> str:
    """Make Sphinx link a word to its term: ``[spans](...glossary.md#span)`` to the term "span"."""
    words, term = " ".join(link[1].split()), link[2]
    if term is None:
        return f"{{term}}`{words}`"
    return f"{{term}}`{words} <{terms.get(term.lower(), term.replace('-', ' '))}>`"


def _alternative_text(cell: NotebookNode) -> str | None:
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        text = data.get("text/plain", "")
        if "image/png" in data and text and not text.startswith("<"):
            return " ".join(text.split())
    return None


def lesson_list(lessons: tuple[Lesson, ...]) -> str:
    """Return the lessons as a Markdown table for the book's first page."""
    rows = ["| lesson | minutes | first do | exercises |", "|---|---|---|---|"]
    for lesson in lessons:
        link = f"[{lesson.number} {lesson.title}](lessons/{lesson.name}.ipynb)"
        first = ", ".join(lesson.prerequisites) or "none"
        optional = sum(exercise.optional for exercise in lesson.exercises)
        count = f"{len(lesson.exercises)}" + (f", {optional} optional" if optional else "")
        rows.append(f"| {link} | {lesson.minutes} | {first} | {count} |")
    return "\n".join(rows) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run ``course book``: build the book into ``build/book/html`` and print where it is."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course book",
        description="Build the book from the stored notebooks into build/book/html.",
    )
    parser.parse_args(argv)
    first_page = make_book(ROOT, ROOT / "build")
    print(f"The book: {first_page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
