"""The exercises of lesson 08: data loading."""

from __future__ import annotations

import itertools
import random
from datetime import datetime, timedelta

from ehr_course.exercises.exercise import Arguments, Exercise

_CODES = "4280 42731 25000 4019 5849 2724 0389 486 51881 5990 V3001 V5861 E8497 E9342"
CODES = _CODES.split()


# 08.1 Age at the first admission


def _fresh_birth(rng: random.Random) -> Arguments:
    admitted = datetime(2101, 1, 1) + timedelta(minutes=rng.randrange(80 * 365 * 24 * 60))
    age = rng.choice([rng.randint(0, 88), rng.randint(1, 88), rng.randint(89, 93), 302])
    day = rng.choice([-40, -1, 0, 1, 40, rng.randint(-180, 180)])
    near = admitted.date() + timedelta(days=day)
    # 29 February has chosen inputs of its own; here a birthday exists in every year.
    born = datetime(near.year - age, near.month, min(near.day, 28))
    return min(born, datetime(admitted.year, admitted.month, admitted.day)), admitted


AGE = Exercise(
    id="08.1",
    chosen=[
        tuple(map(datetime.fromisoformat, dates.split()))
        for dates in (
            "2044-10-09 2101-03-05T14:20",
            "2044-03-05 2101-03-05T02:10",
            "2044-03-05 2101-03-04T23:50",
            "2044-10-09 2101-10-05T08:00",
            "2044-05-20 2101-05-03T08:00",
            "2044-10-09 2101-03-20T08:00",
            "2044-04-01 2101-03-31T08:00",
            "2044-10-20 2101-11-05T08:00",
            "2044-03-05 2101-10-20T08:00",
            "2110-03-01 2111-03-01T09:15",
            "2062-01-01 2103-01-01T09:15",
            "2096-03-10 2101-03-10T11:00",
            "2104-02-29 2107-02-28T18:30",
            "2104-02-29 2107-03-01T06:45",
            "2104-02-29 2108-02-29T06:45",
            "2096-02-29 2100-03-01T06:45",
            "2047-02-10 2108-02-29T06:45",
            "2101-07-01 2101-07-01T05:05",
            "2011-01-15 2101-01-14T12:00",
            "2011-01-15 2101-01-15T12:00",
            "2009-12-01 2101-03-01T12:00",
            "1801-06-01 2101-06-01T12:00",
            "1801-06-01 2105-02-01T12:00",
        )
    ],
    fresh=_fresh_birth,
)


# 08.2 Normalise an ICD-9 code


def _as_written(rng: random.Random, code: str) -> str:
    head = 4 if code.startswith("E") else 3
    text = f"{code[:head]}.{code[head:]}" if len(code) > head and rng.random() < 0.6 else code
    text = text.lower() if rng.random() < 0.5 else text
    return " " * rng.randint(0, 1) + text + " " * rng.randint(0, 1)


def _fresh_text(rng: random.Random) -> Arguments:
    if rng.random() < 0.1:
        return (None,)
    return (_as_written(rng, rng.choice(CODES)),)


_TEXTS = "428.0|0389|038.9|042|486|250.00| 4019 |V30.01|v5861|E8497|e849.7| e849.7 "

NORMALIZE = Exercise(
    id="08.2",
    chosen=[*((text,) for text in _TEXTS.split("|")), (None,)],
    fresh=_fresh_text,
)


# 08.3 From rows to visits


def _fresh_admissions(rng: random.Random) -> Arguments:
    n_admissions = rng.randint(2, 3)
    # At least a day apart; two admissions on one day have a chosen input of their own.
    days = rng.sample(range(700), n_admissions)
    admissions, diagnoses = [], []
    n_codes = [rng.choice([1, 2, 3, 11]), *(rng.choice([0, 1, 2, 3]) for _ in days[1:])]
    rng.shuffle(n_codes)
    hadm_ids = rng.sample(range(100, 200), n_admissions)
    for hadm_id, day, n in zip(hadm_ids, days, n_codes, strict=True):
        time = datetime(2101, 6, 1, 0, 5) + timedelta(days=day, minutes=rng.randrange(1400))
        admissions.append((str(hadm_id), _spreadsheet_time(time)))
        codes = enumerate(rng.sample(CODES, n), 1)
        diagnoses += [(str(hadm_id), str(seq_num), code) for seq_num, code in codes]
    rng.shuffle(diagnoses)
    return admissions, diagnoses


def _spreadsheet_time(time: datetime) -> str:
    return f"{time.month}/{time.day}/{time.year} {time.hour}:{time.minute:02}"


