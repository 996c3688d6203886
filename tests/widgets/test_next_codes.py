"""The next code by age and sex: the probabilities, and what age or sex rules out."""

import numpy as np
import pytest
import torch

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.prompt import (
    NextCodes,
    next_codes,
    next_token_probabilities,
    ruled_out,
)

CODES = ("185", "4280", "650", "I5023", "V3001")


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


@pytest.mark.parametrize(("age", "sex"), [(91, "F"), (-1, "F"), (64, "X"), (64, "f")])
def test_nobody_of_that_age_or_sex(model, tokenizer, age, sex):
    with pytest.raises(InputError, match=r"is neither|is not an age"):
        next_codes(model, tokenizer, age=age, sex=sex)


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
def test_there_is_a_reason_exactly_where_the_rules_say_impossible(age, sex):
    codes = {code for record in make_cohort(300, seed=0) for code in record.codes}
    assert sum(bool(ruled_out(code, age=age, sex=sex)) for code in codes) > 0
    for code in codes:
        impossible = icd9.why_impossible(code, age=age, sex=sex) is not None
        assert bool(ruled_out(code, age=age, sex=sex)) is impossible


def test_the_share_that_is_ruled_out():
    # For a woman of 30: 185 and V30.01; for a man: 650 and V30.01.
    assert WOMAN.ruled_out_share == pytest.approx(0.0204 + 0.125)
    assert MAN.ruled_out_share == pytest.approx(0.5 + 0.125)
