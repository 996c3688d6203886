"""Cohorts as matrices: which patient, and which visit, has which code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.evaluation.measure import check_patients
from ehr_course.records import AnyRecord, system_of


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
        counts = first[rows + 1] - first[rows]
        owner = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return CodeTable(
            self.codes,
            self.patients[rows],
            self.visits[first[rows][owner] + within],
            owner,
            None if self.ages is None else self.ages[rows],
            None if self.sexes is None else self.sexes[rows],
            self.system,
        )

    def draw(self, n: int, rng: np.random.Generator) -> CodeTable:
        """n patients drawn without replacement, in their order; all of them if there are fewer."""
        return self if n >= len(self) else self.select(np.sort(rng.permutation(len(self))[:n]))

    def visits_of_patients(self) -> csr_array:
        """float32 (patients, visits): 1 where the visit is the patient's."""
        n = len(self.owner)
        ones = np.ones(n, dtype=np.float32)
        return csr_array((ones, (self.owner, np.arange(n))), shape=(len(self), n))


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
    systems = [system_of(cohort) for cohort in cohorts]
    for number, system in enumerate(systems):
        if system != systems[0]:
            raise InputError(
                f"cohort {number}",
                "",
                f"it is coded in {SYSTEM_NAMES[system]}, and cohort 0 in "
                f"{SYSTEM_NAMES[systems[0]]}: the same text means another disease there",
                "Compare cohorts of one system: translate one of them with "
                "ehr-course prepare --map.",
            )
    kept = cohorts if codes_of is None else codes_of
    codes = sorted({code for cohort in kept for record in cohort for code in record.codes})
    column = {code: number for number, code in enumerate(codes)}
    return tuple(_table(cohort, column, systems[0]) for cohort in cohorts)


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
