"""`ehr-course prepare` says what became of histories and codes, and prints no name raw."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hospital_tables import (
    as_a_spreadsheet,
    change_codes,
    divided,
    write_meds_hospital,
    write_mimic4_hospital,
)

from ehr_course.cli.prepare import open_prepared
from ehr_course.sources.meds import write_meds
from ehr_course.sources.synthetic import make_cohort, write_mimic3

RECORDS = make_cohort(240, seed=4)
LEFT, WHOLE, LOST = divided(RECORDS)
N_SHORT = len(LEFT) - len(WHOLE)


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def subjects(folder: Path) -> set[int]:
    return {record.subject_id for part in open_prepared(folder).split() for record in part}


@pytest.mark.parametrize("write", [write_mimic4_hospital, write_meds_hospital])
def test_patients_who_lost_admissions_are_named_and_left_out_on_request(
    ehr_course, tmp_path, write
):
    data = write(RECORDS, tmp_path / "data of 2015")
    done = ehr_course("prepare", "--data", data, "--codes", "icd9", "--out", tmp_path / "kept")
    assert done.exit_code == 0
    assert (
        f"patients kept without some of their admissions: {N_SHORT} ({LOST} admissions: "
    ) in done.stdout
    assert (
        "What is left of these patients looks like a shorter history. --whole-patients leaves "
        "them out.\n"
    ) in done.stdout
    assert about(tmp_path / "kept")["result"]["shortened"] == {
        "patients": N_SHORT,
        "admissions": LOST,
    }
    assert subjects(tmp_path / "kept") == {record.subject_id for record in LEFT}
    arguments = ("prepare", "--data", data, "--codes", "icd9", "--whole-patients")
    done = ehr_course(*arguments, "--out", tmp_path / "whole")
    assert done.exit_code == 0
    assert (
        f"patients left out because some of their admissions were dropped: {N_SHORT} ({LOST} "
    ) in done.stdout
    assert "What is left of these patients" not in done.stdout
    assert subjects(tmp_path / "whole") == {record.subject_id for record in WHOLE}
    again = tmp_path / "again"
    assert ehr_course("repeat", tmp_path / "whole" / "run.json", "--out", again).exit_code == 0
    assert about(again) == about(tmp_path / "whole")


def test_diagnoses_of_meds_are_counted_by_vocabulary(ehr_course, tmp_path):
    data = write_meds_hospital(RECORDS, tmp_path / "meds")
    done = ehr_course("prepare", "--data", data, "--codes", "icd9", "--out", tmp_path / "out")
    n_9 = sum(len(record.codes) for record in LEFT)
    n_10 = sum(len(r.visits) for r in RECORDS) - sum(len(r.visits) for r in LEFT)
    line = f"diagnoses by vocabulary: ICD9CM {n_9:,}, ICD10CM {n_10:,}; those in ICD9CM are read\n"
    assert line in done.stdout
    assert line in (tmp_path / "out" / "load_report.txt").read_text(encoding="utf-8")


def test_the_report_page_says_what_the_synthetic_cohort_lost(ehr_course, prepared, tmp_path):
    data = write_meds_hospital(RECORDS, tmp_path / "meds")
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", data, "--out", tmp_path / "report"),
        *("--codes", "icd9"),
    )
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    for text in (done.stdout, page):
        assert f"patients kept without some of their admissions: {N_SHORT} ({LOST}" in text
        assert re.search(r"diagnoses by vocabulary: ICD9CM [\d,]+, ICD10CM \d+; those in", text)


def test_lost_zeros_stop_the_command_until_it_is_told(ehr_course, tmp_path):
    tables = tmp_path / "tables"
    write_mimic3(make_cohort(240, seed=4), tables)
    change_codes(tables / "DIAGNOSES_ICD.csv", as_a_spreadsheet)
    arguments = ("prepare", "--data", tables, "--malformed", "drop")
    done = ehr_course(*arguments, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(
        "DIAGNOSES_ICD.csv, column 'ICD9_CODE': it seems that codes have lost their leading "
        "zeros, as in a spreadsheet: none of its "
    )
    assert done.stderr.endswith("go on with --zeros-lost-ok, or zeros_lost_ok=True.\n")
    assert not (tmp_path / "out").exists()
    done = ehr_course(*arguments, "--zeros-lost-ok", "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert "leading zeros of codes may be lost: none of its " in done.stdout
    assert about(tmp_path / "out")["settings"]["zeros_lost_ok"] is True
    # What was prepared so can be opened, and judged as a cohort.
    assert open_prepared(tmp_path / "out").split().train
    done = ehr_course(
        *("evaluate", "--real", tmp_path / "out", "--synthetic", tables, "--malformed", "drop"),
        *("--out", tmp_path / "report"),
    )
    assert done.exit_code == 0, done.output
    assert "leading zeros of codes may be lost: none of its " in done.stdout


@pytest.mark.parametrize("option", ["--whole-patients", "--zeros-lost-ok"])
def test_options_of_data_are_refused_without_data(ehr_course, tmp_path, option):
    done = ehr_course("prepare", option, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"prepare, {option}: no data are named. Give --data too. ")


def test_folders_with_the_signs_of_patterns(ehr_course, tmp_path):
    write_meds(RECORDS, tmp_path / "data [1]*")
    write_meds(RECORDS[:100], tmp_path / "data 1")
    out = tmp_path / "out [1]*"
    done = ehr_course("prepare", "--data", tmp_path / "data [1]*", "--out", out)
    assert done.exit_code == 0, done.output
    assert subjects(out) == {record.subject_id for record in RECORDS}


def test_no_name_is_printed_raw(ehr_course, tmp_path):
    name = "\x1b[2K\rall is well\u202e"
    shown = r"\x1b[2K\rall is well\u202e"
    data = write_meds_hospital(RECORDS, tmp_path / name)
    (data / "data" / "0.parquet").rename(data / "data" / f"{name}.parquet")
    arguments = ("prepare", "--data", data, "--codes", "icd9")
    done = ehr_course(*arguments, "--out", tmp_path / f"out{name}")
    assert done.exit_code == 0
    refused = ehr_course("prepare", "--data", data, "--out", tmp_path / f"out{name}")
    assert refused.exit_code == 1
    for text in (done.stdout, refused.stderr):
        assert shown in text
        assert all(line.isprintable() for line in text.split("\n"))
    report = tmp_path / f"out{name}" / "load_report.txt"
    assert f"{shown}.parquet row" in report.read_text(encoding="utf-8")
