"""Cohorts as matrices of codes, and what is counted in every patient.

Counted are pairs of codes, and codes that come back at a later visit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from ehr_course.batches.ragged import places
from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.evaluation.measure import check_patients, rows_at_random
from ehr_course.icd import code_meaning
from ehr_course.records import AnyRecord, system_of

MOST_CODES = 200
"""Only pairs of this many codes are counted one by one; the rest are counted together."""

_AT_ONCE = 2_000_000
"""About how many pairs are in memory at a time."""


@dataclass(frozen=True)
class CodeTable:
    """A cohort as two matrices of zeros and ones.

    Attributes:
        codes: the code of each column, sorted.
        patients: float32 (patients, codes): 1 where the patient has the code at any visit.
        visits: float32 (visits, codes): 1 where the visit has the code; the visits of a patient
            are together, in order of time.
        owner: int64 (visits,): the row of each visit's patient.
        ages: int64 (patients,): completed years at the first visit; None if any is unknown.
        sexes: str (patients,): "F" or "M"; None if any is unknown.
    """

    codes: tuple[str, ...]
    patients: csr_array
    visits: csr_array
    owner: np.ndarray
    ages: np.ndarray | None
    sexes: np.ndarray | None
    system: CodeSystem = "ICD9CM"

    def __len__(self) -> int:
        return self.patients.shape[0]

    def select(self, rows: np.ndarray) -> CodeTable:
        """The table of some patients, in the order of ``rows``, int64 (chosen,)."""
        first = np.searchsorted(self.owner, np.arange(len(self) + 1))
        n_visits = first[rows + 1] - first[rows]
        return replace(
            self,
            patients=self.patients[rows],
            visits=self.visits[places(first[rows], n_visits)],
            owner=np.repeat(np.arange(len(rows)), n_visits),
            ages=None if self.ages is None else self.ages[rows],
            sexes=None if self.sexes is None else self.sexes[rows],
        )

    def draw(self, n: int, rng: np.random.Generator) -> CodeTable:
        """n patients drawn without replacement, in their order; all of them if there are fewer."""
        return self if n >= len(self) else self.select(rows_at_random(n, len(self), rng))

    def visits_of_patients(self) -> csr_array:
        """float32 (patients, visits): 1 where the visit is the patient's."""
        n = len(self.owner)
        return _ones(self.owner, np.arange(n), (len(self), n))


def code_tables(
    *cohorts: Sequence[AnyRecord], codes_of: Sequence[Sequence[AnyRecord]] | None = None
) -> tuple[CodeTable, ...]:
    """The tables of cohorts that are to be compared, with the same columns for all of them.

    Args:
        codes_of: the cohorts whose codes get a column, by default all; other codes are left out.

    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = [PatientRecord(1, "F", 50, (Visit(("4280", "4019")), Visit(("4280",))))]
    >>> table, other = code_tables(one, [PatientRecord(2, "M", 60, (Visit(("486",)),))])
    >>> table.codes
    ('4019', '4280', '486')
    >>> table.visits.toarray().astype(int).tolist()
    [[1, 1, 0], [0, 1, 0]]
    >>> table.patients.toarray().astype(int).tolist(), other.patients.shape
    ([[1, 1, 0]], (1, 3))
    """
    check_patients("code_tables", {f"cohort {n}": cohort for n, cohort in enumerate(cohorts)})
    system = one_system({f"cohort {n}": system_of(cohort) for n, cohort in enumerate(cohorts)})
    kept = cohorts if codes_of is None else codes_of
    codes = sorted({code for cohort in kept for record in cohort for code in record.codes})
    column = {code: number for number, code in enumerate(codes)}
    return tuple(_table(cohort, column, system) for cohort in cohorts)


def one_system(systems: Mapping[str, CodeSystem]) -> CodeSystem:
    """The code system of all that are named; refuse to compare several."""
    first, expected = next(iter(systems.items()))
    for name, system in systems.items():
        if system != expected:
            raise InputError(
                name,
                "",
                f"it is coded in {SYSTEM_NAMES[system]}, and {first} in {SYSTEM_NAMES[expected]}: "
                "the same text means another disease there",
                "Compare cohorts of one system: translate one of them with "
                "ehr-course prepare --map.",
            )
    return expected


def _table(
    cohort: Sequence[AnyRecord], column: Mapping[str, int], system: CodeSystem
) -> CodeTable:
    visits = [visit for record in cohort for visit in record.visits]
    owner = np.repeat(np.arange(len(cohort)), [len(record.visits) for record in cohort])
    columns = np.array([column.get(c, -1) for visit in visits for c in visit.codes], np.int64)
    visit_of = np.repeat(np.arange(len(visits)), [len(visit.codes) for visit in visits])
    visit_of, columns = visit_of[columns >= 0], columns[columns >= 0]
    ages, sexes = [record.age for record in cohort], [record.sex for record in cohort]
    return CodeTable(
        tuple(column),
        _ones(owner[visit_of], columns, (len(cohort), len(column))),
        _ones(visit_of, columns, (len(visits), len(column))),
        owner,
        None if None in ages else np.array(ages),
        None if None in sexes else np.array(sexes),
        system,
    )


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    matrix = csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def unknown_in(tables: Mapping[str, CodeTable]) -> dict[str, str]:
    """Which of "age" and "sex" the named cohorts lack, with the reason in words."""
    found = {}
    for what, attribute in (("age", "ages"), ("sex", "sexes")):
        names = [name for name, table in tables.items() if getattr(table, attribute) is None]
        if names:
            cohorts = "cohort has" if len(names) == 1 else "cohorts have"
            found[what] = f"the {' and the '.join(names)} {cohorts} no {what}"
    return found


