"""Which patients make up which batch, with any number of workers and from any point on."""

import random
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from ehr_course.batches.datasets import BatchKey, RecordDataset
from ehr_course.batches.sampler import POOL, LengthBatchSampler, data_loader
from ehr_course.errors import InputError
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

COHORT = make_cohort(90, seed=4)
TOKENIZER = CodeTokenizer.from_records(COHORT)
DATASET = RecordDataset(COHORT, TOKENIZER)


def random_lengths(n, seed=0):
    return np.random.default_rng(seed).integers(5, 200, n)


def waste(lengths, plan):
    """The share of padding, by a loop over batches."""
    padded = sum(len(key.indices) * max(lengths[i] for i in key.indices) for key in plan)
    return 1 - sum(lengths) / padded


def same(some, others):
    return len(some) == len(others) and all(
        torch.equal(one[name], other[name])
        for one, other in zip(some, others, strict=True)
        for name in one
    )


# ---------------------------------------------------------------------- the plan


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("group_by_length", [True, False])
@pytest.mark.parametrize(("n", "size"), [(1, 1), (7, 3), (32, 32), (33, 32), (700, 4)])
def test_every_patient_comes_once_an_epoch(n, size, group_by_length, shuffle):
    plan = LengthBatchSampler(
        random_lengths(n), size, group_by_length=group_by_length, shuffle=shuffle
    )
    keys = list(plan)
    assert sorted(i for key in keys for i in key.indices) == list(range(n))
    assert [key.number for key in keys] == list(range(len(plan)))
    assert sorted(len(key.indices) for key in keys)[1:] == [size] * (len(plan) - 1)


