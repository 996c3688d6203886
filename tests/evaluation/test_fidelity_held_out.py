"""Fidelity to patients whom the model never saw: copies are not rewarded, and few say little."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ehr_course.evaluation.code_table import code_tables
from ehr_course.evaluation.distances import js_divergence
from ehr_course.evaluation.fidelity import (
    Memorization,
    fidelity,
    fidelity_held_out,
    memorization_of,
    needed_to_tell,
    without_each_group,
)
from ehr_course.evaluation.measure import Measure
from ehr_course.evaluation.privacy import patients_with_a_copy
from ehr_course.records import PartialRecord, PatientRecord
from ehr_course.report.verdicts import Verdict, verdict
from ehr_course.sources.synthetic import make_cohort

TRAIN = make_cohort(400, seed=100)
HELD_OUT = make_cohort(400, seed=200)


def dealt_out(records: list[PatientRecord], seed: int) -> list[PatientRecord]:
    """The same codes, as often, dealt out at random among all visits."""
    codes = [code for record in records for code in record.codes]
    np.random.default_rng(seed).shuffle(codes)
    left = iter(codes)
    return [
        replace(
            record,
            visits=tuple(
                replace(visit, codes=tuple(dict.fromkeys(next(left) for _ in visit.codes)))
                for visit in record.visits
            ),
        )
        for record in records
    ]


@pytest.fixture(scope="module")
def judged():
    """Cohorts whose quality is known, with many held-out patients."""
    fresh = make_cohort(400, seed=300)
    cohorts = {
        "fresh": fresh,
        "copies": TRAIN,
        "dealt out": dealt_out(TRAIN, seed=0),
        "other hospital": fresh[:280] + make_cohort(120, seed=400, hospital="heart"),
    }
    return {
        name: fidelity_held_out(TRAIN, HELD_OUT, cohort, seed=1)
        for name, cohort in cohorts.items()
    }


def share_of(found, said: Verdict) -> float:
    verdicts = [verdict(measure) for measure in found.measures]
    return verdicts.count(said) / len(verdicts)


def test_the_measures_are_those_of_fidelity(judged):
    of_fidelity = fidelity(HELD_OUT[:40], TRAIN[:40], resamples=2).measures
    for one, other in zip(judged["fresh"].measures, of_fidelity, strict=True):
        assert (one.name, one.unit, one.better) == (other.name, other.unit, other.better)


def test_value_floor_and_the_value_against_training_patients_are_plain_divergences(judged):
    # All cohorts have 400 patients, so nothing is left to chance.
    tables = code_tables(HELD_OUT, make_cohort(400, seed=300), TRAIN)
    held_out, fresh, train = (table.visits.sum(axis=0) for table in tables)
    found = judged["fresh"]["code distribution JS divergence"]
    assert found.value == pytest.approx(js_divergence(held_out, fresh), abs=1e-6)
    assert found.floor == pytest.approx(js_divergence(held_out, train), abs=1e-6)
    assert found.against_training == pytest.approx(js_divergence(train, fresh), abs=1e-6)


def test_fresh_patients_of_the_hospital_are_at_the_floor(judged):
    assert share_of(judged["fresh"], Verdict.AT_FLOOR) > 0.9


def test_copies_are_no_better_than_the_real_patients_that_they_are(judged):
    before = fidelity(TRAIN, TRAIN, seed=1)
    assert share_of(before, Verdict.BETTER) > 0.3  # memory was taken for quality
    assert share_of(judged["copies"], Verdict.BETTER) == 0
    for measure in judged["copies"].measures:
        if measure.better != "near":
            assert measure.value == pytest.approx(measure.floor), measure.name
    distance = judged["copies"]["code distribution JS distance"]
    assert distance.against_training == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("name", ["dealt out", "other hospital"])
def test_patients_who_are_unlike_real_ones_are_worse_than_the_floor(judged, name):
    assert share_of(judged[name], Verdict.WORSE) > 0.3


def test_copies_are_nearer_to_training_patients_and_others_are_not(judged):
    remembers = {name: found.memorization.remembers for name, found in judged.items()}
    assert remembers == {
        "fresh": False, "copies": True, "dealt out": False, "other hospital": False,
    }  # fmt: skip
    assert all(found.memorization.can_be_known for found in judged.values())


def test_counting_codes_is_near_in_codes_and_not_in_pairs(judged):
    codes, pairs = (
        judged["dealt out"][f"code {what} JS divergence"] for what in ("distribution", "pairs")
    )
    assert codes.against_training < 0.1 * codes.value
    assert pairs.against_training > 0.8 * pairs.value


def test_what_the_distances_mean_is_said_in_words(judged):
    memory = judged["copies"].memorization
    assert memory.in_words == (
        "The cohort remembers training patients: in the codes that stand together it is nearer to "
        f"them (0.00 bits) than to as many held-out patients ({memory.to_held_out:.2f} bits). The "
        "difference is 100% of what photocopies of training patients would show."
    )
    memory = judged["fresh"].memorization
    hidden = (memory.gap.value - memory.gap.low) / memory.of_photocopies.value
    assert 0.1 < hidden < 0.9
    yardstick = (
        f"Photocopies of training patients would be nearer by {memory.of_photocopies.value:.2f} "
        f"bits; a cohort with fewer than about {hidden:.0%} of them might not show it."
    )
    assert memory.in_words == (
        "The distances show no memory: in the codes that stand together the cohort is no nearer "
        f"to training patients ({memory.to_training:.2f} bits) than to as many held-out patients "
        f"({memory.to_held_out:.2f} bits). {yardstick}"
    )


def test_a_difference_that_may_be_chance_is_not_called_none():
    gap, photocopies = Measure("gap", 0.3, -0.1, 0.7), Measure("gap", 0.5, 0.2, 0.8)
    assert Memorization(0.65, 0.35, gap, photocopies, 40).in_words == (
        "In the codes that stand together the cohort is nearer to training patients (0.35 bits) "
        "than to as many held-out patients (0.65 bits), but with 40 of each that may be chance. "
        "Photocopies of training patients would be nearer by 0.50 bits; a cohort with fewer than "
        "about 80% of them might not show it."
    )


def test_40_held_out_patients_say_what_cannot_be_known():
    found = fidelity_held_out(TRAIN, HELD_OUT[:40], TRAIN[:300], seed=1, resamples=20)
    unknown = sum(not measure.known for measure in found.measures)
    assert found.warnings[-1] == (
        f"Only 40 patients are held out. Intervals are wide, and {unknown} of 33 measures have no "
        "interval: a measure at its floor says little, because a cohort that is unlike real "
        "patients can be there too. Hold out 200 or more."
    )
    assert found.memorization.in_words == (
        "Whether the cohort remembers cannot be seen in its distances with 40 held-out patients: "
        "so few do not even tell photocopies of training patients. About "
        f"{found.memorization.needed:,} would be needed."
    )
    assert 100 <= found.memorization.needed <= 1000
    # Copies are told by another way even so.
    having = patients_with_a_copy(TRAIN, HELD_OUT[:40], TRAIN[:300])
    assert verdict(having) is Verdict.WORSE


def test_with_fewer_than_30_held_out_patients_nothing_has_an_interval():
    found = fidelity_held_out(TRAIN, HELD_OUT[:29], TRAIN[:100], seed=1, resamples=2)
    assert not any(measure.known for measure in found.measures)
    assert found.memorization is None
    assert found.warnings[0] == (
        "The held-out cohort has 29 patients: no interval is given below 30, and the numbers say "
        "little."
    )


def test_of_more_held_out_than_training_patients_as_many_are_drawn():
    few = TRAIN[:60]
    found = fidelity_held_out(few, HELD_OUT, TRAIN[60:160], seed=1, resamples=2)
    assert found.warnings[-1].startswith(
        "Only 60 held-out patients are compared, as many as there are training ones. "
    )
    assert found.warnings[-1].endswith(" Train on 200 or more.")
    assert found.memorization.n_held_out == found.size == 60


def test_a_code_of_a_training_patient_is_not_said_to_be_new():
    new = [replace(TRAIN[0], visits=(replace(TRAIN[0].visits[0], codes=("99999",)),))]
    cohort = TRAIN[1:60] + new
    said = fidelity_held_out(TRAIN[:60], HELD_OUT[:60], cohort, resamples=2).warnings
    assert any("none of the 120 real patients has" in warning for warning in said)
    said = fidelity_held_out(TRAIN[1:60] + new, HELD_OUT[:60], cohort, resamples=2).warnings
    assert not any("real patients has" in warning for warning in said)


def test_without_ages_what_needs_them_is_left_out():
    without = [
        PartialRecord(record.subject_id, record.sex, None, record.visits) for record in TRAIN[:40]
    ]
    found = fidelity_held_out(TRAIN[40:80], HELD_OUT[:40], without, resamples=2)
    assert [(name, reason) for name, reason in found.left_out] == [
        (f"age {what}", "the synthetic cohort has no age")
        for what in ("JS divergence", "difference")
    ]
    assert len(found.measures) == 31


# ------------------------------------------------------------------ memory by itself


def test_every_patient_is_left_out_once():
    chosen = np.arange(50) < 47
    weights = without_each_group(chosen, np.random.default_rng(0))
    assert (weights[0] == chosen).all()
    assert (10 * weights[0] - weights[1:].sum(axis=0) == chosen).all()


def test_the_gap_is_the_difference_and_its_error_that_of_the_jackknife():
    to_held_out = np.array([0.5, *np.linspace(0.49, 0.51, 10)])
    to_training = np.full(11, 0.4)
    memory = memorization_of(to_held_out, to_held_out, to_training, to_training, n_held_out=100)
    assert (memory.to_held_out, memory.to_training) == (0.5, 0.4)
    error = math.sqrt(0.9 * ((np.linspace(-0.01, 0.01, 10)) ** 2).sum())
    assert memory.gap.value == pytest.approx(0.1)
    assert memory.gap.high - 0.1 == pytest.approx(2.2622 * error, rel=1e-4)


def test_how_many_are_needed_follows_from_the_halves():
    gap = Measure("gap", 0.2, 0.16, 0.24, floor=0.0)
    # All 1,000 show half of the gap that 500 do; it is to be twice the reach: 0.1 against 0.04.
    halves = Memorization(0.3, 0.1, gap, gap, 500)
    assert needed_to_tell(halves, 1000) == 400  # 500 * (0.08 / 0.1) ** 2 = 320
    assert needed_to_tell(replace(halves, gap=Measure("gap", -0.1, -0.2, 0.0)), 1000) is None
