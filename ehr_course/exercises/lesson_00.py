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


def _new_codes_of_each_visit(visits: Visits) -> int:
    seen: list[str] = []
    for visit in visits:
        seen += [code for code in visit if code not in seen]
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
            ([["4280", "4281"], ["4280"]],),
            ([["0340"], ["340"]],),
            ([["V1000", "1000"]],),
            ([["486", "486"]],),
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
                "You counted a code each time it is written down. Heart failure that is coded at "
                "two visits is one code, written down twice.",
                lambda visits: sum(len(visit) for visit in visits),
            ),
            Misconception(
                "adds_up_visits",
                "You counted the different codes of each visit and added the counts up. Heart "
                "failure that is coded at two visits is then counted twice.",
                lambda visits: sum(len(set(visit)) for visit in visits),
            ),
            Misconception(
                "first_visit_only",
                "You counted the codes of the first visit only. Later visits can bring new ones.",
                lambda visits: len(set(visits[0])),
            ),
            Misconception(
                "length_of_the_first_visit",
                "You returned the length of the first visit. Later visits can bring new codes, "
                "and a code can stand in a list twice.",
                lambda visits: len(visits[0]),
            ),
            Misconception(
                "last_visit_only",
                "You counted the codes of the last visit only. What is made anew inside a loop "
                "forgets the rounds before.",
                lambda visits: len(set(visits[-1])),
            ),
            Misconception(
                "repeats_within_a_visit",
                "You compared each visit with the visits before it, and not with itself. A code "
                "that stands twice in one visit is still one code.",
                _new_codes_of_each_visit,
            ),
            Misconception(
                "counts_categories",
                "You counted the first three characters only. 4280 and 4281 have them in common, "
                "and are two codes for two kinds of heart failure.",
                lambda visits: len({code[:3] for visit in visits for code in visit}),
            ),
            Misconception(
                "drops_leading_zeros",
                "You took away leading zeros. 0340 is a sore throat and 340 is multiple "
                "sclerosis: a zero in front makes another code.",
                lambda visits: len({code.lstrip("0") for visit in visits for code in visit}),
            ),
            Misconception(
                "reads_codes_as_numbers",
                "You turned codes into numbers. V and E codes are none, which raises; and 0340, a "
                "sore throat, would become 340, multiple sclerosis, which does not.",
                lambda visits: len({int(code) for visit in visits for code in visit}),
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
