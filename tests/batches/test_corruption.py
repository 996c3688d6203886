r"""Corruption, held against plain loops over visits, and against the distributions it promises."""

import math

import numpy as np
import pytest

from ehr_course.batches.corruption import (
    EMPTY_RECORD,
    STRATEGIES,
    Corruption,
    delete_codes,
    infill_masks,
    replace_codes,
    span_lengths,
)
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.tokenizers.codes import CodeTokenizer

BOS, EOS, START, STOP, MASK = 1, 2, 3, 4, 6
N_TOKENS = 40
TOKENIZER = CodeTokenizer([f"{number:03}" for number in range(N_TOKENS - 7)])
SEEDS = range(30)


def random_visits(seed, n=60):
    rng = np.random.default_rng([seed, 99])
    sizes = rng.choice([1, 1, 2, 3, 5, 12], n)
    return [rng.choice(np.arange(7, N_TOKENS), size, replace=False).tolist() for size in sizes]


def random_records(seed, n=12):
    rng = np.random.default_rng([seed, 98])
    visits = iter(random_visits(seed, 5 * n))
    return [
        [BOS, *(t for _ in range(rng.integers(1, 6)) for t in (START, *next(visits), STOP)), EOS]
        for _ in range(n)
    ]


def visits_of(row):
    """The visits between the markers of one row, by a loop over its tokens."""
    visits = []
    for token in row:
        if token == START:
            visits.append([])
        elif token not in (BOS, EOS, STOP):
            visits[-1].append(token)
    return visits


def frame_of(row):
    """What of a row is not between the markers of a visit."""
    return [token for token in row if token in (BOS, EOS, START, STOP)]


# ---------------------------------------------------------------------- oracles, visit by visit


def is_infilled(visit, result):
    """Whether one span of the visit, and not all of it, was replaced by one mask."""
    return any(
        result == [*visit[:start], MASK, *visit[end:]]
        for start in range(len(visit))
        for end in range(start + 1, len(visit) + 1)
        if end - start < len(visit) or len(visit) == 1
    )


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(any(token == other for other in rest) for token in part)


def is_deleted(visit, result):
    return len(result) >= 1 and is_subsequence(result, visit)


def is_replaced(visit, result):
    return len(result) == len(visit) and all(7 <= token < N_TOKENS for token in result)


ORACLES = {"infill": is_infilled, "delete": is_deleted, "replace": is_replaced}


def standard_deviations_from(count, n, p):
    return abs(count - n * p) / math.sqrt(n * p * (1 - p))


def assert_drawn_from(observed, probabilities):
    """Pearson's chi-square, against a limit that chance passes about once in 100,000 runs."""
    expected = np.array(probabilities) * sum(observed)
    assert expected.min() > 5
    statistic = ((np.array(observed) - expected) ** 2 / expected).sum()
    df = len(observed) - 1
    # Wilson and Hilferty's approximation of the quantile at 4.26 standard deviations.
    limit = df * (1 - 2 / (9 * df) + 4.26 * math.sqrt(2 / (9 * df))) ** 3
    assert statistic < limit, (observed, expected)


# ---------------------------------------------------------------------- span lengths


def poisson_clamped(mean, longest):
    """P(1), ..., P(longest - 1), P(longest or more) of a Poisson variable whose 0 counts as 1."""
    p = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(longest)]
    return [p[0] + p[1], *p[2:], 1 - sum(p)]


def test_span_lengths_are_poisson_with_0_made_1():
    spans = span_lengths(100_000, rng=np.random.default_rng(0))
    expected = poisson_clamped(3.0, 10)
    assert round(expected[0], 4) == 0.1991
    assert_drawn_from(np.bincount(np.minimum(spans, 10), minlength=11)[1:], expected)
    assert spans.min() == 1
    assert abs(np.mean(spans == 1) - 0.1991) < 0.005


def test_span_lengths_have_the_mean_asked_for():
    spans = span_lengths(50_000, mean=1.5, rng=np.random.default_rng(1))
    assert_drawn_from(np.bincount(np.minimum(spans, 6), minlength=7)[1:], poisson_clamped(1.5, 6))


# ---------------------------------------------------------------------- infilling


@pytest.mark.parametrize("seed", SEEDS)
def test_infilling_replaces_one_span_of_each_visit_by_one_mask(seed):
    visits = random_visits(seed)
    result = infill_masks(Ragged.from_lists(visits), rng=np.random.default_rng(seed)).to_lists()
    assert len(result) == len(visits)
    for visit, infilled in zip(visits, result, strict=True):
        assert is_infilled(visit, infilled), (visit, infilled)


