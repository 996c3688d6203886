"""`ehr-course prepare`: three parts of a cohort, from every source, and what bad input says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_tables

from ehr_course.batches.prepared_notes import read_prepared
from ehr_course.cli.prepare import open_prepared
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.meds import load_meds, write_meds
from ehr_course.sources.note_corpus import split_notes
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import Dirt, make_cohort, make_notes, write_mimic3
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


# ------------------------------------------------------------------ patients


EVENTS = "who,stay,icd,came,years,kind\n" + "".join(
    f"p{n},{visit},{code},2101-0{visit}-01,{40 + n}.5,{'FM'[n % 2]}\n"
    for n in range(20)
    for visit, code in ((2, "428.0"), (1, "401.9"))
)
NAMES = "patient=who,visit=stay,code=icd,time=came,age=years,sex=kind"


def test_a_table_of_events_is_prepared(ehr_course, tmp_path):
    american = EVENTS.replace("2101-01-01", "1/1/2101").replace("2101-02-01", "2/1/2101")
    (tmp_path / "events.csv").write_text(american, encoding="utf-8")
    arguments = ("prepare", "--data", tmp_path / "events.csv", "--columns", NAMES)
    done = ehr_course(*arguments, "--date-format", "%m/%d/%Y", "--out", tmp_path / "prepared")
    assert done.exit_code == 0, done.output
    split = open_prepared(tmp_path / "prepared").split()
    found = sorted((r for part in split for r in part), key=lambda record: record.subject_id)
    assert [(r.age, r.sex, r.codes) for r in found] == [
        (40 + n, "FM"[n % 2], ("4019", "4280")) for n in range(20)
    ]
    changed = "fractional ages rounded down to completed years: 20"
    assert changed in (tmp_path / "prepared" / "load_report.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("lacking", ["age", "sex", "time"])
def test_patients_that_no_model_can_learn_from_are_refused(ehr_course, tmp_path, lacking):
    (tmp_path / "events.csv").write_text(EVENTS, encoding="utf-8")
    columns = ",".join(part for part in NAMES.split(",") if not part.startswith(lacking))
    done = ehr_course(
        *("prepare", "--data", tmp_path / "events.csv", "--columns", columns),
        *("--out", tmp_path / "prepared"),
    )
    assert done.exit_code == 1
    assert f"events.csv: it has no {lacking}, and a model cannot" in done.stderr
    assert f"--columns {lacking}=NAME" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def test_columns_without_data_are_refused(ehr_course, tmp_path):
    done = ehr_course("prepare", "--columns", NAMES, "--out", tmp_path / "prepared")
    assert done.exit_code == 1 and "no data are named. Give --data too." in done.stderr


def size_of(records) -> str:
    visits, codes = (sum(len(getattr(r, of)) for r in records) for of in ("visits", "codes"))
    return f"{len(records):,} patients, {visits:,} visits, {codes:,} diagnoses"


def test_of_a_meds_dataset_visits_and_diagnoses_are_counted_too(ehr_course, tmp_path):
    records = make_cohort(20, seed=0)
    write_meds(records, tmp_path / "meds")
    done = ehr_course("prepare", "--data", tmp_path / "meds", "--out", tmp_path / "out")
    assert f"\nin the records: {size_of(records)}\n" in done.stdout


def test_the_parts_are_those_of_split_by_patient(prepared):
    expected = split_by_patient(make_cohort(200, seed=0), seed=0)
    assert open_prepared(prepared).split() == expected


def test_the_records_are_a_meds_dataset_with_splits(prepared):
    for name, part in (("train", 160), ("tuning", 20), ("held_out", 20)):
        assert len(load_meds(prepared / "records", split=name).records) == part


def test_the_vocabulary_is_that_of_the_training_part_alone(prepared):
    train = load_meds(prepared / "records", split="train").records
    assert CodeTokenizer.load(prepared / "tokenizer.json") == CodeTokenizer.from_records(train)


def test_another_hospital_seed_and_split(ehr_course, tmp_path):
    out = tmp_path / "heart"
    done = ehr_course(
        *("prepare", "--out", out, "--patients", 50, "--hospital", "heart", "--seed", 3),
        *("--validation", 0, "--test", 0.5),
    )
    assert done.exit_code == 0
    assert "patients: 25 for train, 0 for validation, 25 for test" in done.stdout
    records = make_cohort(50, seed=3, hospital="heart")
    expected = split_by_patient(records, fractions=(0.5, 0, 0.5), seed=3)
    assert open_prepared(out).split() == expected


def test_mimic3_tables_and_what_became_of_their_rows(ehr_course, tmp_path):
    records = make_cohort(60, seed=1)
    dirt = Dirt(duplicates=4, malformed=3)
    write_mimic3(records, tmp_path / "tables", dirt=dirt)
    done = ehr_course(
        *("prepare", "--data", tmp_path / "tables", "--malformed", "drop"),
        *("--out", tmp_path / "out"),
    )
    assert done.exit_code == 0
    cohort = load_cohort(tmp_path / "tables", malformed="drop")
    assert str(cohort.report) in done.stdout
    assert (tmp_path / "out" / "load_report.txt").read_text(encoding="utf-8") == (
        f"{cohort.report}\nin the records: {size_of(cohort.records)}\n"
    )
    dropped = {f"{table}: {why}": n for (table, why), n in cohort.report.dropped.items()}
    assert about(tmp_path / "out")["result"]["dropped"] == dropped
    assert dropped["DIAGNOSES_ICD: a code of the wrong shape"] == 3
    assert open_prepared(tmp_path / "out").split() == split_by_patient(cohort.records, seed=0)


def test_mimic4_tables(ehr_course, tmp_path):
    tables = small_tables.write_tables(
        tmp_path / "mimic4" / "hosp",
        patients=small_tables.PATIENTS_4,
        admissions=small_tables.ADMISSIONS_4,
        diagnoses=small_tables.DIAGNOSES_4,
    )
    done = ehr_course(
        *("prepare", "--data", tables.parent, "--out", tmp_path / "out"),
        *("--validation", 0, "--test", 0.5),
    )
    assert done.exit_code == 0
    split = open_prepared(tmp_path / "out").split()
    assert {record.codes for part in split for record in part} == {("4280",), ("0389",)}


def test_a_meds_dataset(ehr_course, tmp_path):
    records = make_cohort(40, seed=2)
    write_meds(records, tmp_path / "meds")
    done = ehr_course("prepare", "--data", tmp_path / "meds", "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert open_prepared(tmp_path / "out").split() == split_by_patient(records, seed=0)


@pytest.mark.parametrize(("embedded", "says_so"), [(True, False), (False, True)])
def test_whoever_brings_patients_is_told_to_keep_them(ehr_course, tmp_path, embedded, says_so):
    write_mimic3(make_cohort(40), tmp_path / "tables")
    source = ("--patients", 40) if embedded else ("--data", tmp_path / "tables")
    done = ehr_course("prepare", *source, "--out", tmp_path / "out")
    assert ("holds the patients' data" in done.stdout) == says_so


def test_quiet_prints_nothing(ehr_course, tmp_path):
    done = ehr_course("prepare", "--patients", 40, "--out", tmp_path / "out", "-q")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------ notes


def test_embedded_notes(prepared_notes):
    pairs = make_notes(make_cohort(200, seed=0), seed=0)
    expected = split_notes(pairs, seed=0)
    for part in ("train", "validation", "test"):
        found = read_prepared(prepared_notes / "notes", part).pairs
        assert found == getattr(expected, part)


def test_a_file_of_notes_in_pieces(ehr_course, tmp_path):
    write_notes(tmp_path / "notes.csv", 60)
    done = ehr_course(
        *("prepare", "--notes", tmp_path / "notes.csv", "--out", tmp_path / "out"),
        *("--tokenizer", "pieces", "--vocabulary", 80),
    )
    assert done.exit_code == 0
    assert "notes: 48 for train, 6 for validation, 6 for test; 80 tokens" in done.stdout
    tokenizer = read_prepared(tmp_path / "out" / "notes", "train").tokenizer
    assert isinstance(tokenizer, NoteTokenizer)


@pytest.mark.parametrize(
    ("options", "kept"), [((), 60), (("--min-note", 64), 50), (("--min-summary", 26), 50)]
)
def test_short_notes_and_summaries_are_dropped_only_where_that_is_asked_for(
    ehr_course, tmp_path, options, kept
):
    write_notes(tmp_path / "notes.csv", 60)
    done = ehr_course(
        *("prepare", "--notes", tmp_path / "notes.csv", "--out", tmp_path / "out", *options)
    )
    assert done.exit_code == 0
    assert sum(about(tmp_path / "out")["result"]["parts"].values()) == kept
    assert ("10  a note" in done.stdout) == ("--min-note" in options)
    assert ("10  a summary that is too short" in done.stdout) == ("--min-summary" in options)


def write_notes(path: Path, n: int, *, columns: str = "note,summary") -> None:
    rows = [
        f'{who},"patient {who} came with a fever and was given drug {who} for seven days",'
        f'"fever treated with drug {who}"'
        for who in range(n)
    ]
    path.write_text("\n".join([f"subject_id,{columns}", *rows]) + "\n", encoding="utf-8")


# ------------------------------------------------------------------ bad input


def refused(ehr_course, tmp_path: Path, *arguments: object) -> str:
    """What stands on stderr when input is refused; nothing is written then."""
    before = sorted(tmp_path.iterdir())
    result = ehr_course("prepare", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before
    return result.stderr


def test_an_empty_folder(ehr_course, tmp_path):
    (tmp_path / "empty").mkdir()
    said = refused(ehr_course, tmp_path, "--data", tmp_path / "empty")
    assert said == (
        f"{tmp_path / 'empty'}: no file for PATIENTS, ADMISSIONS, DIAGNOSES_ICD; found: nothing, "
        "the folder is empty. Put PATIENTS.csv or PATIENTS.csv.gz, ADMISSIONS.csv or "
        "ADMISSIONS.csv.gz, DIAGNOSES_ICD.csv or DIAGNOSES_ICD.csv.gz there (in upper or lower "
        "case).\n"
    )


def test_a_folder_that_is_not_there(ehr_course, tmp_path):
    said = refused(ehr_course, tmp_path, "--data", tmp_path / "nowhere")
    assert said == f"{tmp_path / 'nowhere'}: there is no such folder. Check the path.\n"


def test_a_malformed_row_is_named(ehr_course, tmp_path):
    tables = small_tables.write_tables(
        tmp_path / "tables",
        admissions=small_tables.ADMISSIONS.replace("2165-01-02 08:00:00", "soon"),
    )
    said = refused(ehr_course, tmp_path, "--data", tables)
    assert said.startswith("ADMISSIONS.csv, line 3, column 'ADMITTIME': 'soon' is not a date.")


def test_a_meds_dataset_with_null_times(ehr_course, tmp_path):
    rows = [
        (1, None, "GENDER//F"),
        (1, datetime(2100, 1, 1), "MEDS_BIRTH"),
        (1, None, "DIAGNOSIS//ICD9CM//4280"),
    ]
    names, kinds = ("subject_id", "time", "code"), (pa.int64(), pa.timestamp("us"), pa.string())
    arrays = [pa.array(c, k) for c, k in zip(zip(*rows, strict=True), kinds, strict=True)]
    (tmp_path / "meds" / "data").mkdir(parents=True)
    pq.write_table(pa.table(arrays, names=names), tmp_path / "meds" / "data" / "0.parquet")
    said = refused(ehr_course, tmp_path, "--data", tmp_path / "meds")
    assert "stands where a diagnosis needs a time" in said
    assert "1 of 1 rows have this fault, too many to leave out." in said
    assert "0.parquet row 3" in said


def test_one_patient_is_no_cohort(ehr_course, tmp_path):
    said = refused(ehr_course, tmp_path, "--patients", 1)
    assert said == (
        "split: 1 patients are too few for a part of 0.1. "
        "Take more patients, or a larger fraction.\n"
    )


def test_shares_of_more_than_the_whole(ehr_course, tmp_path):
    said = refused(ehr_course, tmp_path, "--validation", 0.6, "--test", 0.6)
    assert said == (
        "prepare, --validation and --test: 0.6 and 0.6 leave nobody to learn from. "
        "Name two shares that add up to less than 1.\n"
    )


def test_notes_without_such_columns(ehr_course, tmp_path):
    write_notes(tmp_path / "notes.csv", 20, columns="text,label")
    said = refused(ehr_course, tmp_path, "--notes", tmp_path / "notes.csv")
    assert said.startswith("notes.csv: it has none of the known pairs of columns, ")
    assert "(found: subject_id, text, label)" in said
    assert "Name them with --note-column and --summary-column" in said


def test_one_column_of_notes_without_the_other(ehr_course, tmp_path):
    write_notes(tmp_path / "notes.csv", 20)
    said = refused(
        ehr_course, tmp_path, "--notes", tmp_path / "notes.csv", "--note-column", "note"
    )
    assert said == (
        "read_notes, note and summary (--note-column, --summary-column): one is given, the other "
        "is not. Name both columns, or neither.\n"
    )


def test_data_and_notes_together_are_refused(ehr_course, tmp_path):
    result = ehr_course("prepare", "--data", "a", "--notes", "b", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "--data and --notes: both are given" in result.stderr


# ------------------------------------------------------------------ where it writes


@pytest.fixture
def there(ehr_course, tmp_path) -> Path:
    """A prepared folder that is there already."""
    out = tmp_path / "there"
    assert ehr_course("prepare", "--patients", 40, "--out", out).exit_code == 0
    return out


def test_a_folder_that_is_not_empty_is_refused(ehr_course, there):
    before = about(there)
    result = ehr_course("prepare", "--patients", 50, "--out", there)
    assert result.exit_code == 1
    assert result.stderr == (
        f"{there}: the folder is not empty. Name a new one, or give --overwrite to replace what a "
        "run wrote here.\n"
    )
    assert about(there) == before


def test_overwrite_replaces_the_whole_folder(ehr_course, there):
    (there / "stray").touch()
    result = ehr_course("prepare", "--patients", 50, "--out", there, "--overwrite")
    assert result.exit_code == 0
    assert about(there)["settings"]["patients"] == 50
    assert sorted(path.name for path in there.iterdir()) == [
        "records",
        "run.json",
        "tokenizer.json",
    ]


def test_overwrite_that_fails_leaves_what_was_there(ehr_course, there):
    before = about(there)
    result = ehr_course("prepare", "--patients", 1, "--out", there, "--overwrite")
    assert result.exit_code == 1
    assert about(there) == before
    assert [path.name for path in there.parent.iterdir()] == ["there"]


def test_overwrite_never_replaces_what_no_run_wrote(ehr_course, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("text", encoding="utf-8")
    result = ehr_course("prepare", "--out", tmp_path / "thesis", "--overwrite")
    assert result.exit_code == 1
    assert "no run of ehr-course wrote it" in result.stderr
    assert (tmp_path / "thesis" / "chapter.txt").is_file()


@pytest.mark.parametrize("place", [".", "records"])
def test_a_result_is_never_put_in_the_place_of_what_is_read(ehr_course, there, place):
    data = there / "records"
    result = ehr_course("prepare", "--data", data, "--out", there / place, "--overwrite")
    assert result.exit_code == 1
    assert f"{data}, which is read, would be replaced" in result.stderr
    assert open_prepared(there).split().train


def test_a_result_never_becomes_a_part_of_the_dataset_that_is_read(ehr_course, there):
    data = there / "records"
    result = ehr_course("prepare", "--data", data, "--out", data / "data" / "new")
    assert result.exit_code == 1
    assert f"it would become a part of {data}, which is read" in result.stderr
    assert not (data / "data" / "new").exists()


def test_a_file_is_no_folder(ehr_course, tmp_path):
    (tmp_path / "file").touch()
    result = ehr_course("prepare", "--out", tmp_path / "file")
    assert result.exit_code == 1
    assert result.stderr == (
        f"{tmp_path / 'file'}: this is a file, not a folder. Name another folder.\n"
    )


def test_the_folder_that_one_is_in_is_refused(ehr_course, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in (".", ".."):
        result = ehr_course("prepare", "--out", place)
        assert result.exit_code == 1
        assert result.stderr == (
            f"{place}: a folder cannot take its own place. Name a folder in it.\n"
        )


# ------------------------------------------------------------------ what it imports


_SAYS_WHAT_IS_IMPORTED = """
import sys, typer
from ehr_course.cli.app import app
say = typer.echo
slow = "torch", "transformers", "sklearn", "scipy.stats", "pandas", "meds", "matplotlib"
def first(*said, **how):
    typer.echo = say
    say([name for name in slow if name in sys.modules])
    say(*said, **how)
typer.echo = first
app(sys.argv[1:])
"""


def test_nothing_slow_is_imported_before_the_first_word(tmp_path, prepared):
    write_mimic3(make_cohort(20, seed=0), tmp_path / "tables")
    write_notes(tmp_path / "notes.csv", 20)
    for arguments in (
        ("prepare", "--data", tmp_path / "tables"),
        ("prepare", "--data", prepared / "records"),
        ("prepare", "--notes", tmp_path / "notes.csv"),
        ("evaluate", "--real", prepared, "--synthetic", prepared / "records", "--limit", 30),
    ):
        done = subprocess.run(
            [sys.executable, "-c", _SAYS_WHAT_IS_IMPORTED, *map(str, arguments), "--out", "out"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.stdout.startswith("[]\ntable "), done.stdout + done.stderr
        shutil.rmtree(tmp_path / "out")
