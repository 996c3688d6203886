"""What a cohort must not be used for follows from what was measured."""

from __future__ import annotations

import pytest

from ehr_course.evaluation.measure import Measure
from ehr_course.report.limits import ALWAYS, limits_of_use

KEYS = ("fidelity", "validity", "privacy", "utility")
GOOD = Measure("good one", 0.5, low=0.4, high=0.6, floor=0.5)
BAD = Measure("bad one", 0.9, low=0.8, high=1.0, floor=0.5)
SMALL = Measure("small one", 0.9, floor=0.5)


def test_three_limits_hold_of_every_cohort():
    assert limits_of_use({key: [GOOD] for key in KEYS}) == ALWAYS
    assert len(ALWAYS) == 3


@pytest.mark.parametrize("key", KEYS)
def test_a_bad_measure_adds_a_limit_that_names_it(key):
    limits = limits_of_use({other: [GOOD] for other in KEYS} | {key: [GOOD, BAD]})
    assert len(limits) == 4
    assert "bad one" in limits[3] and "good one" not in limits[3]


@pytest.mark.parametrize("key", KEYS)
def test_a_measure_on_too_few_patients_is_no_clean_bill(key):
    limits = limits_of_use({other: [GOOD] for other in KEYS} | {key: [SMALL]})
    assert len(limits) == 4
    assert limits[3].startswith("Nothing shows")


def test_several_bad_measures_are_listed_in_words():
    more = [Measure(name, 0.9, low=0.8, high=1.0, floor=0.5) for name in "abc"]
    assert "a, b and c" in limits_of_use({"utility": more})[3]
