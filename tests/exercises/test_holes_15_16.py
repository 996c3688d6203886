"""Wrong answers to lessons 15 and 16 that were once accepted: each is refused, and told why."""

from __future__ import annotations

import pytest

from ehr_course.exercises import examine
from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.trainers_to_test import FAULTS, STEPS, Trainers
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

EQUAL = "all(torch.equal(wanted[name], made[name]) for name in wanted)"
JOINED = "torch.cat([w.flatten() for w in {}.values()])"
WANTED, MADE = JOINED.format("wanted"), JOINED.format("made")

HOLES = [
    ("15.1", {"step >= total_steps": "step > total_steps"}, "no_end_where_both_are_equal"),
    ("15.3", {"half.isfinite().all()": "(half.abs() < 65504).all()"}, "65,504"),
    (
        "15.3",
        {"scale, good = scale / 2, 0": "scale, good = max(1, scale / 2), 0"},
        "never_below_1",
    ),
    ("15.6", {EQUAL: f"torch.allclose({WANTED}, {MADE}, rtol=0, atol=1e-7)"}, "nearly_equal"),
    ("15.6", {EQUAL: f"torch.allclose({WANTED}, {MADE})"}, "nearly_equal"),
    ("15.6", {EQUAL: f"bool({WANTED}.sum() == {MADE}.sum())"}, "total_alone"),
    ("15.6", {EQUAL: f"bool({WANTED}.norm() == {MADE}.norm())"}, "total_alone"),
    ("15.6", {"same = all": "same = make.fault is None and all"}, "AttributeError"),
    ("15.6", {EQUAL: 'repr(make).count("should") == 1'}, "never_runs_the_rest"),
    ("16.1", {"-torch.inf": "-100"}, "minus_100"),
    (
        "16.5",
        {
            "places.logsumexp(dim=1)": "(scores.softmax(1) * here).sum(1)",
            "logsigmoid(gate) + generated, logsigmoid(-gate) + copied": (
                "(torch.where(inside, logsigmoid(gate) + generated, -1e4), "
                "torch.where(copied > 0, copied, 1.0).log() "
                "+ torch.where(copied > 0, logsigmoid(-gate), -1e4))"
            ),
        },
        "treat the word as one that cannot be copied",
    ),
    (
        "16.5",
        {"places.logsumexp(dim=1)": "(scores.softmax(1) * here).sum(1).clamp_min(1e-12).log()"},
        "kept the sum of the attention from 0",
    ),
    *(
        ("16.5", {"logsigmoid(-gate) + copied": f"{way} + copied"}, "the logarithm of 1 - p_gen")
        for way in ("torch.log1p(-gate.sigmoid())", "(-gate).sigmoid().log()")
    ),
    (
        "16.5",
        {
            " & scores.isfinite()": "",
            "log_attention.masked_fill(~here, -torch.inf)": "log_attention + here.log()",
        },
        "which passes an addition",
    ),
    *(
        ("16.6", {"log_vocab.gather(1, known[:, None])": zero}, "against p_gen itself")
        for zero in ("torch.zeros(len(written), 1)", "0 * log_vocab[:, :1]")
    ),
    (
        "16.6",
        {
            "ways.softmax(dim=1)": (
                "(p := torch.cat([gate.sigmoid()[:, None], (ids == written[:, None]) "
                "* ((-gate).sigmoid()[:, None] * log_attention.exp())], 1)) "
                "/ p.sum(1, keepdim=True)"
            )
        },
        "against p_gen itself",
    ),
    (
        "16.6",
        {
            "written.masked_fill(~inside, 0)": "written.clamp(0, log_vocab.shape[1] - 1)",
            "generated.masked_fill(~inside[:, None], -torch.inf)": "generated",
        },
        "outside_generated_as_the_last_word",
    ),
    ("16.7", {"(lengths - 1) // chunk": "(lengths // chunk).clamp(max=n - 1)"}, "kept_in_range"),
]


@pytest.mark.parametrize(("exercise_id", "change", "words"), HOLES)
def test_the_answer_is_refused_and_told_why(
    exercise_id: str, change: dict[str, str], words: str
) -> None:
    wrong = as_function(exercise_id, changed(worked_answer(exercise_id), change))
    for seed in range(4):
        result = examine(exercise_id, wrong, seed=seed)
        assert not result.outcome.is_solved
        assert words in f"{result.misconception} {result}"


@pytest.mark.parametrize("fill", ["-1000.0", "-1e4", "-1e9", "-1e20"])
def test_a_finite_fill_that_no_score_of_a_model_reaches_is_solved_with_a_remark(fill: str) -> None:
    source = changed(worked_answer("16.1"), {"-torch.inf": fill})
    result = examine("16.1", as_function("16.1", source), seed=0)
    assert result.outcome.is_solved
    assert find_exercise("16.1").remarks["finite_fill"].remark in result.message


@pytest.mark.parametrize("fault", FAULTS)
def test_trainers_go_wrong_as_they_say_wherever_they_are_stopped(fault: str | None) -> None:
    report = as_function("15.6", worked_answer("15.6"))
    for seed in range(4):
        for stop in range(1, STEPS):
            expected = (0, True) if fault == "starts again" else (stop, fault is None)
            assert report(Trainers(fault, seed=seed), stop) == expected
