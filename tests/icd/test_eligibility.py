"""Who can have a code."""

from __future__ import annotations

import csv
import re
from collections import Counter
from importlib import resources

import pytest
from official_lists import icd10_list

from ehr_course import icd9, icd10
from ehr_course.errors import InputError

MCE_SAMPLE_9 = {
    "newborn (0)": "27701 74783 7620 7660 76518 769 7700 77181 7746 7756 7779 77931 7966 V2031 "
    "V290 V3000 V3401 V391",
    "pediatric (0-17)": "04041 31389 3139 33181 69011 78341 7897 7980 99554 V202",
    "maternity (12-55)": "630 63310 64403 650 66401 67914 7923 7965 V239 V240 V270 V2889 V617 "
    "V7242 V8909 V9199",
    "adult (15-124)": "25631 29040 33520 36616 41401 4400 44021 5712 60000 6010 60784 6101 7286 "
    "7837 79093 99585 V4981",
    "female": "01660 05411 09815 1121 1749 1830 1986 2189 220 2331 2362 2564 34640 6179 6202 6262 "
    "6271 71630 7522 79501 8674 9391 99632 V1043 V131 V2651 V4551 V7231 V762 V8402 V8801",
    "male": "01640 05413 0720 09812 1750 185 1869 1874 2144 2222 2334 2365 2570 4564 60001 60490 "
    "605 6060 60820 75251 75261 7587 78832 7922 8782 9393 95913 V1046 V2652 V502 V7644 V8403",
}
MCE_SAMPLE_10 = {
    "newborn (0)": "A33 E8411 H04531 H04539 N470 Z00110 Z00111 Z050 Z0541 Z059 Z3800 Z3801 "
    "Z381 Z382 Z3830 Z384 Z3861 Z3868 Z387 Z388",
    "pediatric (0-17)": "A4851 B0820 C9330 E301 E308 F843 G937 H26001 H2609 L122 L2083 "
    "L211 L444 L704 N922 R0481 R1083 R620 R6251 R6811 R6813 T7402XA T7412XD T744XXA T7452XS "
    "T7692XA Z00121 Z00129 Z002 Z003 Z0070 Z0442 Z0472 Z6221 Z623 Z69010 Z69020 Z72810 "
    "Z73812 Z762",
    "maternity (9-64)": "A34 C58 D392 F530 M830 O0000 O039 O045 O09523 O10011 O1414 O24410 "
    "O30001 O480 O6014X0 O701 O80 O82 O85 O9081 O99345 O9A53 Z0371 Z3201 Z331 Z333 Z3400 "
    "Z3493 Z360 Z368A Z370 Z379 Z390 Z392 Z3A00 Z3A39 Z3A49",
    "adult (15-124)": "A1814 C9150 E28310 F0150 F69 G112 G1221 H02031 H02139 H25011 H259 "
    "H31111 H3530 H353110 H353293 H35449 H43829 I230 I233 I236 I238 I2510 I25119 I25709 "
    "I25799 I25810 I25812 I2583 I510 I672 I700 I70213 I7092 I83001 I8393 I868 I972 J60 J61 "
    "J8482 K311 K700 K7031 K709 M061 M4217 M720 M8008XA M810 M831 M835 M839 M931 N400 N419 "
    "N4283 N4601 N529 N6019 N6481 N651 R4181 R627 R6882 R9720 T7401XA T7691XS Z0000 Z0441 "
    "Z0471 Z31441 Z421 Z561 Z72811 Z780 Z8651 Z91411 Z9182 Z9852",
    "male": "A1814 A1815 A5422 A5902 A6001 B260 B3742 B3881 C50021 C50929 C600 C61 C6200 "
    "C639 D074 D0761 D176 D290 D4010 E291 E895 F5221 F5232 F524 I861 L291 N35010 N35119 "
    "N35814 N35919 N401 N410 N4230 N430 N4400 N451 N46021 N470 N471 N486 N493 N50811 N51 "
    "N5201 N539 N99110 P835 Q5300 Q541 Q5561 Q561 Q984 Q987 R361 R3983 R866 R93811 R9721 "
    "S30201A S3021XA S30812A S30855S S3093XA S3120XA S3135XS S31501A S31551S S37822A "
    "S38001A S3802XS S38232S S39840A T194XXA T2106XA T2176XS T83410A T83490S Z125 Z1271 "
    "Z1503 Z31440 Z412 Z8545 Z8549 Z87430 Z87710 Z9852",
    "female": "A34 C52 C55 C58 N72 N74 N86 N96 O68 O76 O80 O82 O85 O94",
}
SAMPLES = [
    (coding, kind, codes.split())
    for coding, sample in ((icd9, MCE_SAMPLE_9), (icd10, MCE_SAMPLE_10))
    for kind, codes in sample.items()
]
"""Single codes of the Medicare Code Editor's own lists."""


