"""The same patients as a hospital codes them after October 2015: in ICD-10-CM.

``icd10_codes.csv`` says what each ICD-9-CM code of the case mix becomes. Where ICD-10-CM asks for
more (which side, which trimester), shares, plausible rather than measured, choose among several
codes; the General Equivalence Mappings would give unspecified ones. Its columns:

- ``icd9``: the ICD-9-CM code;
- ``with``: another code of the visit; such rows go before those without;
- ``icd10``: what is written instead: one code, two joined by "+", or nothing;
- ``share``: of the patients for whom the rows of this code and this ``with`` hold, 0 to 1;
- ``title``: the official titles, for the reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

import numpy as np

from ehr_course.icd import icd9
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic.case_mix import packaged_table
from ehr_course.sources.synthetic.draws import hashed

ICD10_FROM = datetime(2015, 10, 1)
"""The day from which hospitals in the United States code in ICD-10-CM."""

_FIRST_DAY, _LAST_DAY = datetime(2008, 1, 1), datetime(2020, 1, 1)
_CHOICE, _DAY = 30, 31  # streams of random numbers
_CHOICES_AT_MOST = 10_000  # more than the file has, so that patients share no numbers


class _Choice(NamedTuple):
    """What a code becomes: ICD-10-CM codes by the end of each one's share, from 0 to 1."""

    beside: str  # another code of the same visit, or ""
    ends: tuple[float, ...]
    written: tuple[tuple[str, ...], ...]
    place: int  # in the file, to draw by


def in_icd10(
    records: Iterable[PatientRecord], *, only_later: bool = False, seed: int = 0
) -> list[PatientRecord]:
    """Return the patients of make_cohort, coded in ICD-10-CM.

    A patient keeps a code from visit to visit. If two codes of a visit become the same, it is
    written once.

    Args:
        records: coded in ICD-9-CM.
        only_later: whether visits before October 2015, dated by first_day, stay in ICD-9-CM.
        seed: 0 or more; the same records and seed give the same codes.
    """
    choices = _choices()
    n_choices = 1 + max(choice.place for of_code in choices.values() for choice in of_code)
    coded = []
    for record in records:
        ids = record.subject_id * _CHOICES_AT_MOST + np.arange(n_choices)
        drawn = hashed(seed, _CHOICE, ids).tolist()
        n_earlier = _n_before_the_change(record, seed) if only_later else 0
        visits = tuple(
            visit if number < n_earlier else _visit_in_icd10(visit, choices, drawn)
            for number, visit in enumerate(record.visits)
        )
        coded.append(replace(record, visits=visits))
    return coded


def first_day(subject_id: int, *, seed: int = 0) -> datetime:
    """Return the day, in 2008 to 2019, on which a patient really first came.

    The hospital's tables hide it, as MIMIC-IV does: all dates of a patient are moved by the same
    number of days.
    """
    span = (_LAST_DAY - _FIRST_DAY).days
    return _FIRST_DAY + timedelta(days=int(hashed(seed, _DAY, np.array([subject_id]))[0] * span))


def _n_before_the_change(record: PatientRecord, seed: int) -> int:
    times = [visit.admitted for visit in record.visits if visit.admitted is not None]
    first = first_day(record.subject_id, seed=seed)
    return sum(first + (time - times[0]) < ICD10_FROM for time in times)


def _visit_in_icd10(
    visit: Visit, choices: Mapping[str, tuple[_Choice, ...]], drawn: list[float]
) -> Visit:
    written: dict[str, None] = {}
    for code in visit.codes:
        choice = next(c for c in choices[code] if not c.beside or c.beside in visit.codes)
        which = next(n for n, end in enumerate(choice.ends) if drawn[choice.place] < end)
        written |= dict.fromkeys(choice.written[which])
    return replace(visit, codes=tuple(written), system="ICD10CM")


@cache
def _choices() -> dict[str, tuple[_Choice, ...]]:
    """What each ICD-9-CM code becomes, choices that ask for another code first."""
    rows = packaged_table("icd10_codes.csv")
    found: dict[str, list[_Choice]] = {}
    keyed = itertools.groupby(rows, key=lambda row: (row["icd9"], row["with"]))
    for place, ((code, beside), its_rows) in enumerate(keyed):
        of_choice = list(its_rows)
        ends = np.cumsum([float(row["share"]) for row in of_choice])
        choice = _Choice(
            icd9.normalize(beside) if beside else "",
            (*ends[:-1].tolist(), 1.0),
            tuple(
                tuple(code.replace(".", "") for code in row["icd10"].split("+") if code)
                for row in of_choice
            ),
            place,
        )
        found.setdefault(icd9.normalize(code), []).append(choice)
    return {
        code: tuple(sorted(of_code, key=lambda choice: not choice.beside))
        for code, of_code in found.items()
    }
