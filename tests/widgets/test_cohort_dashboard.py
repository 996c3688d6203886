"""The cohort dashboard: its controls choose the cohort and the chapter."""

import pytest

from ehr_course.errors import InputError
from ehr_course.plots.cohort_dashboard import draw_looks, looks_of
from ehr_course.sources.synthetic import make_cohort
from ehr_course.widgets.dashboard import cohort_dashboard

REAL = make_cohort(60, seed=0)
COHORTS = {"as it is": make_cohort(50, seed=1), "top-k 40": make_cohort(40, seed=2)}


@pytest.fixture
def dashboard():
    return cohort_dashboard(REAL, COHORTS)


def drawn(name, chapter=None):
    real, *others = looks_of(REAL, *COHORTS.values())
    look = dict(zip(COHORTS, others, strict=True))[name]
    return draw_looks(real, look, name=name, chapter=chapter or None).live_png()


def test_it_begins_with_the_first_cohort_and_all_codes(dashboard):
    assert dashboard.image.value == drawn("as it is")


def test_another_cohort_is_shown(dashboard):
    dashboard.controls["cohort"].value = "top-k 40"
    assert dashboard.error is None
    assert dashboard.image.value == drawn("top-k 40")
    assert "40 synthetic beside 60 real" in dashboard.alternative_text


def test_a_chapter_is_marked(dashboard):
    dashboard.controls["chapter"].value = 7
    assert dashboard.image.value == drawn("as it is", 7)
    assert "codes of Circulatory" in dashboard.alternative_text


def test_all_codes_can_be_chosen_again_and_the_choice_says_so(dashboard):
    chapter = dashboard.controls["chapter"]
    first = dashboard.image.value
    chapter.value = 7
    chapter.value = 0
    assert chapter.label == "all"
    assert dashboard.image.value == first


def test_every_cohort_can_be_shown_with_every_chapter(dashboard):
    for name in COHORTS:
        dashboard.controls["cohort"].value = name
        for _, chapter in dashboard.controls["chapter"].options:
            dashboard.controls["chapter"].value = chapter
            assert dashboard.error is None


def test_a_page_without_a_kernel_shows_the_picture(dashboard):
    data, _ = dashboard._repr_mimebundle_()
    assert data["image/png"]
    assert data["text/plain"].startswith("as it is: R²")


def test_every_control_has_a_label_that_is_shown_whole(dashboard):
    for control in dashboard.controls.values():
        assert control.description
        assert control.style.description_width == "initial"


def test_the_dashboard_wants_a_cohort():
    with pytest.raises(InputError, match="no cohort is given"):
        cohort_dashboard(REAL, {})


def test_a_cohort_without_patients_is_refused():
    with pytest.raises(InputError, match="no patients"):
        cohort_dashboard(REAL, {"empty": []})
