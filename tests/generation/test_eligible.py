"""Only codes that a patient can have: what is kept out, and how it is counted."""

from __future__ import annotations

import math

import pytest
import torch

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.evaluation.validity import impossible_share_of
from ehr_course.generation.patients import (
    EligibleOnly,
    PatientProfile,
    Sampling,
    generate_patients,
)
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.tokenizers.codes import CodeTokenizer

# Of births, of women, of men, of the old, of anybody; and two that no rule of ICD-9-CM speaks of.
CODES = ["V3001", "650", "6256", "600", "185", "29010", "4019", "25000", "I509", "99999"]
TOKENIZER = CodeTokenizer(CODES)
WANTED = [PatientProfile(age, sex) for age in (0, 11, 30, 64, 90) for sex in ("F", "M")] * 4


def untrained(tokenizer: CodeTokenizer = TOKENIZER, **changes: object) -> PromptBart:
    torch.manual_seed(0)
    fields = {"d_model": 32, "max_position_embeddings": 40, "init_std": 0.3} | changes
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, **fields)).eval()


def test_what_is_ruled_out_is_what_the_rules_say() -> None:
    people = [(age, sex) for age in range(91) for sex in ("F", "M")]
    table = EligibleOnly().ruled_out(TOKENIZER, *zip(*people, strict=True))
    assert not table[:, :7].any()
    for (age, sex), row in zip(people, table.tolist(), strict=True):
        for code, found in zip(TOKENIZER.codes, row[7:], strict=True):
            expected = icd9.is_code(code) and icd9.why_impossible(code, age=age, sex=sex)
            assert found is bool(expected), (code, age, sex)


@pytest.mark.parametrize("copy_head", [False, True])
def test_no_impossible_code_is_written(copy_head: bool) -> None:
    model = untrained(copy_head=copy_head)
    free = generate_patients(model, TOKENIZER, WANTED)
    assert impossible_share_of(free) > 0.2
    eligible = EligibleOnly()
    kept = generate_patients(model, TOKENIZER, WANTED, eligible=eligible)
    assert impossible_share_of(kept) == 0
    assert 0.2 < eligible.share_kept_out < 0.8


def test_a_trained_model_loses_less_than_it_writes_freely() -> None:
    # Freely written, an impossible code draws others after it; here there is never a first one.
    loaded = load_checkpoint("tiny_prompt_bart")
    wanted = [PatientProfile(age, sex) for age in range(91) for sex in ("F", "M")] * 3
    free = generate_patients(loaded.model, loaded.tokenizer, wanted)
    eligible = EligibleOnly()
    kept = generate_patients(loaded.model, loaded.tokenizer, wanted, eligible=eligible)
    assert impossible_share_of(kept) == 0
    assert 0.4 < eligible.share_kept_out / impossible_share_of(free) < 0.95
    written = sum(len(record.codes) for record in kept)
    assert eligible.codes == pytest.approx(written, rel=0.05)


def test_one_step_is_counted_by_its_probabilities() -> None:
    # The first code of a visit, and then no more: a record of five tokens has one.
    model = untrained().double()
    patient = PatientProfile(30, "M")
    with torch.no_grad():
        logits = model(
            torch.tensor([[1, 6, 2]]),
            decoder_input_ids=torch.tensor([[2, 1, 3]]),
            x_num=torch.tensor([[30.0]]),
            x_cat=torch.tensor([[0]]),
        ).logits[0, -1, 7:]
    eligible = EligibleOnly()
    generate_patients(model, TOKENIZER, [patient], max_tokens=5, eligible=eligible)
    impossible = [
        icd9.is_code(code) and icd9.why_impossible(code, age=30, sex="M") is not None
        for code in TOKENIZER.codes
    ]
    assert eligible.codes == pytest.approx(1)
    expected = logits.softmax(0)[torch.tensor(impossible)].sum().item()
    assert eligible.kept_out == pytest.approx(expected, rel=1e-5)


def test_where_everything_is_eligible_nothing_changes() -> None:
    tokenizer = CodeTokenizer(["4019", "25000", "4280", "0389"])
    eligible = EligibleOnly()
    kept = generate_patients(untrained(tokenizer), tokenizer, WANTED, eligible=eligible)
    assert kept == generate_patients(untrained(tokenizer), tokenizer, WANTED)
    assert eligible.share_kept_out == 0
    assert eligible.codes > len(kept)


def test_known_codes_stay_and_are_not_counted() -> None:
    known = [("650", "185"), ("V3001",)]
    eligible = EligibleOnly()
    model = untrained()
    records = generate_patients(
        model, TOKENIZER, [PatientProfile(30, "M", known)] * 20, eligible=eligible
    )
    added = 0
    for record in records:
        assert [v.codes[: len(k)] for v, k in zip(record.visits, known, strict=False)] == known
        rest = [
            code for v, k in zip(record.visits, known, strict=False) for code in v.codes[len(k) :]
        ]
        rest += [code for visit in record.visits[2:] for code in visit.codes]
        added += len(rest)
        assert not {"V3001", "650", "6256"} & set(rest)
    assert added > 20
    assert 0 < eligible.codes < 3 * added


def test_a_visit_that_has_every_eligible_code_ends() -> None:
    model = untrained(max_position_embeddings=80)
    model.final_logits_bias[0, [TOKENIZER.eos_id, TOKENIZER.visit_end_id]] = -50
    (record,) = generate_patients(
        model, TOKENIZER, [PatientProfile(40, "F")], max_tokens=30, eligible=EligibleOnly()
    )
    possible = {
        code
        for code in CODES
        if not icd9.is_code(code) or icd9.why_impossible(code, age=40, sex="F") is None
    }
    assert set(record.visits[0].codes) == possible


@pytest.mark.parametrize("sampling", [Sampling(top_k=1), Sampling(0.5, top_k=3, top_p=0.9)])
def test_the_likeliest_are_taken_from_what_is_left(sampling: Sampling) -> None:
    model = untrained()
    model.final_logits_bias[0, TOKENIZER.code_to_id("V3001")] = 50
    records = generate_patients(
        model, TOKENIZER, [PatientProfile(50, "F")] * 9, sampling=sampling, eligible=EligibleOnly()
    )
    assert impossible_share_of(records) == 0


def test_a_patient_who_can_have_no_code_is_refused() -> None:
    tokenizer = CodeTokenizer(["V3001", "650"])
    wanted = [
        PatientProfile(0, "F"),
        PatientProfile(30, "F"),
        PatientProfile(64, "M"),
        PatientProfile(64, "M"),
    ]
    said = "patient 2, age 64, sex 'M': age and sex rule out every code of the vocabulary"
    with pytest.raises(InputError, match=said):
        generate_patients(untrained(tokenizer), tokenizer, wanted, eligible=EligibleOnly())


def test_of_no_patient_nothing_is_kept_out() -> None:
    eligible = EligibleOnly()
    assert generate_patients(untrained(), TOKENIZER, [], eligible=eligible) == []
    assert math.isnan(eligible.share_kept_out)
