"""Perplexity and likelihood: one record at a time, without a leak, and by hand."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from ehr_course.batches.corruption import EMPTY_RECORD
from ehr_course.errors import InputError
from ehr_course.evaluation import perplexity as module
from ehr_course.evaluation.perplexity import RELATIVE, ScoredRecords, perplexity
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

COHORT = make_cohort(40, seed=0)
TOKENIZER = CodeTokenizer.from_records(COHORT)
BOS, EOS, START, STOP, MASK = 1, 2, 3, 4, 6
AFTER_BART = CodeTokenizer(
    TOKENIZER.codes, base_tokens=["<s>", "<pad>", "</s>", "<unk>", "the", "650", "<mask>"]
)
"""The same codes behind the vocabulary of a BART, with other special ids."""


@cache
def random_model(tokenizer: CodeTokenizer = TOKENIZER) -> PromptBart:
    """A model that has learned nothing, and is sure of itself: large weights."""
    torch.manual_seed(0)
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow", init_std=0.3)
    return PromptBart(config).eval()


@torch.no_grad()
def slow_nats(
    t: CodeTokenizer, record: PatientRecord, read: list[int], before: list[int], token: int
) -> float:
    """What a token costs: one patient, one forward pass, no padding, the whole softmax."""
    logits = random_model(t)(
        torch.tensor([read]),
        decoder_input_ids=torch.tensor([[t.eos_id, *before]]),
        x_num=torch.tensor([[float(record.age)]]),
        x_cat=torch.tensor([[["M", "F"].index(record.sex)]]),
    ).logits
    return -float(logits[0, -1].double().log_softmax(-1)[token])


def slow_longitudinal(t: CodeTokenizer, records: list[PatientRecord]) -> tuple[float, float]:
    codes, visits, n_codes, n_visits = 0.0, 0.0, 0, 0
    for record in records:
        before = [t.bos_id]
        for visit in record.visits:
            ids = [t.code_to_id(code) for code in visit.codes]
            before.append(t.visit_start_id)
            for token in [*ids, t.visit_end_id]:
                cost = slow_nats(t, record, [t.bos_id, t.mask_id, t.eos_id], before, token)
                codes += cost * (token != t.visit_end_id)
                visits += cost
                before.append(token)
            n_codes, n_visits = n_codes + len(ids), n_visits + 1
    return math.exp(codes / n_codes), math.exp(visits / n_visits)


def slow_cross_sectional(t: CodeTokenizer, records: list[PatientRecord]) -> tuple[float, float]:
    nats, n_codes, n_visits = 0.0, 0, 0
    for record in records:
        for visit in record.visits:
            ids = [t.code_to_id(code) for code in visit.codes]
            for place, token in enumerate(ids):
                others = [*ids[:place], t.mask_id, *ids[place + 1 :]]
                visit_ids = [t.visit_start_id, *others, t.visit_end_id]
                read = [t.bos_id, *visit_ids, t.eos_id]
                before = [t.bos_id, t.visit_start_id, *ids[:place]]
                nats += slow_nats(t, record, read, before, token)
            n_codes, n_visits = n_codes + len(ids), n_visits + 1
    return math.exp(nats / n_codes), math.exp(nats / n_visits)


@pytest.mark.parametrize(
    ("tokenizer", "sequences"), [(TOKENIZER, 1), (TOKENIZER, 64), (AFTER_BART, 7)]
)
def test_the_batched_numbers_are_those_of_one_token_at_a_time(
    tokenizer: CodeTokenizer, sequences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SEQUENCES", sequences)
    some = COHORT[:8]
    found = perplexity(random_model(tokenizer), tokenizer, some)
    for kind, slow in (
        ("longitudinal", slow_longitudinal(tokenizer, some)),
        ("cross-sectional", slow_cross_sectional(tokenizer, some)),
    ):
        for unit, value in zip(("code", "visit"), slow, strict=True):
            measure = found[f"{kind} perplexity per {unit}"]
            assert math.log(measure.value) == pytest.approx(math.log(value), abs=1e-4)


def test_the_log_likelihood_of_a_record_sums_all_its_tokens() -> None:
    some = COHORT[:12]
    slow = []
    for record in some:
        ids = TOKENIZER.encode(record)
        slow.append(
            -sum(
                slow_nats(TOKENIZER, record, list(EMPTY_RECORD), ids[:place], ids[place])
                for place in range(1, len(ids))
            )
        )
    scored = ScoredRecords(random_model(), TOKENIZER, some)
    found = -np.add.reduceat(scored.nats_in_order(), scored.tokens.offsets[:-1])
    assert found == pytest.approx(slow, abs=1e-3)


# ---------------------------------------------------------------------- no leak


class Spy(nn.Module):
    """A model that keeps what it is given."""

    def __init__(self, model: PromptBart) -> None:
        super().__init__()
        self.model, self.config, self.max_tokens = model, model.config, model.max_tokens
        self.device = model.device
        self.read: list[dict[str, torch.Tensor]] = []

    def forward(self, **batch: torch.Tensor) -> Any:
        self.read.append(batch)
        return self.model(**batch)


def test_in_order_the_encoder_reads_the_same_empty_record_of_everybody() -> None:
    spy = Spy(random_model())
    ScoredRecords(spy, TOKENIZER, COHORT).nats_in_order()
    for batch in spy.read:
        assert (batch["input_ids"] == torch.tensor(EMPTY_RECORD)).all()


def test_in_a_visit_neither_side_reads_the_code_that_is_asked_for() -> None:
    for visit in COHORT[3].visits + COHORT[4].visits:
        spy = Spy(random_model())
        record = PatientRecord(1, "F", 50, (visit,))
        ScoredRecords(spy, TOKENIZER, [record]).nats_in_visits()
        read, before = (
            [row for batch in spy.read for row in batch[name].tolist()]
            for name in ("input_ids", "decoder_input_ids")
        )
        ids = [TOKENIZER.code_to_id(code) for code in visit.codes]
        assert len(read) == len(before) == len(ids)
        for place, code in enumerate(ids):
            others = [*ids[:place], MASK, *ids[place + 1 :]]
            assert read[place] == [BOS, START, *others, STOP, EOS]
            padding = [0] * (len(ids) - 1 - place)
            assert before[place] == [EOS, BOS, START, *ids[:place], *padding]
            assert code not in read[place] + before[place]


def test_all_codes_in_turn_at_one_place_share_a_probability_of_at_most_1() -> None:
    # A model that saw which code is asked for could be sure of each of them.
    first, last, *rest = TOKENIZER.codes
    records = [
        PatientRecord(1, "F", 50, (Visit((first, code, last)), Visit((first,)))) for code in rest
    ]
    scored = ScoredRecords(random_model(), TOKENIZER, records)
    asked = scored.tokens.offsets[:-1] + 3
    for nats in (scored.nats_in_order(), scored.nats_in_visits()):
        assert 0 < np.exp(-nats[asked]).sum() <= 1


def test_in_order_a_later_visit_does_not_change_what_an_earlier_one_costs() -> None:
    first, second = (Visit(COHORT[i].visits[0].codes) for i in (0, 1))
    records = [PatientRecord(1, "F", 50, (first, *more)) for more in ((), (second,))]
    short, long = (
        ScoredRecords(random_model(), TOKENIZER, [record]).nats_in_order() for record in records
    )
    end = len(first.codes) + 3
    assert short[:end] == pytest.approx(long[:end], abs=1e-4)


# ---------------------------------------------------------------------- known answers


def test_a_model_without_a_preference_hesitates_between_all_tokens() -> None:
    model = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "narrow"))
    nn.init.zeros_(model.lm_head.weight)
    found = perplexity(model, TOKENIZER, COHORT)
    size = len(TOKENIZER)
    visits = [visit for record in COHORT for visit in record.visits]
    n = np.mean([len(visit.codes) for visit in visits])
    logs = [math.log(measure.value) / math.log(size) for measure in found.measures]
    # In order a visit has one token more than codes: its end.
    assert logs == pytest.approx([1, n + 1, 1, n], rel=1e-5)


def test_unigram_perplexity_is_counted_by_hand() -> None:
    train, test = COHORT[:25], COHORT[25:]
    counts = Counter(dict.fromkeys([*TOKENIZER.codes, "end"], 1))
    counts.update(code for record in train for code in record.codes)
    counts["end"] += sum(len(record.visits) for record in train)
    codes = [-math.log(counts[c] / counts.total()) for record in test for c in record.codes]
    n_visits = sum(len(record.visits) for record in test)
    ends = -math.log(counts["end"] / counts.total()) * n_visits
    found = perplexity(random_model(), TOKENIZER, test, train=train)
    assert found["unigram perplexity per code"].value == pytest.approx(math.exp(np.mean(codes)))
    per_visit = math.exp((sum(codes) + ends) / n_visits)
    assert found["unigram perplexity per visit"].value == pytest.approx(per_visit)


def test_the_perplexity_relative_to_the_unigram_is_counted_patient_by_patient() -> None:
    train, test = COHORT[:8], COHORT[8:]
    found = perplexity(random_model(), TOKENIZER, test, train=train, resamples=3000)
    counts = Counter(dict.fromkeys([*TOKENIZER.codes, "end"], 1))
    counts.update(code for record in train for code in record.codes)
    counts["end"] += sum(len(record.visits) for record in train)
    scored = ScoredRecords(random_model(), TOKENIZER, test)
    costs, row = scored.nats_in_order(), 0
    sums = []
    for record in test:
        saved = n = 0
        for token in TOKENIZER.encode(record):
            if token > MASK:
                saved += costs[row] + math.log(counts[TOKENIZER.id_to_token(token)])
                n += 1
            row += 1
        sums.append((saved - n * math.log(counts.total()), n))
    measure = found[RELATIVE]
    value = math.exp(sum(saved for saved, _ in sums) / sum(n for _, n in sums))
    assert measure.value == pytest.approx(value)
    oracle = stats.bootstrap(
        np.array(sums, dtype=float).T,
        lambda saved, n, axis: np.exp(saved.sum(axis=axis) / n.sum(axis=axis)),
        paired=True,
        n_resamples=3000,
        method="percentile",
        rng=0,
    ).confidence_interval
    assert (measure.low, measure.high) == pytest.approx(tuple(oracle), rel=0.03)
    # A model of random weights that is sure of itself is worse than a table.
    assert measure.low > 1


def test_the_unigram_stands_beside_the_model_and_only_with_training_records() -> None:
    names = [m.name for m in perplexity(random_model(), TOKENIZER, COHORT, train=COHORT).measures]
    assert names == [
        "longitudinal perplexity per code",
        "longitudinal perplexity per visit",
        "unigram perplexity per code",
        "unigram perplexity per visit",
        RELATIVE,
        "cross-sectional perplexity per code",
        "cross-sectional perplexity per visit",
    ]
    without = [m.name for m in perplexity(random_model(), TOKENIZER, COHORT).measures]
    assert without == names[:2] + names[5:]


def test_the_checkpoint_is_far_better_than_frequencies_on_patients_it_never_saw() -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    tokenizer = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
    cohort = make_cohort(460, seed=987)
    found = perplexity(loaded.model, tokenizer, cohort[:60], train=cohort[60:])
    for unit in ("code", "visit"):
        baseline = found[f"unigram perplexity per {unit}"]
        for kind in ("longitudinal", "cross-sectional"):
            assert found[f"{kind} perplexity per {unit}"].high < baseline.low / 3


def test_intervals_hold_the_value_and_need_30_patients() -> None:
    for measure in perplexity(random_model(), TOKENIZER, COHORT[:30]).measures:
        assert measure.low < measure.value < measure.high
    few = perplexity(random_model(), TOKENIZER, COHORT[:29])
    assert not any(measure.known for measure in few.measures)
    assert "29 patients" in few.warnings[0]


# ---------------------------------------------------------------------- little or bad input


def strange() -> PatientRecord:
    known = COHORT[0].visits[0].codes
    return PatientRecord(
        77, "F", 50, (Visit(("99999", *known)), Visit(("99999", "99998")), Visit(known))
    )


def test_a_code_that_the_model_never_saw_is_named_with_a_remedy() -> None:
    with pytest.raises(InputError, match=r"'99999'.*unseen=\"skip\""):
        perplexity(random_model(), TOKENIZER, [strange()])


def test_unseen_codes_are_left_out_on_request_and_counted() -> None:
    skipping = CodeTokenizer(TOKENIZER.codes, unseen="skip")
    known = COHORT[0].visits[0]
    without = PatientRecord(77, "F", 50, (known, known))
    found = perplexity(random_model(), skipping, [strange()])
    expected = perplexity(random_model(), skipping, [without])
    assert [m.value for m in found.measures] == [m.value for m in expected.measures]
    assert len(found.warnings) == len(expected.warnings) + 1
    assert "3 codes of these patients" in found.warnings[-1]
    assert "'99999' (2 times)" in found.warnings[-1]


def test_a_patient_without_a_known_code_has_no_part_in_perplexity() -> None:
    skipping = CodeTokenizer(TOKENIZER.codes, unseen="skip")
    stranger = PatientRecord(78, "M", 50, (Visit(("99999",)),))
    alone, joined = (
        perplexity(random_model(), skipping, records)
        for records in ([COHORT[0]], [stranger, COHORT[0]])
    )
    for one, other in zip(alone.measures, joined.measures, strict=True):
        assert math.log(one.value) == pytest.approx(math.log(other.value), abs=1e-4)
    with pytest.raises(InputError, match="records: none of the codes of these patients"):
        perplexity(random_model(), skipping, [stranger])


def test_a_record_too_long_for_the_model_is_cut_and_counted() -> None:
    visit = COHORT[0].visits[0]
    fits = random_model().max_tokens
    n = (fits - 2) // (len(visit.codes) + 2)
    longest, longer = (PatientRecord(1, "F", 50, (visit,) * k) for k in (n, n + 30))
    found = perplexity(random_model(), TOKENIZER, [longer])
    expected = perplexity(random_model(), TOKENIZER, [longest])
    assert [m.value for m in found.measures] == [m.value for m in expected.measures]
    assert f"longer than the {fits} tokens that the model can read: 1." in found.warnings[-1]


def test_a_model_is_left_as_it_was_also_after_an_error() -> None:
    model = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "narrow", dropout=0.5)).train()
    scored = ScoredRecords(model, TOKENIZER, COHORT[:3])
    first, second = (scored.nats_in_order() for _ in range(2))
    assert model.training and first == pytest.approx(second)
    model.lm_head = None
    with pytest.raises(TypeError):
        scored.nats_in_order()
    assert model.training and torch.is_grad_enabled()


def test_other_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="records: the list is empty"):
        perplexity(random_model(), TOKENIZER, [])
    with pytest.raises(InputError, match="the tokenizer that the model was trained with"):
        perplexity(random_model(), CodeTokenizer(["4280"], unseen="skip"), COHORT)
    with pytest.raises(InputError, match="longitudinal perplexity per code"):
        perplexity(random_model(), TOKENIZER, COHORT[:2])["perplexity"]
    with pytest.raises(InputError, match="train: it has no patients"):
        perplexity(random_model(), TOKENIZER, COHORT[:2], train=[])


def test_a_visit_that_costs_too_much_for_a_number_has_an_infinite_perplexity() -> None:
    record = PatientRecord(1, "F", 50, (Visit(TOKENIZER.codes[:150]),))
    nats = ScoredRecords(random_model(), TOKENIZER, [record]).nats_in_order()
    found = perplexity(random_model(), TOKENIZER, [record])
    assert nats.sum() > 800
    assert found["longitudinal perplexity per visit"].value == math.inf
    assert math.isfinite(found["longitudinal perplexity per code"].value)