@pytest.mark.parametrize(("coding", "kind", "codes"), SAMPLES)
def test_the_tables_agree_with_codes_of_the_medicare_code_editor(coding, kind, codes):
    bounds = re.search(r"\((\d+)-?(\d*)\)", kind)
    for code in codes:
        who = coding.who_can_have(code)
        if bounds:
            assert (who.min_age, who.max_age) == (int(bounds[1]), int(bounds[2] or 0)), code
        if not bounds or (coding is icd10 and kind.startswith("maternity")):
            assert who.sex == ("M" if kind == "male" else "F"), code
    assert coding is icd9 or set(codes) <= set(icd10_list())


@pytest.mark.parametrize(
    ("code", "bounds", "source"),
    [
        ("F0390", (30, 124), "Course; MCE adult says 15"),
        ("G301", (50, 124), "Course; MCE adult says 15"),
        ("R54", (50, 124), "Course; MCE adult says 15"),
        ("Z681", (20, 124), "Tabular; MCE adult says 15"),
        ("Z6845", (20, 124), "Tabular; MCE adult says 15"),
        ("O94", (9, 124), "MCE female; Course; MCE maternity ends at 64"),
    ],
)
def test_where_the_table_departs_from_a_list_of_the_editor_the_source_says_so(
    code, bounds, source
):
    who = icd10.who_can_have(code)
    assert (who.min_age, who.max_age) == bounds
    assert source in {row["source"] for row in table() if row["reason"] == who.reason}


def table(name: str = "icd10") -> list[dict[str, str]]:
    file = resources.files("ehr_course.icd") / f"{name}_eligibility.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize(("name", "coding"), [("icd9", icd9), ("icd10", icd10)])
def test_every_row_of_a_table_has_codes_that_exist_a_reason_and_a_source(name, coding):
    known = ("MCE", "Course", "Tabular", "Title", "Anatomy", "Guidelines", "not")
    for row in table(name):
        first, last = row["first"], row["last"]
        assert coding.title(first) and coding.title(last), row
        assert coding.dotted(first) == first and coding.dotted(last) == last, row
        assert coding.normalize(first) <= coding.normalize(last), row
        assert name == "icd9" or (len(first) == len(last) and first[0] == last[0]), row
        assert 0 <= int(row["min_age"]) <= int(row["max_age"]) <= 124, row
        assert row["sex"] in ("", "F", "M"), row
        assert name == "icd9" or row["sex"] or (row["min_age"], row["max_age"]) != ("0", "124")
        assert len(row["reason"]) > 5 and row["source"], row
        for part in row["source"].split("; "):
            assert part.split(",")[0].split(" ")[0] in known, row


def test_the_table_takes_in_as_many_codes_of_each_list_as_its_readme_says():
    sources = {
        (row["reason"], row["sex"], row["min_age"], row["max_age"]): row["source"]
        for row in table()
    }
    counts = Counter()
    for code in icd10_list():
        who = icd10.who_can_have(code)
        if who is not None:
            key = who.reason, who.sex or "", str(who.min_age), str(who.max_age)
            for part in sources[key].split("; "):
                if part.startswith("MCE "):
                    counts[part.split()[1]] += 1
    readme = (resources.files("ehr_course.icd") / "README.md").read_text(encoding="utf-8")
    written = dict(re.findall(r"^\| (\w+) \| ([\d,]+) \| [\d,]+ \|$", readme, re.MULTILINE))
    assert {name: int(count.replace(",", "")) for name, count in written.items()} == counts


