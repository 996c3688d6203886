"""What each term of a loss contributes: the words and the picture."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from ehr_course.plots.loss_terms import (
    Contribution,
    describe_loss_terms,
    draw_loss_terms,
    loss_terms_title,
)
from ehr_course.widgets.loss_terms import MeasuredTerms, contributions

WEIGHTS = {"age_weight": 0.3, "sex_weight": 2.0, "co_occurrence_weight": 5.0}
MOSTLY_LANGUAGE = [
    Contribution("language model", 2.378, 0.87, 0.76),
    Contribution("age", 0.2625, 0.096, 0.24),
    Contribution("sex", 0.0876, 0.034, 0.0104),
    Contribution("co-occurrence", 0.0005, 0.0002, -0.0104),
]
MOSTLY_AGE = [
    Contribution("language model", 2.5, 0.5, 0.1),
    Contribution("age", 2.0, 0.4, 0.7),
    Contribution("sex", 0.5, 0.1, 0.2),
    Contribution("co-occurrence", 0.0, 0.0, 0.0),
]


@pytest.fixture(scope="module")
def measured():
    gradients = np.random.default_rng(0).normal(size=(5, 3))
    return MeasuredTerms(np.array([2.4, 4.0, 0.9, 0.5, 0.02]), gradients @ gradients.T)


def test_the_title_says_how_much_the_largest_term_is():
    title = loss_terms_title(MOSTLY_LANGUAGE)
    assert title == "Language model: 87% of the loss, 76% of its gradient"


def test_the_title_says_when_loss_and_gradient_disagree():
    title = loss_terms_title(MOSTLY_AGE)
    assert title == "Language model is most of the loss, age most of its gradient"


def test_the_alternative_text():
    assert describe_loss_terms(MOSTLY_LANGUAGE) == (
        "The loss is 2.729. Its terms: language model 2.3780 (87% of it, and 76% of the "
        "gradient); age 0.2625 (9.6% of it, and 24% of the gradient); sex 0.0876 (3.4% of it, "
        "and 1.0% of the gradient); co-occurrence 0.0005 (under 0.1% of it, and -1.0% of the "
        "gradient)."
    )


def test_drawing_twice_gives_the_same_bytes(measured):
    found = contributions(measured, **WEIGHTS)
    assert draw_loss_terms(found).png() == draw_loss_terms(found).png()


def test_a_bar_is_as_long_as_its_share():
    picture = draw_loss_terms(MOSTLY_LANGUAGE)
    bars = [
        [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
        for axes in picture.axes
    ]
    assert bars == [[0.87, 0.096, 0.034, 0.0002], [0.76, 0.24, 0.0104, -0.0104]]


@pytest.mark.parametrize("weight", [0.0, 0.001, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_no_text_is_cut_off_and_no_text_lies_on_another(measured, drawn, weight, smoothing):
    weights = dict.fromkeys(WEIGHTS, weight)
    result = drawn(draw_loss_terms(contributions(measured, **weights, label_smoothing=smoothing)))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize("terms", [MOSTLY_LANGUAGE, MOSTLY_AGE])
def test_texts_of_any_shares_fit(drawn, terms):
    result = drawn(draw_loss_terms(terms))
    assert result.cut_off() == []
    assert result.overlapping() == []
