"""The exercise of lesson 00: a warm-up in reading a check."""

from __future__ import annotations

import random

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

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
        title="How many different codes?",
        parameters=("visits",),
        reference=_distinct_codes,
        chosen=(
            ([["4280", "42731"], ["4280"]],),
            ([["0389"]],),
            ([["25000"], ["25000"], ["25000"]],),
            ([["4280", "4019", "2724"]],),
            ([["4280", "4019"], ["2724"]],),
            ([],),
        ),
        fresh=_fresh_patient,
        misconceptions=(
            Misconception(
                "counts_visits",
                "You counted the visits. len(visits) is the number of admissions; the codes are "
                "one level further in.",
                len,
            ),
            Misconception(
                "counts_repetitions",
                "You counted a code once for every visit it appears in. Heart failure that is "
                "coded at two visits is one code, written down twice.",
                lambda visits: sum(len(visit) for visit in visits),
            ),
            Misconception(
                "first_visit_only",
                "You counted the codes of the first visit only. Later visits can bring new ones.",
                lambda visits: len(visits[0]) if visits else 0,
            ),
            Misconception(
                "returns_the_codes",
                "You returned the codes themselves. The task asks how many there are.",
                lambda visits: {code for visit in visits for code in visit},
            ),
        ),
        hints=(
            "Two loops reach every code: for visit in visits, then for code in visit.",
            "A Python set keeps each element once, however often you add it.",
            "Collect the codes of all visits in one set, and return its len.",
        ),
    ),
)
