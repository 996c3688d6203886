"""MIMIC-III and MIMIC-IV tables, from a folder of .csv or .csv.gz files to patient records.

Tables: Johnson et al., MIMIC-III, Scientific Data 3, 160035 (2016); MIMIC-IV, Scientific Data 10,
1 (2023).
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import polars as pl

from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.sources.codes import drop_repeated_codes, read_codes, take_systems
from ehr_course.sources.cohort import Change, Cohort, LoadOptions, Options, Reason
from ehr_course.sources.grouping import (
    build_cohort,
    check_something_is_left,
    completed_years,
    lost_visits,
)
from ehr_course.sources.row_filter import RowFilter, is_in
from ehr_course.sources.tables import check_is_header, find_tables, read_header, read_table

ABOVE_89 = 91
"""The anchor_age that MIMIC-IV writes for everyone older than 89."""

_TABLES = ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD")


def load_mimic3(folder: str | Path, **options: Unpack[Options]) -> Cohort:
    """Load patient records from MIMIC-III tables, whose codes are ICD-9-CM.

    Reads PATIENTS, ADMISSIONS and DIAGNOSES_ICD, as .csv or .csv.gz, file and column names in
    upper or lower case. Patients come by rising subject_id, visits by ADMITTIME (then HADM_ID),
    codes by numeric SEQ_NUM. Codes lose dots and lower case and keep leading zeros; a code that a
    visit repeats is kept once. Incomplete rows (no code, no diagnosis, an unknown patient) are
    always dropped and counted.

    Age is in completed years, by the calendar, on the day of the first admission of the record;
    above 89, where MIMIC-III moves births some 300 years back, it is 90.

    Args:
        folder: where the tables are.
        options: malformed, date_format, whole_patients, zeros_lost_ok, system and map_to, as in
            ``load_cohort``.
    """
    return _load(Path(folder), LoadOptions.of("load_mimic3", options), is_4=False)


def load_mimic4(folder: str | Path, **options: Unpack[Options]) -> Cohort:
    """Load patient records from MIMIC-IV tables, in one code system.

    Reads patients, admissions and diagnoses_icd from the folder or its subfolder hosp; arguments,
    order and codes as in `load_mimic3`. Where admissions are in ICD-9 and in ICD-10, take those of
    one system, or have the others translated; they are never mixed.

    Age is anchor_age plus the years from anchor_year to the year of the first admission of the
    record, so it can be off by one; an anchor_age of 91 stands for every age above 89, recorded
    as 90.
    """
    return _load(_hosp(Path(folder)), LoadOptions.of("load_mimic4", options), is_4=True)


def load_mimic(folder: Path, how: LoadOptions) -> Cohort:
    """Load a folder of MIMIC tables: in PATIENTS, DOB means MIMIC-III, and anchor_age MIMIC-IV."""
    patients = find_tables(_hosp(folder), _TABLES)["PATIENTS"]
    columns = read_header(patients)
    is_4 = "anchor_age" in columns
    if is_4 or "dob" in columns:
        return _load(patients.parent, how, is_4=is_4)
    check_is_header(patients.name, "line 1", columns)
    raise InputError(
        patients.name,
        "line 1",
        f"neither 'DOB' (MIMIC-III) nor 'anchor_age' (MIMIC-IV) is there "
        f"(found: {', '.join(columns)})",
        "Is this the right table?",
    )


def _hosp(folder: Path) -> Path:
    """MIMIC-IV keeps its hospital tables in a subfolder."""
    return folder / "hosp" if (folder / "hosp").is_dir() else folder


def _load(folder: Path, how: LoadOptions, *, is_4: bool) -> Cohort:
    if not is_4 and how.system == "ICD10CM":
        raise InputError(
            "MIMIC-III",
            "",
            "its diagnoses are all coded in ICD-9-CM",
            "Leave --codes icd10, or system='ICD10CM', out. To translate them: --map icd10, or "
            "map_to='ICD10CM'.",
        )
    paths = find_tables(folder, _TABLES)
    patients, patients_read = _read_patients(paths["PATIENTS"], how, is_4=is_4)
    admissions, visits_read = _read_admissions(paths["ADMISSIONS"], how)
    admissions.drop(~is_in("patient", patients_read), Reason.UNKNOWN_PATIENT)
    admissions.drop(~is_in("patient", patients.frame["patient"]), Reason.PATIENT_DROPPED)
    _add_age(admissions, patients, is_4=is_4)
    diagnoses = read_table(
        paths["DIAGNOSES_ICD"],
        name="DIAGNOSES_ICD",
        text={"code": "icd_code", "version": "icd_version"} if is_4 else {"code": "icd9_code"},
        numbers={"patient": "subject_id", "hadm_id": "hadm_id", "sequence": "seq_num"},
        verbatim=("code",),
        malformed=how.malformed,
    )
    coded_visits = diagnoses.numbers_in("hadm_id")
    diagnoses.parse_numbers("hadm_id", Reason.BAD_ID)
    diagnoses.parse_numbers("patient", Reason.BAD_ID)
    # A row without a code often has no sequence number either, so this comes first.
    diagnoses.drop(pl.col("code").str.strip_chars() == "", Reason.NO_CODE)
    diagnoses.parse_numbers("sequence", Reason.BAD_SEQ_NUM)
    icd10 = pl.lit(False)
    if is_4:
        diagnoses.refuse(~pl.col("version").is_in(["9", "10"]), Reason.BAD_VERSION, "version")
        icd10 = pl.col("version") == "10"
    diagnoses.frame = diagnoses.frame.with_columns(icd10=icd10).drop("version", strict=False)
    choice = take_systems(diagnoses, how)
    _add_visit(diagnoses, admissions, visits_read["visit"])

    tables = (patients, admissions, diagnoses)
    question = "Are the three tables from one database?"
    check_something_is_left(diagnoses, [t.account() for t in tables], remedy=question)
    codes = read_codes(diagnoses, choice, how)
    diagnoses.drop(pl.col("code").is_in(codes.absent), Reason.NO_EQUIVALENT)
    check_something_is_left(diagnoses, [t.account() for t in tables], remedy=question)
    diagnoses.frame = diagnoses.frame.sort("visit", "sequence", maintain_order=True)
    drop_repeated_codes(diagnoses, codes, same_row="sequence")
    has_code = is_in("number", diagnoses.frame["visit"])
    admissions.drop(~has_code & ~is_in("visit", coded_visits), Reason.NO_DIAGNOSIS)
    admissions.drop(~has_code, Reason.DIAGNOSES_DROPPED)
    patients.drop(~is_in("patient", visits_read["patient"]), Reason.NO_ADMISSION)
    patients.drop(~is_in("patient", admissions.frame["patient"]), Reason.ADMISSIONS_DROPPED)
    kept = admissions.frame.select("patient", "visit")
    lost, shortened = lost_visits(visits_read, kept, admissions, left_out=how.whole_patients)
    if how.whole_patients and shortened is not None:
        theirs = is_in("patient", lost)
        numbers = admissions.frame.filter(theirs)["number"]
        diagnoses.drop(is_in("visit", numbers), Reason.ADMISSION_DROPPED)
        admissions.drop(theirs, Reason.PATIENT_DROPPED)
        patients.drop(theirs, Reason.SHORTENED)
        check_something_is_left(diagnoses, [t.account() for t in tables], shortened)

    first_age = pl.col("age").first().over("patient").clip(upper_bound=MAX_AGE)
    visits = admissions.frame.select(
        "sex", subject_id="patient", age=first_age, hadm_id="visit", admitted="time"
    )
    oldest = visits.filter(pl.col("age") == MAX_AGE)["subject_id"].n_unique()
    return build_cohort(
        diagnoses,
        visits,
        codes,
        tables=tables,
        changed={Change.AGE_90: oldest},
        shortened=shortened,
        notes=codes.notes,
    )


def _read_patients(path: Path, how: LoadOptions, *, is_4: bool) -> tuple[RowFilter, pl.Series]:
    """Return PATIENTS, one row each, and the ids of all rows, dropped ones included."""
    anchors = ("anchor_age", "anchor_year") if is_4 else ()
    patients = read_table(
        path,
        name="PATIENTS",
        text={"sex": "gender"} if is_4 else {"sex": "gender", "dob": "dob"},
        numbers={"patient": "subject_id", **{name: name for name in anchors}},
        malformed=how.malformed,
    )
    read = patients.numbers_in("patient")
    patients.parse_numbers("patient", Reason.BAD_ID)
    patients.refuse(~pl.col("sex").str.to_uppercase().is_in(["F", "M"]), Reason.BAD_SEX, "sex")
    patients.add(sex=pl.col("sex").str.to_uppercase())
    for column in anchors:
        patients.parse_numbers(column, Reason.BAD_AGE)
    if not is_4:
        patients.parse_dates("dob", how.date_format)
    else:
        problem, remedy = "is a negative age", "Write completed years."
        is_negative = pl.col("anchor_age") < 0
        patients.refuse(is_negative, Reason.BAD_AGE, "anchor_age", problem, remedy)
    patients.one_row_each("patient")
    return patients, read


def _read_admissions(path: Path, how: LoadOptions) -> tuple[RowFilter, pl.DataFrame]:
    """Return ADMISSIONS, one row each, and "patient", "visit" and "line" of all rows."""
    admissions = read_table(
        path,
        name="ADMISSIONS",
        text={"time": "admittime"},
        numbers={"patient": "subject_id", "visit": "hadm_id"},
        malformed=how.malformed,
    )
    read = admissions.frame.select(
        "line", patient=admissions.numbers_in("patient"), visit=admissions.numbers_in("visit")
    )
    admissions.parse_numbers("patient", Reason.BAD_ID)
    admissions.parse_numbers("visit", Reason.BAD_ID)
    admissions.parse_dates("time", how.date_format)
    admissions.one_row_each("visit")
    return admissions, read


def _add_age(admissions: RowFilter, patients: RowFilter, *, is_4: bool) -> None:
    """Join sex and age, in completed years at the admission; sort and number the admissions."""
    age = completed_years("dob", "time")
    if is_4:
        years = pl.col("time").dt.year() - pl.col("anchor_year")
        is_hidden = pl.col("anchor_age") >= ABOVE_89
        age = pl.when(is_hidden).then(ABOVE_89).otherwise(pl.col("anchor_age") + years)
    admissions.frame = admissions.frame.join(
        patients.frame.drop("line"), on="patient", maintain_order="left"
    ).with_columns(age=age)
    admissions.refuse(pl.col("age") < 0, Reason.BEFORE_BIRTH, "time")
    admissions.frame = admissions.frame.sort("patient", "time", "visit").with_row_index("number")


def _add_visit(diagnoses: RowFilter, admissions: RowFilter, visits_read: pl.Series) -> None:
    """Keep the diagnoses of kept admissions, with the admission's number for its hadm_id.

    Admissions are in the order of the records, so the number orders their codes.
    """
    kept = admissions.frame
    number = pl.col("hadm_id").replace_strict(
        kept["visit"], kept["number"], default=None, return_dtype=pl.UInt32
    )
    diagnoses.add(visit=number)
    is_lost = pl.col("visit").is_null()
    diagnoses.drop(is_lost & ~is_in("hadm_id", visits_read), Reason.UNKNOWN_ADMISSION)
    diagnoses.drop(is_lost, Reason.ADMISSION_DROPPED)
    its_patient = pl.lit(kept["patient"]).gather(pl.col("visit"))
    diagnoses.refuse(pl.col("patient") != its_patient, Reason.WRONG_PATIENT, "patient")
    diagnoses.frame = diagnoses.frame.drop("patient", "hadm_id")
