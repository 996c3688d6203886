"""What fidelity counts in every patient, and the numbers that it makes of two counts.

Everything that two cohorts are compared by is a sum over patients: how many patients have each
code, how many visits have each pair, how many patients have each age. So a patient is a row of
numbers, and any choice of patients, a half or a bootstrap sample, is a weighted sum of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack

from ehr_course.evaluation.carry_over import (
    carried_over,
    chronic_categories,
    recurrent,
    sum_over_visits,
)
from ehr_course.evaluation.code_pairs import (
    followed,
    frequent_columns,
    pairs_in_turn,
    pairs_in_visits,
)
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.measure import SHARE
from ehr_course.evaluation.sums import (
    DISTINCT,
    UNSEEN,
    Statistic,
    Sums,
    difference,
    distances,
    of_pairs,
    prevalence,
    share,
)

MANY_VISITS = 4
"""A patient with so many visits or more has a history; how many do is counted."""

_GAPS = (
    (1, "", "the visit before", "a second visit"),
    (2, " across 2 visits", "the visit but one before", "a third visit"),
    (3, " across 3 visits", "the third visit before", "a fourth visit"),
)
"""How far carry-over looks back: visits, part of the name, in words, and what it needs."""


NEEDED_BY = {"age": ("age JS divergence", "age difference"), "sex": ("sex difference",)}
"""The statistics that are left out where a cohort has no age, or no sex."""


@dataclass(frozen=True)
class Counted:
    """One kind of thing, counted in every patient of two cohorts.

    Attributes:
        matrices: of each cohort, float32 (patients, things).
        of: of each cohort, float32 (patients,): what counts are divided by to make shares.
        statistics: what is made of the sums.
        name: what is counted, in the words of the report.
        needs: what a patient needs to be counted; "" where every patient is.
    """

    matrices: tuple[csr_array, ...]
    of: tuple[np.ndarray, ...]
    statistics: tuple[Statistic, ...]
    name: str = ""
    needs: str = ""

    @property
    def counted(self) -> tuple[int, ...]:
        """How many patients are counted, of each cohort."""
        return tuple(int((of > 0).sum()) for of in self.of)

    def sums(self, *weights: np.ndarray) -> tuple[Sums, ...]:
        """Weighted sums over the patients of each cohort.

        Args:
            weights: for each cohort float32 (patients, choices).
        """
        return tuple(
            Sums(np.ascontiguousarray((matrix.T.tocsr() @ weight).T), of @ weight)
            for matrix, of, weight in zip(self.matrices, self.of, weights, strict=True)
        )


def everything_counted(real: CodeTable, synthetic: CodeTable) -> Iterator[Counted]:
    """Each kind of thing in turn, with what is made of it; one at a time, to save memory.

    What is compared one by one depends on the real patients alone: their codes, and the pairs of
    their most frequent ones. Ages and sexes are left out where a cohort has none; see NEEDED_BY.
    """
    tables = (real, synthetic)
    known = real.patients.sum(axis=0) > 0
    patients = tuple(np.ones(len(table), dtype=np.float32) for table in tables)
    visits_of = tuple(sum_over_visits(table) for table in tables)
    n_visits = tuple(
        of_patient @ np.ones(of_patient.shape[1], dtype=np.float32) for of_patient in visits_of
    )
    yield Counted(
        tuple(table.patients for table in tables),
        patients,
        (
            *prevalence(
                "patient prevalence", "the share of patients who have a code", "code", known
            ),
            DISTINCT,
        ),
    )
    at_visits = tuple(
        csr_array(of_patient @ table.visits)
        for of_patient, table in zip(visits_of, tables, strict=True)
    )
    yield Counted(
        at_visits,
        n_visits,
        (
            *prevalence("visit prevalence", "the share of visits that have a code", "code", known),
            *distances(
                "code distribution", "codes, each by its share of all codes written", known
            ),
            UNSEEN,
        ),
    )
    yield from _first_and_later(tables, known, at_visits, n_visits)
    frequent = frequent_columns(real)
    visits_with = tuple(each[:, frequent] for each in at_visits)
    yield Counted(
        _with_codes(pairs_in_visits(*tables, codes=frequent), visits_with),
        n_visits,
        of_pairs(
            "code pairs",
            "the share of visits that have both codes",
            "pairs of codes in one visit",
            np.triu_indices(len(frequent), k=1),
            len(frequent),
        ),
    )
    yield Counted(
        _with_codes(pairs_in_turn(*tables, codes=frequent), visits_with),
        tuple(
            np.bincount(table.owner[followed(table)], minlength=len(table)).astype(np.float32)
            for table in tables
        ),
        of_pairs(
            "sequential pairs",
            "the share of visits with a next one where the visit has one code and the next visit "
            "the other",
            "pairs of a code and a code of the next visit",
            _places(len(frequent)),
            len(frequent),
        ),
        name="sequential pairs",
        needs="a second visit",
    )
    yield from _coming_back(tables)
    yield _numbers("visits per patient", "visits", "visits a patient has", n_visits)
    yield _one_share(
        f"patients with {MANY_VISITS} visits or more",
        f"The share of patients who have {MANY_VISITS} visits or more.",
        tuple(((n >= MANY_VISITS).astype(np.float32), np.ones_like(n)) for n in n_visits),
    )
    codes_per_visit = tuple(np.diff(table.visits.indptr) for table in tables)
    owners = tuple(table.owner for table in tables)
    yield _numbers("codes per visit", "codes", "codes a visit has", codes_per_visit, owners)
    if real.ages is not None and synthetic.ages is not None:
        ages = (real.ages, synthetic.ages)
        yield _numbers("age", "years", "ages at the first visit, in whole years", ages)
    if real.sexes is None or synthetic.sexes is None:
        return
    sexes = (real.sexes, synthetic.sexes)
    yield Counted(
        tuple(csr_array((of == "F")[:, None].astype(np.float32)) for of in sexes),
        patients,
        (
            Statistic(
                "sex difference",
                SHARE,
                "low",
                "How far apart the shares of women are, whichever is larger.",
                lambda real, synthetic: np.abs(share(real) - share(synthetic))[:, 0],
                highest=1,
            ),
        ),
    )


def _places(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each place of a square table, one row after the other."""
    rows, columns = np.indices((side, side)).reshape(2, -1)
    return rows, columns