def test_a_visit_of_one_code_becomes_a_mask_and_no_other_visit_does():
    visits = [[7], [8, 9], [10], [11, 12, 13]]
    for seed in SEEDS:
        result = infill_masks(
            Ragged.from_lists(visits), mean_span=50, rng=np.random.default_rng(seed)
        ).to_lists()
        assert [row == [MASK] for row in result] == [True, False, True, False]


def test_masked_spans_are_poisson_clamped_to_the_visit():
    visits = Ragged.from_lists([list(range(7, 13))] * 40_000)  # six codes, so spans of 1 to 5
    result = infill_masks(visits, rng=np.random.default_rng(0))
    spans = 6 + 1 - result.lengths
    assert_drawn_from(np.bincount(spans, minlength=6)[1:], poisson_clamped(3.0, 5))


def test_a_span_begins_anywhere_it_fits_with_the_same_chance():
    visits = Ragged.from_lists([list(range(7, 13))] * 40_000)
    rows = infill_masks(visits, mean_span=0, rng=np.random.default_rng(0)).to_lists()
    assert_drawn_from(np.bincount([row.index(MASK) for row in rows]), [1 / 6] * 6)


# ---------------------------------------------------------------------- deletion


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("p", [0.15, 0.9, 1.0])
def test_deletion_leaves_a_part_of_each_visit_in_its_order_and_never_nothing(seed, p):
    visits = random_visits(seed)
    result = delete_codes(Ragged.from_lists(visits), p=p, rng=np.random.default_rng(seed))
    for visit, kept in zip(visits, result.to_lists(), strict=True):
        assert is_deleted(visit, kept), (visit, kept)


def test_deletion_takes_each_code_with_probability_p():
    visits = Ragged.from_lists([list(range(7, 27))] * 3000)
    result = delete_codes(visits, p=0.15, rng=np.random.default_rng(0))
    deleted = np.bincount(visits.values) - np.bincount(result.values)
    assert standard_deviations_from(deleted.sum(), 60_000, 0.15) < 4
    for count in deleted[7:]:
        assert standard_deviations_from(count, 3000, 0.15) < 4.5


def test_the_code_that_stays_of_an_emptied_visit_is_a_random_one():
    visits = Ragged.from_lists([[7, 8, 9, 10]] * 20_000)
    result = delete_codes(visits, p=1, rng=np.random.default_rng(0))
    assert set(result.lengths.tolist()) == {1}
    assert_drawn_from(np.bincount(result.values)[7:], [1 / 4] * 4)


# ---------------------------------------------------------------------- replacement


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("p", [0.15, 1.0])
def test_replacement_keeps_lengths_and_gives_codes_of_the_vocabulary(seed, p):
    visits = random_visits(seed)
    result = replace_codes(
        Ragged.from_lists(visits), p=p, n_tokens=N_TOKENS, rng=np.random.default_rng(seed)
    )
    for visit, replaced in zip(visits, result.to_lists(), strict=True):
        assert is_replaced(visit, replaced), (visit, replaced)


def test_a_replaced_code_is_never_the_code_itself():
    visits = Ragged.from_lists([list(range(7, N_TOKENS))] * 300)
    result = replace_codes(visits, p=1, n_tokens=N_TOKENS, rng=np.random.default_rng(0))
    assert (result.values != visits.values).all()


def test_replacement_changes_each_code_with_probability_p():
    visits = Ragged.from_lists([list(range(7, 27))] * 3000)
    result = replace_codes(visits, p=0.15, n_tokens=N_TOKENS, rng=np.random.default_rng(0))
    changed = result.values != visits.values
    assert standard_deviations_from(changed.sum(), 60_000, 0.15) < 4
    for count in changed.reshape(3000, 20).sum(axis=0):
        assert standard_deviations_from(count, 3000, 0.15) < 4.5


@pytest.mark.parametrize("code", [7, 9, 11])
def test_replacement_is_uniform_over_the_other_codes(code):
    visits = Ragged.from_lists([[code]] * 20_000)
    result = replace_codes(visits, p=1, n_tokens=12, rng=np.random.default_rng(0))
    others = [other for other in range(7, 12) if other != code]
    counts = np.bincount(result.values, minlength=12)
    assert counts.sum() == counts[others].sum()
    assert_drawn_from(counts[others], [1 / 4] * 4)


