"""Ragged rows: what goes in comes out."""

import numpy as np
import pytest

from ehr_course.batches.ragged import Ragged


def random_rows(seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 50, rng.integers(0, 6)).tolist() for _ in range(rng.integers(0, 9))]


@pytest.mark.parametrize("seed", range(20))
def test_lists_come_back(seed):
    rows = random_rows(seed)
    assert Ragged.from_lists(rows).to_lists() == rows


@pytest.mark.parametrize("seed", range(20))
def test_offsets_cut_the_values_into_rows(seed):
    rows = random_rows(seed)
    ragged = Ragged.from_lists(rows)
    cut = [
        ragged.values[ragged.offsets[i] : ragged.offsets[i + 1]].tolist() for i in range(len(rows))
    ]
    assert cut == rows


@pytest.mark.parametrize("seed", range(20))
def test_take_is_that_of_a_list(seed):
    rows = [*random_rows(seed), [1, 2]]
    wanted = np.random.default_rng(seed).integers(0, len(rows), 7)
    assert Ragged.from_lists(rows).take(wanted).to_lists() == [rows[i] for i in wanted]


def test_taking_nothing_gives_no_rows():
    assert Ragged.from_lists([[1, 2]]).take([]).to_lists() == []


def test_what_is_taken_is_a_copy():
    ragged = Ragged.from_lists([[1, 2], [3]])
    ragged.take([0, 1]).values[:] = 9
    assert ragged.to_lists() == [[1, 2], [3]]
