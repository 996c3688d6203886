"""Names of files and folders are taken letter by letter, and never act on a terminal."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_tables import write_tables

from ehr_course.errors import InputError
from ehr_course.printable import printable
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.cohort import Drop, LoadReport, Reason, TableReport
from ehr_course.sources.meds import load_meds, write_meds
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.sources.tables import parquet_columns, read_parquet

RECORDS = make_cohort(40, seed=5)
CODES = "patient,visit,code\n1,1,428.0\n"
OTHER = "patient,visit,code\n1,1,486\n2,1,486\n"

# Each is a pattern that the name beside it fits.
PATTERNS = [("a[1]", "a1"), ("a*", "ab"), ("a?", "ab"), ("[ab]", "a"), ("{a,b}", "a")]
ERASE = "\x1b[2K\rall is well\n\u202e"
ERASED = r"\x1b[2K\rall is well\n\u202e"


def table(rows: str) -> pa.Table:
    header, *lines = (line.split(",") for line in rows.splitlines())
    return pa.table(dict(zip(header, map(list, zip(*lines, strict=True)), strict=True)))


@pytest.mark.parametrize(("name", "fits"), PATTERNS)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("of", ["file", "folder"])
def test_a_table_of_codes_is_the_one_that_is_named(tmp_path, name, fits, ending, of):
    paths = []
    for place, rows in ((name, CODES), (fits, OTHER)):
        path = tmp_path / f"{place}{ending}" if of == "file" else tmp_path / place / f"t{ending}"
        path.parent.mkdir(exist_ok=True)
        if ending == ".parquet":
            pq.write_table(table(rows), path)
        else:
            text = rows.encode()
            path.write_bytes(gzip.compress(text) if ending == ".csv.gz" else text)
        paths.append(path)
    assert load_cohort(paths[0]).records[0].codes == ("4280",)
    paths[0].unlink()
    with pytest.raises(InputError, match="there is no such file"):
        load_cohort(paths[0])


@pytest.mark.parametrize(("name", "fits"), PATTERNS)
def test_the_tables_of_mimic_are_those_of_the_folder_that_is_named(tmp_path, name, fits):
    write_tables(tmp_path / name)
    (tmp_path / fits).mkdir()
    assert len(load_cohort(tmp_path / name).records) == 2


@pytest.mark.parametrize(("name", "fits"), PATTERNS)
def test_a_meds_dataset_is_the_one_that_is_named(tmp_path, name, fits):
    split = split_by_patient(RECORDS, seed=0)
    write_meds(RECORDS, tmp_path / name, split=split)
    write_meds(RECORDS[:20], tmp_path / fits, split=split_by_patient(RECORDS[:20], seed=0))
    assert list(load_meds(tmp_path / name).records) == RECORDS
    assert list(load_meds(tmp_path / name, split="train").records) == split.train


@pytest.mark.parametrize(("name", "fits"), PATTERNS)
def test_a_shard_is_read_once_whatever_its_name_is(tmp_path, name, fits, monkeypatch):
    monkeypatch.setattr("ehr_course.sources.meds.PATIENTS_PER_SHARD", 20)
    write_meds(RECORDS, tmp_path)
    data = tmp_path / "data"
    (data / "0.parquet").rename(data / f"{name}.parquet")
    (data / "1.parquet").rename(data / f"{fits}.parquet")
    cohort = load_meds(tmp_path)
    assert list(cohort.records) == RECORDS
    assert cohort.report.dropped == {}


def test_parquet_files_are_read_by_their_exact_paths(tmp_path):
    for name, value in (("s[1].parquet", 1), ("s1.parquet", 2)):
        pq.write_table(pa.table({name[:2]: [value]}), tmp_path / name)
    path = tmp_path / "s[1].parquet"
    assert list(parquet_columns(path)) == ["s["]
    assert read_parquet(path, ["s["]).to_series().to_list() == [1]


# ------------------------------------------------------------------ what a terminal would act on


def test_letters_of_every_script_are_printed_as_they_are():
    assert printable("Müller 心臓 ❤ a/b [1]*") == "Müller 心臓 ❤ a/b [1]*"


def test_a_name_that_is_no_text_is_printed():
    assert printable(os.fsdecode(b"shard\xff")) == r"shard\udcff"


def test_what_is_printable_stays_so():
    assert printable(printable(ERASE)) == printable(ERASE) == ERASED
    assert printable("one\ntwo\x07", keep="\n") == "one\ntwo\\x07"


def test_no_part_of_an_error_is_raw():
    error = InputError(ERASE, ERASE, f"{ERASE} is wrong", f"Mend {ERASE}")
    shown = r"\x1b[2K\rall is well"
    assert str(error) == (f"{ERASED}, {ERASED}: {ERASED} is wrong. Mend {shown}\n\\u202e")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_shard_of_such_a_name_is_named_in_an_error(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"{ERASE}.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError) as refused:
        load_meds(tmp_path)
    assert str(refused.value).startswith(rf"{ERASED}.parquet: it is cut or not a parquet file")
    assert all(line.isprintable() for line in str(refused.value).splitlines())


def test_a_shard_of_such_a_name_is_named_in_the_account(tmp_path):
    write_meds(RECORDS, tmp_path)
    shard = tmp_path / "data" / "0.parquet"
    events = pq.read_table(shard)
    code = ["LAB" if code.startswith("DIAG") else code for code in events["code"].to_pylist()]
    lab = events.set_column(events.schema.get_field_index("code"), "code", pa.array(code))
    pq.write_table(lab, tmp_path / "data" / f"{ERASE}.parquet")
    report = load_meds(tmp_path).report
    assert f"{ERASED}.parquet row 4" in str(report)
    assert all(line.isprintable() for line in str(report).splitlines())


def test_a_table_of_such_a_name_is_named_in_the_account():
    report = LoadReport((TableReport(ERASE, 2, 1, (Drop(Reason.NO_CODE, 1, (ERASE,)),)),))
    for text in (str(report), *report.losses):
        assert ERASED in text
        assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize("rows", ["patient,visit\n1,1\n", "", f"{CODES}1,1\n"])
def test_a_file_of_such_a_name_is_named_in_an_error(tmp_path: Path, rows):
    path = tmp_path / f"{ERASE}.csv"
    path.write_text(rows, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_cohort(path)
    assert str(refused.value).startswith(f"{ERASED}.csv")
    assert str(refused.value).isprintable()
