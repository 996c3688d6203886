"""The icd9 module against MIMIC-III's own code table and the patients of its demo."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ehr_course import icd9
from ehr_course.sources.mimic import load_mimic3

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"

pytestmark = pytest.mark.skipif(
    not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
)


@pytest.fixture(scope="module")
def titles() -> dict[str, str]:
    with (DEMO / "D_ICD_DIAGNOSES.csv").open(encoding="utf-8", newline="") as lines:
        return {row["icd9_code"]: row["long_title"] for row in csv.DictReader(lines)}


def letters(text: str) -> str:
    """Leave what both tables write alike: MIMIC-III has ? for an accented letter."""
    return "".join(letter for letter in text.casefold() if letter.isascii() and letter.isalpha())


def test_every_code_of_the_table_has_a_title(titles):
    assert len(titles) == 14_567
    assert all(icd9.title(code) for code in titles)


def test_titles_are_those_of_the_table_but_for_spelling(titles):
    ours = {code: letters(icd9.title(code)) for code in titles}
    assert ours == {code: letters(title) for code, title in titles.items()}


def test_every_code_of_the_table_has_its_parents_category_and_chapter(titles):
    for code in titles:
        chain = (code, *icd9.parents(code))
        assert icd9.category(code) in chain
        first = icd9.chapter(code).first
        assert chain[-1].startswith(first)


def test_no_code_of_a_demo_patient_is_impossible():
    records = load_mimic3(DEMO).records
    with_a_rule = 0
    for record in records:
        for code in record.codes:
            assert icd9.why_impossible(code, age=record.age, sex=record.sex) is None
            with_a_rule += icd9.who_can_have(code) is not None
    assert with_a_rule > 10


def test_two_rows_of_the_table_never_fit_a_code_equally_well(titles):
    for code in titles:
        fits = [rule.closeness for rule in icd9.rules_of(code)]
        assert len(set(fits)) == len(fits), code
