"""What a code means, and who can have it."""

from __future__ import annotations

import csv
import subprocess
import sys
from importlib import resources

import pytest

from ehr_course import icd9
from ehr_course.errors import InputError


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("428.0", "4280"),
        ("4280", "4280"),
        ("428", "428"),
        ("038.9", "0389"),
        ("0389", "0389"),
        ("250.00", "25000"),
        (" e849.7 ", "E8497"),
        ("E849", "E849"),
        ("v30.01", "V3001"),
        ("V30", "V30"),
        ("\t042\n", "042"),
    ],
)
def test_normalize_gives_the_undotted_upper_case_code(written, code):
    assert icd9.normalize(written) == code
    assert icd9.is_code(written)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "42",
        "42.80",
        "4.280",
        "428.",
        "428.000",
        "428000",
        "E84",
        "E849.77",
        "E84.97",
        "V3",
        "V30.001",
        "V300.1",
        "I50.9",
        "nan",
        "NULL",
        "428,0",
        "428 0",
        "-428",
        "４２８",
    ],
)
def test_text_of_another_shape_is_no_code(text):
    assert not icd9.is_code(text)
    with pytest.raises(InputError, match="not the shape of an ICD-9-CM diagnosis code"):
        icd9.normalize(text)


@pytest.mark.parametrize("value", [389, 428.0, None, float("nan")])
def test_a_number_is_refused_because_it_lost_its_zeros(value):
    assert not icd9.is_code(value)
    with pytest.raises(InputError, match="keep leading zeros"):
        icd9.normalize(value)


def test_a_leading_zero_makes_another_code():
    assert icd9.title("0389") == "Unspecified septicemia"
    assert icd9.title("389") == "Hearing loss"


@pytest.mark.parametrize(
    ("code", "category", "dotted"),
    [
        ("4280", "428", "428.0"),
        ("25001", "250", "250.01"),
        ("650", "650", "650"),
        ("E8497", "E849", "E849.7"),
        ("E849", "E849", "E849"),
        ("V3001", "V30", "V30.01"),
        ("V053", "V05", "V05.3"),
    ],
)
def test_category_is_three_characters_and_four_for_e_codes(code, category, dotted):
    assert icd9.category(code) == category
    assert icd9.category(dotted) == category
    assert icd9.dotted(code) == dotted
    assert icd9.normalize(icd9.dotted(code)) == code


def test_category_and_chapter_need_no_existing_code():
    assert icd9.category("42899") == "428"
    assert icd9.chapter("42899").number == 7


def test_every_numeric_category_lies_in_the_chapter_of_its_number():
    for chapter in icd9.chapters[:17]:
        for number in range(int(chapter.first), int(chapter.last) + 1):
            assert icd9.chapter(f"{number:03}") is chapter
    assert icd9.chapter("V01").number == icd9.chapter("V91.99").number == 18
    assert icd9.chapter("E000.0").number == icd9.chapter("E999.1").number == 19


def test_chapters_are_those_of_the_classification():
    numbered = icd9.chapters
    assert [chapter.number for chapter in numbered] == list(range(1, 20))
    for chapter in numbered:
        assert icd9.title(f"{chapter.first}-{chapter.last}").casefold() == chapter.title.casefold()


@pytest.mark.parametrize("code", ["000", "V00", "V92"])
def test_a_category_outside_every_chapter_is_an_error(code):
    with pytest.raises(InputError, match="lies in no chapter"):
        icd9.chapter(code)


@pytest.mark.parametrize("function", [icd9.title, icd9.short_title, icd9.parents])
def test_a_well_shaped_code_that_does_not_exist_is_an_error(function):
    with pytest.raises(InputError, match=r"ICD-9 code 428\.7: .* no such code"):
        function("4287")


def test_titles_are_the_official_ones():
    assert icd9.title("4280") == icd9.title("428.0") == "Congestive heart failure, unspecified"
    assert icd9.title("E849.7") == "Accidents occurring in residential institution"
    assert icd9.title("V30") == "Single liveborn"
    assert icd9.short_title("25000") == "DMII wo cmp nt st uncntr"


def test_parents_lead_from_the_nearest_to_the_chapter():
    assert icd9.parents("E8497") == ("E849", "E846-E849", "E000-E999")
    assert icd9.parents("0389") == ("038", "030-041", "001-139")
    for code in ("25001", "V3001", "E8859", "042"):
        top = icd9.parents(code)[-1]
        assert top.split("-")[0] in (icd9.chapter(code).first, "E000")
        assert all(icd9.title(parent) for parent in icd9.parents(code))