ROWS_TO_VISITS = Exercise(
    id="08.3",
    chosen=(
        (
            [("118", "10/2/2101 9:30"), ("105", "9/14/2101 17:05")],
            [("118", "2", "4019"), ("105", "1", "4280"), ("118", "1", "5849")],
        ),
        (
            [("105", "2/1/2102 8:00"), ("118", "11/20/2101 8:00")],
            [("105", "1", "486"), ("118", "2", "25000"), ("118", "1", "4280")],
        ),
        (
            [("130", "5/16/2103 21:40"), ("152", "5/16/2103 7:30"), ("141", "5/16/2103 7:05")],
            [("130", "1", "42731"), ("141", "1", "4019"), ("152", "1", "486")],
        ),
        (
            [("107", "9/4/2101 8:00"), ("108", "4/9/2101 8:00")],
            [("107", "1", "2724"), ("108", "1", "0389")],
        ),
        ([("122", "3/21/2104 6:00"), ("123", "8/30/2104 6:00")], [("123", "1", "V5861")]),
        ([("150", "1/3/2105 12:45")], [("150", str(n), CODES[n]) for n in (2, 10, 1, 11, 9, 3)]),
        (
            [("161", "7/4/2106 1:00"), ("160", "7/25/2106 1:00")],
            [("161", "1", "51881"), ("160", "1", "486")],
        ),
        # One minute, and the same codes: the order of the two visits says nothing.
        (
            [("170", "2/8/2107 4:15"), ("171", "2/8/2107 4:15")],
            [(hadm_id, str(n), CODES[n]) for hadm_id in ("170", "171") for n in (1, 2)],
        ),
        (
            [("180", "8/2/2108 7:00")],
            [("180", str(n), c) for n, c in enumerate(("486", "4019", "486"), 1)],
        ),
    ),
    fresh=_fresh_admissions,
)


# 08.4 Split by patient

Row = tuple[int, int, str]
Split = tuple[list[Row], list[Row], list[str]]


def _fresh_rows(rng: random.Random) -> Arguments:
    rows, hadm_ids = [], iter(rng.sample(range(100, 200), 12))
    subjects = rng.sample(range(1, 60), rng.randint(3, 5))
    for subject in subjects:
        for hadm_id in itertools.islice(hadm_ids, rng.randint(1, 2)):
            rows += [(subject, hadm_id, code) for code in rng.sample(CODES, rng.randint(1, 2))]
    rng.shuffle(rows)
    return rows, rng.randint(1, len(subjects) - 1), rng.randrange(1000)


def _rows(text: str) -> list[Row]:
    """Read rows from "subject hadm code, ..."."""
    parts = (row.split() for row in text.split(","))
    return [(int(subject), int(hadm_id), code) for subject, hadm_id, code in parts]


SPLIT = Exercise(
    id="08.4",
    chosen=(
        (_rows("7 104 4280, 3 101 4019, 7 109 0389, 3 101 25000, 5 102 486, 7 104 4019"), 1, 3),
        (_rows("9 120 5849, 2 121 4280, 9 122 4019, 4 123 486, 2 124 V5861, 4 123 0389"), 2, 0),
        (_rows("1 130 486, 2 131 486, 2 132 4280"), 1, 1),
        (_rows("5 150 486, 5 151 2724, 3 152 4280, 1 153 0389"), 2, 5),
        (_rows("8 140 4019, 6 141 4280, 6 142 4280, 8 143 0389"), 1, 2),
        (_rows("3 160 4280, 16 161 0389, 3 162 V5861"), 1, 4),
        (_rows("4 170 486, 6 171 4019, 4 172 486, 2 173 4280, 9 174 0389"), 3, 7),
        (_rows("5 150 486, 5 150 486, 3 152 4280, 3 152 4280, 1 153 0389, 1 153 0389"), 2, 6),
        (_rows("5 150 486, 5 150 486, 3 152 4280, 3 152 4280, 1 153 0389, 1 153 0389"), 1, 11),
        (_rows("10 180 486, 9 181 4280, 8 182 4019, 33 183 0389, 2 184 V5861, 10 185 2724"), 2, 8),
        # From many patients, sample draws in another way than shuffle.
        ([(n, 200 + n, CODES[n % 7]) for n in range(33, 0, -1)], 5, 9),
    ),
    fresh=_fresh_rows,
)


# 08.5 Count and report what was dropped


def _fresh_code_rows(rng: random.Random) -> Arguments:
    known = sorted(rng.sample(range(100, 130), 3))
    hadm_ids = [*known, rng.choice([n for n in range(100, 130) if n not in known])]
    codes = [*rng.sample(CODES, 3), None, ""]
    rows = [(rng.choice(hadm_ids), rng.choice(codes)) for _ in range(rng.randint(4, 9))]
    return rows, known