# ---------------------------------------------------------------------- whole records


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_visit_of_a_record_is_corrupted_as_its_strategy_says(seed, strategy):
    records = random_records(seed)
    result = Corruption(p_visit=1, strategies=(strategy,)).apply(
        Ragged.from_lists(records), TOKENIZER, rng=np.random.default_rng(seed)
    )
    for clean, corrupted in zip(records, result.to_lists(), strict=True):
        assert frame_of(corrupted) == frame_of(clean)
        for visit, changed in zip(visits_of(clean), visits_of(corrupted), strict=True):
            assert ORACLES[strategy](visit, changed), (visit, changed)


@pytest.mark.parametrize("seed", SEEDS)
def test_markers_stay_and_enclose_at_least_one_token(seed):
    records = random_records(seed)
    corruption = Corruption(p_visit=0.9, mean_span=6, p_delete=0.9, p_replace=0.9)
    result = corruption.apply(
        Ragged.from_lists(records), TOKENIZER, rng=np.random.default_rng(seed)
    ).to_lists()
    assert result != records
    for clean, corrupted in zip(records, result, strict=True):
        assert frame_of(corrupted) == frame_of(clean)
        assert all(visits_of(corrupted))
        for visit, changed in zip(visits_of(clean), visits_of(corrupted), strict=True):
            assert changed == visit or any(is_(visit, changed) for is_ in ORACLES.values())


def test_a_visit_is_left_alone_or_gets_a_strategy_each_with_its_chance():
    # Five codes and p 1, so that what happened to a visit can be read off it.
    record = [BOS, START, 7, 8, 9, 10, 11, STOP, START, 12, 13, 14, 15, 16, STOP, EOS]
    records = Ragged.from_lists([record] * 10_000)
    corruption = Corruption(p_visit=0.4, p_delete=1, p_replace=1)
    result = corruption.apply(records, TOKENIZER, rng=np.random.default_rng(0))
    clean = visits_of(record)
    for number in (0, 1):
        happened = {"nothing": 0, "infill": 0, "delete": 0, "replace": 0}
        for row in result.to_lists():
            visit = visits_of(row)[number]
            if visit == clean[number]:
                happened["nothing"] += 1
            elif MASK in visit:
                happened["infill"] += 1
            elif len(visit) == 1:
                happened["delete"] += 1
            else:
                happened["replace"] += 1
        assert_drawn_from(list(happened.values()), [0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3])


def test_a_mean_span_of_0_masks_one_code_of_each_visit_of_a_record():
    records = Ragged.from_lists(random_records(4))
    corruption = Corruption(p_visit=1, mean_span=0, strategies=("infill",))
    result = corruption.apply(records, TOKENIZER, rng=np.random.default_rng(0))
    assert result.lengths.tolist() == records.lengths.tolist()
    assert all(visit.count(MASK) == 1 for row in result.to_lists() for visit in visits_of(row))


def test_visits_of_a_record_are_corrupted_independently():
    record = [BOS, START, 7, 8, STOP, START, 9, 10, STOP, EOS]
    result = Corruption(strategies=("infill",)).apply(
        Ragged.from_lists([record] * 8000), TOKENIZER, rng=np.random.default_rng(0)
    )
    both = [tuple(MASK in visit for visit in visits_of(row)) for row in result.to_lists()]
    pairs = [(False, False), (False, True), (True, False), (True, True)]
    assert_drawn_from([both.count(pair) for pair in pairs], [1 / 4] * 4)


def test_p_visit_0_changes_nothing():
    records = random_records(0)
    result = Corruption(p_visit=0).apply(
        Ragged.from_lists(records), TOKENIZER, rng=np.random.default_rng(0)
    )
    assert result.to_lists() == records


def test_p_empty_1_leaves_every_record_empty():
    records = random_records(0)
    result = Corruption(p_empty=1).apply(
        Ragged.from_lists(records), TOKENIZER, rng=np.random.default_rng(0)
    )
    assert result.to_lists() == [[BOS, MASK, EOS]] * len(records)
    assert EMPTY_RECORD == (BOS, MASK, EOS)


def test_p_empty_empties_that_share_of_the_records_and_changes_no_other():
    records = Ragged.from_lists(random_records(3, n=4000))
    some, none = (
        Corruption(p_empty=p).apply(records, TOKENIZER, rng=np.random.default_rng(0)).to_lists()
        for p in (0.3, 0.0)
    )
    empty = [row == list(EMPTY_RECORD) for row in some]
    assert standard_deviations_from(sum(empty), 4000, 0.3) < 4
    assert [row for row, is_empty in zip(some, empty, strict=True) if not is_empty] == [
        row for row, is_empty in zip(none, empty, strict=True) if not is_empty
    ]


