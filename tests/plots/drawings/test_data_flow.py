"""The drawings of lesson 10 show the objects that they are given, and can be read."""

from __future__ import annotations

import matplotlib.text
import numpy as np
import pytest
import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.plots.drawings.batch_sizes import draw_budget, draw_divisions, draw_memory
from ehr_course.plots.drawings.data_flow import (
    draw_faults,
    draw_noise,
    draw_path,
    draw_tensors,
)
from ehr_course.plots.drawings.padding import (
    draw_company,
    draw_lengths,
    draw_plan,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

INFILL = Corruption(p_visit=1.0, strategies=["infill"])


def made(n_patients: int, seed: int) -> RecordDataset:
    patients = make_cohort(n_patients, seed=seed)
    return RecordDataset(
        patients, CodeTokenizer.from_records(patients), seed=seed, corruption=INFILL
    )


def long_codes() -> RecordDataset:
    """Patients of many visits with codes as long as they get, as a real table has them."""
    codes = [f"E{8000 + i}" for i in range(300)]
    patients = [
        PatientRecord(
            place,
            "FM"[place % 2],
            90 - place,
            tuple(Visit(tuple(codes[i : i + 9 + place])) for i in range(0, 40 + 9 * place, 20)),
        )
        for place in range(20)
    ]
    return RecordDataset(patients, CodeTokenizer.from_records(patients), corruption=INFILL)


@pytest.fixture(scope="module")
def first() -> RecordDataset:
    return made(300, 1)


@pytest.fixture(scope="module")
def second() -> RecordDataset:
    return made(130, 5)


@pytest.fixture(scope="module", params=["first", "second", "long codes"])
def dataset(request, first, second) -> RecordDataset:
    return {"first": first, "second": second, "long codes": long_codes()}[request.param]


def texts(picture) -> list[str]:
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


def small_batch(dataset):
    return dataset.batch([7, 3, 5, 2])


# ---------------------------------------------------------------------- the way into a batch


def test_the_path_can_be_read(dataset):
    assert label_problems(draw_path(dataset, 7, small_batch(dataset))) == []


def test_the_path_shows_the_sizes_of_its_patient(dataset):
    batch = small_batch(dataset)
    picture = draw_path(dataset, 7, batch)
    damaged = int(batch["attention_mask"][0].sum())
    n_rows, source = batch["input_ids"].shape
    shown = texts(picture)
    assert f"{dataset.lengths[7]} of them" in shown
    assert f"{damaged} tokens" in shown
    assert f"{n_rows} × {source}" in shown
    words = picture.alternative_text
    assert f"{dataset.lengths[7]} token ids" in words
    assert f"here to {damaged} tokens" in words
    assert f"{n_rows} rows and {source} places" in words
    asked = [text for text in shown if text.endswith("?")]
    assert len(asked) == 4


def test_two_patients_have_different_paths(first, second):
    one, other = (draw_path(d, 7, small_batch(d)).alternative_text for d in (first, second))
    assert one != other


# ---------------------------------------------------------------------- the tensors


def test_the_tensors_can_be_read(dataset):
    assert label_problems(draw_tensors(small_batch(dataset))) == []


def test_each_tensor_has_its_shape_and_type(dataset):
    batch = small_batch(dataset)
    picture = draw_tensors(batch)
    shown = texts(picture)
    for name, tensor in batch.items():
        assert name in shown
        shape = ", ".join(map(str, tensor.shape))
        assert f"({shape}) {str(tensor.dtype).removeprefix('torch.')}" in shown
        assert f"{name} {tuple(tensor.shape)}" in picture.alternative_text


def test_short_records_show_their_numbers(first):
    batch = first.batch(np.flatnonzero(first.lengths <= 9)[:3].tolist())
    shown = texts(draw_tensors(batch))
    assert shown.count("-100") == int((batch["labels"] == -100).sum())
    for age in batch["x_num"].flatten().tolist():
        assert f"{age:.0f}" in shown


# ---------------------------------------------------------------------- padding


@pytest.mark.parametrize("width", [512, 100])
def test_the_lengths_can_be_read_and_counted(first, second, width):
    found = []
    for dataset in (first, second):
        lengths = np.minimum(dataset.lengths, width)
        picture = draw_lengths(lengths, width)
        assert label_problems(picture) == []
        empty = 1 - lengths.sum() / (width * len(lengths))
        assert f"Give each record {width} places, and {empty:.0%} of them stay empty" in texts(
            picture
        )
        assert f"{empty:.0%} of all places are empty" in picture.alternative_text
        assert f"the longest {lengths.max()}" in picture.alternative_text
        found.append(picture.alternative_text)
    assert found[0] != found[1]


def test_a_long_record_leaves_room_for_both_labels():
    lengths = np.array([7] * 50 + [12] * 40 + [480])
    assert label_problems(draw_lengths(lengths, 512)) == []
    assert label_problems(draw_lengths(np.array([240, 250, 260]), 512)) == []


def company(dataset, patient):
    batches, row, places = {}, {}, {"wide": 512 * len(dataset)}
    for way, by_length in (("shuffled", False), ("length buckets", True)):
        plan = list(LengthBatchSampler(dataset.lengths, 32, seed=3, group_by_length=by_length))
        (key,) = (key for key in plan if patient in key.indices)
        batches[way], row[way] = dataset[key], key.indices.index(patient)
        places[way] = sum(
            len(k.indices) * int(dataset.lengths[list(k.indices)].max()) for k in plan
        )
    return batches, row, places, int(dataset.lengths.sum())


def test_the_company_can_be_read(dataset):
    assert label_problems(draw_company(*company(dataset, 4))) == []


def test_the_company_shows_batches_and_shares(first, second):
    found = []
    for dataset in (first, second):
        batches, row, places, n_tokens = company(dataset, 4)
        picture = draw_company(batches, row, places, n_tokens)
        shown = texts(picture)
        for way, batch in batches.items():
            rows, width = batch["input_ids"].shape
            assert f"{rows} × {width} places" in shown
            assert f"{rows} rows of {width} places" in picture.alternative_text
            share = f"{1 - n_tokens / places[way]:.0%}"
            assert f"{places[way]:,}, {share} empty" in shown
            assert f"{way} {share}" in picture.alternative_text
        found.append(shown)
    assert found[0] != found[1]


# ---------------------------------------------------------------------- noise


@pytest.mark.parametrize(
    ("run", "different"), [(["AABB", "AABB"], 2), (["ABCD", "EFGH", "IJKL"], 12)]
)
def test_the_tiles_show_letters_workers_and_how_many_differ(run, different):
    runs = {"one way": [list(row) for row in run], "the other": [list("ABAB"), list("ABAB")]}
    picture = draw_noise(runs, {"one way": 2, "the other": 0})
    assert label_problems(picture) == []
    shown = texts(picture)
    n_batches = 4 * len(run)
    assert f"{different} different of {n_batches}" in shown
    assert f"one way: {different} different in {n_batches} batches" in picture.alternative_text
    assert shown.count("none") == 4
    assert " and ".join(run) in picture.alternative_text


def test_three_ways_stand_side_by_side():
    runs = {name: [list("ABCD"), list("EFGH")] for name in ("kept", "kept, two workers", "new")}
    picture = draw_noise(runs, dict.fromkeys(runs, 2))
    assert label_problems(picture) == []
    assert texts(picture).count("8 different of 8") == 3


@pytest.mark.parametrize("seed", [0, 1])
def test_the_plan_shows_its_batches_in_their_order(first, second, seed):
    found = []
    for dataset in (first, second):
        rng = np.random.default_rng(seed)
        some = dataset.lengths[rng.permutation(len(dataset))[:24]]
        pools, order = [some[:12].tolist(), some[12:].tolist()], rng.permutation(6).tolist()
        picture = draw_plan(pools, 4, order)
        assert label_problems(picture) == []
        assert {"pool 1", "pool 2"} <= set(texts(picture))
        batches = [sorted(pool)[i : i + 4] for pool in pools for i in (0, 4, 8)]
        words = ", ".join(f"{batches[at][0]} to {batches[at][-1]}" for at in order)
        assert f"Last the 6 batches in a new order: {words}." in picture.alternative_text
        assert "Three rows of 24 bars" in picture.alternative_text
        found.append(picture.alternative_text)
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("ways", "costs"),
    [
        ({"filled up": [[2, 2, 5], [6]], "another": [[2, 2], [5, 6]]}, (27, 22)),
        ({"one": [[3, 9]], "two": [[3], [9]], "reverse": [[9], [3]]}, (21, 18, 18)),
    ],
)
def test_small_divisions_show_what_each_batch_and_the_whole_cost(ways, costs):
    picture = draw_divisions(ways, 3)
    assert label_problems(picture) == []
    shown = texts(picture)
    for (name, way), cost in zip(ways.items(), costs, strict=True):
        assert name in shown and f"cost {cost}" in shown
        for batch in way:
            assert f"{len(batch) * max(batch)} + 3" in shown
        assert f"{name}: " in picture.alternative_text
        assert f"cost {cost}" in picture.alternative_text
    assert f"The same records at a cost of {' or '.join(map(str, costs))}" in shown