COUNT_DROPPED = Exercise(
    id="08.5",
    chosen=(
        ([(101, "4280"), (101, None), (102, "4280"), (999, "486")], [101, 102]),
        ([(101, "4280"), (101, "4019"), (101, "4280")], [101]),
        ([(101, "486"), (101, "486"), (101, "486"), (101, "4019"), (101, "4019")], [101]),
        ([(101, ""), (101, "V3001")], [101]),
        ([(101, "486"), (101, None), (101, "486")], [101]),
        ([(999, None), (999, "486"), (999, "486")], [101]),
        ([(102, "5849"), (101, "4280"), (101, "4280"), (102, "0389")], [101, 102]),
        ([(101, None), (101, None), (101, ""), (101, "")], [101]),
        ([(101, "4019"), (102, "4019")], [101, 102]),
        ([(101, "4280"), (101, "4019"), (101, "4280"), (999, "4019")], [101]),
    ),
    fresh=_fresh_code_rows,
)

# 08.6 One person, several numbers

Registration = tuple[int, str | None, str | None]


def _fresh_registrations(rng: random.Random) -> Arguments:
    n_people = rng.randint(2, 4)
    # Both kinds of card draw from one range, so that numbers of two kinds can be equal.
    numbers = [rng.sample(range(10, 40), 2 * n_people) for _ in range(2)]
    n_rows = rng.randint(5, 12)
    registrations = []
    for subject in rng.sample(range(1, 200), n_rows):
        person = rng.randrange(n_people)
        cards = [
            None if rng.random() < 0.25 else str(kind[2 * person + rng.randrange(2)])
            for kind in numbers
        ]
        registrations.append((subject, *cards))
    return (registrations,)


def _registrations(text: str) -> tuple[list[Registration]]:
    """Read registrations from "12 A4 -, 5 - P7"; a dash stands for None."""
    rows = (row.split() for row in text.split(","))
    return ([(int(subject), _card(one), _card(other)) for subject, one, other in rows],)


def _card(text: str) -> str | None:
    return None if text == "-" else text


FIND_PEOPLE = Exercise(
    id="08.6",
    chosen=[
        _registrations(text)
        for text in (
            "12 A4 -, 5 - C2, 9 A4 C2, 7 - C7",
            "12 A4 -, 5 - P7, 9 A4 P2",
            # A registration that ties two others together: last, first, in the middle.
            "31 A1 -, 8 - P1, 17 A1 P1",
            "17 A1 P1, 31 A1 -, 8 - P1",
            "31 A1 -, 17 A1 P1, 8 - P1",
            # Chains, in and out of order.
            "4 A1 P1, 9 A2 P1, 2 A2 P2, 7 A3 P2",
            "4 A1 P1, 7 A3 P2, 9 A2 P1, 2 A2 P2",
            "50 A1 -, 40 A2 P1, 30 A3 P2, 20 A1 P1, 10 A2 P2",
            "6 A3 P3, 3 A1 P1, 5 A2 P3, 1 A4 P4, 2 A1 P2, 4 A2 P2",
            "5 A5 P4, 4 A4 P4, 3 A4 P3, 2 A3 P3, 1 A3 P2, 6 A6 P6",
            # Two groups that have grown before a registration joins them.
            "1 A1 P1, 2 A1 P2, 3 A3 P3, 4 A3 P4, 5 A5 P2, 6 A5 P4, 7 A7 P7",
            "4 A3 P4, 1 A1 P1, 2 A1 P2, 6 A5 P4, 3 A3 P3, 5 A5 P2",
            # No card at all, and one kind missing throughout.
            "3 - -, 1 - -, 2 A1 -",
            "3 A1 -, 1 A2 -, 2 A1 -",
            "3 - P1, 1 - P2, 2 - P1",
            # The same text as the number of two kinds of card.
            "8 77 -, 5 - 77, 9 78 77",
            "8 77 70, 5 70 77",
            # A card whose first and latest owners were not yet known to be one person.
            "1 A1 -, 2 - P2, 3 A1 P2, 4 A1 -",
            "1 - P1, 2 A2 -, 3 A2 P1, 4 - P1",
            # Everybody agrees in both.
            "20 A1 P1, 10 A1 P1, 30 A2 P2, 15 A2 P2",
            "100 A1 -, 20 A1 -, 3 - P9, 11 A2 P9",
        )
    ],
    fresh=_fresh_registrations,
)

# 08.7 What came back

Coded = list[tuple[str, int]]
"""The codes of a visit, each with its version of the ICD: 9 or 10."""


