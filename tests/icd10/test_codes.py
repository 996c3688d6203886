"""The shape of an ICD-10-CM code, and the chapter that it lies in."""

from __future__ import annotations

import pytest

from ehr_course import icd10
from ehr_course.errors import InputError


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("E11.9", "E119"),
        ("E119", "E119"),
        ("I10", "I10"),
        (" v30.4xxa ", "V304XXA"),
        ("V30.4XXA", "V304XXA"),
        ("T36.0X1A", "T360X1A"),
        ("o9a.111", "O9A111"),
        ("M1A.00X0", "M1A00X0"),
        ("C7B.00", "C7B00"),
        ("QA0.0109", "QA00109"),
        ("\tU07.1\n", "U071"),
    ],
)
def test_normalize_gives_the_undotted_upper_case_code(written, code):
    assert icd10.normalize(written) == code
    assert icd10.is_code(written)
    assert icd10.category(written) == code[:3]
    assert icd10.normalize(icd10.dotted(code)) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "E1",
        "E1.19",
        "E119.",
        "E11..9",
        "E11.99999",
        "E1199999",
        "E885.9",
        "428.0",
        "4280",
        "0389",
        "11E",
        "nan",
        "NAN",
        "NULL",
        "T2DM",
        "A1C",
        "H1N1",
        "E11,9",
        "E11 9",
        "Ｅ11",
        "E08-E13",
    ],
)
def test_text_of_another_shape_is_no_code(text):
    assert not icd10.is_code(text)
    with pytest.raises(InputError) as error:
        icd10.normalize(text)
    assert str(error.value) == (
        f"ICD-10 code {text!r}: this is not the shape of an ICD-10-CM diagnosis code. Write text "
        "with a letter and two digits (E11; a few categories end in A or B, as O9A), then at most "
        "four more letters or digits, behind a dot if there is one (V30.4XXA)."
    )


@pytest.mark.parametrize("value", [119, 1.1, None, float("nan"), b"E119"])
def test_what_is_not_text_is_no_code(value):
    assert not icd10.is_code(value)
    with pytest.raises(InputError, match="not the shape of an ICD-10-CM diagnosis code"):
        icd10.normalize(value)


def test_written_puts_the_dot_into_codes_alone():
    tokens = ["E119", "I10", "V304XXA", "<mask>", "</s>"]
    assert [icd10.written(t) for t in tokens] == ["E11.9", "I10", "V30.4XXA", "<mask>", "</s>"]


def test_category_and_chapter_need_no_existing_code():
    assert icd10.category("E11.ZZZ") == "E11"
    assert icd10.chapter("E11.ZZZ").number == 4


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("A00", 1),
        ("B99.9", 1),
        ("C00.0", 2),
        ("C7A.00", 2),
        ("D49.9", 2),
        ("D50.0", 3),
        ("E88.59", 4),
        ("H59.89", 7),
        ("H60.00", 8),
        ("I1A.0", 9),
        ("O99", 15),
        ("O9A.53", 15),
        ("QA0", 17),
        ("T88.9XXS", 19),
        ("V00.01XA", 20),
        ("V30.4XXA", 20),
        ("Y99.9", 20),
        ("Z3A.39", 21),
        ("U07.1", 22),
    ],
)
def test_a_chapter_begins_and_ends_where_the_classification_says(code, number):
    assert icd10.chapter(code).number == number


def test_chapters_are_those_of_the_classification():
    assert [chapter.number for chapter in icd10.chapters] == list(range(1, 23))
    for chapter in icd10.chapters:
        assert icd10.title(f"{chapter.first}-{chapter.last}") == chapter.title


@pytest.mark.parametrize("code", ["E90", "F00.0", "U86", "O9B", "QA1"])
def test_a_category_outside_every_chapter_is_an_error(code):
    with pytest.raises(InputError, match="lies in no chapter"):
        icd10.chapter(code)
