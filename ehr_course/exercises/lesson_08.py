"""The exercises of lesson 08: data loading."""

from __future__ import annotations

import itertools
import random
import re
from calendar import isleap
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

CODES = (
    "4280",
    "42731",
    "25000",
    "4019",
    "5849",
    "2724",
    "0389",
    "486",
    "51881",
    "5990",
    "V3001",
    "V5861",
    "E8497",
    "E9342",
)


# 08.1 Age at the first admission


def _birthday(born: date, year: int) -> date:
    """The day in a year on which another year of life is complete."""
    if (born.month, born.day) == (2, 29) and not isleap(year):
        return date(year, 3, 1)
    return date(year, born.month, born.day)


def _years(born: datetime, admitted: datetime) -> int:
    """Count the birthdays, one by one."""
    years = range(born.year + 1, admitted.year + 1)
    return sum(_birthday(born, year) <= admitted.date() for year in years)


def _still_to_come(born: datetime, admitted: datetime) -> bool:
    return admitted.date() < _birthday(born, admitted.year)


def _year_difference(born: datetime, admitted: datetime) -> int:
    return admitted.year - born.year


def _days(born: datetime, admitted: datetime) -> int:
    return (admitted - born).days


def _cap_only_the_shifted(born: datetime, admitted: datetime) -> int:
    years = _years(born, admitted)
    return 90 if years > 150 else years