_TO_ICD10 = {
    "4280": ("I509",),
    "2724": ("E784", "E785"),
    "4010": ("I10",),
    "4011": ("I10",),
    "4019": ("I10",),
    "25000": ("E119",),
    "25060": ("E1140", "E1142", "E1143"),
    "V3000": ("Z3800",),
    "V103": ("Z853",),
    "V173": ("Z8249",),
    "7746": ("P599",),
    "E8889": ("W19XXXA",),
    "5849": ("N179",),
    "486": ("J189",),
}
"""Of the General Equivalence Mappings; E9503 has no equivalent."""


def _as_visits(text: str) -> tuple[Coded, Coded]:
    """Read two visits from "9 4280 486; 10 I509": the version, then the codes."""
    earlier, later = (
        [(code, int(version)) for code in codes]
        for version, *codes in map(str.split, text.split(";"))
    )
    return earlier, later


_OLD = "4280 2724 4011 4019 25000 25060 V3000 V103 V173 E8889 E9503 486 5849"
_NEW = "I509 E784 E785 I10 E119 E1140 E1142 Z3800 Z853 J189 N179"
_ICD9_TEXTS, _POSSIBLE = _OLD.split(), _NEW.split()
_ICD10_TEXTS = [*_POSSIBLE, "E8889", "V103", "V173"]


def _fresh_visits(rng: random.Random) -> Arguments:
    versions = rng.choice([(9, 10), (9, 10), (10, 9), (10, 9), (9, 9), (10, 10)])
    visits = []
    for version in versions:
        texts = _ICD9_TEXTS if version == 9 else _ICD10_TEXTS
        codes = rng.sample(texts, rng.randint(1, 6))
        visits.append([(code, version) for code in codes])
    mapped = {
        code: tuple(rng.sample(_POSSIBLE, rng.choice([1, 1, 2, 3])))
        for code in _ICD9_TEXTS
        if rng.random() < 0.8
    }
    return (*visits, mapped)


CARRIED_OVER = Exercise(
    id="08.7",
    chosen=[
        (*_as_visits(text), _TO_ICD10)
        for text in (
            "9 25000 4280; 10 E119 E785",
            # The same text, which is another disease in the other version.
            "9 E8889 4280; 10 E8889 I509",
            "9 E8889; 10 W19XXXA",
            "9 E8889 486; 10 E8889 N179",
            "10 E8889 I509; 9 E8889 4280",
            "10 V103 I509 J189 E119; 9 V103 4280 486",
            "10 V103; 10 Z853",
            "9 V103 486; 9 Z853 486",
            # Back in time.
            "10 E119 I509; 9 25000",
            "10 E119 I509 N179; 9 4280 486 25000 V3000",
            # Several possible codes, and several that become the same.
            "9 2724 25000; 10 E785",
            "9 2724 25000; 10 E784",
            "9 25060 2724 486; 10 E785 E784 J189",
            "9 25060 486; 10 E1142 I10",
            "9 4011 4019 486; 10 I10",
            "10 I10 E119; 9 4011 4019",
            "10 I10 E119; 9 4010 V173",
            "10 I10 E119; 9 4019 V173",
            "10 E785 E784 I10; 9 2724 486",
            # No equivalent at all.
            "9 E9503 4280; 10 I509 N179 J189",
            "9 E9503; 10 I509",
            "10 F329 I509; 9 E9503 4280",
            # One version.
            "9 4280 25000 486; 9 25000 4280",
            "9 486; 9 5849 4280 486 V173",
            "10 I509 E119; 10 E119 N179 J189",
            "9 4011; 9 4019",
            "9 25000 486; 9 25060 486",
            "10 E1142 J189; 10 E1140 J189",
            "9 25060; 10 E119",
            "9 E8889 V3000 E9503; 9 V3000 E8889 E9503",
            # Letters.
            "9 V3000 7746; 10 Z3800 P599",
            "10 Z3800 P599; 9 V3000 7746",
        )
    ]
    + [
        (*_as_visits("9 486 4280; 9 486"), {}),
        (*_as_visits("10 J189; 9 486"), {}),
        (*_as_visits("9 E8889 486; 10 E8889 J189"), {"486": ("J189",)}),
        (*_as_visits("10 E8889 J189; 9 E8889 486"), {"486": ("J189",)}),
        (
            *_as_visits("9 E9503 2724 486; 10 E785 J189"),
            {"2724": ("E784", "E785"), "486": ("J189",)},
        ),
    ],
    fresh=_fresh_visits,
)

EXERCISES = (
    AGE,
    NORMALIZE,
    ROWS_TO_VISITS,
    SPLIT,
    COUNT_DROPPED,
    FIND_PEOPLE,
    CARRIED_OVER,
)
