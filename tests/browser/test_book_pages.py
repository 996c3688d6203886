"""A lesson's page in the book, in a real browser: what is folded, and what a phone shows."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import nbformat
import pytest
from nbformat import NotebookNode
from playwright.sync_api import Browser, Page
from short_book import short_book

from course.notebook import ASIDE
from ehr_course.plots.canvas import Canvas

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1300, "height": 900}


@pytest.fixture(scope="module")
def lesson_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of lesson 07's page, of a book whose lessons are short."""

    def chosen(number: str, cells: list[NotebookNode]) -> list[NotebookNode]:
        if number != "07":
            return []
        return [
            a_picture(),
            words("## The idea"),
            words(f"{ASIDE}a detour\n\nWhat it is about."),
            words("The detour.\n\n#### 07.6 An exercise\n\nTry it."),
            words("### What every learner reads\n\nThe main road."),
            words(f"{ASIDE}another detour\n\nWith the cells of claims in it."),
        ]

    html = short_book(tmp_path_factory.mktemp("a book"), chosen)
    return (html / "lessons" / "07_tokenization.html").as_uri()


def words(source: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def a_picture() -> NotebookNode:
    picture = Canvas(2.0, "A drawing", "A drawing with a title and nothing else.").finish()
    data = {
        "image/png": base64.b64encode(picture.png()).decode("ascii"),
        "text/plain": picture.alternative_text,
    }
    shown = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    return nbformat.v4.new_code_cell("draw()", outputs=[shown], execution_count=1)


@pytest.fixture
def at_a_desk(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport=DESK)
    yield page
    page.close()


@pytest.fixture
def on_a_phone(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport=PHONE)
    yield page
    page.close()


def test_what_goes_further_is_folded_up_to_the_next_heading(at_a_desk, lesson_page):
    at_a_desk.goto(lesson_page)
    detour = at_a_desk.get_by_text("The detour.")
    assert at_a_desk.get_by_text("What it is about.").is_visible()
    assert at_a_desk.get_by_text("The main road.").is_visible()
    exercise = at_a_desk.get_by_role("heading", name="07.6 An exercise")
    assert not detour.is_visible()
    assert exercise.count() == 0
    at_a_desk.get_by_text("Optional: read on").first.click()
    assert detour.is_visible()
    assert exercise.is_visible()


def test_a_link_to_a_claim_opens_what_hides_it(at_a_desk, lesson_page):
    at_a_desk.goto(f"{lesson_page}#claim-2")
    last = "[...document.querySelectorAll('details.folded-section')].at(-1)"
    at_a_desk.wait_for_function(f"() => {last}.open")
    cell = at_a_desk.locator("[class*='tag_claim:2']").first
    assert cell.is_visible()
    assert 0 <= cell.bounding_box()["y"] < DESK["height"]


def test_a_picture_keeps_a_size_that_can_be_read_on_a_phone(on_a_phone, lesson_page):
    on_a_phone.goto(lesson_page)
    picture = on_a_phone.locator(".cell_output img").first
    assert picture.bounding_box()["width"] >= 600
    page_width = on_a_phone.evaluate("document.documentElement.scrollWidth")
    assert page_width <= PHONE["width"], "the picture moves sideways, and the page does not"


def test_a_picture_fits_the_column_at_a_desk(at_a_desk, lesson_page):
    at_a_desk.goto(lesson_page)
    picture = at_a_desk.locator(".cell_output img").first.bounding_box()
    column = at_a_desk.locator("article").first.bounding_box()
    assert picture["x"] >= column["x"]
    assert picture["x"] + picture["width"] <= column["x"] + column["width"] + 1
