"""The explorer of a prefix's attention: its controls choose the patient and the token."""

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.prefix_attention import (
    draw_prefix_attention,
    prefix_attention,
    prefix_attention_explorer,
)

RECORDS = make_cohort(4, seed=3)
TOKENIZER = CodeTokenizer.from_records(RECORDS)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    base = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "narrow"))
    return PrefixTuned(base, PrefixConfig(3), seed=1)


@pytest.fixture(scope="module")
def paid(model):
    return prefix_attention(model, TOKENIZER, RECORDS)


@pytest.fixture
def explorer(model):
    return prefix_attention_explorer(model, TOKENIZER, RECORDS)


def test_it_starts_with_the_first_token_of_the_first_patient(explorer, paid):
    assert explorer.image.value == draw_prefix_attention(paid[0], 0).live_png()


def test_the_sliders_choose_patient_and_token(explorer, paid):
    explorer.controls["patient"].value = 2
    explorer.controls["token"].value = 4
    assert explorer.image.value == draw_prefix_attention(paid[2], 4).live_png()
    assert f"After {paid[2].tokens[4]}" in explorer.alternative_text


def test_a_shorter_record_stays_at_its_last_token(explorer, paid):
    lengths = [len(one.tokens) for one in paid]
    assert len(set(lengths)) > 1
    shortest = lengths.index(min(lengths))
    explorer.controls["token"].value = max(lengths) - 1
    explorer.controls["patient"].value = shortest
    assert explorer.error is None
    expected = draw_prefix_attention(paid[shortest], min(lengths) - 1)
    assert explorer.image.value == expected.live_png()


def test_it_begins_at_the_token_that_is_asked_for(model, paid):
    explorer = prefix_attention_explorer(model, TOKENIZER, RECORDS, token=3)
    assert explorer.image.value == draw_prefix_attention(paid[0], 3).live_png()


def test_a_page_without_a_kernel_shows_the_picture(explorer):
    data, _ = explorer._repr_mimebundle_()
    assert data["image/png"]
    assert "of its attention to the prefix" in data["text/plain"]


@pytest.mark.parametrize("token", [-1, 60])
def test_a_token_that_no_record_has_is_refused(model, token):
    with pytest.raises(InputError, match="there is no token"):
        prefix_attention_explorer(model, TOKENIZER, RECORDS, token=token)


def test_the_explorer_wants_records(model):
    with pytest.raises(InputError, match="the list is empty"):
        prefix_attention_explorer(model, TOKENIZER, [])


def test_every_control_has_a_label_that_is_shown_whole(explorer):
    for control in explorer.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
