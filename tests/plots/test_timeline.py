"""A patient's time line: its title, its words and the picture."""

from collections import Counter
from datetime import datetime

import pytest
from matplotlib.collections import PathCollection

from ehr_course.plots.style import chapter_name, chapter_of
from ehr_course.plots.timeline import (
    chapter_counts,
    describe_timeline,
    draw_timeline,
    timeline_title,
    visit_times,
)
from ehr_course.records import PatientRecord, Visit


def record(*visits, sex="F", age=64):
    return PatientRecord(1, sex, age, tuple(Visit(codes, admitted) for codes, admitted in visits))


HEART = record(
    (("4280", "42731", "5849"), datetime(2101, 1, 1)),
    (("4280",), datetime(2101, 7, 1)),
    (("486", "V4581"), datetime(2103, 2, 6)),
)


def drawn_marks(picture):
    """Place on the axis, row and area of every mark."""
    return [
        (x, round(y), area)
        for row in picture.axes[0].collections
        if isinstance(row, PathCollection)
        for (x, y), area in zip(row.get_offsets(), row.get_sizes(), strict=True)
    ]


# ---------------------------------------------------------------------- words


def test_the_title():
    assert timeline_title(HEART) == "Woman, 64: 3 visits in 2.1 years, 4 chapters"


@pytest.mark.parametrize(
    ("sex", "age", "who"),
    [
        ("F", 0, "Girl, under 1 year"),
        ("M", 17, "Boy, 17"),
        ("M", 18, "Man, 18"),
        ("F", 89, "Woman, 89"),
        ("F", 90, "Woman, above 89"),
    ],
)
def test_the_title_says_who(sex, age, who):
    one_visit = record((("4280",), None), sex=sex, age=age)
    assert timeline_title(one_visit) == f"{who}: 1 visit, 1 chapter"


@pytest.mark.parametrize(
    ("second", "span"),
    [
        (datetime(2101, 1, 1, 9), " on one day"),
        (datetime(2101, 1, 2), " in 1 day"),
        (datetime(2101, 1, 13), " in 12 days"),
        (datetime(2102, 1, 1), " in 365 days"),
        (datetime(2102, 1, 3), " in 1.0 years"),
        (None, ""),
    ],
)
def test_the_title_says_how_long(second, span):
    pair = record((("4280",), datetime(2101, 1, 1)), (("4280",), second))
    assert timeline_title(pair) == f"Woman, 64: 2 visits{span}, 1 chapter"


def test_the_alternative_text():
    assert describe_timeline(HEART) == (
        "Time line of a patient (woman, 64), 3 visits in 2.1 years, with 3, 1 and 2 codes, "
        "codes by chapter: Circulatory 3; Respiratory 1; Genitourinary 1; Health status (V) 1."
    )


def test_times_are_years_from_the_first_admission():
    times = visit_times(HEART)
    assert times.unit == "years"
    assert times.values == pytest.approx([0, 181 / 365.25, 766 / 365.25])


def test_codes_are_counted_by_chapter_and_visit(patient):
    for visit, counted in zip(patient.visits, chapter_counts(patient), strict=True):
        assert counted == Counter(chapter_of(code) for code in visit.codes)


# ---------------------------------------------------------------------- the picture


def test_drawing_twice_gives_the_same_bytes(patient):
    assert draw_timeline(patient).png() == draw_timeline(patient).png()


def test_the_picture_carries_title_and_alternative_text(patient):
    picture = draw_timeline(patient)
    assert picture.alternative_text == describe_timeline(patient)
    assert timeline_title(patient) in [text.get_text() for text in picture.texts]


def test_there_is_a_mark_for_every_chapter_of_every_visit(patient):
    rows = [label.get_text() for label in draw_timeline(patient).axes[0].get_yticklabels()]
    expected = {
        (time, rows.index(chapter_name(number)))
        for time, counted in zip(visit_times(patient).values, chapter_counts(patient), strict=True)
        for number in counted
    }
    drawn = {(x, y) for x, y, _ in drawn_marks(draw_timeline(patient))}
    assert len(drawn) == len(expected)
    for (x, y), (time, row) in zip(sorted(drawn), sorted(expected), strict=True):
        assert y == row
        assert x == pytest.approx(time)


def test_rows_stand_in_the_order_of_the_chapters():
    rows = [label.get_text() for label in draw_timeline(HEART).axes[0].get_yticklabels()]
    assert rows == ["Circulatory", "Respiratory", "Genitourinary", "Health status (V)"]


def test_a_mark_grows_with_its_codes():
    areas = {(round(x, 3), y): area for x, y, area in drawn_marks(draw_timeline(HEART))}
    two_codes, one_code = areas[(0.0, 0)], areas[(round(181 / 365.25, 3), 0)]
    assert two_codes > one_code


@pytest.mark.parametrize(
    ("admitted", "label"),
    [
        (datetime(2103, 1, 1), "years since the first admission"),
        (datetime(2101, 3, 1), "days since the first admission"),
        (None, "number of the visit (an admission time is missing)"),
    ],
)
def test_the_axis_says_its_unit(admitted, label):
    pair = record((("4280",), datetime(2101, 1, 1)), (("4280",), admitted))
    assert draw_timeline(pair).axes[0].get_xlabel() == label


def test_no_text_is_cut_off_and_no_text_lies_on_another(patient, drawn):
    result = drawn(draw_timeline(patient))
    assert result.cut_off() == []
    assert result.overlapping() == []
