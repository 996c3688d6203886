"""A synthetic cohort beside a real one: against slow loops, at the floor, and above it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from sklearn.metrics import r2_score, root_mean_squared_error

from ehr_course import icd9
from ehr_course.evaluation.code_table import MOST_CODES
from ehr_course.evaluation.fidelity import SPLITS, Fidelity, fidelity
from ehr_course.evaluation.fidelity_measures import MOST_PAIRED
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

Cohort = list[PatientRecord]


# ---------------------------------------------------------------------- the slow way


def shares(things: Iterable[Iterable], of: int, keys: list) -> np.ndarray:
    """The share of things that have each key."""
    counts = Counter(key for thing in things for key in set(thing))
    return np.array([counts[key] / of for key in keys])


def with_the_rest(things: Iterable[Iterable], keys: list) -> list[int]:
    """How often each key comes, and at last how often anything else does."""
    counts = Counter(key for thing in things for key in set(thing))
    own = [counts[key] for key in keys]
    return [*own, counts.total() - sum(own)]


def slow_carry_over(cohort: Cohort, gap: int, *, chronic: bool) -> float:
    """The share of a visit's codes, or chronic categories, that stood so many visits before."""
    carried = []
    for record in cohort:
        visits = [
            {icd9.category(c) for c in visit.codes if icd9.in_chronic_category(c)}
            if chronic
            else set(visit.codes)
            for visit in record.visits
        ]
        for before, after in zip(visits, visits[gap:], strict=False):
            carried += [code in before for code in after]
    return float(np.mean(carried)) if carried else math.nan


def slow_measures(real: Cohort, other: Cohort, keys: dict[str, list]) -> dict[str, float]:
    """Every measure of one comparison, code by code, with scikit-learn and SciPy."""
    found: dict[str, float] = {}
    carriers = Counter(code for record in real for visit in record.visits for code in visit.codes)
    counted = keys["codes of pairs"]
    often = sorted(sorted(counted, key=lambda code: (-carriers[code], code))[:MOST_PAIRED])
    keys = {name: things for name, things in keys.items() if name != "codes of pairs"} | {
        "code pairs": list(combinations(often, 2)),
        "sequential pairs": list(product(often, often)),
    }
    sides = []
    for cohort in (real, other):
        visits = [visit.codes for record in cohort for visit in record.visits]
        turns = [pair for record in cohort for pair in pairwise(record.visits)]
        sides.append(
            {
                "patient prevalence": [record.codes for record in cohort],
                "visit prevalence": visits,
                "code pairs": [list(combinations(sorted(codes), 2)) for codes in visits],
                "sequential pairs": [list(product(a.codes, b.codes)) for a, b in turns],
                "first visit prevalence": [record.visits[0].codes for record in cohort],
                "later visit prevalence": [v.codes for r in cohort for v in r.visits[1:]],
            }
        )
    for name, things in keys.items():
        p, q = (shares(side[name], len(side[name]), things) for side in sides)
        found[f"{name} R2"] = r2_score(p, q)
        if name in ("first visit prevalence", "later visit prevalence"):
            continue
        found[f"{name} RMSE"] = root_mean_squared_error(p, q)
        if name != "patient prevalence":
            distance = jensenshannon(
                *(with_the_rest(side[name], things) for side in sides), base=2
            )
            name = "code distribution" if name == "visit prevalence" else name
            found[f"{name} JS distance"] = distance
            found[f"{name} JS divergence"] = distance**2
    for name, numbers in (
        ("visits per patient", lambda record: [len(record.visits)]),
        ("codes per visit", lambda record: [len(visit.codes) for visit in record.visits]),
        ("age", lambda record: [record.age]),
    ):
        p, q = ([n for record in cohort for n in numbers(record)] for cohort in (real, other))
        found[f"{name} difference"] = abs(np.mean(p) - np.mean(q))
        counts = [np.bincount(each, minlength=100) for each in (p, q)]
        found[f"{name} JS divergence"] = jensenshannon(*counts, base=2) ** 2
    women = [np.mean([record.sex == "F" for record in cohort]) for cohort in (real, other)]
    found["sex difference"] = abs(women[0] - women[1])
    found["distinct codes"] = len({code for record in other for code in record.codes})
    seen = {code for record in real for code in record.codes}
    written = [code for record in other for code in record.codes]
    found["unseen codes"] = np.mean([code not in seen for code in written])
    for gap, how in ((1, ""), (2, " across 2 visits"), (3, " across 3 visits")):
        for things, chronic in (("codes", False), ("chronic categories", True)):
            share = slow_carry_over(other, gap, chronic=chronic)
            found[f"carry-over of {things}{how}"] = share
    again = []
    for record in other:
        counts = Counter(code for visit in record.visits for code in set(visit.codes))
        again += [n > 1 for n in counts.values()] if len(record.visits) > 1 else []
    found["recurrent codes"] = np.mean(again)
    many = [len(record.visits) >= 4 for record in other]
    found["patients with 4 visits or more"] = np.mean(many)
    return found


