"""What a measure says, and the limits that follow, depend on its interval and its floor."""

from __future__ import annotations

import math

import pytest

from ehr_course.evaluation.fidelity import NEARER, Memorization
from ehr_course.evaluation.measure import Measure
from ehr_course.evaluation.privacy import WITH_A_COPY
from ehr_course.report.verdicts import (
    ALWAYS,
    MUST_NOT_BE_GIVEN_FIRST,
    Verdict,
    disclosure_in_words,
    limits_of_use,
    verdict,
)


def measure(value=0.5, low=0.4, high=0.6, floor=0.5, better="low"):
    return Measure("anything", value, low=low, high=high, floor=floor, better=better)


@pytest.mark.parametrize("better", ["low", "high", "near"])
def test_an_interval_that_contains_the_floor_is_at_the_floor(better):
    assert verdict(measure(better=better)) is Verdict.AT_FLOOR


@pytest.mark.parametrize("floor", [0.4, 0.6])
def test_the_ends_of_the_interval_belong_to_it(floor):
    assert verdict(measure(floor=floor)) is Verdict.AT_FLOOR


@pytest.mark.parametrize(
    ("floor", "better", "expected"),
    [
        (0.1, "low", Verdict.WORSE),
        (0.9, "low", Verdict.BETTER),
        (0.1, "high", Verdict.BETTER),
        (0.9, "high", Verdict.WORSE),
        (0.1, "near", Verdict.WORSE),
        (0.9, "near", Verdict.WORSE),
    ],
)
def test_an_interval_beside_the_floor_is_judged_by_what_is_better(floor, better, expected):
    assert verdict(measure(floor=floor, better=better)) is expected


def test_a_value_without_an_interval_is_never_good():
    assert verdict(measure(low=math.nan, high=math.nan)) is Verdict.TOO_FEW


def test_without_a_floor_nothing_is_said():
    assert verdict(measure(floor=math.nan)) is Verdict.NO_FLOOR


def test_without_a_value_nothing_was_measured():
    assert verdict(measure(value=math.nan)) is Verdict.NOT_MEASURED


# ------------------------------------------------------------------ limits of use

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


# ------------------------------------------------------------------ before all numbers


def of(name, value, low, high, floor=0.5, better="near"):
    return Measure(name, value, low=low, high=high, floor=floor, better=better)


COPIES_NONE = of("exact copies", 0.03, 0.02, 0.05, floor=0.03, better="low")
MEMBERS_NONE = of("membership by distance", 0.5, 0.47, 0.53)


def test_membership_by_the_model_is_said_of_the_model():
    told = of("membership by likelihood", 0.8, 0.75, 0.85)
    first, last = disclosure_in_words([COPIES_NONE, MEMBERS_NONE, told])
    assert first == MUST_NOT_BE_GIVEN_FIRST
    assert last.startswith("Anyone who has the model can tell") and "0.80" in last


def test_copies_among_long_records_alone_are_said_too():
    long = of("exact copies of long records", 0.2, 0.1, 0.3, floor=0.0, better="low")
    _, said = disclosure_in_words([COPIES_NONE, long, MEMBERS_NONE])
    assert "20% of its patients with five codes or more" in said


COPIES = of("exact copies", 0.14, 0.12, 0.16, floor=0.08, better="low")


def having(value, low, high, floor):
    return of(WITH_A_COPY, value, low, high, floor=floor, better="low")


def test_copies_are_said_with_what_chance_makes():
    first, said = disclosure_in_words([COPIES, having(0.13, 0.1, 0.16, 0.04), MEMBERS_NONE])
    assert first == MUST_NOT_BE_GIVEN_FIRST
    assert said == (
        "The cohort copies training patients: 14% of its patients have exactly the visits of one. "
        "Of training patients 13% have a copy in it; of held-out patients, whom the model never "
        "saw, 4% have one by chance."
    )