def _by_replaced_year(born: datetime, admitted: datetime) -> int:
    to_come = admitted < born.replace(year=admitted.year)
    return min(_year_difference(born, admitted) - to_come, 90)


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
    title="Age at the first admission",
    parameters=("born", "admitted"),
    reference=lambda born, admitted: min(_years(born, admitted), 90),
    chosen=(
        (datetime(2044, 10, 9), datetime(2101, 3, 5, 14, 20)),
        (datetime(2044, 3, 5), datetime(2101, 3, 5, 2, 10)),
        (datetime(2044, 3, 5), datetime(2101, 3, 4, 23, 50)),
        (datetime(2044, 10, 9), datetime(2101, 10, 5, 8, 0)),
        (datetime(2044, 5, 20), datetime(2101, 5, 3, 8, 0)),
        (datetime(2044, 10, 9), datetime(2101, 3, 20, 8, 0)),
        (datetime(2044, 4, 1), datetime(2101, 3, 31, 8, 0)),
        (datetime(2044, 10, 20), datetime(2101, 11, 5, 8, 0)),
        (datetime(2044, 3, 5), datetime(2101, 10, 20, 8, 0)),
        (datetime(2110, 3, 1), datetime(2111, 3, 1, 9, 15)),
        (datetime(2062, 1, 1), datetime(2103, 1, 1, 9, 15)),
        (datetime(2096, 3, 10), datetime(2101, 3, 10, 11, 0)),
        (datetime(2104, 2, 29), datetime(2107, 2, 28, 18, 30)),
        (datetime(2104, 2, 29), datetime(2107, 3, 1, 6, 45)),
        (datetime(2104, 2, 29), datetime(2108, 2, 29, 6, 45)),
        (datetime(2096, 2, 29), datetime(2100, 3, 1, 6, 45)),
        (datetime(2047, 2, 10), datetime(2108, 2, 29, 6, 45)),
        (datetime(2101, 7, 1), datetime(2101, 7, 1, 5, 5)),
        (datetime(2011, 1, 15), datetime(2101, 1, 14, 12, 0)),
        (datetime(2011, 1, 15), datetime(2101, 1, 15, 12, 0)),
        (datetime(2009, 12, 1), datetime(2101, 3, 1, 12, 0)),
        (datetime(1801, 6, 1), datetime(2101, 6, 1, 12, 0)),
        (datetime(1801, 6, 1), datetime(2105, 2, 1, 12, 0)),
    ),
    fresh=_fresh_birth,
    misconceptions=(
        Misconception(
            "year_difference",
            "You subtracted the years alone. Whoever has the birthday still to come in the year "
            "of admission comes out one year too old.",
            lambda born, admitted: min(_year_difference(born, admitted), 90),
        ),
        Misconception(
            "year_difference_uncapped",
            "You subtracted the years alone, and let every age stand. A birthday still to come "
            "makes the age one too large, and the births that MIMIC-III moved give 300 years.",
            _year_difference,
        ),
        Misconception(
            "days_by_365",
            "You divided the days by 365. Leap years are longer, so a day is gained every four "
            "years: at 57, the birthday comes two weeks early.",
            lambda born, admitted: min(_days(born, admitted) // 365, 90),
        ),
        Misconception(
            "days_by_365_25",
            "You divided the days by 365.25. No year has that length: on some birthdays the "
            "quotient is still just below the whole number, and the age one too small.",
            lambda born, admitted: min(int(_days(born, admitted) / 365.25), 90),
        ),
        Misconception(
            "birthday_not_counted",
            "Your ages change on the day after the birthday. On the birthday itself the year is "
            "complete.",
            lambda born, admitted: min(
                _year_difference(born, admitted)
                - ((admitted.month, admitted.day) <= (born.month, born.day)),
                90,
            ),
        ),
        Misconception(
            "day_without_its_month",
            "You compared the days of the month whatever the months are. 5 November is after "
            "20 October, although 5 is less than 20.",
            lambda born, admitted: min(
                _year_difference(born, admitted)
                - (admitted.month < born.month or admitted.day < born.day),
                90,
            ),
        ),
        Misconception(
            "replaces_the_year",
            "You moved the date of birth into the year of admission. 29 February does not exist "
            "in most years, and Python refuses to make it: those patients raise an exception.",
            _by_replaced_year,
        ),
        Misconception(
            "uncapped",
            "The years are right, but you let ages above 89 stand. MIMIC-III moves those births "
            "back, so that a patient seems to be 300; the record says 90 for all of them.",
            _years,
        ),
        Misconception(
            "caps_only_the_shifted",
            "You made 90 of the ages of 300 years alone, and let 91 stand. 91 is just as "
            "recognisable; the limit is on ages, not on the births that were moved.",
            _cap_only_the_shifted,
        ),
        Misconception(
            "cap_before_the_birthday",
            "You capped first, and took off a year for the birthday afterwards. A patient above "
            "89 with the birthday still to come is then 89.",
            lambda born, admitted: (
                min(_year_difference(born, admitted), 90) - _still_to_come(born, admitted)
            ),
        ),
    ),
    hints=(
        "The difference of the years is right, or one too large. On what does it depend?",
        "Compare month and day of the admission with month and day of the birth. Python compares "
        "tuples from left to right.",
        "Take off one year where (month, day) of the admission is less than that of the birth. "
        "Apply the limit of 90 last.",
    ),
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


def _plain(text: str | None) -> str | None:
    return None if text is None else re.sub(r"[^0-9A-Z]", "", text.upper())


def _unless_missing(wrong: Callable[[str], object]) -> Callable[[str | None], object]:
    return lambda text: None if text is None else wrong(text)


NORMALIZE = Exercise(
    id="08.2",
    title="Normalise an ICD-9 code",
    parameters=("text",),
    reference=_plain,
    chosen=(
        ("428.0",),
        ("0389",),
        ("038.9",),
        ("042",),
        ("486",),
        ("250.00",),
        (" 4019 ",),
        ("V30.01",),
        ("v5861",),
        ("E8497",),
        ("e849.7",),
        (" e849.7 ",),
        (None,),
    ),
    fresh=_fresh_text,
    misconceptions=(
        Misconception(
            "integer_parse",
            "You read the code as a whole number. 038.9 loses its zero and becomes 389, hearing "
            "loss instead of septicemia; V and E codes are no numbers at all, and raise.",
            _unless_missing(lambda text: str(int(_plain(text)))),
        ),
        Misconception(
            "loses_leading_zeros",
            "Codes of digits lose their leading zeros. They are part of the code: 0389 is "
            "septicemia, 389 is hearing loss.",
            _unless_missing(lambda text: _plain(text).lstrip("0")),
        ),
        Misconception(
            "keeps_the_dot",
            "You left the dot in. MIMIC writes codes without it, so 428.0 and 4280 would be two "
            "different codes.",
            _unless_missing(lambda text: text.strip().upper()),
        ),
        Misconception(
            "keeps_lower_case",
            "You left lower case as it was. e8497 and E8497 would be two different codes.",
            _unless_missing(lambda text: text.strip().replace(".", "")),
        ),
        Misconception(
            "keeps_spaces",
            "You left the spaces around the code. Nobody sees them, and yet ' 4019 ' and '4019' "
            "would be two different codes.",
            _unless_missing(lambda text: text.replace(".", "").upper()),
        ),
        Misconception(
            "drops_letters",
            "You kept the digits alone. Without its letter a code is another code: V30.01, a "
            "newborn, becomes 3001, a dissociative disorder.",
            _unless_missing(lambda text: re.sub("[A-Z]", "", _plain(text))),
        ),
        Misconception(
            "missing_raises",
            "Your function takes every value for text. A missing code is None, which has no "
            "methods of text, and one such row stops the loading of a whole hospital.",
            lambda text: text.strip().replace(".", "").upper(),
        ),
        Misconception(
            "missing_as_text",
            "You turned a missing code into text. str(None) is 'None': from then on patients "
            "have a diagnosis of that name.",
            lambda text: _plain(str(text)),
        ),
    ),
    hints=(
        "Text has methods for each of the three steps: strip, replace, upper.",
        "None has no such methods. Deal with it before the first of them.",
        "Return None for None. Otherwise remove the spaces around the code, replace the dot by "
        "nothing, and put the letters in upper case.",
    ),
)


# 08.3 From rows to visits

AdmissionRows = Sequence[tuple[str, str]]
DiagnosisRows = Sequence[tuple[str, str, str]]
Visits = list[list[str]]
_MONTH_FIRST = "%m/%d/%Y %H:%M"


def _visits(
    admissions: AdmissionRows,
    diagnoses: DiagnosisRows,
    *,
    admission_order: Callable[[tuple[str, str]], object] | None = None,
    seq_order: Callable[[str], object] | None = int,
    keep_empty: bool = False,
) -> Visits:
    """Put the rows in order, admission by admission; None as an order leaves the file's own.

    Without an admission_order the admissions come by time.
    """
    by_time = admission_order or (lambda row: datetime.strptime(row[1], _MONTH_FIRST))
    visits = []
    for hadm_id, _ in sorted(admissions, key=by_time):
        rows = [row for row in diagnoses if row[0] == hadm_id]
        if seq_order is not None:
            rows = sorted(rows, key=lambda row: seq_order(row[1]))
        visits.append([code for _, _, code in rows])
    return [codes for codes in visits if codes or keep_empty]


def _file_order(row: tuple[str, str]) -> object:
    return 0


def _hadm_order(row: tuple[str, str]) -> object:
    return int(row[0])


def _text_order(row: tuple[str, str]) -> object:
    return row[1]


def _day_first_order(row: tuple[str, str]) -> object:
    return datetime.strptime(row[1], "%d/%m/%Y %H:%M")


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
    title="From rows to visits",
    parameters=("admissions", "diagnoses"),
    reference=_visits,
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
        (
            [("122", "3/21/2104 6:00"), ("123", "8/30/2104 6:00")],
            [("123", "1", "V5861")],
        ),
        (
            [("150", "1/3/2105 12:45")],
            [("150", str(n), CODES[n]) for n in (2, 10, 1, 11, 9, 3)],
        ),
        (
            [("161", "7/4/2106 1:00"), ("160", "7/25/2106 1:00")],
            [("161", "1", "51881"), ("160", "1", "486")],
        ),
    ),
    fresh=_fresh_admissions,
    misconceptions=(
        Misconception(
            "order_by_hadm_id",
            "You ordered the visits by HADM_ID. It is a name made of digits, drawn at random when "
            "the data were de-identified: it says nothing about time.",
            lambda a, d: _visits(a, d, admission_order=_hadm_order),
        ),
        Misconception(
            "file_order",
            "You left the visits in the order of the admissions' rows. No one promised that a "
            "file is sorted by time; a second visit comes out before the first.",
            lambda a, d: _visits(a, d, admission_order=_file_order),
        ),
        Misconception(
            "times_as_text",
            "You compared the times as text. Text compares character by character, so October "
            "('10/2') comes before September ('9/14').",
            lambda a, d: _visits(a, d, admission_order=_text_order),
        ),
        Misconception(
            "day_before_month",
            "You read the day before the month. 10/2/2101 is 2 October here: most of the other "
            "reading gives a wrong date, and from the 13th on none at all.",
            lambda a, d: _visits(a, d, admission_order=_day_first_order),
        ),
        Misconception(
            "seq_num_ignored",
            "The visits are in order, but you left the codes of a visit in the order of their "
            "rows. SEQ_NUM is their importance, and 1 is the main reason for the admission.",
            lambda a, d: _visits(a, d, seq_order=None),
        ),
        Misconception(
            "seq_num_as_text",
            "You compared SEQ_NUM as text. Text compares character by character, so the tenth "
            "diagnosis comes before the second.",
            lambda a, d: _visits(a, d, seq_order=str),
        ),
        Misconception(
            "times_and_seq_num_as_text",
            "You compared times and sequence numbers as text. Text compares character by "
            "character: October ('10/2') comes before September ('9/14'), and 10 before 2.",
            lambda a, d: _visits(a, d, admission_order=_text_order, seq_order=str),
        ),
        Misconception(
            "nothing_sorted",
            "You sorted nothing: visits and codes are in the order of their rows. No one promised "
            "that a file is sorted, neither by time nor by SEQ_NUM.",
            lambda a, d: _visits(a, d, admission_order=_file_order, seq_order=None),
        ),
        Misconception(
            "keeps_empty_visits",
            "You kept an admission without any diagnosis as an empty visit. The task leaves it "
            "out: a visit without codes tells a model nothing.",
            lambda a, d: _visits(a, d, keep_empty=True),
        ),
    ),
    hints=(
        "Two orders are needed: admissions by time, and the codes of each by SEQ_NUM. Everything "
        "in a CSV file is text; of what types should the two be?",
        'datetime.strptime(text, "%m/%d/%Y %H:%M") reads such a time, and int reads a sequence '
        "number.",
        "Collect the codes of each admission in a dictionary, going through the diagnoses by "
        "rising SEQ_NUM. Then go through the admissions by time and take the codes of each that "
        "has any.",
    ),
)


