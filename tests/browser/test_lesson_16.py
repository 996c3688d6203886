"""Lesson 16 in a real JupyterLab: the generation trace, as a learner steps through it.

Only the cells that its model needs are run, and the player's. The model learns for a few
steps: the player shows what it looks at, whatever it writes.
"""

from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect

TRAINING = "pointing = PointerGenerator(config)"
QUICK_TRAINING = """\
pointing = PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer))
train(pointing, NoteDataset(pairs, tokenizer), steps=25, progress=False)"""


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = (
        "SEED = 0",
        "from ehr_course import (",
        "real = real_notes() is not None",
        "tokenizer = WordTokenizer.from_texts",
        TRAINING,
        "generation_trace_player(traces, word",
    )
    options = {"instead": {TRAINING: QUICK_TRAINING}}
    with opened(browser, lab, "16_pointer_generator", *cells, **options) as notebook:
        yield notebook


@pytest.fixture
def cell(notebook: NotebookPage) -> Locator:
    """The player's cell, its picture in sight."""
    cell = notebook.cell_with("generation_trace_player(traces, word")
    picture(cell).scroll_into_view_if_needed()
    return cell


def test_the_cells_run_without_an_error(notebook: NotebookPage, cell: Locator) -> None:
    expect(picture(cell)).to_be_visible()
    assert notebook.errors() == []
    assert picture(cell).evaluate("image => image.naturalWidth") > 300


def test_the_slider_steps_through_the_words(notebook: NotebookPage, cell: Locator) -> None:
    cell.locator(".noUi-handle").first.focus()
    notebook.page.keyboard.press("Home")
    expect(words(cell)).to_contain_text("Word 1 of")
    for word in (2, 3, 4):
        before = picture(cell).get_attribute("src")
        cell.locator(".noUi-handle").first.focus()
        notebook.page.keyboard.press("ArrowRight")
        expect(picture(cell)).not_to_have_attribute("src", before)
        expect(words(cell)).to_contain_text(f"Word {word} of")


def test_another_summary_is_another_picture(cell: Locator) -> None:
    before, said = picture(cell).get_attribute("src"), words(cell).inner_text()
    cell.locator("select").first.select_option(label="note 2")
    expect(picture(cell)).not_to_have_attribute("src", before)
    expect(words(cell)).not_to_have_text(said)
