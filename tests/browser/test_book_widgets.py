"""The widgets of the book move in a real browser, without a kernel and without a network."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page
from short_book import ROOT, short_book

from course.syllabus import load_syllabus
from course.widget_states import file_of, widgets_in

NAMES = [lesson.name for lesson in load_syllabus()]


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a book whose lessons have their widgets and little else."""
    return short_book(
        tmp_path_factory.mktemp("book"),
        lambda _, cells: [c for c in cells if "widget" in c.metadata.get("tags", [])],
    )


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1300, "height": 1400}, offline=True)
    yield context.new_page()
    context.close()


def shown(picture: Locator) -> np.ndarray:
    picture.evaluate("image => image.decode()")
    return np.asarray(Image.open(io.BytesIO(picture.screenshot())).convert("RGB"))


def control(row: Locator, place: int) -> Locator:
    return row.locator("label").nth(place).locator("input, select")


def setting(one: Locator) -> str:
    return one.evaluate("c => c.tagName === 'SELECT' ? c.value : c.nextElementSibling.value")


def settings_of(one: Locator) -> int:
    return one.evaluate("c => c.tagName === 'SELECT' ? c.options.length : Number(c.max) + 1")


def place_of(one: Locator) -> int:
    return one.evaluate("c => c.tagName === 'SELECT' ? c.selectedIndex : Number(c.value)")


def move(one: Locator, place: int) -> None:
    if one.evaluate("c => c.tagName") == "SELECT":
        one.select_option(index=place)
    else:
        one.focus()
        one.press("Home")
        for _ in range(place):
            one.press("ArrowRight")


@pytest.mark.parametrize("name", NAMES)
def test_every_control_moves_its_picture_and_brings_the_first_one_back(page, html, name):
    page.goto((html / "lessons" / f"{name}.html").as_uri())
    rows = page.locator(".course-widget-controls")
    widgets = widgets_in(file_of(ROOT, name))
    assert rows.count() == len(widgets)
    for at, widget in enumerate(widgets):
        row = rows.nth(at)
        picture = row.locator("xpath=following-sibling::a[1]/img")
        words = row.locator("xpath=following-sibling::p[@role='status'][1]")
        assert row.locator("xpath=ancestor::a").count() == 0, "moving a control follows no link"
        controls = [control(row, place) for place in range(len(widget["controls"]))]
        first = widget["states"][widget["first"]]
        assert [setting(one) for one in controls] == first["settings"]
        assert words.inner_text() == first["words"]
        before = shown(picture)
        at_first = [place_of(one) for one in controls]
        for one, opens in zip(controls, at_first, strict=True):
            last = settings_of(one) - 1
            for place in (last, 0):
                move(one, place)
                now = [setting(each) for each in controls]
                state = next(s for s in widget["states"] if s["settings"] == now)
                assert words.inner_text() == state["words"]
                assert picture.get_attribute("alt") == state["words"]
                same = state["picture"] == first["picture"]
                assert np.array_equal(shown(picture), before) == same, now
            move(one, opens)
        for one, opens in zip(controls, at_first, strict=True):
            move(one, opens)
        assert np.array_equal(shown(picture), before)
