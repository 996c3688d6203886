"""What is counted in every patient: pairs of codes, and codes that come back at a later visit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from ehr_course.batches.ragged import places
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.icd import code_meaning

MOST_CODES = 200
"""Only pairs of this many codes are counted one by one; the rest are counted together."""

_AT_ONCE = 2_000_000
"""About how many pairs are in memory at a time."""

Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Pairs one by one: the patient's row, the first code's column, the second code's column."""


def frequent_columns(table: CodeTable, *, most: int = MOST_CODES) -> np.ndarray:
    """The columns of the codes that most visits have, rising: int64 (codes,)."""
    carriers = table.visits.sum(axis=0)
    order = np.argsort(-carriers, kind="stable")[:most]
    return np.sort(order[carriers[order] > 0])


def followed(table: CodeTable) -> np.ndarray:
    """The visits that are followed by another of the same patient: int64 (visits that are,)."""
    return np.flatnonzero(table.owner[1:] == table.owner[:-1])


# ---------------------------------------------------------------------- pairs of codes


def pairs_in_visits(table: CodeTable, codes: np.ndarray) -> csr_array:
    """Count the unordered pairs of codes that one visit has, patient by patient.

    Args:
        codes: int64 (codes,), rising: each pair of these columns gets a column of its own.

    Returns:
        float32 (patients, pairs + 1): the visits with each pair, in the order 0 and 1, 0 and 2,
        ..., 1 and 2, ...; the last column counts every other pair.
    """
    n = len(codes)
    n_codes = np.diff(table.visits.indptr).astype(np.int64)

    def column(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first * (2 * n - first - 1) // 2 + second - first - 1

    return _counted(
        table, codes, _in_visits, n_codes * (n_codes - 1) // 2, column, n * (n - 1) // 2
    )


def pairs_in_turn(table: CodeTable, codes: np.ndarray) -> csr_array:
    """Count the ordered pairs of a code in a visit and a code in the patient's next visit.

    Arguments and result are those of pairs_in_visits, with a column for every code before every
    code, itself included.
    """
    n = len(codes)
    n_codes = np.diff(table.visits.indptr).astype(np.int64)
    n_pairs = np.zeros(len(n_codes), dtype=np.int64)
    visits = followed(table)
    n_pairs[visits] = n_codes[visits] * n_codes[visits + 1]

    def column(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first * n + second

    return _counted(table, codes, _in_turn, n_pairs, column, n * n)


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


def _counted(
    table: CodeTable,
    codes: np.ndarray,
    found: Callable[[CodeTable, int, int], Found],
    n_found: np.ndarray,
    column_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    n_columns: int,
) -> csr_array:
    """The pairs of every patient; ``n_found`` says how many each visit has."""
    place = np.full(len(table.codes), -1, dtype=np.int64)
    place[codes] = np.arange(len(codes))
    shape = (len(table), n_columns + 1)
    counts = csr_array(shape, dtype=np.float32)
    so_far = np.cumsum(n_found)
    last = 0
    while last < len(n_found):
        first = last
        before = so_far[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(so_far, before + _AT_ONCE, side="right")))
        owner, one, other = found(table, first, last)
        one, other = place[one], place[other]
        own = (one >= 0) & (other >= 0)
        column = np.full(len(one), n_columns)
        column[own] = column_of(one[own], other[own])
        part = csr_array((np.ones(len(one), dtype=np.float32), (owner, column)), shape=shape)
        part.sum_duplicates()
        counts = counts + part
    return csr_array(counts)


# ---------------------------------------------------------------------- what comes back


def carried_over(table: CodeTable, *, gap: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Count the codes of a patient's visits that the visit ``gap`` places before had too.

    The sum of the first array over that of the second is the carry-over of a cohort, 0 to 1.

    Returns:
        two float32 arrays (patients,): the codes carried over, and all codes of the visits that
        follow ``gap`` or more others.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> visits = Visit(("4280", "4019")), Visit(("4280",)), Visit(("4019", "486"))
    >>> (table,) = code_tables([PatientRecord(1, "F", 50, visits)])
    >>> carried_over(table)
    (array([1.], dtype=float32), array([3.], dtype=float32))
    >>> carried_over(table, gap=2)
    (array([1.], dtype=float32), array([2.], dtype=float32))
    """
    if gap < 1:
        raise InputError("carry-over", "gap", f"{gap!r} is not a distance", "Use 1 or more.")
    later = np.flatnonzero(table.owner[gap:] == table.owner[:-gap]) + gap
    common = table.visits[later].multiply(table.visits[later - gap]).sum(axis=1)
    codes = np.diff(table.visits.indptr)[later]
    carried, of = (
        np.bincount(table.owner[later], weights=each, minlength=len(table)).astype(np.float32)
        for each in (common, codes)
    )
    return carried, of


def recurrent(table: CodeTable) -> tuple[np.ndarray, np.ndarray]:
    """Count each patient's different codes: those in more than one visit, and all of them.

    Two float32 arrays (patients,); both are 0 for a patient with one visit.
    """
    n_visits = np.bincount(table.owner, minlength=len(table))
    counts = csr_array(table.visits_of_patients() @ table.visits)
    again = counts.copy()
    again.data = (again.data > 1).astype(np.float32)
    several = (n_visits > 1).astype(np.float32)
    codes = np.diff(counts.indptr).astype(np.float32)
    return again.sum(axis=1) * several, codes * several


def chronic_categories(table: CodeTable) -> CodeTable:
    """The same patients with their chronic three-character categories in place of codes.

    A category recognises a disease that a later visit names by another code: 250.00 and 250.60.
    """
    meaning = code_meaning(table.system)
    kept = [
        number
        for number, code in enumerate(table.codes)
        if meaning.is_code(code) and meaning.in_chronic_category(code)
    ]
    of = [meaning.category(table.codes[number]) for number in kept]
    categories = tuple(sorted(set(of)))
    column = [categories.index(category) for category in of]
    ones = np.ones(len(kept), dtype=np.float32)
    category_of = csr_array((ones, (kept, column)), shape=(len(table.codes), len(categories)))
    patients, visits = (
        csr_array(matrix @ category_of) for matrix in (table.patients, table.visits)
    )
    for matrix in (patients, visits):
        matrix.data[:] = 1.0
    return replace(table, codes=categories, patients=patients, visits=visits)
