"""The exercise of lesson 00: a warm-up in reading a check."""

from __future__ import annotations

import random

from ehr_course.exercises.exercise import Arguments, Exercise

Visits = list[list[str]]


def _fresh_patient(rng: random.Random) -> Arguments:
    codes = rng.sample(["4280", "42731", "25000", "4019", "5849", "2724", "0389"], 5)
    visits = [rng.sample(codes, rng.randint(1, 4)) for _ in range(rng.randint(2, 4))]
    return (visits,)


def _distinct_codes(visits: Visits) -> int:
    seen: list[str] = []
    for visit in visits:
        for code in visit:
            if code not in seen:
                seen.append(code)
    return len(seen)


EXERCISES = (
    Exercise(
        id="00.1",
        reference=_distinct_codes,
        chosen=(
            ([["4280", "42731"], ["4280"]],),
            ([["0389"]],),
            ([["25000"], ["25000"], ["25000"]],),
            ([["4280", "4019", "2724"]],),
            ([["4280", "4019"], ["2724"]],),
            ([["4280", "4281"], ["4280"]],),
            ([["0340"], ["340"]],),
            ([["V1000", "1000"], ["100"]],),
            ([["486", "486"]],),
        ),
        fresh=_fresh_patient,
    ),
)
