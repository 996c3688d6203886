"""A patient's time line: which codes come back, its words and the picture."""

from datetime import datetime

import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb

from ehr_course.plots import style
from ehr_course.plots.timeline import (
    MOST_ROWS,
    MOST_VISITS,
    describe_timeline,
    draw_timeline,
    repeats,
    timeline_title,
    visit_times,
)
from ehr_course.records import PatientRecord, Visit


def record(*visits, sex="F", age=64):
    return PatientRecord(1, sex, age, tuple(Visit(codes, admitted) for codes, admitted in visits))


HEART = record(
    (("4280", "42731", "5849"), datetime(2101, 1, 1)),
    (("4280", "486"), datetime(2101, 7, 1)),
    (("486", "V4581", "4280", "2724"), datetime(2103, 2, 6)),
)


def marks(picture):
    """Place, row and whether it is filled, of every mark."""
    return [
        (int(x), int(y), tuple(colour[:3]) != to_rgb(style.PAPER))
        for row in picture.axes[0].collections
        if isinstance(row, PathCollection)
        for (x, y), colour in zip(row.get_offsets(), row.get_facecolor(), strict=True)
    ]


def row_names(picture):
    return [label.get_text() for label in picture.axes[0].get_yticklabels()]


def numbers(picture):
    """Place, row and text of every number in the rows that count."""
    return [(*text.get_position(), text.get_text()) for text in picture.axes[0].texts]


# ---------------------------------------------------------------------- what comes back


def test_codes_that_come_back_are_found():
    found = repeats(HEART)
    assert found.visits_of == {"4280": [0, 1, 2], "486": [1, 2]}
    assert found.once == [2, 0, 2]
    assert (found.again, found.later) == (3, 6)


def test_repeats_are_what_an_earlier_visit_has(patient):
    again = sum(
        code in {c for visit in patient.visits[:i] for c in visit.codes}
        for i, visit in enumerate(patient.visits)
        for code in set(visit.codes)
    )
    assert repeats(patient).again == again
    assert list(repeats(patient).visits_of) == sorted(
        repeats(patient).visits_of, key=lambda code: -len(repeats(patient).visits_of[code])
    )


# ---------------------------------------------------------------------- words


def test_the_title():
    assert timeline_title(HEART) == "Woman, 64: 3 of 6 later codes are repeats"


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
    assert timeline_title(one_visit) == f"{who}: 1 visit with 1 code"


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
def test_the_words_say_how_long(second, span):
    pair = record((("4280",), datetime(2101, 1, 1)), (("4280",), second))
    assert f"2 visits{span}. Of 1 code after" in describe_timeline(pair)
    shown = [text.get_text() for text in draw_timeline(pair).texts]
    assert any(text.startswith(f"2 visits{span}. Hollow") for text in shown)


def test_the_alternative_text():
    assert describe_timeline(HEART) == (
        "Time line of a patient (woman, 64) with 3 visits in 2.1 years. Of 6 codes after the "
        "first visit, 3 had been there before. Codes of several visits: 428.0 Congestive heart "
        "failure, unspecified in 3; 486 Pneumonia, organism unspecified in 2. Codes of one visit "
        "only: 2, 0, 2."
    )


def test_the_alternative_text_where_nothing_comes_back():
    one = record((("4280", "486"), datetime(2101, 1, 1)))
    assert "No code comes back. Codes of one visit only: 2." in describe_timeline(one)


def test_times_are_years_from_the_first_admission():
    times = visit_times(HEART)
    assert times.unit == "years"
    assert times.values == pytest.approx([0, 181 / 365.25, 766 / 365.25])


# ---------------------------------------------------------------------- the picture


def test_drawing_twice_gives_the_same_bytes(patient):
    assert draw_timeline(patient).png() == draw_timeline(patient).png()


def test_the_picture_carries_title_and_alternative_text(patient):
    picture = draw_timeline(patient)
    assert picture.alternative_text == describe_timeline(patient)
    assert timeline_title(patient) in [text.get_text() for text in picture.texts]


def test_a_mark_is_hollow_the_first_time_and_filled_from_then_on():
    picture = draw_timeline(HEART)
    assert row_names(picture)[0].startswith("428.0 Congestive")
    assert marks(picture) == [
        (0, 0, False),
        (1, 0, True),
        (2, 0, True),
        (1, 1, False),
        (2, 1, True),
    ]
    assert numbers(picture) == [(0, 2, "2"), (2, 2, "2")]


def test_every_code_of_a_drawn_visit_has_a_mark_or_is_counted(patient):
    picture = draw_timeline(patient)
    for i in range(max(0, len(patient.visits) - MOST_VISITS), len(patient.visits)):
        own = sum(x == i for x, *_ in marks(picture))
        counted = sum(int(text) for x, _, text in numbers(picture) if x == i)
        assert own + counted == len(set(patient.visits[i].codes))


def test_many_codes_and_many_visits_are_cut_short():
    codes = (
        "4280",
        "486",
        "4019",
        "2724",
        "5849",
        "5990",
        "496",
        "42731",
        "41401",
        "2449",
        "5853",
    )
    visits = [((*codes, "0389"), datetime(2101 + i, 1, 1)) for i in range(MOST_VISITS + 3)]
    picture = draw_timeline(record(*visits))
    names = row_names(picture)
    assert names[MOST_ROWS:] == ["2 more codes of several visits", "codes of one visit only"]
    assert min(x for x, *_ in marks(picture)) == 3
    assert all(filled for *_, filled in marks(picture))
    shown = [text.get_text() for text in picture.texts]
    assert any(text.startswith("The last 20 of 23 visits in 22.0 years.") for text in shown)


@pytest.mark.parametrize(
    ("admitted", "label"),
    [
        (datetime(2103, 1, 1), "visits in order (not to scale): years since the first admission"),
        (datetime(2101, 3, 1), "visits in order (not to scale): days since the first admission"),
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