def test_no_range_stands_twice_and_they_are_in_order():
    ranges = [(row["first"].replace(".", ""), row["last"].replace(".", "")) for row in table()]
    assert ranges == sorted(set(ranges))


def test_the_source_of_a_row_names_the_lists_that_its_bounds_come_from():
    lists = {(0, 0): "newborn", (0, 17): "pediatric", (9, 64): "maternity", (15, 124): "adult"}
    for row in table():
        bounds = int(row["min_age"]), int(row["max_age"])
        if not re.search("Course|Tabular|Title|Anatomy", row["source"]):
            expected = {f"MCE {lists[bounds]}"} if bounds in lists else set()
            expected |= {
                f"MCE {name}" for s, name in (("F", "female"), ("M", "male")) if s == row["sex"]
            }
            assert set(row["source"].split("; ")) == expected, row


FEMALE = re.compile(
    r"\b(female|vagina\w*|vulv\w*|uter\w*|ovar\w*|cervix uteri|fallopian|menopaus\w*|menstru\w*|"
    r"pregnan\w*|placent\w*|puerper\w*|postpartum|labia|obstetric\w*|endometri\w*)\b",
    re.IGNORECASE,
)
MALE = re.compile(
    r"\b(male|prostat\w*|penis|penile|testis|testes|testic\w*|scrot\w*|epididym\w*|spermat\w*|"
    r"vasectomy)\b",
    re.IGNORECASE,
)
OF_SOMEBODY_ELSE = {
    "P01": "the mother's pregnancy",
    "P02": "the mother's placenta",
    "P03": "the mother's labor",
    "P04": "the mother's pregnancy",
    "P50": "the mother's placenta",
    "Y07": "who did it",
    "Y76": "a device",
    "Z30": "pregnancy is to be avoided",
    "Z38": "how a newborn was delivered",
    "Z43": "an artificial organ",
    "Z80": "a cancer in the family",
}


def test_each_code_whose_title_names_a_sex_or_its_organ_has_that_sex():
    counts, without = Counter(), set()
    for code, title in icd10_list().items():
        named = [sex for sex, words in (("F", FEMALE), ("M", MALE)) if words.search(title)]
        if len(named) == 1:
            who = icd10.who_can_have(code)
            counts[named[0]] += 1
            if who is None or who.sex is None:
                without.add(code[:3])
            else:
                assert who.sex == named[0], (code, title)
    assert without == {*OF_SOMEBODY_ELSE, "Z98"}  # Z98.871: a procedure while a fetus
    assert counts["F"] > 1500 and counts["M"] > 400


@pytest.mark.parametrize(
    ("coding", "codes"),
    [
        (icd9, "4019 428.0 E8497 V053 25000 7454 V252"),
        (icd10, "I10 I50.9 E11.9 Z79.4 V30.4XXA W19.XXXA N39.3 P07.30 P27.1"),
    ],
)
def test_most_codes_have_no_rule(coding, codes):
    for code in codes.split():
        assert coding.who_can_have(code) is None
        assert coding.why_impossible(code, age=0, sex="F") is None
        assert coding.why_impossible(code, age=90, sex="M") is None


def test_ranges_are_inclusive_with_all_detail():
    assert icd9.who_can_have("179").sex == icd9.who_can_have("1849").sex == "F"
    assert icd9.who_can_have("1850") is not None  # as its range says, though it does not exist
    assert icd9.who_can_have("1889") is None and icd9.who_can_have("7599") is None
    assert icd9.who_can_have("7799").max_age == 0
    assert icd10.who_can_have("C51").sex == icd10.who_can_have("C579").sex == "F"
    assert icd10.who_can_have("O9A.53").sex == "F"
    assert icd10.who_can_have("C64.1") is None
    assert icd10.who_can_have("N54") is None  # no such category, and beside the range
    assert icd10.who_can_have("N40.9999").sex == "M"  # as its range says, though it does not exist


