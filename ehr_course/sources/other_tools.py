"""Cohorts that other tools wrote: lists of visits (PyHealth), OMOP tables and Synthea's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.code_table import cohort_of_rows
from ehr_course.sources.cohort import Change, Cohort, LoadOptions, Reason
from ehr_course.sources.grouping import completed_years
from ehr_course.sources.row_filter import OLDEST, RowFilter, is_in
from ehr_course.sources.tables import (
    check_not_lfs_pointer,
    find_tables,
    is_table,
    read_header,
    read_table,
)

_OMOP_SEXES = {"8507": "M", "8532": "F"}
_A_LIST = (
    "Write a list of patients, each a list of visits, each a list of codes as text; or a list of "
    'objects with "patient_id" and "visits".'
)


# ------------------------------------------------------------------ lists of visits


def load_visit_lists(path: Path, how: LoadOptions) -> Cohort:
    """Load the JSON lists of visits that PyHealth and many generators work with.

    The file holds a list of patients, each a list of visits, each a list of codes; or a list of
    objects with "patient_id" and "visits", and perhaps "age" and "sex" (or "gender").
    """
    file = path.name
    check_not_lfs_pointer(path)
    try:
        patients = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        problem = f"this is not JSON ({error.msg})"
        raise InputError(file, place, problem, "Write it with json.dump.") from None
    except UnicodeDecodeError:
        raise InputError(file, "", "it is not UTF-8 text", "Write JSON as UTF-8.") from None
    if not isinstance(patients, list) or not patients:
        raise InputError(file, "", "it is not a list of patients, or it is empty", _A_LIST)
    schema: dict[str, Any] = {
        **dict.fromkeys(("patient", "visit", "code", "age", "sex"), pl.String),
        **dict.fromkeys(("at_patient", "at_code"), pl.Int64),
    }
    table = pl.DataFrame(_codes_in(file, patients), schema=schema, orient="row")
    where = table.select("at_patient", "visit", "at_code").rows()

    def place_of(line: int) -> str:
        patient, visit, code = where[line - 1]
        return f"patient {patient}, visit {visit}" + (f", code {code}" if code else "")

    table = table.drop("at_patient", "at_code").with_row_index("line", offset=1)
    rows = RowFilter(file, table, place=place_of, malformed=how.malformed)
    return cohort_of_rows(rows, how)


def _codes_in(file: str, patients: list) -> Iterator[tuple]:
    """A row for each code, and one without a code for each visit that has none."""

    def checked_list(value: Any, place: str, of: str) -> list:
        if not isinstance(value, list):
            raise InputError(file, place, f"{value!r} is not a list of {of}", _A_LIST)
        return value

    for number, patient in enumerate(patients, start=1):
        place = f"patient {number}"
        who: list[Any] = [number, None, None]
        visits = patient
        if isinstance(patient, dict):
            if "patient_id" not in patient or "visits" not in patient:
                found = ", ".join(map(str, patient)) or "nothing"
                problem = f"'patient_id' or 'visits' is missing (found: {found})"
                raise InputError(file, place, problem, _A_LIST)
            sex = patient.get("sex", patient.get("gender"))
            who, visits = [patient["patient_id"], patient.get("age"), sex], patient["visits"]
        name, age, sex = (None if value is None else str(value) for value in who)
        # A patient without visits gets one without codes.
        for visit_number, visit in enumerate(checked_list(visits, place, "visits") or [[]], 1):
            where = f"{place}, visit {visit_number}"
            codes = checked_list(visit, where, "codes")
            if not codes:
                yield name, str(visit_number), None, age, sex, number, 0
            for code_number, code in enumerate(codes, start=1):
                if code is not None and not isinstance(code, str):
                    raise InputError(
                        file,
                        f"{where}, code {code_number}",
                        f"{code!r} is not text, and a number has lost its leading zeros",
                        'Write codes as text: "038.9", not 38.9.',
                    )
                yield name, str(visit_number), code, age, sex, number, code_number


# ------------------------------------------------------------------ OMOP


def load_omop(folder: Path, how: LoadOptions) -> Cohort:
    """Load patient records from OMOP's CONDITION_OCCURRENCE, and PERSON if it is there.

    A code is condition_source_value and a visit visit_occurrence_id; rows without either are
    dropped and counted. A visit's time is its first condition_start_date; its codes keep the order
    of the rows. Age at the first visit is by the calendar where PERSON has a valid date of birth,
    else the difference of the years.
    """
    columns = {
        "patient": "person_id",
        "visit": "visit_occurrence_id",
        "code": "condition_source_value",
        "time": "condition_start_date",
    }
    path = find_tables(folder, ["condition_occurrence"])["condition_occurrence"]
    conditions = read_table(
        path, name="CONDITION_OCCURRENCE", text=columns, malformed=how.malformed
    )
    named = conditions.frame.select("patient", "visit", "line")
    # Conditions of the problem list belong to no visit, so records have no place for them.
    conditions.drop(pl.col("visit") == "", Reason.NO_VISIT)
    conditions.drop(pl.col("code") == "", Reason.NO_CODE)
    conditions.parse_dates("time", how.date_format)
    people, changed = [], {}
    if any(is_table(path, "person") for path in folder.iterdir()):
        persons, ids = _persons(find_tables(folder, ["person"])["person"], how)
        _add_people(conditions, persons, ids, born="year_of_birth")
        people = [persons]
        changed = {Change.BIRTH_YEAR: int(persons.frame["impossible"].sum())}
    return cohort_of_rows(conditions, how, other_tables=people, changed=changed, named=named)


def _persons(path: Path, how: LoadOptions) -> tuple[RowFilter, pl.Series]:
    """Return PERSON, one row each, and the ids of all rows, dropped ones included."""
    names, header = ("month_of_birth", "day_of_birth"), read_header(path)
    days = [name for name in names if name in header]
    columns = ("person_id", "gender_concept_id", "year_of_birth", *days)
    people = read_table(
        path, name="PERSON", text={name: name for name in columns}, malformed=how.malformed
    )
    ids = people.frame["person_id"]
    people.add(**{name: pl.lit("") for name in names if name not in days})
    sex = pl.col("gender_concept_id")
    remedy = "Write 8507 (male) or 8532 (female)."
    is_known = sex.is_in(list(_OMOP_SEXES))
    people.refuse(~is_known, Reason.BAD_SEX, "gender_concept_id", remedy=remedy)
    year = "year_of_birth"
    people.parse_numbers(year, Reason.BAD_AGE)
    is_year = pl.col(year).is_between(1, 9999)
    people.refuse(~is_year, Reason.BAD_AGE, year, "is not a year", "Write it as 1950.")
    # Without a day, 1 January makes completed years the difference of the years.
    month, day = pl.col("month_of_birth"), pl.col("day_of_birth")
    written = pl.concat_str(
        year, month.replace("", "1"), day.replace("", "1"), separator="-"
    ).str.to_datetime("%Y-%m-%d", strict=False, time_unit="us")
    complete = pl.when((month != "") & (day != "")).then(written)
    people.add(
        sex=sex.replace_strict(_OMOP_SEXES, default=None),
        impossible=written.is_null(),
        birth=pl.coalesce(complete, pl.date(year, 1, 1)),
    )
    people.one_row_each("person_id")
    return people, ids


# ------------------------------------------------------------------ Synthea


def load_synthea(folder: Path, how: LoadOptions) -> Cohort:
    """Load patient records from Synthea's conditions.csv, patients.csv and encounters.csv.

    Synthea writes SNOMED CT codes: give a code map, or put ICD codes into the column CODE. A
    visit's time is its encounter's START; its codes keep the order of the rows.
    """
    paths = find_tables(folder, ("conditions", "patients", "encounters"))
    patients = read_table(
        paths["patients"],
        name="patients.csv",
        text={"person_id": "id", "birth": "birthdate", "sex": "gender"},
        malformed=how.malformed,
    )
    patients_read = patients.frame["person_id"]
    patients.parse_dates("birth", how.date_format)
    patients.one_row_each("person_id")
    encounters = read_table(
        paths["encounters"],
        name="encounters",
        text={"visit": "id", "time": "start"},
        malformed=how.malformed,
    )
    encounters_read = encounters.frame["visit"]
    encounters.add(time=pl.col("time").str.strip_suffix("Z"))  # 2010-03-05T12:34:56Z
    encounters.parse_dates("time", how.date_format)
    encounters.one_row_each("visit")
    conditions = read_table(
        paths["conditions"],
        name="conditions",
        text={"patient": "patient", "visit": "encounter", "code": "code"},
        malformed=how.malformed,
    )
    named = conditions.frame.select("patient", "visit", "line")
    times = encounters.frame.select("visit", "time")
    conditions.frame = conditions.frame.join(times, on="visit", how="left", maintain_order="left")
    conditions.drop(~is_in("visit", encounters_read), Reason.UNKNOWN_ADMISSION)
    conditions.drop(pl.col("time").is_null(), Reason.ADMISSION_DROPPED)
    _add_people(conditions, patients, patients_read, born="birth")
    return cohort_of_rows(conditions, how, other_tables=[patients, encounters], named=named)


# ------------------------------------------------------------------ both


def _add_people(
    conditions: RowFilter, people: RowFilter, people_read: pl.Series, *, born: str
) -> None:
    """Give conditions their patient's sex, and the age at the first time of their visit.

    born names the column of births in the error; people_read has dropped people too.
    """
    first_visits = conditions.frame.group_by(person_id="patient").agg(first_visit=pl.min("time"))
    people.frame = people.frame.join(
        first_visits, on="person_id", how="left", maintain_order="left"
    )
    is_too_old = (completed_years("birth", "first_visit") > OLDEST).fill_null(False)
    problem = f"makes this patient older than {OLDEST} at the first visit"
    remedy = "Correct it, or the date of that visit."
    people.refuse(is_too_old, Reason.BAD_AGE, born, problem, remedy)
    who = people.frame.select("sex", "birth", patient="person_id", known=True)
    conditions.frame = conditions.frame.join(who, on="patient", how="left", maintain_order="left")
    conditions.drop(~is_in("patient", people_read), Reason.UNKNOWN_PATIENT)
    conditions.drop(pl.col("known").is_null(), Reason.PATIENT_DROPPED)
    conditions.add(began=pl.col("time").min().over("visit"))
    conditions.add(age=completed_years("birth", "began"))
    conditions.frame = conditions.frame.drop("known", "birth", "began")
    conditions.refuse(pl.col("age") < 0, Reason.BEFORE_BIRTH, "time")
    too_late = f"is over {OLDEST} years after the patient's birth"
    is_late = pl.col("age") > OLDEST
    conditions.refuse(is_late, Reason.NO_AGE, "time", too_late, "Correct one of them.")