# 08.4 The category of a code


def _category(code: str) -> str:
    return re.match(r"[0-9]{3}|V[0-9]{2}|E[0-9]{3}", code)[0]


CATEGORY = Exercise(
    id="08.4",
    title="The category of a code",
    parameters=("code",),
    reference=_category,
    chosen=(
        ("4280",),
        ("42731",),
        ("0389",),
        ("486",),
        ("V3001",),
        ("V502",),
        ("E8497",),
        ("E9342",),
        ("E849",),
    ),
    fresh=lambda rng: (rng.choice(CODES),),
    misconceptions=(
        Misconception(
            "first_three",
            "You took three characters of every code. E codes have a letter and three digits: "
            "E84 is no category, and E849 (the place) and E848 (a vehicle) become one.",
            lambda code: code[:3],
        ),
        Misconception(
            "four_for_v",
            "You took four characters of V codes as well. V30 is the category of newborns; V300 "
            "is already a detail of it.",
            lambda code: code[:4] if code[0] in "EV" else code[:3],
        ),
        Misconception(
            "four_for_all",
            "You took four characters of every code. In a code of digits the fourth is already "
            "detail: 4280 is one kind of heart failure, 428 is heart failure.",
            lambda code: code[:4],
        ),
        Misconception(
            "splits_at_the_dot",
            "Your function returns every code as it came. Codes of MIMIC have no dot, so there is "
            "nothing to split at.",
            lambda code: code,
        ),
        Misconception(
            "cuts_the_last",
            "You cut off the last character. Detail has two digits in some codes and none in "
            "others: 42731 keeps one too many, and 486 loses one.",
            lambda code: code[:-1],
        ),
        Misconception(
            "drops_the_letter",
            "You took three digits and dropped the letter. Without it the category is another: "
            "V3001, a newborn, lands in 300, the anxiety disorders.",
            lambda code: code.lstrip("EV")[:3],
        ),
    ),
    hints=(
        "How many characters stand before the dot in 428.0, in V30.01 and in E849.7?",
        "One kind of code needs four characters. Its first letter gives it away.",
        "Take the first four characters where the code starts with E, and the first three "
        "otherwise.",
    ),
)


