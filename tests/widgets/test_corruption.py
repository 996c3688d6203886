"""The corruption playground: its controls choose the patient and what is done to it."""

import pytest

from ehr_course.batches.corruption import STRATEGIES, Corruption
from ehr_course.errors import InputError
from ehr_course.plots.corruption import draw_corruption
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.corruption import corruption_playground

CODES = ("4280", "42731", "486", "5849", "0389", "V4581")
RECORDS = [
    PatientRecord(1, "F", 64, (Visit(CODES[:5]), Visit(CODES[2:]))),
    PatientRecord(2, "M", 50, (Visit(CODES[1:4]),)),
]


@pytest.fixture
def codes():
    return CodeTokenizer(CODES)


@pytest.fixture
def playground(codes):
    return corruption_playground(RECORDS, codes)


def drawn(codes, *, record=RECORDS[0], seed=0, **corruption):
    return draw_corruption(record, codes, Corruption(**corruption), seed=seed).live_png()


def test_it_starts_with_the_first_patient_as_in_training(playground, codes):
    assert playground.image.value == drawn(codes)


def test_it_can_open_on_another_patient_and_another_seed(codes):
    opened = corruption_playground(RECORDS, codes, patient=1, seed=7)
    assert opened.image.value == drawn(codes, record=RECORDS[1], seed=7)


@pytest.mark.parametrize("opening", [{"patient": 2}, {"patient": -1}, {"seed": 51}])
def test_what_it_opens_on_exists(codes, opening):
    with pytest.raises(InputError, match="there is no"):
        corruption_playground(RECORDS, codes, **opening)


def test_the_slider_chooses_the_patient(playground, codes):
    playground.controls["patient"].value = 1
    assert playground.image.value == drawn(codes, record=RECORDS[1])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_is_applied_to_every_visit(playground, codes, strategy):
    playground.controls["strategy"].value = strategy
    assert playground.image.value == drawn(codes, p_visit=1, strategies=(strategy,))


def test_the_mean_of_the_span_is_that_of_infilling(playground, codes):
    playground.controls["strategy"].value = "infill"
    playground.controls["mean_span"].value = 0.0
    assert playground.image.value == drawn(codes, p_visit=1, strategies=("infill",), mean_span=0.0)
    assert "2 hidden behind 2 <mask>s" in playground.alternative_text


@pytest.mark.parametrize("strategy", ["delete", "replace"])
def test_p_is_that_of_deletion_and_of_replacement(playground, codes, strategy):
    playground.controls["strategy"].value = strategy
    playground.controls["p"].value = 1.0
    assert playground.image.value == drawn(
        codes, p_visit=1, p_delete=1.0, p_replace=1.0, strategies=(strategy,)
    )


def test_the_seed_draws_another_corruption(playground, codes):
    playground.controls["strategy"].value = "infill"
    playground.controls["seed"].value = 1
    assert playground.image.value == drawn(codes, seed=1, p_visit=1, strategies=("infill",))


def test_an_unseen_code_is_explained_under_the_picture():
    known = CodeTokenizer(RECORDS[1].codes)
    playground = corruption_playground(RECORDS[::-1], known)
    playground.controls["patient"].value = 1
    assert isinstance(playground.error, InputError)
    assert "4280" in playground.words.value


def test_the_playground_wants_patients(codes):
    with pytest.raises(InputError, match="the list is empty"):
        corruption_playground([], codes)


def test_every_control_has_a_label_that_is_shown_whole(playground):
    for control in playground.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
