"""One code of a patient is lost: what is hidden, what counts as found, and what is learned."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import what_is_shown
from ehr_course.exercises import lost_code
from ehr_course.exercises.lost_code import (
    AgeSexTable,
    Case,
    CodeNetwork,
    PairTable,
    lose_one,
    share_found,
    which_found,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.widgets.chance import imagined_studies

COHORT = make_cohort(150, seed=2)


def patient(number: int, *codes: str, sex: str = "F", age: int = 60) -> PatientRecord:
    return PatientRecord(number, sex, age, (Visit(codes),))


class Fixed:
    """Names the codes always in the same order."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)

    def scores(self, cases):
        return -torch.arange(len(self.codes)).float().repeat(len(cases), 1)


def test_one_code_of_each_patient_is_hidden_and_the_others_are_left():
    for case, record in zip(lose_one(COHORT, seed=4), COHORT, strict=True):
        assert sorted({*case.others, case.lost}) == sorted(set(record.codes))
        assert case.lost not in case.others
        assert (case.age, case.sex) == (record.age, record.sex)


def test_the_seed_decides_what_is_hidden():
    assert lose_one(COHORT, seed=4) == lose_one(COHORT, seed=4) != lose_one(COHORT, seed=5)


@pytest.mark.parametrize(
    ("lost", "others", "suggestions", "share"),
    [
        ("b", (), 1, 0.0),
        ("b", (), 2, 1.0),
        ("b", ("a",), 1, 1.0),  # a code that is left is not named
        ("z", (), 3, 0.0),  # a code that the guesser does not know
        ("c", (), 9, 1.0),  # more suggestions than codes
    ],
)
def test_what_counts_as_found(lost, others, suggestions, share, monkeypatch):
    monkeypatch.setattr(lost_code, "SUGGESTIONS", suggestions)
    case = Case(50, "F", others, lost)
    assert share_found(Fixed("a", "b", "c"), [case]) == share


def test_the_table_of_age_and_sex_names_what_such_patients_have():
    table = AgeSexTable([patient(1, "650"), patient(2, "600", sex="M"), patient(3, "650")])
    (scores,) = table.scores([Case(61, "F", (), "650")])
    assert dict(zip(table.codes, scores.tolist(), strict=True)) == {"600": 0, "650": 2}
    assert table.scores([Case(2, "M", (), "650")]).sum() == 0, "nobody of this age"


def test_the_table_of_pairs_names_companions():
    records = [patient(1, "4280", "42731"), patient(2, "4280", "42731"), patient(3, "486")]
    table = PairTable(records)
    (scores,) = table.scores([Case(50, "F", ("4280",), "42731")])
    by_code = dict(zip(table.codes, scores.tolist(), strict=True))
    assert by_code["42731"] == pytest.approx(1, abs=1e-5) and by_code["486"] < 0.01
    (alone,) = table.scores([Case(50, "F", (), "486")])
    assert alone.argmax() != table.codes.index("486"), "without others the frequent come first"


@pytest.mark.parametrize("age_and_sex", [False, True])
def test_a_network_learns_and_its_seed_repeats_it(age_and_sex):
    before = torch.get_rng_state()
    nets = [
        CodeNetwork(COHORT, seed=seed, steps=30, age_and_sex=age_and_sex) for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    cases = lose_one(COHORT, seed=0)
    one, again, other = (net.scores(cases) for net in nets)
    assert torch.equal(one, again) and not torch.equal(one, other)
    untrained = CodeNetwork(COHORT, seed=1, steps=0, age_and_sex=age_and_sex)
    assert share_found(nets[0], cases) > 2 * share_found(untrained, cases)


def test_age_and_sex_are_read_only_where_they_should_be():
    case, other = Case(0, "F", ("486",), "4019"), Case(80, "M", ("486",), "4019")
    for age_and_sex in (False, True):
        net = CodeNetwork(COHORT, seed=0, steps=2, age_and_sex=age_and_sex)
        assert torch.equal(net.scores([case]), net.scores([other])) is not age_and_sex


def test_of_equal_scores_the_first_code_counts(monkeypatch):
    codes = [f"{number:03}" for number in range(100, 150)]
    table, case = AgeSexTable([patient(1, *codes)]), Case(60, "F", (), "100")
    monkeypatch.setattr(lost_code, "SUGGESTIONS", 1)
    assert which_found(table, [case, replace(case, lost="149")]).tolist() == [1, 0]


def test_the_table_of_pairs_orders_codes_as_fractions_do():
    table, cases = PairTable(COHORT), lose_one(COHORT, seed=0)
    carriers = {code: [r for r in COHORT if code in r.codes] for code in table.codes}
    n_codes = sum(map(len, carriers.values()))

    def exact(case, code):
        shares = [
            Fraction(sum(code in r.codes for r in carriers[c]), len(carriers[c]))
            for c in case.others
        ]
        mean = sum(shares, Fraction()) / max(len(shares), 1)
        return mean + Fraction(len(carriers[code]), n_codes) / 10**6

    for case, scores in zip(cases[:20], table.scores(cases[:20]), strict=True):
        order = sorted(table.codes, key=lambda code: -exact(case, code))
        place = scores.argsort(descending=True, stable=True).tolist()
        assert [table.codes[i] for i in place] == order


@pytest.mark.parametrize(
    "call",
    [
        lambda: share_found(Fixed("a"), []),
        lambda: AgeSexTable([]),
        lambda: PairTable([]),
        lambda: CodeNetwork([], seed=0),
        lambda: imagined_studies(0),
    ],
)
def test_nothing_to_work_on_is_refused(call):
    with pytest.raises(InputError):
        call()


def test_equal_models_lie_apart_as_often_as_counting_says():
    studies = imagined_studies(3)
    shown = [what_is_shown(*study, "higher") for study in studies]
    assert shown.count("better") / len(shown) == pytest.approx(1 / 20, abs=0.015)
    assert shown.count("worse") / len(shown) == pytest.approx(1 / 20, abs=0.015)
