"""The book builds from the stored notebooks, without the network, and agrees with the syllabus."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

from course import reference
from course.bookmaker import make_book
from course.command_error import CommandError
from course.syllabus import load_syllabus

ROOT = Path(__file__).resolve().parents[2]
LESSONS = load_syllabus()

REMOTE = re.compile(r"(?:https?:)?//")


@dataclass(frozen=True)
class Built:
    """A book, and the files that its course had before and has after, without the build."""

    html: Path
    before: set[str]
    after: set[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """Build the book of a copy of the course, once."""
    root = copy_of_the_course(tmp_path_factory.mktemp("course"))
    before = files(root)
    page = make_book(root, root / "build")
    return Built(page.parent, before, files(root))


@pytest.fixture(scope="module")
def html(built) -> Path:
    """Return the folder of the book's pages."""
    return built.html


def copy_of_the_course(folder: Path) -> Path:
    """Copy what the book is made of."""
    shutil.copytree(ROOT / "course", folder / "course")
    (folder / "lessons").mkdir()
    for notebook in (ROOT / "lessons").glob("*.ipynb"):
        shutil.copy(notebook, folder / "lessons")
    return folder


def files(root: Path) -> set[str]:
    paths = {path.relative_to(root) for path in root.rglob("*")}
    return {path.as_posix() for path in paths if not {"build", "__pycache__"} & set(path.parts)}


def pages(html: Path) -> list[str]:
    """Return the names of all pages; the theme's templates under _static are none."""
    names = [file.relative_to(html).as_posix() for file in sorted(html.rglob("*.html"))]
    return [name for name in names if not name.startswith("_static/")]


@cache
def page(html: Path, name: str) -> BeautifulSoup:
    """Read a page, once: it is to be looked at, not changed."""
    return BeautifulSoup((html / name).read_text(encoding="utf-8"), "html.parser")


def loaded_addresses(soup: BeautifulSoup) -> list[str]:
    """Return what a browser fetches to show a page: scripts, styles, pictures, frames."""
    sources = [tag["src"] for tag in soup.find_all(src=True)]
    links = [tag["href"] for tag in soup.find_all("link", href=True)]
    return sources + links


def test_no_page_loads_anything_from_the_network(html):
    remote = {
        f"{name}: {address}"
        for name in pages(html)
        for address in loaded_addresses(page(html, name))
        if REMOTE.match(address)
    }
    assert remote == set()


def test_no_style_loads_anything_from_the_network(html):
    remote = [
        f"{file.relative_to(html)}: {address}"
        for file in html.rglob("*.css")
        for address in re.findall(
            r"(?:@import\s+|url\()['\"]?((?:https?:)?//[^'\")\s]+)",
            file.read_text(encoding="utf-8"),
        )
    ]
    assert remote == []


def test_no_script_on_a_page_names_an_address_to_load(html):
    remote = [
        f"{name}: {found}"
        for name in pages(html)
        for script in page(html, name).find_all("script", src=False)
        for found in re.findall(r"https?://[^\"'\s]+\.(?:js|css)", script.text)
    ]
    assert remote == []


def test_what_a_page_loads_is_there(html):
    missing = {
        f"{name}: {address}"
        for name in pages(html)
        for address in loaded_addresses(page(html, name))
        if not address.startswith("data:")
        and not ((html / name).parent / address.split("?")[0].split("#")[0]).exists()
    }
    assert missing == set()


def test_formulas_are_set_by_a_script_of_the_book(html):
    scripts = [
        tag["src"].split("?")[0]
        for lesson in LESSONS
        for tag in page(html, f"lessons/{lesson.name}.html").find_all("script", src=True)
        if "mathjax" in tag["src"].lower()
    ]
    assert scripts
    assert all((html / "lessons" / script).is_file() for script in scripts)