@pytest.mark.parametrize("budget", [64, 2080])
def test_the_divisions_of_an_epoch_can_be_read_and_counted(budget):
    ways = {"32 records each": [(4, 5), (4, 8), (4, 16)], "a budget": [(4, 5), (8, 8)]}
    picture = draw_budget(ways, budget, 10)
    assert label_problems(picture) == []
    shown = texts(picture)
    assert {"3 batches", "2 batches", "cost 146", f"{budget:,}"} <= set(shown)
    assert "cost 104 (\N{MINUS SIGN}29%)" in shown
    assert "A budget costs 29% less than 32 records each" in shown
    assert "a budget: 2 batches of 20 to 64 places, which cost 104" in picture.alternative_text


def test_the_bars_of_all_divisions_are_equally_wide():
    ways = {"each": [(32, 5)] * 63, "full": [(100, 16)] * 16, "best": [(50, 16)] * 28}
    picture = draw_budget(ways, 1_600, 100)
    assert label_problems(picture) == []
    pitch = [
        axes.get_position().width / axes.get_xlim()[1]
        for axes in picture.axes
        if axes.patches and axes.axison
    ]
    assert len(pitch) == 3 and np.allclose(pitch, pitch[0])


# ---------------------------------------------------------------------- the contract


def faults_of(batch):
    return {
        "an age is missing": {"x_num": batch["x_num"][:-1]},
        "the mask is boolean": {"attention_mask": batch["attention_mask"].bool()},
        "nothing is shifted": {"decoder_input_ids": batch["labels"]},
    }


