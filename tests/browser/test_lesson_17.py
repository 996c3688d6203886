"""Lesson 17 in a real JupyterLab: the coverage player and the beam tree, as a learner uses them.

The lesson trains many models. A few of them are enough for the widgets.
"""

from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect

PLAYER = "coverage_player(looks"
TREE = "beam_tree(young"


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = (
        "SEED = 0",
        "import torch",
        "def lists(",
        "def trained(",
        "plain = trained(SEED)",
        "def places(",
        "looks = {",
        PLAYER,
        "six = [trained(seed, steps=40)",
        TREE,
    )
    with opened(browser, lab, "17_coverage_and_beam_search", *cells) as notebook:
        yield notebook


@pytest.fixture
def player(notebook: NotebookPage) -> Locator:
    """The player's cell, its picture in sight."""
    cell = notebook.cell_with(PLAYER)
    picture(cell).scroll_into_view_if_needed()
    return cell


@pytest.fixture
def tree(notebook: NotebookPage) -> Locator:
    """The tree's cell, its picture in sight."""
    cell = notebook.cell_with(TREE)
    picture(cell).scroll_into_view_if_needed()
    return cell


def test_the_cells_run_without_an_error(
    notebook: NotebookPage, player: Locator, tree: Locator
) -> None:
    for cell in (player, tree):
        expect(picture(cell)).to_be_visible()
        assert picture(cell).evaluate("image => image.naturalWidth") > 300
    assert notebook.errors() == []


def test_the_player_moves_step_by_step(notebook: NotebookPage, player: Locator) -> None:
    for step in (8, 9):  # it opens at step 7, one before the model goes back
        before = picture(player).get_attribute("src")
        player.locator(".noUi-handle").first.focus()
        notebook.page.keyboard.press("ArrowRight")
        expect(picture(player)).not_to_have_attribute("src", before)
        expect(words(player)).to_contain_text(f"Step {step} writes")


def test_one_beam_is_another_tree_than_three(notebook: NotebookPage, tree: Locator) -> None:
    before, said = picture(tree).get_attribute("src"), words(tree).inner_text()
    tree.locator(".noUi-handle").first.focus()
    notebook.page.keyboard.press("Home")
    expect(picture(tree)).not_to_have_attribute("src", before)
    expect(words(tree)).not_to_have_text(said)
