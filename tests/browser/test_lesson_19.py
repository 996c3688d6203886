"""Lesson 19 in a real JupyterLab: the cohort dashboard, as a learner uses it.

The lesson writes 3,000 patients. Here the dashboard is shown two cohorts of 400.
"""

from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened, picture, words
from playwright.sync_api import Browser, Locator, expect

DASHBOARD = "cohort_dashboard(learned_from"
WRITING = "AS_IT_IS = Sampling()"
FEWER = """\
wanted = sample_profiles(learned_from, 400, seed=SEED)
ways = {"all three": Sampling(temperature=0.7, top_k=40, top_p=0.9), "as it is": Sampling()}
drawn = {
    name: generate_patients(model, tokenizer, wanted, seed=SEED, sampling=way)
    for name, way in ways.items()
}"""


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = (
        "SEED = 0",
        "import torch",
        "adversarial_accuracy, calibrated_for",
        "real = real_data()",
        "def model_for_real_data",
        WRITING,
        DASHBOARD,
    )
    options = {"instead": {WRITING: FEWER}}
    with opened(browser, lab, "19_generation_and_evaluation", *cells, **options) as notebook:
        yield notebook


@pytest.fixture
def dashboard(notebook: NotebookPage) -> Locator:
    """The dashboard's cell, its picture in sight."""
    cell = notebook.cell_with(DASHBOARD)
    picture(cell).scroll_into_view_if_needed()
    return cell


def test_the_cells_run_without_an_error(notebook: NotebookPage, dashboard: Locator) -> None:
    expect(picture(dashboard)).to_be_visible()
    assert picture(dashboard).evaluate("image => image.naturalWidth") > 300
    assert notebook.errors() == []


def test_another_cohort_is_another_picture(dashboard: Locator) -> None:
    before = picture(dashboard).get_attribute("src")
    expect(words(dashboard)).to_contain_text("all three: R²")
    dashboard.locator("select").first.select_option(label="as it is")
    expect(picture(dashboard)).not_to_have_attribute("src", before)
    expect(words(dashboard)).to_contain_text("as it is: R²")


def test_a_chapter_marks_its_codes(dashboard: Locator) -> None:
    before = picture(dashboard).get_attribute("src")
    dashboard.locator("select").nth(1).select_option(label="Circulatory")
    expect(picture(dashboard)).not_to_have_attribute("src", before)
    expect(words(dashboard)).to_contain_text("codes of Circulatory")
