"""A real cohort beside a synthetic one: the numbers that are drawn."""

from collections import Counter

import numpy as np
import pytest

from ehr_course.errors import InputError
from ehr_course.plots.cohort_dashboard import chapters_of, draw_looks, looks_of
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

REAL, SYNTHETIC = make_cohort(300, seed=0), make_cohort(200, seed=1)


def patient(*visits):
    return PatientRecord(1, "F", 64, tuple(Visit(codes) for codes in visits))


@pytest.fixture(scope="module")
def looks():
    return looks_of(REAL, SYNTHETIC)


def test_a_prevalence_is_the_share_of_patients_who_have_the_code_at_any_visit(looks):
    for look, cohort in zip(looks, (REAL, SYNTHETIC), strict=True):
        counts = Counter(code for record in cohort for code in set(record.codes))
        expected = [counts[code] / len(cohort) for code in look.codes]
        np.testing.assert_allclose(look.prevalence, expected)


def test_visits_and_codes_are_shares_and_the_last_one_holds_all_that_are_more():
    records = [patient(*[("4280",)] * 9), patient(("4019", "486"))]
    (look,) = looks_of(records)
    assert look.visits.tolist() == [0.5, 0, 0, 0, 0, 0.5]
    assert look.codes_per_visit[:2].tolist() == [0.9, 0.1]
    assert (look.mean_visits, look.mean_codes) == (5.0, 1.1)


def test_ages_are_shares_of_all_patients_by_sex_and_decade(looks):
    look = looks[0]
    for row, sex in enumerate("FM"):
        for decade in range(10):
            count = sum(r.sex == sex and r.age // 10 == decade for r in REAL)
            assert look.ages[row, decade] == pytest.approx(count / len(REAL))
    assert look.ages.sum() == pytest.approx(1)


def test_codes_of_either_cohort_are_compared():
    one, other = looks_of([patient(("4280",))], [patient(("486",))])
    assert one.codes == other.codes == ("4280", "486")
    assert (one.prevalence.tolist(), other.prevalence.tolist()) == ([1, 0], [0, 1])


def test_a_code_of_no_chapter_belongs_to_none():
    (look,) = looks_of([patient(("4280", "I5023"))])
    assert chapters_of(look) == [7]


def test_a_cohort_without_patients_is_refused():
    with pytest.raises(InputError, match="no patients"):
        looks_of(REAL, [])


def test_a_point_for_each_code_stands_at_its_two_prevalences(looks):
    axes = draw_looks(*looks).axes[1]
    points = np.concatenate([dots.get_offsets() for dots in axes.collections])
    expected = np.stack([look.prevalence.clip(min=0.5 / 300) for look in looks], axis=1)
    np.testing.assert_allclose(sorted(points.tolist()), sorted(expected.tolist()))


def test_a_chapter_marks_its_codes_and_no_others(looks):
    axes = draw_looks(*looks, chapter=7).axes[1]
    others, marked = (len(dots.get_offsets()) for dots in axes.collections)
    circulatory = [code for code in looks[0].codes if "390" <= code[:3] <= "459"]
    assert marked == len(circulatory) > 0
    assert others == len(looks[0].codes) - marked


def test_the_bars_of_visits_are_the_shares_of_both_cohorts(looks):
    axes = draw_looks(*looks).axes[3]
    heights = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(heights, [*looks[0].visits, *looks[1].visits])