MCE_SAMPLE = {
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
"""Single codes of the Medicare Code Editor's own lists, version 32."""


@pytest.mark.parametrize("category", MCE_SAMPLE)
def test_the_table_agrees_with_codes_of_the_medicare_code_editor(category):
    bounds = {
        "newborn (0)": (0, 0),
        "pediatric (0-17)": (0, 17),
        "maternity (12-55)": (12, 55),
        "adult (15-124)": (15, 124),
    }
    for code in MCE_SAMPLE[category].split():
        who = icd9.who_can_have(code)
        if category in bounds:
            assert (who.min_age, who.max_age) == bounds[category], code
        else:
            assert who.sex == category[0].upper(), code


@pytest.mark.parametrize("code", ["4019", "428.0", "E8497", "V053", "25000", "7454", "V252"])
def test_most_codes_have_no_rule(code):
    assert icd9.who_can_have(code) is None
    assert icd9.why_impossible(code, age=0, sex="F") is None
    assert icd9.why_impossible(code, age=90, sex="M") is None


def table() -> list[dict[str, str]]:
    file = resources.files("ehr_course.icd") / "icd9_eligibility.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_row_of_the_table_has_codes_that_exist_a_reason_and_a_source():
    for row in table():
        assert icd9.title(row["first"]) and icd9.title(row["last"]), row
        assert icd9.normalize(row["first"]) <= icd9.normalize(row["last"]), row
        assert 0 <= int(row["min_age"]) <= int(row["max_age"]) <= 124, row
        assert row["sex"] in ("", "F", "M"), row
        assert len(row["reason"]) > 5 and row["source"], row


def test_ranges_are_inclusive_with_all_detail():
    assert icd9.who_can_have("179").sex == "F"
    assert icd9.who_can_have("1849").sex == "F"
    assert icd9.who_can_have("1850") is not None  # as its range says, though it does not exist
    assert icd9.who_can_have("1889") is None
    assert icd9.who_can_have("7599") is None
    assert icd9.who_can_have("7799").max_age == 0


def test_the_closest_row_wins():
    assert icd9.who_can_have("7607").max_age == 124
    assert icd9.who_can_have("76077").max_age == 0
    assert icd9.who_can_have("7700").max_age == 0
    assert icd9.who_can_have("7707").max_age == 124
    assert icd9.who_can_have("60784").min_age == 15
    assert icd9.who_can_have("6071").min_age == 0
    assert icd9.who_can_have("2900").min_age == 50
    assert icd9.who_can_have("29010").min_age == 30


@pytest.mark.parametrize(
    ("code", "sex", "possible", "impossible"),
    [
        ("V3001", "F", [0], [1, 30, 90]),
        ("V202", "M", [0, 17], [18, 90]),
        ("650", "F", [12, 55], [0, 11, 56, 90]),
        ("36616", "M", [15, 90], [0, 14]),
        ("3310", "F", [30, 90], [0, 29]),
        ("V8552", "M", [2, 20], [1, 21]),
        ("V8541", "M", [21, 90], [20]),
    ],
)
def test_the_bounds_of_an_age_rule_are_possible_and_the_years_beside_them_are_not(
    code, sex, possible, impossible
):
    assert [icd9.why_impossible(code, age=age, sex=sex) for age in possible] == [None] * len(
        possible
    )
    for age in impossible:
        assert f"not at {age}" in icd9.why_impossible(code, age=age, sex=sex)


def test_the_wrong_sex_is_named_with_its_reason():
    assert (
        icd9.why_impossible("600.00", age=70, sex="F")
        == "600.00 is recorded for males only: disease of the prostate in adult men"
    )
    assert icd9.why_impossible("60000", age=70, sex="M") is None


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
    with pytest.raises(InputError, match=message):
        icd9.why_impossible("4019", age=age, sex=sex)


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_icd9_and_its_rules_does_not_load_pandas():
    program = (
        "import sys; from ehr_course import icd9; icd9.why_impossible('650', age=3, sex='M');"
        "print('pandas' in sys.modules)"
    )
    assert run(program) == "False"


def test_looking_up_a_title_leaves_the_logging_of_the_process_alone():
    program = (
        "import logging; from ehr_course import icd9; icd9.title('4280');"
        "logging.getLogger('other').info('noise');"
        "print(logging.getLogger().handlers, logging.getLogger().level)"
    )
    assert run(program) == "[] 30"


# ---------------------------------------------------------------------- chronic categories


@pytest.mark.parametrize(
    ("code", "chronic"),
    [
        ("25000", True),  # diabetes
        ("272.4", True),  # hyperlipidemia
        ("40390", True),  # hypertensive kidney disease
        ("4280", True),  # heart failure
        ("496", True),  # chronic airway obstruction
        ("5856", True),  # end stage renal disease
        ("V42.0", True),  # a transplanted kidney
        ("0389", False),  # septicemia
        ("486", False),  # pneumonia
        ("5849", False),  # acute kidney failure
        ("53081", False),  # reflux, in a category with acute bleeding
        ("650", False),  # delivery
        ("V3000", False),  # birth
        ("E8497", False),  # a place
    ],
)
def test_a_category_is_chronic_if_all_of_its_codes_are(code: str, chronic: bool) -> None:
    assert icd9.in_chronic_category(code) is chronic


def test_the_table_of_chronic_categories_is_in_order_without_overlap() -> None:
    text = (resources.files("ehr_course.icd") / "icd9_chronic.csv").read_text(encoding="utf-8")
    rows = [(row["first"], row["last"]) for row in csv.DictReader(text.splitlines())]
    ends = [end for row in rows for end in row]
    assert ends == sorted(ends)
    assert len({first for first, _ in rows}) == len(rows) == 72
    assert all(icd9.category(end) == end for end in ends)
