"""Parts of a cohort share no patient, and a seed gives them again."""

from __future__ import annotations

import random

import pytest

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.splits import split_by_patient


def patients(number: int) -> list[PatientRecord]:
    return [PatientRecord(100 + n, "F", 40, (Visit(("4280",)),)) for n in range(number)]


def ids(part: list[PatientRecord]) -> list[int]:
    return [record.subject_id for record in part]


def test_every_patient_is_in_one_part():
    records = patients(103)
    split = split_by_patient(records, seed=4)
    assert sorted(ids(split.train) + ids(split.validation) + ids(split.test)) == ids(records)


@pytest.mark.parametrize(
    ("number", "fractions", "sizes"),
    [
        (100, (0.8, 0.1, 0.1), [80, 10, 10]),
        (103, (0.8, 0.1, 0.1), [82, 11, 10]),
        (10, (0.5, 0.5, 0), [5, 5, 0]),
        (10, (0.7, 0.0, 0.3), [7, 0, 3]),
        (3, (1 / 3, 1 / 3, 1 / 3), [1, 1, 1]),
        (7, (1.0, 0, 0), [7, 0, 0]),
    ],
)
def test_sizes_follow_the_fractions(number, fractions, sizes):
    split = split_by_patient(patients(number), fractions=fractions, seed=1)
    assert [len(part) for part in split] == sizes


def test_the_seed_decides():
    records = patients(50)
    assert split_by_patient(records, seed=7) == split_by_patient(records, seed=7)
    assert split_by_patient(records, seed=7) != split_by_patient(records, seed=8)


def test_the_order_of_the_records_does_not_matter():
    records = patients(50)
    shuffled = random.Random(0).sample(records, k=50)
    for part, same in zip(
        split_by_patient(records, seed=7), split_by_patient(shuffled, seed=7), strict=True
    ):
        assert set(ids(part)) == set(ids(same))


def test_parts_keep_the_order_of_the_records():
    records = random.Random(0).sample(patients(50), k=50)
    train = split_by_patient(records, seed=7).train
    assert train == [record for record in records if record in train]


def test_parts_are_not_the_first_patients_and_the_last():
    assert ids(split_by_patient(patients(100), seed=0).train) != ids(patients(80))


@pytest.mark.parametrize(
    "fractions",
    [
        (0.8, 0.1, 0.2),
        (0.8, 0.2),
        (1.1, -0.1, 0.0),
        (0.5, 0.5, 0.0, 0.0),
        (float("nan"), 0.5, 0.5),
    ],
)
def test_bad_fractions_are_refused(fractions):
    with pytest.raises(InputError, match=r"fractions: .* are not three shares of one whole"):
        split_by_patient(patients(10), fractions=fractions)


def test_a_patient_who_occurs_twice_is_refused():
    with pytest.raises(InputError, match="patient 100: there are two records"):
        split_by_patient(patients(10) + patients(1))


def test_too_few_patients_are_refused():
    with pytest.raises(InputError, match=r"4 patients are too few for a part of 0\.1"):
        split_by_patient(patients(4))
