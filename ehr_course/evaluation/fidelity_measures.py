"""What fidelity counts in every patient, and the measures that it makes of the totals.

Whatever is compared is a sum over patients. What only synthetic patients have, such as other codes
or higher ages, counts together as one more thing, so that it cannot change a number of real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from ehr_course.evaluation.code_table import (
    CodeTable,
    carried_over,
    chronic_categories,
    followed,
    frequent_columns,
    pairs_in_turn,
    pairs_in_visits,
    recurrent,
)
from ehr_course.evaluation.distances import js_divergence
from ehr_course.evaluation.measure import SHARE, Measure

MANY_VISITS = 4
"""From this many visits on, a patient counts as one with a history."""

MOST_PAIRED = 150
"""Only pairs of this many codes are compared one by one."""

_GAPS = (
    (1, "", "the visit before", "a second visit"),
    (2, " across 2 visits", "the visit but one before", "a third visit"),
    (3, " across 3 visits", "the third visit before", "a fourth visit"),
)
"""How far carry-over looks back: visits, part of the name, in words, and what it needs."""

NEEDED_BY = {"age": ("age JS divergence", "age difference"), "sex": ("sex difference",)}
"""The measures that are left out where a cohort has no age, or no sex."""

DISTINCT, UNSEEN = "distinct codes", "unseen codes"

LIMITS = {SHARE: (0, 1), "bits": (0, 1), "sqrt(bits)": (0, 1), "": (-math.inf, 1)}
"""What a measure of a unit cannot pass; R2 has none. Other units start at 0 and have no end."""


class Totals(NamedTuple):
    """Weighted sums over patients, one row for each choice of patients.

    Attributes:
        counts: float32 (choices, things): how often each thing comes.
        of: float32 (choices,): of how many patients, visits or pairs of visits.
    """

    counts: np.ndarray
    of: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Each count by what it is counted of: float64 (choices, things)."""
        return self.counts.astype(np.float64) / self.of.astype(np.float64)[:, None]


Function = Callable[[Totals, Totals], np.ndarray]
"""From the totals of real patients and of others, a number for each choice. Where the better value
is "near", it looks at the second totals alone.
"""

Measured = tuple[Measure, Function]
"""A measure without a value yet, and the function that gives it one."""


