"""Invented notes: what their summaries say can be read from them, and names can be kept apart."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from importlib.resources import files

import pytest

from ehr_course.errors import InputError
from ehr_course.records import NotePair, PatientRecord, Visit
from ehr_course.sources.synthetic import drug_names, make_cohort, make_notes

COHORT = make_cohort(2000, seed=0)
COMMON, UNSEEN = drug_names("common"), drug_names("unseen")
NAMES = {*COMMON, *UNSEEN}


@pytest.fixture(scope="module")
def pairs() -> list[NotePair]:
    return make_notes(COHORT)


@pytest.fixture(scope="module")
def unseen() -> list[NotePair]:
    return make_notes(COHORT, drugs="unseen")


@pytest.fixture(scope="module")
def lists() -> list[NotePair]:
    return make_notes(COHORT, medications=(10, 10))


def table(name: str) -> list[dict[str, str]]:
    folder = files("ehr_course.sources.synthetic")
    return list(csv.DictReader(folder.joinpath(name).read_text(encoding="utf-8").splitlines()))


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def names_in(text: str) -> list[str]:
    return [word for word in words(text) if word in NAMES]


def one_patient(*codes: str, sex="F", age: int = 64) -> list[PatientRecord]:
    return [PatientRecord(1, sex, age, (Visit(codes),))]


def read_by_hand(note: str) -> str:
    """Write the summary from the note alone, as a reader would."""
    who = re.search(
        r"newborn baby (boy|girl)|(boy|girl) under 1 year|\d+ year old (man|woman|boy|girl)", note
    )[0]
    finding = min(
        (
            match
            for shape in (
                r"(?:^|\. )([a-z ]+) was found",
                r"(?:^|\. )for ([a-z ]+) s?he was given",
                r"was started because of ([a-z ]+)\.",
                r"diagnosis: ([a-z ]+)\.",
            )
            for match in re.finditer(shape, note)
        ),
        key=lambda match: match.start(),
    )[1]
    where, days = re.search(r"(home|rehabilitation) after (\d+) days\.$", note).groups()
    drugs = ", ".join(names_in(note))
    return f"{who} with {finding}. treated with {drugs}. {where} after {days} days."


def test_every_patient_has_one_note_in_their_order(pairs):
    assert [pair.subject_id for pair in pairs] == [record.subject_id for record in COHORT]


def test_a_note_and_its_summary_are_the_same_on_every_machine():
    assert make_notes(COHORT[:4])[2:] == [
        NotePair(
            "38 year old man seen in the emergency room for red skin. background: nothing known. "
            "skin was warm and dry. skin infection was found and treated with imipenem. "
            "ondansetron was added because of nausea. symptoms eased by the second day. "
            "he went home after 6 days.",
            "38 year old man with skin infection. treated with imipenem, ondansetron. "
            "home after 6 days.",
            10003,
        ),
        NotePair(
            "30 year old man admitted because of chest pain. background: low platelets. "
            "heart rate was 70. diagnosis: chest pain. he received acetaminophen. "
            "cholecalciferol was added because of alcohol use. he slept and ate well. "
            "he was discharged home after 4 days.",
            "30 year old man with chest pain. treated with acetaminophen, cholecalciferol. "
            "home after 4 days.",
            10004,
        ),
    ]


def test_a_note_does_not_depend_on_who_else_is_in_the_list(pairs):
    assert make_notes(COHORT[:50]) == pairs[:50]
    assert make_notes(COHORT[90:60:-3]) == pairs[90:60:-3]


def test_another_seed_gives_other_notes_of_the_same_patients(pairs):
    others = make_notes(COHORT, seed=1)
    same = sum(pair.note == other.note for pair, other in zip(pairs, others, strict=True))
    assert same < 0.01 * len(pairs)
    assert [other.subject_id for other in others] == [pair.subject_id for pair in pairs]


def test_the_text_is_lower_case_words_with_signs_glued_to_the_word_before(pairs, unseen, lists):
    shape = re.compile(r"[a-z0-9]+[.,:]?( [a-z0-9]+[.,:]?)*\.|[a-z0-9]+\.")
    for pair in (*pairs, *unseen, *lists):
        assert shape.fullmatch(pair.note) and shape.fullmatch(pair.summary)


def test_a_note_has_about_50_words_and_its_summary_15_to_21(pairs):
    lengths = [len(words(pair.note)) for pair in pairs]
    assert 48 < sum(lengths) / len(lengths) < 56
    assert min(lengths) >= 35 and max(lengths) <= 70
    assert {len(words(pair.summary)) for pair in pairs} == set(range(15, 22))


def test_the_vocabulary_is_closed_and_small(pairs):
    first, second = (
        {word for pair in some for word in words(f"{pair.note} {pair.summary}")}
        for some in (pairs, make_notes(make_cohort(2000, seed=1)))
    )
    assert 300 <= len(first) <= 800
    assert len(second - first) < 0.05 * len(second)  # rare names and findings


def test_the_summary_can_be_read_from_the_note(pairs, unseen, lists):
    for pair in (*pairs, *unseen, *lists):
        assert pair.summary == read_by_hand(pair.note)


def test_one_to_three_drugs_stand_in_a_note_each_once(pairs):
    counts = Counter()
    for pair in pairs:
        named = names_in(pair.note)
        assert len(set(named)) == len(named)
        counts[len(named)] += 1
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 0.28 * len(pairs)


def test_the_number_of_drugs_is_the_one_that_is_asked_for():
    for number in range(1, 11):
        some = make_notes(COHORT[:200], medications=(number, number))
        assert {len(names_in(pair.summary)) for pair in some} == {number}


def test_ten_drugs_stand_in_one_list_and_the_summary_has_the_same_list(lists):
    for pair in lists:
        listed = ", ".join(names_in(pair.note))
        assert listed.count(", ") == 9 and len(set(names_in(pair.note))) == 10
        assert f" {listed}." in pair.note and f" {listed}." in pair.summary


def test_names_that_are_kept_apart_are_in_no_note_unless_asked_for(pairs, unseen, lists):
    assert not set(COMMON) & set(UNSEEN)
    for pair in (*pairs, *lists):
        assert not set(names_in(f"{pair.note} {pair.summary}")) & set(UNSEEN)
    for pair in unseen:
        assert not set(names_in(f"{pair.note} {pair.summary}")) & set(COMMON)


def test_notes_with_unseen_names_differ_in_the_names_alone(pairs, unseen):
    def without_names(text: str) -> list[str]:
        return ["DRUG" if word in NAMES else word for word in words(text)]

    for pair, other in zip(pairs, unseen, strict=True):
        assert without_names(pair.note) == without_names(other.note)
        assert without_names(pair.summary) == without_names(other.summary)


def test_no_two_drugs_of_a_note_are_of_one_class(pairs, unseen, lists):
    class_of = {row["name"]: row["class"] for row in table("drugs.csv")}
    for pair in (
        *pairs,
        *unseen,
        *lists,
        *make_notes(COHORT, drugs="unseen", medications=(4, 10)),
    ):
        classes = [class_of[name] for name in names_in(pair.note)]
        assert len(set(classes)) == len(classes)


def test_every_drug_of_a_list_has_its_share(lists):
    counts = Counter(name for pair in lists for name in names_in(pair.note))
    assert max(counts.values()) < 0.4 * len(lists)


def test_an_unseen_name_is_of_the_class_of_the_common_one(pairs, unseen):
    class_of = {row["name"]: row["class"] for row in table("drugs.csv")}
    for pair, other in zip(pairs, unseen, strict=True):
        assert [class_of[name] for name in names_in(pair.note)] == [
            class_of[name] for name in names_in(other.note)
        ]


def test_nearly_every_name_is_in_some_note(pairs, unseen):
    common = {name for pair in pairs for name in names_in(pair.note)}
    assert len(common) > 0.9 * len(COMMON)
    assert {name for pair in unseen for name in names_in(pair.note)} == set(UNSEEN)


def test_the_finding_tells_the_class_of_the_drug_but_not_which_drug(pairs):
    class_of = {row["name"]: row["class"] for row in table("drugs.csv")}
    by_finding = defaultdict(Counter)
    for pair in pairs:
        finding = re.search(r" with ([a-z ]+)\. treated", pair.summary)[1]
        by_finding[finding][names_in(pair.summary)[0]] += 1
    for finding, names in by_finding.items():
        if names.total() >= 30:
            assert names.most_common(1)[0][1] < 0.7 * names.total(), finding
    several = [f for f, names in by_finding.items() if len({class_of[n] for n in names}) > 1]
    assert not several


def test_two_drugs_of_a_class_may_be_given_at_every_age_at_which_any_is():
    for age in range(91):
        allowed = defaultdict(lambda: {"common": 0, "unseen": 0})
        for row in table("drugs.csv"):
            allowed[row["class"]][row["group"]] += int(row["first_age"]) <= age
        for drug_class, numbers in allowed.items():
            assert numbers["common"] >= 2 or not numbers["unseen"], (drug_class, age)


def test_no_patient_is_too_young_for_a_drug(pairs, unseen, lists):
    first_age = {row["name"]: int(row["first_age"]) for row in table("drugs.csv")}
    for some in (pairs, unseen, lists):
        for record, pair in zip(COHORT, some, strict=True):
            assert all(first_age[name] <= record.age for name in names_in(pair.note))


def test_there_are_enough_names_and_classes():
    assert len(COMMON) >= 60 and len(UNSEEN) >= 30
    assert all(re.fullmatch(r"[a-z]+", name) for name in (*COMMON, *UNSEEN))
    classes = defaultdict(set)
    for row in table("drugs.csv"):
        classes[row["class"]].add(row["group"])
    assert len(classes) >= 12
    assert all(groups == {"common", "unseen"} for groups in classes.values())


def test_the_tables_agree():
    classes = {row["class"] for row in table("drugs.csv")}
    findings = table("findings.csv")
    assert {row["class"] for row in findings} == {*classes, ""}
    prefixes = [row["prefix"] for row in findings]
    assert len(set(prefixes)) == len(prefixes) and "" in prefixes
    assert all(row["finding"] and len(row["finding"].split()) <= 2 for row in findings)
    classes_of = defaultdict(set)
    for row in findings:
        classes_of[row["finding"]].add(row["class"])
    assert all(len(several) == 1 for several in classes_of.values())


@pytest.mark.parametrize(
    ("sex", "age", "codes", "who"),
    [
        ("F", 0, ("V3000", "7742"), "newborn baby girl with"),
        ("M", 0, ("V3101",), "newborn baby boy with"),
        ("M", 0, ("486",), "boy under 1 year with pneumonia"),
        ("F", 17, ("486",), "17 year old girl with pneumonia"),
        ("F", 18, ("486",), "18 year old woman with pneumonia"),
        ("M", 90, ("486",), "90 year old man with pneumonia"),
    ],
)
def test_the_summary_begins_with_who_the_patient_is(sex, age, codes, who):
    assert make_notes(one_patient(*codes, sex=sex, age=age))[0].summary.startswith(who)


@pytest.mark.parametrize(
    ("code", "finding"),
    [("25000", "diabetes"), ("25013", "ketoacidosis"), ("Q999", "minor illness")],
)
def test_a_code_means_what_its_longest_known_beginning_means(code, finding):
    pair = make_notes(one_patient(code), medications=(1, 1))[0]
    assert f"woman with {finding}. treated" in pair.summary


def test_what_no_drug_treats_is_named_all_the_same():
    pair = make_notes(one_patient("3051"), medications=(1, 1))[0]
    assert "with smoking. treated with" in pair.summary
    assert "smoking" in pair.note


def test_what_is_not_treated_is_named_as_history():
    note = make_notes(one_patient("4280", "3051", "32723"), medications=(1, 1))[0].note
    assert "smoking and sleep apnea." in note


def test_the_first_visit_is_the_one_that_is_told():
    later = Visit(("4280",))
    assert make_notes([PatientRecord(1, "F", 64, (Visit(("486",)), later))]) == make_notes(
        one_patient("486")
    )


def test_no_patients_give_no_notes():
    assert make_notes([]) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seed": -1}, "argument seed: -1 is not a seed"),
        ({"seed": 0.5}, "argument seed: 0.5 is not a seed"),
        ({"drugs": "rare"}, "argument drugs: 'rare' is not a group of names"),
        ({"medications": (0, 3)}, r"argument medications: \(0, 3\) is not"),
        ({"medications": (3, 2)}, r"argument medications: \(3, 2\) is not"),
        ({"medications": (1, 11)}, r"argument medications: \(1, 11\) is not"),
        ({"medications": (1, 2, 3)}, r"argument medications: \(1, 2, 3\) is not"),
        ({"medications": 3}, "argument medications: 3 is not"),
    ],
)
def test_an_option_out_of_its_range_is_refused(options, problem):
    with pytest.raises(InputError, match=problem):
        make_notes(COHORT[:3], **options)


def test_names_of_no_group_are_refused():
    with pytest.raises(InputError, match="drug_names, argument drugs: 'rare'"):
        drug_names("rare")
