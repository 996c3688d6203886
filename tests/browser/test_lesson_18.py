"""Lesson 18 in a real JupyterLab: the attention that a prefix gets, as a learner looks at it.

The lesson tunes a prefix. The explorer shows it at its start, before it is tuned.
"""

from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect

EXPLORER = "prefix_attention_explorer(tuned"
TUNING = "fit(tuned, optimizer_of"
NO_TUNING = "tuned = PrefixTuned(base, PrefixConfig(8), seed=SEED).eval()"


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = (
        "SEED = 0",
        "import copy",
        "prefix_attention as shares_paid",
        "loaded = load_checkpoint",
        TUNING,
        EXPLORER,
    )
    options = {"instead": {TUNING: NO_TUNING}}
    with opened(browser, lab, "18_prefix_tuning", *cells, **options) as notebook:
        yield notebook


@pytest.fixture
def explorer(notebook: NotebookPage) -> Locator:
    """The explorer's cell, its picture in sight."""
    cell = notebook.cell_with(EXPLORER)
    picture(cell).scroll_into_view_if_needed()
    return cell


def test_the_cells_run_without_an_error(notebook: NotebookPage, explorer: Locator) -> None:
    expect(picture(explorer)).to_be_visible()
    assert picture(explorer).evaluate("image => image.naturalWidth") > 300
    assert notebook.errors() == []


def test_another_patient_is_another_picture(notebook: NotebookPage, explorer: Locator) -> None:
    before, said = picture(explorer).get_attribute("src"), words(explorer).inner_text()
    explorer.locator(".noUi-handle").first.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(picture(explorer)).not_to_have_attribute("src", before)
    expect(words(explorer)).not_to_have_text(said)


def test_the_token_moves_along_the_record(notebook: NotebookPage, explorer: Locator) -> None:
    for _ in range(3):
        before, said = picture(explorer).get_attribute("src"), words(explorer).inner_text()
        explorer.locator(".noUi-handle").last.focus()
        notebook.page.keyboard.press("ArrowRight")
        expect(picture(explorer)).not_to_have_attribute("src", before)
        expect(words(explorer)).not_to_have_text(said)
        expect(words(explorer)).to_contain_text("of its attention to the prefix")