def _with_codes(
    pairs: tuple[csr_array, ...], codes: tuple[csr_array, ...]
) -> tuple[csr_array, ...]:
    """The counts of pairs, and beside them those of the codes that they are made of."""
    return tuple(hstack(both, format="csr") for both in zip(pairs, codes, strict=True))


def _first_and_later(
    tables: tuple[CodeTable, ...],
    known: np.ndarray,
    at_visits: tuple[csr_array, ...],
    n_visits: tuple[np.ndarray, ...],
) -> Iterator[Counted]:
    """Prevalence among the first visits of patients, and among all visits after them."""
    firsts = tuple(
        table.visits[np.searchsorted(table.owner, np.arange(len(table)))] for table in tables
    )
    yield Counted(
        firsts,
        tuple(np.ones_like(n) for n in n_visits),
        prevalence(
            "first visit prevalence", "the share of first visits with a code", "code", known
        )[:1],
    )
    yield Counted(
        tuple(csr_array(all_of - first) for all_of, first in zip(at_visits, firsts, strict=True)),
        tuple(n - 1 for n in n_visits),
        prevalence(
            "later visit prevalence",
            "the share of visits after a patient's first one with a code",
            "code",
            known,
        )[:1],
        name="later visit prevalence",
        needs="a second visit",
    )


def _coming_back(tables: tuple[CodeTable, ...]) -> Iterator[Counted]:
    """Which codes, and which chronic categories, were there at an earlier visit."""
    chronic = tuple(chronic_categories(table) for table in tables)
    for things, cohorts in (("codes", tables), ("chronic categories", chronic)):
        for gap, how, where, needs in _GAPS:
            yield _one_share(
                f"carry-over of {things}{how}",
                f"The share of a visit's {things} that stood in {where} of the same patient."
                + (
                    " Categories are those of three digits that hold chronic codes alone."
                    if cohorts is chronic
                    else ""
                ),
                tuple(carried_over(cohort, gap=gap) for cohort in cohorts),
                needs=f"a chronic code at {needs}" if cohorts is chronic else needs,
            )
    yield _one_share(
        "recurrent codes",
        "The share of a patient's different codes that stand in more than one visit, among "
        "patients with two visits or more.",
        tuple(recurrent(table) for table in tables),
        needs="a second visit",
    )


def _one_share(
    name: str,
    meaning: str,
    parts: tuple[tuple[np.ndarray, np.ndarray], ...],
    needs: str = "",
) -> Counted:
    """A share of each cohort by itself: of each cohort what is counted, and of how many."""
    matrices = tuple(csr_array(found[:, None]) for found, _ in parts)
    statistic = Statistic(
        name,
        SHARE,
        "near",
        f"{meaning} The floor is that of real patients.",
        lambda real, synthetic: share(synthetic)[:, 0],
        highest=1,
    )
    return Counted(matrices, tuple(of for _, of in parts), (statistic,), name=name, needs=needs)


def _numbers(
    name: str,
    unit: str,
    things: str,
    numbers: tuple[np.ndarray, ...],
    owners: tuple[np.ndarray, ...] | None = None,
) -> Counted:
    """Numbers that patients have, or that things of patients have: distribution and mean."""
    sizes = [len(each) for each in numbers]
    values, column = np.unique(np.concatenate(numbers).astype(np.int64), return_inverse=True)
    matrices = []
    for part, each in enumerate(np.split(column, sizes[:1])):
        owner = np.arange(len(each)) if owners is None else owners[part]
        shape = (int(owner[-1]) + 1, len(values))
        ones = np.ones(len(each), dtype=np.float32)
        matrices.append(csr_array((ones, (owner, each)), shape=shape))

    known = np.isin(values, numbers[0])
    return Counted(
        tuple(matrices),
        tuple(matrix.sum(axis=1) for matrix in matrices),
        (distances(name, things, known)[0], difference(name, unit, things, values)),
    )
