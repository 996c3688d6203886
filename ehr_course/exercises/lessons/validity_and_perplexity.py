"""Exercises 19.3 and 19.4: codes that cannot be, and how well a model foretells visits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean

from ehr_course import icd9
from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.model_to_score import Remembering

# 19.3 Medical validity

Patients = Sequence[tuple[int, str, Sequence[Sequence[str]]]]
Shares = tuple[float, float, float]


def _age_excludes(code: str, age: int, sex: str) -> bool:
    who = icd9.who_can_have(code)
    return who is not None and not who.min_age <= age <= who.max_age


def _sex_excludes(code: str, age: int, sex: str) -> bool:
    who = icd9.who_can_have(code)
    return who is not None and who.sex is not None and who.sex != sex


def _excluded(code: str, age: int, sex: str) -> bool:
    return _age_excludes(code, age, sex) or _sex_excludes(code, age, sex)


def _flags(
    patients: Patients, excluded: Callable[[str, int, str], bool] = _excluded
) -> list[list[list[bool]]]:
    """For each code of each visit of each patient whether it is ruled out."""
    return [
        [[excluded(code, age, sex) for code in visit] for visit in visits]
        for age, sex, visits in patients
    ]


def _all(flags: list[list[list[bool]]]) -> list[bool]:
    return [flag for visits in flags for visit in visits for flag in visit]


def _by_code(flags: list[list[list[bool]]]) -> float:
    return fmean(_all(flags))


def _by_visit(flags: list[list[list[bool]]]) -> float:
    return fmean(any(visit) for visits in flags for visit in visits)


def _by_patient(flags: list[list[list[bool]]]) -> float:
    return fmean(any(map(any, visits)) for visits in flags)


def _three(flags: list[list[list[bool]]]) -> Shares:
    return _by_code(flags), _by_visit(flags), _by_patient(flags)


def _shares(patients: Patients) -> Shares:
    """The reference: every code asked one after the other, then three plain means."""
    return _three(_flags(patients))


_RULED = ("V3001", "7742", "650", "64421", "185", "6000", "2900", "1830")
_FREE = ("4280", "4019", "25000", "486", "5990", "2724")


def _fresh_patients(rng: random.Random) -> Arguments:
    patients = []
    for _ in range(rng.randint(2, 4)):
        visits = []
        for _ in range(rng.randint(1, 3)):
            codes = rng.sample(_FREE, rng.randint(0, 2)) + rng.sample(_RULED, rng.randint(0, 2))
            rng.shuffle(codes)
            visits.append(codes or ["4280"])
        patients.append((rng.choice((0, 8, 30, 64, 85)), rng.choice("FM"), visits))
    return (patients,)


VALIDITY = Exercise(
    id="19.3",
    reference=_shares,
    chosen=(
        ([(64, "M", [["4280", "185"], ["650"]])],),
        ([(64, "F", [["4280", "185"]]), (30, "F", [["650"], ["V3001", "4019", "486"]])],),
        ([(0, "M", [["V3001", "7742"]]), (30, "M", [["V3001", "7742"], ["4280"]])],),
        ([(30, "M", [["650", "V3001"], ["4280", "650"], ["650"]]), (64, "F", [["486"]])],),
        ([(70, "F", [["4280"], ["650", "4280", "4019"]]), (70, "F", [["4280"], ["4019"]])],),
        ([(30, "F", [["650"], ["650"]]), (30, "M", [["486", "4280"], ["486"], ["185"]])],),
        ([(8, "F", [["2900"], ["4280", "2900"]]), (85, "F", [["2900", "185", "650"]])],),
    ),
    fresh=_fresh_patients,
)


# 19.4 Perplexity without a leak

History = Sequence[Sequence[str]]
LogProbs = Callable[[History, Sequence[str]], list[float]]
Two = tuple[float, float]


def _reference(log_probs: LogProbs, patients: Sequence[History]) -> Two:
    """The reference: products of probabilities, and roots of them."""
    n_codes, n_visits = 0, 0
    codes, visits = 1.0, 1.0
    for patient in patients:
        past: list[Sequence[str]] = []
        for visit in patient:
            *of_codes, end = map(math.exp, log_probs(list(past), visit))
            for probability in of_codes:
                codes, visits, n_codes = codes * probability, visits * probability, n_codes + 1
            visits, n_visits = visits * end, n_visits + 1
            past.append(visit)
    return codes ** (-1 / n_codes), visits ** (-1 / n_visits)


_CODES = ("4280", "4019", "486", "25000", "5990")


def _fresh_histories(rng: random.Random) -> Arguments:
    patients = [
        [rng.sample(_CODES, rng.randint(1, 3)) for _ in range(n)]
        for n in (rng.randint(2, 4), *(rng.randint(1, 3) for _ in range(rng.randint(1, 2))))
    ]
    rng.shuffle(patients)
    return Remembering(), patients


PERPLEXITY = Exercise(
    id="19.4",
    reference=_reference,
    chosen=(
        (Remembering(), [[["4280"], ["4280", "4019"]]]),
        (Remembering(), [[["4280", "4019"], ["4019"], ["486", "4019"]]]),
        (Remembering(), [[["4280"], ["486"], ["4280"]], [["4019", "25000", "486"]]]),
        (Remembering(), [[["4280", "486", "4019"]], [["4019"], ["4019"], ["4019", "4280"]]]),
        (Remembering(), [[["4280"]], [["486", "4019"], ["486"]]]),
        (Remembering(), [[["4280"], ["486"], ["4019"], ["4280", "486"]]]),
    ),
    fresh=_fresh_histories,
    tolerance=1e-5,  # a mean in float32 is right too, and exp makes its rounding ten times larger
)

EXERCISES = (VALIDITY, PERPLEXITY)