def test_the_table_of_contents_lists_the_lessons_of_the_syllabus(html):
    sidebar = page(html, "index.html").find(id="pst-primary-sidebar")
    links = [link for link in sidebar.find_all("a") if link["href"].startswith("lessons/")]
    assert links.pop()["href"] == "lessons/what_holds.html"
    assert [(link["href"], link.text.strip()) for link in links] == [
        (f"lessons/{lesson.name}.html", f"{lesson.number} · {lesson.title}") for lesson in LESSONS
    ]


def test_the_first_page_says_how_long_each_lesson_takes(html):
    (table,) = page(html, "index.html").find("article").find_all("table")
    rows = [[cell.text.strip() for cell in row.find_all("td")] for row in table.find_all("tr")]
    assert [row[:2] for row in rows if row] == [
        [f"{lesson.number} {lesson.title}", str(lesson.minutes)] for lesson in LESSONS
    ]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_shows_every_stored_picture_with_its_alternative_text(html, lesson):
    stored = nbformat.read(ROOT / "lessons" / f"{lesson.name}.ipynb", as_version=4)
    texts = [
        " ".join(output.data["text/plain"].split())
        for cell in stored.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    article = page(html, f"lessons/{lesson.name}.html").find("article")
    shown = [" ".join(image["alt"].split()) for image in article.find_all("img")]
    assert shown == texts


@pytest.mark.parametrize("lesson", [lesson.name for lesson in LESSONS])
def test_a_lesson_is_small_enough_to_open_anywhere(html, lesson):
    """The page, its pictures, and all that its widgets move through."""
    shown = page(html, f"lessons/{lesson}.html")
    parts = {html / "lessons" / tag["src"] for tag in shown.find_all("img", src=True)}
    parts |= set((html / "_static" / "widgets" / lesson).iterdir())
    size = (html / "lessons" / f"{lesson}.html").stat().st_size
    size += sum(part.stat().st_size for part in parts)
    assert size < 3_000_000, f"{size:,} bytes"


def test_every_claim_links_to_the_cell_that_measures_it(html):
    links = page(html, "what_holds.html").find("article").select("td:last-child a")
    assert links
    for link in links:
        file, _, target = link["href"].partition("#")
        claim = link.find_parent("tr").find("td").text
        place = page(html, file).find(id=target)
        cell = place if "cell" in place.get("class", []) else place.find_next(class_="cell")
        assert f"tag_claim:{claim}" in cell["class"]


def test_the_table_of_times_has_every_lesson():
    file = ROOT / "course" / "book" / "lesson_times.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        timed = [row["lesson"] for row in csv.DictReader(lines)]
    assert timed == [*(lesson.name for lesson in LESSONS), "what_holds"]


def test_building_leaves_no_copies_in_the_tree(built):
    assert built.after == built.before


def test_a_lesson_without_a_notebook_is_named(tmp_path):
    damaged = copy_of_the_course(tmp_path)
    (damaged / "lessons" / f"{LESSONS[-1].name}.ipynb").unlink()
    with pytest.raises(CommandError, match=rf"lessons/{LESSONS[-1].name}\.ipynb is missing"):
        make_book(damaged, damaged / "build")


def test_a_link_that_leads_nowhere_is_a_mistake(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "ROOMS", reference.ROOMS[:1])  # its other pages take longest
    damaged = copy_of_the_course(tmp_path)
    for notebook in (damaged / "lessons").iterdir():
        shorten(notebook)
    study = damaged / "course" / "book" / "how_to_study.md"
    text = study.read_text(encoding="utf-8")
    study.write_text(f"{text}\n[gone](no_such_page.md)\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"how_to_study\.md.*no_such_page") as error:
        make_book(damaged, damaged / "build")
    assert str(error.value).count("WARNING") == 1


def shorten(notebook: Path) -> None:
    """Keep of a lesson its title and what the book's pages link to, so that it is built fast."""
    cells = nbformat.read(notebook, as_version=4)
    claims = [c for c in cells.cells if any("claim:" in t for t in c.metadata.get("tags", []))]
    for cell in claims:
        cell.outputs = []
    cells.cells = [cells.cells[0], *claims]
    nbformat.write(cells, notebook)