# 08.5 Split by patient

Row = tuple[int, int, str]
Split = tuple[list[Row], list[Row], list[str]]


def _split_at(rows: Sequence[Row], is_test: Callable[[Row], bool]) -> Split:
    train = [row for row in rows if not is_test(row)]
    test = [row for row in rows if is_test(row)]
    return train, test, _vocabulary(train)


def _vocabulary(rows: Sequence[Row]) -> list[str]:
    return sorted({code for _, _, code in rows})


def _first(rows: Sequence[Row], n: int, column: int) -> list[int]:
    """The first n different values of a column, as the rows name them."""
    found: list[int] = []
    for row in rows:
        if row[column] not in found:
            found.append(row[column])
    return found[:n]


def _split_patients(rows: Sequence[Row], n_test: int) -> Split:
    subjects = _first(rows, n_test, 0)
    return _split_at(rows, lambda row: row[0] in subjects)


def _split_admissions(rows: Sequence[Row], n_test: int) -> Split:
    admissions = _first(rows, n_test, 1)
    return _split_at(rows, lambda row: row[1] in admissions)


def _split_rows(rows: Sequence[Row], n_test: int) -> Split:
    return list(rows[n_test:]), list(rows[:n_test]), _vocabulary(rows[n_test:])


def _subjects_of_first_rows(rows: Sequence[Row], n_test: int) -> Split:
    subjects = [row[0] for row in rows[:n_test]]
    return _split_at(rows, lambda row: row[0] in subjects)


