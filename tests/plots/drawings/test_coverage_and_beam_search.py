"""The drawings of lesson 17 show the summaries, costs and seeds that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from ehr_course.plots.coverage_player import Look
from ehr_course.plots.drawings.coverage_and_beam_search import (
    MOST_WORDS,
    Written,
    draw_lesson,
    draw_overlap,
    draw_seeds,
    draw_steps,
    draw_suspects,
)
from ehr_course.plots.overlaps import label_problems

NOTE = ("albuterol", "hydrochlorothiazide", "insulin", "heparin", "biotin")


def said(picture) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


@pytest.mark.parametrize(
    ("written", "title", "twice", "never"),
    [
        (NOTE, "5 drugs written for 5: 0 come twice, 0 are missing", "none", "none"),
        (
            ("albuterol", "albuterol", "insulin", "insulin", "insulin", "biotin"),
            "6 drugs written for 5: 2 come twice, 2 are missing",
            "albuterol, insulin",
            "hydrochlorothiazide, heparin",
        ),
        (("aspirin",), "1 drugs written for 5: 0 come twice, 5 are missing", "none", "albuterol"),
    ],
)
def test_what_comes_twice_and_what_never_comes_is_named(written, title, twice, never):
    picture = draw_lesson(NOTE, written)
    assert label_problems(picture) == []
    assert said(picture)[0] == title
    assert f"Twice: {twice}." in picture.alternative_text
    assert f"Never: {never}" in picture.alternative_text
    assert said(picture).count("again") == len(written) - len(set(written))


def test_a_long_list_is_cut():
    words = [f"medication{place}" for place in range(40)]
    picture = draw_lesson(words, words[::-1])
    assert label_problems(picture) == []
    assert f"A list of {MOST_WORDS} drugs" in picture.alternative_text


@pytest.mark.parametrize("n_words", [4, 12, 90])
def test_the_costs_are_those_of_the_steps(n_words):
    rng = np.random.default_rng(n_words)
    words = tuple(f"medication{place}" for place in range(n_words))
    look = Look(words, words[:4], rng.dirichlet(np.full(n_words, 0.3), 4))
    picture = draw_overlap(look, (3, 1))
    assert label_problems(picture) == []
    costs = [
        f"step {step + 1} (“{words[step]}”) costs {look.repeated[step]:.2f}" for step in (1, 3)
    ]
    assert said(picture)[0] == "S" + " and ".join(costs)[1:]
    assert "; ".join(costs) in picture.alternative_text


@pytest.mark.parametrize("n_seeds", [2, 5])
@pytest.mark.parametrize("highest", [0.0, 0.3])
def test_each_kind_shows_its_means_and_a_dot_for_each_seed(n_seeds, highest):
    rng = np.random.default_rng(n_seeds)
    found = {
        kind: [Written(*row) for row in rng.uniform([0, 0.5, 0], [highest, 1, 1], (n_seeds, 3))]
        for kind in ("no coverage", "feature", "feature and loss", "longer")
    }
    picture = draw_seeds(found)
    assert label_problems(picture) == []
    named = {kind: np.mean([one.named for one in some]) for kind, some in found.items()}
    again = {kind: np.mean([one.repeated for one in some]) for kind, some in found.items()}
    assert said(picture)[0] == (
        f"Drugs repeated: {again['no coverage']:.0%} without coverage, "
        f"{again['feature and loss']:.0%} with, {again['longer']:.0%} from longer lists"
    )
    assert f"{named['feature']:.0%} named" in picture.alternative_text
    for some in found.values():
        exact = ", ".join(f"{one.exact:.0%}" for one in some)
        assert f"exact {exact}" in picture.alternative_text
    dots = [len(some.get_offsets()) for axes in picture.axes for some in axes.collections]
    assert dots == [n_seeds] * 12


@pytest.mark.parametrize(("jumps", "title"), [((1, 1, 2, 6, 6, 6), (4, 6)), ((1,) * 6, (6, 1))])
def test_each_model_shows_the_places_it_looks_at(jumps, title):
    right = tuple(range(1, 7))
    looked = {
        "2 to 3": {"a short list": (1, 2), "a long list": jumps},
        "2 to 6": {"a short list": (1, 2), "a long list": right},
    }
    picture = draw_steps(looked)
    assert label_problems(picture) == []
    step, place = title
    assert said(picture)[0] == (
        f"Trained on lists of 2 to 3, step {step} looks at place {place}; "
        f"on 2 to 6, at place {step}"
    )
    assert f"a long list: {', '.join(map(str, jumps))}." in picture.alternative_text
    drawn = [tuple(line.get_ydata()) for axes in picture.axes for line in axes.lines]
    assert drawn == [row for rows in looked.values() for row in rows.values()]


def test_each_test_exchanges_one_thing_that_a_step_is_given():
    given = ("aspirin", "place 1", "after step 2")
    told = ("digoxin", "place 4, at every step", "begun for a short list")
    picture = draw_suspects(3, given, told)
    assert label_problems(picture) == []
    written = said(picture)
    assert [words for words in written if words in given] == list(given)
    assert [words for words in written if words in told] == list(told)
    assert "step 3\nof the\ndecoder" in written
    for n, (own, other) in enumerate(zip(given, told, strict=True), start=1):
        assert f"{own}; test {n} gives {other}." in picture.alternative_text
