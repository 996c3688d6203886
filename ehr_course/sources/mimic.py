"""MIMIC-III and MIMIC-IV tables, from a folder of .csv or .csv.gz files to patient records.

Tables: Johnson et al., MIMIC-III, Scientific Data 3, 160035 (2016); MIMIC-IV, Scientific Data 10,
1 (2023). Three tables of each are read; D_ICD_DIAGNOSES is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.sources.code_column import IS_ICD10, count_codes, normalise_codes
from ehr_course.sources.code_translation import drop_absent, plan_translation, translate_rows
from ehr_course.sources.cohort import Change, Cohort, LoadReport, Reason, Shortened, counted
from ehr_course.sources.column_names import check_is_header
from ehr_course.sources.grouping import build_records, completed_years, drop_repeated_codes
from ehr_course.sources.row_filter import Malformed, check_malformed
from ehr_course.sources.shortened import (
    KEEP_THEM,
    NOBODY_IS_WHOLE,
    account_of,
    lost_admissions,
)
from ehr_course.sources.system_choice import Choice, check_choice, choose_systems
from ehr_course.sources.tables import Table, find_tables, read_header

ABOVE_89 = 91
"""The anchor_age that MIMIC-IV writes for everyone older than 89."""

_TABLES = ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD")


def load_mimic3(
    folder: str | Path,
    *,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records from MIMIC-III tables, whose codes are ICD-9-CM.

    Reads PATIENTS, ADMISSIONS and DIAGNOSES_ICD, as .csv or .csv.gz, file and column names in
    upper or lower case. Patients come by rising subject_id, visits by ADMITTIME (then HADM_ID),
    codes by SEQ_NUM compared as numbers. Codes lose dots and lower case and keep leading zeros; a
    code that a visit repeats is kept once.

    Age is in completed years, by the calendar, on the day of the first admission of the record;
    above 89 it is 90. MIMIC-III moves the births of those patients some 300 years back, which
    changes nothing here.

    Args:
        folder: where the tables are.
        malformed: what to do with a row that holds a malformed value (an id that is no number, a
            date that cannot be read, a code of the wrong shape, rows that contradict each
            other): "raise" stops at the first, "drop" leaves them out and counts them.
        date_format: a format of strptime that dates may have beside those of ISO 8601.
        whole_patients: whether to leave out the patients of whom some admissions are dropped.
            Without it they are kept with the admissions that are left, and counted.
        zeros_lost_ok: whether to go on where codes seem to have lost their leading zeros.
        system: "ICD9CM" or None; these tables are in no other.
        map_to: "ICD10CM" translates the codes; see ``code_translation``. None leaves them.

    Returns:
        the records, and a report in which every row is used or dropped for a reason. Rows that
        are merely incomplete (no code, no diagnosis, an unknown patient) are always dropped and
        counted.

    Raises:
        InputError: naming file, place and remedy.
    """
    check_malformed(malformed)
    check_choice("MIMIC-III", system=system, map_to=map_to)
    if system == "ICD10CM":
        raise InputError(
            "MIMIC-III",
            "",
            "its diagnoses are all coded in ICD-9-CM",
            "Leave --codes icd10, or system='ICD10CM', out. To translate them: --map icd10, or "
            "map_to='ICD10CM'.",
        )
    paths = find_tables(Path(folder), _TABLES)
    patients = _read_patients(paths, malformed, text=("dob",))
    patients.parse_dates("dob", date_format)
    _one_row_per_patient(patients, ("sex", "dob"))
    admissions = _read_admissions(paths, patients, malformed, date_format)
    _add_age(admissions, patients, completed_years("dob", "admittime"), "DOB in PATIENTS")
    diagnoses, choice = _read_diagnoses(
        paths, admissions, "icd9_code", malformed, system=system, map_to=map_to
    )
    return _assemble(
        patients,
        admissions,
        diagnoses,
        "icd9_code",
        choice,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
    )


