"""Lesson 15 in a real JupyterLab: the number line of float16, as a learner uses it.

The lesson trains models. Only the cells that compute a gradient are run, and the explorer's.
"""

from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect

EXPLORER = "number_line_explorer(gradients)"


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = (
        "SEED = 0",
        "import torch",
        "from ehr_course import (",
        "# patients (of the embedded hospital",
        "dataset = RecordDataset(",
        "def micro_batches(",
        "model, batch = new_model(dropout=0.0)",
        EXPLORER,
    )
    with opened(browser, lab, "15_training_loop", *cells) as notebook:
        yield notebook


@pytest.fixture
def cell(notebook: NotebookPage) -> Locator:
    """The explorer's cell, its picture in sight."""
    cell = notebook.cell_with(EXPLORER)
    picture(cell).scroll_into_view_if_needed()
    return cell


def test_the_cells_run_without_an_error(notebook: NotebookPage, cell: Locator) -> None:
    expect(picture(cell)).to_be_visible()
    assert notebook.errors() == []
    assert picture(cell).evaluate("image => image.naturalWidth") > 300


def test_moving_the_loss_scale_moves_the_gradients(notebook: NotebookPage, cell: Locator) -> None:
    before, said = picture(cell).get_attribute("src"), words(cell).inner_text()
    cell.locator(".noUi-handle").first.focus()
    notebook.page.keyboard.press("End")
    expect(picture(cell)).not_to_have_attribute("src", before)
    expect(words(cell)).not_to_have_text(said)