def test_the_input_is_never_written_to():
    records = Ragged.from_lists(random_records(1))
    visits = Ragged.from_lists(random_visits(1))
    before = [each.copy() for each in (records.values, records.lengths, visits.values)]
    for array in (records.values, records.lengths, visits.values, visits.lengths):
        array.setflags(write=False)
    rng = np.random.default_rng(0)
    results = [
        Corruption(p_visit=1, p_empty=0.5).apply(records, TOKENIZER, rng=rng),
        Corruption(p_visit=0).apply(records, TOKENIZER, rng=rng),
        infill_masks(visits, rng=rng),
        delete_codes(visits, rng=rng),
        replace_codes(visits, n_tokens=N_TOKENS, rng=rng),
    ]
    after = (records.values, records.lengths, visits.values)
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
    for result in results:
        for array in (records.values, records.lengths, visits.values, visits.lengths):
            assert not np.shares_memory(result.values, array)
            assert not np.shares_memory(result.lengths, array)


def test_no_records_give_no_records():
    nothing = Ragged.from_lists([])
    rng = np.random.default_rng(0)
    assert Corruption(p_empty=0.5).apply(nothing, TOKENIZER, rng=rng).to_lists() == []
    assert infill_masks(nothing, rng=rng).to_lists() == []
    assert delete_codes(nothing, rng=rng).to_lists() == []
    assert replace_codes(nothing, n_tokens=N_TOKENS, rng=rng).to_lists() == []


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "options",
    [
        {"p_visit": -0.1},
        {"p_empty": 1.5},
        {"p_delete": float("nan")},
        {"p_replace": 2},
        {"mean_span": -1},
        {"mean_span": float("inf")},
        {"strategies": ()},
        {"strategies": ("infill", "shuffle")},
        {"strategies": ("delete", "delete")},
        {"strategies": "infill"},
    ],
    ids=str,
)
def test_options_out_of_their_range_are_refused(options):
    with pytest.raises(InputError):
        Corruption(**options)


@pytest.mark.parametrize(
    "row",
    [
        [1, 3, 7, 4, 3, 4, 2],  # a visit without codes
        [1, 3, 7, 2],
        [1, 7, 3, 8, 4, 2],
        [1, 4, 7, 3, 2],
        [1, 3, 6, 4, 2],
    ],
)
def test_what_is_not_a_full_record_is_refused(row):
    records = Ragged.from_lists([[1, 3, 8, 4, 2], row])
    with pytest.raises(InputError, match="not a full record"):
        Corruption().apply(records, TOKENIZER, rng=np.random.default_rng(0))


def test_a_vocabulary_of_one_code_has_nothing_to_replace_it_by():
    tokenizer = CodeTokenizer(["4280"])
    with pytest.raises(InputError, match="no second code"):
        Corruption().check_vocabulary(tokenizer)
    Corruption(strategies=("delete",)).check_vocabulary(tokenizer)


def test_the_ids_of_special_tokens_are_those_of_the_tokenizer():
    base = ("<s>", "<pad>", "</s>", "<unk>", "a", "word", "<mask>", "another")
    extending = CodeTokenizer(TOKENIZER.codes, base_tokens=base)
    there = {BOS: 0, EOS: 2, START: 8, STOP: 9, MASK: 6}
    there |= {code: code + 10 - 7 for code in range(7, N_TOKENS)}
    records, corruption = random_records(5), Corruption(p_visit=1, p_empty=0.2)
    expected, found = (
        corruption.apply(Ragged.from_lists(rows), tokenizer, rng=np.random.default_rng(0))
        for rows, tokenizer in (
            (records, TOKENIZER),
            ([[there[token] for token in row] for row in records], extending),
        )
    )
    translated = [[there[token] for token in row] for row in expected.to_lists()]
    assert translated == found.to_lists()


def test_ids_of_another_vocabulary_can_be_given() -> None:
    visits, rng = Ragged.from_lists([[11], [12]]), np.random.default_rng(0)
    assert infill_masks(visits, mask_id=4, rng=rng).to_lists() == [[4], [4]]
    replaced = replace_codes(visits, p=1.0, n_tokens=13, first_code_id=11, rng=rng)
    assert replaced.to_lists() == [[12], [11]]  # there are two codes