def load_mimic4(
    folder: str | Path,
    *,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
) -> Cohort:
    """Load patient records from MIMIC-IV tables, in one code system.

    Reads patients, admissions and diagnoses_icd from the folder or its subfolder hosp; order and
    codes as in `load_mimic3`. A hospital that changed from ICD-9 to ICD-10 has admissions in
    either. Take those of one system, and the others are dropped and counted; or have them
    translated. Never are they mixed.

    MIMIC-IV gives no date of birth. Age is anchor_age plus the years from anchor_year to the
    year of the first admission of the record, so it can be off by one. An anchor_age of 91
    stands for every age above 89: the record says 90, whatever the year of the admission.

    Args:
        folder: where the tables are, or the folder above hosp.
        system: take the diagnoses of this system alone, "ICD9CM" or "ICD10CM".
        map_to: translate diagnoses of the other system into this one; see ``code_translation``.
            Where neither is given, a folder with one system is read in it, and one with both as
            ``choose_systems`` says.
        malformed, date_format, whole_patients, zeros_lost_ok: as in `load_mimic3`.

    Returns:
        the records, and a report in which every row is used or dropped for a reason.

    Raises:
        InputError: naming file, place and remedy.
    """
    check_malformed(malformed)
    check_choice("MIMIC-IV", system=system, map_to=map_to)
    paths = find_tables(_hosp(Path(folder)), _TABLES)
    patients = _read_patients(paths, malformed, numbers=("anchor_age", "anchor_year"))
    for column in ("anchor_age", "anchor_year"):
        patients.parse_numbers(column, Reason.BAD_AGE)
    patients.refuse(
        pl.col("anchor_age") < 0,
        Reason.BAD_AGE,
        column="anchor_age",
        problem="is a negative age",
        remedy="Write completed years.",
    )
    _one_row_per_patient(patients, ("sex", "anchor_age", "anchor_year"))
    admissions = _read_admissions(paths, patients, malformed, date_format)
    age = (
        pl.when(pl.col("anchor_age") >= ABOVE_89)
        .then(ABOVE_89)
        .otherwise(pl.col("anchor_age") + pl.col("admittime").dt.year() - pl.col("anchor_year"))
    )
    _add_age(admissions, patients, age, "anchor_age and anchor_year in patients")
    diagnoses, choice = _read_diagnoses(
        paths,
        admissions,
        "icd_code",
        malformed,
        version_column="icd_version",
        system=system,
        map_to=map_to,
    )
    return _assemble(
        patients,
        admissions,
        diagnoses,
        "icd_code",
        choice,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
    )


