"""Cohorts that other tools wrote: lists of visits (PyHealth), OMOP tables and Synthea's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.sources.code_rows import OLDEST, cohort_of_rows
from ehr_course.sources.cohort import Change, Cohort, Reason
from ehr_course.sources.grouping import completed_years
from ehr_course.sources.long_lines import check_not_lfs_pointer
from ehr_course.sources.row_filter import Malformed, RowFilter
from ehr_course.sources.tables import Table, find_tables, read_header

CodeMap = Mapping[str, str] | None

_OMOP_SEXES = {"8507": "M", "8532": "F"}
_A_LIST = (
    "Write a list of patients, each a list of visits, each a list of codes as text; or a list of "
    'objects with "patient_id" and "visits".'
)


# ------------------------------------------------------------------ lists of visits


def load_visit_lists(
    path: Path,
    *,
    malformed: Malformed = "raise",
    code_map: CodeMap = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load the lists of visits that PyHealth and many generators work with, from JSON.

    Args:
        path: a .json file: a list of patients, each a list of visits, each a list of codes; or a
            list of objects with "patient_id" and "visits", and perhaps "age" and "sex" (or
            "gender").
        malformed: whether a malformed code, age or sex raises, or is dropped and counted.
        code_map: ICD-9-CM or ICD-10-CM codes by the codes of the file.
        whole_patients, zeros_lost_ok, system, map_to: as in cohort_of_rows.

    Raises:
        InputError: naming file, patient, visit, code and remedy.
    """
    check_not_lfs_pointer(path)
    try:
        patients = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise InputError(
            path.name,
            f"line {error.lineno}, column {error.colno}",
            f"this is not JSON ({error.msg})",
            "Write it with json.dump.",
        ) from None
    except UnicodeDecodeError:
        raise InputError(path.name, "", "it is not UTF-8 text", "Write JSON as UTF-8.") from None
    if not isinstance(patients, list) or not patients:
        raise InputError(path.name, "", "it is no list of patients, or an empty one", _A_LIST)
    rows = list(_codes_in(path.name, patients))
    schema = {
        "patient": pl.String,
        "visit": pl.String,
        "code": pl.String,
        "age": pl.String,
        "sex": pl.String,
        "at_patient": pl.Int64,
        "at_code": pl.Int64,
    }
    table = pl.DataFrame(rows, schema=schema, orient="row")
    where = table.select("at_patient", "visit", "at_code").rows()

    def place(line: int) -> str:
        patient, visit, code = where[line - 1]
        return f"patient {patient}, visit {visit}" + (f", code {code}" if code else "")

    filtered = RowFilter(
        path.name,
        table.drop("at_patient", "at_code").with_row_index("line", offset=1),
        file=path.name,
        place=place,
        malformed=malformed,
    )
    return cohort_of_rows(
        filtered,
        code_map=code_map,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        system=system,
        map_to=map_to,
    )


def _codes_in(file: str, patients: list) -> Iterator[tuple]:
    """A row for each code, and one without a code for each visit that has none."""
    for number, patient in enumerate(patients, start=1):
        place = f"patient {number}"
        name, age, sex, visits = str(number), None, None, patient
        if isinstance(patient, dict):
            if "patient_id" not in patient or "visits" not in patient:
                found = ", ".join(map(str, patient)) or "nothing"
                problem = f"'patient_id' or 'visits' is missing (found: {found})"
                raise InputError(file, place, problem, _A_LIST)
            name, visits = _text(patient["patient_id"]) or "", patient["visits"]
            age, sex = patient.get("age"), patient.get("sex", patient.get("gender"))
        if not isinstance(visits, list):
            raise InputError(file, place, f"{visits!r} is no list of visits", _A_LIST)
        who = (_text(age), _text(sex), number)
        if not visits:
            yield name, "1", None, *who, 0
        for visit_number, visit in enumerate(visits, start=1):
            where = f"{place}, visit {visit_number}"
            if not isinstance(visit, list):
                raise InputError(file, where, f"{visit!r} is no list of codes", _A_LIST)
            if not visit:
                yield name, str(visit_number), None, *who, 0
            for code_number, code in enumerate(visit, start=1):
                if code is not None and not isinstance(code, str):
                    raise InputError(
                        file,
                        f"{where}, code {code_number}",
                        f"{code!r} is no text, and a number has lost its leading zeros",
                        'Write codes as text: "038.9", not 38.9.',
                    )
                yield name, str(visit_number), code, *who, code_number


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# ------------------------------------------------------------------ OMOP


