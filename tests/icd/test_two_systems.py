"""The two code systems are told apart, whatever code is asked for."""

from __future__ import annotations

import itertools
import random

import pytest
from official_lists import icd9_list, icd10_list

from ehr_course import icd9, icd10
from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, checked_system, other_system
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning, possible_systems

NINE, TEN = code_meaning("ICD9CM"), code_meaning("ICD10CM")


def digits(*lengths: int) -> list[str]:
    return ["".join(d) for n in lengths for d in itertools.product("0123456789", repeat=n)]


SHAPED_IN_BOTH = [f"V{d}" for d in digits(2, 3, 4)] + [f"E{d}" for d in digits(3, 4)]
"""All 22,100 undotted texts that have the shape of a code in both systems."""


def test_these_are_all_texts_that_both_systems_take_for_a_code():
    assert len(SHAPED_IN_BOTH) == 22_100
    assert all(possible_systems(text) == CODE_SYSTEMS for text in SHAPED_IN_BOTH)
    rng = random.Random(0)
    known = set(SHAPED_IN_BOTH)
    for _ in range(20_000):
        length = rng.randint(2, 7)
        text = "".join(rng.choices("0123456789ABEVXZ", k=length))
        if possible_systems(text) == CODE_SYSTEMS:
            # A letter of detail, as in V30XXXA, is of ICD-10-CM alone.
            assert text in known


def test_every_official_code_has_the_shape_of_its_own_system():
    assert all("ICD9CM" in possible_systems(code) for code in icd9_list())
    assert all("ICD10CM" in possible_systems(code) for code in icd10_list())


def test_dotted_only_v_codes_are_left_in_doubt():
    for code in icd9_list():
        if code[0] in "VE":
            both = code[0] == "V" or "." not in icd9.dotted(code)
            assert (possible_systems(icd9.dotted(code)) == CODE_SYSTEMS) == both
        else:
            assert possible_systems(icd9.dotted(code)) == ("ICD9CM",)
    for code in icd10_list():
        both = code[0] == "V" and code[1:].isdigit() and len(code) <= 5
        assert (possible_systems(icd10.dotted(code)) == CODE_SYSTEMS) == both


def test_no_code_gets_the_title_of_the_other_system():
    shared = set(SHAPED_IN_BOTH)
    in_nine = {code: title for code, title in icd9_list().items() if code in shared}
    in_ten = {code: title for code, title in icd10_list().items() if code in shared}
    assert len(in_nine) > 2000 and len(in_ten) > 400
    for code, title in in_nine.items():
        assert NINE.title(code) == title
        assert _title_or_error(TEN, code) != title
    for code, title in in_ten.items():
        if code != "E7981":  # an accent in its title has been put right
            assert TEN.title(code) == title
        assert _title_or_error(NINE, code) != title


def _title_or_error(system, code: str) -> str:
    try:
        return system.title(code)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("text", ["E885", "E8859", "V30", "V304", "V3040", "E119", "E000"])
def test_an_error_names_the_system_that_was_asked(text):
    for system, name in (("ICD9CM", "ICD-9"), ("ICD10CM", "ICD-10")):
        answer = _title_or_error(code_meaning(system), text)
        assert ("no such code" in answer) <= (f"{name} code {text[0]}" in answer)


def test_no_code_gets_the_chapter_of_the_other_system():
    for text in SHAPED_IN_BOTH:
        nine, ten = _chapter(NINE, text), _chapter(TEN, text)
        if text[0] == "V":
            assert nine in (18, None) and ten == 20
        else:
            assert nine == 19 and ten in (4, None)
        if nine is not None:
            assert NINE.chapter(text).title in {chapter.title for chapter in icd9.chapters}
        if ten is not None:
            assert TEN.chapter(text) in icd10.chapters


def _chapter(system, code: str) -> int | None:
    try:
        return system.chapter(code).number
    except InputError as error:
        assert "lies in no chapter" in str(error)
        return None


def test_no_code_gets_the_category_of_the_other_system():
    for text in SHAPED_IN_BOTH:
        if text[0] == "E":
            assert NINE.category(text) == text[:4] and TEN.category(text) == text[:3]
        else:
            # The category has one name in both; what it means is another thing.
            assert NINE.category(text) == TEN.category(text) == text[:3]
    for category in {text[:3] for text in SHAPED_IN_BOTH if text[0] == "V"}:
        assert _title_or_error(NINE, category) != _title_or_error(TEN, category)


def test_no_code_gets_the_eligibility_of_the_other_system():
    # ICD-9-CM has rules for V codes and none for E codes, ICD-10-CM the other way round.
    with_rule = {"ICD9CM": set(), "ICD10CM": set()}
    for text in SHAPED_IN_BOTH:
        for system in CODE_SYSTEMS:
            if code_meaning(system).who_can_have(text) is not None:
                with_rule[system].add(text[0])
    assert with_rule == {"ICD9CM": {"V"}, "ICD10CM": {"E"}}


def test_the_examples_that_everybody_trips_over():
    assert NINE.title("V30") == "Single liveborn"
    assert "three-wheeled" in TEN.title("V30") and "three-wheeled" in TEN.title("V30.4XXA")
    assert NINE.why_impossible("V30", age=30, sex="F")
    assert TEN.why_impossible("V30", age=30, sex="F") is None
    assert NINE.dotted("E8859") == "E885.9" and TEN.dotted("E8859") == "E88.59"
    assert NINE.title("E8859").startswith("Fall from other slipping")
    assert possible_systems("E11.9") == ("ICD10CM",)
    assert possible_systems("E885.9") == ("ICD9CM",)
    assert possible_systems("V30.4") == CODE_SYSTEMS
    assert possible_systems("V30.4XXA") == ("ICD10CM",)
    with pytest.raises(InputError, match=r"ICD-9 code 'E11\.9': this is not the shape"):
        NINE.title("E11.9")
    with pytest.raises(InputError, match=r"ICD-10 code 'E885\.9': this is not the shape"):
        TEN.title("E885.9")


def test_a_system_has_a_name_and_another_one_and_anything_else_is_an_error():
    assert {system: other_system(system) for system in SYSTEM_NAMES} == {
        "ICD9CM": "ICD10CM",
        "ICD10CM": "ICD9CM",
    }
    for function in (checked_system, other_system, code_meaning):
        with pytest.raises(InputError) as error:
            function("icd10")
        assert str(error.value) == (
            "code system: 'icd10' is neither 'ICD9CM' nor 'ICD10CM'. Pass one of these two names."
        )