def for_each_choice(function: Function, real: Totals, other: Totals) -> np.ndarray:
    """The numbers of all choices: float64 (choices,), ``nan`` where one is not defined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return function(real, other)


@dataclass(frozen=True)
class Counts:
    """One kind of thing, counted in every patient of some cohorts.

    Attributes:
        matrices: of each cohort, float32 (patients, things).
        of: of each cohort, float32 (patients,): what counts are divided by to make shares.
        needs: what a patient needs to be counted; "" where every patient is.
    """

    matrices: tuple[csr_array, ...]
    of: tuple[np.ndarray, ...]
    measures: tuple[Measured, ...]
    name: str = ""
    needs: str = ""

    @property
    def n_patients(self) -> tuple[int, ...]:
        """How many patients of each cohort are counted."""
        return tuple(int((of > 0).sum()) for of in self.of)

    def totals(self, cohort: int, weights: np.ndarray) -> Totals:
        """The totals of one cohort for weights of its patients, float32 (patients, choices)."""
        counts = self.matrices[cohort].T.tocsr() @ weights
        return Totals(np.ascontiguousarray(counts.T), self.of[cohort] @ weights)


# ------------------------------------------------------------------ what is counted


def everything_counted(*tables: CodeTable) -> Iterator[Counts]:
    """Each kind of thing with its measures, one at a time to save memory.

    What is compared one by one depends on the first table alone. Ages and sexes are left out where
    a cohort has none.
    """
    known = tables[0].patients.sum(axis=0) > 0
    patients = tuple(np.ones(len(table), dtype=np.float32) for table in tables)
    visits_of = [table.visits_of_patients() for table in tables]
    n_visits = tuple(each @ np.ones(each.shape[1], dtype=np.float32) for each in visits_of)

    def by_code(function: Callable[..., np.ndarray]) -> Function:
        return partial(function, known=known)

    of_what = "the share of patients who have a code"
    distinct = Measure(
        DISTINCT,
        unit="codes",
        better="near",
        meaning="How many different codes that many synthetic patients have; the floor is how "
        "many as many real patients have.",
    )
    yield Counts(
        tuple(table.patients for table in tables),
        patients,
        (*_prevalence("patient prevalence", of_what, "code", by_code), (distinct, _distinct)),
    )
    at_visits = tuple(
        csr_array(each @ table.visits) for each, table in zip(visits_of, tables, strict=True)
    )
    of_what = "the share of visits that have a code"
    of_codes = "codes, each by its share of all codes written"
    unseen = Measure(
        UNSEEN,
        unit=SHARE,
        meaning="The share of the codes written that none of as many real patients has; the "
        "floor is that share among the codes of other real patients.",
    )
    yield Counts(
        at_visits,
        n_visits,
        (
            *_prevalence("visit prevalence", of_what, "code", by_code),
            *_distances("code distribution", of_codes, by_code),
            (unseen, _unseen),
        ),
    )
    firsts = tuple(
        table.visits[np.searchsorted(table.owner, np.arange(len(table)))] for table in tables
    )
    of_what = "the share of first visits with a code"
    r2, _ = _prevalence("first visit prevalence", of_what, "code", by_code)
    yield Counts(firsts, patients, (r2,))
    name, needs = "later visit prevalence", "a second visit"
    of_what = "the share of visits after a patient's first one with a code"
    r2, _ = _prevalence(name, of_what, "code", by_code)
    yield Counts(
        tuple(csr_array(all_of - first) for all_of, first in zip(at_visits, firsts, strict=True)),
        tuple(n - 1 for n in n_visits),
        (r2,),
        name,
        needs,
    )
    frequent = frequent_columns(tables[0])
    visits_with = [each[:, frequent] for each in at_visits]

    def with_codes(count: Callable[[CodeTable, np.ndarray], csr_array]) -> tuple[csr_array, ...]:
        """The counts of pairs, and beside them those of the codes that they are made of."""
        both = [
            (count(table, frequent), of) for table, of in zip(tables, visits_with, strict=True)
        ]
        return tuple(hstack(each, format="csr") for each in both)

    of_what, things = "the share of visits that have both codes", "pairs of codes in one visit"
    both = np.triu_indices(len(frequent), k=1)
    yield Counts(
        with_codes(pairs_in_visits), n_visits, _of_pairs("code pairs", of_what, things, both)
    )
    name, needs = "sequential pairs", "a second visit"
    of_what = (
        "the share of visits with a next one where the visit has one code and the next visit the "
        "other"
    )
    things = "pairs of a code and a code of the next visit"
    in_turn = tuple(np.indices((len(frequent), len(frequent))).reshape(2, -1))
    n_followed = tuple(
        np.bincount(table.owner[followed(table)], minlength=len(table)).astype(np.float32)
        for table in tables
    )
    measures = _of_pairs(name, of_what, things, in_turn)
    yield Counts(with_codes(pairs_in_turn), n_followed, measures, name, needs)
    yield from _coming_back(tables)
    yield _numbers("visits per patient", "visits", "visits a patient has", n_visits)
    yield _one_share(
        f"patients with {MANY_VISITS} visits or more",
        f"The share of patients who have {MANY_VISITS} visits or more.",
        [((n >= MANY_VISITS).astype(np.float32), np.ones_like(n)) for n in n_visits],
    )
    codes_per_visit = [np.diff(table.visits.indptr) for table in tables]
    owners = [table.owner for table in tables]
    yield _numbers("codes per visit", "codes", "codes a visit has", codes_per_visit, owners)
    ages = [table.ages for table in tables if table.ages is not None]
    if len(ages) == len(tables):
        yield _numbers("age", "years", "ages at the first visit, in whole years", ages)
    sexes = [table.sexes for table in tables if table.sexes is not None]
    if len(sexes) == len(tables):
        difference = Measure(
            "sex difference",
            unit=SHARE,
            meaning="How far apart the shares of women are, whichever is larger.",
        )
        yield Counts(
            tuple(csr_array((of == "F")[:, None].astype(np.float32)) for of in sexes),
            patients,
            ((difference, lambda real, other: np.abs(real.shares - other.shares)[:, 0]),),
        )


def _coming_back(tables: tuple[CodeTable, ...]) -> Iterator[Counts]:
    """Which codes, and which chronic categories, an earlier visit had too."""
    chronic = tuple(chronic_categories(table) for table in tables)
    of_three = " Categories are those of three digits that hold chronic codes alone."
    for things, cohorts, also, needed in (
        ("codes", tables, "", ""),
        ("chronic categories", chronic, of_three, "a chronic code at "),
    ):
        for gap, how, where, needs in _GAPS:
            yield _one_share(
                f"carry-over of {things}{how}",
                f"The share of a visit's {things} that stood in {where} of the same patient."
                + also,
                [carried_over(cohort, gap=gap) for cohort in cohorts],
                needed + needs,
            )
    yield _one_share(
        "recurrent codes",
        "The share of a patient's different codes that stand in more than one visit, among "
        "patients with two visits or more.",
        [recurrent(table) for table in tables],
        "a second visit",
    )


def _one_share(
    name: str, meaning: str, parts: list[tuple[np.ndarray, np.ndarray]], needs: str = ""
) -> Counts:
    """A share of each cohort by itself: of each cohort what is counted, and of how many."""
    matrices = tuple(csr_array(found[:, None]) for found, _ in parts)
    meaning = f"{meaning} The floor is that of real patients."
    measure = Measure(name, unit=SHARE, better="near", meaning=meaning)
    measured = (measure, lambda real, other: other.shares[:, 0])
    return Counts(matrices, tuple(of for _, of in parts), (measured,), name, needs)


def _numbers(
    name: str,
    unit: str,
    things: str,
    numbers: Sequence[np.ndarray],
    owners: Sequence[np.ndarray] | None = None,
) -> Counts:
    """Numbers of patients, or of things that belong to patients: distribution and mean.

    Of each cohort ``numbers`` are (things,) and ``owners`` int64 (things,), the patients' rows; by
    default each patient has one thing.
    """
    ends = np.cumsum([len(each) for each in numbers])
    values, column = np.unique(np.concatenate(numbers).astype(np.int64), return_inverse=True)
    matrices = []
    for part, each in enumerate(np.split(column, ends[:-1])):
        owner = np.arange(len(each)) if owners is None else owners[part]
        shape = (int(owner[-1]) + 1, len(values))
        ones = np.ones(len(each), dtype=np.float32)
        matrices.append(csr_array((ones, (owner, each)), shape=shape))
    known = np.isin(values, numbers[0])

    def difference(real: Totals, other: Totals) -> np.ndarray:
        # Sums of whole numbers are exact: values that nobody has change nothing.
        of_real, of_other = (
            each.counts.astype(np.float64) @ values / each.of for each in (real, other)
        )
        return np.abs(of_real - of_other)

    measure = Measure(
        f"{name} difference",
        unit=unit,
        meaning=f"How far apart the means of {things} are, whichever is larger.",
    )
    divergence, _ = _distances(name, things, lambda function: partial(function, known=known))
    return Counts(
        tuple(matrices),
        tuple(matrix.sum(axis=1) for matrix in matrices),
        (divergence, (measure, difference)),
    )


# ------------------------------------------------------------------ what is made of it


Among = Callable[[Callable[..., np.ndarray]], Function]
"""Says which things a function of ``known`` things compares one by one."""


def _prevalence(name: str, of_what: str, thing: str, among: Among) -> tuple[Measured, ...]:
    """How equal the shares of each thing (a "code" or a "pair") are: R2 and RMSE."""
    r2 = Measure(
        f"{name} R2",
        better="high",
        meaning=f"How well {of_what} agrees, {thing} by {thing}: 1 on the line synthetic = real, "
        f"0 where one prevalence for every {thing} would do as well.",
    )
    rmse = Measure(
        f"{name} RMSE",
        unit=SHARE,
        meaning=f"How far off {of_what} is: the root of the mean square over every {thing}.",
    )
    return (r2, among(_r2)), (rmse, among(_rmse))


def _distances(name: str, things: str, among: Among) -> tuple[Measured, ...]:
    """How far apart two distributions are: the Jensen-Shannon divergence and distance."""
    divergence = Measure(
        f"{name} JS divergence",
        unit="bits",
        meaning=f"The Jensen-Shannon divergence, base 2, of the distributions of {things}: 0 bits "
        "where they are equal, 1 bit where nothing is in both.",
    )
    distance = Measure(
        f"{name} JS distance",
        unit="sqrt(bits)",
        meaning="The Jensen-Shannon distance, base 2: the square root of the divergence, also "
        "from 0 to 1 and larger in between.",
    )
    return (divergence, among(_divergence)), (distance, among(_distance))


def _of_pairs(
    name: str, of_what: str, things: str, codes: tuple[np.ndarray, ...]
) -> tuple[Measured, ...]:
    """How equal shares of pairs are, and how far apart the distributions of pairs.

    Pairs of the 150 codes most frequent in the real patients of a choice are compared one by one,
    all others together. Codes chosen by all real patients would favour these patients' luck, and
    put a fresh cohort off its floor.

    Args:
        codes: int64 (pairs,) and (pairs,): the first and the second code of each pair. The totals
            have a column for each pair, one for all other pairs, and then one for the visits with
            each code.
    """
    first, second = codes
    n = len(first) + 1

    def among_frequent(function: Callable[..., np.ndarray]) -> Function:
        def one_choice_at_a_time(real: Totals, other: Totals) -> np.ndarray:
            found = []
            for choice in range(len(real.of)):
                visits_with = real.counts[choice, n:]
                chosen = np.zeros(len(visits_with), dtype=bool)
                chosen[np.argsort(-visits_with, kind="stable")[:MOST_PAIRED]] = True
                known = np.append(chosen[first] & chosen[second], False)
                one = slice(choice, choice + 1)
                pairs = (Totals(each.counts[one, :n], each.of[one]) for each in (real, other))
                found.append(function(*pairs, known=known))
            return np.concatenate(found)

        return one_choice_at_a_time

    return (
        *_prevalence(name, of_what, "pair", among_frequent),
        *_distances(name, things, among_frequent),
    )


def _errors(real: Totals, other: Totals, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The real shares of known things, and how far off the others are."""
    of_real, of_other = (Totals(each.counts[:, known], each.of).shares for each in (real, other))
    return of_real, of_other - of_real


