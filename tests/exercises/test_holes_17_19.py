"""Answers to the exercises of lessons 17 to 19 that say what a change of the worked one cannot."""

from __future__ import annotations

import pytest

from ehr_course.exercises import examine
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

ADDED = "totals = scores[:, :, None] + log_probs"
WRONG = [
    # id, change of the worked answer, words of the message, words that would mislead
    (
        "17.4",
        {ADDED: ADDED.replace("scores", "scores.clamp(min=-1e4)")},
        "a finite number",
        "all 0",
    ),
    ("17.4", {ADDED: ADDED.replace("scores", "scores.nan_to_num(neginf=-9999.0)")}, "finite", ""),
    ("17.6", {"total / penalty(max_length)": "total / penalty(max_length + 1)"}, "too large", ""),
    ("17.7", {"summary[i] == reference[j]": "summary[i][0] == reference[j][0]"}, "expected 0", ""),
    ("17.7", {"summary[i] == reference[j]": "summary[i][-1] == reference[j][-1]"}, "got", ""),
    ("18.4", {"torch.tanh(table @ w1.T + b1)": "(table @ w1.T + b1)"}, "tanh is missing", "multi"),
    ("18.4", {"return folded, folded.numel()": "return folded, 0"}, "expected 4", "times"),
    (
        "19.3",
        {"fmean(visits), fmean(people)": "fmean(visits), fmean(visits)"},
        "Your third share is your second one",
        "twice",
    ),
    (
        "19.7",
        {
            "found = set(codes) - set(visit)": "found = set(codes) - set(written)",
            'found = {"<v>"}': 'found = {"<v>"} if set(codes) - set(written) else set()',
        },
        "chronic diseases come back",
        "",
    ),
    ("19.5", {"return distances.min(axis=1)": "return distances.argmin(axis=1)"}, "[0]", "sum to"),
]


@pytest.mark.parametrize(("exercise_id", "change", "words", "misleading"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(
    exercise_id: str, change: dict[str, str], words: str, misleading: str
) -> None:
    function = as_function(exercise_id, changed(worked_answer(exercise_id), change))
    for seed in range(3):
        result = examine(exercise_id, function, seed=seed)
        assert result.outcome is Outcome.NOT_YET
        assert words in result.message
        assert not misleading or misleading not in result.message


WITH_ADAM = """
def lowest_loss(logits, labels):
    bias = torch.zeros(logits.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([bias], lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(logits + bias, labels)
        loss.backward()
        optimizer.step()
    return functional.cross_entropy(logits + bias, labels).item()
"""


@pytest.mark.parametrize(("rate", "steps"), [("0.01", "200"), ("0.01", "100"), ("0.001", "200")])
def test_an_optimizer_that_stops_too_early_is_told_so(rate: str, steps: str) -> None:
    source = WITH_ADAM.replace("RATE", rate).replace("STEPS", steps)
    result = examine("18.6", as_function("18.6", source), seed=1)
    assert result.outcome is Outcome.NOT_YET
    assert result.message.startswith("Your bias goes the right way")


OWN_FUNCTION = """
def coverage_loss(attention, scored):
    before = attention.cumsum(dim=1) - attention
    return (torch.minimum(attention, before).sum(dim=-1) * scored).sum(), scored.sum()

def loss_of_coverage(attention, scored):
    return coverage_loss(attention, scored)
"""
LIBRARY_FUNCTION = """
from ehr_course.losses import coverage_loss

def loss_of_coverage(attention, scored):
    return coverage_loss(attention, scored)
"""


@pytest.mark.parametrize(
    ("source", "outcome"),
    [(OWN_FUNCTION, Outcome.SOLVED), (LIBRARY_FUNCTION, Outcome.REMARK)],
)
def test_a_function_of_ones_own_may_have_the_name_of_a_librarys(
    source: str, outcome: Outcome
) -> None:
    assert examine("17.2", as_function("17.2", source), seed=1).outcome is outcome
