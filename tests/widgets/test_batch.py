"""The batch inspector: its controls choose what is drawn."""

import ipywidgets
import pytest

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.plots.batch import Waste, count_kinds, draw_batch, padding_share
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.batch import BATCH_SIZES, batch_inspector


@pytest.fixture(scope="module")
def dataset():
    patients = make_cohort(150, seed=2)
    return RecordDataset(patients, CodeTokenizer.from_records(patients), seed=2)


def plan(dataset, batch_size, group_by_length):
    return list(
        LengthBatchSampler(dataset.lengths, batch_size, seed=5, group_by_length=group_by_length)
    )


def expected(dataset, number, batch_size, group_by_length):
    waste = Waste(
        *(
            padding_share(dataset.lengths, [k.indices for k in plan(dataset, batch_size, b)])
            for b in (False, True)
        )
    )
    batch = dataset[plan(dataset, batch_size, group_by_length)[number]]
    return draw_batch(batch, waste, number=number, group_by_length=group_by_length)


def test_it_starts_with_the_first_batch_and_without_buckets(dataset):
    inspector = batch_inspector(dataset, seed=5)
    assert inspector.image.value == expected(dataset, 0, 32, False).live_png()


def test_the_controls_choose_batch_size_and_buckets(dataset):
    inspector = batch_inspector(dataset, seed=5)
    inspector.controls["batch_size"].value = 16
    inspector.controls["group_by_length"].value = True
    inspector.controls["number"].value = 3
    assert inspector.error is None
    assert inspector.image.value == expected(dataset, 3, 16, True).live_png()
    assert inspector.alternative_text == expected(dataset, 3, 16, True).alternative_text


def test_larger_batches_are_fewer_and_the_slider_stays_on_one_of_them(dataset):
    inspector = batch_inspector(dataset, seed=5, batch_size=8)
    inspector.controls["number"].value = 18
    inspector.controls["batch_size"].value = 64
    assert inspector.controls["number"].value == inspector.controls["number"].max == 2
    assert inspector.error is None
    assert inspector.image.value == expected(dataset, 2, 64, False).live_png()


def test_smaller_batches_are_more(dataset):
    inspector = batch_inspector(dataset, batch_size=64)
    inspector.controls["batch_size"].value = 8
    assert inspector.controls["number"].max == 18


def test_another_epoch_has_other_corruption(dataset):
    pictures = {batch_inspector(dataset, epoch=epoch).alternative_text for epoch in range(3)}
    assert len(pictures) == 3


def test_the_words_count_what_the_data_set_gives(dataset):
    inspector = batch_inspector(dataset, seed=5)
    kinds = count_kinds(dataset[plan(dataset, 32, False)[0]]["input_ids"])
    assert f"{kinds.code:,} codes" in inspector.alternative_text


def test_a_batch_size_that_is_not_offered_is_refused(dataset):
    with pytest.raises(InputError, match="8, 16, 32, 64"):
        batch_inspector(dataset, batch_size=20)


def test_it_can_start_with_another_batch(dataset):
    inspector = batch_inspector(dataset, seed=5, number=3)
    assert inspector.alternative_text == expected(dataset, 3, 32, False).alternative_text


@pytest.mark.parametrize("number", [-1, 5])
def test_a_batch_that_is_not_there_is_refused(dataset, number):
    with pytest.raises(InputError, match="from 0 to 4"):
        batch_inspector(dataset, number=number)


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_a_data_set_smaller_than_a_batch_has_one(batch_size):
    patients = make_cohort(5)
    small = RecordDataset(patients, CodeTokenizer.from_records(patients))
    inspector = batch_inspector(small, batch_size=batch_size)
    assert inspector.controls["number"].max == 0
    assert "5 patients" in inspector.alternative_text


def test_every_control_has_a_label_that_is_shown_whole(dataset):
    controls = batch_inspector(dataset).controls
    assert list(controls) == ["number", "batch_size", "group_by_length"]
    for control in controls.values():
        assert control.description
        assert control.style.description_width == "initial"
    assert isinstance(controls["number"], ipywidgets.IntSlider)
    assert controls["number"].continuous_update is False