def slow_fidelity(real: Cohort, synthetic: Cohort, seed: int) -> tuple[dict, dict]:
    """Values and floors: the same splits, the slow way."""
    codes = sorted({code for record in real for code in record.codes})
    keys = dict.fromkeys(
        (f"{of} prevalence" for of in ("patient", "visit", "first visit", "later visit")), codes
    )
    visits = Counter(code for record in real for visit in record.visits for code in visit.codes)
    most = sorted(codes, key=lambda code: (-visits[code], code))[:MOST_CODES]
    keys["codes of pairs"] = sorted(most)
    size = min(len(real) // 2, len(synthetic))
    rng, other_rng = np.random.default_rng(seed).spawn(2)
    values, floors = [], []
    for _ in range(SPLITS):
        order = rng.permutation(len(real))
        written = [synthetic[i] for i in other_rng.permutation(len(synthetic))[:size]]
        chosen, others = ([real[i] for i in order[a : a + size]] for a in (0, size))
        values.append(slow_measures(chosen, written, keys))
        floors.append(slow_measures(chosen, others, keys))
    return tuple(
        {name: np.nanmean([each[name] for each in found]) for name in found[0]}
        for found in (values, floors)
    )


@pytest.mark.parametrize(("n_real", "n_synthetic"), [(81, 100), (90, 33)])
def test_every_value_and_floor_is_that_of_a_slow_loop(n_real: int, n_synthetic: int) -> None:
    real = make_cohort(n_real, seed=0)
    synthetic = make_cohort(n_synthetic, seed=1, hospital="heart")
    found = fidelity(real, synthetic, seed=5, resamples=2)
    values, floors = slow_fidelity(real, synthetic, seed=5)
    assert found.size == min(n_real // 2, n_synthetic)
    assert {measure.name for measure in found.measures} == values.keys()
    for measure in found.measures:
        assert measure.value == pytest.approx(values[measure.name], abs=1e-5), measure.name
        assert measure.floor == pytest.approx(floors[measure.name], abs=1e-5), measure.name


# ---------------------------------------------------------------------- what it says


def outside(found: Fidelity) -> list[str]:
    """The measures whose floor is outside of their interval; those of carry-over as one."""
    names = [m.name for m in found.measures if m.floor < m.low or m.floor > m.high]
    return sorted({name.partition(" of ")[0] for name in names})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_halves_of_one_hospital_are_at_the_floor(seed: int) -> None:
    cohort = make_cohort(1200, seed=seed)
    order = np.random.default_rng(seed).permutation(1200)
    halves = [[cohort[i] for i in part] for part in np.split(order, 2)]
    found = fidelity(*halves, seed=seed)
    # Of 28 intervals of 95 percent, one may miss.
    assert len(outside(found)) <= 1


def test_another_hospital_is_above_the_floor_in_all_that_differs() -> None:
    found = fidelity(make_cohort(800, seed=0), make_cohort(800, seed=1, hospital="heart"))
    same = {
        "visits per patient JS divergence",
        "visits per patient difference",
        "patients with 4 visits or more",
        "unseen codes",
    }
    for measure in found.measures:
        if measure.name in same:
            assert measure.low <= measure.floor <= measure.high
        elif measure.better == "low":
            assert measure.floor < measure.low, measure.name
        elif measure.name in ("carry-over of codes", "recurrent codes"):
            # Hearts fail again and again.
            assert measure.floor < measure.low, measure.name
        elif not measure.name.startswith("carry-over"):
            assert measure.high < measure.floor, measure.name


@pytest.mark.parametrize("n_synthetic", [300, 600, 3000])
def test_how_many_patients_were_written_does_not_move_a_value_off_its_floor(
    n_synthetic: int,
) -> None:
    found = fidelity(make_cohort(1200, seed=0), make_cohort(n_synthetic, seed=7))
    assert found.size == min(600, n_synthetic)
    assert len(outside(found)) <= 1


def test_intervals_hold_the_value_and_keep_to_what_is_possible() -> None:
    for hospital in ("general", "heart"):
        found = fidelity(make_cohort(300, seed=0), make_cohort(200, seed=1, hospital=hospital))
        assert sum(measure.known for measure in found.measures) >= 28
        for measure in (each for each in found.measures if each.known):
            assert measure.low <= measure.value <= measure.high
            if measure.better == "low":
                assert measure.low >= 0
            if "JS" in measure.name or measure.name.endswith("R2"):
                assert measure.high <= 1


def test_an_interval_holds_other_comparisons_of_the_same_two_hospitals() -> None:
    name = "code distribution JS divergence"
    found = fidelity(make_cohort(400, seed=0), make_cohort(200, seed=1, hospital="heart"))[name]
    held = 0
    for seed in range(2, 22):
        real = make_cohort(200, seed=seed)
        other = make_cohort(200, seed=seed + 100, hospital="heart")
        codes = sorted({code for record in real + other for code in record.codes})
        counts = (
            Counter(code for record in cohort for code in record.codes) for cohort in (real, other)
        )
        p, q = ([count[code] for code in codes] for count in counts)
        held += found.low <= jensenshannon(p, q, base=2) ** 2 <= found.high
    assert held >= 16


def test_an_interval_is_as_wide_as_one_comparison_of_equal_sizes_makes_it() -> None:
    real, synthetic = make_cohort(100, seed=0), make_cohort(3000, seed=1, hospital="heart")
    found = fidelity(real, synthetic, resamples=1000)["age difference"]
    of_real, of_synthetic = (
        np.var([record.age for record in cohort]) for cohort in (real, synthetic)
    )
    width = 2 * 1.96 * math.sqrt((of_real + of_synthetic) / 50)
    assert found.high - found.low == pytest.approx(width, rel=0.1)


# ---------------------------------------------------------------------- the same floor for all


def floors_of(real: Cohort, synthetic: Cohort) -> dict[str, float]:
    return {m.name: m.floor for m in fidelity(real, synthetic, seed=2).measures}


def test_every_cohort_that_is_large_enough_has_the_same_floors_to_the_last_bit() -> None:
    real = make_cohort(300, seed=0)
    expected = floors_of(real, make_cohort(150, seed=1))
    strange = [PatientRecord(n, "M", 90, (Visit(("4280", f"V{n:04}")),) * 25) for n in range(200)]
    for other in (make_cohort(700, seed=2), make_cohort(150, seed=3, hospital="heart"), strange):
        assert floors_of(real, other) == expected
    assert floors_of(real, make_cohort(149, seed=1)) != expected


def test_pairs_of_a_fresh_cohort_are_not_off_their_floor_in_one_direction() -> None:
    """They would be if the pairs that are compared were chosen by all real patients."""
    names = [
        f"{kind} pairs {of}" for kind in ("code", "sequential") for of in ("R2", "JS distance")
    ]
    signs = np.zeros(len(names))
    for seed in range(10):
        found = fidelity(
            make_cohort(300, seed=seed), make_cohort(300, seed=seed + 500), resamples=2
        )
        signs += [np.sign(found[name].value - found[name].floor) for name in names]
    assert (np.abs(signs) <= 8).all(), signs


def test_what_no_real_patient_has_is_seen_by_the_distances_and_by_the_unseen_codes() -> None:
    """Where R2 and RMSE, which compare the codes of real patients, see nothing."""
    real, good = make_cohort(600, seed=0), make_cohort(300, seed=1)
    unknown = [
        replace(r, visits=tuple(Visit((*v.codes, "99999")) for v in r.visits)) for r in good
    ]
    before, after = fidelity(real, good), fidelity(real, unknown)
    for name in ("patient prevalence R2", "visit prevalence RMSE", "code pairs R2"):
        assert after[name].value == before[name].value
    for name in ("unseen codes", "code distribution JS divergence"):
        assert before[name].low <= before[name].floor <= before[name].high
        assert after[name].low > after[name].floor
    n_visits, n_codes = (
        sum(sum(map(of, r.visits)) for r in good) for of in (lambda v: 1, lambda v: len(v.codes))
    )
    added = n_visits / (n_codes + n_visits)
    assert after["unseen codes"].value == pytest.approx(
        added + (1 - added) * before["unseen codes"].value, rel=0.02
    )


# ---------------------------------------------------------------------- little or bad input


def patients(n: int, *visits: tuple[str, ...]) -> Cohort:
    return [PatientRecord(i, "F", 50, tuple(Visit(v) for v in visits)) for i in range(n)]


def test_cohorts_without_a_common_code_are_1_bit_apart_and_a_warning_names_a_code_of_each() -> (
    None
):
    found = fidelity(patients(100, ("4280", "4019")), patients(100, ("I509", "I10")))
    assert found["code distribution JS divergence"].value == pytest.approx(1)
    assert found["code distribution JS distance"].value == pytest.approx(1)
    assert found["code distribution JS distance"].floor == 0
    (warning,) = [w for w in found.warnings if "No code is in both" in w]
    assert ("'4280'" in warning or "'4019'" in warning) and (
        "'I509'" in warning or "'I10'" in warning
    )


@pytest.mark.parametrize(("n_real", "n_synthetic"), [(1, 100), (100, 1), (1, 1), (2, 1)])
def test_a_cohort_of_one_patient_gets_a_report_without_intervals(n_real, n_synthetic) -> None:
    found = fidelity(make_cohort(n_real, seed=0), make_cohort(n_synthetic, seed=1))
    assert found.size == 1
    for measure in found.measures:
        assert math.isnan(measure.low) and math.isnan(measure.high)
        assert math.isnan(measure.floor) or n_real >= 2
    assert any("has 1 patient: no interval" in warning for warning in found.warnings)
    assert any("cannot be split" in warning for warning in found.warnings) == (n_real == 1)
    assert math.isfinite(found["code distribution JS distance"].value)


def test_with_30_patients_there_are_intervals_and_with_29_there_are_none() -> None:
    real = make_cohort(100, seed=0)
    enough, few = (fidelity(real, make_cohort(n, seed=1)) for n in (30, 29))
    assert enough["patient prevalence RMSE"].known and not few["patient prevalence RMSE"].known
    assert any("has 29 patients" in warning for warning in few.warnings)


def test_patients_with_one_visit_have_no_sequential_pairs_and_a_warning_says_so() -> None:
    found = fidelity(patients(50, ("4280", "4019")), patients(50, ("4280",)))
    for name in ("R2", "RMSE", "JS divergence", "JS distance"):
        assert math.isnan(found[f"sequential pairs {name}"].value)
    (warning,) = found.warnings
    assert "only 0 real patients have a second visit" in warning and "sequential pairs" in warning


def test_codes_that_no_real_patient_has_are_counted_with_an_example() -> None:
    synthetic = patients(60, ("4280", "99999"), ("4280",)) + patients(1, ("4280", "00000"))
    real = patients(100, ("4280",), ("4280",))
    warning, _ = fidelity(real, synthetic).warnings
    assert warning == (
        "The synthetic patients have 2 codes that none of the 100 real patients has, such as "
        "'99999' (60 synthetic patients); their share of all codes written is 0.335."
    )
    warning, _ = fidelity(real, synthetic, other_real=patients(7, ("99999",))).warnings
    assert "1 code that none of the 107 real patients has, such as '00000'" in warning
