"""Whole patients from a model: the grammar, what is known, and the same draws in any batch."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.generation.patients import (
    PatientProfile,
    Sampling,
    generate_patients,
    sample_profiles,
)
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 13)])
WANTED = [PatientProfile(age, sex) for age in range(0, 90, 5) for sex in ("F", "M")]


def untrained(**changes: object) -> PromptBart:
    """A model that knows no grammar: what is well formed is the sampler's work."""
    torch.manual_seed(0)
    fields = {"d_model": 32, "max_position_embeddings": 40, "init_std": 0.3} | changes
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **fields)).eval()


def tokens_of(record: PatientRecord) -> int:
    return 2 + sum(2 + len(visit.codes) for visit in record.visits)


def test_every_patient_is_a_record_of_the_age_and_sex_that_were_wanted() -> None:
    # PatientRecord and Visit refuse an empty record, an empty visit and a repeated code.
    records = generate_patients(untrained(), TOKENIZER, WANTED)
    assert [(record.age, record.sex) for record in records] == [(w.age, w.sex) for w in WANTED]
    assert [record.subject_id for record in records] == list(range(len(WANTED)))
    assert len({len(record.visits) for record in records}) > 1


@pytest.mark.parametrize("max_tokens", range(5, 14))
def test_a_record_ends_well_formed_at_the_longest_length(max_tokens: int) -> None:
    model = untrained()
    model.final_logits_bias[0, TOKENIZER.eos_id] = -50  # it would never end by itself
    records = generate_patients(model, TOKENIZER, WANTED, max_tokens=max_tokens)
    lengths = {tokens_of(record) for record in records}
    assert max(lengths) <= max_tokens
    assert min(lengths) >= max_tokens - 3  # no visit fits into three tokens or fewer


def test_a_visit_that_has_every_code_ends() -> None:
    model = untrained(max_position_embeddings=80)
    model.final_logits_bias[0, [TOKENIZER.eos_id, TOKENIZER.visit_end_id]] = -50
    (record,) = generate_patients(model, TOKENIZER, [PatientProfile(40, "F")], max_tokens=16)
    assert len(record.visits[0].codes) == len(TOKENIZER.codes)


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_the_batch_size_does_not_change_what_is_written(batch_size: int) -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    expected = generate_patients(loaded.model, loaded.tokenizer, WANTED, batch_size=12)
    made = generate_patients(loaded.model, loaded.tokenizer, WANTED, batch_size=batch_size)
    assert made == expected


def test_a_seed_gives_the_same_patients_and_another_gives_others() -> None:
    model = untrained()
    first = generate_patients(model, TOKENIZER, WANTED, seed=1)
    assert generate_patients(model, TOKENIZER, WANTED, seed=1) == first
    assert generate_patients(model, TOKENIZER, WANTED, seed=2) != first


def test_two_patients_of_the_same_age_and_sex_are_two_patients() -> None:
    records = generate_patients(untrained(), TOKENIZER, [PatientProfile(40, "F")] * 8)
    assert len({record.visits for record in records}) > 4


def test_greedy_writing_is_a_literal_loop_over_uncached_forward_passes() -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    model, tokenizer = loaded.model, loaded.tokenizer
    wanted = [PatientProfile(64, "F"), PatientProfile(0, "M"), PatientProfile(30, "F")]
    made = generate_patients(model, tokenizer, wanted, sampling=Sampling(top_k=1), max_tokens=30)
    for patient, record in zip(wanted, made, strict=True):
        x_num = torch.tensor([[float(patient.age)]])
        x_cat = torch.tensor([[("M", "F").index(patient.sex)]])
        written, visit = [tokenizer.eos_id, tokenizer.bos_id, tokenizer.visit_start_id], set()
        while written[-1] != tokenizer.eos_id and len(written) < 30:
            with torch.no_grad():
                logits = model(
                    torch.tensor([[1, 6, 2]]),
                    decoder_input_ids=torch.tensor([written]),
                    x_num=x_num,
                    x_cat=x_cat,
                ).logits[0, -1]
            inside = written[-1] not in (tokenizer.visit_end_id,)
            ends = {tokenizer.visit_end_id} if visit else set()
            codes = set(range(7, len(tokenizer))) - visit
            allowed = (codes | ends) if inside else {tokenizer.eos_id, tokenizer.visit_start_id}
            token = max(allowed, key=lambda t: logits[t].item())
            visit = visit | {token} if token >= 7 else set()
            written.append(token)
        expected = tokenizer.decode(written)
        assert [list(v.codes) for v in record.visits] == expected


def test_known_codes_are_kept_in_their_visits_and_completed() -> None:
    known = [("004", "002"), ("007",), ()]
    wanted = [
        PatientProfile(64, "F", known),
        PatientProfile(30, "M"),
        PatientProfile(5, "M", [("001",)]),
    ]
    records = generate_patients(untrained(), TOKENIZER, wanted * 6)
    more = 0
    for record in records[::3]:
        assert len(record.visits) >= 3
        for codes, visit in zip(known, record.visits, strict=False):
            assert visit.codes[: len(codes)] == codes
            more += len(visit.codes) - len(codes)
    assert more > 0
    assert all(record.visits[0].codes[0] == "001" for record in records[2::3])


@pytest.mark.parametrize("spare", [0, 1, 2, 5])
def test_known_visits_fit_however_little_room_there_is(spare: int) -> None:
    known = [("004", "002"), (), ("007",)]
    model = untrained()
    model.final_logits_bias[0, [TOKENIZER.eos_id, TOKENIZER.visit_end_id]] = -50
    needed = 2 + 4 + 3 + 3
    (record,) = generate_patients(
        model, TOKENIZER, [PatientProfile(64, "F", known)], max_tokens=needed + spare
    )
    assert record.visits[0].codes[:2] == ("004", "002")
    assert record.visits[2].codes[0] == "007"
    assert tokens_of(record) <= needed + spare


