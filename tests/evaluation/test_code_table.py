"""Cohorts as matrices, against a loop over patients, visits and codes."""

from __future__ import annotations

import numpy as np
import pytest

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.records import PartialRecord, PatientRecord
from ehr_course.sources.synthetic import make_cohort


def assert_is_table_of(table: CodeTable, records: list[PatientRecord]) -> None:
    """Compare a table with its patients, entry by entry."""
    visits = [
        [float(code in visit.codes) for code in table.codes]
        for record in records
        for visit in record.visits
    ]
    patients = [[float(code in record.codes) for code in table.codes] for record in records]
    owner = [row for row, record in enumerate(records) for _ in record.visits]
    assert table.visits.toarray().tolist() == visits
    assert table.patients.toarray().tolist() == patients
    assert table.owner.tolist() == owner
    assert table.ages.tolist() == [record.age for record in records]
    assert table.sexes.tolist() == [record.sex for record in records]
    assert len(table) == len(records)


def test_a_table_is_what_a_slow_loop_finds() -> None:
    cohort = make_cohort(60, seed=0)
    (table,) = code_tables(cohort)
    assert_is_table_of(table, cohort)


def test_cohorts_share_the_columns_of_all_their_codes() -> None:
    one, other = make_cohort(20, seed=0), make_cohort(15, seed=1)
    tables = code_tables(one, other)
    codes = sorted({code for record in one + other for code in record.codes})
    assert [list(table.codes) for table in tables] == [codes, codes]
    assert_is_table_of(tables[0], one)
    assert_is_table_of(tables[1], other)


@pytest.mark.parametrize("rows", [[3, 0, 17], [5, 5, 2, 5], [19], list(range(20))])
def test_selected_patients_come_in_the_order_asked_for(rows: list[int]) -> None:
    cohort = make_cohort(20, seed=2)
    (table,) = code_tables(cohort)
    assert_is_table_of(table.select(np.array(rows)), [cohort[row] for row in rows])


def test_the_table_of_a_selection_can_be_selected_from() -> None:
    cohort = make_cohort(20, seed=2)
    (table,) = code_tables(cohort)
    twice = table.select(np.array([9, 4, 4, 1])).select(np.array([2, 0]))
    assert_is_table_of(twice, [cohort[4], cohort[9]])


def test_an_empty_cohort_is_named() -> None:
    with pytest.raises(InputError, match="cohort 1: it has no patients"):
        code_tables(make_cohort(2), [])


def test_what_is_not_known_of_one_patient_is_in_no_table() -> None:
    cohort = make_cohort(20, seed=0)
    last = cohort[-1]
    unknown = PartialRecord(last.subject_id, last.sex, None, last.visits)
    (table,) = code_tables([*cohort[:-1], unknown])
    some = table.select(np.array([3, 1]))
    assert table.ages is None and some.ages is None
    assert some.sexes.tolist() == [cohort[3].sex, cohort[1].sex]


def test_codes_of_other_cohorts_than_those_named_are_left_out() -> None:
    real, written = make_cohort(40, seed=0), make_cohort(40, seed=1, hospital="heart")
    known = {code for record in real for code in record.codes}
    table, kept = code_tables(real, written, codes_of=[real])
    assert set(table.codes) == set(kept.codes) == known
    visits = [visit for record in written for visit in record.visits]
    assert [
        {kept.codes[column] for column in kept.visits[[row]].indices} for row in range(len(visits))
    ] == [known.intersection(visit.codes) for visit in visits]
    assert np.array_equal(kept.owner, code_tables(written)[0].owner)
