"""Whether a model learned its patients by heart: the perplexities are those of perplexity."""

from __future__ import annotations

import pytest

from ehr_course.errors import InputError
from ehr_course.evaluation import perplexity as module
from ehr_course.evaluation.perplexity import Overfitting, at_most_500, overfitting, perplexity
from ehr_course.models.saved import load_checkpoint
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

PER_CODE = "longitudinal perplexity per code"


def test_the_three_numbers_are_those_of_perplexity():
    loaded = load_checkpoint("tiny_prompt_bart")
    known = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
    held_out, train = make_cohort(30, seed=987), make_cohort(40, seed=986)
    found = overfitting(loaded.model, loaded.tokenizer, held_out, train)
    expected = perplexity(loaded.model, known, held_out, train=train, resamples=2)
    assert found.held_out == pytest.approx(expected[PER_CODE].value)
    assert found.unigram == pytest.approx(expected["unigram perplexity per code"].value)
    of_train = perplexity(loaded.model, known, train, resamples=2)[PER_CODE].value
    assert found.training == pytest.approx(of_train)
    assert found.in_words() == ""


def test_by_heart_is_told_from_too_little():
    by_heart = Overfitting(held_out=900, training=2, unigram=200).in_words()
    too_little = Overfitting(held_out=900, training=700, unigram=200).in_words()
    assert "by heart (overfitting)" in by_heart and "leave --steps out" in by_heart
    assert "learned too little" in too_little and "more --steps" in too_little
    nearly = Overfitting(held_out=210, training=190, unigram=200).in_words()
    assert "learned too little" in nearly
    assert Overfitting(held_out=200, training=2, unigram=200).in_words() == ""


def test_of_many_patients_some_are_drawn_by_the_seed(monkeypatch):
    monkeypatch.setattr(module, "MOST_PATIENTS", 10)
    cohort = make_cohort(40, seed=0)
    some = at_most_500(cohort, 1)
    assert len(some) == 10 and [r for r in cohort if r in some] == some
    assert at_most_500(cohort, 1) == some != at_most_500(cohort, 2)


def test_patients_of_whom_no_code_is_known_are_refused():
    loaded = load_checkpoint("tiny_prompt_bart")
    strange = [PatientRecord(1, "F", 50, (Visit(("E9999",)),))]
    with pytest.raises(InputError, match="overfitting, held_out: none of the codes"):
        overfitting(loaded.model, loaded.tokenizer, strange, make_cohort(5))
