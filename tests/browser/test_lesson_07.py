"""Lesson 07 in a real JupyterLab, as a learner meets it."""

import pytest
from notebook_page import NotebookPage
from playwright.sync_api import Browser, expect

RIGHT = """\
def token_id(code, vocabulary):
    return vocabulary.index(code) + 7


check("07.1", token_id)"""
WRONG = RIGHT.replace(" + 7", "")
BROKEN = RIGHT.replace("vocabulary.index(code) + 7", "vocabulary.position(code)")


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> NotebookPage:
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    notebook = NotebookPage(page, lab, "lessons/07_tokenization.ipynb")
    notebook.run_all()
    return notebook


def test_the_whole_lesson_runs_without_an_error(notebook: NotebookPage) -> None:
    assert notebook.errors() == []
    expect(notebook.cell_with('check("07.1"')).to_contain_text("Not attempted yet")


def test_moving_the_slider_changes_the_picture_and_its_description(
    notebook: NotebookPage,
) -> None:
    cell = notebook.cell_with("token_explorer(patients")
    picture = cell.locator(".widget-image, img.jupyter-widgets").first
    slider = cell.locator(".noUi-handle").first
    slider.scroll_into_view_if_needed()
    expect(picture).to_be_visible()
    before, text_before = picture.get_attribute("src"), cell.inner_text()
    slider.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(picture).not_to_have_attribute("src", before)
    assert picture.evaluate("image => image.naturalWidth") > 300
    expect(cell).not_to_contain_text(text_before)


def test_a_wrong_answer_gets_its_diagnosis_then_the_right_one_is_solved(
    notebook: NotebookPage,
) -> None:
    cell = notebook.cell_with('check("07.1"')
    notebook.replace_and_run(cell, WRONG)
    expect(cell.get_by_role("status")).to_contain_text("07.1 The token id of a code · Not yet")
    expect(cell.get_by_role("status")).to_contain_text("You returned the vocabulary index.")
    notebook.replace_and_run(cell, BROKEN)
    expect(cell.get_by_role("status")).to_contain_text("Error in your code")
    expect(cell.get_by_role("status")).to_contain_text("return vocabulary.position(code)")
    notebook.replace_and_run(cell, RIGHT)
    expect(cell.get_by_role("status")).to_contain_text("07.1 The token id of a code · Solved")