@pytest.mark.parametrize("group_by_length", [True, False])
@pytest.mark.parametrize(("n", "size"), [(1, 1), (7, 3), (33, 32), (700, 4), (4_000, 32)])
def test_batches_of_equal_tokens_have_each_patient_once_and_none_is_empty(
    n, size, group_by_length
):
    lengths = random_lengths(n)
    plan = LengthBatchSampler(
        lengths, size, group_by_length=group_by_length, equal_tokens=True, seed=1
    )
    keys = list(plan)
    assert sorted(i for key in keys for i in key.indices) == list(range(n))
    assert len(keys) == len(plan) == -(-n // size)
    assert all(key.indices for key in keys)
    tokens = np.array([lengths[list(key.indices)].sum() for key in keys])
    if n == 4_000:
        assert tokens.max() < 1.1 * tokens.mean() and tokens.min() > 0.9 * tokens.mean()


def test_a_record_longer_than_a_batch_leaves_no_batch_empty():
    lengths = np.array([5, 5, 5, 5, 5, 500, 5, 5])
    for group_by_length in (True, False):
        plan = LengthBatchSampler(lengths, 2, equal_tokens=True, group_by_length=group_by_length)
        keys = list(plan)
        assert len(keys) == 4 and all(key.indices for key in keys)
        assert sorted(i for key in keys for i in key.indices) == list(range(8))


def test_equal_tokens_let_every_token_weigh_the_same():
    # A mean in each batch gives short records too much weight, unless batches have equal tokens.
    lengths = np.random.default_rng(2).geometric(0.05, 4_000) + 5
    weights = {}
    for equal_tokens in (False, True):
        plan = LengthBatchSampler(lengths, 32, group_by_length=True, equal_tokens=equal_tokens)
        of_token = np.zeros(len(lengths))
        for key in plan:
            rows = list(key.indices)
            of_token[rows] = lengths.sum() / len(plan) / lengths[rows].sum()
        weights[equal_tokens] = of_token
    short, long = lengths < 10, lengths > 50
    assert weights[False][short].mean() > 4 * weights[False][long].mean()
    assert 0.9 < weights[True][short].mean() / weights[True][long].mean() < 1.1
    padding = [
        waste(
            lengths, LengthBatchSampler(lengths, 32, group_by_length=grouped, equal_tokens=grouped)
        )
        for grouped in (True, False)
    ]
    assert padding[0] < 0.1 < 0.4 < padding[1]


def test_without_shuffle_and_grouping_patients_come_in_their_order():
    keys = list(LengthBatchSampler(random_lengths(7), 3, shuffle=False))
    assert keys == [
        BatchKey(0, 0, (0, 1, 2)),
        BatchKey(0, 1, (3, 4, 5)),
        BatchKey(0, 2, (6,)),
    ]


def test_without_shuffle_batches_by_length_are_the_pools_sorted_by_length():
    size, n = 2, 2 * POOL * 2 + 5
    lengths = random_lengths(n).tolist()
    expected = []
    for first in range(0, n, POOL * size):
        pool = sorted(range(first, min(n, first + POOL * size)), key=lambda i: lengths[i])
        expected += [tuple(pool[i : i + size]) for i in range(0, len(pool), size)]
    keys = list(LengthBatchSampler(lengths, size, shuffle=False, group_by_length=True))
    assert [key.indices for key in keys] == expected


@pytest.mark.parametrize("seed", range(5))
def test_batches_by_length_do_not_come_in_the_order_of_their_lengths(seed):
    lengths = random_lengths(POOL * 4)  # one pool: sorted, the correlation would be near 1
    plan = LengthBatchSampler(lengths, 4, seed=seed, group_by_length=True)
    means = [np.mean(lengths[list(key.indices)]) for key in plan]
    assert abs(np.corrcoef(means, np.arange(POOL))[0, 1]) < 0.5


def test_patients_meet_others_in_every_epoch_and_with_every_seed():
    lengths = [10] * 400
    plans = [
        LengthBatchSampler(lengths, 4),
        LengthBatchSampler(lengths, 4, epoch=1),
        LengthBatchSampler(lengths, 4, seed=1),
    ]
    batches = [{frozenset(key.indices) for key in plan} for plan in plans]
    assert len(batches[0] & batches[1]) < 5
    assert len(batches[0] & batches[2]) < 5


@pytest.mark.parametrize("group_by_length", [True, False])
def test_the_same_seed_and_epoch_give_the_same_plan_whenever_it_is_asked(group_by_length):
    plan = LengthBatchSampler(
        random_lengths(100), 8, seed=3, epoch=2, group_by_length=group_by_length
    )
    first = list(plan)
    np.random.seed(0)  # the global states must not matter
    random.seed(0)
    torch.manual_seed(0)
    assert list(plan) == first
    other = LengthBatchSampler(random_lengths(100), 8, seed=3, group_by_length=group_by_length)
    other.set_epoch(2)
    assert list(other) == first


@pytest.mark.parametrize("group_by_length", [True, False])
@pytest.mark.parametrize("start", [0, 1, 7, 13])
def test_start_leaves_exactly_the_batches_that_remain(start, group_by_length):
    lengths = random_lengths(100)
    plan = partial(LengthBatchSampler, lengths, 8, epoch=5, group_by_length=group_by_length)
    whole, rest = list(plan()), plan(start=start)
    assert list(rest) == whole[start:]
    assert len(rest) == len(whole) - start
    rest.set_epoch(6)
    assert len(rest) == len(whole)


def test_the_order_is_not_drawn_from_the_stream_of_the_first_corruption():
    # NumPy makes the same stream of [seed, epoch] and of [seed, epoch, 0].
    lengths = [10] * 100
    order = [i for key in LengthBatchSampler(lengths, 4) for i in key.indices]
    assert order != np.random.default_rng([0, 0, 0]).permutation(100).tolist()


@pytest.mark.parametrize(
    ("lengths", "size", "options"),
    [
        ([], 4, {}),
        ([5, 6], 0, {}),
        ([5, 6], 4, {"seed": -1}),
        ([5, 6], 4, {"seed": 2**32}),
        ([5, 6], 4, {"epoch": -1}),
        ([5, 6], 4, {"start": 2}),
        ([5, 6], 4, {"start": -1}),
    ],
)
def test_numbers_out_of_their_range_are_refused(lengths, size, options):
    with pytest.raises(InputError, match="LengthBatchSampler"):
        LengthBatchSampler(lengths, size, **options)


# ---------------------------------------------------------------------- the loader


def test_the_loader_gives_the_batches_of_the_plan():
    expected = [DATASET[key] for key in LengthBatchSampler(DATASET.lengths, 8, seed=1, epoch=2)]
    loader = data_loader(DATASET, 8, seed=1, epoch=2)
    assert same(list(loader), expected)
    assert len(loader) == len(expected)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_any_number_of_workers_gives_the_same_batches_and_no_warning(num_workers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Said of every fork by Python 3.12 and later, whatever the worker does; and of this
        # machine, where it has one processor.
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = data_loader(DATASET, 8, num_workers=num_workers)
        first, again = list(loader), list(loader)
        loader.sampler.set_epoch(1)
        second = list(loader)
        loader.sampler.set_epoch(1, start=5)
        rest = list(loader)
    alone = data_loader(DATASET, 8)
    assert same(first, list(alone))
    assert same(again, first)
    alone.sampler.set_epoch(1)
    assert same(second, list(alone))
    assert not same(second, first)
    assert same(rest, second[5:])


def test_an_interrupted_epoch_can_be_left_and_resumed_by_the_same_loader():
    loader = data_loader(DATASET, 8, num_workers=1)
    whole = list(loader)
    iterator = iter(loader)
    done = [next(iterator) for _ in range(3)]
    del iterator
    loader.sampler.set_epoch(0, start=3)
    assert same(done + list(loader), whole)


def test_the_loader_passes_on_order_and_buckets():
    in_order = data_loader(DATASET, 8, shuffle=False)
    ages = [age for batch in in_order for age in batch["x_num"][:, 0].tolist()]
    assert ages == [record.age for record in COHORT]
