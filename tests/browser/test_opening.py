"""`course lab` opens on the lesson, its table of contents and the list of lessons.

JupyterLab runs as `course lab` starts it, on a copy of the lessons.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Browser, Locator, Page, expect

from course.lab import WORKSPACE, arrange_panels, server_command

ROOT = Path(__file__).parents[2]
SECONDS = 60
TOC_TAB = '.jp-SideBar.jp-mod-right .lm-TabBar-tab[data-id="table-of-contents"]'

SMALL = [
    new_markdown_cell("# 98 · A small lesson"),
    new_code_cell(
        "import math\n\n\ndef root(x):\n    return math.sqrt(x)\n\n\nprint(root(16))",
        metadata={"jupyter": {"source_hidden": True}},
        outputs=[new_output("stream", text="4.0\n")],
        execution_count=1,
    ),
    new_code_cell("seen = True"),
    new_markdown_cell("## A folded section", metadata={"jp-MarkdownHeadingCollapsed": True}),
    new_markdown_cell("Its text."),
    new_code_cell("folded = True"),
    new_markdown_cell("## The next section"),
]

OpenLab = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="module")
def open_lab(serve: Callable[..., AbstractContextManager[str]]) -> OpenLab:
    """Start JupyterLab in a clone as `course lab --no-browser` does, and give its address."""

    @contextmanager
    def start(clone: Path, lesson: str) -> Iterator[str]:
        arrange_panels(clone)
        notebook = clone / "lessons" / f"{lesson}.ipynb"

        def command(port: int) -> list[str]:
            asked = server_command(clone, notebook, port=port, open_browser=False)
            return [*asked, "--IdentityProvider.token="]

        # A kernel that was just starting is waited for in vain.
        with serve(command, clone, seconds_to_end=10) as address:
            yield address

    return start


def write_lesson(folder: Path, name: str, cells: list[nbformat.NotebookNode]) -> None:
    """Write a notebook and its pair."""
    notebook = new_notebook(
        cells=cells,
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}},
    )
    jupytext.write(notebook, folder / f"{name}.py", fmt="py:percent")
    nbformat.write(notebook, folder / f"{name}.ipynb")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the lessons, their pairing, a small lesson and what Python leaves behind."""
    folder = tmp_path_factory.mktemp("a clone with spaces")
    shutil.copytree(ROOT / "lessons", folder / "lessons")
    shutil.copy(ROOT / "jupytext.toml", folder)
    (folder / "lessons" / "__pycache__").mkdir(exist_ok=True)
    write_lesson(folder / "lessons", "98_small", SMALL)
    return folder


@pytest.fixture(scope="module")
def address(open_lab: OpenLab, clone: Path) -> Iterator[str]:
    with open_lab(clone, "17_coverage_and_beam_search") as address:
        yield address


@contextmanager
def page_at(browser: Browser, url: str, name: str) -> Iterator[Page]:
    """A page on a small laptop's screen, when the notebook of this name is in front."""
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.goto(url)
    tab = page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-current")
    expect(tab).to_have_text(f"{name}.ipynb", timeout=SECONDS * 1000)
    expect(shown(page, ".jp-CodeCell").first).to_be_visible(timeout=SECONDS * 1000)
    yield page
    page.close()


@pytest.fixture(scope="module")
def lesson(browser: Browser, address: str) -> Iterator[Page]:
    """The page that a learner gets at first."""
    with page_at(browser, address, "17_coverage_and_beam_search") as page:
        yield page


@pytest.fixture
def small(browser: Browser, address: str, lesson: Page) -> Iterator[Page]:
    """The small lesson, opened after the first page has been arranged."""
    with page_at(browser, f"{address}/lab/tree/lessons/98_small.ipynb", "98_small") as page:
        yield page


def test_the_lesson_is_open(lesson: Page) -> None:
    expect(shown(lesson, "h1")).to_contain_text("17 · Coverage and beam search")


def test_the_table_of_contents_stands_beside_it_with_every_heading(
    lesson: Page, clone: Path
) -> None:
    contents = lesson.locator("#table-of-contents")
    expect(contents).to_be_visible()
    notebook = nbformat.read(clone / "lessons/17_coverage_and_beam_search.ipynb", as_version=4)
    expect(contents.locator(".jp-tocItem-content")).to_have_text(headings(notebook))
    beside = shown(lesson, "").bounding_box()
    assert contents.bounding_box()["x"] >= beside["x"] + beside["width"]


def test_every_lesson_is_listed_once_under_its_whole_name(lesson: Page, clone: Path) -> None:
    there = sorted(path.name for path in (clone / "lessons").glob("*.ipynb"))
    listed = lesson.locator("#filebrowser .jp-DirListing-itemText")
    expect(listed).to_have_text(there)
    cut = listed.evaluate_all(
        "names => names.filter(name => name.scrollWidth > name.clientWidth)"
        ".map(name => name.textContent)"
    )
    assert cut == []


