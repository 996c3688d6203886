"""What a code is called and what it belongs to."""

from __future__ import annotations

from itertools import product

import pytest
from official_lists import icd10_list

from ehr_course import icd9, icd10
from ehr_course.errors import InputError


def test_titles_are_the_official_ones_dotted_or_not():
    assert icd9.title("4280") == icd9.title("428.0") == "Congestive heart failure, unspecified"
    assert icd9.title("E849.7") == "Accidents occurring in residential institution"
    assert icd9.title("V30") == "Single liveborn"
    assert icd9.short_title("25000") == "DMII wo cmp nt st uncntr"
    assert icd9.title("0389") == "Unspecified septicemia" and icd9.title("389") == "Hearing loss"
    assert icd10.title("E119") == "Type 2 diabetes mellitus without complications"
    assert icd10.title("E11.9") == icd10.title(" e11.9 ") == icd10.title("E119")
    assert icd10.title("I10") == "Essential (primary) hypertension"
    assert icd10.title("U07.1") == "COVID-19"
    assert icd10.title("V30.4XXA").endswith("pedestrian or animal, initial encounter")


def test_ranges_have_titles_without_their_codes_at_the_end():
    assert icd10.title("E08-E13") == "Diabetes mellitus"
    assert icd10.title("C00-C96") == "Malignant neoplasms"
    assert icd10.title("O00-O9A") == "Pregnancy, childbirth and the puerperium"
    assert icd10.title("C50") == "Malignant neoplasm of breast"  # a block has this name, too


def test_all_but_fifteen_codes_of_2024_are_known_and_99_of_100_titles_are_the_same():
    titles, unknown = {}, set()
    for code in icd10_list():
        try:
            titles[code] = icd10.title(code)
        except InputError:
            unknown.add(code)
    assert len(titles) == 74_029
    assert {code[:4] for code in unknown} == {"S301", "T780", "T781", "T813"}
    # Accents and a few words have been put right since.
    same = sum(titles[code] == icd10_list()[code] for code in titles)
    assert same == 73_333


def test_every_code_of_2024_has_its_category_and_chapter_as_the_last_parents():
    for code in list(icd10_list())[::23]:
        known = icd10.nearest(code)
        *nearer, chapter = icd10.parents(known)
        assert chapter == "{0.first}-{0.last}".format(icd10.chapter(code))
        codes = [name for name in nearer if "-" not in name]
        assert codes == sorted(codes, key=len, reverse=True)
        assert (known, *codes)[-1] == icd10.category(code)
        assert all(known.startswith(parent.rstrip("X")) for parent in codes)
        blocks = [name.split("-") for name in nearer if "-" in name]
        # The classification itself has C4A in C43-C44, M1A in M05-M14 and Z3A in Z30-Z39.
        outside = [code for first, last in blocks if not first <= code[:3] <= last]
        assert {outsider[:3] for outsider in outside} <= {"C4A", "M1A", "Z3A"}


def test_parents_lead_from_the_nearest_to_the_chapter():
    assert icd9.parents("E8497") == ("E849", "E846-E849", "E000-E999")
    assert icd9.parents("0389") == ("038", "030-041", "001-139")
    for code in ("25001", "V3001", "E8859", "042"):
        top = icd9.parents(code)[-1]
        assert top.split("-")[0] in (icd9.chapter(code).first, "E000")
    assert icd10.parents("E11.65") == ("E116", "E11", "E08-E13", "E00-E89")
    assert icd10.parents("V304XXA") == ("V304", "V30", "V30-V39", "V00-Y99")
    assert icd10.parents("O30.001") == ("O3000", "O300", "O30", "O30-O48", "O00-O9A")
    assert icd10.parents("C00") == ("C00-C14", "C00-D49")
    assert icd10.parents("C00-C14") == ("C00-D49",)
    assert icd10.parents("C00-D49") == ()


def test_a_block_of_one_category_is_named_once():
    assert icd10.parents("C50.911") == ("C5091", "C509", "C50", "C00-D49")
    assert icd10.parents("C50") == ("C00-D49",)
    assert icd10.parents("B20") == ("A00-B99",)