def _with_vocabulary_of_all(rows: Sequence[Row], n_test: int) -> Split:
    train, test, _ = _split_patients(rows, n_test)
    return train, test, _vocabulary(rows)


def _split_set_order(rows: Sequence[Row], n_test: int) -> Split:
    subjects = list({row[0] for row in rows})[:n_test]
    return _split_at(rows, lambda row: row[0] in subjects)


def _split_smallest_ids(rows: Sequence[Row], n_test: int) -> Split:
    subjects = sorted({row[0] for row in rows})[:n_test]
    return _split_at(rows, lambda row: row[0] in subjects)


def _vocabulary_unsorted(rows: Sequence[Row], n_test: int) -> Split:
    train, test, _ = _split_patients(rows, n_test)
    return train, test, list(dict.fromkeys(code for _, _, code in train))


def _vocabulary_repeated(rows: Sequence[Row], n_test: int) -> Split:
    train, test, _ = _split_patients(rows, n_test)
    return train, test, sorted(code for _, _, code in train)


def _test_first(rows: Sequence[Row], n_test: int) -> Split:
    train, test, vocabulary = _split_patients(rows, n_test)
    return test, train, vocabulary


def _fresh_rows(rng: random.Random) -> Arguments:
    rows, hadm_ids = [], iter(rng.sample(range(100, 200), 12))
    subjects = rng.sample(range(1, 60), rng.randint(3, 5))
    for subject in subjects:
        for hadm_id in itertools.islice(hadm_ids, rng.randint(1, 2)):
            rows += [(subject, hadm_id, code) for code in rng.sample(CODES, rng.randint(1, 2))]
    rng.shuffle(rows)
    return rows, rng.randint(1, len(subjects) - 1)


