"""The explorers of lessons 07 and 08: their controls choose what is drawn."""

from datetime import datetime

import ipywidgets
import pytest

from ehr_course.errors import InputError
from ehr_course.plots.timeline import draw_timeline
from ehr_course.plots.tokens import describe_tokens, draw_tokens
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.timeline import timeline_explorer
from ehr_course.widgets.tokens import token_explorer


def patient(subject_id, *visits):
    return PatientRecord(
        subject_id,
        "F",
        60 + subject_id,
        tuple(Visit(codes, datetime(2101 + i, 1, 1)) for i, codes in enumerate(visits)),
    )


RECORDS = [
    patient(0, ("4280", "42731")),
    patient(1, ("486",), ("4280", "V4581")),
    patient(2, ("5849",)),
    patient(3, ("5849",), ("5849", "0389"), ("4280",)),
]


class CharacterPieces:
    def pieces(self, text):
        return list("▁" + text.replace(" ", "▁"))


@pytest.fixture
def codes():
    return CodeTokenizer.from_records(RECORDS)


# ---------------------------------------------------------------------- tokens


def test_the_token_explorer_starts_with_the_first_patient(codes):
    explorer = token_explorer(RECORDS, codes, CharacterPieces())
    expected = draw_tokens(RECORDS[0], codes, CharacterPieces(), dotted=True)
    assert explorer.image.value == expected.live_png()


@pytest.mark.parametrize("place", [1, 2, 3])
def test_the_slider_chooses_the_patient(codes, place):
    explorer = token_explorer(RECORDS, codes, CharacterPieces())
    explorer.controls["patient"].value = place
    given = RECORDS[place], codes, CharacterPieces()
    assert explorer.image.value == draw_tokens(*given, dotted=True).live_png()
    assert explorer.alternative_text == describe_tokens(*given, dotted=True)


def test_the_box_writes_codes_with_and_without_their_dot(codes):
    explorer = token_explorer(RECORDS, codes, CharacterPieces())
    assert "427.31" in explorer.alternative_text
    explorer.controls["dotted"].value = False
    expected = draw_tokens(RECORDS[0], codes, CharacterPieces())
    assert explorer.image.value == expected.live_png()
    assert "42731" in explorer.alternative_text


def test_an_unseen_code_is_explained_under_the_picture():
    explorer = token_explorer(RECORDS, CodeTokenizer(["4280", "42731"]), CharacterPieces())
    explorer.controls["patient"].value = 1
    assert "486" in explorer.words.value
    assert isinstance(explorer.error, InputError)


def test_the_token_explorer_wants_patients(codes):
    with pytest.raises(InputError, match="the list is empty"):
        token_explorer([], codes, CharacterPieces())


# ---------------------------------------------------------------------- time line


def test_the_time_line_explorer_chooses_the_patient():
    explorer = timeline_explorer(RECORDS)
    explorer.controls["patient"].value = 3
    assert explorer.image.value == draw_timeline(RECORDS[3]).live_png()


def test_patients_with_fewer_visits_are_passed_over():
    explorer = timeline_explorer(RECORDS, least_visits=2)
    assert explorer.image.value == draw_timeline(RECORDS[1]).live_png()
    assert explorer.controls["patient"].max == 1
    explorer.controls["patient"].value = 1
    assert explorer.image.value == draw_timeline(RECORDS[3]).live_png()


def test_asking_for_more_visits_keeps_the_slider_on_a_patient():
    explorer = timeline_explorer(RECORDS)
    explorer.controls["patient"].value = 2
    explorer.controls["least_visits"].value = 3
    assert explorer.controls["patient"].value == explorer.controls["patient"].max == 0
    assert explorer.error is None
    assert explorer.image.value == draw_timeline(RECORDS[3]).live_png()


def test_asking_for_fewer_visits_brings_patients_back():
    explorer = timeline_explorer(RECORDS, least_visits=3)
    explorer.controls["least_visits"].value = 1
    assert explorer.controls["patient"].max == 3


def test_the_time_line_explorer_opens_on_a_patient_that_is_asked_for():
    explorer = timeline_explorer(RECORDS, least_visits=2, first=RECORDS[3])
    assert explorer.controls["patient"].value == 1
    assert explorer.image.value == draw_timeline(RECORDS[3]).live_png()


def test_a_first_patient_with_too_few_visits_is_refused():
    with pytest.raises(InputError, match="is not among those"):
        timeline_explorer(RECORDS, least_visits=3, first=RECORDS[1])


def test_more_visits_than_anyone_has():
    with pytest.raises(InputError, match="from 1 to 3"):
        timeline_explorer(RECORDS, least_visits=4)


def test_the_time_line_explorer_wants_patients():
    with pytest.raises(InputError, match="the list is empty"):
        timeline_explorer([])


# ---------------------------------------------------------------------- controls


@pytest.mark.parametrize("make", ["tokens", "timeline"])
def test_every_control_has_a_label_that_is_shown_whole(make, codes):
    explorer = (
        token_explorer(RECORDS, codes, CharacterPieces())
        if make == "tokens"
        else timeline_explorer(RECORDS)
    )
    for control in explorer.controls.values():
        assert control.description
        assert control.style.description_width == "initial"


def test_sliders_draw_where_they_stop(codes):
    for explorer in (
        token_explorer(RECORDS, codes, CharacterPieces()),
        timeline_explorer(RECORDS),
    ):
        for control in explorer.controls.values():
            if isinstance(control, ipywidgets.IntSlider):
                assert control.continuous_update is False
