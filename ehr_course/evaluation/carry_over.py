"""What comes back from visit to visit: chronic diseases are written down again and again.

Codes can be as frequent as in real patients, and codes of successive visits can go together as
often, while each patient is a stranger to their own past. These counts look at one patient at a
time: whether a code of a visit stood in an earlier visit of the same patient.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ehr_course.code_meaning import code_meaning
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable


def carried_over(table: CodeTable, *, gap: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Count the codes of a patient's visits that also stood in an earlier visit.

    The sum of the first array over that of the second is the carry-over of a cohort, 0 to 1:
    the share of the codes of its visits that stood ``gap`` visits before. What stood in the
    visits between the two does not matter.

    Args:
        table: the patients.
        gap: how many visits lie from the earlier visit to the later one; 1 is the visit before.

    Returns:
        two float32 arrays (patients,): how many codes were carried over, and how many codes
        there are in the visits that have a visit ``gap`` places before them.

    Raises:
        InputError: if gap is below 1.

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
        raise InputError("carry-over", "gap", f"{gap!r} is no distance", "Use 1 or more.")
    later = np.flatnonzero(table.owner[gap:] == table.owner[:-gap]) + gap
    common = table.visits[later].multiply(table.visits[later - gap]).sum(axis=1)
    codes = np.diff(table.visits.indptr)[later]
    carried, of = (
        np.bincount(table.owner[later], weights=each, minlength=len(table)).astype(np.float32)
        for each in (common, codes)
    )
    return carried, of


def recurrent(table: CodeTable) -> tuple[np.ndarray, np.ndarray]:
    """Count the different codes of each patient that stand in more than one visit.

    The sum of the first array over that of the second is the share of recurrent codes of a
    cohort, 0 to 1. Patients with a single visit are left out, as none of their codes can recur.

    Returns:
        two float32 arrays (patients,): how many codes recur, and how many different codes the
        patient has; both 0 for a patient with one visit.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> visits = Visit(("4280", "4019")), Visit(("486",)), Visit(("4280", "5990"))
    >>> (table,) = code_tables([PatientRecord(1, "F", 50, visits)])
    >>> recurrent(table)
    (array([1.], dtype=float32), array([4.], dtype=float32))
    """
    n_visits = np.bincount(table.owner, minlength=len(table))
    counts = csr_array(sum_over_visits(table) @ table.visits)
    again = counts.copy()
    again.data = (again.data > 1).astype(np.float32)
    several = (n_visits > 1).astype(np.float32)
    codes = np.diff(counts.indptr).astype(np.float32)
    return again.sum(axis=1) * several, codes * several


def chronic_categories(table: CodeTable) -> CodeTable:
    """The same patients with their chronic three-character categories in place of codes.

    A later visit may name the same disease by another code, such as 250.00 and 250.60 for
    diabetes; by its category it is recognised. Codes without a chronic category are left out,
    and so is all that is no code of their system.

    Returns:
        a table with a column for each chronic category, sorted; with no column where nobody has
        a chronic code. See icd9.in_chronic_category and its namesake of icd10 for which
        categories are chronic.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> visits = Visit(("25000", "486")), Visit(("25060", "4280"))
    >>> (table,) = code_tables([PatientRecord(1, "F", 50, visits)])
    >>> chronic_categories(table).codes
    ('250', '428')
    >>> chronic_categories(table).visits.toarray().astype(int).tolist()
    [[1, 0], [1, 1]]
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
    return CodeTable(
        categories, patients, visits, table.owner, table.ages, table.sexes, table.system
    )


def sum_over_visits(table: CodeTable) -> csr_array:
    """float32 (patients, visits): 1 where the visit is the patient's."""
    n = len(table.owner)
    ones = np.ones(n, dtype=np.float32)
    return csr_array((ones, (table.owner, np.arange(n))), shape=(len(table), n))
