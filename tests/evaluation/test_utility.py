"""The next visit, predicted by what was learned from synthetic patients."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from ehr_course.evaluation.code_table import code_tables
from ehr_course.evaluation.measure import Judgement
from ehr_course.evaluation.utility import _columns, next_visits, utility
from ehr_course.records import PartialRecord, PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort

HOSPITAL = make_cohort(1_500, seed=2)
TRAIN, OTHERS, TEST = HOSPITAL[:500], HOSPITAL[500:1_000], HOSPITAL[1_000:]


def shuffled(records: list[PatientRecord]) -> list[PatientRecord]:
    """The same visits, given to patients at random: as frequent, and unrelated."""
    visits = [visit.codes for record in records for visit in record.visits]
    random.Random(0).shuffle(visits)
    drawn = iter(visits)
    return [
        PatientRecord(r.subject_id, r.sex, r.age, tuple(Visit(next(drawn)) for _ in r.visits))
        for r in records
    ]


def first_visits(records: list[PatientRecord]) -> list[PatientRecord]:
    return [PatientRecord(r.subject_id, r.sex, r.age, r.visits[:1]) for r in records]


@pytest.fixture(scope="module")
def by_others() -> Judgement:
    return utility(TRAIN, OTHERS, TEST)


@pytest.fixture(scope="module")
def by_shuffled() -> Judgement:
    return utility(TRAIN, shuffled(OTHERS), TEST)


def test_other_real_patients_teach_as_much_as_the_training_ones(by_others: Judgement) -> None:
    for score in ("AUROC", "recall at 10"):
        measure = by_others[f"next visit {score}"]
        assert abs(measure.value - measure.floor) < 0.06
    assert by_others["next visit AUROC"].low > 0.7
    assert by_others.warnings == ()


def test_visits_given_to_patients_at_random_teach_nothing(by_shuffled: Judgement) -> None:
    assert by_shuffled["next visit AUROC"].high < 0.6
    assert by_shuffled["next visit AUROC"].floor > 0.7
    assert by_shuffled["next visit recall at 10"].value < (
        by_shuffled["next visit recall at 10"].floor - 0.1
    )


def test_frequencies_alone_are_worse_than_what_real_patients_teach(by_others: Judgement) -> None:
    for score in ("average precision", "recall at 10"):
        alone = by_others[f"next visit {score} by frequency alone"]
        assert alone.value < by_others[f"next visit {score}"].low


def test_a_value_lies_in_the_interval_of_its_measure(by_others: Judgement) -> None:
    for score in ("AUROC", "recall at 10"):
        measure = by_others[f"next visit {score}"]
        assert measure.low < measure.value < measure.high


def test_pairs_are_those_of_a_slow_loop() -> None:
    (table,) = code_tables(TRAIN[:80])
    expected = [
        (
            {code for visit in record.visits[:number] for code in visit.codes},
            set(record.visits[number].codes),
            record.age,
            record.sex,
        )
        for record in TRAIN[:80]
        for number in range(1, len(record.visits))
    ]
    pairs = next_visits(table)
    codes = np.array(table.codes)
    found = [
        (
            set(codes[before > 0].tolist()),
            set(codes[following > 0].tolist()),
            int(age),
            str(sex),
        )
        for before, following, age, sex in zip(
            pairs.before.toarray(), pairs.next.toarray(), pairs.ages, pairs.sexes, strict=True
        )
    ]
    assert found == expected
    assert set(pairs.before.data.tolist()) == {1.0}


def test_scores_are_those_of_scikit_learn_step_by_step(by_others: Judgement) -> None:
    """Plain dense matrices, one regression and one score a code."""

    def examples(records: list[PatientRecord]) -> tuple[np.ndarray, np.ndarray]:
        x, y = [], []
        for record in records:
            for number in range(1, len(record.visits)):
                before = {c for visit in record.visits[:number] for c in visit.codes}
                x.append(
                    [code in before for code in everything]
                    + [(record.age - 50) / 25, record.sex == "F"]
                )
                y.append([code in record.visits[number].codes for code in codes])
        return np.array(x, dtype=float), np.array(y)

    tables = code_tables(TRAIN, TEST)
    codes = [tables[0].codes[column] for column in _columns(*map(next_visits, tables))]
    everything = sorted({code for record in HOSPITAL for code in record.codes})
    (x, y), (asked, true) = examples(OTHERS), examples(TEST)
    predicted = np.stack(
        [
            LogisticRegression(C=0.1, max_iter=1_000).fit(x, answer).predict_proba(asked)[:, 1]
            if answer.any()
            else np.zeros(len(asked))
            for answer in y.T
        ],
        axis=1,
    )
    assert by_others["next visit AUROC"].value == pytest.approx(
        roc_auc_score(true, predicted, average="macro"), abs=1e-3
    )
    assert by_others["next visit average precision"].value == pytest.approx(
        average_precision_score(true, predicted, average="macro"), abs=3e-3
    )
    rank = (-predicted).argsort(axis=1, kind="stable").argsort(axis=1)
    assert by_others["next visit recall at 10"].value == pytest.approx(
        (true & (rank < 10)).sum() / true.sum(), abs=3e-3
    )


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("place", "name"), [(0, "training"), (1, "synthetic"), (2, "test")], ids=str
)
def test_without_second_visits_nothing_is_measured(place: int, name: str) -> None:
    cohorts = [TRAIN[:100], OTHERS[:100], TEST[:100]]
    cohorts[place] = first_visits(cohorts[place])
    result = utility(*cohorts)
    assert result.measures == ()
    assert result.warnings == (f"No {name} patient has a second visit: nothing is predicted.",)


def test_too_few_next_visits_to_judge_any_code_are_said_to_be() -> None:
    repeated = [record for record in TEST if len(record.visits) > 1][:4]
    result = utility(TRAIN, OTHERS, repeated)
    assert result.measures == ()
    assert "stands in 10 of the test patients' 6 next visits" in result.warnings[0]


def test_codes_that_no_synthetic_patient_has_are_counted_and_guessed() -> None:
    strangers = [
        PatientRecord(number, "F", 50, (Visit(("9999",)), Visit(("9999",))))
        for number in range(100)
    ]
    result = utility(TRAIN, strangers, TEST)
    assert result["next visit AUROC"].value == 0.5
    assert result["next visit AUROC"].floor > 0.7
    assert any("stand in no synthetic next visit" in text for text in result.warnings)


def test_few_test_patients_have_no_interval() -> None:
    """Twenty patients with the same two visits, and some codes of them elsewhere."""
    codes = ("4019", "4280")
    both = [
        PatientRecord(n, "F", 50, (Visit(codes), Visit(codes[: 1 + n % 2]))) for n in range(25)
    ]
    result = utility(both * 2, both * 2, both)
    assert any("25 test patients have a second visit" in text for text in result.warnings)
    assert any("recall at 10 needs more" in text for text in result.warnings)
    assert not result["next visit AUROC"].known
    assert np.isnan(result["next visit recall at 10"].value)


@pytest.mark.parametrize("lacking", [{"age"}, {"sex"}, {"age", "sex"}])
def test_without_an_age_or_a_sex_nobodys_is_predicted_from(lacking):
    some = [TRAIN[:200], OTHERS[:200], TEST[:200]]
    partial = [
        PartialRecord(
            r.subject_id,
            None if "sex" in lacking else r.sex,
            None if "age" in lacking else r.age,
            r.visits,
        )
        for r in some[1]
    ]
    # A man of 50 has nothing but zeros where the age and the sex stand.
    alike = [
        [
            PatientRecord(
                r.subject_id,
                "M" if "sex" in lacking else r.sex,
                50 if "age" in lacking else r.age,
                r.visits,
            )
            for r in cohort
        ]
        for cohort in some
    ]
    found, expected = utility(some[0], partial, some[2]), utility(*alike)
    for ours, theirs in zip(found.measures, expected.measures, strict=True):
        assert ours.value == pytest.approx(theirs.value, abs=1e-6, nan_ok=True)
        assert ours.floor == pytest.approx(theirs.floor, abs=1e-6, nan_ok=True)
    assert sum(np.isfinite(measure.value) for measure in found.measures) >= 3
    said = [w for w in found.warnings if "the synthetic cohort has no" in w]
    assert len(said) == len(lacking)
