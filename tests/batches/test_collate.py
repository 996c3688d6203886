"""The contract between data and model: shapes, padding, targets, and what breaks it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers.models.bart.modeling_bart import shift_tokens_right

from ehr_course.batches.collate import (
    SEXES,
    check_batch,
    collate,
    demographics,
    shift_right,
)
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

PAD, BOS, EOS, MASK = 0, 1, 2, 6
COHORT = make_cohort(60, seed=2)
TOKENIZER = CodeTokenizer.from_records(COHORT)
HEAVY = Corruption(p_visit=1, p_empty=0.2, p_delete=0.8, p_replace=0.8)


def batch_of(n=8, seed=0, corruption=HEAVY):
    indices = np.random.default_rng(seed).permutation(len(COHORT))[:n].tolist()
    batch = RecordDataset(COHORT, TOKENIZER, corruption=corruption, seed=seed).batch(indices)
    return batch, [COHORT[i] for i in indices]


# ---------------------------------------------------------------------- what is in a batch


@pytest.mark.parametrize("seed", range(10))
def test_labels_never_come_from_the_corrupted_sequence(seed):
    batch, records = batch_of(12, seed)
    changed = 0
    for row, record in enumerate(records):
        clean = TOKENIZER.encode(record)
        label = batch["labels"][row]
        assert label[label != -100].tolist() == clean
        read = batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist()
        changed += read != clean
    assert changed > 6  # so that corrupted and clean records can be told apart at all


@pytest.mark.parametrize("seed", range(10))
def test_the_decoder_input_never_contains_a_masked_label(seed):
    batch, records = batch_of(12, seed)
    assert (batch["decoder_input_ids"] >= 0).all()
    assert not (batch["decoder_input_ids"] == MASK).any()
    assert not (batch["labels"] == MASK).any()
    assert (batch["input_ids"] == MASK).any()
    for row, record in enumerate(records):
        clean = TOKENIZER.encode(record)
        width = batch["labels"].shape[1]
        expected = [EOS, *clean, *[PAD] * width][:width]
        assert batch["decoder_input_ids"][row].tolist() == expected


def test_a_batch_is_as_wide_as_its_longest_row_on_each_side():
    batch, records = batch_of(9)
    assert batch["labels"].shape[1] == max(len(TOKENIZER.encode(record)) for record in records)
    assert batch["input_ids"].shape[1] == batch["attention_mask"].sum(1).max()
    assert batch["input_ids"].shape[1] < batch["labels"].shape[1]


def test_padding_is_on_the_right():
    clean = Ragged.from_lists([[1, 3, 7, 4, 2], [1, 3, 8, 9, 10, 4, 2]])
    inputs = Ragged.from_lists([[1, 3, 7, 4, 2], [1, 3, 6, 10, 4, 2]])
    batch = collate(clean, inputs, demographics([3, 90], ["F", "M"]), TOKENIZER)
    assert batch["input_ids"].tolist() == [[1, 3, 7, 4, 2, 0], [1, 3, 6, 10, 4, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert batch["labels"].tolist() == [[1, 3, 7, 4, 2, -100, -100], [1, 3, 8, 9, 10, 4, 2]]
    assert batch["decoder_input_ids"].tolist() == [[2, 1, 3, 7, 4, 2, 0], [2, 1, 3, 8, 9, 10, 4]]


def test_age_is_in_years_and_sex_is_numbered_as_in_the_tutorial():
    one = Ragged.from_lists([[1, 3, 7, 4, 2]] * 3)
    batch = collate(one, one, demographics([0, 64.5, 90], ["M", "F", "F"]), TOKENIZER)
    assert batch["x_num"].tolist() == [[0.0], [64.5], [90.0]]
    assert batch["x_cat"].tolist() == [[0], [1], [1]]
    assert SEXES == ("M", "F")


def test_a_batch_shares_no_memory_with_the_records():
    clean = Ragged.from_lists([[1, 3, 7, 4, 2]])
    batch = collate(clean, clean, demographics([64], ["M"]), TOKENIZER)
    for name in ("input_ids", "decoder_input_ids", "labels"):
        batch[name].fill_(9)
    assert clean.to_lists() == [[1, 3, 7, 4, 2]]
    assert len({tensor.data_ptr() for tensor in batch.values()}) == 6


# ---------------------------------------------------------------------- shift right


@pytest.mark.parametrize("seed", range(5))
def test_shift_right_is_that_of_transformers(seed):
    generator = torch.Generator().manual_seed(seed)
    clean = torch.randint(0, 50, (4, 9), generator=generator)
    assert torch.equal(shift_right(clean), shift_tokens_right(clean, PAD, EOS))


def test_shift_right_starts_with_the_token_asked_for_and_leaves_its_input_alone():
    clean = torch.tensor([[5, 6, 7]])
    assert shift_right(clean, start=9).tolist() == [[9, 5, 6]]
    assert clean.tolist() == [[5, 6, 7]]


def test_masked_labels_cannot_be_shifted():
    with pytest.raises(InputError, match="-100 is a label, not a token"):
        shift_right(torch.tensor([[1, 3, 7, -100]]))


# ---------------------------------------------------------------------- age and sex


@pytest.mark.parametrize("age", [float("nan"), -1, -0.01, 90.5, 300, float("inf"), None, "old"])
def test_an_age_that_is_none_is_refused_by_its_row(age):
    with pytest.raises(InputError, match=r"ages, row 1: .* is not an age in years"):
        demographics([64, age], ["F", "F"])


@pytest.mark.parametrize("age", [0, 90, np.float32(64.5)])
def test_the_youngest_and_the_oldest_age_pass(age):
    assert demographics([age], ["F"])["x_num"].item() == age


@pytest.mark.parametrize("sex", ["U", "f", "", None, 1, float("nan")])
def test_an_unknown_sex_is_refused_by_the_name_given(sex):
    with pytest.raises(InputError, match=r"sexes, patient 7: .* is not one of 'M', 'F'"):
        demographics([64], [sex], ["patient 7"])


# ---------------------------------------------------------------------- check_batch


@pytest.mark.parametrize("seed", range(10))
def test_every_batch_of_the_dataset_keeps_the_contract(seed):
    check_batch(batch_of(9, seed)[0], n_tokens=len(TOKENIZER))


def leak(batch):
    """Labels and decoder input taken from the corrupted sequence."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    batch["labels"] = ids.masked_fill(mask == 0, -100)
    batch["decoder_input_ids"] = shift_right(ids)


