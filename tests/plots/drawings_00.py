"""The drawings of lesson 00."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace

from registry import drawing

from course.syllabus import load_syllabus
from ehr_course.plots.lesson_00 import (
    draw_check,
    draw_code_paths,
    draw_course_map,
    draw_guess,
    draw_patient,
)
from ehr_course.records import PatientRecord, Visit

LESSONS = [lesson.name for lesson in load_syllabus()]
DATES = [datetime(2101, 1, 31), datetime(2101, 2, 28), datetime(2103, 12, 1), datetime(2104, 1, 1)]
LONG = PatientRecord(
    1, "F", 90,
    tuple(
        Visit(tuple(f"{category}00" for category in range(first, first + 20)), when)
        for first, when in zip((401, 402, 403, 404), DATES, strict=True)
    ),
)  # fmt: skip
UNDATED = PatientRecord(2, "M", 0, (Visit(("V3001",)), Visit(("486", "I5023"))))


@drawing("girl, 2: A begins with 428.0", "D begins with 578.9")
def records_to_guess_at():
    girl = PatientRecord(1, "F", 2, (Visit(("4280", "V1046")),))
    other = PatientRecord(2, "F", 2, (Visit(("0389",)),))
    man = PatientRecord(3, "M", 84, (Visit(("5789",)),))
    return draw_guess([(girl, other), (man, man)])


@drawing("woman, above 89: A begins with 401.00")
def records_without_room():
    return draw_guess([(LONG, UNDATED)])


@drawing(
    "4 visits on a line of time: January 2101 with 20 codes",
    shown=["28 days later", "33 months later", "and 1 visit\nmore", "and 14 more"],
)
def a_long_patient():
    return draw_patient(LONG)


@drawing("boy, under 1 year, with 2 visits on a line of time: 1 code, first V30.01")
def a_patient_without_dates():
    return draw_patient(UNDATED)


@drawing("1 of the first visit's codes comes back")
def a_patient_with_an_outline():
    visits = (Visit(("4280", "486")), Visit(("0389", "4280")))
    return draw_patient(PatientRecord(1, "M", 70, visits))


@drawing("E885.9: chapter 19, category E885", "Below, the 19 chapters")
def paths_of_codes():
    return draw_code_paths(["428.0", "V30.01", "E885.9"])


@drawing(*(f"lesson {lesson.number}: " for lesson in load_syllabus()[1:]))
def the_whole_course():
    return draw_course_map([*LESSONS, "21_survival_analysis"])


@drawing("lesson 31: tokens; lesson 32: noise to repair.")
def a_course_of_two_lessons():
    return draw_course_map(["31_tokenization", "32_corruption"])


@drawing(
    "Right on 123 chosen, 456 random inputs? → ✘ not yet (no)", "78 known mistakes are explained"
)
def a_check():
    exercise = SimpleNamespace(
        id="12.3", chosen=[()] * 123, fresh_inputs=456, misconceptions=[""] * 78
    )
    return draw_check(exercise)
