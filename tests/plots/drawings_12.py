"""Cases for the drawings of lesson 12."""

from __future__ import annotations

import numpy as np
from registry import drawing

from ehr_course.widgets.prompt import NextCodes, draw_next_codes

CODES = ("185", "4280", "650", "I5023", "V3001")
OWN = np.array([2.04, 20, 50, 1, 12.5]) / 100


@drawing(
    "Woman, 30: 650 is the likeliest first code (50.0%).",
    "first 650 Normal delivery (50.0%), 428.0",
    f"gives {OWN[0] + OWN[4]:.1%} of all",
    "rules out 2 of them",
)
def codes_of_a_woman():
    return draw_next_codes(NextCodes(30, "F", CODES, OWN, OWN))


@drawing("Man, 30: 650", "(50.0%), though ruled out", "Bars of 3 codes")
def a_code_that_a_man_cannot_have():
    other = np.array([2, 60, 10, 3, 1]) / 100
    return draw_next_codes(NextCodes(30, "M", CODES, OWN, other), most=3)


@drawing("Girl, under 1 year:", "Bars of 12 codes")
def many_codes_of_a_newborn():
    codes = (*map(str, range(4010, 4020)), "V3001", "7742", "V290", "650")
    both = np.random.default_rng(0).dirichlet(np.full(len(codes), 0.3), size=2)
    return draw_next_codes(NextCodes(0, "F", codes, *both))