def put(name, place, value):
    def change(batch):
        batch[name][place] = value

    return change


def to(name, make):
    def change(batch):
        batch[name] = make(batch[name])

    return change


# Row 0 is the longest on both sides, row 1 the shortest.
BREAKS = {
    "leaked labels": (leak, "labels: .* asks the model to write <mask>"),
    "a masked label shifted": (
        put("decoder_input_ids", (1, -1), -100),
        "decoder_input_ids: row 1, .* holds a masked label",
    ),
    "decoder input not shifted": (
        to("decoder_input_ids", lambda ids: ids.roll(-1, 1)),
        "decoder_input_ids: .* is not the clean record one place later",
    ),
    "decoder starts with BOS": (
        put("decoder_input_ids", (0, 0), BOS),
        "decoder_input_ids: row 0, position 0",
    ),
    "scored padding": (put("labels", (1, -1), PAD), "labels: row 1, .* before its last token"),
    "all padding scored": (to("labels", lambda x: x.clamp(min=0)), "labels: .* scores padding"),
    "a label masked in the middle": (put("labels", (0, 2), -100), "labels: row 0, position 3"),
    "no label at all": (put("labels", 1, -100), "labels: row 1"),
    "mask over padding": (to("attention_mask", torch.ones_like), "input_ids: row 1"),
    "mask with a hole": (put("attention_mask", (0, 2), 0), "attention_mask: row 0"),
    "mask of another number": (put("attention_mask", (0, 2), 2), "attention_mask: row 0"),
    "padding as a token": (put("input_ids", (0, 1), PAD), "input_ids: row 0, position 1"),
    "an id too large": (put("input_ids", (0, 1), len(TOKENIZER)), "input_ids: .* vocabulary"),
    "a negative id": (put("input_ids", (0, 1), -1), "input_ids: .* vocabulary"),
    "-100 as an id": (put("input_ids", (0, 1), -100), "input_ids: .* vocabulary"),
    "age NaN": (put("x_num", (1, 0), float("nan")), "x_num: row 1 is nan"),
    "age negative": (put("x_num", (1, 0), -5), "x_num: row 1 is -5"),
    "age 300": (put("x_num", (1, 0), 300), "x_num: row 1 is 300"),
    "a third sex": (put("x_cat", (1, 0), 2), "x_cat: row 1 is 2"),
    "a negative sex": (put("x_cat", (1, 0), -1), "x_cat: row 1 is -1"),
    "age of shape (batch,)": (to("x_num", lambda x: x[:, 0]), r"x_num: .* shape \(2,\)"),
    "two ages": (
        to("x_num", lambda x: x.repeat(1, 2)),
        r"x_num: .* shape \(2, 2\)",
    ),
    "whole ages": (to("x_num", lambda x: x.long()), "x_num: it is torch.int64"),
    "a row too few": (to("x_cat", lambda x: x[:1]), "x_cat: .* sizes as in the other"),
    "labels cut": (
        to("labels", lambda x: x[:, :-1]),
        "labels: .* sizes as in the other",
    ),
    "a list": (to("labels", lambda x: x.tolist()), "labels: it is a list"),
    "no age": (lambda batch: batch.pop("x_num"), "x_num is missing"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_batch_is_refused_and_the_message_says_where(name):
    change, says = BREAKS[name]
    clean = Ragged.from_lists([[1, 3, 7, 8, 9, 10, 4, 2], [1, 3, 7, 4, 2]])
    inputs = Ragged.from_lists([[1, 3, 6, 8, 9, 10, 4, 2], [1, 3, 6, 4, 2]])
    batch = collate(clean, inputs, demographics([64, 31], ["F", "M"]), TOKENIZER)
    check_batch(batch, n_tokens=len(TOKENIZER))
    change(batch)
    with pytest.raises(InputError, match=says):
        check_batch(batch, n_tokens=len(TOKENIZER))


def test_a_batch_of_another_vocabulary_is_checked_with_its_tokenizer() -> None:
    other = SimpleNamespace(pad_id=1, eos_id=2, mask_id=9)
    clean, inputs = (
        Ragged.from_lists([[0, 5, 7, 2], [0, 6, 2]]),
        Ragged.from_lists([[0, 9, 2]] * 2),
    )
    batch = collate(clean, inputs, demographics([64, 31], ["F", "M"]), other)
    check_batch(batch, tokenizer=other)
    with pytest.raises(InputError, match="input_ids: row 0, position 0: it has padding"):
        check_batch(batch)  # 0 is padding in the course's own vocabulary
    batch["labels"][0, 1] = other.mask_id
    with pytest.raises(InputError, match="asks the model to write <mask>"):
        check_batch(batch, tokenizer=other)
