"""Calibration: ends are counted as they are written, and predicted as often as they are."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from ehr_course.batches.collate import SEXES
from ehr_course.batches.corruption import EMPTY_RECORD
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.generation.calibration import CALIBRATED, calibrate, calibrated_for, count_ends
from ehr_course.generation.patients import Sampling, generate_patients, sample_profiles
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import (
    HISTORY,
    RECORD_VISITS,
    VISIT_CODES,
    PromptBart,
    PromptBartConfig,
)
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

RECORDS = make_cohort(150, seed=0)
TOKENIZER = CodeTokenizer.from_records(RECORDS)
DATASET = RecordDataset(RECORDS, TOKENIZER)


def model(**changes: object) -> PromptBart:
    torch.manual_seed(0)
    fields = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1} | HISTORY
    fields["max_position_embeddings"] = 72  # an untrained model writes as much as there is room
    made = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **(fields | changes))).eval()
    for bias in (made.final_logits_bias, *(made.end_bias.buffers() if made.end_bias else ())):
        nn.init.normal_(bias)
    return made


@torch.no_grad()
def test_ends_are_counted_as_a_record_is_written_token_by_token() -> None:
    made, records = model(), RECORDS[:12]
    visit, record = torch.zeros(3, 2, VISIT_CODES + 1), torch.zeros(3, RECORD_VISITS + 1)
    for patient in records:
        ids = [CodeTokenizer.eos_id, *TOKENIZER.encode(patient)]
        told = {
            "input_ids": torch.tensor([EMPTY_RECORD]),
            "x_num": torch.tensor([[float(patient.age)]]),
            "x_cat": torch.tensor([[SEXES.index(patient.sex)]]),
        }
        visits, codes = 0, []
        for place, token in enumerate(ids[:-1]):
            if token == CodeTokenizer.visit_start_id:
                visits, codes = visits + 1, []
            if token >= TOKENIZER.first_code_id:
                codes.append(token)
                end, cell = (
                    CodeTokenizer.visit_end_id,
                    (int(visits > 1), min(len(codes), VISIT_CODES)),
                )
                table, open_ids = (
                    visit,
                    set(range(TOKENIZER.first_code_id, len(TOKENIZER))) - set(codes),
                )
            elif token == CodeTokenizer.visit_end_id:
                end, cell = CodeTokenizer.eos_id, (min(visits, RECORD_VISITS),)
                table, open_ids = record, {CodeTokenizer.visit_start_id}
            else:
                continue
            so_far = torch.tensor([ids[: place + 1]])
            logits = made(decoder_input_ids=so_far, **told).logits[0, -1].exp()
            predicted = logits[end] / (logits[end] + logits[sorted(open_ids)].sum())
            table[(slice(None), *cell)] += torch.tensor([1, ids[place + 1] == end, predicted])
    found = count_ends(made, RecordDataset(records, TOKENIZER))
    torch.testing.assert_close(found.visit.float(), visit, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.record.float(), record, rtol=1e-4, atol=1e-5)
    ends = visit.sum(-1)
    expected = [float(ends[2, 0] / ends[1, 0]), float(ends[2, 1] / ends[1, 1])]
    expected.append(float(record[2].sum() / record[1].sum()))
    assert list(found.ratios().values()) == pytest.approx(expected, rel=1e-4)


def off(made: PromptBart) -> int:
    """By how many codes in all the frequencies of a written cohort are off."""
    wanted = sample_profiles(RECORDS, 300, seed=9)
    written = generate_patients(made, TOKENIZER, wanted, seed=9, sampling=CALIBRATED)
    real = Counter(code for record in RECORDS for code in record.codes)
    got = Counter(code for record in written for code in record.codes)
    return sum(abs(got[code] - 2 * real[code]) for code in TOKENIZER.codes)


def test_a_calibrated_model_ends_visits_and_writes_codes_as_often_as_its_patients() -> None:
    made = model()
    before, weights = off(made), {n: p.detach().clone() for n, p in made.named_parameters()}
    calibrate(made, DATASET)
    for name, ratio in count_ends(made, DATASET).ratios().items():
        assert ratio == pytest.approx(1, abs=0.05), name
    assert off(made) < 0.5 * before
    for name, weight in made.named_parameters():
        assert torch.equal(weight, weights[name]), name


def test_a_model_without_an_end_bias_is_drawn_from_whole_and_a_prefix_as_its_base() -> None:
    made = model()
    assert calibrated_for(made) == CALIBRATED
    assert calibrated_for(PrefixTuned(made, PrefixConfig(n_tokens=2))) == CALIBRATED
    assert calibrated_for(model(end_bias=False)) == Sampling()


def test_a_model_without_an_end_bias_cannot_be_calibrated() -> None:
    with pytest.raises(InputError, match=r"no end bias.*\n?.*end_bias=True"):
        calibrate(model(end_bias=False), DATASET)