def load_omop(
    folder: Path,
    *,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    code_map: CodeMap = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records from OMOP's CONDITION_OCCURRENCE, and PERSON where it is there.

    A code is condition_source_value, and a visit visit_occurrence_id; rows without either are
    dropped and counted. A visit's time is its first condition_start_date, and its codes come in
    the order of the rows. The age is that at the first visit: by the calendar where PERSON has
    month_of_birth and day_of_birth and the three are a date, else the difference of the years.

    Args:
        folder: with condition_occurrence, and perhaps person, as .csv or .csv.gz in upper or
            lower case.
        malformed: whether a malformed row raises, or is dropped and counted.
        date_format: a format of strptime that dates may have beside those of ISO 8601.
        code_map: ICD-9-CM or ICD-10-CM codes by those of condition_source_value.
        whole_patients, zeros_lost_ok, system, map_to: as in cohort_of_rows.

    Raises:
        InputError: naming file, line and remedy.
    """
    paths = _tables(folder, "condition_occurrence", "person")
    conditions = Table(
        "CONDITION_OCCURRENCE",
        paths["condition_occurrence"],
        text=(
            "person_id",
            "visit_occurrence_id",
            "condition_source_value",
            "condition_start_date",
        ),
        malformed=malformed,
    )
    conditions.take(
        {
            "patient": "person_id",
            "visit": "visit_occurrence_id",
            "code": "condition_source_value",
            "time": "condition_start_date",
        }
    )
    named = conditions.frame.select("patient", "visit", "line")
    # Conditions of the problem list have no visit, and no record has a place for them.
    conditions.drop(pl.col("visit") == "", Reason.NO_VISIT)
    conditions.drop(pl.col("code") == "", Reason.NO_CODE)
    conditions.parse_dates("time", date_format)
    other_tables, changed = [], {}
    if "person" in paths:
        people = _people_of_omop(paths["person"], malformed)
        _add_people(conditions, people, born="year_of_birth")
        other_tables = [people.account()]
        changed = {Change.BIRTH_YEAR.value: int(people.frame["impossible"].sum())}
    return cohort_of_rows(
        conditions,
        code_map=code_map,
        other_tables=other_tables,
        changed=changed,
        named=named,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        system=system,
        map_to=map_to,
    )


def _people_of_omop(path: Path, malformed: Malformed) -> Table:
    names, header = ("month_of_birth", "day_of_birth"), read_header(path)
    days = [name for name in names if name in header]
    people = Table(
        "PERSON",
        path,
        text=("person_id", "gender_concept_id", "year_of_birth", *days),
        malformed=malformed,
    )
    people.frame = people.frame.with_columns(pl.lit("").alias(n) for n in names if n not in days)
    people.ids_read["person_id"] = people.frame["person_id"]
    sex = pl.col("gender_concept_id")
    people.refuse(
        ~sex.is_in(list(_OMOP_SEXES)),
        Reason.BAD_SEX,
        column="gender_concept_id",
        problem="is not the concept of a sex that the records know",
        remedy="Write 8507 (male) or 8532 (female).",
    )
    people.parse_numbers("year_of_birth", Reason.BAD_AGE)
    people.refuse(
        ~pl.col("year_of_birth").is_between(1, 9999),
        Reason.BAD_AGE,
        column="year_of_birth",
        problem="is not a year",
        remedy="Write it as 1950.",
    )
    # Without a day, the first of January makes completed years the difference of the years.
    month, day = pl.col("month_of_birth"), pl.col("day_of_birth")
    written = pl.concat_str(
        "year_of_birth", month.replace("", "1"), day.replace("", "1"), separator="-"
    ).str.to_datetime("%Y-%m-%d", strict=False, time_unit="us")
    complete = pl.when((month != "") & (day != "")).then(written)
    people.frame = people.frame.with_columns(
        sex.replace_strict(_OMOP_SEXES, default=None).alias("sex"),
        impossible=written.is_null(),
        birth=pl.coalesce(complete, pl.date("year_of_birth", 1, 1)),
    )
    return _one_row_each(people, "person_id")


# ------------------------------------------------------------------ Synthea


def load_synthea(
    folder: Path,
    *,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    code_map: CodeMap = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records from the CSV files of Synthea.

    Synthea writes SNOMED CT codes, and the records of the course hold ICD codes: give a code map,
    or put ICD codes into the column CODE. A visit's time is the START of its encounter, and
    its codes come in the order of the rows.

    Args:
        folder: with conditions.csv, patients.csv and encounters.csv.
        malformed: whether a malformed row raises, or is dropped and counted.
        date_format: a format of strptime that dates may have beside those of ISO 8601.
        code_map: ICD-9-CM or ICD-10-CM codes by the codes of conditions.csv.
        whole_patients, zeros_lost_ok, system, map_to: as in cohort_of_rows.

    Raises:
        InputError: naming file, line and remedy.
    """
    paths = find_tables(folder, ("conditions", "patients", "encounters"))
    patients = Table(
        "patients.csv", paths["patients"], text=("id", "birthdate", "gender"), malformed=malformed
    )
    patients.ids_read["person_id"] = patients.frame["id"]
    patients.parse_dates("birthdate", date_format)
    patients.frame = patients.frame.with_columns(birth="birthdate", sex="gender", person_id="id")
    _one_row_each(patients, "person_id")
    encounters = Table(
        "encounters", paths["encounters"], text=("id", "start"), malformed=malformed
    )
    encounters.ids_read["id"] = encounters.frame["id"]
    # 2010-03-05T12:34:56Z
    encounters.frame = encounters.frame.with_columns(pl.col("start").str.strip_suffix("Z"))
    encounters.parse_dates("start", date_format)
    _one_row_each(encounters, "id")
    conditions = Table(
        "conditions",
        paths["conditions"],
        text=("patient", "encounter", "code"),
        malformed=malformed,
    )
    conditions.take({"patient": "patient", "visit": "encounter", "code": "code"})
    named = conditions.frame.select("patient", "visit", "line")
    conditions.frame = conditions.frame.join(
        encounters.frame.select(visit="id", time="start"),
        on="visit",
        how="left",
        maintain_order="left",
    )
    unknown = ~pl.col("visit").is_in(encounters.ids_read["id"].implode())
    conditions.drop(unknown, Reason.UNKNOWN_ADMISSION)
    conditions.drop(pl.col("time").is_null(), Reason.ADMISSION_DROPPED)
    _add_people(conditions, patients, born="birthdate")
    return cohort_of_rows(
        conditions,
        code_map=code_map,
        other_tables=[patients.account(), encounters.account()],
        named=named,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        system=system,
        map_to=map_to,
    )


# ------------------------------------------------------------------ both


def _tables(folder: Path, needed: str, optional: str) -> dict[str, Path]:
    """The files of a table that is needed and of one that may be missing."""
    paths = find_tables(folder, (needed,))
    if any(is_table(path, optional) for path in folder.iterdir()):
        paths |= find_tables(folder, (optional,))
    return paths


def is_table(path: Path, name: str) -> bool:
    """Whether a file is the table of a name, as .csv or .csv.gz in upper or lower case."""
    return path.name.lower() in (f"{name}.csv", f"{name}.csv.gz")


def _one_row_each(table: Table, column: str) -> Table:
    table.drop_repeated_rows([name for name in table.frame.columns if name != "line"])
    table.refuse_differing_rows(column, problem="stands in two rows that differ")
    return table


def _add_people(conditions: RowFilter, people: Table, *, born: str) -> None:
    """Give conditions the sex of their patient, and the age at the first time of their visit.

    Args:
        conditions: with "patient", "visit" and "time".
        people: with "person_id", "sex" and "birth".
        born: the column that a birth comes from, for the error.
    """
    first_visit = pl.col("time").min().alias("first_visit")
    people.frame = people.frame.join(
        conditions.frame.group_by(person_id="patient").agg(first_visit),
        on="person_id",
        how="left",
        maintain_order="left",
    )
    people.refuse(
        (completed_years("birth", "first_visit") > OLDEST).fill_null(False),
        Reason.BAD_AGE,
        column=born,
        problem=f"makes this patient older than {OLDEST} at the first visit",
        remedy="Correct it, or the date of that visit.",
    )
    who = people.frame.select("sex", "birth", patient="person_id", known=True)
    conditions.frame = conditions.frame.join(who, on="patient", how="left", maintain_order="left")
    unknown = ~pl.col("patient").is_in(people.ids_read["person_id"].implode())
    conditions.drop(unknown, Reason.UNKNOWN_PATIENT)
    conditions.drop(pl.col("known").is_null(), Reason.PATIENT_DROPPED)
    first = pl.col("time").min().over("visit")
    conditions.frame = (
        conditions.frame.with_columns(first.alias("began"))
        .with_columns(completed_years("birth", "began").alias("age"))
        .drop("known", "birth", "began")
    )
    for bad, reason, problem in (
        (pl.col("age") < 0, Reason.BEFORE_BIRTH, "is before the patient's birth"),
        (
            pl.col("age") > OLDEST,
            Reason.NO_AGE,
            f"is over {OLDEST} years after the patient's birth",
        ),
    ):
        conditions.refuse(bad, reason, column="time", problem=problem, remedy="Correct either.")