def test_the_notebook_has_room_for_the_longest_line(lesson: Page) -> None:
    editor = shown(lesson, ".jp-CodeCell .cm-content").first
    columns = editor.evaluate(
        """editor => {
            const ruler = document.createElement("span");
            ruler.textContent = "x".repeat(75);
            const line = editor.querySelector(".cm-line");
            line.append(ruler);
            const width = ruler.getBoundingClientRect().width;
            ruler.remove();
            return line.clientWidth / width * 75;
        }"""
    )
    assert columns >= 75


def test_a_hidden_source_opens_collapsed_over_its_output(small: Page) -> None:
    cell = shown(small, ".jp-CodeCell").first
    expect(cell.locator(".jp-InputArea-editor")).to_have_count(0)
    expect(cell.locator(".jp-InputPlaceholder")).to_be_visible()
    expect(cell.locator(".jp-OutputArea-output")).to_contain_text("4.0")
    cell.locator(".jp-InputPlaceholder").get_by_text("import math").click()
    expect(cell.locator(".jp-InputArea-editor")).to_contain_text("def root(x):")


def test_a_folded_section_opens_folded_until_it_is_asked_for(small: Page) -> None:
    expect(shown(small, "h2")).to_contain_text(["A folded section", "The next section"])
    code = shown(small, ".jp-CodeCell").filter(has_text="folded = True")
    expect(code).to_be_hidden()
    small.get_by_role("button", name="2 cells hidden").click()
    expect(code).to_be_visible()


def test_saving_writes_the_py_too_and_keeps_what_is_folded(small: Page, clone: Path) -> None:
    py, ipynb = (clone / "lessons" / f"98_small.{ending}" for ending in ("py", "ipynb"))
    editor = shown(small, ".jp-CodeCell .cm-content").filter(has_text="seen = True")
    editor.click()
    small.keyboard.press("End")
    small.keyboard.insert_text("  # by the learner")
    small.keyboard.press("Control+s")
    wait_until(lambda: "seen = True  # by the learner" in py.read_text(encoding="utf-8"))
    saved = nbformat.read(ipynb, as_version=4).cells
    assert saved[2].source == "seen = True  # by the learner"
    assert saved[1].metadata == SMALL[1].metadata
    assert saved[3].metadata == SMALL[3].metadata


def test_what_an_editor_writes_into_the_py_is_read(
    browser: Browser, address: str, clone: Path, lesson: Page
) -> None:
    py = clone / "lessons" / "98_small.py"
    before = py.read_text(encoding="utf-8")
    assert "folded = True" in before
    py.write_text(before.replace("folded = True", "folded = 'elsewhere'"), encoding="utf-8")
    with page_at(browser, f"{address}/lab/tree/lessons/98_small.ipynb", "98_small") as page:
        page.get_by_role("button", name="2 cells hidden").click()
        expect(shown(page, ".jp-CodeCell").last).to_contain_text("folded = 'elsewhere'")


def test_the_learners_arrangement_is_kept_and_another_lesson_opens(
    browser: Browser, open_lab: OpenLab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clone = tmp_path_factory.mktemp("another clone")
    shutil.copy(ROOT / "jupytext.toml", clone)
    (clone / "lessons").mkdir()
    name, another = "98_small", "99_another"
    write_lesson(clone / "lessons", name, SMALL)
    write_lesson(clone / "lessons", another, [new_markdown_cell("# 99 · Another"), *SMALL[1:]])
    with open_lab(clone, name) as address, page_at(browser, address, name) as page:
        expect(page.locator("#table-of-contents")).to_be_visible()
        page.locator(TOC_TAB).click()
        expect(page.locator("#table-of-contents")).to_be_hidden()
        wait_until(lambda: right_panel_is_closed(clone))
    with open_lab(clone, another) as address, page_at(browser, address, another) as page:
        expect(shown(page, "h1")).to_contain_text("99 · Another")
        expect(page.locator("#filebrowser")).to_be_visible()
        expect(page.locator("#table-of-contents")).to_be_hidden()
        page.locator(TOC_TAB).click()
        expect(page.locator(".jp-tocItem-content").first).to_have_text("99 · Another")


def shown(page: Page, selector: str) -> Locator:
    """What matches in the notebook that is in front."""
    return page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook {selector}".strip())


def headings(notebook: nbformat.NotebookNode) -> list[str]:
    """The headings of a notebook's text as they are read, without those of quoted text."""
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        heading.replace("`", "").replace("*", "")
        for heading in re.findall(r"^#{1,4} (.+)$", text, re.MULTILINE)
    ]


def right_panel_is_closed(clone: Path) -> bool:
    """Whether JupyterLab has written, and written to the end, that the right panel is closed."""
    file = clone / "build/lab/workspaces" / WORKSPACE
    try:
        arrangement = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return False
    return arrangement["data"]["layout-restorer:data"]["right"]["collapsed"]


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until it holds, and fail if it does not."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)
