"""Which two codes go together: in one visit, or in a visit and the one after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array

from ehr_course.batches.ragged import places
from ehr_course.evaluation.code_table import CodeTable

MOST_CODES = 200
"""Pairs of so many codes are counted one by one; all others are counted together."""

_AT_ONCE = 2_000_000
"""How many pairs are in memory at a time, about."""

Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Pairs one by one: the patient's row, the first code's column, the second code's."""


def frequent_columns(table: CodeTable, *, most: int = MOST_CODES) -> np.ndarray:
    """The columns of the codes that stand in most visits, rising: int64 (codes,).

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = PatientRecord(1, "F", 50, (Visit(("4280", "4019", "486")), Visit(("4280", "486"))))
    >>> frequent_columns(*code_tables([one]), most=2).tolist()
    [1, 2]
    """
    carriers = table.visits.sum(axis=0)
    order = np.argsort(-carriers, kind="stable")[:most]
    return np.sort(order[carriers[order] > 0])


def pairs_in_visits(*tables: CodeTable, codes: np.ndarray) -> tuple[csr_array, ...]:
    """Count the pairs of codes that stand in one visit, patient by patient.

    A pair has no order, and a code makes none with itself: a visit of n codes has n(n-1)/2.

    Args:
        tables: cohorts with shared columns, as code_tables makes them.
        codes: int64 (codes,), rising: each pair of these columns gets a column of its own.

    Returns:
        for each table float32 (patients, pairs + 1): at how many visits the patient has the
        pair, first by first: codes 0 and 1, 0 and 2, ..., 1 and 2, ...; the last column counts
        every other pair.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = PatientRecord(1, "F", 50, (Visit(("4280", "4019", "486")), Visit(("4280",))))
    >>> pairs_in_visits(*code_tables([one]), codes=np.arange(3))[0].toarray().tolist()
    [[1.0, 1.0, 1.0, 0.0]]
    >>> pairs_in_visits(*code_tables([one]), codes=np.arange(2))[0].toarray().tolist()
    [[1.0, 2.0]]
    """
    n = len(codes)

    def column(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first * (2 * n - first - 1) // 2 + second - first - 1

    return tuple(
        _counted(table, codes, _in_visits, _n_in_visits(table), column, n * (n - 1) // 2)
        for table in tables
    )


def pairs_in_turn(*tables: CodeTable, codes: np.ndarray) -> tuple[csr_array, ...]:
    """Count the pairs of a code in a visit and a code in the patient's next visit.

    A pair has an order, and a code that comes back makes one with itself: visits of n and m
    codes have n times m.

    Args:
        tables, codes: as in pairs_in_visits.

    Returns:
        as in pairs_in_visits, with a column for every code before every code.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = PatientRecord(1, "F", 50, (Visit(("4280", "4019")), Visit(("4280",))))
    >>> pairs_in_turn(*code_tables([one]), codes=np.arange(2))[0].toarray().tolist()
    [[0.0, 1.0, 0.0, 1.0, 0.0]]
    """
    n = len(codes)

    def column(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first * n + second

    return tuple(
        _counted(table, codes, _in_turn, _n_in_turn(table), column, n * n) for table in tables
    )


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
    table: CodeTable,
    codes: np.ndarray,
    found: Callable[[CodeTable, int, int], Found],
    n_found: np.ndarray,
    column_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    n_columns: int,
) -> csr_array:
    """The pairs of every patient, in blocks of visits with ``n_found`` pairs each."""
    place = np.full(len(table.codes), -1, dtype=np.int64)
    place[codes] = np.arange(len(codes))
    shape = (len(table), n_columns + 1)
    parts = [csr_array(shape, dtype=np.float32)]
    for first, last in _blocks(n_found):
        owner, one, other = found(table, first, last)
        one, other = place[one], place[other]
        own = (one >= 0) & (other >= 0)
        column = np.full(len(one), n_columns)
        column[own] = column_of(one[own], other[own])
        part = csr_array((np.ones(len(one), dtype=np.float32), (owner, column)), shape=shape)
        part.sum_duplicates()
        parts.append(part)
    return csr_array(sum(parts[1:], start=parts[0]))


def _blocks(n_pairs: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of visits, first and last, with about _AT_ONCE pairs each."""
    so_far = np.cumsum(n_pairs)
    first = 0
    while first < len(n_pairs):
        before = so_far[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(so_far, before + _AT_ONCE, side="right")))
        yield first, last
        first = last
