"""The next code by age and sex: the probabilities, the words and the picture."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from ehr_course.plots.prompt import (
    NextCodes,
    describe_next_codes,
    draw_next_codes,
    next_code_title,
)

CODES = ("185", "4280", "650", "I5023", "V3001")
PAPER = "#ffffff"


def shown(*percent, age=30, sex="F", other=None):
    probabilities = np.array(percent) / 100
    return NextCodes(
        age, sex, CODES, probabilities, probabilities if other is None else np.array(other) / 100
    )


WOMAN = shown(2.04, 20, 50, 1, 12.5)
MAN = shown(2.04, 20, 50, 1, 12.5, sex="M", other=(2, 60, 10, 3, 1))


# ---------------------------------------------------------------------- the probabilities


# ---------------------------------------------------------------------- who can have a code


# ---------------------------------------------------------------------- words


def test_the_title_says_who_and_which_code_comes_first():
    assert next_code_title(WOMAN) == "Woman, 30: 650 is the likeliest first code (50.0%)"


def test_the_title_says_that_the_first_is_ruled_out():
    assert next_code_title(MAN) == (
        "Man, 30: 650 is the likeliest first code (50.0%), though ruled out"
    )


def test_codes_of_equal_probability_keep_the_order_of_the_vocabulary():
    assert shown(1, 5, 1, 5, 1).most_probable(4) == [1, 3, 0, 2]


def test_the_alternative_text():
    assert describe_next_codes(WOMAN, most=4) == (
        "Bars of the 4 most probable first codes of a patient (woman, 30) of whom the model "
        "knows age and sex alone, first 650 Normal delivery (50.0%), 428.0 Congestive heart "
        "failure, unspecified (20.0%), V30.01 Single liveborn, born in hospital, delivered by "
        "cesarean section (12.5%); age or sex rules out 2 of the 4, and codes with 14.5% of all "
        "probability."
    )


# ---------------------------------------------------------------------- the picture


def texts(picture):
    return [text.get_text() for text in picture.axes[0].texts]


def bars(picture):
    """The bars of the codes, from the top down; the two keys of the legend stand last."""
    return picture.axes[0].findobj(
        lambda artist: isinstance(artist, Rectangle) and artist in picture.axes[0].patches
    )[:-2]


def lines(picture):
    return [line.get_xdata()[0] for line in picture.axes[0].lines[:-1]]


def test_drawing_twice_gives_the_same_bytes():
    assert draw_next_codes(MAN).png() == draw_next_codes(MAN).png()


def test_the_picture_carries_title_and_alternative_text():
    picture = draw_next_codes(MAN, most=3)
    assert picture.alternative_text == describe_next_codes(MAN, most=3)
    assert next_code_title(MAN) in texts(picture)


def test_the_most_probable_stand_first_with_their_titles_and_percents():
    drawn = texts(draw_next_codes(WOMAN, most=3))
    wanted = ["650", "Normal delivery", "50.0%", "428.0", "20.0%", "V30.01", "12.5%"]
    assert [text for text in drawn if text in wanted] == wanted
    assert "2.0%" not in drawn


def test_a_bar_is_as_long_as_its_probability():
    widths = [bar.get_width() for bar in bars(draw_next_codes(WOMAN))]
    assert np.array(widths) / widths[0] == pytest.approx([1, 0.4, 0.25, 0.0408, 0.02])


def test_a_line_stands_at_the_probability_of_the_other_sex():
    picture = draw_next_codes(MAN)
    start, unit = bars(picture)[0].get_x(), bars(picture)[0].get_width() / 50
    at = [(x - start) / unit for x in lines(picture)]
    assert at == pytest.approx([10, 60, 1, 2, 3])  # 650, 428.0, V30.01, 185, I5023


def test_what_is_ruled_out_is_hatched_and_says_why():
    picture = draw_next_codes(MAN)
    assert [to_hex(bar.get_facecolor()) == PAPER for bar in bars(picture)] == [
        *(True, False, True),
        *(False, False),
    ]
    assert [bool(bar.get_hatch()) for bar in bars(picture)] == [True, False, True, False, False]
    assert [t for t in texts(picture) if t.endswith(" only")] == ["females only", "age 0 only"]


@pytest.mark.parametrize(
    ("age", "sex", "other"), [(30, "F", "a man"), (17, "F", "a boy"), (0, "M", "a girl")]
)
def test_the_legend_says_who_the_line_is(age, sex, other):
    assert f"{other} of that age" in texts(draw_next_codes(shown(1, 1, 1, 1, 1, age=age, sex=sex)))


@pytest.mark.parametrize("largest", [0.9, 2, 4, 6, 9, 14, 29, 45, 69, 100])
def test_the_longest_bar_fills_a_good_part_of_its_place_and_never_more(largest):
    widths = [bar.get_width() for bar in bars(draw_next_codes(shown(0, 0, largest, 0, 0)))]
    assert 0.95 < widths[0] <= 2.2


def many(seed, *, age, sex, codes):
    rng = np.random.default_rng(seed)
    both = rng.dirichlet(np.full(len(codes), 0.3), size=2)
    return NextCodes(age, sex, codes, *both)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("age", "sex"), [(0, "F"), (34, "M"), (90, "F")])
def test_no_text_is_cut_off_and_no_text_lies_on_another(seed, age, sex, code_tokenizer, drawn):
    result = drawn(draw_next_codes(many(seed, age=age, sex=sex, codes=code_tokenizer.codes)))
    assert result.cut_off() == []
    assert result.overlapping() == []


def test_a_title_without_room_ends_with_an_ellipsis():
    drawn = texts(draw_next_codes(WOMAN))
    (title,) = [text for text in drawn if text.startswith("Single liveborn")]
    assert title.endswith("…")
    assert "Single liveborn, born in hospital, delivered by cesarean section".startswith(
        title[:-1]
    )