def _r2(real: Totals, other: Totals, known: np.ndarray) -> np.ndarray:
    of_real, error = _errors(real, other, known)
    mean = of_real.sum(axis=1, keepdims=True) / known.sum()
    spread = ((of_real - mean) ** 2).sum(axis=1)
    return np.where(spread > 0, 1 - (error**2).sum(axis=1) / spread, np.nan)


def _rmse(real: Totals, other: Totals, known: np.ndarray) -> np.ndarray:
    _, error = _errors(real, other, known)
    return np.sqrt((error**2).sum(axis=1) / known.sum())


def _divergence(real: Totals, other: Totals, known: np.ndarray) -> np.ndarray:
    pooled = []
    for totals in (real, other):
        own = totals.counts[:, known].astype(np.float64)
        # Whole numbers: their sums are exact.
        rest = totals.counts.sum(axis=1, dtype=np.float64) - own.sum(axis=1)
        pooled.append(np.concatenate([own, rest[:, None]], axis=1))
    return np.asarray(js_divergence(*pooled))


def _distance(real: Totals, other: Totals, known: np.ndarray) -> np.ndarray:
    return np.sqrt(_divergence(real, other, known))


def _distinct(real: Totals, other: Totals) -> np.ndarray:
    return (other.counts > 0).sum(axis=1).astype(float)


def _unseen(real: Totals, other: Totals) -> np.ndarray:
    new = (other.counts * (real.counts == 0)).sum(axis=1, dtype=np.float64)
    return new / other.counts.sum(axis=1, dtype=np.float64)
