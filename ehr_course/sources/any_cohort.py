"""A cohort in any known format, recognised by what the file or folder holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord
from ehr_course.sources.code_table import load_code_table
from ehr_course.sources.cohort import Cohort, LoadOptions, Malformed
from ehr_course.sources.meds import read_meds
from ehr_course.sources.mimic import load_mimic
from ehr_course.sources.other_tools import load_omop, load_synthea, load_visit_lists
from ehr_course.sources.synthetic import make_cohort
from ehr_course.sources.tables import is_table, read_table

VARIABLE = "EHR_COURSE_DATA"
"""The environment variable that names a folder with the tables of real patients."""

PARQUET_FILE = "patients.parquet"
"""The table that ``ehr-course generate --format parquet`` writes."""

_PICKLES = (".pkl", ".pickle", ".p", ".joblib", ".npy", ".npz", ".pt", ".pth")


def load_cohort(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    code_map: Mapping[str, str] | None = None,
    whole_patients: bool = False,
    zeros_lost_ok: bool = False,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
) -> Cohort:
    """Load patient records in any known format, with or without age and sex.

    Args:
        path: what ``generate`` wrote (of several formats the first of MEDS, MIMIC-III and parquet
            is read) or ``prepare``; a folder of MEDS, MIMIC-III, MIMIC-IV, OMOP or Synthea; a .csv
            or .parquet file with a row for each code; or a .json file with lists of visits.
        columns: of a .csv or .parquet file, the columns of "patient", "visit", "code" and perhaps
            "age", "sex", "time", "sequence" and "version" (of ICD), in upper or lower case; others
            are looked for under KNOWN_COLUMNS.
        malformed: what to do with a row that holds a malformed value (an id that is not a number,
            a date that cannot be read, a code of the wrong shape, rows that contradict each
            other): "raise" stops at the first, "drop" leaves them out and counts them.
        date_format: a strptime format, as "%m/%d/%Y %H:%M", for dates written as text, besides
            ISO 8601. Years of two digits are 1969 to 2068.
        code_map: ICD-9-CM or ICD-10-CM codes by the codes of the cohort, for every format but MEDS
            and MIMIC.
        whole_patients: whether to leave out patients who lose some of their admissions; by default
            they keep the others, and are counted.
        zeros_lost_ok: whether to go on, with a note in the report, if ICD-9-CM codes seem to have
            lost their leading zeros.
        system: take only diagnoses coded in this system, "ICD9CM" or "ICD10CM". MIMIC, MEDS and
            perhaps a column say which that is; elsewhere the shapes of the codes do, and if all
            fit both, this is believed.
        map_to: translate diagnoses of the other system into this one; see ``code_translation``. By
            default a cohort in one system stays in it, and one with both becomes ICD-9-CM.

    Raises:
        InputError: naming file, place and remedy.
    """
    path = Path(path)
    how = LoadOptions(
        malformed=malformed,
        date_format=date_format,
        whole_patients=whole_patients,
        zeros_lost_ok=zeros_lost_ok,
        system=system,
        map_to=map_to,
        code_map=code_map,
    )
    kind, place = _kind_of(path)
    if kind == "table":
        return load_code_table(place, how, columns=columns)
    if columns is not None:
        raise InputError(
            path,
            "",
            "its columns have fixed names, so --columns has nothing to say",
            "Leave --columns out, or name a .csv or .parquet file.",
        )
    if kind in ("meds", "mimic") and code_map is not None:
        raise InputError(
            path,
            "",
            "MEDS and MIMIC name the vocabulary of their codes, and ICD is read",
            "Leave the code map out.",
        )
    loaders: dict[str, Callable[[Path, LoadOptions], Cohort]] = {
        "meds": read_meds,
        "mimic": load_mimic,
        "omop": load_omop,
        "synthea": load_synthea,
        "lists": load_visit_lists,
    }
    return loaders[kind](place, how)


def _kind_of(path: Path) -> tuple[str, Path]:
    """Which loader a path is for, and where that loader is to look."""
    name = path.name.lower()
    if name.endswith(_PICKLES):
        raise InputError(
            path,
            "",
            "reading a pickle can run any program that it contains, so it is not opened",
            "Write the visits as JSON: json.dump(visits, file).",
        )
    if path.is_file():
        if name.endswith((".csv", ".csv.gz", ".parquet")):
            return "table", path
        if name.endswith(".json"):
            return "lists", path
        raise InputError(
            path,
            "",
            "this kind of file is not read",
            "Name a .csv, .parquet or .json file, or a folder of MEDS, MIMIC-III, MIMIC-IV, OMOP "
            "or Synthea.",
        )
    if not path.exists():
        what = "file" if path.suffix else "folder"
        raise InputError(path, "", f"there is no such {what}", "Check the path.")
    parts = (path / part for part in ("meds", "mimic3", "records"))
    path = next((part for part in parts if part.is_dir()), path)
    if (path / PARQUET_FILE).is_file():
        return "table", path / PARQUET_FILE

    def holds(table: str) -> bool:
        return any(is_table(file, table) for file in path.iterdir())

    for table, kind in (("condition_occurrence", "omop"), ("conditions", "synthea")):
        if holds(table):
            return kind, path
    if holds("patient") and holds("diagnosis"):
        raise InputError(
            path,
            "",
            "these are tables of eICU, which is read as one table, not as a folder",
            "Join patient.csv to diagnosis.csv by patientunitstayid, and name the table with "
            "--columns patient=uniquepid,visit=patientunitstayid,code=icd9code,age=age,sex=gender,"
            "time=hospitaldischargeyear --date-format %Y",
        )
    return "meds" if any(path.glob("data/**/*.parquet")) else "mimic", path


def takes(path: str | Path, *, what: Literal["columns", "code map"]) -> bool:
    """Whether load_cohort takes columns, or a code map, for a path."""
    kind, _ = _kind_of(Path(path))
    return kind == "table" if what == "columns" else kind not in ("meds", "mimic")


def read_code_map(path: str | Path) -> dict[str, str]:
    """Read the ICD code (column "to") of each code of another vocabulary ("from") from a CSV."""
    path = Path(path)
    if not path.is_file():
        raise InputError(path, "", "there is no such file", "Name a .csv file.")
    table = read_table(path, text={"from": "from", "to": "to"}, malformed="raise")
    table.one_row_each("from")
    empty = table.frame.filter((pl.col("from") == "") | (pl.col("to") == ""))
    if not empty.is_empty():
        place = f"line {empty['line'][0]}"
        raise InputError(path.name, place, "a code is missing", "Write both, or neither.")
    return dict(table.frame.select("from", "to").iter_rows())


# ------------------------------------------------------------------ the patients of a lesson


def real_data() -> Path | None:
    """The folder with the tables of real patients, or None if the variable is unset."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def choose_patients(embedded: int, *, seed: int) -> list[PatientRecord]:
    """The patients of the folder in EHR_COURSE_DATA, malformed rows dropped, or embedded ones."""
    folder = real_data()
    if folder is None:
        return make_cohort(embedded, seed=seed)
    records = load_cohort(folder, malformed="drop").records
    complete = [record for record in records if isinstance(record, PatientRecord)]
    if len(complete) < len(records):
        n_partial = len(records) - len(complete)
        raise InputError(
            folder,
            "",
            f"{n_partial:,} of {len(records):,} patients have no age or no sex",
            f"Let {VARIABLE} name a folder of MIMIC or MEDS tables.",
        )
    return complete