def test_all_parents_have_titles():
    for code in ("25001", "V3001", "E8859", "042"):
        assert all(icd9.title(parent) for parent in icd9.parents(code))
    for code in ("E11.65", "V30.4XXA", "C50.911", "B20", "M1A.00X0", "QA0.0109", "Z3A.39"):
        assert all(icd10.title(parent) for parent in icd10.parents(code))


@pytest.mark.parametrize("function", [icd9.title, icd9.short_title, icd9.parents])
def test_a_code_of_icd9_that_does_not_exist_is_an_error(function):
    with pytest.raises(InputError, match=r"ICD-9 code 428\.7: .* no such code"):
        function("4287")


@pytest.mark.parametrize("function", [icd10.title, icd10.parents])
@pytest.mark.parametrize(
    ("code", "written", "near"),
    [
        ("E11.99", "E11.99", "E11.9"),  # mistyped
        ("H4011X3", "H40.11X3", "H40.11"),  # withdrawn in 2016
        ("T78.1XXA", "T78.1XXA", "T78.1"),  # divided in 2025
        ("V30.4A", "V30.4A", "V30.4"),  # an X or two is missing
        ("W19.XXXZ", "W19.XXXZ", "W19"),  # no such seventh character
    ],
)
def test_a_code_that_does_not_exist_is_an_error_that_names_the_nearest(
    function, code, written, near
):
    with pytest.raises(InputError) as error:
        function(code)
    assert str(error.value) == (
        f"ICD-10 code {written}: it has the shape of a code, but ICD-10-CM of April 2026 has no "
        f"such code; the nearest that it has is {near}. The code may be withdrawn, newer or "
        "mistyped. Pass nearest(code) if its nearest parent will do; category() and chapter() "
        "work by shape alone."
    )
    assert icd10.nearest(code) == near.replace(".", "")
    assert function(icd10.nearest(code))


@pytest.mark.parametrize("function", [icd10.title, icd10.parents, icd10.nearest])
def test_a_category_that_does_not_exist_is_an_error(function):
    with pytest.raises(InputError) as error:
        function("E9.9")
    assert "not the shape" in str(error.value)
    with pytest.raises(InputError) as error:
        function("E99.1")
    assert str(error.value) == (
        "ICD-10 code E99.1: ICD-10-CM of April 2026 has no category E99. Look for a wrong letter "
        "or digit, and whether this is an ICD-9-CM code."
    )


@pytest.mark.parametrize("function", [icd10.title, icd10.parents])
def test_a_range_that_does_not_exist_is_an_error(function):
    with pytest.raises(InputError) as error:
        function("E08-E14")
    assert str(error.value) == (
        "ICD-10 range E08-E14: ICD-10-CM of April 2026 has no such chapter or block. Pass a range "
        "that parents() gives."
    )


@pytest.mark.parametrize("text", ["4", "1", "20", "chapter"])
def test_the_bare_number_of_a_chapter_is_no_code(text):
    with pytest.raises(InputError, match="not the shape"):
        icd10.title(text)


ENDINGS = ["".join(parts) for n in (1, 2) for parts in product("0123456789ABCDEFGHJKX", repeat=n)]


def test_a_code_is_complete_where_it_is_divided_no_further():
    complete = {code for code in icd10_list() if icd10.is_complete(code)}
    assert len(icd10_list()) - len(complete) == 64  # 15 withdrawn and 49 divided since 2024
    for code in icd10_list().keys() - complete:
        near = icd10.nearest(code)
        assert near != code or any(icd10.is_complete(code + more) for more in ENDINGS), code
    for code in list(icd10_list())[::29]:
        assert not any(icd10.is_complete(code[:length]) for length in range(3, len(code)))
    assert not icd10.is_complete("E11.9999")


def test_a_code_that_exists_is_its_own_nearest():
    assert [icd10.nearest(c) for c in ("E11.9", "V304XXA", "I10")] == ["E119", "V304XXA", "I10"]
