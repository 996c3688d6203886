"""A patient's record: its title, its words and the picture."""

from datetime import datetime

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch

from ehr_course import icd9
from ehr_course.plots.record import (
    describe_record,
    draw_record,
    record_title,
    returning_codes,
)
from ehr_course.plots.style import PAPER, chapter_colour, chapter_name, chapter_of
from ehr_course.records import PatientRecord, Visit

MONO = "DejaVu Sans Mono"


def record(*visits, sex="F", age=64):
    return PatientRecord(1, sex, age, tuple(Visit(codes, admitted) for codes, admitted in visits))


HEART = record(
    (("4280", "42731", "5849"), datetime(2174, 3, 1)),
    (("4280",), datetime(2174, 9, 30)),
    (("486", "42731"), datetime(2176, 2, 6)),
)


def texts(picture):
    return [text.get_text().strip() for text in picture.axes[0].texts]


def codes_drawn(picture):
    """The code texts in the order in which they are drawn: card by card, from the top down."""
    return [text for text in picture.axes[0].texts if text.get_family() == [MONO]]


def dotted(code):
    return icd9.dotted(code) if icd9.is_code(code) else code


def boxes_around(text, picture):
    """The boxes that a code's text stands in: its own, and the card."""
    x, y = text.get_position()
    around = [
        box
        for box in picture.findobj(FancyBboxPatch)
        if box.get_x() < x < box.get_x() + box.get_width()
        and box.get_y() < y < box.get_y() + box.get_height()
    ]
    own, card = sorted(around, key=lambda box: box.get_height())
    return own, card


def own_box(text, picture):
    return boxes_around(text, picture)[0]


def cards(picture):
    return {boxes_around(text, picture)[1] for text in codes_drawn(picture)}


# ---------------------------------------------------------------------- words


def test_the_title():
    assert record_title(HEART) == "Woman, 64: 3 visits, 4 different codes, 2 of them coming back"


@pytest.mark.parametrize(
    ("first", "second", "finding"),
    [
        (("4280", "486"), ("5849",), "2 visits, 3 different codes, none of them coming back"),
        (("4280", "486"), ("4280",), "2 visits, 2 different codes, 1 of them coming back"),
        (("4280", "486"), ("486", "4280"), "2 visits, 2 different codes, all of them coming back"),
        (("4280",), ("4280",), "2 visits, the same code in all of them"),
    ],
)
def test_the_title_says_how_much_comes_back(first, second, finding):
    assert record_title(record((first, None), (second, None))) == f"Woman, 64: {finding}"


@pytest.mark.parametrize(
    ("sex", "age", "who"),
    [
        ("F", 0, "Girl, under 1 year"),
        ("M", 0, "Boy, under 1 year"),
        ("M", 17, "Boy, 17"),
        ("M", 18, "Man, 18"),
        ("F", 89, "Woman, 89"),
        ("F", 90, "Woman, above 89"),
    ],
)
def test_the_title_says_who(sex, age, who):
    one_visit = record((("4280", "486"), None), sex=sex, age=age)
    assert record_title(one_visit) == f"{who}: 1 visit, 2 codes"


def test_a_code_comes_back_however_many_visits_lie_between():
    assert returning_codes(HEART) == {"4280", "42731"}


def test_the_alternative_text():
    assert describe_record(HEART) == (
        "Record of a patient, woman, 64: 3 visits, 4 different codes, 2 of them coming back; "
        "visit 1 in March 2174 has 3 codes, the first of them 428.0 Congestive heart failure, "
        "unspecified; visit 2 in September 2174 has 1 code, 428.0 Congestive heart failure, "
        "unspecified; visit 3 in February 2176 has 2 codes, the first of them 486 Pneumonia, "
        "organism unspecified."
    )


def test_the_alternative_text_of_a_long_record_stops_after_four_visits():
    six = record(*((("4280",), datetime(2101 + i, 1, 1)) for i in range(6)))
    assert describe_record(six).endswith("failure, unspecified; and 2 more visits.")
    assert "visit 4 in January 2104" in describe_record(six)
    assert "visit 5" not in describe_record(six)


# ---------------------------------------------------------------------- the picture


def test_drawing_twice_gives_the_same_bytes(patient):
    assert draw_record(patient).png() == draw_record(patient).png()


def test_the_picture_carries_title_and_alternative_text(patient):
    picture = draw_record(patient)
    assert picture.alternative_text == describe_record(patient)
    assert record_title(patient) in texts(picture)


def test_every_visit_is_headed_by_its_number_and_month():
    headings = [text for text in texts(draw_record(HEART)) if text.startswith(("visit", "·"))]
    assert headings == [
        *("visit 1", "· March 2174"),
        *("visit 2", "· September 2174"),
        *("visit 3", "· February 2176"),
    ]


def test_a_visit_without_a_time_is_headed_by_its_number_alone():
    shown = texts(draw_record(record((("4280",), None), (("486",), None))))
    assert [text for text in shown if text.startswith(("visit", "·"))] == ["visit 1", "visit 2"]


def test_codes_stand_in_their_order_with_their_dot(patient):
    shown = [text.get_text() for text in codes_drawn(draw_record(patient))]
    assert shown == [dotted(code) for visit in patient.visits[:8] for code in visit.codes[:12]]


def test_a_title_with_room_is_shown_whole():
    assert "Congestive heart failure, unspecified" in texts(draw_record(record((("4280",), None))))


