"""Attacks on cohorts whose answer is known: a copy, independent patients, and half of each."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import hypergeom
from sklearn.metrics import f1_score, recall_score, roc_auc_score

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.evaluation import distances
from ehr_course.evaluation.code_table import code_tables
from ehr_course.evaluation.measure import Judgement, random_groups
from ehr_course.evaluation.perplexity import ScoredRecords
from ehr_course.evaluation.privacy import (
    attribute_disclosure,
    chance_of_absence,
    common_columns,
    copies_by_group,
    distance_scores,
    likelihood_scores,
    membership_auroc,
    membership_interval,
    privacy,
    ratios,
)
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train as train_model

HOSPITAL = make_cohort(2_400, seed=4)
TRAIN, HELD_OUT, INDEPENDENT = HOSPITAL[:800], HOSPITAL[800:1_600], HOSPITAL[1_600:]
COHORTS = {
    "copy": TRAIN,
    "half": [*TRAIN[:400], *INDEPENDENT[:400]],
    "independent": INDEPENDENT,
}


@pytest.fixture(scope="module")
def found() -> dict[str, Judgement]:
    return {name: privacy(TRAIN, HELD_OUT, cohort) for name, cohort in COHORTS.items()}


def patient(*visits: tuple[str, ...], number: int = 1) -> PatientRecord:
    return PatientRecord(number, "F", 50, tuple(Visit(codes) for codes in visits))


# ------------------------------------------------------------------ the honest ends


def test_independent_patients_of_the_hospital_give_nothing_away(found: dict) -> None:
    result = found["independent"]
    for name in (
        "adversarial accuracy, train",
        "adversarial accuracy, held-out",
        "membership by distance",
    ):
        assert abs(result[name].value - 0.5) < 0.05, name
        assert abs(result[name].floor - 0.5) < 0.05, name
    assert abs(result["privacy loss"].value) < 0.05
    assert abs(result["privacy loss"].floor) < 0.05
    for name in ("attribute disclosure F1", "attribute disclosure sensitivity"):
        assert abs(result[name].value - result[name].floor) < 0.03, name
    assert abs(result["exact copies"].value - result["exact copies"].floor) < 0.03
    assert result["exact copies of long records"].value < 0.01
    assert result.warnings == ()


def test_a_copy_of_the_training_patients_gives_them_all_away(found: dict) -> None:
    result = found["copy"]
    assert result["membership by distance"].low > 0.95
    assert result["adversarial accuracy, train"].high < 0.1
    assert result["privacy loss"].low > 0.4
    assert (
        result["attribute disclosure F1"].low > 0.7 > 0.2 > result["attribute disclosure F1"].floor
    )
    assert result["exact copies"].value == result["exact copies of long records"].value == 1.0
    assert result["rare codes absent"].value == 0.0 < result["rare codes absent"].floor


@pytest.mark.parametrize(
    "name",
    [
        "privacy loss",
        "membership by distance",
        "attribute disclosure F1",
        "attribute disclosure sensitivity",
        "exact copies",
        "exact copies of long records",
    ],
)
def test_half_a_copy_gives_half_of_it_away(found: dict, name: str) -> None:
    low, high = (found[cohort][name].value for cohort in ("independent", "copy"))
    share = (found["half"][name].value - low) / (high - low)
    assert 0.35 < share < 0.65


def test_a_value_lies_in_its_interval(found: dict) -> None:
    for result, name in product(found.values(), (m.name for m in found["copy"].measures)):
        measure = result[name]
        assert measure.low <= measure.value <= measure.high, name


# ------------------------------------------------------------------ each attack by an oracle


def test_membership_is_scored_as_scikit_learn_does_with_scipys_distances() -> None:
    tables = code_tables(TRAIN[:70], HELD_OUT[:50], [*TRAIN[:20], *INDEPENDENT[:40]])
    members, others, synthetic = (table.patients.toarray().astype(bool) for table in tables)
    nearest = [-cdist(part, synthetic, "jaccard").min(axis=1) for part in (members, others)]
    expected = roc_auc_score([1] * 70 + [0] * 50, np.concatenate(nearest))
    scores = [distance_scores(table, tables[2]) for table in tables[:2]]
    assert membership_auroc(*scores) == pytest.approx(expected)
    low, high = membership_interval(*scores, rng=np.random.default_rng(0))
    assert low < expected < high


def test_attribute_disclosure_is_that_of_a_slow_loop(monkeypatch) -> None:
    targets, cohort = code_tables(TRAIN[:60], [*TRAIN[:20], *INDEPENDENT[:50]])
    known = common_columns(targets)
    x, y = (table.patients.toarray().astype(bool) for table in (targets, cohort))
    hidden = np.setdiff1d(np.arange(x.shape[1]), known)
    guesses = []
    for row in x:
        apart = cdist(row[None, known], y[:, known], "jaccard")[0].round(9)
        nearest = y[apart == apart.min()]
        guesses.append(nearest[:, hidden].mean(axis=0) >= 0.5)
    guessed, true = np.array(guesses).ravel(), x[:, hidden].ravel()
    expected = [f1_score(true, guessed), recall_score(true, guessed)]
    for block in (7, 1024):
        monkeypatch.setattr(distances, "BLOCK", block)
        result = attribute_disclosure(targets, cohort, known)
        assert ratios(result) == pytest.approx(expected)


def test_the_absence_of_a_code_has_the_hypergeometric_chance() -> None:
    (table,) = code_tables(TRAIN[:100])
    columns = np.arange(len(table.codes))
    carriers = table.patients.sum(axis=0)
    for n in (0, 1, 37, 99, 100):
        expected = hypergeom.pmf(0, 100, carriers, n)
        np.testing.assert_allclose(chance_of_absence(table, columns, n), expected, atol=1e-9)


def test_a_twin_is_found_in_the_groups_that_it_stands_in() -> None:
    groups = random_groups(len(TRAIN), np.random.default_rng(1))
    found = copies_by_group(INDEPENDENT, TRAIN, groups)
    for record, in_groups in zip(INDEPENDENT[:100], found, strict=False):
        codes = [set(visit.codes) for visit in record.visits]
        expected = {
            group
            for other, group in zip(TRAIN, groups.tolist(), strict=True)
            if [set(visit.codes) for visit in other.visits] == codes
        }
        assert set(np.flatnonzero(in_groups).tolist()) == expected
    assert found.any() and not found.any(axis=1).all()


def test_a_copy_has_the_same_visits_in_the_same_order() -> None:
    train = [patient(("4280", "4019"), ("486",))]
    written = [
        patient(("4019", "4280"), ("486",)),  # codes of a visit in another order
        patient(("486",), ("4280", "4019")),  # visits in another order
        patient(("4280", "4019")),  # a visit less
        patient(("4280", "4019", "486")),  # all in one visit
    ]
    groups = np.zeros(len(train), dtype=np.int64)
    found = copies_by_group(written, train, groups)
    assert found.any(axis=1).tolist() == [True, False, False, False]


# ------------------------------------------------------------------ the model itself


@pytest.fixture(scope="module")
def overfitted() -> tuple[PromptBart, CodeTokenizer]:
    """A model that has read 24 patients many times over."""
    tokenizer = CodeTokenizer.from_records(HOSPITAL)
    torch.manual_seed(0)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "tiny"))
    dataset = RecordDataset(TRAIN[:24], tokenizer, corruption=Corruption(p_empty=1.0), seed=0)
    train_model(model, dataset, steps=50, batch_size=24, lr=3e-3, seed=0, progress=False)
    return model, tokenizer


def test_an_overfitted_model_knows_whom_it_learned_from(overfitted: tuple) -> None:
    model, tokenizer = overfitted
    result = privacy(TRAIN[:24], HELD_OUT[:60], INDEPENDENT[:60], model=model, tokenizer=tokenizer)
    assert result["membership by likelihood"].value > 0.9
    assert 0.3 < result["membership by likelihood"].floor < 0.7


def test_a_model_does_not_know_patients_whom_it_never_saw(overfitted: tuple) -> None:
    scores = likelihood_scores(*overfitted, [*HELD_OUT[:150], *INDEPENDENT[:150]])
    assert abs(membership_auroc(scores[:150], scores[150:]) - 0.5) < 0.1


def test_a_likelihood_score_is_nats_per_token_after_the_first(overfitted: tuple) -> None:
    model, tokenizer = overfitted
    record = max(TRAIN[:24], key=lambda record: len(record.codes))
    tokens = len(record.codes) + 2 * len(record.visits) + 1  # markers and <EOS>, not <BOS>
    nats = ScoredRecords(model, tokenizer, [record]).nats_in_order().sum()
    expected = -nats / tokens
    assert likelihood_scores(model, tokenizer, [record])[0] == pytest.approx(expected)


def test_patients_whom_the_model_cannot_read_are_left_out_and_counted(overfitted: tuple) -> None:
    model, tokenizer = overfitted
    stranger = patient(("9999",), number=9_999_999)
    result = privacy(
        TRAIN[:24], [*HELD_OUT[:40], stranger], HELD_OUT[:40], model=model, tokenizer=tokenizer
    )
    assert any("leaves out 1 of 41 held-out patients" in text for text in result.warnings)
    assert not math.isnan(result["membership by likelihood"].value)


def test_without_a_model_nothing_is_said_about_likelihood(found: dict) -> None:
    with pytest.raises(InputError, match="there is no such measure"):
        found["copy"]["membership by likelihood"]


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("one", range(3))
def test_a_cohort_of_one_patient_has_numbers_without_intervals_and_a_warning(one: int) -> None:
    cohorts = [TRAIN[:50], HELD_OUT[:50], INDEPENDENT[:50]]
    cohorts[one] = cohorts[one][:1]
    result = privacy(*cohorts)
    name = ("training", "held-out", "synthetic")[one]
    assert any(f"The {name} cohort has 1 patient" in text for text in result.warnings)
    assert math.isnan(result["adversarial accuracy, train"].value)
    assert math.isnan(result["privacy loss"].value)
    assert 0 <= result["membership by distance"].value <= 1
    assert result["membership by distance"].known == (one == 2)


def test_cohorts_without_a_common_code_are_pointed_out() -> None:
    strangers = [patient(("9999",), number=number) for number in range(40)]
    result = privacy(TRAIN[:40], HELD_OUT[:40], strangers)
    assert any("no code in common" in text for text in result.warnings)
    assert result["adversarial accuracy, train"].value == 1.0
    assert result["membership by distance"].value == 0.5
    assert result["attribute disclosure F1"].value == 0.0


def test_training_patients_among_the_held_out_ones_are_pointed_out() -> None:
    result = privacy(TRAIN[:40], [*TRAIN[:2], *HELD_OUT[:40]], INDEPENDENT[:40])
    assert any("2 training patients stand among" in text for text in result.warnings)


def test_what_cannot_be_asked_is_unknown() -> None:
    same = [patient(("4019",), number=number) for number in range(40)]
    result = privacy(same, same, same)
    assert math.isnan(result["rare codes absent"].value)
    assert math.isnan(result["exact copies of long records"].value)
    assert math.isnan(result["attribute disclosure sensitivity"].value)
    assert result["adversarial accuracy, train"].value == 0.5  # all are equally near
    for text in ("5 training patients or fewer", "5 codes or more", "could be disclosed"):
        assert any(text in warning for warning in result.warnings), text
