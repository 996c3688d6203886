"""Synthetic patients in files: every format holds the same ones, and bad files are refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ehr_course.cli.generate import (
    DAYS_BETWEEN_VISITS,
    with_invented_dates,
    write_formats,
)
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.synthetic import make_cohort

# As a model writes them: without dates, and a birth at 64 is not too wild for it.
WRITTEN = [
    PatientRecord(0, "F", 64, (Visit(("4280", "0389")), Visit(("V3001", "E8497")))),
    PatientRecord(1, "M", 64, (Visit(("V3001",)),)),
    PatientRecord(2, "M", 0, (Visit(("V3001", "7742")),)),
    PatientRecord(3, "F", 90, (Visit(("4019",)), Visit(("4019",)), Visit(("25000",)))),
    *(
        PatientRecord(4 + n, r.sex, r.age, tuple(Visit(v.codes) for v in r.visits))
        for n, r in enumerate(make_cohort(40, seed=4))
    ),
]


def content(records: list[PatientRecord]) -> list[tuple]:
    return [(r.subject_id, r.sex, r.age, [v.codes for v in r.visits]) for r in records]


@pytest.mark.parametrize("name", ["meds", "mimic3", "parquet"])
def test_a_cohort_comes_back_from_each_format(tmp_path, name):
    dated = with_invented_dates(WRITTEN, seed=3)
    write_formats(dated, tmp_path, [name], seed=3)
    assert content(list(load_cohort(tmp_path).records)) == content(dated)


@pytest.mark.parametrize("name", ["meds", "mimic3", "parquet"])
@pytest.mark.parametrize(("folder", "fits"), [("a[1]", "a1"), ("a*", "ab"), ("{a,b}", "a")])
def test_the_signs_of_patterns_are_letters_of_a_folder(tmp_path, name, folder, fits):
    dated = with_invented_dates(WRITTEN, seed=3)
    for place, some in ((folder, dated), (fits, dated[:5])):
        (tmp_path / place).mkdir()
        write_formats(some, tmp_path / place, [name], seed=3)
    assert content(list(load_cohort(tmp_path / folder).records)) == content(dated)
    assert content(list(load_cohort(tmp_path / fits).records)) == content(dated[:5])


@pytest.mark.parametrize("name", ["meds", "mimic3"])
def test_a_cohort_is_read_from_the_folder_of_its_format(tmp_path, name):
    dated = with_invented_dates(WRITTEN, seed=3)
    write_formats(dated, tmp_path, [name], seed=3)
    assert list(load_cohort(tmp_path / name).records) == dated


def test_dates_rise_by_the_spacing_and_numbers_occur_once():
    dated = with_invented_dates(WRITTEN, seed=5)
    assert [record.subject_id for record in dated] == list(range(1, len(WRITTEN) + 1))
    visits = [visit for record in dated for visit in record.visits]
    assert [visit.hadm_id for visit in visits] == list(range(1, len(visits) + 1))
    for record in dated:
        days = [(v.admitted - record.visits[0].admitted).days for v in record.visits]
        assert days == [DAYS_BETWEEN_VISITS * place for place in range(len(days))]
        assert 2100 <= record.visits[0].admitted.year <= 2149
    assert dated == with_invented_dates(WRITTEN, seed=5)
    assert dated != with_invented_dates(WRITTEN, seed=6)


def test_the_parquet_table_has_a_row_a_code(tmp_path):
    write_formats(with_invented_dates(WRITTEN[:1], seed=0), tmp_path, ["parquet"], seed=0)
    table = pl.read_parquet(tmp_path / "patients.parquet")
    assert table.columns == ["subject_id", "sex", "age", "visit", "seq_num", "code"]
    assert table.rows() == [
        (1, "F", 64, 1, 1, "4280"),
        (1, "F", 64, 1, 2, "0389"),
        (1, "F", 64, 2, 1, "V3001"),
        (1, "F", 64, 2, 2, "E8497"),
    ]


def test_rows_of_a_parquet_table_may_come_in_any_order(tmp_path):
    dated = with_invented_dates(WRITTEN, seed=0)
    write_formats(dated, tmp_path, ["parquet"], seed=0)
    path = tmp_path / "patients.parquet"
    pl.read_parquet(path).sample(fraction=1, shuffle=True, seed=1).write_parquet(path)
    assert content(list(load_cohort(path).records)) == content(dated)


GOOD = {"subject_id": [1], "sex": ["F"], "age": [64], "visit": [1], "seq_num": [1]}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (GOOD, "hold the code (found: subject_id, sex, age, visit, seq_num). Name the right one"),
        (GOOD | {"code": [None]}, "no row of it can be used"),
        (GOOD | {"code": [4280]}, "column 'code': its codes are numbers"),
        (
            GOOD | {"code": ["I5O.9"]},
            "row 1, column 'code': 'I5O.9' does not have the shape of an ICD-9",
        ),
        (GOOD | {"code": ["4280"], "age": [999]}, "row 1, column 'age': '999' is not an age"),
        (GOOD | {"code": ["4280"], "age": ["old"]}, "row 1, column 'age': 'old' is not an age"),
        (GOOD | {"code": ["4280"], "sex": ["?"]}, "row 1, column 'sex': '?' is not a sex"),
        (GOOD | {"code": ["4280"], "seq_num": ["x"]}, "row 1, column 'seq_num': 'x' is not a"),
        (GOOD | {"code": ["4280"], "subject_id": [None]}, "row 1, column 'subject_id': an empty"),
        (GOOD | {"code": ["4280"], "visit": [None]}, "row 1, column 'visit': an empty value"),
        (
            {name: value * 2 for name, value in GOOD.items()}
            | {"code": ["4280", "0389"], "sex": ["F", "M"]},
            "row 1, column 'sex': 'F' is not the sex of all rows of this patient",
        ),
        (
            {name: value * 2 for name, value in GOOD.items()}
            | {"code": ["4280", "0389"], "age": [64, 70]},
            "row 1, column 'age': '64' is not the age in all rows of this visit",
        ),
    ],
)
def test_a_bad_parquet_table_is_refused(tmp_path: Path, table: dict, said: str):
    path = tmp_path / "patients.parquet"
    pl.DataFrame(table).write_parquet(path)
    with pytest.raises(InputError) as error:
        load_cohort(path)
    assert str(error.value).startswith("patients.parquet")
    assert said in str(error.value)


def test_a_cut_parquet_file_is_refused(tmp_path):
    write_formats(with_invented_dates(WRITTEN, seed=0), tmp_path, ["parquet"], seed=0)
    path = tmp_path / "patients.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="it is cut or not a parquet file"):
        list(load_cohort(path).records)


def test_a_folder_without_any_format_is_refused(tmp_path):
    with pytest.raises(InputError, match="no file for PATIENTS"):
        list(load_cohort(tmp_path).records)
