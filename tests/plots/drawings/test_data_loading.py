"""The drawings of lesson 08: each shows the numbers of the object it is given, and can be read."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from ehr_course.plots.canvas import FILLS, WARNING
from ehr_course.plots.drawings import data_loading as drawings
from ehr_course.plots.drawings.ages import draw_birthday, draw_moved_births
from ehr_course.plots.drawings.leaks import (
    Scores,
    draw_leak,
    draw_people,
    draw_second_numbers,
)
from ehr_course.plots.drawings.row_account import draw_account
from ehr_course.plots.overlaps import label_problems
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.cohort import Drop, LoadReport, Reason, TableReport
from ehr_course.sources.grouping import completed_years
from ehr_course.sources.synthetic import make_cohort

COHORTS = [make_cohort(120, seed=seed) for seed in (1, 2)]
each_cohort = pytest.mark.parametrize("records", COHORTS, ids=["one", "another"])


def words(picture: Picture) -> list[str]:
    return [text.get_text() for text in picture.findobj(Text) if text.get_text()]


def title(picture: Picture) -> str:
    return words(picture)[0]


def tiles(picture: Picture, fill: str) -> int:
    """The boxes of a fill, that of the key left out."""
    red, green, blue = (int(FILLS[fill][i : i + 2], 16) / 255 for i in (1, 3, 5))
    boxes = picture.findobj(FancyBboxPatch)
    return sum(box.get_facecolor()[:3] == (red, green, blue) for box in boxes) - 1


def readable(picture: Picture) -> Picture:
    assert label_problems(picture) == []
    return picture


def tables(record: PatientRecord, extra: int = 0) -> tuple[pl.DataFrame, ...]:
    """The rows of a patient, last ones first."""
    born = datetime(2101, 3, 4)
    person = {"subject_id": [record.subject_id], "gender": [record.sex], "dob": [f"{born}"]}
    stays = [(record.subject_id, v.hadm_id, f"{v.admitted}") for v in record.visits]
    codes = [
        (v.hadm_id, str(n), code)
        for v in record.visits
        for n, code in enumerate([*v.codes, *["4019"] * extra], 1)
    ]
    return (
        pl.DataFrame(person),
        pl.DataFrame(stays[::-1], schema=["subject_id", "hadm_id", "admittime"], orient="row"),
        pl.DataFrame(codes[::-1], schema=["hadm_id", "seq_num", "icd9_code"], orient="row"),
    )


def with_ids(record: PatientRecord) -> PatientRecord:
    visits = (
        Visit(v.codes, v.admitted or datetime(2150, 1, 1 + i), v.hadm_id or 100_000 + i)
        for i, v in enumerate(record.visits)
    )
    return PatientRecord(record.subject_id, record.sex, record.age, tuple(visits))


def people(*lives: tuple[datetime, datetime]) -> pl.DataFrame:
    frame = pl.DataFrame(lives, schema=["born", "admitted"], orient="row")
    return frame.with_columns(exact=completed_years("born", "admitted"))


# ---------------------------------------------------------------------- three tables


@pytest.mark.parametrize("visits", [1, 2, 3, 4])
@each_cohort
def test_three_tables_show_a_patients_rows_and_record(records, visits):
    record = with_ids(next(r for r in records if len(r.visits) == visits))
    picture = readable(drawings.draw_tables(*tables(record), record, most_rows=30))
    shown = words(picture)
    ids = [str(visit.hadm_id) for visit in record.visits]
    assert all(shown.count(i) == 1 + len(v.codes) for i, v in zip(ids, record.visits, strict=True))
    assert all(shown.count(code) >= 1 for code in record.codes)
    assert all(f"{visit.admitted:%Y-%m-%d}" in shown for visit in record.visits)
    assert f"Patient {record.subject_id} " in picture.alternative_text
    assert f"{visits} of ADMISSIONS, {len(record.codes)} of DIAG" in picture.alternative_text


def test_long_tables_and_long_visits_are_cut_short():
    codes = tuple(f"{n}" for n in range(40100, 40118))
    visits = tuple(Visit(codes, datetime(2150, 1, n), 12_345_670 + n) for n in range(1, 8))
    record = PatientRecord(98_765_432, "F", 90, visits)
    picture = readable(drawings.draw_tables(*tables(record, extra=3), record))
    assert "and 138 more rows" in words(picture)
    assert "and 3 more" in words(picture)


# ---------------------------------------------------------------------- ages


@pytest.mark.parametrize(
    ("born", "admitted", "by_year", "age"),
    [
        (datetime(2101, 5, 23), datetime(2132, 1, 25), 31, 30),
        (datetime(2044, 12, 31), datetime(2101, 1, 1), 57, 56),
        (datetime(2044, 1, 1), datetime(2101, 12, 31), 57, 57),
        (datetime(2096, 2, 29), datetime(2100, 2, 28), 4, 3),
        (datetime(2100, 6, 6), datetime(2100, 6, 7), 0, 0),
    ],
)
def test_a_birthday_shows_the_completed_years(born, admitted, by_year, age):
    picture = readable(draw_birthday(born, admitted))
    assert f"so it is {age} at the admission" in picture.alternative_text
    finding = title(picture)
    if age == by_year:
        assert finding == f"All {age} years are complete on the day of admission"
    else:
        difference = f"{admitted.year} - {born.year} is {by_year}"
        assert finding == f"{difference}, but only {age} years are complete"


@pytest.mark.parametrize(("old", "others"), [(1, 9), (9, 1), (20, 30), (0, 4), (4, 0)])
def test_moved_births_are_counted(old, others):
    day = timedelta(days=400)
    lives = [(datetime(1810, 1, 1) + i * day, datetime(2110, 1, 2) + i * day) for i in range(old)]
    lives += [
        (datetime(2060, 1, 1) + i * day, datetime(2120, 1, 2) + i * day) for i in range(others)
    ]
    picture = readable(draw_moved_births(people(*lives)))
    if old:
        finding = f"{old} of {old + others} patients are exactly 300 years old in the files"
    else:
        finding = "None of 4 patients is older than 60 in the files"
    assert title(picture) == finding
    assert f"{old} of {old + others} patients" in picture.alternative_text


def test_births_of_several_distances_are_not_called_exact():
    lives = [(datetime(1810, 1, 1), datetime(year, 1, 2)) for year in (2110, 2111)]
    picture = readable(draw_moved_births(people(*lives)))
    assert title(picture) == "2 of 2 patients are up to 301 years old in the files"


# ---------------------------------------------------------------------- codes


def test_lost_zeros_show_what_a_code_becomes():
    picture = readable(drawings.draw_lost_zeros([("0389", "389.0"), (None, "nan")]))
    assert {"Unspecified septicemia", "Conductive hearing loss", "missing"} <= set(words(picture))
    assert "0389 becomes 389.0; nothing becomes nan" in picture.alternative_text


def test_a_number_of_the_wrong_shape_is_no_code():
    picture = readable(drawings.draw_lost_zeros([("04149", "4149.0"), ("00845", "845.0")]))
    assert {"not a valid code", "Ankle sprain"} <= set(words(picture))


def test_a_code_without_a_zero_survives():
    picture = readable(drawings.draw_lost_zeros([("4280", "4280"), ("486", "486.0")]))
    assert title(picture) == "Read as a number, these codes survive"


# ---------------------------------------------------------------------- order


@pytest.mark.parametrize(
    ("stays", "finding"),
    [
        ([(0, 7, 2), (1, 9, 1), (2, 8, 3)], "Neither the file nor HADM_ID knows"),
        ([(0, 9, 1), (1, 7, 2)], "The order by HADM_ID is not"),
        ([(1, 7, 1), (0, 9, 2)], "The order in the file is not"),
        ([(n, 100_000 + n, n + 1) for n in range(5)], "Here every order is that of time"),
    ],
)
def test_an_order_that_is_not_that_of_time_is_named(stays, finding):
    stays = [(row, hadm_id, datetime(2150, 2, day)) for row, hadm_id, day in stays]
    picture = readable(drawings.draw_orders(stays))
    assert title(picture).startswith(finding)
    by_time = sorted(stays, key=lambda stay: stay[2])
    listed = ", ".join(str(hadm_id) for _, hadm_id, _ in by_time)
    assert f"By ADMITTIME: {listed}." in picture.alternative_text


# ---------------------------------------------------------------------- splits


def visit_parts(records: list[PatientRecord], half: set[tuple[int, int]]) -> dict:
    """In training where named; the others by turns in validation and in the test."""
    places = [(r.subject_id, i) for r in records for i in range(len(r.visits))]
    rest = ("validation", "test")
    return {place: "training" if place in half else rest[n % 2] for n, place in enumerate(places)}


def patient_parts(records: list[PatientRecord], train: set[int]) -> dict[int, str]:
    return {r.subject_id: "training" if r.subject_id in train else "test" for r in records}


@each_cohort
def test_a_leak_is_marked_for_each_patient_on_both_sides(records):
    several = [record for record in records if len(record.visits) > 1]
    half = {(record.subject_id, 0) for record in several[::2]}
    train = {record.subject_id for record in several[::3]}
    scores = Scores(0.42, 0.17), Scores(0.15, 0.16)
    picture = readable(
        draw_leak(records, visit_parts(records, half), patient_parts(records, train), scores)
    )
    torn = len(several[::2])
    finding = "Split by visits, memory seems to score 42%; on new patients it scores 17%"
    assert title(picture) == finding
    assert f"{torn} are on both sides when visits are split, and 0" in picture.alternative_text
    assert {"42%", "17%", "15%", "16%"} <= set(words(picture))
    marks = [a for a in picture.findobj(FancyArrowPatch) if a.get_edgecolor()[:3] == rgb(WARNING)]
    bars = 2  # of the scores in the tests
    n_tiles = sum(tiles(picture, fill) for fill in ("encoder", "quiet", "code")) - bars
    stretches = [several[i : i + 24] for i in range(0, len(several) - 23, 24)]
    assert (len(marks), n_tiles) in [
        (
            sum((record.subject_id, 0) in half for record in stretch),
            2 * sum(min(4, len(record.visits)) for record in stretch),
        )
        for stretch in stretches
    ]


def test_the_patients_drawn_have_about_the_shares_of_all():
    several = [record for record in make_cohort(800, seed=1) if len(record.visits) > 1]
    rest = set(range(48, len(several))) - set(range(48, len(several), 4))
    torn = {(several[i].subject_id, 0) for i in rest}  # none of the first patients
    scores = Scores(0.4, 0.2), Scores(0.2, 0.2)
    picture = readable(
        draw_leak(several, visit_parts(several, torn), patient_parts(several, set()), scores)
    )
    marks = [a for a in picture.findobj(FancyArrowPatch) if a.get_edgecolor()[:3] == rgb(WARNING)]
    assert len(marks) == 18


def test_a_split_that_promises_nothing_wrong_is_described_by_its_patients():
    scores = Scores(0.1, 0.2), Scores(0.2, 0.2)
    picture = readable(
        draw_leak(
            COHORTS[0], visit_parts(COHORTS[0], set()), patient_parts(COHORTS[0], set()), scores
        )
    )
    assert title(picture).startswith("Split by visits, 0 of ")


@pytest.mark.parametrize(
    ("shares", "finding"),
    [
        ({"others": 0.22, "a stranger too": 0.21, "their own": 0.32}, "guess 32% instead of 22%"),
        ({"others": 0.1, "their own": 0.101}, "guess 10% instead of 10%"),
    ],
)
def test_second_numbers_show_a_bar_for_each_way(shares, finding):
    picture = readable(draw_second_numbers(shares, "their own"))
    assert finding in title(picture)
    assert {*shares, *(f"{share:.0%}" for share in shares.values())} <= set(words(picture))
    assert all(
        f"{name}: {share:.0%}" in picture.alternative_text for name, share in shares.items()
    )


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


@pytest.mark.parametrize(
    ("registrations", "people", "finding"),
    [
        (
            [(12, "A4", None), (5, None, "C2"), (9, "A4", "C2"), (7, None, "C7")],
            [[5, 9, 12], [7]],
            "5 and 12 share no card, yet they are one person",
        ),
        ([(31, "A1", "A1"), (8, "A1", None), (17, None, None)], [[8, 31], [17]], "Each of 2 "),
        ([(n, f"A{n // 2}", f"C{(n + 1) // 2}") for n in range(7)], [list(range(7))], "0 and 2 "),
    ],
    ids=["chain", "apart", "long"],
)
def test_people_are_framed_with_their_cards(registrations, people, finding):
    picture = readable(draw_people(registrations, people))
    assert title(picture).startswith(finding)
    shown = words(picture)
    for subject, *cards in registrations:
        assert str(subject) in shown
        assert all(card in shown for card in cards if card is not None)
    frames = [patch for patch in picture.findobj(Rectangle) if patch.get_linestyle() != "-"]
    assert len([patch for patch in frames if not patch.get_fill()]) >= len(people)
    listed = "; ".join(", ".join(map(str, person)) for person in people)
    assert picture.alternative_text.endswith(f"The people: {listed}.")


# ---------------------------------------------------------------------- the account


def report(**drops: int) -> LoadReport:
    """Two tables, rows dropped from the second."""
    dropped = tuple(Drop(Reason[name], count, ("line 2",)) for name, count in drops.items())
    lost = sum(drops.values())
    return LoadReport(
        (
            TableReport("PATIENTS", 1_234, 1_234),
            TableReport("DIAGNOSES_ICD", 500 + lost, 500, dropped),
        )
    )


@pytest.mark.parametrize(
    ("drops", "planted", "finding"),
    [
        ({"NO_CODE": 12, "NO_DIAGNOSIS": 8}, (12, 8), "20 bad rows were planted and 20 dropped"),
        ({"NO_CODE": 12}, (12, 8), "20 rows were planted, and 12 were dropped"),
        ({"NO_CODE": 3_200}, None, "3,200 of 4,934 rows were dropped"),
        ({}, None, "No row was dropped"),
    ],
)
def test_an_account_leads_every_row_to_its_place(drops, planted, finding):
    reasons = Reason.NO_CODE.value, Reason.NO_DIAGNOSIS.value
    known = dict(zip(reasons, planted, strict=True)) if planted else None
    account = report(**drops)
    picture = readable(draw_account(account, known))
    assert title(picture).startswith(finding)
    shown = words(picture)
    assert {"1,234", "500"} <= set(shown)
    for (_, reason), count in account.dropped.items():
        assert f"{count:,}" in shown
        assert (f"{reason} ({known[reason]:,})" if known else reason) in shown
        assert f"{reason}: {count}" in picture.alternative_text
