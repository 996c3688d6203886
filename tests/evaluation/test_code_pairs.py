"""Pairs of codes in a visit and in visits that follow each other, against slow loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from ehr_course.evaluation import code_table
from ehr_course.evaluation.code_table import (
    code_tables,
    followed,
    frequent_columns,
    pairs_in_turn,
    pairs_in_visits,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort


def in_visits(record: PatientRecord) -> Iterator[tuple[str, str]]:
    for visit in record.visits:
        yield from combinations(sorted(visit.codes), 2)


def in_turn(record: PatientRecord) -> Iterator[tuple[str, str]]:
    for visit, following in pairwise(record.visits):
        yield from product(visit.codes, following.codes)


def possible(slow, codes) -> list[tuple[str, str]]:
    """Every pair that there could be of these codes, which are sorted."""
    return list(combinations(codes, 2) if slow is in_visits else product(codes, codes))


KINDS = pytest.mark.parametrize(
    ("counted", "slow"), [(pairs_in_visits, in_visits), (pairs_in_turn, in_turn)]
)


@KINDS
@pytest.mark.parametrize("at_once", [1, 50, 2_000_000])
def test_pairs_are_those_of_a_slow_loop(counted, slow, at_once, monkeypatch) -> None:
    monkeypatch.setattr(code_table, "_AT_ONCE", at_once)
    cohorts = make_cohort(40, seed=0), make_cohort(30, seed=1)
    tables = code_tables(*cohorts)
    pairs = possible(slow, tables[0].codes)
    for table, cohort in zip(tables, cohorts, strict=True):
        matrix = counted(table, np.arange(len(table.codes)))
        counts = [Counter(slow(record)) for record in cohort]
        expected = [[count[pair] for pair in pairs] + [0] for count in counts]
        assert matrix.toarray().tolist() == expected


@KINDS
def test_pairs_with_another_code_share_the_last_column(counted, slow) -> None:
    cohorts = make_cohort(60, seed=0), make_cohort(60, seed=1)
    tables = code_tables(*cohorts)
    chosen = frequent_columns(tables[0], most=25)
    own = possible(slow, [tables[0].codes[column] for column in chosen])
    for table, cohort in zip(tables, cohorts, strict=True):
        matrix = counted(table, chosen)
        counts = [Counter(slow(record)) for record in cohort]
        expected = [
            [count[p] for p in own] + [sum(n for p, n in count.items() if p not in own)]
            for count in counts
        ]
        assert matrix.toarray().tolist() == expected


def test_the_most_frequent_codes_are_counted_by_visits_and_nobody_elses_are_taken() -> None:
    cohort, other = make_cohort(60, seed=0), make_cohort(60, seed=1, hospital="heart")
    table, _ = code_tables(cohort, other)
    visits = Counter(code for record in cohort for visit in record.visits for code in visit.codes)
    ranked = sorted(visits, key=lambda code: (-visits[code], code))
    for most in (1, 25, 10_000):
        found = [table.codes[column] for column in frequent_columns(table, most=most)]
        assert found == sorted(ranked[:most])


@KINDS
def test_one_visit_of_one_code_makes_no_pair(counted, slow) -> None:
    (table,) = code_tables([PatientRecord(1, "F", 50, (Visit(("4019",)),))])
    matrix = counted(table, np.arange(1))
    assert matrix.sum() == 0


def test_a_visit_is_followed_only_by_one_of_the_same_patient() -> None:
    cohort = make_cohort(30, seed=3)
    owners = [row for row, record in enumerate(cohort) for _ in record.visits]
    slow = [i for i in range(len(owners) - 1) if owners[i] == owners[i + 1]]
    assert np.array_equal(followed(*code_tables(cohort)), slow)