def test_the_encoder_reads_what_is_known_and_a_mask_for_what_is_not() -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    given = [PatientProfile(30, "F", [("650",)])] * 200
    written = generate_patients(loaded.model, loaded.tokenizer, given)
    alone = generate_patients(loaded.model, loaded.tokenizer, [PatientProfile(30, "F")] * 200)

    def share(records: list[PatientRecord], code: str) -> float:
        return float(np.mean([code in record.visits[0].codes for record in records]))

    # Where a normal delivery is known, its outcome (a single live birth) comes far more often.
    assert share(written, "V270") > share(alone, "V270") + 0.3


def test_age_and_sex_decide_what_is_written() -> None:
    loaded = load_checkpoint("tiny_prompt_bart")
    newborn, old = (
        generate_patients(loaded.model, loaded.tokenizer, [PatientProfile(age, "F")] * 100)
        for age in (0, 85)
    )
    codes = [{code for record in records for code in record.codes} for records in (newborn, old)]
    assert any(code.startswith("V30") for code in codes[0])
    assert not any(code.startswith("V30") for code in codes[1])


def test_the_model_is_left_in_the_mode_it_was_in() -> None:
    model = untrained().train()
    generate_patients(model, TOKENIZER, WANTED[:2])
    assert model.training


def test_no_patient_wanted_is_no_patient_written() -> None:
    assert generate_patients(untrained(), TOKENIZER, []) == []


@pytest.mark.parametrize(
    ("wanted", "settings", "problem"),
    [
        (PatientProfile(-1, "F"), {}, "patient 0: -1 is not an age"),
        (PatientProfile(math.nan, "F"), {}, "patient 0: nan is not an age"),
        (PatientProfile(40, "X"), {}, "patient 0: 'X' is not one of"),
        (PatientProfile(40, "F", [("999",)]), {}, "code '999': it is not in the vocabulary"),
        (PatientProfile(40, "F", [("001", "001")]), {}, "a code stands twice"),
        (
            PatientProfile(40, "F", [("001", "002")]),
            {"max_tokens": 5},
            "6 tokens: what is known is",
        ),
        (PatientProfile(40, "F"), {"max_tokens": 4}, "4 is not between 5 and the model's 38"),
        (PatientProfile(40, "F"), {"max_tokens": 39}, "39 is not between 5 and the model's 38"),
        (PatientProfile(40, "F"), {"batch_size": 0}, "0 is not a size"),
    ],
)
def test_what_cannot_be_written_is_refused(
    wanted: PatientProfile, settings: dict, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        generate_patients(untrained(), TOKENIZER, [wanted], **settings)


def test_a_tokenizer_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="it has 8 tokens, the model 19"):
        generate_patients(untrained(), CodeTokenizer(["001"]), WANTED)


# ------------------------------------------------------------------ ages and sexes of a cohort


def patient(number, sex, age):
    return PatientRecord(number, sex, age, (Visit(("4280",)),))


COHORT = [patient(1, "F", 30), patient(2, "F", 30), patient(3, "F", 30), patient(4, "M", 80)]


def test_ages_and_sexes_come_together_as_often_as_in_the_cohort():
    drawn = Counter((w.sex, w.age) for w in sample_profiles(COHORT, 10_000, seed=1))
    assert set(drawn) == {("F", 30), ("M", 80)}
    assert drawn["F", 30] == pytest.approx(7_500, abs=200)


def test_nothing_of_a_visit_is_taken():
    assert set(sample_profiles(COHORT, 50)) <= {PatientProfile(30, "F"), PatientProfile(80, "M")}


def test_the_seed_decides():
    assert sample_profiles(COHORT, 50, seed=1) == sample_profiles(COHORT, 50, seed=1)
    assert sample_profiles(COHORT, 50, seed=1) != sample_profiles(COHORT, 50, seed=2)


def test_no_cohort_is_refused():
    with pytest.raises(InputError, match="the list is empty"):
        sample_profiles([], 5)


@pytest.mark.parametrize("n", [0, -1])
def test_no_patients_to_draw_are_refused(n):
    with pytest.raises(InputError, match="is not a number of patients"):
        sample_profiles(COHORT, n)


# ------------------------------------------------------------------ batches


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, top_k=8, top_p=0.95)])
def test_any_batch_size_writes_the_same_patients_whatever_is_known(sampling: Sampling) -> None:
    model = untrained(copy_head=True, max_visit_embeddings=4).double()
    known = [(), [("004", "002"), ("007",)], [("001",)], [(), (), ()]]
    wanted = [PatientProfile(w.age, w.sex, known[n % 4]) for n, w in enumerate(WANTED)]
    expected, *others = (
        generate_patients(model, TOKENIZER, wanted, sampling=sampling, batch_size=size)
        for size in (512, 9, 1)
    )
    assert others == [expected, expected]
    assert len({record.visits for record in expected}) > 9


def test_what_is_told_of_patients_alike_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = untrained(), []

    def encode(self: PromptBart, ids: torch.Tensor, *rest: object, **named: object) -> object:
        read.append(len(ids))
        return unchanged(self, ids, *rest, **named)

    unchanged = PromptBart.encode
    monkeypatch.setattr(PromptBart, "encode", encode)
    generate_patients(model, TOKENIZER, WANTED[:3] * 20, batch_size=30)
    assert sum(read) == 4  # sorted by what is told, so that only one comes into both batches
