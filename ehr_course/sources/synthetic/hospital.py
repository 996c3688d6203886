"""Make a cohort: any number of patients, the same on every machine."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ehr_course.code_system import CodeSystem, checked_system
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE, PatientRecord, Visit
from ehr_course.sources.synthetic.case_mix import SEXES, CaseMix, load_case_mix
from ehr_course.sources.synthetic.draws import Draws
from ehr_course.sources.synthetic.icd10_coding import in_icd10
from ehr_course.sources.synthetic.visits import (
    CATCHMENTS,
    PERSON_COLUMNS,
    Pattern,
    People,
    Stays,
    choose_codes,
    make_people,
    make_stays,
)

FIRST_SUBJECT_ID = 10001
FIRST_DAY = np.datetime64("2100-01-01T00:00", "m")

_HADM_PRIME = 99_991  # the largest prime below 100,000
_PATIENTS_AT_ONCE = 2048  # bounds the memory; it does not change the cohort

_PATTERNS = {
    "lessons": Pattern((50, 27, 14, 9), 1.0),
    "mimic3": Pattern((836, 111, 29, 11, 6, 3, 2, 2), 2.09),
}


def make_cohort(
    n_patients: int,
    *,
    seed: int = 0,
    visits: Literal["lessons", "mimic3"] = "lessons",
    hospital: Literal["general", "heart"] = "general",
    system: CodeSystem = "ICD9CM",
    changed: bool = False,
) -> list[PatientRecord]:
    """Make invented patients with real ICD-9-CM or ICD-10-CM codes.

    No patient has a code that `icd9.why_impossible` (or that of `icd10`) rules out at the ages of
    the first admission and the visit, and no visit has two codes that exclude each other by
    ``exclusive.csv``. Chronic codes come back at later visits; a visit's codes begin with the
    principal diagnosis. Admissions lie between 2100 and 2200, as in MIMIC-III, and their numbers
    do not follow time.

    The same arguments give the same cohort on every machine, and a longer cohort begins with the
    shorter one.

    Args:
        n_patients: 0 or more.
        seed: 0 or more.
        visits: "lessons" gives half of the patients 2 to 4 visits, with about 5 codes each.
            "mimic3" gives 1.27 visits a patient and 11 codes a visit, as in MIMIC-III, to test
            speed and size.
        hospital: "general" has births, children and every age. "heart" has adults, most of them
            old, who come for their heart; its codes are among those of "general".
        system: "ICD9CM", or "ICD10CM" for the same patients; see ``icd10_coding``.
        changed: whether the hospital changed from ICD-9-CM to ICD-10-CM in October 2015, in the
            middle of these patients' time, so that some patients have visits of both. Dates do not
            show the change: each patient's are moved by another number of years, as in MIMIC-IV.

    Raises:
        InputError: if an argument is out of its range.

    >>> make_cohort(100, seed=0)[:10] == make_cohort(10, seed=0)
    True
    """
    for name, number, what in (
        ("n_patients", n_patients, "a number of patients"),
        ("seed", seed, "a seed"),
    ):
        if not isinstance(number, int) or number < 0:
            problem, remedy = f"{number!r} is not {what}", "Pass a whole number, 0 or more."
            raise InputError("make_cohort", f"argument {name}", problem, remedy)
    for name, value, known, what in (
        ("visits", visits, _PATTERNS, "not a pattern of visits"),
        ("hospital", hospital, CATCHMENTS, "no hospital of the course"),
    ):
        if value not in known:
            problem, remedy = f"{value!r} is {what}", f"Pass one of {', '.join(map(repr, known))}."
            raise InputError("make_cohort", f"argument {name}", problem, remedy)
    if checked_system(system) == "ICD10CM" and changed:
        raise InputError(
            "make_cohort",
            "arguments system and changed",
            "a hospital that always used ICD-10-CM did not change to it",
            "Leave one of them out.",
        )
    mix = load_case_mix(hospital)
    pattern = _PATTERNS[visits]
    person_draws = Draws(seed, 0, PERSON_COLUMNS + len(mix.clusters))
    calendar_draws = Draws(seed, 1, 3 * len(pattern.number_of_visits))
    chronic_draws = Draws(seed, 2, mix.n_draws + len(mix.clusters))
    visit_draws = Draws(seed, 3, mix.n_draws + len(mix.clusters) + len(mix.codes))

    records: list[PatientRecord] = []
    n_visits = 0
    while len(records) < n_patients:
        count = min(_PATIENTS_AT_ONCE, n_patients - len(records))
        people = make_people(mix, pattern, CATCHMENTS[hospital], person_draws.rows(count))
        stays = make_stays(mix, pattern, people, calendar_draws.rows(count))
        chosen = choose_codes(
            mix,
            pattern,
            people,
            stays,
            chronic_draws.rows(count),
            visit_draws.rows(len(stays.owner)),
        )
        records += _records(mix, people, stays, chosen, len(records), n_visits)
        n_visits += len(stays.owner)
    if system == "ICD10CM" or changed:
        return in_icd10(records, only_later=changed, seed=seed)
    return records


def _records(
    mix: CaseMix,
    people: People,
    stays: Stays,
    chosen: np.ndarray,
    n_patients_before: int,
    n_visits_before: int,
) -> list[PatientRecord]:
    by_rank = np.argsort(mix.rank)
    visit, row = np.nonzero(chosen[:, by_rank])
    codes = mix.codes[by_rank][row].tolist()
    code_ends = np.cumsum(np.bincount(visit, minlength=len(chosen))).tolist()
    admitted = (FIRST_DAY + stays.minute).tolist()
    number = n_visits_before + np.arange(len(stays.owner))
    hadm_ids = _hadm_id(number).tolist()
    visits, start = [], 0
    for time, hadm_id, end in zip(admitted, hadm_ids, code_ends, strict=True):
        visits.append(Visit(tuple(codes[start:end]), time, hadm_id))
        start = end

    records, start = [], 0
    ends = np.cumsum(people.n_visits).tolist()
    ages = np.minimum(people.age, MAX_AGE).tolist()
    for patient, (sex, age, end) in enumerate(zip(people.sex, ages, ends, strict=True)):
        subject_id = FIRST_SUBJECT_ID + n_patients_before + patient
        records.append(PatientRecord(subject_id, SEXES[sex], age, tuple(visits[start:end])))
        start = end
    return records


def _hadm_id(number: np.ndarray) -> np.ndarray:
    """Scatter the numbers 0, 1, 2, ... over 100000 to 199990, then over 200000 to 299990, ..."""
    # Neighbours must rise as often as they fall, which steps of one length cannot do. The seventh
    # power hits every place once, since 7 has no factor in common with the prime less one.
    block, place = np.divmod(number, _HADM_PRIME)
    place = (place + 4321) % _HADM_PRIME
    square = place * place % _HADM_PRIME
    cube = square * place % _HADM_PRIME
    seventh = cube * cube % _HADM_PRIME * place % _HADM_PRIME
    return 100_000 * (block + 1) + (seventh * 61_803 + 17) % _HADM_PRIME