def test_the_closest_row_wins():
    most = {"7607": 124, "76077": 0, "7700": 0, "7707": 124}
    assert {code: icd9.who_can_have(code).max_age for code in most} == most
    least = {"60784": 15, "6071": 0, "2900": 50, "29010": 30}
    assert {code: icd9.who_can_have(code).min_age for code in least} == least
    assert icd10.who_can_have("P54.5").sex is None
    assert (icd10.who_can_have("P54.6").sex, icd10.who_can_have("P54.6").max_age) == ("F", 0)
    assert icd10.who_can_have("G30.9").min_age == 30
    assert icd10.who_can_have("G30.1").min_age == 50
    assert icd10.who_can_have("N47.0").max_age == 0
    assert icd10.who_can_have("N47.1").max_age == 124
    assert icd10.who_can_have("N92.2").max_age == 17
    assert icd10.who_can_have("O94").max_age == 124
    assert icd10.who_can_have("O95").max_age == 64
    assert icd10.who_can_have("C50.011").sex == "F"
    assert icd10.who_can_have("C50.021").sex == "M"


@pytest.mark.parametrize(
    ("coding", "code", "sex", "possible", "impossible"),
    [
        (icd9, "V3001", "F", [0], [1, 30, 90]),
        (icd9, "V202", "M", [0, 17], [18, 90]),
        (icd9, "650", "F", [12, 55], [0, 11, 56, 90]),
        (icd9, "36616", "M", [15, 90], [0, 14]),
        (icd9, "3310", "F", [30, 90], [0, 29]),
        (icd9, "V8552", "M", [2, 20], [1, 21]),
        (icd9, "V8541", "M", [21, 90], [20]),
        (icd10, "Z38.01", "F", [0], [1, 30, 90]),
        (icd10, "Z00.121", "M", [0, 17], [18, 90]),
        (icd10, "O80", "F", [9, 64], [0, 8, 65, 90]),
        (icd10, "H25.11", "M", [15, 90], [0, 14]),
        (icd10, "G30.9", "F", [30, 90], [0, 29]),
        (icd10, "Z68.52", "M", [2, 20], [1, 21]),
        (icd10, "Z68.41", "M", [20, 90], [19]),
    ],
)
def test_the_bounds_of_an_age_rule_are_possible_and_the_years_beside_them_are_not(
    coding, code, sex, possible, impossible
):
    for age in possible:
        assert coding.why_impossible(code, age=age, sex=sex) is None
    for age in impossible:
        assert f"not at {age}" in coding.why_impossible(code, age=age, sex=sex)


@pytest.mark.parametrize(
    ("code", "age", "sex", "message"),
    [
        (
            "N401",
            70,
            "F",
            "N40.1 is recorded for males only: disease of the prostate in adult men",
        ),
        (
            "Z3801",
            30,
            "M",
            "Z38.01 is recorded at age 0 only, not at 30: the birth of this patient",
        ),
        (
            "Z0000",
            3,
            "F",
            "Z00.00 is recorded from age 15 only, not at 3: health check of an adult",
        ),
        (
            "O80",
            70,
            "F",
            "O80 is recorded from age 9 to 64 only, not at 70: pregnancy, childbirth and the "
            "puerperium",
        ),
        (
            "G937",
            40,
            "M",
            "G93.7 is recorded up to age 17 only, not at 40: Reye's syndrome is a "
            "disease of childhood",
        ),
    ],
)
def test_the_reason_is_given_in_words(code, age, sex, message):
    assert icd10.why_impossible(code, age=age, sex=sex) == message


@pytest.mark.parametrize(
    ("age", "sex", "message"),
    [
        (-1, "F", "not an age"),
        (300, "F", "not an age"),
        (30, "female", "neither 'F' nor 'M'"),
        (30, None, "neither 'F' nor 'M'"),
    ],
)
def test_an_age_or_sex_that_is_none_is_an_error_even_without_a_rule(age, sex, message):
    for coding, code in ((icd9, "4019"), (icd10, "I10")):
        with pytest.raises(InputError, match=message):
            coding.why_impossible(code, age=age, sex=sex)
