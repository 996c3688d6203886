"""A batch as a picture: the kinds of its places, what padding costs, the words."""

from itertools import pairwise

import matplotlib.text
import numpy as np
import pytest
import torch
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.plots.batch import (
    COLOURS,
    KINDS,
    KindCounts,
    Waste,
    batch_title,
    count_kinds,
    describe_batch,
    draw_batch,
    kinds_of,
    padding_share,
)
from ehr_course.plots.style import contrast
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

WASTE = Waste(shuffled=0.65, bucketed=0.06)
TWO_ROWS = {"input_ids": torch.tensor([[1, 3, 9, 6, 4, 2], [1, 3, 8, 4, 2, 0]])}


@pytest.fixture(scope="module")
def dataset():
    patients = make_cohort(200, seed=3)
    return RecordDataset(patients, CodeTokenizer.from_records(patients), seed=3)


def batch_of(dataset, size):
    return dataset.batch(range(size))


def texts(picture):
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


# ---------------------------------------------------------------------- kinds and shares


def test_every_id_has_the_kind_of_its_token(dataset):
    input_ids = batch_of(dataset, 20)["input_ids"]
    kinds = kinds_of(input_ids)
    for token_id, kind in zip(input_ids.flatten().tolist(), kinds.ravel().tolist(), strict=True):
        token = dataset.tokenizer.id_to_token(token_id)
        expected = {"<PAD>": "padding", "<mask>": "mask"}.get(token)
        expected = expected or ("special" if token.startswith("<") else "code")
        assert KINDS[kind] == expected


def test_the_counts_add_up_to_all_places(dataset):
    batch = batch_of(dataset, 20)
    counts = count_kinds(batch["input_ids"])
    assert counts.places == batch["input_ids"].numel()
    assert counts.padding == int((batch["attention_mask"] == 0).sum())
    assert counts.padding_share == pytest.approx(counts.padding / counts.places)


def test_the_counts_of_a_small_batch():
    assert count_kinds(TWO_ROWS["input_ids"]) == KindCounts(padding=1, special=8, code=2, mask=1)


@pytest.mark.parametrize("group_by_length", [False, True])
def test_the_share_of_padding_is_that_of_the_padded_labels(dataset, group_by_length):
    keys = list(LengthBatchSampler(dataset.lengths, 16, seed=1, group_by_length=group_by_length))
    labels = [dataset[key]["labels"] for key in keys]
    padded = sum(int((rows == -100).sum()) for rows in labels)
    places = sum(rows.numel() for rows in labels)
    share = padding_share(dataset.lengths, (key.indices for key in keys))
    assert share == pytest.approx(padded / places)


def test_records_of_one_length_need_no_padding():
    assert padding_share(np.array([5, 5, 5]), [[0, 1], [2]]) == 0


# ---------------------------------------------------------------------- words


def test_the_title_states_the_share_of_padding():
    title = batch_title(TWO_ROWS, number=4, group_by_length=True)
    assert title == "Batch 4, with buckets: 8% of its places are padding"


def test_the_alternative_text():
    assert describe_batch(TWO_ROWS, WASTE, number=4, group_by_length=False) == (
        "Batch 4 without length buckets: 2 patients, 6 places each: 2 codes, 8 special tokens, "
        "1 mask and 1 padding (8%). Before corruption, padding takes of the whole epoch 65% "
        "without buckets and 6% with them."
    )


def test_a_little_padding_is_not_called_none():
    words = describe_batch(TWO_ROWS, Waste(0.65, 0.004), number=0, group_by_length=True)
    assert "0.4% with them" in words


# ---------------------------------------------------------------------- the picture


def test_the_grid_shows_the_kind_of_every_place(dataset):
    batch = batch_of(dataset, 20)
    (image,) = draw_batch(batch, WASTE, number=0, group_by_length=True).findobj(AxesImage)
    assert np.array_equal(image.get_array(), kinds_of(batch["input_ids"]))


def test_the_bars_are_as_long_as_the_shares():
    picture = draw_batch(TWO_ROWS, WASTE, number=0, group_by_length=True)
    bars = [bar for bar in picture.findobj(Rectangle) if 0.19 < bar.get_height() < 0.21]
    whole = max(bar.get_width() for bar in bars)
    shares = [bar.get_width() / whole for bar in bars if bar.get_width() < whole]
    assert shares == pytest.approx([WASTE.shuffled, WASTE.bucketed])


def test_drawing_twice_gives_the_same_bytes(dataset):
    batch = batch_of(dataset, 20)
    first, second = (draw_batch(batch, WASTE, number=0, group_by_length=True) for _ in range(2))
    assert first.png() == second.png()


@pytest.mark.parametrize("size", [1, 2, 8, 32, 64, 200])
@pytest.mark.parametrize("waste", [WASTE, Waste(0.97, 0.0), Waste(0.5, 0.5)])
def test_no_text_is_cut_off_and_no_text_lies_on_another(dataset, drawn, size, waste):
    batch = batch_of(dataset, size)
    result = drawn(draw_batch(batch, waste, number=1234, group_by_length=False))
    assert result.cut_off() == []
    assert result.overlapping() == []


def test_the_kinds_differ_in_greyscale():
    light_to_dark = [COLOURS[kind] for kind in KINDS]
    on_black = [contrast(colour, "#000000") for colour in light_to_dark]
    assert all(left > 1.25 * right for left, right in pairwise(on_black))