def load(
    folder: str | Path,
    *,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load a folder of MIMIC-III tables, of MIMIC-IV tables, or a MEDS dataset.

    A folder that holds data/ with parquet files is MEDS. Otherwise the columns of PATIENTS
    decide: DOB is MIMIC-III, anchor_age MIMIC-IV. The other arguments are those of `load_mimic4`.

    Raises:
        InputError: if it is none of these, and as the loader of its kind does.
    """
    folder = Path(folder)
    how: dict[str, Any] = {
        "malformed": malformed,
        "whole_patients": whole_patients,
        "zeros_lost_ok": zeros_lost_ok,
        "system": system,
        "map_to": map_to,
    }
    if any(folder.glob("data/**/*.parquet")):
        # MEDS needs pyarrow, which costs memory that CSV tables do not need.
        from ehr_course.sources.meds import load_meds

        return load_meds(folder, **how)
    patients = find_tables(_hosp(folder), _TABLES)["PATIENTS"]
    columns = read_header(patients)
    if "anchor_age" in columns:
        return load_mimic4(patients.parent, date_format=date_format, **how)
    if "dob" in columns:
        return load_mimic3(patients.parent, date_format=date_format, **how)
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


def _read_patients(
    paths: dict[str, Path],
    malformed: Malformed,
    *,
    text: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
) -> Table:
    patients = Table(
        "PATIENTS",
        paths["PATIENTS"],
        text=("gender", *text),
        numbers=("subject_id", *numbers),
        malformed=malformed,
    )
    patients.parse_ids("subject_id")
    sex = pl.col("gender").str.to_uppercase()
    patients.refuse(
        ~sex.is_in(["F", "M"]),
        Reason.BAD_SEX,
        column="gender",
        problem="is not a sex that the tables use",
        remedy="Write F or M.",
    )
    patients.frame = patients.frame.with_columns(sex.alias("sex"))
    return patients


def _one_row_per_patient(patients: Table, columns: tuple[str, ...]) -> None:
    patients.drop_repeated_rows(("subject_id", *columns))
    patients.refuse_differing_rows("subject_id", problem="is a patient with two rows that differ")


def _read_admissions(
    paths: dict[str, Path], patients: Table, malformed: Malformed, date_format: str | None
) -> Table:
    admissions = Table(
        "ADMISSIONS",
        paths["ADMISSIONS"],
        text=("admittime",),
        numbers=("subject_id", "hadm_id"),
        malformed=malformed,
    )
    admissions.ids_read["line"] = admissions.frame["line"]
    admissions.parse_ids("subject_id", "hadm_id")
    admissions.parse_dates("admittime", date_format)
    admissions.drop_repeated_rows(("hadm_id", "subject_id", "admittime"))
    admissions.refuse_differing_rows(
        "hadm_id", problem="is an admission with two rows that differ, in patient or time"
    )
    admissions.drop(_not_in("subject_id", patients.ids_read["subject_id"]), Reason.UNKNOWN_PATIENT)
    admissions.drop(_not_in("subject_id", patients.frame["subject_id"]), Reason.PATIENT_DROPPED)
    return admissions


def _add_age(admissions: Table, patients: Table, age: pl.Expr, source: str) -> None:
    """Give every admission its patient's sex and age, and bring admissions into their order.

    Args:
        admissions: kept admissions, all of kept patients.
        patients: kept patients.
        age: completed years at the admission, from the columns of both tables.
        source: where the birth comes from, for the error.
    """
    admissions.frame = admissions.frame.join(
        patients.frame.drop("line"), on="subject_id", maintain_order="left"
    ).with_columns(age.alias("age"))
    admissions.refuse(
        pl.col("age") < 0,
        Reason.BEFORE_BIRTH,
        column="admittime",
        problem=f"is before the patient's birth by {source}: the age would be negative",
        remedy="Correct either.",
    )
    admissions.frame = admissions.frame.sort("subject_id", "admittime", "hadm_id")


def _read_diagnoses(
    paths: dict[str, Path],
    admissions: Table,
    code: str,
    malformed: Malformed,
    *,
    system: CodeSystem | None,
    map_to: CodeSystem | None,
    version_column: str | None = None,
) -> tuple[Table, Choice]:
    """Read the diagnoses of kept admissions, of the systems that are to be taken.

    Without a version_column all are ICD-9-CM.
    """
    versions = () if version_column is None else (version_column,)
    diagnoses = Table(
        "DIAGNOSES_ICD",
        paths["DIAGNOSES_ICD"],
        text=versions,
        verbatim=(code,),
        numbers=("subject_id", "hadm_id", "seq_num"),
        malformed=malformed,
    )
    diagnoses.parse_ids("hadm_id")
    diagnoses.parse_numbers("subject_id", Reason.BAD_ID)
    # A row without a code often has no sequence number either, so this comes first.
    diagnoses.drop(pl.col(code).str.strip_chars() == "", Reason.NO_CODE)
    diagnoses.parse_numbers("seq_num", Reason.BAD_SEQ_NUM)
    if version_column is None:
        diagnoses.frame = diagnoses.frame.with_columns(icd10=pl.lit(False))
    else:
        diagnoses.refuse(
            ~pl.col(version_column).is_in(["9", "10"]),
            Reason.BAD_VERSION,
            column=version_column,
            problem="is no ICD version",
            remedy="Write 9 or 10.",
        )
        diagnoses.frame = diagnoses.frame.with_columns(icd10=pl.col(version_column) == "10").drop(
            version_column
        )
    counts = count_codes(diagnoses.frame, code)
    choice = choose_systems(diagnoses.file, counts, system=system, map_to=map_to)
    for name, its in (("ICD9CM", ~IS_ICD10), ("ICD10CM", IS_ICD10)):
        if name not in choice.taken:
            diagnoses.drop(its, Reason.OTHER_VERSION)
    # Admissions are in the order of the records, so the row number of one orders its codes.
    kept = admissions.frame
    diagnoses.frame = diagnoses.frame.with_columns(
        pl.col("hadm_id")
        .replace_strict(kept["hadm_id"], pl.int_range(kept.height, eager=True), default=None)
        .cast(pl.UInt32)
        .alias("visit")
    )
    unknown = pl.col("visit").is_null() & _not_in("hadm_id", admissions.ids_read["hadm_id"])
    diagnoses.drop(unknown, Reason.UNKNOWN_ADMISSION)
    diagnoses.drop(pl.col("visit").is_null(), Reason.ADMISSION_DROPPED)
    diagnoses.refuse(
        pl.col("subject_id") != pl.lit(kept["subject_id"]).gather(pl.col("visit")),
        Reason.WRONG_PATIENT,
        column="subject_id",
        problem="is not the patient whom ADMISSIONS names for this admission",
        remedy="Correct either.",
    )
    diagnoses.frame = diagnoses.frame.drop("subject_id", "hadm_id")
    return diagnoses, choice


def _assemble(
    patients: Table,
    admissions: Table,
    diagnoses: Table,
    code_column: str,
    choice: Choice,
    *,
    whole_patients: bool,
    zeros_lost_ok: bool,
) -> Cohort:
    """Put codes in order, drop what is left without a record, and build the records."""
    _check_something_is_left(patients, admissions, diagnoses)
    codes = normalise_codes(diagnoses, code_column, zeros_lost_ok=zeros_lost_ok)
    diagnoses.frame = diagnoses.frame.drop("icd10")
    plan = plan_translation(codes, choice.system)
    absent = drop_absent(diagnoses, plan)
    _check_something_is_left(patients, admissions, diagnoses)
    diagnoses.frame = diagnoses.frame.sort("visit", "seq_num", maintain_order=True)
    drop_repeated_codes(diagnoses, same_row="seq_num", n_codes=len(codes.codes))
    admissions.frame = admissions.frame.with_row_index("visit")
    without_code = _not_in("visit", diagnoses.frame["visit"])
    if not admissions.frame.filter(without_code).is_empty():
        without_row = _not_in("hadm_id", diagnoses.ids_read["hadm_id"])
        admissions.drop(without_row, Reason.NO_DIAGNOSIS)
        admissions.drop(without_code, Reason.DIAGNOSES_DROPPED)
    patients.drop(_not_in("subject_id", admissions.ids_read["subject_id"]), Reason.NO_ADMISSION)
    patients.drop(_not_in("subject_id", admissions.frame["subject_id"]), Reason.ADMISSIONS_DROPPED)
    lost = _lost_admissions(admissions)
    shortened = account_of(lost, admissions.place, are_left_out=whole_patients)
    if whole_patients and shortened is not None:
        _drop_patients(patients, admissions, diagnoses, lost["patient"])
        _check_something_is_left(patients, admissions, diagnoses, shortened)
    coded, translated = translate_rows(diagnoses, plan, absent)
    first_age = pl.col("age").first().over("subject_id")
    records = build_records(
        admissions.frame.select(
            "subject_id",
            "sex",
            first_age.clip(upper_bound=MAX_AGE),
            "hadm_id",
            pl.col("admittime").alias("admitted"),
        ),
        coded,
        plan.codes,
        system=choice.system,
    )
    changed = {
        Change.AGE_90.value: sum(record.age == MAX_AGE for record in records),
        Change.CODE_RESPELLED.value: int(diagnoses.frame["respelled"].sum()),
    }
    tables = tuple(table.account() for table in (patients, admissions, diagnoses))
    notes = (*choice.notes, *codes.notes)
    return Cohort(records, LoadReport(tables, counted(changed), shortened, notes, translated))


def _lost_admissions(admissions: Table) -> pl.DataFrame:
    """Admissions that were dropped, of patients who keep some; see lost_admissions."""
    read = pl.DataFrame(
        {
            "patient": admissions.ids_read["subject_id"],
            "visit": admissions.ids_read["hadm_id"],
            "line": admissions.ids_read["line"],
        }
    )
    return lost_admissions(read, admissions.frame.select(patient="subject_id", visit="hadm_id"))


def _drop_patients(
    patients: Table, admissions: Table, diagnoses: Table, subject_ids: pl.Series
) -> None:
    """Drop patients, because some of their admissions were dropped, and all that is theirs."""
    theirs = pl.col("subject_id").is_in(subject_ids.unique().implode())
    visits = admissions.frame.filter(theirs)["visit"]
    diagnoses.drop(pl.col("visit").is_in(visits.implode()), Reason.ADMISSION_DROPPED)
    admissions.drop(theirs, Reason.PATIENT_DROPPED)
    patients.drop(theirs, Reason.SHORTENED)


def _check_something_is_left(
    patients: Table, admissions: Table, diagnoses: Table, shortened: Shortened | None = None
) -> None:
    if diagnoses.frame.is_empty():
        tables = tuple(table.account() for table in (patients, admissions, diagnoses))
        question = "Are the three tables from one database?"
        raise InputError(
            diagnoses.file,
            "",
            "no row of it can be used" if shortened is None else NOBODY_IS_WHOLE,
            f"{question if shortened is None else KEEP_THEM} What was dropped:\n"
            f"{LoadReport(tables, shortened=shortened)}",
        )


def _not_in(column: str, ids: pl.Series) -> pl.Expr:
    return ~pl.col(column).is_in(ids.unique().implode())
