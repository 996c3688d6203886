"""What fidelity counts in every patient, and the numbers that it makes of two counts.

Everything that two cohorts are compared by is a sum over patients: how many patients have each
code, how many visits have each pair, how many patients have each age. So a patient is a row of
numbers, and any choice of patients, a half or a bootstrap sample, is a weighted sum of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ehr_course.evaluation.carry_over import (
    carried_over,
    chronic_categories,
    recurrent,
    sum_over_visits,
)
from ehr_course.evaluation.code_pairs import followed, pairs_in_turn, pairs_in_visits
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.distances import js_divergence
from ehr_course.evaluation.measure import SHARE

MANY_VISITS = 4
"""A patient with so many visits or more has a history; how many do is counted."""

_GAPS = (
    (1, "", "the visit before", "a second visit"),
    (2, " across 2 visits", "the visit but one before", "a third visit"),
    (3, " across 3 visits", "the third visit before", "a fourth visit"),
)
"""How far carry-over looks back: visits, part of the name, in words, and what it needs."""


class Sums(NamedTuple):
    """The sums of some choices of patients.

    Attributes:
        counts: float32 (choices, things): how often each thing comes.
        of: float32 (choices,): of how many patients, visits or pairs of visits.
    """

    counts: np.ndarray
    of: np.ndarray

    def some(self, choices: slice) -> Sums:
        """The sums of some of the choices."""
        return Sums(self.counts[choices], self.of[choices])


NEEDED_BY = {"age": ("age JS divergence", "age difference"), "sex": ("sex difference",)}
"""The statistics that are left out where a cohort has no age, or no sex."""


@dataclass(frozen=True)
class Statistic:
    """One number for the sums of two sides.

    Attributes:
        name, unit, better, meaning: as in Measure. A number that is better "near" depends on
            the synthetic sums alone; its floor is the same number of real patients.
        function: takes the real Sums and the synthetic ones, and returns float (choices,).
        lowest, highest: what the number cannot pass.
    """

    name: str
    unit: str
    better: Literal["low", "high", "near"]
    meaning: str
    function: Callable[[Sums, Sums], np.ndarray]
    lowest: float = 0.0
    highest: float = math.inf

    def __call__(self, real: Sums, synthetic: Sums) -> np.ndarray:
        """The number for each choice: float64 (choices,), ``nan`` where it is not defined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.function(real, synthetic)


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

    matrices: tuple[csr_array, csr_array]
    of: tuple[np.ndarray, np.ndarray]
    statistics: tuple[Statistic, ...]
    name: str = ""
    needs: str = ""

    @property
    def fewest(self) -> int:
        """How many patients are counted, of the cohort that has fewer of them."""
        return min(int((of > 0).sum()) for of in self.of)

    def sums(self, *weights: np.ndarray) -> tuple[Sums, Sums]:
        """Weighted sums over the patients of each cohort.

        Args:
            weights: for each cohort float32 (patients, choices).
        """
        return tuple(
            Sums((matrix.T.tocsr() @ weight).T, of @ weight)
            for matrix, of, weight in zip(self.matrices, self.of, weights, strict=True)
        )