def test_the_faults_can_be_read_and_the_checks_counted(dataset):
    batch = small_batch(dataset)
    broken = faults_of(batch)
    seen = {"types": list(broken)[:2], "check_batch": list(broken)}
    picture = draw_faults(batch, broken, seen)
    assert label_problems(picture) == []
    shown = texts(picture)
    assert f"Types alone see {len(seen['types'])} of {len(broken)} faults" in shown
    assert shown.count("misses it") == 1 and shown.count("sees it") == 5
    n_rows, source = batch["attention_mask"].shape
    assert f"({n_rows}, {source}) bool" in shown
    assert f"({n_rows - 1}, 1) float32" in shown
    assert "seen by types: an age is missing, the mask is boolean;" in picture.alternative_text


def test_a_check_that_sees_nothing_says_so(first):
    batch = small_batch(first)
    picture = draw_faults(batch, faults_of(batch), {"types": []})
    assert "seen by types: none" in picture.alternative_text
    assert texts(picture).count("misses it") == 3


# ---------------------------------------------------------------------- memory


def test_the_memory_can_be_read_and_measured(dataset):
    batch = dataset.batch(range(16))
    total = sum(tensor.nbytes for tensor in batch.values())
    logits = batch["labels"].numel() * 425 * 4
    large = 256 * 512 * 7_000 * 4
    memory = {
        "a batch of 16: six tensors": total,
        "its logits": logits,
        "for 256 records": large,
        "all that a step holds": [("loss", large), ("backward", 3 * large), ("weights", total)],
        "padded to the longest": 16 * logits,
    }
    picture = draw_memory(memory, 8 * 10**9, "padded to the longest")
    assert label_problems(picture) == []
    shown = texts(picture)
    assert {f"{total / 1e6:.2f} MB", "3,670 MB", "14,680 MB", "the card, 8,000 MB"} <= set(shown)
    assert {"loss", "backward"} <= set(shown) and "weights" not in shown
    assert {f"× {logits / total:.0f}", "× 4"} <= set(shown)
    assert any(text.startswith("÷ ") for text in shown)
    assert "A step of training takes 14,680 MB, and the card has 8,000 MB" in shown
    parts = f"(loss 3,670 MB, backward 11,010 MB, weights {total / 1e6:.2f} MB)"
    for words in ("for 256 records 3,670 MB", "The device has 8,000 MB", parts):
        assert words in picture.alternative_text


def test_another_card_is_drawn_where_it_stands():
    memory = {"a": 2_000_000, "b": 40_000_000}
    picture = draw_memory(memory, 50 * 10**6, "none")
    assert label_problems(picture) == []
    assert {"the card, 50 MB", "2.0 MB", "40 MB", "× 20"} <= set(texts(picture))


def test_the_batch_is_not_written_to(first):
    batch = small_batch(first)
    before = {name: tensor.clone() for name, tensor in batch.items()}
    (
        draw_tensors(batch),
        draw_path(first, 7, batch),
        draw_faults(batch, faults_of(batch), {"a": []}),
    )
    assert all(torch.equal(before[name], batch[name]) for name in batch)
