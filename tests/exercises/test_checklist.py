"""The form of lesson 20: each field gets an answer, and a finding follows from the numbers."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ehr_course.evaluation.measure import what_is_shown
from ehr_course.exercises import check, examine, hint, store
from ehr_course.exercises.lost_code import lose_one
from ehr_course.exercises.result import Outcome
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort

COHORT = make_cohort(600, seed=3)
TRAIN, VALIDATION, TEST = split_by_patient(COHORT, seed=0)

EMPTY: dict[str, Any] = {
    "question": {"text": "", "measure": "", "better": ""},
    "data": {"source": "", "train": [], "validation": [], "test": []},
    "model": {"name": "", "scores": []},
    "baseline": {"name": "", "scores": []},
    "seeds": [],
    "report": {"finding": "", "text": ""},
    "limits": [],
}

DONE: dict[str, Any] = {
    "question": {
        "text": "Does more training data give fewer impossible codes?",
        "measure": "share of impossible codes",
        "better": "lower",
    },
    "data": {
        "source": "embedded hospital",
        "train": TRAIN,
        "validation": VALIDATION,
        "test": TEST,
    },
    "model": {"name": "PromptBart, 480 patients", "scores": [0.03, 0.04, 0.035, 0.02]},
    "baseline": {"name": "PromptBart, 120 patients", "scores": [0.08, 0.06, 0.07, 0.09]},
    "seeds": [0, 1, 2, 3],
    "report": {
        "finding": "better",
        "text": "With four times the patients the share of impossible codes is half as large.",
    },
    "limits": [
        "The hospital is made up, and its rules are simpler than those of a real one.",
        "The measure sees only codes that sex or age rules out.",
    ],
}


def changed(**fields: Any) -> dict[str, Any]:
    """The finished form with some fields, or some keys of a field, exchanged."""
    form = copy.copy(DONE)
    for name, value in fields.items():
        both = isinstance(value, dict) and isinstance(DONE[name], dict)
        form[name] = DONE[name] | value if both else value
    return form


def answers(form: Any) -> dict[str, str]:
    return dict(examine("20.1", form).details)


def test_the_finished_form_is_solved() -> None:
    result = examine("20.1", DONE)
    assert result.outcome is Outcome.SOLVED
    assert all(text.startswith("✔") for _, text in result.details)
    assert [name for name, _ in result.details] == list(DONE)


def test_an_empty_form_is_not_attempted() -> None:
    assert examine("20.1", EMPTY).outcome is Outcome.NOT_ATTEMPTED


def test_one_field_filled_in_is_an_attempt_and_the_others_are_named() -> None:
    result = examine("20.1", EMPTY | {"question": DONE["question"]})
    assert result.outcome is Outcome.NOT_YET
    assert result.message.startswith("1 of 7 fields are done.")
    assert dict(result.details)["seeds"] == "✘ This field is still empty."


@pytest.mark.parametrize(
    ("form", "field", "words"),
    [
        (changed(question={"text": "More data is better."}), "question", "question mark"),
        (changed(question={"text": "Better?"}), "question", "whole question"),
        (changed(question={"measure": ""}), "question", "`measure`"),
        (changed(question={"better": "good"}), "question", '"lower" or "higher"'),
        (changed(data={"source": ""}), "data", "`source`"),
        (changed(data={"test": "demo"}), "data", "list into `test`"),
        (changed(data={"validation": []}), "data", "`validation` is empty"),
        (changed(data={"test": [*TEST, TRAIN[0]]}), "data", "have 1 patient in common"),
        (changed(data={"test": VALIDATION}), "data", f"{len(VALIDATION)} patients in common"),
        (changed(data={"train": [*TRAIN, TRAIN[4]]}), "data", "2 times"),
        (changed(data={"test": [[1], [2]]}), "data", "patients or their ids"),
        (changed(model={"name": " "}), "model", "Name the model"),
        (changed(model={"scores": [0.03, 0.04]}), "model", "has 2 numbers, and there are 4 seeds"),
        (changed(model={"scores": [0.03, 0.04, float("nan"), 0.1]}), "model", "not a number"),
        (changed(model={"scores": "good"}), "model", "list of numbers"),
        (changed(model={"scores": None}), "model", "list of numbers"),
        (changed(baseline={"name": "promptbart, 480 patients"}), "baseline", "model itself"),
        (changed(baseline={"name": None}), "baseline", "Name what the model must beat"),
        (changed(baseline={"scores": [0.03, 0.04, 0.035, 0.02]}), "baseline", "copied"),
        (changed(baseline={"scores": [0.08, 0.06]}), "baseline", "has 2 numbers"),
        (changed(seeds=[0, 1]), "seeds", "at least 3"),
        (changed(seeds=[0, 0, 1, 2]), "seeds", "Seed 0 stands there twice"),
        (changed(seeds=[0.5, 1, 2, 3]), "seeds", "whole number"),
        (changed(seeds=7), "seeds", "list of whole numbers"),
        (changed(question={"measure": 3}), "question", "`measure`"),
        (changed(data={"test": iter(TEST)}), "data", "only once"),
        (changed(data={"test": map(str, range(60))}), "data", "only once"),
        (changed(model={"scores": iter([0.03, 0.04])}), "model", "only once"),
        (
            changed(data={"train": torch.arange(9), "test": torch.arange(8, 80)}),
            "data",
            "1 patient",
        ),
        (
            changed(data={"train": range(9), "test": [*map(str, range(8, 80))]}),
            "data",
            "1 patient",
        ),
        (changed(report={"finding": "proved"}), "report", '"better", "worse" or "not shown"'),
        (changed(report={"finding": "worse"}), "report", 'The numbers say "better"'),
        (changed(report={"text": "It is better."}), "report", "ten words"),
        *[
            (changed(report={"finding": said}), "report", "too small to see a difference")
            for said in ("no difference", "equal", "the same", "not different")
        ],
        (changed(baseline={"scores": [8.0, 6.0, 7.0, 9.0]}), "baseline", "fractions of one"),
        (changed(model={"scores": [3.0, 4.0, 3.5, 2.0]}), "baseline", "fractions of one"),
        (
            changed(question={"measure": "error rate"}, baseline={"scores": [43.9]}),
            "baseline",
            "give both as fractions",
        ),
        (changed(data={"test": lose_one(TEST, seed=0)}), "data", "the class Case"),
        (changed(data={"train": lose_one(TRAIN, seed=0)}), "data", "say whose they are"),
        (changed(model={"name": ""}), "report", "waits for model"),
        (changed(limits="It is small, and that is all."), "limits", "list of sentences"),
        (changed(limits=["Small.", "Synthetic."]), "limits", "'Small.' has only 1 word"),
        (changed(limits=[*DONE["limits"], "There are no limits to it."]), "limits", "Every study"),
        (changed(limits=DONE["limits"][:1] * 2), "limits", "at least two"),
        (changed(question="Is it better than the table?"), "question", "is a dict"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_field_lacks_is_said_there(form: Any, field: str, words: str) -> None:
    result = examine("20.1", form)
    assert result.outcome is Outcome.NOT_YET
    assert field in result.misconception.split(" + ")
    assert answers(form)[field].startswith("✘") and words in answers(form)[field]


def test_copies_under_other_numbers_are_found() -> None:
    copies = [replace(patient, subject_id=-1 - patient.subject_id) for patient in TRAIN[:60]]
    said = answers(changed(data={"test": copies}))["data"]
    assert said.startswith("✘ 60 of 60 records") and "another number" in said


@pytest.mark.parametrize(
    "limit",
    ["The patients are invented.", "Patients are invented.", "Only one hospital took part."],
)
def test_a_short_sentence_is_a_limit(limit: str) -> None:
    assert examine("20.1", changed(limits=[limit, DONE["limits"][1]])).outcome is Outcome.SOLVED


@pytest.mark.parametrize(
    ("measure", "model", "baseline"),
    [
        ("percent of codes", [0.8, 1.2, 0.9, 1.1], [2.5]),
        ("share found", [0.002, 0.003, 0.002, 0.001], [0.2]),
        ("perplexity of a code", [1.0, 1.1, 1.2, 1.3], [40.0]),
        ("impossible codes per patient", [0.2, 0.1, 0.3, 0.4], [7.0]),
        ("patients found", [112, 130, 125, 118], [4]),
    ],
)
def test_scores_in_one_unit_are_not_called_mixed(measure, model, baseline) -> None:
    form = changed(
        question={"measure": measure},
        model={"scores": model},
        baseline={"scores": baseline},
        report={"finding": what_is_shown(model, baseline, "lower")},
    )
    assert examine("20.1", form).outcome.is_solved


# The means of the finished form: 0.03125 and 0.075.
BY_INTERVAL: dict[str, Any] = {"interval": (-0.06, -0.03)}
NOT_SHOWN = {"finding": "not shown"}


@pytest.mark.parametrize("as_pair", [tuple, list, np.array, torch.tensor])
def test_an_interval_that_agrees_is_told_with_the_finding(as_pair: Any) -> None:
    form = changed(report={"interval": as_pair([-0.06, -0.03])})
    assert examine("20.1", form).outcome is Outcome.SOLVED
    assert answers(form)["report"].endswith("the interval of the difference from -0.06 to -0.03.")


@pytest.mark.parametrize("nothing", [None, (), [], "", np.array([])])
def test_a_form_needs_no_interval(nothing: Any) -> None:
    assert examine("20.1", changed(report={"interval": nothing})).outcome is Outcome.SOLVED


@pytest.mark.parametrize("interval", [(-0.09, 0.01), (-0.06, 0.0), (-1, 1)])
def test_no_finding_goes_with_an_interval_that_contains_zero(interval: Any) -> None:
    form = changed(report={"interval": interval})
    result = examine("20.1", form)
    assert result.outcome is Outcome.NOT_YET and result.misconception == "report"
    said = answers(form)["report"]
    assert '"better" is more than the interval says' in said and "contains zero" in said
    assert 'Write "not shown".' in said
    form = changed(report={"interval": interval, **NOT_SHOWN})
    assert examine("20.1", form).outcome is Outcome.SOLVED, "no remark that it might say better"


def test_an_interval_on_the_other_side_disagrees_with_the_scores() -> None:
    turned = {"interval": (0.03, 0.06)}
    said = answers(changed(report=turned))["report"]
    assert said.startswith('✘ The scores say "better"') and "less the baseline" in said
    assert answers(changed(report=turned | {"finding": "worse"}))["report"] == said
    assert examine("20.1", changed(report=turned | NOT_SHOWN)).outcome.is_solved


def test_scores_that_overlap_are_no_finding_whatever_the_interval_says() -> None:
    form = changed(model={"scores": [0.03, 0.07, 0.035, 0.02]}, report=BY_INTERVAL)
    assert "They overlap" in answers(form)["report"]
    assert "contains zero" not in answers(form)["report"]
    form["report"] = DONE["report"] | {"interval": (-0.09, 0.01)}
    assert "and the interval, from -0.09 to 0.01, contains zero" in answers(form)["report"]
    form["report"] = DONE["report"] | BY_INTERVAL | NOT_SHOWN
    assert examine("20.1", form).outcome is Outcome.SOLVED


def test_an_interval_counts_in_both_directions() -> None:
    form = changed(question={"better": "higher"}, report={"finding": "worse", **BY_INTERVAL})
    assert examine("20.1", form).outcome is Outcome.SOLVED


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        *[
            (wrong, "`(low, high)`")
            for wrong in (
                0.05,
                np.array(0.05),
                torch.tensor(0.05),
                (-0.06,),
                (-0.06, -0.05, -0.03),
                ("low", "high"),
                "-0.06 to -0.03",
                "12",
                (-0.06, None),
                (float("nan"), 0.1),
                (float("-inf"), 0.1),
                {-0.06, -0.03},
                {"low": -0.06, "high": -0.03},
                [[-0.06, -0.03]],
                True,
            )
        ],
        ((-0.03, -0.06), "low end first"),
        (iter((-0.06, -0.03)), "only once"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_interval_is_said_to_be_none(interval: Any, words: str) -> None:
    form = changed(report={"interval": interval})
    assert examine("20.1", form).outcome is Outcome.NOT_YET
    said = answers(changed(report={"interval": interval}))["report"]
    assert said.startswith("✘ `interval`") and words in said


def test_an_interval_of_other_units_gets_a_remark() -> None:
    result = examine("20.1", changed(report={"interval": (-6.0, -3.0)}))
    assert result.outcome is Outcome.REMARK
    assert "differ by -0.04375" in result.message and "unit of the scores" in result.message


def test_equal_scores_are_not_called_a_range() -> None:
    assert answers(changed(model={"scores": [0.03] * 4}))["model"].endswith("4 scores, each 0.03.")


def test_a_difference_that_other_seeds_may_turn_around_is_not_a_finding() -> None:
    form = changed(model={"scores": [0.03, 0.07, 0.035, 0.02]})
    assert "They overlap" in answers(form)["report"]
    form["report"] = DONE["report"] | {"finding": "not shown"}
    assert examine("20.1", form).outcome is Outcome.SOLVED


def test_higher_may_be_better() -> None:
    form = changed(question={"better": "higher"}, report={"finding": "worse"})
    assert examine("20.1", form).outcome is Outcome.SOLVED
    assert 'The numbers say "worse"' in answers(changed(question={"better": "higher"}))["report"]


@pytest.mark.parametrize(
    ("model", "baseline", "better", "shown"),
    [
        ([1, 2], [3, 4], "lower", "better"),
        ([1, 2], [3, 4], "higher", "worse"),
        ([3, 4], [1, 2], "higher", "better"),
        ([3, 4], [1, 2], "lower", "worse"),
        ([1, 3], [3, 4], "lower", "not shown"),
        ([1, 9], [3], "lower", "not shown"),
        ([1, 2], [3], "lower", "better"),
    ],
)
def test_only_scores_that_lie_apart_show_a_difference(model, baseline, better, shown) -> None:
    assert what_is_shown(model, baseline, better) == shown
    if shown != "not shown":
        above = min(model) > max(baseline)
        assert what_is_shown(model, baseline, better, (1, 2) if above else (-2, -1)) == shown
    for interval in ((-1, 1), (-2, -1) if min(model) > max(baseline) else (1, 2)):
        assert what_is_shown(model, baseline, better, interval) == "not shown"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (changed(data={"test": TEST[:20]}), "one of them moves a share by 5%"),
        (
            changed(
                seeds=[0, 1, 2],
                model={"scores": [1.0, 2.0, 3.0]},
                baseline={"scores": [4.0, 5.0, 6.0]},
            ),
            "one study in 10",
        ),
        (changed(report={"finding": "not shown"}), 'might say "better"'),
        (changed(baseline={"scores": [0.06]}), "the single one in 40% of all studies"),
        (
            changed(
                question={"measure": "loss in nats"}, baseline={"scores": [7.0, 8.0, 6.0, 9.0]}
            ),
            "in one unit?",
        ),
        (changed(baseline={"scores": [0.8, 0.7, 0.9, 0.6]}), "in one unit?"),
        (
            changed(report={"text": "Twice as many patients: this proves that it is far better."}),
            'says "proves"',
        ),
        (changed(data={"test": TEST[:1]}), "With 1 test patient, one"),
        (changed(model={"scores": [0.03] * 4}), "exactly the same score"),
    ],
)
def test_a_right_form_may_get_a_remark(form: Any, words: str) -> None:
    result = examine("20.1", form)
    assert result.outcome is Outcome.REMARK
    assert words in result.message


CALLED_EQUAL = [
    (
        "The two models are equally good, whatever anybody says about the four seeds.",
        "equally good",
    ),
    ("There is no difference between the two of them at all, with four seeds.", "no difference"),
    ("With four seeds we found no real difference between the two sizes.", "no real difference"),
    ("Not shown, with four seeds: the small model and the large one are equal.", "are equal"),
    (
        "Over four seeds both models perform about equally well on the test patients.",
        "perform about equally",
    ),
    ("With four seeds each the two models do not differ on these patients.", "do not differ"),
    ("With four seeds the small model is just as good as the large one.", "is just as good as"),
    ("The scores overlap, so for these patients the two models are the same.", "are the same"),
]


@pytest.mark.parametrize("model", [[0.03, 0.07, 0.035, 0.02], DONE["model"]["scores"]])
@pytest.mark.parametrize(("text", "words"), CALLED_EQUAL, ids=[w for _, w in CALLED_EQUAL])
def test_not_shown_is_not_equal(model: list[float], text: str, words: str) -> None:
    form = changed(model={"scores": model}, report={"finding": "not shown", "text": text})
    result = examine("20.1", form)
    assert result.outcome is Outcome.REMARK and result.outcome.is_solved
    assert f'{words}"' in result.message and "too small to see" in result.message
    assert ('might say "better"' in result.message) == (max(model) < 0.06)


def test_a_difference_and_no_difference_do_not_go_together() -> None:
    form = changed(report={"text": CALLED_EQUAL[1][0]})
    assert 'and the finding is "better"' in examine("20.1", form).message


@pytest.mark.parametrize(
    "text",
    [
        "A difference is not shown, which does not say that the two are equally good.",
        "The ranges overlap, from 2% to 7% and from 6% to 9%; no difference was shown.",
        "The scores overlap, so nobody can say whether the two are equal.",
        "Both models had an equal number of seeds and the same test patients; nothing is shown.",
        "All scores are the same patients' scores, and those of the two models overlap.",
        "That more patients lower the share is not shown; this does not prove the opposite.",
        "If the two models were equally good, scores like these would be no surprise.",
    ],
)
def test_a_careful_text_gets_no_remark(text: str) -> None:
    form = changed(
        model={"scores": [0.03, 0.07, 0.035, 0.02]},
        report={"finding": "not shown", "text": text},
    )
    assert examine("20.1", form).outcome is Outcome.SOLVED


@pytest.mark.parametrize("as_scores", [tuple, np.array, torch.tensor])
def test_scores_may_be_arrays_and_patients_ids(as_scores: Any) -> None:
    ids = {"train": range(100), "validation": {200, 201}, "test": [f"s{i}" for i in range(60)]}
    form = changed(data=ids, model={"scores": as_scores([0.03, 0.04, 0.035, 0.02])})
    assert examine("20.1", form).outcome is Outcome.SOLVED


@pytest.mark.parametrize("seeds", [np.arange(4), torch.arange(4), range(4), [*np.arange(4)]])
def test_seeds_may_be_an_array(seeds: Any) -> None:
    assert examine("20.1", changed(seeds=seeds)).outcome is Outcome.SOLVED
    assert answers(changed(seeds=seeds))["seeds"] == "✔ 4 seeds: 0, 1, 2, 3."


def test_scores_may_stand_under_their_seeds() -> None:
    scores = dict(zip(range(4), DONE["model"]["scores"], strict=True))
    assert examine("20.1", changed(model={"scores": scores})).outcome is Outcome.SOLVED


def test_a_baseline_without_chance_may_have_one_score() -> None:
    assert examine("20.1", changed(baseline={"scores": [0.06]})).outcome.is_solved


@pytest.mark.parametrize("form", [None, 3, "study", lambda: DONE, [DONE]])
def test_what_is_no_form_is_said_to_be_none(form: Any) -> None:
    result = examine("20.1", form)
    assert result.outcome is Outcome.NOT_YET and "a dict with the fields" in result.message


def test_missing_and_unknown_fields_are_named() -> None:
    form = {name: value for name, value in DONE.items() if name != "limits"} | {"limit": ["a"]}
    result = examine("20.1", form)
    assert "'limit'" in result.message
    assert "no such field" in dict(result.details)["limits"]


def test_the_form_is_left_as_it_is() -> None:
    form = copy.deepcopy(DONE)
    examine("20.1", form)
    assert form == DONE


def test_check_and_hint_know_the_form(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("EHR_COURSE_HOME", str(tmp_path))
    monkeypatch.delenv("EHR_COURSE_RAISE", raising=False)
    check("20.1", changed(seeds=[0]))
    check("20.1", DONE)
    hint("20.1", 1)
    assert "Your own study · Solved" in capsys.readouterr().out
    assert store.read_standings()["20.1"].attempts == 2
