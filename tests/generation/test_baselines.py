from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from ehr_course.errors import InputError
from ehr_course.evaluation.validity import impossible_share_of
from ehr_course.generation.baselines import IndependentCodes, MarkovChain
from ehr_course.generation.patients import PatientProfile, sample_profiles
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

REAL = make_cohort(600, seed=7)
WANTED = sample_profiles(REAL, 3_000, seed=1)
BOTH = pytest.mark.parametrize("table", [IndependentCodes, MarkovChain])


def patient(*visits: tuple[str, ...], sex="F", age=60) -> PatientRecord:
    return PatientRecord(1, sex, age, tuple(Visit(codes) for codes in visits))


def fits(observed: Counter, expected: Counter) -> bool:
    """Whether a sample can have come from the frequencies: chi-squared over the frequent ones."""
    assert not observed.keys() - expected.keys()
    share = sum(observed.values()) / sum(expected.values())
    frequent = [thing for thing in expected if expected[thing] * share >= 5]
    counts, means = zip(*((observed[t], expected[t] * share) for t in frequent), strict=True)
    rest = sum(observed.values()) - sum(counts), sum(expected.values()) * share - sum(means)
    if rest[1] > 1e-6:
        counts, means = (*counts, rest[0]), (*means, rest[1])
    return chisquare(counts, means).pvalue > 1e-4


@BOTH
def test_every_patient_is_a_record_of_the_age_and_sex_that_were_wanted(table) -> None:
    # PatientRecord and Visit refuse an empty record, an empty visit and a repeated code.
    written = table(REAL).write(WANTED, seed=3)
    assert [(r.age, r.sex) for r in written] == [(w.age, w.sex) for w in WANTED]
    assert [r.subject_id for r in written] == list(range(len(WANTED)))


@BOTH
def test_a_seed_and_the_place_alone_decide_what_a_patient_gets(table) -> None:
    fitted = table(REAL)
    written = fitted.write(WANTED[:50], seed=3)
    assert fitted.write(WANTED[:20], seed=3) == written[:20]
    assert fitted.write(WANTED[:50], seed=4) != written


def test_independent_visits_and_codes_come_as_often_as_in_patients_of_the_sex_and_age() -> None:
    codes = np.random.default_rng(0).choice(
        ["4280", "4019", "486", "5990"], 400, p=[0.4, 0.3, 0.2, 0.1]
    )
    women = [patient(*[(code,)] * (1 + n % 3)) for n, code in enumerate(codes)]
    men = [patient(("6000",), sex="M")] * 50
    written = IndependentCodes(women + men).write([PatientProfile(64, "F")] * 3_000)
    assert fits(Counter(len(r.visits) for r in written), Counter(len(r.visits) for r in women))
    assert fits(
        Counter(c for r in written for c in r.codes), Counter(c for r in women for c in r.codes)
    )


def test_independent_visits_are_as_long_as_those_of_the_sex_and_age() -> None:
    group = [r for r in REAL if r.sex == "M" and 65 <= r.age < 80]
    written = IndependentCodes(REAL).write([PatientProfile(70, "M")] * 2_000)
    lengths = [Counter(len(v.codes) for r in of for v in r.visits) for of in (written, group)]
    assert fits(*lengths)


def test_independent_codes_have_no_memory_of_the_visit_before() -> None:
    # Real patients repeat their codes; drawn independently, one of two codes is met half the time.
    real = [patient((code,), (code,)) for code in ("4280", "4019")] * 20
    written = IndependentCodes(real).write([PatientProfile(60, "F")] * 2_000)
    same = np.mean([a.codes == b.codes for r in written for a, b in pairwise(r.visits)])
    assert 0.45 < same < 0.55


def test_independent_codes_fall_back_on_everybody_where_nobody_was_seen() -> None:
    table = IndependentCodes([patient(("4280",))])
    assert table.write([PatientProfile(3, "M")])[0].codes == ("4280",)


def test_a_visit_never_asks_for_more_codes_than_its_group_has() -> None:
    table = IndependentCodes([patient(("4280", "4019")), patient(("4280", "4019"))])
    assert {len(r.codes) for r in table.write([PatientProfile(60, "F")] * 50)} == {2}


def test_what_follows_in_a_chain_follows_as_often_as_in_the_patients() -> None:
    chain = MarkovChain(REAL)
    written = chain.write(WANTED, seed=5)
    first = [Counter(v.codes[0] for r in of for v in r.visits) for of in (written, REAL)]
    assert fits(*first)
    # How many visits there are is a coin that is thrown after each of them.
    again = [
        Counter(last for r in of for last in [*[False] * (len(r.visits) - 1), True])
        for of in (written, REAL)
    ]
    assert fits(*again)
    # The second code was drawn among all that followed the first: nothing else was left out.
    head = first[1].most_common(1)[0][0]
    second = Counter(
        v.codes[1] if len(v.codes) > 1 else "end"
        for r in written
        for v in r.visits
        if v.codes[0] == head
    )
    counts = chain.followers[head].counts
    assert fits(second, Counter({"end" if t == r"<\v>" else t: n for t, n in counts.items()}))


def test_a_chain_writes_no_pair_that_never_stood_in_a_patient() -> None:
    chain = MarkovChain(REAL)
    seen = {pair for r in REAL for v in r.visits for pair in pairwise(v.codes)}
    written = {pair for r in chain.write(WANTED) for v in r.visits for pair in pairwise(v.codes)}
    assert written <= seen and len(written) > 100


def test_a_chain_ends_a_visit_where_only_codes_that_it_has_ever_followed() -> None:
    # After 4019 there was nothing but 486, which a visit that begins with 486 has already.
    chain = MarkovChain([patient(("486", "4280")), patient(("4280", "4019", "486"))])
    written = Counter(
        v.codes for r in chain.write([PatientProfile(60, "F")] * 200) for v in r.visits
    )
    assert written[("486", "4280", "4019")] > 0


def test_a_chain_knows_neither_age_nor_sex_and_independent_codes_know_both() -> None:
    by_group, chain = (table(REAL).write(WANTED) for table in (IndependentCodes, MarkovChain))
    assert impossible_share_of(chain) > 2 * impossible_share_of(by_group)


@BOTH
def test_a_table_needs_patients(table) -> None:
    with pytest.raises(InputError, match="the list is empty"):
        table([])


@BOTH
@pytest.mark.parametrize(
    "wrong, said",
    [
        (PatientProfile(91, "F"), "patient 1"),
        (PatientProfile(60, "X"), "patient 1"),
        (PatientProfile(60, "F", (("4280",),)), "cannot go on with visits"),
    ],
)
def test_what_cannot_be_written_is_named(table, wrong: PatientProfile, said: str) -> None:
    with pytest.raises(InputError, match=said):
        table(REAL).write([PatientProfile(60, "F"), wrong])
