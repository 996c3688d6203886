"""A real cohort beside a synthetic one: the numbers, the words and the picture."""

from collections import Counter

import numpy as np
import pytest

from ehr_course.errors import InputError
from ehr_course.plots.bars import bars_in
from ehr_course.plots.cohort_dashboard import (
    chapters_of,
    dashboard_title,
    describe_dashboard,
    draw_dashboard,
    draw_looks,
    looks_of,
)
from ehr_course.records import PartialRecord, PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

REAL = make_cohort(300, seed=0)
SYNTHETIC = make_cohort(200, seed=1)


def patient(*visits, sex="F", age=64):
    return PatientRecord(1, sex, age, tuple(Visit(codes) for codes in visits))


@pytest.fixture(scope="module")
def looks():
    return looks_of(REAL, SYNTHETIC)


# ---------------------------------------------------------------------- the numbers


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


# ---------------------------------------------------------------------- the words


def test_the_title_names_r2_and_both_lengths():
    real, synthetic = looks_of(
        [patient(("4280",), ("4280",)), patient(("486",))],
        [patient(("4280",)), patient(("486",))],
    )
    title = dashboard_title(real, synthetic)
    assert title.endswith("1.00 visits a patient, real 1.50")


def test_r2_is_that_of_the_line_synthetic_equals_real():
    # Prevalences 1 and 1/2 against 1/2 and 1/2: 1 - (1/4) / (1/8).
    real = [patient(("4280", "486")), patient(("4280",))]
    synthetic = [patient(("4280",)), patient(("486",))]
    assert dashboard_title(*looks_of(real, synthetic)).startswith("R² of prevalences -1.00;")


def test_the_alternative_text():
    real, synthetic = looks_of(
        [patient(("4280",)), patient(("4280", "486"), age=30, sex="M")], [patient(("486",))]
    )
    assert describe_dashboard(real, synthetic, name="greedy", chapter=7).partition(". ")[2] == (
        "1 synthetic beside 2 real patients. Codes per visit: 1.00, real 1.50. Most frequent of "
        "codes of Circulatory: 428.0 100.0% real and 0.0% synthetic. Aged 60 or more: 100.0%, "
        "real 50.0%. Female: 100.0%, real 50.0%."
    )


# ---------------------------------------------------------------------- the picture


def test_a_point_for_each_code_stands_at_its_two_prevalences(looks):
    real, synthetic = looks
    axes = draw_looks(real, synthetic).axes[-2]
    points = np.concatenate([dots.get_offsets() for dots in axes.collections])
    lowest = 0.5 / 300
    expected = np.stack([look.prevalence.clip(min=lowest) for look in looks], axis=1)
    np.testing.assert_allclose(sorted(points.tolist()), sorted(expected.tolist()))


def test_a_chapter_marks_its_codes_and_no_others(looks):
    axes = draw_looks(*looks, chapter=7).axes[-2]
    others, marked = (len(dots.get_offsets()) for dots in axes.collections)
    circulatory = [code for code in looks[0].codes if "390" <= code[:3] <= "459"]
    assert marked == len(circulatory) > 0
    assert others == len(looks[0].codes) - marked


def test_the_bars_of_visits_are_the_shares_of_both_cohorts(looks):
    axes = draw_looks(*looks).axes[0]
    heights = [bar.height for bars in axes.collections for bar in bars_in(bars)]
    np.testing.assert_allclose(heights, [*looks[0].visits, *looks[1].visits])


@pytest.mark.parametrize("chapter", [7, None])
def test_another_chapter_on_the_same_picture_looks_like_a_new_one(looks, chapter):
    first = draw_looks(*looks, name="greedy", chapter=10)
    again = draw_looks(*looks, name="greedy", chapter=chapter, on=first)
    new = draw_looks(*looks, name="greedy", chapter=chapter)
    assert again is first
    assert again.png() == new.png()
    assert again.alternative_text == new.alternative_text


def test_records_draw_the_same_picture_as_what_was_seen_of_them(looks):
    assert draw_dashboard(REAL, SYNTHETIC).png() == draw_looks(*looks).png()


def test_cohorts_that_were_not_looked_at_together_are_refused(looks):
    (alone,) = looks_of([patient(("4280",))])
    with pytest.raises(InputError, match="together"):
        draw_looks(looks[0], alone)


def test_a_chapter_without_a_code_is_refused():
    with pytest.raises(InputError, match="no code lies in chapter 2"):
        draw_dashboard([patient(("4280",))], [patient(("4280",))], chapter=2)


@pytest.mark.parametrize("chapter", [None, 7, 18])
@pytest.mark.parametrize("name", ["", "temperature 0.7, top-k 40, top-p 0.9"])
def test_no_text_is_cut_off_and_no_text_lies_on_another(looks, drawn, chapter, name):
    result = drawn(draw_looks(*looks, name=name, chapter=chapter))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize(
    "cohorts",
    [
        ([patient(("4280",))], [patient(("4280",))]),
        ([patient(("4280", "486"))], [patient(("25000",), sex="M", age=0)]),
        (REAL, [patient(("4280",))]),
        (make_cohort(4_000, seed=0), SYNTHETIC),
    ],
    ids=["one code", "nothing in common", "one synthetic patient", "many real patients"],
)
def test_small_and_large_cohorts_fit(drawn, cohorts):
    result = drawn(draw_dashboard(*cohorts))
    assert result.cut_off() == []
    assert result.overlapping() == []


def test_without_ages_their_panel_says_that_they_are_left_out():
    partial = [PartialRecord(r.subject_id, None, r.age, r.visits) for r in SYNTHETIC]
    picture = draw_dashboard(REAL, partial)
    words = [text.get_text() for axes in picture.axes for text in axes.texts]
    assert any(text.startswith("Left out:") for text in words)
    assert "Left out: ages by sex" in picture.alternative_text
    assert "Female" not in picture.alternative_text
    whole = draw_dashboard(REAL, SYNTHETIC).alternative_text
    assert picture.alternative_text.split(" Left out")[0] == whole.split(" Aged")[0]
