"""Lesson 17's worked answers against the library, and its inputs against chance."""

import itertools

import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer

from ehr_course.exercises.lessons import lesson_17
from ehr_course.generation.beam_search import best_places, length_penalty, repeating_tokens
from ehr_course.losses import coverage_loss

seeds = pytest.mark.parametrize("seed", range(5))


@seeds
def test_the_coverage_loss_is_the_librarys(seed):
    for attention, scored in lesson_17.LOSS.probes(seed):
        total, count = coverage_loss(attention, scored)
        expected = lesson_17.LOSS.worked_answer(attention, scored)
        assert expected == pytest.approx((float(total), float(count)), abs=1e-5)


@seeds
def test_scores_use_the_librarys_length_penalty(seed):
    for hypotheses, alpha in lesson_17.LENGTH_PENALTY.probes(seed):
        scores, best = lesson_17.LENGTH_PENALTY.worked_answer(hypotheses, alpha)
        expected = [sum(tokens) / length_penalty(len(tokens), alpha) for tokens in hypotheses]
        assert scores == pytest.approx(expected)
        assert best == max(range(len(expected)), key=expected.__getitem__)


@seeds
def test_no_two_hypotheses_are_equally_good(seed):
    for hypotheses, alpha in lesson_17.LENGTH_PENALTY.probes(seed):
        scores = sorted(lesson_17.LENGTH_PENALTY.worked_answer(hypotheses, alpha)[0])
        assert all(b - a > 1e-3 for a, b in itertools.pairwise(scores))


@seeds
def test_what_is_blocked_is_what_the_library_blocks_but_for_the_end(seed):
    for (tokens,) in lesson_17.BLOCKING.probes(seed):
        ids = repeating_tokens(torch.tensor(tokens, dtype=torch.int64), 3, nothing=-1)
        expected = set(ids.tolist()) - {-1, lesson_17.EOS}
        assert lesson_17.BLOCKING.worked_answer(tokens) == expected


@seeds
def test_a_step_is_that_of_the_librarys_search(seed):
    for log_probs, scores in lesson_17.BEAM_STEP.probes(seed):
        totals = (scores[:, :, None] + log_probs).flatten(1)
        best, places = best_places(totals, scores.shape[1])
        new, parents, tokens = lesson_17.BEAM_STEP.worked_answer(log_probs, scores)
        torch.testing.assert_close(new, best)
        vocab = log_probs.shape[-1]
        assert torch.equal(parents * vocab + tokens, places)


@seeds
def test_the_best_continuations_lead_by_more_than_rounding(seed):
    for log_probs, scores in lesson_17.BEAM_STEP.probes(seed):
        totals = (scores[:, :, None].double() + log_probs.double()).flatten(1)
        ordered = totals.sort(dim=1, descending=True).values[:, : scores.shape[1] + 1]
        gaps = -ordered.diff(dim=1)
        assert bool((gaps > 1e-3).all())


@seeds
def test_rouge_l_is_that_of_the_package(seed):
    scorer = RougeScorer(["rougeL"])
    for summary, reference in lesson_17.ROUGE_L.probes(seed):
        theirs = scorer.score(" ".join(reference), " ".join(summary))["rougeL"].fmeasure
        assert lesson_17.ROUGE_L.worked_answer(summary, reference) == pytest.approx(theirs)