def everything_counted(real: CodeTable, synthetic: CodeTable) -> Iterator[Counted]:
    """Each kind of thing in turn, with what is made of it; one at a time, to save memory.

    Ages and sexes are left out where a cohort has none; see NEEDED_BY.
    """
    tables = (real, synthetic)
    patients = tuple(np.ones(len(table), dtype=np.float32) for table in tables)
    visits_of = tuple(sum_over_visits(table) for table in tables)
    n_visits = tuple(
        of_patient @ np.ones(of_patient.shape[1], dtype=np.float32) for of_patient in visits_of
    )
    yield Counted(
        tuple(table.patients for table in tables),
        patients,
        (
            *_prevalence("patient prevalence", "the share of patients who have a code", "code"),
            Statistic(
                "distinct codes",
                "codes",
                "near",
                "How many different codes that many synthetic patients have; the floor is how "
                "many as many real patients have.",
                lambda real, synthetic: (synthetic.counts > 0).sum(axis=1).astype(float),
            ),
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
            *_prevalence("visit prevalence", "the share of visits that have a code", "code"),
            *_distances("code distribution", "codes, each by its share of all codes written"),
        ),
    )
    yield from _first_and_later(tables, at_visits, n_visits)
    yield Counted(
        pairs_in_visits(*tables),
        n_visits,
        (
            *_prevalence(
                "code pairs", "the share of visits that have both codes", "pair", pooled=True
            ),
            *_distances("code pairs", "pairs of codes in one visit"),
        ),
    )
    yield Counted(
        pairs_in_turn(*tables),
        tuple(
            np.bincount(table.owner[followed(table)], minlength=len(table)).astype(np.float32)
            for table in tables
        ),
        (
            *_prevalence(
                "sequential pairs",
                "the share of visits with a next one where the visit has one code and the next "
                "visit the other",
                "pair",
                pooled=True,
            ),
            *_distances("sequential pairs", "pairs of a code and a code of the next visit"),
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
    yield Counted(
        tuple(csr_array((table.sexes == "F")[:, None].astype(np.float32)) for table in tables),
        patients,
        (
            Statistic(
                "sex difference",
                SHARE,
                "low",
                "How far apart the shares of women are, whichever is larger.",
                lambda real, synthetic: np.abs(_share(real) - _share(synthetic))[:, 0],
                highest=1,
            ),
        ),
    )


def _first_and_later(
    tables: tuple[CodeTable, ...],
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
        _prevalence("first visit prevalence", "the share of first visits with a code", "code")[:1],
    )
    yield Counted(
        tuple(csr_array(all_of - first) for all_of, first in zip(at_visits, firsts, strict=True)),
        tuple(n - 1 for n in n_visits),
        _prevalence(
            "later visit prevalence",
            "the share of visits after a patient's first one with a code",
            "code",
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


# ---------------------------------------------------------------------- what is made of sums


def _share(sums: Sums) -> np.ndarray:
    return sums.counts.astype(np.float64) / sums.of.astype(np.float64)[:, None]


def _prevalence(
    name: str, share: str, thing: str, *, pooled: bool = False
) -> tuple[Statistic, ...]:
    """How equal shares are, thing by thing; where rare things are pooled, without the pool."""
    last = -1 if pooled else None

    def errors(real: Sums, synthetic: Sums) -> tuple[np.ndarray, np.ndarray]:
        of_real = _share(real)[:, :last]
        return of_real, _share(synthetic)[:, :last] - of_real

    def r2(real: Sums, synthetic: Sums) -> np.ndarray:
        of_real, error = errors(real, synthetic)
        if not error.shape[1]:
            return np.full(len(error), np.nan)
        spread = ((of_real - of_real.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return np.where(spread > 0, 1 - (error**2).sum(axis=1) / spread, np.nan)

    def rmse(real: Sums, synthetic: Sums) -> np.ndarray:
        _, error = errors(real, synthetic)
        if not error.shape[1]:
            return np.full(len(error), np.nan)
        return np.sqrt((error**2).mean(axis=1))

    return (
        Statistic(
            f"{name} R2",
            "",
            "high",
            f"How well {share} agrees, {thing} by {thing}: 1 on the line synthetic = real, 0 "
            f"where one prevalence for every {thing} would do as well.",
            r2,
            lowest=-math.inf,
            highest=1,
        ),
        Statistic(
            f"{name} RMSE",
            SHARE,
            "low",
            f"How far off {share} is: the root of the mean square over every {thing}.",
            rmse,
            highest=1,
        ),
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
        lambda real, synthetic: _share(synthetic)[:, 0],
        highest=1,
    )
    return Counted(matrices, tuple(of for _, of in parts), (statistic,), name=name, needs=needs)


def _distances(name: str, things: str) -> tuple[Statistic, ...]:
    def divergence(real: Sums, synthetic: Sums) -> np.ndarray:
        return js_divergence(real.counts, synthetic.counts)

    return (
        Statistic(
            f"{name} JS divergence",
            "bits",
            "low",
            f"The Jensen-Shannon divergence, base 2, of the distributions of {things}: 0 bits "
            "where they are equal, 1 bit where nothing is in both.",
            divergence,
            highest=1,
        ),
        Statistic(
            f"{name} JS distance",
            "sqrt(bits)",
            "low",
            "The Jensen-Shannon distance, base 2: the square root of the divergence, also from "
            "0 to 1 and larger in between.",
            lambda real, synthetic: np.sqrt(divergence(real, synthetic)),
            highest=1,
        ),
    )


def _numbers(
    name: str,
    unit: str,
    things: str,
    numbers: tuple[np.ndarray, np.ndarray],
    owners: tuple[np.ndarray, np.ndarray] | None = None,
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

    def difference(real: Sums, synthetic: Sums) -> np.ndarray:
        return np.abs((_share(real) - _share(synthetic)) @ values)

    return Counted(
        tuple(matrices),
        tuple(matrix.sum(axis=1) for matrix in matrices),
        (
            _distances(name, things)[0],
            Statistic(
                f"{name} difference",
                unit,
                "low",
                f"How far apart the means of {things} are, whichever is larger.",
                difference,
            ),
        ),
    )