SPLIT = Exercise(
    id="08.5",
    title="Split by patient",
    parameters=("rows", "n_test"),
    reference=_split_patients,
    chosen=(
        (
            [
                (7, 104, "4280"),
                (3, 101, "4019"),
                (7, 109, "0389"),
                (3, 101, "25000"),
                (5, 102, "486"),
                (7, 104, "4019"),
            ],
            1,
        ),
        (
            [
                (9, 120, "5849"),
                (2, 121, "4280"),
                (9, 122, "4019"),
                (4, 123, "4280"),
                (2, 124, "V5861"),
                (4, 125, "2724"),
                (4, 123, "0389"),
            ],
            2,
        ),
        ([(1, 130, "486"), (2, 131, "486"), (2, 132, "4280")], 1),
        ([(5, 150, "486"), (5, 151, "2724"), (3, 152, "4280"), (1, 153, "0389")], 2),
        ([(8, 140, "4019"), (6, 141, "4280"), (6, 142, "4280"), (8, 143, "0389")], 1),
        ([(3, 160, "4280"), (16, 161, "0389"), (3, 162, "V5861")], 1),
        (
            [
                (4, 170, "486"),
                (6, 171, "4019"),
                (4, 172, "486"),
                (2, 173, "4280"),
                (9, 174, "0389"),
            ],
            3,
        ),
    ),
    fresh=_fresh_rows,
    misconceptions=(
        Misconception(
            "splits_rows",
            "You cut the list of rows. Rows of one patient are then on both sides, and the test "
            "measures a model on people whom it already knows.",
            _split_rows,
        ),
        Misconception(
            "splits_admissions",
            "You split admissions. Another admission of the same patient stays in training, with "
            "the same chronic diseases: the test measures memory.",
            _split_admissions,
        ),
        Misconception(
            "subjects_of_the_first_rows",
            "You took the patients of the first n_test rows. Where two of these rows belong to "
            "one patient, you have too few test patients; count patients, not rows.",
            _subjects_of_first_rows,
        ),
        Misconception(
            "vocabulary_of_all",
            "You took the vocabulary from all rows. It then holds codes that only test patients "
            "have: their embeddings are never trained, and the test was looked at beforehand.",
            _with_vocabulary_of_all,
        ),
        Misconception(
            "vocabulary_unsorted",
            "Your vocabulary is in the order of the rows. Shuffle the rows, and every code gets "
            "another id; the task asks for it sorted.",
            _vocabulary_unsorted,
        ),
        Misconception(
            "vocabulary_repeated",
            "Your vocabulary lists a code as often as it occurs. It needs each code once: two "
            "ids for one code would share its examples between them.",
            _vocabulary_repeated,
        ),
        Misconception(
            "smallest_ids",
            "You took the patients with the smallest numbers. The task takes the first patients "
            "that the shuffled rows name; a number may say when somebody first came.",
            _split_smallest_ids,
        ),
        Misconception(
            "order_of_a_set",
            "You took the first patients of a set. A set keeps no order: which of them come "
            "first has nothing to do with the order in which the rows name them.",
            _split_set_order,
        ),
        Misconception(
            "test_first",
            "You returned the test rows first. The task asks for training rows, test rows, "
            "vocabulary, in this order.",
            _test_first,
        ),
    ),
    hints=(
        "First decide who is a test patient, then look at each row: whose is it?",
        "dict.fromkeys(...) keeps each element once, in the order in which they come.",
        "Take the first n_test different subject ids. A row is a test row if its subject is "
        "among them. The vocabulary is the sorted set of the codes of the training rows.",
    ),
)


# 08.6 Count and report what was dropped

CodeRow = tuple[int, str | None]
Sifted = tuple[list[CodeRow], dict[str, int]]
_REASONS = ("no code", "unknown admission", "repeated")


def _sift(
    rows: Sequence[CodeRow],
    known_admissions: Sequence[int],
    *,
    order: Sequence[str] = _REASONS,
    missing: Callable[[str | None], bool] = lambda code: code in (None, ""),
    every_reason: bool = False,
) -> Sifted:
    """Go through the rows and drop each for the first of its reasons.

    A row that repeats an earlier one has the same reasons as that one, so it does not matter
    whether the earlier one was kept.
    """
    kept, dropped = [], dict.fromkeys(_REASONS, 0)
    for i, (hadm_id, code) in enumerate(rows):
        applies = {
            "no code": missing(code),
            "unknown admission": hadm_id not in known_admissions,
            "repeated": rows[i] in rows[:i],
        }
        reasons = [reason for reason in order if applies[reason]]
        for reason in reasons if every_reason else reasons[:1]:
            dropped[reason] += 1
        if not reasons:
            kept.append((hadm_id, code))
    return kept, dropped


def _same_code_before(rows: Sequence[CodeRow], known: Sequence[int]) -> Sifted:
    kept, dropped = [], dict.fromkeys(_REASONS, 0)
    for hadm_id, code in rows:
        if not code:
            dropped["no code"] += 1
        elif hadm_id not in known:
            dropped["unknown admission"] += 1
        elif code in [other for _, other in kept]:
            dropped["repeated"] += 1
        else:
            kept.append((hadm_id, code))
    return kept, dropped


def _no_code_and_unknown(rows: Sequence[CodeRow], known: Sequence[int]) -> Sifted:
    kept, dropped = _sift(rows, known)
    unknown = [hadm_id for hadm_id, _ in rows if hadm_id not in known]
    return kept, dropped | {"unknown admission": len(unknown)}


