"""Lesson 12 in a real JupyterLab: the prompt explorer, as a learner uses it.

The lesson trains models. Only the cells up to the explorer are run.
"""

import re
from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = ("SEED = 0", "import torch", "prompt_explorer(")
    with opened(browser, lab, "12_conditional_prompt", *cells) as notebook:
        yield notebook


@pytest.fixture
def cell(notebook: NotebookPage) -> Locator:
    """The explorer's cell, its picture in sight: a woman of 30."""
    cell = notebook.cell_with("prompt_explorer(")
    picture(cell).scroll_into_view_if_needed()
    return cell


def patient(cell: Locator) -> str:
    """Whom the words under the picture speak of."""
    return words(cell).inner_text().partition(":")[0]


def test_the_cells_run_without_an_error(notebook: NotebookPage, cell: Locator) -> None:
    expect(picture(cell)).to_be_visible()
    assert notebook.errors() == []
    assert picture(cell).evaluate("image => image.naturalWidth") > 300


def test_moving_the_age_changes_the_picture_and_its_words(
    notebook: NotebookPage, cell: Locator
) -> None:
    before, who = picture(cell).get_attribute("src"), patient(cell)
    handle = cell.locator(".noUi-handle").first
    handle.focus()
    notebook.page.keyboard.press("ArrowRight")
    age = int(re.search(r"\d+", who)[0])
    expect(words(cell)).to_contain_text(f"{who.split(',')[0]}, {age + 1}:")
    expect(picture(cell)).not_to_have_attribute("src", before)


def test_the_slider_ends_at_a_newborn_and_above_89(notebook: NotebookPage, cell: Locator) -> None:
    handle = cell.locator(".noUi-handle").first
    handle.focus()
    notebook.page.keyboard.press("Home")
    expect(words(cell)).to_contain_text(", under 1 year:")
    notebook.page.keyboard.press("End")
    expect(words(cell)).to_contain_text(", above 89:")


def test_the_other_sex_is_another_picture(cell: Locator) -> None:
    sex = cell.locator("select")
    for label, person in (("male", "Man, "), ("female", "Woman, "), ("male", "Man, ")):
        if sex.evaluate("select => select.selectedOptions[0].text") == label:
            continue
        before = picture(cell).get_attribute("src")
        sex.select_option(label=label)
        expect(words(cell)).to_contain_text(person)
        expect(picture(cell)).not_to_have_attribute("src", before)
