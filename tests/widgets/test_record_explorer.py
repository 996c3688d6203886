"""The explorer of lesson 00: its slider chooses whose record is drawn."""

from datetime import datetime

import pytest

from ehr_course.errors import InputError
from ehr_course.plots.record import describe_record, draw_record
from ehr_course.records import PatientRecord, Visit
from ehr_course.widgets.record import record_explorer

RECORDS = [
    PatientRecord(1, "F", 64, (Visit(("4280", "42731"), datetime(2174, 3, 1)),)),
    PatientRecord(2, "M", 90, (Visit(("486",)), Visit(("4280", "486")))),
    PatientRecord(3, "F", 0, (Visit(("V3001", "7742")),)),
]


def test_the_explorer_starts_with_the_first_patient():
    explorer = record_explorer(RECORDS)
    assert explorer.image.value == draw_record(RECORDS[0]).live_png()
    assert explorer.controls["patient"].value == 0


@pytest.mark.parametrize("place", [1, 2])
def test_the_slider_chooses_the_patient(place):
    explorer = record_explorer(RECORDS)
    explorer.controls["patient"].value = place
    assert explorer.image.value == draw_record(RECORDS[place]).live_png()
    assert explorer.alternative_text == describe_record(RECORDS[place])
    assert explorer.error is None


def test_the_slider_ends_with_the_last_patient():
    assert record_explorer(RECORDS).controls["patient"].max == 2


def test_one_patient_is_enough():
    assert record_explorer(RECORDS[:1]).controls["patient"].max == 0


def test_the_slider_has_a_label_that_is_shown_whole_and_draws_where_it_stops():
    slider = record_explorer(RECORDS).controls["patient"]
    assert slider.description == "patient"
    assert slider.style.description_width == "initial"
    assert slider.continuous_update is False


def test_the_explorer_wants_patients():
    with pytest.raises(InputError, match="the list is empty"):
        record_explorer([])