def test_a_title_without_room_ends_with_an_ellipsis():
    long = record(*((("25000",), None) for _ in range(4)))
    shown = texts(draw_record(long))
    title = "Diabetes mellitus without mention of complication, type II or unspecified type"
    start = shown.index("250.00") + 1
    beginning = " ".join(shown[start : shown.index("visit 2")])
    assert beginning.endswith("…")
    assert len(beginning) > 20
    assert title.startswith(beginning.removesuffix("…"))


@pytest.mark.parametrize("code", ["I5023", "4285", "99999"])
def test_a_code_without_a_title_stands_alone(code):
    shown = texts(draw_record(record((("4280", code), None))))
    assert shown[shown.index(dotted(code)) + 1] == "Circulatory"  # the legend begins


def test_a_new_code_has_the_colour_of_its_chapter(patient):
    picture = draw_record(patient)
    shown = [
        (code, any(code in earlier.codes for earlier in patient.visits[:i]))
        for i, visit in enumerate(patient.visits[:8])
        for code in visit.codes[:12]
    ]
    for text, (code, again) in zip(codes_drawn(picture), shown, strict=True):
        box = own_box(text, picture)
        colour = chapter_colour(chapter_of(code))
        assert to_hex(box.get_edgecolor()) == colour
        assert to_hex(box.get_facecolor()) == (PAPER if again else colour)


ONE_OF_EACH_CHAPTER = (
    *("0389", "1629", "25000", "2859", "311", "3320", "4280", "486", "5789", "5849", "650"),
    *("6826", "7140", "7455", "7660", "78060", "8208", "V3001", "E8859"),
)


def test_before_each_code_stands_the_number_of_its_chapter_which_the_legend_names():
    picture = draw_record(record((ONE_OF_EACH_CHAPTER, None)), most_codes=19)
    drawn = picture.axes[0].texts
    for text, code in zip(codes_drawn(picture), ONE_OF_EACH_CHAPTER, strict=True):
        number = drawn[drawn.index(text) - 1]
        assert number.get_text() == str(chapter_of(code))
        assert number.get_position()[1] == text.get_position()[1]
    shown = texts(picture)
    for chapter in range(1, 20):
        assert shown[shown.index(chapter_name(chapter)) + 1] == str(chapter)


def test_a_code_of_no_chapter_has_no_number():
    shown = texts(draw_record(record((("4280", "ABCDE"), None))))
    assert [text for text in shown if text.isdigit()] == ["7", "7"]
    assert "No ICD-9 chapter" in shown


def test_a_code_that_an_earlier_visit_left_out_counts_as_seen():
    picture = draw_record(record((("4280", "486"), None), (("486",), None)), most_codes=1)
    _, second = codes_drawn(picture)
    assert to_hex(own_box(second, picture).get_facecolor()) == PAPER


def test_the_legend_has_the_chapters_that_are_shown(patient):
    picture = draw_record(patient)
    end_of_cards = max(card.get_y() + card.get_height() for card in cards(picture))
    below = [t.get_text() for t in picture.axes[0].texts if t.get_position()[1] > end_of_cards]
    shown = {chapter_of(code) for visit in patient.visits[:8] for code in visit.codes[:12]}
    names = [text for text in below if text and not text.isdigit()]
    assert [text for text in names if not text.startswith(("outline", "and "))] == [
        chapter_name(number) for number in sorted(shown, key=lambda n: n or 20)
    ]


@pytest.mark.parametrize(("second", "explained"), [("4280", True), ("486", False)])
def test_the_legend_explains_the_outline_where_there_is_one(second, explained):
    shown = texts(draw_record(record((("4280",), None), ((second,), None))))
    assert ("outline: an earlier visit had it already" in shown) is explained


def test_what_does_not_fit_is_said():
    shown = texts(draw_record(HEART, most_codes=2, most_visits=1))
    assert "and 1 more" in shown
    assert "and 2 more visits" in shown
    assert "584.9" not in shown


@pytest.mark.parametrize(
    ("visits", "by_row"),
    [(1, [1]), (2, [2]), (4, [4]), (5, [3, 2]), (7, [4, 3]), (8, [4, 4]), (9, [4, 4])],
)
def test_visits_stand_side_by_side_in_rows_of_at_most_four(visits, by_row):
    picture = draw_record(record(*((("4280",), None) for _ in range(visits))))
    tops = [card.get_y() for card in cards(picture)]
    assert [tops.count(top) for top in sorted(set(tops))] == by_row


def test_no_text_is_cut_off_and_no_text_lies_on_another(patient, drawn):
    result = drawn(draw_record(patient))
    assert result.cut_off() == []
    assert result.overlapping() == []


def test_every_text_of_a_card_stays_in_it(patient, drawn):
    picture = draw_record(patient)
    result = drawn(picture)
    frames = [result.extent(card) for card in cards(picture)]
    inside = 0
    for text in result.texts:
        extent = result.extent(text)
        for frame in frames:
            if frame.contains(extent.x0, (extent.y0 + extent.y1) / 2):
                assert frame.contains(extent.x1, extent.y0), text.get_text()
                assert frame.contains(extent.x1, extent.y1), text.get_text()
                inside += 1
    assert inside > len(codes_drawn(picture))


def test_every_code_fits_its_box(patient, drawn):
    picture = draw_record(patient)
    result = drawn(picture)
    for text in codes_drawn(picture):
        extent, frame = result.extent(text), result.extent(own_box(text, picture))
        assert frame.x0 <= extent.x0 and extent.x1 <= frame.x1
