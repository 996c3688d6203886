"""The patients of a lesson: those of the embedded hospital, or the learner's own."""

from __future__ import annotations

import os
from pathlib import Path

from ehr_course.records import PatientRecord
from ehr_course.sources.mimic import load
from ehr_course.sources.synthetic import make_cohort

VARIABLE = "EHR_COURSE_DATA"
"""The environment variable that names a folder with the tables of real patients."""


def real_data() -> Path | None:
    """The folder with the tables of real patients, or None where none is named."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def choose_patients(embedded: int, *, seed: int) -> list[PatientRecord]:
    """The patients of the folder that EHR_COURSE_DATA names, or embedded ones.

    Args:
        embedded: how many patients the embedded hospital makes where no folder is named.
        seed: of the embedded hospital.

    Raises:
        InputError: if the folder's tables cannot be read. Rows with a malformed code are dropped.
    """
    folder = real_data()
    if folder is None:
        return make_cohort(embedded, seed=seed)
    records = load(folder, malformed="drop").records
    # MIMIC and MEDS name age and sex, so no record is partial.
    return [record for record in records if isinstance(record, PatientRecord)]
