"""The drawing of lesson 07."""

from __future__ import annotations

from registry import drawing

from ehr_course.plots.lesson_07 import draw_lattice

SCORES = {"a": -5.0, "b": -6.0, "c": -4.0, "ab": -7.0, "bc": -6.5, "abc": -30.0}


@drawing("The 4 segmentations of abc", "ab c, has the sum -11.0", "abc with -30.0",
         shown=["ab -7.0", "bc -6.5", "-5.0", "-7.0", "-11.0"])  # fmt: skip
def a_lattice_with_a_trap():
    return draw_lattice("abc", SCORES, ["ab", "c"])


@drawing("the longest piece first gives a b with -11.0")
def a_lattice_of_single_letters():
    return draw_lattice("ab", {"a": -5.0, "b": -6.0}, ["a", "b"])


@drawing("The 256 segmentations of aaaaaaaaa")
def a_long_lattice():
    text = "a" * 9
    return draw_lattice(text, {text[:n]: -1.0 - n for n in range(1, 10)}, [text])