def frequent_columns(table: CodeTable, *, most: int = MOST_CODES) -> np.ndarray:
    """The columns of the codes that most visits have, rising: int64 (codes,)."""
    carriers = table.visits.sum(axis=0)
    order = np.argsort(-carriers, kind="stable")[:most]
    return np.sort(order[carriers[order] > 0])


def followed(table: CodeTable) -> np.ndarray:
    """The visits that are followed by another of the same patient: int64 (visits that are,)."""
    return np.flatnonzero(table.owner[1:] == table.owner[:-1])


# ------------------------------------------------------------------ pairs of codes


def pairs_in_visits(table: CodeTable, codes: np.ndarray) -> csr_array:
    """Count the unordered pairs of codes that one visit has, patient by patient.

    Args:
        codes: int64 (codes,), rising: each pair of these columns gets a column of its own.

    Returns:
        float32 (patients, pairs + 1): the visits with each pair, in the order 0 and 1, 0 and 2,
        ..., 1 and 2, ...; the last column counts every other pair.
    """
    n = len(codes)
    ends = np.repeat(table.visits.indptr[1:], np.diff(table.visits.indptr)).astype(np.int64)
    second = np.arange(1, len(ends) + 1)  # a code makes pairs with those of its visit behind it

    def column(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first * (2 * n - first - 1) // 2 + second - first - 1

    return _pairs(table, codes, second, ends - second, column, n * (n - 1) // 2)


def pairs_in_turn(table: CodeTable, codes: np.ndarray) -> csr_array:
    """Count the ordered pairs of a code in a visit and a code in the patient's next visit.

    Arguments and result are those of pairs_in_visits, with a column for every code before every
    code, itself included.
    """
    n = len(codes)
    starts, n_codes = table.visits.indptr.astype(np.int64), np.diff(table.visits.indptr)
    n_next = np.zeros_like(n_codes)
    visits = followed(table)
    n_next[visits] = n_codes[visits + 1]

    def column(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first * n + second

    return _pairs(
        table, codes, np.repeat(starts[1:], n_codes), np.repeat(n_next, n_codes), column, n * n
    )


def _pairs(
    table: CodeTable,
    codes: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    column_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    n_columns: int,
) -> csr_array:
    """Count pairs of each code of each visit with the ``lengths`` codes from ``starts`` on."""
    place = np.full(len(table.codes), -1, dtype=np.int64)
    place[codes] = np.arange(len(codes))
    code = place[table.visits.indices]  # of each code of each visit
    owner = np.repeat(table.owner, np.diff(table.visits.indptr))
    shape = (len(table), n_columns + 1)
    counts = csr_array(shape, dtype=np.float32)
    so_far = np.cumsum(lengths)
    last = 0
    while last < len(lengths):
        first = last
        before = so_far[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(so_far, before + _AT_ONCE, side="right")))
        n = lengths[first:last]
        one, other = np.repeat(code[first:last], n), code[places(starts[first:last], n)]
        own = (one >= 0) & (other >= 0)
        column = np.full(len(one), n_columns)
        column[own] = column_of(one[own], other[own])
        ones = np.ones(len(one), dtype=np.float32)
        part = csr_array((ones, (np.repeat(owner[first:last], n), column)), shape=shape)
        part.sum_duplicates()
        counts = counts + part
    return csr_array(counts)


# ------------------------------------------------------------------ what comes back


def carried_over(table: CodeTable, *, gap: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Count the codes of a patient's visits that the visit ``gap`` places before had too.

    The sum of the first array over that of the second is the carry-over of a cohort, 0 to 1.

    Returns:
        two float32 arrays (patients,): the codes carried over, and all codes of the visits that
        follow ``gap`` or more others.

    >>> from ehr_course.records import PatientRecord, Visit
    >>> visits = Visit(("4280", "4019")), Visit(("4280",)), Visit(("4019", "486"))
    >>> (table,) = code_tables([PatientRecord(1, "F", 50, visits)])
    >>> carried_over(table)
    (array([1.], dtype=float32), array([3.], dtype=float32))
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
    several = np.bincount(table.owner, minlength=len(table)) > 1
    counts = csr_array(table.visits_of_patients() @ table.visits)
    again, codes = ((counts > n).sum(axis=1, dtype=np.float32) for n in (1, 0))
    return again * several, codes * several


def chronic_categories(table: CodeTable) -> CodeTable:
    """The same patients with their chronic three-character categories in place of codes.

    A category recognises a disease that a later visit names by another code: 250.00 and 250.60.
    """
    meaning = code_meaning(table.system)
    category_of = {
        number: meaning.category(code)
        for number, code in enumerate(table.codes)
        if meaning.is_code(code) and meaning.in_chronic_category(code)
    }
    categories = tuple(sorted(set(category_of.values())))
    columns = np.array([categories.index(category) for category in category_of.values()], int)
    codes = np.array(list(category_of), int)
    in_category = _ones(codes, columns, (len(table.codes), len(categories)))
    patients, visits = (
        csr_array(matrix @ in_category) for matrix in (table.patients, table.visits)
    )
    for matrix in (patients, visits):
        matrix.data[:] = 1.0
    return replace(table, codes=categories, patients=patients, visits=visits)
