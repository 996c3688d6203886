"""What comes back from visit to visit: against slow loops, and where the truth was planted."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import (
    carried_over,
    chronic_categories,
    code_tables,
    recurrent,
)
from ehr_course.evaluation.fidelity import fidelity
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

Cohort = list[PatientRecord]

CARRY_OVER = (
    "carry-over of codes",
    "carry-over of codes across 2 visits",
    "carry-over of codes across 3 visits",
    "carry-over of chronic categories",
    "carry-over of chronic categories across 2 visits",
    "carry-over of chronic categories across 3 visits",
    "recurrent codes",
)


# ---------------------------------------------------------------------- the slow way


def in_turn(record: PatientRecord, *, chronic: bool) -> list[set[str]]:
    """The codes of each visit, or its chronic categories."""
    if not chronic:
        return [set(visit.codes) for visit in record.visits]
    return [
        {icd9.category(code) for code in visit.codes if icd9.in_chronic_category(code)}
        for visit in record.visits
    ]


@pytest.mark.parametrize("gap", [1, 2, 3, 7])
@pytest.mark.parametrize("chronic", [False, True])
def test_carry_over_is_counted_visit_by_visit(gap: int, chronic: bool) -> None:
    cohort = make_cohort(150, seed=0)
    (table,) = code_tables(cohort)
    carried, of = carried_over(chronic_categories(table) if chronic else table, gap=gap)
    for row, record in enumerate(cohort):
        visits = in_turn(record, chronic=chronic)
        n_carried = n_codes = 0
        for place in range(gap, len(visits)):
            for thing in visits[place]:
                n_codes += 1
                n_carried += thing in visits[place - gap]
        assert (carried[row], of[row]) == (n_carried, n_codes)


def test_recurrent_codes_are_counted_code_by_code() -> None:
    cohort = make_cohort(150, seed=1)
    (table,) = code_tables(cohort)
    again, of = recurrent(table)
    for row, record in enumerate(cohort):
        visits = in_turn(record, chronic=False)
        codes = set.union(*visits) if len(visits) > 1 else set()
        n_again = sum(sum(code in visit for visit in visits) > 1 for code in codes)
        assert (again[row], of[row]) == (n_again, len(codes))


def test_two_codes_of_one_chronic_category_are_one_and_acute_ones_are_none() -> None:
    record = PatientRecord(1, "F", 50, (Visit(("25000", "25060", "486")), Visit(("486", "E8497"))))
    (table,) = code_tables([record])
    chronic = chronic_categories(table)
    assert chronic.codes == ("250",)
    assert chronic.visits.toarray().tolist() == [[1], [0]]
    assert chronic.patients.toarray().tolist() == [[1]]


def test_a_gap_below_1_is_refused() -> None:
    with pytest.raises(InputError, match="gap: 0 is not a distance"):
        carried_over(code_tables(make_cohort(3))[0], gap=0)


# ---------------------------------------------------------------------- planted truth


@cache
def real() -> Cohort:
    return make_cohort(1500, seed=0)


def with_visits(cohort: Cohort, visits: list[Visit]) -> Cohort:
    """The same patients, as many visits each, but the visits are these, in order."""
    left = iter(visits)
    return [
        PatientRecord(r.subject_id, r.sex, r.age, tuple(next(left) for _ in r.visits))
        for r in cohort
    ]


def shuffled(cohort: Cohort, rng: np.random.Generator) -> Cohort:
    """Every visit of the cohort, at a patient drawn at random."""
    visits = [Visit(visit.codes) for record in cohort for visit in record.visits]
    return with_visits(cohort, [visits[i] for i in rng.permutation(len(visits))])


def halved(cohort: Cohort, rng: np.random.Generator) -> Cohort:
    """Half of the codes that stood in the visit before become codes that did not."""
    pool = [code for record in cohort for code in record.codes]
    visits = []
    for record in cohort:
        before: set[str] = set()
        for visit in record.visits:
            codes = list(visit.codes)
            for place, code in enumerate(codes):
                while code in before and rng.random() < 0.5:
                    new = pool[rng.integers(len(pool))]
                    if new not in before and new not in codes:
                        codes[place] = new
                        break
            before = set(codes)
            visits.append(Visit(tuple(codes)))
    return with_visits(cohort, visits)


def test_copies_of_real_patients_are_at_the_floor() -> None:
    found = fidelity(real(), real(), seed=1)
    for name in (*CARRY_OVER, "patients with 4 visits or more"):
        measure = found[name]
        assert measure.low <= measure.floor <= measure.high, name
        assert measure.value == pytest.approx(measure.floor, rel=0.1), name


def test_other_real_patients_are_at_the_floor() -> None:
    names = (*CARRY_OVER, "patients with 4 visits or more")
    missed = 0
    for seed in range(1, 6):
        found = fidelity(real(), make_cohort(1500, seed=seed), seed=seed)
        missed += sum(
            not found[name].low <= found[name].floor <= found[name].high for name in names
        )
    assert missed <= 2  # of 40 intervals


def test_visits_shuffled_between_patients_lose_their_carry_over() -> None:
    found = fidelity(real(), shuffled(real(), np.random.default_rng(0)), seed=1)
    for name in CARRY_OVER:
        assert found[name].high < found[name].floor / 2, name
    # Nothing else than the order of visits was touched.
    many = found["patients with 4 visits or more"]
    assert many.low <= many.floor <= many.high
    visits = found["visit prevalence R2"]
    assert visits.high >= visits.floor


def test_halved_carry_over_is_seen() -> None:
    found = fidelity(real(), halved(real(), np.random.default_rng(0)), seed=1)
    for name in ("carry-over of codes", "carry-over of chronic categories", "recurrent codes"):
        assert found[name].high < found[name].floor, name
    measure = found["carry-over of codes"]
    assert 0.4 < measure.value / measure.floor < 0.75
    assert measure.floor == pytest.approx(0.36, abs=0.03)


def test_too_much_carry_over_is_seen_too() -> None:
    repeated = [
        PatientRecord(r.subject_id, r.sex, r.age, r.visits[:1] * len(r.visits)) for r in real()
    ]
    found = fidelity(real(), repeated, seed=1)
    for name in CARRY_OVER:
        assert found[name].value == 1 and found[name].low > found[name].floor, name


def test_cut_histories_are_seen_in_the_share_of_patients_with_many_visits() -> None:
    cut = [PatientRecord(r.subject_id, r.sex, r.age, r.visits[:3]) for r in real()]
    found = fidelity(real(), cut, seed=1)["patients with 4 visits or more"]
    of_real = np.mean([len(record.visits) >= 4 for record in real()])
    assert found.value == 0 and found.high < found.floor
    assert found.floor == pytest.approx(of_real, abs=0.005)


def test_wrong_later_visits_leave_first_visits_at_their_floor() -> None:
    others = make_cohort(1500, seed=5)
    heart = make_cohort(3000, seed=1, hospital="heart")
    strange = iter([Visit(visit.codes) for record in heart for visit in record.visits])
    mixed = [
        PatientRecord(
            r.subject_id,
            r.sex,
            r.age,
            (Visit(r.visits[0].codes), *(next(strange) for _ in r.visits[1:])),
        )
        for r in others
    ]
    found = fidelity(real(), mixed, seed=1)
    first, later = (found[f"{place} visit prevalence R2"] for place in ("first", "later"))
    assert first.low <= first.floor <= first.high
    assert later.high < later.floor


# ---------------------------------------------------------------------- little input


def test_codes_of_another_classification_have_no_chronic_category() -> None:
    cohort = [
        PatientRecord(n, "F", 50, (Visit(("I509", "I10")), Visit(("I509",)))) for n in range(60)
    ]
    found = fidelity(cohort, cohort)
    assert found["carry-over of codes"].value == 1
    assert np.isnan(found["carry-over of chronic categories"].value)
    (warning,) = found.warnings
    assert "only 0 real patients have a chronic code at a second visit" in warning
    assert (
        "only 0 real patients have a third visit (carry-over of codes across 2 visits)" in warning
    )


def test_with_29_patients_who_come_back_there_is_no_interval_and_with_30_there_is() -> None:
    once, twice = (Visit(("4280", "4019")),), (Visit(("4280", "4019")), Visit(("4280",)))

    def cohort(n: int) -> Cohort:
        return [PatientRecord(i, "F", 50, twice if i < n else once) for i in range(100)]

    few, enough = (fidelity(cohort(80), cohort(n))["carry-over of codes"] for n in (29, 30))
    assert not few.known and enough.known
    assert few.value == enough.value == 1
