"""The explorer of a loss's terms: its controls set the weights."""

import pytest
import torch

from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.loss_terms import (
    contributions,
    draw_loss_terms,
    loss_terms_explorer,
    measure_terms,
)

RECORDS = [
    PatientRecord(1, "F", 64, (Visit(("4280", "486")), Visit(("5849", "4280")))),
    PatientRecord(2, "M", 3, (Visit(("V3001",)),)),
]
TOKENIZER = CodeTokenizer.from_records(RECORDS)
NEVER = torch.zeros(len(TOKENIZER), len(TOKENIZER), dtype=torch.bool)
NEVER[-1, -2] = NEVER[-2, -1] = True
AT_FIRST = {
    "age_weight": 0.001,
    "sex_weight": 0.001,
    "co_occurrence_weight": 0.05,
    "label_smoothing": 0.0,
}


def model(**weights):
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **weights))


@pytest.fixture(scope="module")
def batch():
    return RecordDataset(RECORDS, TOKENIZER).batch([0, 1])


@pytest.fixture(scope="module")
def asked():
    return model(age_weight=1.0, sex_weight=1.0)


@pytest.fixture
def explorer(asked, batch):
    return loss_terms_explorer(asked, batch, NEVER)


def drawn(asked, batch, **changes):
    measured = measure_terms(asked, batch, NEVER)
    return draw_loss_terms(contributions(measured, **AT_FIRST | changes)).live_png()


def test_it_starts_at_light_weights(explorer, asked, batch):
    assert explorer.image.value == drawn(asked, batch)


def test_it_opens_where_it_is_told(asked, batch):
    weights = {"age_weight": 3.0, "sex_weight": 1.0, "co_occurrence_weight": 10.0}
    explorer = loss_terms_explorer(asked, batch, NEVER, **weights)
    assert {name: explorer.controls[name].value for name in weights} == weights
    assert explorer.image.value == drawn(asked, batch, **weights)


@pytest.mark.parametrize(
    ("control", "value"),
    [
        ("age_weight", 3.0),
        ("sex_weight", 0.5),
        ("co_occurrence_weight", 10.0),
        ("label_smoothing", 0.2),
    ],
)
def test_a_control_sets_its_own_weight(explorer, asked, batch, control, value):
    explorer.controls[control].value = value
    assert explorer.error is None
    assert explorer.image.value == drawn(asked, batch, **{control: value})
    assert explorer.image.value != drawn(asked, batch)


def test_a_page_without_a_kernel_shows_the_picture(explorer):
    data, _ = explorer._repr_mimebundle_()
    assert data["image/png"]
    assert "The loss of one batch is " in data["text/plain"]


def test_a_model_without_heads_is_refused(batch):
    with pytest.raises(InputError, match="no age and no sex head"):
        loss_terms_explorer(model(), batch, NEVER)


def test_every_control_has_a_label_that_is_shown_whole(explorer):
    for control in explorer.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
