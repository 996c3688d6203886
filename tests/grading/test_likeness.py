"""Answers are alike where the code is the same but for names, where that says something."""

from __future__ import annotations

import pytest

from course.grading.insight import known_forms
from course.grading.likeness import (
    LAYOUT,
    LETTERS,
    NAMES,
    NEARLY,
    SHORTEST,
    find_alike,
    have_shape_of,
    shape_of,
)
from ehr_course.exercises.worked_answers import changed, worked_answer

LONG = worked_answer("07.5")


def alike(*sources, known=()):
    answers = dict(zip("abcdef", sources, strict=False))
    return find_alike("07.5", answers, known)


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({}, LETTERS),
        ({"def segment(text, scores):": 'def segment(text: str, scores):\n    "Cut."'}, LAYOUT),
        (
            {"    pieces, end = [], len(text)": "    # back\n    pieces, end  =  [], len(text)"},
            LAYOUT,
        ),
    ],
)
def test_one_shape_is_told_by_how_much_agrees(change, how):
    [found] = alike(LONG, changed(LONG, change))
    assert (found.students, found.how, found.share) == (("a", "b"), how, 1.0)


def test_other_names_change_nothing_and_letter_for_letter_copies_are_named():
    renamed = LONG.replace("best", "top").replace("start_of", "origin").replace("piece", "bit")
    [found] = alike(LONG, renamed, renamed)
    assert (found.students, found.how, found.closer) == (("a", "b", "c"), NAMES, (("b", "c"),))


@pytest.mark.parametrize(
    "change",
    [
        {"score > best[end]": "score >= best[end]"},
        {"[0.0]": "[1.0]"},
        {"scores[piece]\n": "scores[text]\n"},
    ],
)
def test_one_small_change_is_nearly_the_same(change):
    [found] = alike(LONG, changed(LONG, change))
    assert found.how == "nearly the same"
    assert NEARLY <= found.share < 1


def test_another_function_is_another_shape():
    assert shape_of("f = len(a)") != shape_of("f = max(a)")
    assert shape_of("a.b(c=1)") != shape_of("a.d(c=1)")
    assert shape_of("a = b - c\nb = c = 0") != shape_of("a = c - c\nb = c = 0")


def test_short_answers_are_not_compared():
    short = worked_answer("07.2")
    assert len(shape_of(short)) < SHORTEST <= len(shape_of(LONG))
    assert find_alike("07.2", {"a": short, "b": short}) == ()


@pytest.mark.parametrize("exercise", ["07.4", "07.5", "07.6", "08.3", "08.5"])
def test_a_worked_answer_and_a_known_wrong_idea_tell_nothing(exercise):
    forms = known_forms(exercise)
    answers = {f"{who}{number}": form for number, form in enumerate(forms) for who in "ab"}
    assert len(find_alike(exercise, answers)) > len(forms) / 2
    assert find_alike(exercise, answers, forms) == ()


@pytest.mark.parametrize("exercise", ["07.4", "07.5", "07.6", "08.3", "08.4", "08.5", "08.6"])
def test_two_ways_to_write_an_answer_are_not_alike(exercise):
    ways = {"a": worked_answer(exercise), "b": worked_answer(exercise, "alternative")}
    assert find_alike(exercise, ways) == ()


def test_answers_near_a_known_form_are_not_called_alike_for_that():
    one = changed(LONG, {"score > best[end]": "score >= best[end]"})
    other = changed(LONG, {"[0.0]": "[1.0]"})
    assert len(alike(one, other)) == 1
    assert alike(one, other, known=[LONG]) == ()


def test_who_has_the_worked_answer_is_told():
    mine = LONG.replace("best", "top")
    assert have_shape_of({"a": mine, "b": worked_answer("07.6"), "c": "x = 1"}, [LONG]) == ("a",)


@pytest.mark.parametrize("source", ["def f(:", "(" * 5000, "x = 1\x00", "-" * 50_000 + "1"])
def test_what_is_no_python_is_compared_with_nothing(source):
    assert find_alike("07.5", {"a": source, "b": source}) == ()


def test_a_deep_tree_is_read_without_a_deep_stack():
    deep = "def f(a):\n    return " + " + ".join(["a"] * 2000)
    [found] = alike(deep, deep.replace("a", "b"))
    assert (found.students, found.how) == (("a", "b"), NAMES)
