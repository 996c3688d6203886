"""Which two codes go together: in one visit, or in a visit and the one after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array

from ehr_course.batches.ragged import places
from ehr_course.evaluation.code_table import CodeTable

MOST_PAIRS = 10_000
"""How many pairs are counted one by one; the rest are counted together."""

_AT_ONCE = 2_000_000
"""How many pairs are in memory at a time, about."""

Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Pairs one by one: the patient's row, the first code's column, the second code's."""


def pairs_in_visits(*tables: CodeTable, most: int = MOST_PAIRS) -> tuple[csr_array, ...]:
    """Count the pairs of codes that stand in one visit, patient by patient.

    A pair has no order, and a code makes none with itself: a visit of n codes has n(n-1)/2.

    Args:
        tables: cohorts with shared columns, as code_tables makes them.
        most: how many pairs get a column of their own: the most frequent of all cohorts
            together, so that no cohort decides alone which ones count.

    Returns:
        for each table float32 (patients, pairs + 1): at how many visits the patient has the
        pair; the last column counts every pair that has no column of its own.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = PatientRecord(1, "F", 50, (Visit(("4280", "4019", "486")), Visit(("4280",))))
    >>> pairs_in_visits(*code_tables([one]))[0].toarray().tolist()
    [[1.0, 1.0, 1.0, 0.0]]
    """
    return _counted(tables, _in_visits, _n_in_visits, most)


def pairs_in_turn(*tables: CodeTable, most: int = MOST_PAIRS) -> tuple[csr_array, ...]:
    """Count the pairs of a code in a visit and a code in the patient's next visit.

    A pair has an order, and a code that comes back makes one with itself: visits of n and m
    codes have n times m.

    Args:
        tables: as in pairs_in_visits.
        most: as in pairs_in_visits.

    Returns:
        as in pairs_in_visits.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = PatientRecord(1, "F", 50, (Visit(("4280", "4019")), Visit(("4280",))))
    >>> pairs_in_turn(*code_tables([one]))[0].toarray().tolist()
    [[1.0, 1.0, 0.0]]
    """
    return _counted(tables, _in_turn, _n_in_turn, most)


def followed(table: CodeTable) -> np.ndarray:
    """The visits that are followed by another of the same patient: int64 (visits that are,)."""
    return np.flatnonzero(table.owner[1:] == table.owner[:-1])


# ---------------------------------------------------------------------- one kind of pair each


def _n_in_visits(table: CodeTable) -> np.ndarray:
    n = np.diff(table.visits.indptr).astype(np.int64)
    return n * (n - 1) // 2


def _in_visits(table: CodeTable, first: int, last: int) -> Found:
    begin, end = table.visits.indptr[first], table.visits.indptr[last]
    n = np.diff(table.visits.indptr[first : last + 1]).astype(np.int64)
    entries = np.arange(begin, end, dtype=np.int64)
    visit_ends = np.repeat(table.visits.indptr[first + 1 : last + 1].astype(np.int64), n)
    after = visit_ends - entries - 1  # codes of the same visit that come later
    codes = table.visits.indices
    return (
        np.repeat(np.repeat(table.owner[first:last], n), after),
        np.repeat(codes[begin:end], after),
        codes[places(entries + 1, after)],
    )


def _n_in_turn(table: CodeTable) -> np.ndarray:
    n = np.diff(table.visits.indptr).astype(np.int64)
    pairs = np.zeros(len(n), dtype=np.int64)
    visits = followed(table)
    pairs[visits] = n[visits] * n[visits + 1]
    return pairs


def _in_turn(table: CodeTable, first: int, last: int) -> Found:
    visits = followed(table)
    visits = visits[(visits >= first) & (visits < last)]
    starts = table.visits.indptr.astype(np.int64)
    n = np.diff(starts)
    entries = places(starts[visits], n[visits])
    next_starts, next_n = (np.repeat(each[visits + 1], n[visits]) for each in (starts[:-1], n))
    codes = table.visits.indices
    return (
        np.repeat(np.repeat(table.owner[visits], n[visits]), next_n),
        np.repeat(codes[entries], next_n),
        codes[places(next_starts, next_n)],
    )


# ---------------------------------------------------------------------- counting


def _counted(
    tables: tuple[CodeTable, ...],
    found: Callable[[CodeTable, int, int], Found],
    n_found: Callable[[CodeTable], np.ndarray],
    most: int,
) -> tuple[csr_array, ...]:
    n_codes = len(tables[0].codes)
    columns = _most_frequent(tables, found, n_found, most)
    counted = []
    for table in tables:
        parts = []
        for first, last in _blocks(n_found(table)):
            owner, one, other = found(table, first, last)
            pair = one.astype(np.int64) * n_codes + other
            column = np.searchsorted(columns, pair)
            own = column < len(columns)
            own[own] = columns[column[own]] == pair[own]
            column[~own] = len(columns)
            ones = np.ones(len(pair), dtype=np.float32)
            shape = (len(table), len(columns) + 1)
            part = csr_array((ones, (owner, column)), shape=shape)
            part.sum_duplicates()
            parts.append(part)
        counted.append(csr_array(sum(parts[1:], start=parts[0])))
    return tuple(counted)


def _most_frequent(
    tables: tuple[CodeTable, ...],
    found: Callable[[CodeTable, int, int], Found],
    n_found: Callable[[CodeTable], np.ndarray],
    most: int,
) -> np.ndarray:
    """The numbers of the pairs that get a column, sorted: first code times codes plus second."""
    n_codes = len(tables[0].codes)
    total = csr_array((n_codes, n_codes), dtype=np.float64)
    for table in tables:
        for first, last in _blocks(n_found(table)):
            _, one, other = found(table, first, last)
            total = total + csr_array((np.ones(len(one)), (one, other)), shape=total.shape)
    total = total.tocoo()
    numbers = total.row.astype(np.int64) * n_codes + total.col
    if len(numbers) > most:
        numbers = numbers[np.lexsort((numbers, -total.data))[:most]]
    return np.sort(numbers)


def _blocks(n_pairs: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of visits, first and last, with about _AT_ONCE pairs each."""
    so_far = np.cumsum(n_pairs)
    first = 0
    while first < len(n_pairs):
        before = so_far[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(so_far, before + _AT_ONCE, side="right")))
        yield first, last
        first = last
