"""The drawings of lesson 20 show the scores and the forms that they are given, and can be read."""

from __future__ import annotations

import copy
from typing import Any

import matplotlib.text
import pytest

from ehr_course.evaluation.measure import what_is_shown
from ehr_course.exercises.lost_code import Case
from ehr_course.plots.drawings.chance import draw_chance
from ehr_course.plots.drawings.own_study import (
    draw_choice,
    draw_comparison,
    draw_differences,
    draw_intervals,
    draw_lost,
    draw_seeds,
    draw_study,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.plots.style import Picture
from ehr_course.widgets.chance import imagined_studies

EMPTY: dict[str, Any] = {
    "question": {"text": "", "measure": "", "better": ""},
    "data": {"source": "", "train": [], "validation": [], "test": []},
    "model": {"name": "", "scores": []},
    "baseline": {"name": "", "scores": []},
    "seeds": [],
    "report": {"finding": "", "text": ""},
    "limits": [],
}
FILLED: dict[str, Any] = {
    "question": {
        "text": "Does a network find a lost code more often than a table?",
        "measure": "share of lost codes found",
        "better": "higher",
    },
    "data": {"source": "here", "train": range(700), "validation": [7], "test": range(800, 1000)},
    "model": {"name": "network", "scores": [0.31, 0.355, 0.33]},
    "baseline": {"name": "table", "scores": [0.24]},
    "seeds": [0, 1, 2],
    "report": {"finding": "better", "text": "It is."},
    "limits": ["One.", "Two."],
}
LONG = copy.deepcopy(FILLED)
LONG["question"]["text"] = "Does anything at all become better or worse " * 5 + "?"
LONG["question"]["better"] = "lower"
LONG["model"]["name"] = "a model whose name has far too many words for its box " * 2
LONG["baseline"] |= {"name": "an older model, " * 6, "scores": [12.25, 1034.5, 77.0]}
LONG["report"]["finding"] = "not shown"
LONG["data"]["train"] = range(46_520)

LUCK = ({0: 0.39, 1: 0.38, 2: 0.33, 4: 0.33}, {5: 0.02, 9: 0.021}, {0: 0.5, 1: 0.5}, {3: 0, 4: 1})
DIFFERENCES = (
    ([-0.09, -0.02, 0, 0, 0.02, 0.02, 0.07], ("A", "B"), {"first": 0.07, "patients": 100}),
    ([0.01 * n for n in range(-12, 12)] * 3, ("A", "B"), {"patients": 100}),
    ([0.05], ("A", "B"), {"first": -0.03, "patients": 200}),
)
INTERVALS = (
    {"table, 200 patients": (0.022, 0.139), "pairs": (-0.05, 0.03), "more": (-0.034, -0.013)},
    {"a baseline whose name has far too many words for its place " * 2: (-0.5, -0.25)},
    {"one": (-0.01, 0.0), "two": (-0.3, 0.4)},
)
CASES = (
    (Case(64, "M", ("1977", "25000"), "78720"), ["5990", "78720", "4019"]),
    (Case(0, "F", tuple(f"{n}00" for n in range(401, 421)), "V3000"), ["7746", "V290"]),
    (Case(90, "F", (), "486"), [f"{n}11" for n in range(250, 260)]),
)


def words(picture: Picture) -> str:
    return " ".join(text.get_text() for text in picture.findobj(matplotlib.text.Text))


def chance(seeds: int, difference: float) -> Picture:
    studies = imagined_studies(seeds, difference=difference, seed=1)
    findings = [what_is_shown(*study, "higher") for study in studies]
    return draw_chance(studies, findings, truth="equal models")


@pytest.mark.parametrize(
    "picture",
    [
        *[lambda rows=rows: draw_differences(*rows[:2], **rows[2]) for rows in DIFFERENCES],
        *[lambda rows=rows: draw_intervals(rows, of="network less table") for rows in INTERVALS],
        *[lambda scores=scores: draw_seeds(scores, "lost codes found") for scores in LUCK],
        lambda: draw_choice({15: [0.2, 0.3], 60: [0.4, 0.4]}, of="steps", measure="found"),
        lambda: draw_choice({n: [n / 1e4] * 3 for n in range(1, 9)}, of="layers", measure="x"),
        *[lambda case=case, named=named: draw_lost(case, named) for case, named in CASES],
        *[lambda form=form: draw_study(form) for form in (EMPTY, FILLED, LONG)],
        *[lambda form=form: draw_comparison(form) for form in (FILLED, LONG)],
        lambda: draw_comparison(FILLED, {"table of pairs": [0.335]}, finding="not shown"),
        lambda: draw_comparison(FILLED, {"pairs": [0.335]}, finding="not shown", percent=True),
        *[lambda n=n, d=d: chance(n, d) for n in (2, 3, 10) for d in (0, 1, 4)],
    ],
)
def test_a_drawing_can_be_read(picture):
    assert label_problems(picture()) == []


def test_the_best_and_the_worst_seed_are_named():
    picture = draw_seeds(LUCK[0], "lost codes found")
    assert "best: seed 0, 39.0%" in words(picture) and "worst: seed 2, 33.0%" in words(picture)
    assert "One recipe: 6 points between" in words(picture), "39 less 33"
    assert "0.1 points between" in words(draw_seeds(LUCK[1], "lost codes found"))
    assert "from 33.0% with seed 2 to 39.0% with seed 0" in picture.alternative_text
    assert "best: seed 9, 2.1%" in words(draw_seeds(LUCK[1], "lost codes found"))
    assert "score the same" in words(draw_seeds(LUCK[2], "lost codes found"))


def test_groups_are_counted_by_who_is_ahead():
    picture = draw_differences(*DIFFERENCES[0][:2], **DIFFERENCES[0][2])
    assert "A is ahead in 3 of 7 groups, B in 2" in words(picture)
    assert "from -9 to +7 points" in picture.alternative_text
    assert "and 2 have no difference. On the first group it was +7." in picture.alternative_text
    assert "the first group" in words(picture)
    assert "first group" not in draw_differences(*DIFFERENCES[1][:2], patients=9).alternative_text


def test_intervals_that_contain_zero_are_counted():
    picture = draw_intervals(INTERVALS[0], of="network less table")
    assert "1 of 3 intervals contains zero" in words(picture)
    assert "Pairs: -5.0 to +3.0, contains zero." in picture.alternative_text
    assert "More: -3.4 to -1.3, lies on one side of zero." in picture.alternative_text
    assert "2 of 2 intervals contain zero" in words(draw_intervals(INTERVALS[2], of="x"))


@pytest.mark.parametrize(("scores", "chosen"), [([0.4, 0.4], 60), ([0.2, 0.1], 15)])
def test_the_highest_mean_is_chosen(scores, chosen):
    picture = draw_choice({15: [0.2, 0.3], 60: scores}, of="steps", measure="found")
    assert f"{chosen} steps are chosen" in words(picture)
    assert f"{chosen} steps have the highest mean" in picture.alternative_text


def test_a_lost_code_is_found_where_it_was_named():
    found, missed, _ = (draw_lost(*case) for case in CASES)
    assert "787.20 Dysphagia, unspecified" in words(found)
    assert "place 2 of 3 suggestions" in found.alternative_text
    assert "is not among 2 suggestions" in words(missed) and "and 12 more" in words(missed)
    assert "Girl, 0, with 20 codes left" in missed.alternative_text


def test_the_form_is_read_off():
    empty, filled = draw_study(EMPTY), draw_study(FILLED)
    for field in EMPTY:
        assert field in words(empty) and field in words(filled)
    assert "All are still empty." in empty.alternative_text
    for number in ("700 train", "1 validation", "200 test", "0.31 to 0.355", "3 runs", "“better”"):
        assert number in words(filled) and number not in words(empty)
    assert "Filled in: question, data" in filled.alternative_text


def test_a_comparison_has_the_finding_and_the_ranges():
    picture = draw_comparison(FILLED)
    assert "Against the table, the finding is “better”" in words(picture)
    assert "Network: 0.31 to 0.355. Table: 0.24." in picture.alternative_text
    assert "Network: 31.0% to 35.5%. Table: 24.0%." in (
        draw_comparison(FILLED, percent=True).alternative_text
    )
    second = draw_comparison(FILLED, {"table of pairs": [0.335]}, finding="not shown")
    assert "Against the table of pairs, the finding is “not shown”" in words(second)
    assert "Table of pairs: 0.335." in second.alternative_text


def test_more_seeds_make_false_findings_rarer():
    few, many = chance(3, 0), chance(5, 0)
    assert "3 seeds" in words(few) and "5 seeds" in words(many)

    def false_share(picture: Picture) -> float:
        return float(words(picture).partition("models: ")[2].partition("%")[0])

    assert 8 < false_share(few) < 12 and false_share(many) < 2
