"""The drawings of lesson 00: readable, and true to the objects that they are made from."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_rgba

from course.syllabus import load_syllabus
from ehr_course import icd9
from ehr_course.exercises.catalogue import find_exercise
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS
from ehr_course.plots.drawings.course_map import draw_check, draw_course_map
from ehr_course.plots.drawings.icd9_codes import draw_codes, draw_pieces
from ehr_course.plots.drawings.start_here import (
    draw_guess,
    draw_patient,
    draw_shares,
    draw_singled_out,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

COHORT = make_cohort(120, seed=3)
LONG = PatientRecord(
    1,
    "F",
    90,
    tuple(
        Visit(tuple(f"{category}00" for category in range(first, first + 20)), when)
        for first, when in (
            (401, datetime(2101, 1, 31)),
            (402, datetime(2101, 2, 28)),
            (403, datetime(2103, 12, 1)),
            (404, datetime(2104, 1, 1)),
        )
    ),
)
UNDATED = PatientRecord(2, "M", 0, (Visit(("V3001",)), Visit(("486", "I5023"))))
LESSONS = [lesson.name for lesson in load_syllabus()]


def texts(picture):
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def words(picture):
    return " ".join(" ".join(texts(picture)).split())


# ---------------------------------------------------------------------- who wrote it


@pytest.mark.parametrize("rows", [[(UNDATED, LONG)], [(COHORT[0], COHORT[1]), (LONG, LONG)]])
def test_records_to_guess_at_can_be_read(rows):
    assert label_problems(draw_guess(rows)) == []


def test_each_record_has_a_letter_and_its_own_codes():
    one = PatientRecord(1, "F", 2, (Visit(("4280", "486")),))
    other = PatientRecord(2, "F", 2, (Visit(("0389",)),))
    man = PatientRecord(3, "M", 84, (Visit(("5789",)),))
    picture = draw_guess([(one, other), (man, man)])
    shown = texts(picture)
    assert [text for text in shown if len(text) == 1] == ["A", "B", "C", "D"]
    assert shown.index("A") < shown.index("428.0") < shown.index("B") < shown.index("038.9")
    assert "a girl of 2" in words(picture) and "a man of 84" in words(picture)
    assert "girl, 2: A begins with 428.0" in picture.alternative_text
    assert "D begins with 578.9" in picture.alternative_text


def test_what_a_card_has_no_room_for_is_said():
    picture = draw_guess([(LONG, UNDATED)])
    assert f"and {len(LONG.codes) - 7} more" in texts(picture)


def test_a_long_title_takes_two_lines():
    long = PatientRecord(1, "M", 84, (Visit(("V1046", "4280")),))
    assert "Personal history of malignant\nneoplasm of prostate" in texts(
        draw_guess([(long, long)])
    )


# ---------------------------------------------------------------------- model and hospital


def having(code, number, of):
    """So many records with a code, of so many."""
    codes = [(code, "486")] * number + [("486",)] * (of - number)
    return [PatientRecord(i, "F", 2, (Visit(codes[i]),)) for i in range(of)]


def test_the_shares_are_those_of_the_records():
    groups = {
        (2, "F"): (having("V202", 1, 4), having("4019", 3, 4)),
        (80, "M"): (having("60000", 7, 10), having("60000", 3, 10)),
    }
    picture = draw_shares(groups, most_codes=2)
    assert label_problems(picture) == []
    shown = texts(picture)
    assert "asked for girls of 2" in shown and "asked for men of 80" in shown
    assert {"25%", "0%", "70%", "30%", "100%"} <= set(shown)
    assert "Routine infant or child health check 25%, in the hospital 0%" in (
        picture.alternative_text
    )
    assert "75%" not in shown, "a code that the model never writes is not shown"


def test_shares_of_whole_cohorts_can_be_read():
    groups = {(30, "F"): (COHORT, COHORT[:60]), (0, "M"): (COHORT[50:], [LONG])}
    picture = draw_shares(groups)
    assert label_problems(picture) == []
    assert "asked for women of 30" in texts(picture) and "asked for boys of 0" in texts(picture)


# ---------------------------------------------------------------------- the course


@pytest.mark.parametrize("lessons", [LESSONS, [*LESSONS, "21_survival_analysis"], LESSONS[:4]])
def test_the_map_can_be_read(lessons):
    assert label_problems(draw_course_map(lessons)) == []


def test_the_map_has_the_number_of_every_lesson_that_builds_something():
    picture = draw_course_map(LESSONS)
    numbers = [lesson.number for lesson in load_syllabus()][1:]
    assert sorted(text for text in texts(picture) if text.isdigit()) == numbers
    assert all(f"lesson {number}: " in picture.alternative_text for number in numbers)


def test_the_numbers_are_those_that_were_given():
    picture = draw_course_map(["31_tokenization", "32_corruption"])
    assert [text for text in texts(picture) if text.isdigit()] == ["31", "32"]
    assert "lesson 31: tokens; lesson 32: noise to repair." in picture.alternative_text


# ---------------------------------------------------------------------- a patient


@pytest.mark.parametrize("record", [LONG, UNDATED, *COHORT[:12]])
def test_a_patient_can_be_read(record):
    assert label_problems(draw_patient(record)) == []


def test_a_patient_has_age_sex_visits_and_what_is_left_out():
    shown = words(draw_patient(LONG))
    assert "age 90" in shown and "sex F" in shown and "and 1 visit more" in shown
    assert "28 days later" in shown, "from 31 January to 28 February is less than a month"
    assert "33 months later" in shown
    assert shown.count("and 14 more") == 3
    assert "4 visits on a line of time: January 2101 with 20 codes" in (
        draw_patient(LONG).alternative_text
    )


def test_months_are_rounded():
    visits = [Visit(("4280",), when) for when in (datetime(2182, 5, 12), datetime(2183, 12, 5))]
    assert "19 months later" in words(draw_patient(PatientRecord(1, "M", 64, tuple(visits))))


def test_a_code_of_an_earlier_visit_is_an_outline():
    visits = (Visit(("4280", "486")), Visit(("0389", "4280")))
    picture = draw_patient(PatientRecord(1, "M", 70, visits))
    filled = [
        p.get_facecolor()
        for p in picture.axes[0].patches
        if p.get_edgecolor() == to_rgba(FILLS["code"])
    ]
    assert filled == [to_rgba(FILLS["paper"])]
    assert "1 code stand in each of them" not in picture.alternative_text
    assert "1 of the first visit's codes comes back" in picture.alternative_text


def test_visits_without_a_time_have_no_distance():
    picture = draw_patient(UNDATED)
    assert "later" not in words(picture)
    assert "a visit" in texts(picture) and "2101" not in picture.alternative_text


# ---------------------------------------------------------------------- a code


@pytest.mark.parametrize("codes", [["428.0", "V30.01"], ["E885.9"], ["0389", "25000", "650"]])
def test_the_path_of_a_code_can_be_read(codes):
    assert label_problems(draw_codes(codes)) == []


def test_a_code_shows_its_letters_chapter_and_category():
    picture = draw_codes(["E885.9"])
    shown = texts(picture)
    assert [text for text in shown if len(text) == 1][:6] == [*"E885.9"]
    assert "19: External cause" in words(picture) and "E885: Accidental" in words(picture)
    assert "E885.9: chapter 19, category E885" in picture.alternative_text
    dark = [p for p in picture.axes[0].patches if p.get_facecolor() == to_rgba(FILLS["code"])]
    assert len(dark) == 4, "the category of an E code has four characters"


def test_all_chapters_are_listed_in_their_colours():
    picture = draw_codes(["428.0"])
    shown = texts(picture)
    assert all(f"{chapter.number}" in shown for chapter in icd9.chapters)
    assert "Circulatory 390–459" in shown
    faces = [patch.get_facecolor() for patch in picture.axes[0].patches]
    assert faces.count(to_rgba(style.chapter_colour(7))) == 2, "the code's chapter, and the list"


# ---------------------------------------------------------------------- pieces


@pytest.mark.parametrize(
    ("pieces", "title"),
    [
        (
            {"heart": ["▁heart"], "401.9": ["▁4", "0", "1", ".", "9"]},
            "“heart” is 1 piece, the code 401.9 is 5 pieces",
        ),
        (
            {"pneumonia": ["▁p", "neumonia"], "486": ["▁486"], "250.00": ["▁25", "0.00"]},
            "“pneumonia” is 2 pieces, the code 250.00 is 2 pieces",
        ),
    ],
)
def test_pieces_are_counted(pieces, title):
    picture = draw_pieces(pieces)
    assert label_problems(picture) == []
    assert texts(picture)[0] == title
    for text, cut in pieces.items():
        assert f"{text}: {len(cut)}" in picture.alternative_text
        assert set(cut) <= set(texts(picture))


# ---------------------------------------------------------------------- a check


@pytest.mark.parametrize(
    "exercise",
    [
        find_exercise("00.1"),
        SimpleNamespace(id="12.3", chosen=[()] * 123, fresh_inputs=456, misconceptions=[""] * 78),
    ],
    ids=["00.1", "many inputs"],
)
def test_the_check_is_that_of_the_exercise(exercise):
    picture = draw_check(exercise)
    assert label_problems(picture) == []
    shown = words(picture)
    assert f"{len(exercise.chosen)} chosen" in shown
    assert f"{exercise.fresh_inputs} random inputs" in shown
    assert f"{len(exercise.misconceptions)} known" in shown
    assert f"{len(exercise.chosen)} chosen inputs" in picture.alternative_text


def test_the_check_has_all_five_outcomes():
    shown = texts(draw_check(find_exercise("00.1")))
    assert [text[:1] for text in shown if text[:1] in set("○⚠✘✔")] == ["○", "⚠", "✘", "✔", "✔"]


# ---------------------------------------------------------------------- singled out


@pytest.mark.parametrize(
    ("codes", "pair", "enough", "never", "title"),
    [
        (
            ["4280", "486", "V3001"],
            ("486", "V3001"),
            [54, 201, 9],
            36,
            "At most 2 well-chosen diagnoses single out 85% of 300 people",
        ),
        (
            ["4280", "41401", "486", "V3001", "E8859", "25000"],
            ("4280", "25000"),
            [1_000, 2_000, 500],
            500,
            "At most 2 well-chosen diagnoses single out 75% of 4,000 people",
        ),
    ],
)
def test_who_is_singled_out(codes, pair, enough, never, title):
    others = [[code] for code in codes]
    having = range(11, 11 + len(codes))
    picture = draw_singled_out(codes, having, others, pair, enough, never)
    assert label_problems(picture) == []
    shown = texts(picture)
    assert shown[0] == title
    assert all(f"{number:,}" in shown for number in (*having, *enough, never))
    assert f"of {sum(enough) + never:,} people" in shown
    assert f"1 code: {enough[0]}, 2 codes: {enough[1]}" in picture.alternative_text
    assert f"one person and {len(others)} others" in picture.alternative_text


def test_few_codes_have_their_names_and_many_have_none():
    few = draw_singled_out(["4280", "486"], [3, 2], [["486"]], ("4280", "486"), [1, 2], 0)
    assert label_problems(few) == []
    assert "Congestive heart failure" in words(few) and "Pneumonia" in words(few)
    codes = ["4280", "486", "4019", "2724", "25000", "42731"]
    many = draw_singled_out(codes, [3] * 6, [["486"]], ("4280", "486"), [1, 2], 0)
    assert "Pneumonia" not in words(many)


def test_titles_and_chapters_are_not_cut():
    shown = words(draw_codes(["428.0", "V30.01", "E885.9"]))
    assert "Single liveborn, born in hospital, delivered by cesarean section" in shown
    assert not any(f"{name}…" in shown for name in ("Nervous", "Injury", "Symptoms", "External"))