def test_copies_that_chance_makes_for_the_most_part_are_said_to_be_somewhat_more():
    _, said = disclosure_in_words([COPIES, having(0.14, 0.117, 0.16, 0.095), MEMBERS_NONE])
    assert said == (
        "The cohort has somewhat more copies of training patients than chance makes: 14% of its "
        "patients have exactly the visits of a training patient. Of training patients 14% have a "
        "copy in it; of held-out patients, whom the model never saw, 9.5% have one by chance."
    )


def test_copies_that_chance_makes_are_no_memory():
    measures = [COPIES, having(0.125, 0.09, 0.16, 0.12), MEMBERS_NONE]
    first, said = disclosure_in_words(measures)
    assert first.startswith("No sign was found")
    assert said == (
        "14% of its patients have exactly the visits of a training patient. Chance makes such "
        "copies: of training patients 12% have one in it, and of held-out patients, whom the "
        "model never saw, 12%."
    )
    assert limits_of_use({"privacy": measures}) == ALWAYS


def test_copies_that_too_few_held_out_patients_do_not_explain_are_not_excused():
    measures = [COPIES, having(0.02, 0.0, 0.06, 0.0), MEMBERS_NONE]
    first, said, *_ = disclosure_in_words(measures)
    assert first == MUST_NOT_BE_GIVEN_FIRST and said.startswith("The cohort copies training")
    assert "exact copies" in limits_of_use({"privacy": measures})[3]


def test_memory_in_the_distances_is_said_with_both_distances():
    gap = of(NEARER, 0.05, 0.03, 0.07, floor=0.0, better="low")
    photocopies = of(NEARER, 0.1, 0.08, 0.12, floor=0.0, better="low")
    memory = Memorization(0.33, 0.28, gap, photocopies, 1000)
    first, said = disclosure_in_words([COPIES_NONE, MEMBERS_NONE, gap], memory=memory)
    assert first == MUST_NOT_BE_GIVEN_FIRST
    assert said == (
        "The cohort remembers training patients: in the codes that stand together it is nearer to "
        "them (0.28 bits) than to as many held-out patients (0.33 bits). The difference is 50% of "
        "what photocopies of training patients would show."
    )


@pytest.mark.parametrize(
    "measure",
    [
        of("adversarial accuracy, train", 0.9, 0.8, 1.0),
        of("adversarial accuracy, held-out", 0.9, 0.8, 1.0),
        of("privacy loss", -0.2, -0.3, -0.1, floor=0.0),
        of("rare codes absent", 0.9, 0.8, 1.0),
        of("membership by distance", 0.4, 0.35, 0.45),
    ],
)
def test_patients_that_lie_apart_are_bad_and_give_nobody_away(measure):
    assert verdict(measure) is Verdict.WORSE
    (said,) = disclosure_in_words([COPIES_NONE, MEMBERS_NONE, measure])
    assert said.startswith("No sign was found")
    assert limits_of_use({"privacy": [measure]}) == ALWAYS


@pytest.mark.parametrize(
    "measure",
    [
        of("adversarial accuracy, train", 0.2, 0.1, 0.3),
        of("privacy loss", 0.2, 0.1, 0.3, floor=0.0),
        of("rare codes absent", 0.1, 0.05, 0.2),
        of("attribute disclosure F1", 0.4, 0.3, 0.5, floor=0.1, better="low"),
    ],
)
def test_other_signs_than_copies_and_membership_are_named(measure):
    first, said = disclosure_in_words([COPIES_NONE, MEMBERS_NONE, measure])
    assert measure.name in said and first == MUST_NOT_BE_GIVEN_FIRST
    assert measure.name in limits_of_use({"privacy": [measure]})[3]


@pytest.mark.parametrize("measures", [(), (Measure("exact copies", 0.5, floor=0.0),)])
def test_what_was_not_judged_is_no_clean_bill(measures):
    (said,) = disclosure_in_words(measures)
    assert "could not be judged" in said and "Treat it as real data" in said
