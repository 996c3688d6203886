"""The heads: what each reads, what it is scored on, and what a checkpoint says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ehr_course.batches.collate import collate, demographics
from ehr_course.batches.corruption import Ragged
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import (
    AGE_BRACKETS,
    PromptBart,
    PromptBartConfig,
    SequenceAge,
    TokenAge,
    TokenSex,
    age_bracket,
    codes_read,
    last_real,
)
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(1, 60)])
RECORDS = [[1, 3, 20, 21, 4, 2], [1, 3, 30, 4, 2], [1, 3, 40, 41, 42, 4, 3, 9, 4, 2]]
AGES, SEXES = [64, 3, 90], ["F", "M", "F"]
BOTH = {"age_weight": 0.3, "sex_weight": 0.2}


def batch_of(rows: list[int]) -> dict[str, torch.Tensor]:
    ragged = Ragged.from_lists([RECORDS[row] for row in rows])
    return collate(
        ragged,
        ragged,
        demographics([AGES[r] for r in rows], [SEXES[r] for r in rows]),
        TOKENIZER,
    )


def model_with(**changes: Any) -> PromptBart:
    torch.manual_seed(0)
    fields = {"d_model": 32, "dropout": 0.0}
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **(fields | changes))).eval()


def term_of(output: Any, name: str) -> Any:
    return next(term for term in output.terms if term.name == name)


# ------------------------------------------------------------------ brackets and readings


def test_age_brackets_are_those_of_numpys_digitize() -> None:
    ages = torch.arange(0, 121)
    expected = np.digitize(ages.numpy(), AGE_BRACKETS)
    np.testing.assert_array_equal(age_bracket(ages).numpy(), expected)
    assert age_bracket(ages.float()).tolist() == expected.tolist()


def test_the_last_real_token_is_found_in_rows_of_every_length() -> None:
    states = torch.arange(24.0).reshape(2, 4, 3)
    real = torch.tensor([[True, True, False, False], [True, True, True, True]])
    assert last_real(states, real).tolist() == [states[0, 1].tolist(), states[1, 3].tolist()]


def test_codes_read_is_a_mean_of_what_stands_before_and_at_a_position() -> None:
    embeddings = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    read = codes_read(embeddings)
    for position in range(5):
        expected = embeddings[:, : position + 1].mean(dim=1)
        torch.testing.assert_close(read[:, position], expected)


# ------------------------------------------------------------------ parts of the model


def test_without_weights_there_are_no_heads_and_no_parameters_for_them() -> None:
    model = model_with()
    assert len(model.heads) == 0
    assert not [name for name, _ in model.named_parameters() if name.startswith("heads")]
    assert model(**batch_of([0])).answers is None


def test_heads_of_the_sources_sizes_have_the_sources_parameters() -> None:
    def count(head: nn.Module) -> int:
        return sum(parameter.numel() for parameter in head.parameters())

    assert count(TokenAge(768)) == 198_406
    assert count(TokenSex(768)) == 197_378
    assert count(TokenSex(768, d_hidden=0)) == 1_538
    assert count(SequenceAge(768, d_hidden=0)) == 769


@pytest.mark.parametrize("age_head", ["brackets", "years"])
@pytest.mark.parametrize("head_reads", ["states", "codes"])
def test_a_model_with_heads_is_saved_and_loaded_with_them(
    tmp_path: Any, age_head: str, head_reads: str
) -> None:
    model = model_with(age_head=age_head, head_reads=head_reads, **BOTH)
    model.save_pretrained(tmp_path)
    loaded = PromptBart.from_pretrained(tmp_path).eval()
    before, after = model(**batch_of([0, 1])), loaded(**batch_of([0, 1]))
    torch.testing.assert_close(before.answers, after.answers)
    torch.testing.assert_close(before.loss, after.loss)


def test_heads_start_from_the_models_initial_values() -> None:
    model = model_with(d_model=96, **BOTH)
    weight = model.heads["sex"].layers[0].weight
    assert weight.std().item() == pytest.approx(model.config.init_std, rel=0.1)


# ------------------------------------------------------------------ losses of the heads


def test_the_sex_loss_is_pytorchs_over_the_tokens_that_are_no_padding() -> None:
    model = model_with(**BOTH)
    output = model(**batch_of([0, 1, 2]))
    logits, total, count = output.answers["sex"], 0.0, 0
    for row, record in enumerate(RECORDS):
        truth = torch.full((len(record),), int(SEXES[row] == "F"))
        total += nn.functional.cross_entropy(logits[row, : len(record)], truth, reduction="sum")
        count += len(record)
    term = term_of(output, "sex")
    torch.testing.assert_close(term.total, total)
    assert (int(term.count), term.weight, term.per) == (count, 0.2, "token")


def test_the_age_in_years_is_asked_once_a_record_at_its_last_token_before_the_end() -> None:
    model = model_with(age_head="years", **BOTH)
    output = model(**batch_of([0, 1, 2]))
    answers = output.answers["age"]
    assert answers.shape == (3,)
    term = term_of(output, "age")
    errors = answers - torch.tensor(AGES) / 90
    torch.testing.assert_close(term.total, errors.square().sum())
    assert (int(term.count), term.per) == (3, "row")


@pytest.mark.parametrize("age_head", ["brackets", "years"])
@pytest.mark.parametrize("head_reads", ["states", "codes"])
def test_what_a_record_is_padded_to_changes_no_loss(age_head: str, head_reads: str) -> None:
    model = model_with(age_head=age_head, head_reads=head_reads, **BOTH)
    together = model(**batch_of([0, 1, 2]))
    alone = [model(**batch_of([row])) for row in range(3)]
    for name in ("language_model", "age", "sex"):
        parts = sum(term_of(output, name).total for output in alone)
        torch.testing.assert_close(term_of(together, name).total, parts, rtol=1e-4, atol=1e-5)


def test_the_loss_of_a_model_is_the_weighted_sum_of_the_means() -> None:
    output = model_with(age_head="years", **BOTH)(**batch_of([0, 1, 2]))
    means = {term.name: term.total / term.count for term in output.terms}
    expected = means["language_model"] + 0.3 * means["age"] + 0.2 * means["sex"]
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(output.loss_sum / output.loss_count, means["language_model"])


def test_a_row_without_a_scored_token_counts_in_no_term() -> None:
    model = model_with(age_head="years", **BOTH)
    batch = batch_of([0, 1])
    batch["labels"][1] = -100
    terms, alone = model(**batch).terms, model(**batch_of([0])).terms
    for term, own in zip(terms, alone, strict=True):
        torch.testing.assert_close(term.total, own.total, rtol=1e-4, atol=1e-5)
        assert int(term.count) == int(own.count)


# ------------------------------------------------------------------ who can see the prompt


@pytest.mark.parametrize(("head_reads", "sees_it"), [("states", True), ("codes", False)])
def test_only_a_head_on_the_codes_does_not_see_the_prompt(head_reads: str, sees_it: bool) -> None:
    model = model_with(head_reads=head_reads, **BOTH)
    batch = batch_of([0, 1])
    own = model(**batch).answers["sex"]
    other = model(**{**batch, "x_cat": 1 - batch["x_cat"]}).answers["sex"]
    assert torch.equal(own, other) != sees_it


@pytest.mark.parametrize("head_reads", ["states", "codes"])
def test_a_head_does_not_read_the_codes_that_come_after(head_reads: str) -> None:
    model = model_with(head_reads=head_reads, **BOTH)
    batch = batch_of([0])
    own = model(**batch).answers["sex"]
    batch["decoder_input_ids"][0, 4] = 50
    other = model(**batch).answers["sex"]
    torch.testing.assert_close(own[:, :4], other[:, :4])
    assert not torch.allclose(own[:, 4], other[:, 4])


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"age_weight": -0.1}, "age_weight"),
        ({"sex_weight": -1.0}, "sex_weight"),
        ({"age_head": "decades"}, "age_head"),
        ({"head_reads": "prompts"}, "head_reads"),
        ({"d_head": -1}, "d_head"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
    ],
)
def test_an_impossible_setting_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        PromptBartConfig(**changes)


def test_label_smoothing_is_for_training_alone() -> None:
    smooth, sharp = model_with(label_smoothing=0.1), model_with()
    batch = batch_of([0, 1])
    assert torch.equal(smooth(**batch).loss, sharp(**batch).loss)
    assert not torch.isclose(smooth.train()(**batch).loss, sharp.train()(**batch).loss)
