"""The next code by age and sex: the probabilities, the words and the picture."""

import copy

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.prompt import (
    NextCodes,
    describe_next_codes,
    draw_next_codes,
    next_code_title,
    next_codes,
    next_token_probabilities,
    ruled_out,
)
from ehr_course.tokenizers.codes import CodeTokenizer

CODES = ("185", "4280", "650", "I5023", "V3001")
PAPER = "#ffffff"


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(CODES)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer)).eval()


def shown(*percent, age=30, sex="F", other=None):
    probabilities = np.array(percent) / 100
    return NextCodes(
        age, sex, CODES, probabilities, probabilities if other is None else np.array(other) / 100
    )


WOMAN = shown(2.04, 20, 50, 1, 12.5)
MAN = shown(2.04, 20, 50, 1, 12.5, sex="M", other=(2, 60, 10, 3, 1))


# ---------------------------------------------------------------------- the probabilities


def test_probabilities_are_those_after_an_opened_visit_of_an_unknown_record(model, tokenizer):
    given = {"x_num": torch.tensor([[64.0]]), "x_cat": torch.tensor([[1]])}  # a woman
    empty = torch.tensor([[tokenizer.bos_id, tokenizer.mask_id, tokenizer.eos_id]])
    before = torch.tensor([[tokenizer.eos_id, tokenizer.bos_id, tokenizer.visit_start_id]])
    with torch.no_grad():
        logits = model(empty, decoder_input_ids=before, **given).logits[0, 2].double()
    expected = torch.exp(logits) / torch.exp(logits).sum()
    (row,) = next_token_probabilities(model, tokenizer, [(64, "F")])
    np.testing.assert_allclose(row, expected.numpy(), rtol=1e-5)


def test_each_code_has_its_own_probability_for_both_sexes(model, tokenizer):
    of_woman, of_man = next_token_probabilities(model, tokenizer, [(64, "F"), (64, "M")])
    found = next_codes(model, tokenizer, age=64, sex="F")
    for code, here, there in zip(found.codes, found.probabilities, found.other_sex, strict=True):
        assert here == pytest.approx(of_woman[tokenizer.code_to_id(code)], rel=1e-6)
        assert there == pytest.approx(of_man[tokenizer.code_to_id(code)], rel=1e-6)
    assert not np.allclose(found.probabilities, found.other_sex)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_model_on_a_gpu_gives_the_same_probabilities(tokenizer, model):
    here = next_token_probabilities(model, tokenizer, [(64, "F")])
    there = next_token_probabilities(copy.deepcopy(model).cuda(), tokenizer, [(64, "F")])
    np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-4)


def test_dropout_is_off_and_the_model_stays_as_it_was(tokenizer, model):
    before = next_token_probabilities(model, tokenizer, [(64, "F")])
    model.train()
    try:
        again = next_token_probabilities(model, tokenizer, [(64, "F")])
        assert model.training
    finally:
        model.eval()
    np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize(("age", "sex"), [(91, "F"), (-1, "F"), (64, "X"), (64, "f")])
def test_nobody_of_that_age_or_sex(model, tokenizer, age, sex):
    with pytest.raises(InputError, match=r"is neither|is not an age"):
        next_codes(model, tokenizer, age=age, sex=sex)


# ---------------------------------------------------------------------- who can have a code


@pytest.mark.parametrize(
    ("code", "age", "sex", "reason"),
    [
        ("650", 30, "F", ""),
        ("650", 30, "M", "females only"),
        ("650", 70, "F", "age 12 to 55 only"),
        ("185", 70, "F", "males only"),
        ("V3001", 0, "M", ""),
        ("V3001", 1, "M", "age 0 only"),
        ("2900", 7, "F", "from age 50 only"),
        ("78341", 30, "F", "up to age 17 only"),
        ("I5023", 30, "F", ""),
    ],
)
def test_who_alone_can_have_a_code(code, age, sex, reason):
    assert ruled_out(code, age=age, sex=sex) == reason


@pytest.mark.parametrize("age", [0, 7, 30, 90])
@pytest.mark.parametrize("sex", ["F", "M"])
def test_there_is_a_reason_exactly_where_the_rules_say_impossible(code_tokenizer, age, sex):
    for code in filter(icd9.is_code, code_tokenizer.codes):
        impossible = icd9.why_impossible(code, age=age, sex=sex) is not None
        assert bool(ruled_out(code, age=age, sex=sex)) is impossible


def test_the_share_that_is_ruled_out():
    # For a woman of 30: 185 and V30.01; for a man: 650 and V30.01.
    assert WOMAN.ruled_out_share == pytest.approx(0.0204 + 0.125)
    assert MAN.ruled_out_share == pytest.approx(0.5 + 0.125)


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
