"""Records that stand in the training data, and rare codes that no longer stand anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.jackknife import GROUPS
from ehr_course.records import PatientRecord

Visits = tuple[tuple[str, ...], ...]


def visits_of(record: PatientRecord) -> Visits:
    """What a copy is compared by: the codes of each visit, sorted, visits in their order."""
    return tuple(tuple(sorted(visit.codes)) for visit in record.visits)


def copies_by_group(
    written: Sequence[PatientRecord], train: Sequence[PatientRecord], groups: np.ndarray
) -> np.ndarray:
    """In which groups of the training patients each written patient has a twin.

    A twin has exactly the same visits. The order of codes within a visit does not matter, that of
    the visits does; age, sex and times are not looked at.

    Args:
        written: the patients to judge.
        train: those that the model learned from.
        groups: int64 (train,), as ``random_groups`` makes them.

    Returns:
        bool (written, groups); any of a row says whether the patient is a copy.

    >>> from ehr_course.records import Visit
    >>> train = [PatientRecord(1, "F", 50, (Visit(("4280", "4019")),))]
    >>> written = [PatientRecord(0, "M", 70, (Visit(("4019", "4280")),))]
    >>> copies_by_group(written, train, np.array([2])).nonzero()
    (array([0]), array([2]))
    """
    known: dict[Visits, np.ndarray] = {}
    for record, group in zip(train, groups.tolist(), strict=True):
        known.setdefault(visits_of(record), np.zeros(GROUPS, dtype=bool))[group] = True
    nowhere = np.zeros(GROUPS, dtype=bool)
    return np.array([known.get(visits_of(record), nowhere) for record in written])


def rare_columns(table: CodeTable, *, most: int) -> np.ndarray:
    """The columns of codes that 1 to ``most`` patients of the cohort have, int64 (rare,)."""
    carriers = table.patients.sum(axis=0)
    return np.flatnonzero((carriers >= 1) & (carriers <= most))


def chance_of_absence(table: CodeTable, columns: np.ndarray, n_patients: int) -> np.ndarray:
    """How likely each code is to be absent from some patients of a cohort, drawn at random.

    Of N patients with c carriers, n drawn without replacement hold none with the probability
    C(N - c, n) / C(N, n). Cohorts of different sizes are compared at one size by it, without the
    luck of a single draw.

    Args:
        table: the cohort.
        columns: of the codes, int64 (codes,).
        n_patients: how many patients are drawn, at most the cohort's.

    Returns:
        float64 (codes,).

    Raises:
        InputError: if more patients are drawn than there are.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import Visit
    >>> cohort = [PatientRecord(i, "F", 50, (Visit((c,)),)) for i, c in enumerate(["486", "4019"])]
    >>> (table,) = code_tables(cohort)
    >>> chance_of_absence(table, np.array([0]), 1).round(6)
    array([0.5])
    """
    total = len(table)
    if not 0 <= n_patients <= total:
        raise InputError(
            "chance_of_absence",
            "n_patients",
            f"{n_patients!r} of {total} patients cannot be drawn",
            f"Use 0 to {total}.",
        )
    without = total - table.patients.sum(axis=0)[columns].astype(np.float64)

    def log_choose(n: np.ndarray | int) -> np.ndarray:
        # C(n, k) is 0 below k: there the argument is kept in range and the answer set below.
        n = np.maximum(n, n_patients)
        return gammaln(n + 1) - gammaln(n_patients + 1) - gammaln(n - n_patients + 1)

    chance = np.exp(log_choose(without) - log_choose(total))
    return np.where(without < n_patients, 0.0, np.minimum(chance, 1.0))
