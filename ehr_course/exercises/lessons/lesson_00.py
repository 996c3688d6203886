"""The exercises of lesson 00: a warm-up in reading a check, and a climb for those who want one."""

from __future__ import annotations

import random

from ehr_course.exercises.exercise import Arguments, Exercise


def _fresh_patient(rng: random.Random) -> Arguments:
    codes = rng.sample(["4280", "42731", "25000", "4019", "5849", "2724", "0389"], 5)
    visits = [rng.sample(codes, rng.randint(1, 4)) for _ in range(rng.randint(2, 4))]
    return (visits,)


def _fresh_patients(rng: random.Random) -> Arguments:
    codes = ["4280", "42731", "25000", "4019", "5849", "2724", "0389", "V5867"]
    most = rng.randint(3, 6)
    patients = [
        rng.sample(codes[: most + 2], rng.randint(1, most)) for _ in range(rng.randint(3, 14))
    ]
    if rng.random() < 0.25:  # a twin: the same codes, now and then in the same order
        patients.append(list(rng.choice(patients)))
    i = rng.randrange(len(patients))
    if rng.random() < 0.5:  # a long record among others that lack one code or two of it
        mine = rng.sample(codes, rng.randint(3, 5))
        others = [
            [code for code in mine if code not in rng.sample(mine, rng.randint(1, 2))]
            for _ in range(rng.randint(2, 8))
        ]
        patients = [*patients[:i], mine, *patients[i:], *others]
    return patients, i


EXERCISES = (
    Exercise(
        id="00.1",
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
    Exercise(
        id="00.2",
        chosen=(
            # one code is this patient's alone; two are common, and together nobody else's
            ([["4280", "42731", "25000"], ["4280", "42731"], ["4280"], ["42731", "4019"]], 0),
            ([["4280", "4019"], ["4280", "42731"], ["42731", "4019"]], 1),
            (
                [
                    ["4280", "42731"],
                    ["42731", "25000", "4019"],
                    ["42731"],
                    ["4280", "42731", "25000"],
                ],
                3,
            ),
            # a twin, in the same order and in another, and one who has all of it and more
            ([["4280", "42731"], ["25000"], ["4280", "42731"], ["4019"]], 0),
            ([["4280", "42731"], ["42731", "4280"]], 0),
            ([["42731", "4280"], ["4280", "42731", "25000"], ["25000"]], 0),
            # all codes are needed
            (
                [
                    ["4280", "42731"],
                    ["4280", "42731", "25000"],
                    ["42731", "25000"],
                    ["4280", "25000"],
                ],
                1,
            ),
            (
                [
                    ["4280", "42731", "25000", "4019"],
                    ["4280", "42731", "25000"],
                    ["4280", "42731", "4019"],
                    ["4280", "25000", "4019"],
                    ["42731", "25000", "4019"],
                ],
                0,
            ),
            ([["4280"], ["4280", "42731"]], 0),
            ([["4280"], ["42731"]], 1),
            ([["4280", "42731"], ["42731"]], 0),
            ([["4280", "42731", "25000"], ["4280"], ["42731"], ["25000"]], 0),
            # what can be left out first is what should stay
            ([["25000", "4280", "42731"], ["4280"], ["42731"]], 0),
            ([["4280", "42731", "25000"], ["4280"], ["42731"]], 0),
            # a code inside another code
            ([["340", "4019"], ["0340", "4019"]], 0),
            # the rarest code is not in the best pair
            (
                [
                    ["4280", "42731", "0389"],
                    ["0389", "4280"],
                    ["0389", "42731"],
                    ["4280"],
                    ["4280", "2724"],
                    ["42731"],
                    ["42731", "2724"],
                ],
                0,
            ),
            (
                [
                    ["2724", "25000", "4019", "5849"],
                    ["25000"],
                    ["4019", "2724", "25000"],
                    ["4280", "2724", "4019", "5849"],
                    ["5849"],
                ],
                0,
            ),
        ),
        fresh=_fresh_patients,
    ),
)
