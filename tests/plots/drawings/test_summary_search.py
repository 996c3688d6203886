"""The drawings of lesson 17's search show the scores, steps and words that they are given."""

from __future__ import annotations

import pytest
import torch

from ehr_course.evaluation.summaries import rouge
from ehr_course.plots.drawings.summary_search import (
    Candidate,
    _common,
    _words,
    draw_beam_step,
    draw_length_penalty,
    draw_rouge,
)
from ehr_course.plots.overlaps import label_problems


def said(picture) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


@pytest.mark.parametrize(
    ("early", "best", "wins"), [(-2.5, 0.6, "from alpha 1.19 on"), (-0.4, 0.98, "at no alpha")]
)
def test_what_each_alpha_chooses_is_told(early, best, wins):
    exact = {0.0: [0.3, 0.5], 1.5: [best - 0.02, best + 0.02], 3.0: [0.0, 0.0]}
    repeated = {0.0: [0.0, 0.0], 1.5: [0.0, 0.02], 3.0: [0.83, 0.85]}
    two = Candidate(early, 5), Candidate(-2.8, 6)
    picture = draw_length_penalty(*two, exact, repeated, by_greedy=[0.7, 0.9])
    assert label_problems(picture) == []
    assert said(picture)[0] == (
        f"Lists exact: 40% with no penalty, {best:.0%} at alpha 1.5, 80% by greedy search"
    )
    assert "Greedy search has 80% exact." in picture.alternative_text
    assert f"wins {wins}." in picture.alternative_text
    assert "1% at 1.5, 84% at 3." in picture.alternative_text
    lines = [len(axes.lines) for axes in picture.axes]
    assert lines[-1] == 2 + 2 + 1, "a line for each model, both means, and greedy search"
    regions = [word for word in said(picture) if word.endswith("one wins")]
    assert len(regions) == 1 + wins.startswith("from")


@pytest.mark.parametrize("beams", [2, 3, 4])
@pytest.mark.parametrize("vocabulary", [3, 6])
def test_the_best_continuations_are_kept(beams, vocabulary):
    generator = torch.Generator().manual_seed(beams + vocabulary)
    log_probs = -3 * torch.rand(beams, vocabulary, generator=generator)
    scores = -2 * torch.rand(beams, generator=generator)
    tokens = [f"tok{place}" for place in range(vocabulary)]
    picture = draw_beam_step([f"h{row}" for row in range(beams)], tokens, log_probs, scores)
    assert label_problems(picture) == []
    totals = scores[:, None] + log_probs
    for total in totals.flatten().topk(beams).values.tolist():
        assert said(picture).count(f"{total:.2f}") >= 2, "in the grid and among the kept ones"
        assert f"({total:.2f})" in picture.alternative_text
    assert f"the best {beams} of all {beams * vocabulary}." in said(picture)[1]


def test_a_long_hypothesis_is_cut():
    names = ["hydrochlorothiazide levothyroxine", "spironolactone", "b"]
    tokens = ["hydrochlorothiazide", "and", "</s>"]
    log_probs = torch.tensor([[-0.1, -2.0, -3.0], [-0.2, -2.0, -3.0], [-0.3, -2.0, -3.0]])
    picture = draw_beam_step(names, tokens, log_probs, torch.tensor([-0.1, -0.2, -0.3]))
    assert "… " not in picture.alternative_text


REFERENCE = "No fever, no pain. Went home."


@pytest.mark.parametrize(
    "texts",
    [
        {"the same": REFERENCE, "other": "Afebrile."},
        {"turned": "Home went no pain, no fever.", "longer": f"{REFERENCE} No fever at home."},
    ],
)
def test_the_words_that_count_are_those_of_the_score(texts):
    scores = {name: rouge([text], [REFERENCE]) for name, text in texts.items()}
    picture = draw_rouge(REFERENCE, texts, scores)
    assert label_problems(picture) == []
    for name, text in texts.items():
        words, wanted = _words(text), _words(REFERENCE)
        f1 = 2 * len(_common(words, wanted)) / (len(words) + len(wanted))
        assert f1 == pytest.approx(scores[name]["rougeL"])
        assert f"{f1:.2f}" in said(picture)
        assert f"{name}: {text} {f1:.2f}." in picture.alternative_text