def _only_found(rows: Sequence[CodeRow], known: Sequence[int]) -> Sifted:
    kept, dropped = _sift(rows, known)
    return kept, {reason: count for reason, count in dropped.items() if count}


def _sorted_kept(rows: Sequence[CodeRow], known: Sequence[int]) -> Sifted:
    kept, dropped = _sift(rows, known)
    return sorted(kept), dropped


def _fresh_code_rows(rng: random.Random) -> Arguments:
    known = sorted(rng.sample(range(100, 130), 3))
    hadm_ids = [*known, rng.choice([n for n in range(100, 130) if n not in known])]
    codes = [*rng.sample(CODES, 3), None, ""]
    rows = [(rng.choice(hadm_ids), rng.choice(codes)) for _ in range(rng.randint(4, 9))]
    return rows, known


COUNT_DROPPED = Exercise(
    id="08.6",
    title="Count and report what was dropped",
    parameters=("rows", "known_admissions"),
    reference=_sift,
    chosen=(
        ([(101, "4280"), (101, None), (102, "4280"), (999, "486")], [101, 102]),
        ([(101, "4280"), (101, "4019"), (101, "4280")], [101]),
        ([(101, "486"), (101, "486"), (101, "486"), (101, "4019"), (101, "4019")], [101]),
        ([(101, ""), (101, "V3001")], [101]),
        ([(101, "486"), (101, None)], [101]),
        ([(999, None), (999, "486"), (999, "486")], [101]),
        ([(102, "5849"), (101, "4280"), (101, "4280"), (102, "0389")], [101, 102]),
        ([(101, None), (101, None), (101, ""), (101, "")], [101]),
        ([(101, "4019"), (102, "4019")], [101, 102]),
        ([(101, "4280"), (101, "4019"), (101, "4280"), (999, "4019")], [101]),
    ),
    fresh=_fresh_code_rows,
    misconceptions=(
        Misconception(
            "two_reasons",
            "You counted some rows under two reasons. Then the counts add up to more than was "
            "dropped, and nobody can check the report against the file.",
            lambda rows, known: _sift(rows, known, every_reason=True),
        ),
        Misconception(
            "no_code_and_unknown",
            "You counted a row that has no code and an unknown admission under both reasons. Then "
            "the counts add up to more than was dropped.",
            _no_code_and_unknown,
        ),
        Misconception(
            "same_code_elsewhere",
            "You dropped a code because another admission has it too. Two patients can have heart "
            "failure; a row is repeated where admission and code are the same.",
            _same_code_before,
        ),
        Misconception(
            "empty_text_as_a_code",
            "You counted None as missing, and an empty text as a code. In a CSV file a missing "
            "code is an empty text.",
            lambda rows, known: _sift(rows, known, missing=lambda code: code is None),
        ),
        Misconception(
            "unknown_admission_first",
            "You looked at the admission before the code. A row with neither is then counted as "
            "an unknown admission; the task names the missing code first.",
            lambda rows, known: _sift(
                rows, known, order=("unknown admission", "no code", "repeated")
            ),
        ),
        Misconception(
            "repeated_first",
            "You looked for repetitions first. A second row without a code, or of an unknown "
            "admission, is then counted as repeated; the task names that reason last.",
            lambda rows, known: _sift(
                rows, known, order=("repeated", "no code", "unknown admission")
            ),
        ),
        Misconception(
            "sorts_the_rows",
            "You returned the rows in another order. Their order is the importance of the codes.",
            _sorted_kept,
        ),
        Misconception(
            "leaves_out_zero",
            "Your report leaves out the reasons that did not occur. Whoever reads it cannot tell "
            "'there were none' from 'nobody looked'.",
            _only_found,
        ),
    ),
    hints=(
        "Every row ends in exactly one place: kept, or under one of the three reasons.",
        "A chain of if, elif, elif, else gives each row to the first reason that applies. "
        "Remember the rows you have kept in a set.",
        "Start the counts as a dictionary with 0 for each reason. For each row ask: no code? "
        "unknown admission? already kept? Otherwise keep it, and remember it.",
    ),
)

EXERCISES = (AGE, NORMALIZE, ROWS_TO_VISITS, CATEGORY, SPLIT, COUNT_DROPPED)
