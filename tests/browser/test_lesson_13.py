"""Lesson 13 in a real JupyterLab: the weight explorer, as a learner uses it.

The lesson trains models. Only the cell with the imports is run, and the explorer's.
"""

from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = ("import polars", "weight_explorer(sweep")
    with opened(browser, lab, "13_multi_task_learning", *cells) as notebook:
        yield notebook


@pytest.fixture
def cell(notebook: NotebookPage) -> Locator:
    """The explorer's cell, its picture in sight."""
    cell = notebook.cell_with("weight_explorer(sweep")
    picture(cell).scroll_into_view_if_needed()
    return cell


def test_the_cells_run_without_an_error(notebook: NotebookPage, cell: Locator) -> None:
    expect(picture(cell)).to_be_visible()
    assert notebook.errors() == []
    assert picture(cell).evaluate("image => image.naturalWidth") > 300


def test_another_measure_is_another_picture_with_other_words(cell: Locator) -> None:
    before, said = picture(cell).get_attribute("src"), words(cell).inner_text()
    below = cell.locator("select").nth(1)
    names = below.evaluate("select => [...select.options].map(option => option.text)")
    chosen = below.evaluate("select => select.selectedOptions[0].text")
    below.select_option(label=next(name for name in reversed(names) if name != chosen))
    expect(picture(cell)).not_to_have_attribute("src", before)
    expect(words(cell)).not_to_have_text(said)


def test_moving_the_weights_marks_another_setting(notebook: NotebookPage, cell: Locator) -> None:
    before, said = picture(cell).get_attribute("src"), words(cell).inner_text()
    cell.locator(".noUi-handle").first.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(picture(cell)).not_to_have_attribute("src", before)
    expect(words(cell)).not_to_have_text(said)
