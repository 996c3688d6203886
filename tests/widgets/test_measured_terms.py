"""What each term of a loss contributes: the measuring and the shares."""

import numpy as np
import pytest
import torch

from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.losses import co_occurrence_penalty
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.loss_terms import MeasuredTerms, contributions, measure_terms

RECORDS = [
    PatientRecord(1, "F", 64, (Visit(("4280", "486")), Visit(("5849", "4280")))),
    PatientRecord(2, "M", 3, (Visit(("V3001",)),)),
]


TOKENIZER = CodeTokenizer.from_records(RECORDS)


WEIGHTS = {"age_weight": 0.3, "sex_weight": 2.0, "co_occurrence_weight": 5.0}


def small(**changes):
    torch.manual_seed(0)
    fields = {"d_model": 16, "d_prompt": 8, "age_weight": 0.3, "sex_weight": 2.0} | changes
    for side in ("encoder", "decoder"):
        fields |= {f"{side}_layers": 1, f"{side}_ffn_dim": 32}
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **fields))


@pytest.fixture(scope="module")
def batch():
    return RecordDataset(RECORDS, TOKENIZER).batch([0, 1])


@pytest.fixture(scope="module")
def never():
    table = torch.zeros(len(TOKENIZER), len(TOKENIZER), dtype=torch.bool)
    newborn, heart = (TOKENIZER.code_to_id(code) for code in ("V3001", "4280"))
    table[newborn, heart] = table[heart, newborn] = True
    return table


@pytest.fixture(scope="module")
def measured(batch, never):
    return measure_terms(small(), batch, never)


def gradient_of(loss, model):
    """By backward, in place of autograd.grad."""
    model.zero_grad()
    loss.backward()
    return torch.cat(
        [
            (p.grad if p.grad is not None else torch.zeros_like(p)).flatten().double()
            for name, p in model.named_parameters()
            if not name.startswith("heads.")
        ]
    )


def test_the_total_is_that_of_the_model_and_of_the_library(measured, batch, never):
    model = small().eval()
    logits = model(**batch | {"labels": None}).logits
    scored = batch["labels"] != -100
    penalty, count = co_occurrence_penalty(logits, batch["decoder_input_ids"], never, scored)
    expected = model(**batch).loss + 5.0 * penalty / count
    amounts = [term.amount for term in contributions(measured, **WEIGHTS)]
    assert sum(amounts) == pytest.approx(expected.item(), rel=1e-5)
    assert amounts[3] == pytest.approx(5.0 * (penalty / count).item(), rel=1e-5) != 0


def test_a_smoothed_term_is_pytorchs_smoothed_loss(measured, batch):
    logits = small().eval()(**batch | {"labels": None}).logits
    expected = torch.nn.functional.cross_entropy(
        logits.mT, batch["labels"], label_smoothing=0.3
    ).item()
    language = contributions(measured, **WEIGHTS, label_smoothing=0.3)[0]
    assert language.amount == pytest.approx(expected, rel=1e-5)


def test_the_shares_of_the_gradient_are_those_of_backward(measured, batch):
    model = small().eval()
    counts = {"token": int((batch["labels"] != -100).sum()), "row": 2}
    parts = []
    for name in ("language_model", "age", "sex"):
        (term,) = (term for term in model(**batch).terms if term.name == name)
        parts.append(gradient_of(term.weight * term.total / counts[term.per], model))
    total = sum(parts)
    expected = [float(part @ total / (total @ total)) for part in parts]
    found = contributions(measured, **WEIGHTS | {"co_occurrence_weight": 0.0})
    assert [term.of_gradient for term in found[:3]] == pytest.approx(expected, rel=1e-4)
    assert found[3].of_gradient == 0


def test_shares_of_loss_and_gradient_add_up_to_one(measured):
    found = contributions(measured, **WEIGHTS, label_smoothing=0.1)
    assert sum(term.of_total for term in found) == pytest.approx(1)
    assert sum(term.of_gradient for term in found) == pytest.approx(1)


def test_a_head_on_years_is_counted_by_rows(batch, never):
    model = small(age_head="years").eval()
    amounts = contributions(measure_terms(model, batch, never), **WEIGHTS)
    age = next(term for term in model(**batch).terms if term.name == "age")
    assert amounts[1].amount == pytest.approx(0.3 * age.total.item() / 2, rel=1e-5)


def test_measuring_leaves_the_model_as_it_was(batch, never):
    model = small(dropout=0.5).train()
    first, second = (measure_terms(model, batch, never) for _ in range(2))
    np.testing.assert_array_equal(first.means, second.means)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"age_weight": 0.0}, "no age head"),
        ({"sex_weight": 0.0}, "no sex head"),
        ({"age_weight": 0.0, "sex_weight": 0.0}, "no age and no sex head"),
    ],
)
def test_a_missing_head_is_named(batch, never, weights, said):
    with pytest.raises(InputError, match=said):
        measure_terms(small(**weights), batch, never)


def of(gradients, means=(2.0, 4.0, 1.0, 1.0, 1.0)):
    gradients = np.array(gradients, dtype=float)
    return MeasuredTerms(np.array(means), gradients @ gradients.T)


def test_a_term_that_pulls_the_other_way_has_a_share_below_zero():
    opposed = of([[3, 0], [0, 0], [-1, 0], [0, 0], [0, 0]])
    found = contributions(opposed, age_weight=1, sex_weight=0, co_occurrence_weight=0)
    assert [term.of_gradient for term in found] == pytest.approx([1.5, -0.5, 0, 0])


def test_where_nothing_pulls_nobody_has_a_share():
    found = contributions(
        of(np.zeros((5, 2)), means=np.zeros(5)), age_weight=1, sex_weight=1, co_occurrence_weight=1
    )
    assert {(term.of_total, term.of_gradient) for term in found} == {(0, 0)}
