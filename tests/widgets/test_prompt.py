"""The prompt explorer: age and sex choose whose codes are drawn."""

import ipywidgets
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.prompt import draw_next_codes, next_codes, prompt_explorer


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(["185", "4280", "486", "650", "V3001"])


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer)).eval()


def test_the_explorer_starts_with_the_patient_that_is_asked_for(model, tokenizer):
    explorer = prompt_explorer(model, tokenizer, age=3, sex="M")
    found = next_codes(model, tokenizer, age=3, sex="M")
    assert explorer.image.value == draw_next_codes(found).live_png()


@pytest.mark.parametrize(("control", "value"), [("age", 0), ("age", 90), ("sex", "M")])
def test_a_control_chooses_the_patient(model, tokenizer, control, value):
    explorer = prompt_explorer(model, tokenizer)
    explorer.controls[control].value = value
    chosen = {"age": 64, "sex": "F"} | {control: value}
    found = next_codes(model, tokenizer, **chosen)
    assert explorer.error is None
    assert explorer.image.value == draw_next_codes(found).live_png()
    assert explorer.alternative_text == draw_next_codes(found).alternative_text


def test_ages_run_from_0_to_90_and_are_drawn_where_the_slider_stops(model, tokenizer):
    slider = prompt_explorer(model, tokenizer).controls["age"]
    assert isinstance(slider, ipywidgets.IntSlider)
    assert (slider.min, slider.max) == (0, 90)
    assert slider.continuous_update is False


def test_every_control_has_a_label_that_is_shown_whole(model, tokenizer):
    for name, control in prompt_explorer(model, tokenizer).controls.items():
        assert control.description == name
        assert control.style.description_width == "initial"


@pytest.mark.parametrize(("age", "sex"), [(91, "F"), (-1, "F"), (64, "X")])
def test_nobody_of_that_age_or_sex(model, tokenizer, age, sex):
    with pytest.raises(InputError):
        prompt_explorer(model, tokenizer, age=age, sex=sex)
