"""The nearest patient of another cohort, found in blocks, and adversarial accuracy."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from ehr_course.errors import InputError
from ehr_course.evaluation import distances as module
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.evaluation.distances import (
    _to_groups,
    adversarial_accuracies,
    adversarial_accuracy,
    nearest_distances,
)
from ehr_course.evaluation.measure import GROUPS, random_groups
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort


def patient(*codes: str) -> PatientRecord:
    return PatientRecord(1, "F", 50, (Visit(codes),))


def random_tables(seed: int, n_a: int = 60, n_b: int = 47) -> tuple[CodeTable, ...]:
    """Patients of 1 to 8 of 12 codes, so that ties are common."""
    rng = np.random.default_rng(seed)
    codes = [f"V{number:02}" for number in range(12)]

    def cohort(n: int) -> list[PatientRecord]:
        return [
            patient(*rng.choice(codes, size=rng.integers(1, 9), replace=False).tolist())
            for _ in range(n)
        ]

    return code_tables(cohort(n_a), cohort(n_b))


@pytest.fixture(params=[1, 7, 1024])
def block(request, monkeypatch) -> None:
    """Compare so many patients at a time."""
    monkeypatch.setattr(module, "BLOCK", request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("seed", range(3))
def test_distances_and_rows_are_those_that_scipy_finds(seed: int) -> None:
    a, b = random_tables(seed)
    distances, index = nearest_distances(a, b)
    expected = slow(a, b)
    np.testing.assert_allclose(distances, expected.min(axis=1), atol=1e-12)
    np.testing.assert_array_equal(index, expected.round(9).argmin(axis=1))  # the first of equals


@pytest.mark.usefixtures("block")
def test_leaving_oneself_out_gives_the_second_neighbour_of_scikit_learn() -> None:
    a, _ = random_tables(5)
    dense = a.patients.toarray().astype(bool)
    neighbours = NearestNeighbors(n_neighbors=2, algorithm="brute", metric="jaccard").fit(dense)
    expected = neighbours.kneighbors(dense)[0][:, 1]
    distances, index = nearest_distances(a, a, leave_one_out=True)
    np.testing.assert_allclose(distances, expected, atol=1e-12)
    assert not np.any(index == np.arange(len(a)))


def test_patients_without_any_code_are_like_each_other_alone() -> None:
    table, _ = code_tables([patient("4280"), patient("486")], [patient("4280")])
    nobody = table.patients.copy()
    nobody.data[:] = 0
    empty = CodeTable(table.codes, nobody, table.visits, table.owner, table.ages, table.sexes)
    assert nearest_distances(empty, empty)[0].tolist() == [0.0, 0.0]
    assert nearest_distances(empty, table)[0].tolist() == [1.0, 1.0]


def test_visits_do_not_matter_and_neither_do_age_and_sex() -> None:
    one = PatientRecord(1, "F", 20, (Visit(("4280",)), Visit(("4019", "4280"))))
    other = PatientRecord(2, "M", 80, (Visit(("4019", "4280")),))
    a, b = code_tables([one], [other])
    assert nearest_distances(a, b)[0].tolist() == [0.0]


def slow(a: CodeTable, b: CodeTable) -> np.ndarray:
    """All distances by SciPy."""
    return cdist(*(table.patients.toarray().astype(bool) for table in (a, b)), "jaccard")


def test_peak_memory_does_not_grow_with_the_cohorts(monkeypatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 256)
    cohort = make_cohort(3_000, seed=1)
    peaks = []
    for size in (1_000, 3_000):
        a, b = code_tables(cohort[:size], cohort[:size])
        tracemalloc.start()
        nearest_distances(a, b)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    whole = 3_000 * 3_000 * 4
    assert max(peaks) < whole / 8
    assert peaks[1] < peaks[0] + 1_000_000


def test_tables_of_two_calls_are_refused() -> None:
    (a,), (b,) = code_tables([patient("4280")]), code_tables([patient("486")])
    with pytest.raises(InputError, match="one call of code_tables"):
        nearest_distances(a, b)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_nearest_of_all_groups_is_the_nearest(leave_one_out):
    cohort = make_cohort(120, seed=4)
    a, b = code_tables(cohort[:60], cohort[:60] if leave_one_out else cohort[60:])
    groups = random_groups(60, np.random.default_rng(2))
    by_group = _to_groups(a, b, groups, leave_one_out=leave_one_out)
    expected, _ = nearest_distances(a, b, leave_one_out=leave_one_out)
    assert by_group.shape == (60, GROUPS)
    assert by_group.min(axis=1) == pytest.approx(expected)


# ------------------------------------------------------------------ adversarial accuracy

HOSPITAL = make_cohort(200, seed=4)
TRAIN, INDEPENDENT = HOSPITAL[:100], HOSPITAL[100:]


def slow_accuracy(real: CodeTable, synthetic: CodeTable) -> float:
    x, y = (table.patients.toarray().astype(bool) for table in (real, synthetic))
    scores = []
    for own, other in ((x, y), (y, x)):
        score = 0.0
        for i in range(len(own)):
            among = cdist(own[i : i + 1], np.delete(own, i, axis=0), "jaccard").min()
            across = cdist(own[i : i + 1], other, "jaccard").min()
            score += 0.5 if math.isclose(among, across) else float(among < across)
        scores.append(score / len(own))
    return sum(scores) / 2


def test_adversarial_accuracy_is_that_of_a_slow_loop() -> None:
    real, synthetic = code_tables(TRAIN[:90], [*INDEPENDENT[:60], *TRAIN[:30]])
    result = adversarial_accuracy(real, synthetic)
    assert result.value == pytest.approx(slow_accuracy(real, synthetic))


def test_the_accuracy_without_a_group_is_that_of_the_other_patients() -> None:
    real, synthetic = code_tables(TRAIN[:60], INDEPENDENT[:60])
    groups = random_groups(60, np.random.default_rng(3))
    (result,) = adversarial_accuracies((real,), synthetic, groups=groups)
    for group, value in enumerate(result.left_out):
        kept = np.flatnonzero(groups != group)
        alone = adversarial_accuracy(real.select(kept), synthetic.select(kept))
        assert value == pytest.approx(alone.value)


def test_adversarial_accuracy_refuses_cohorts_of_other_sizes() -> None:
    with pytest.raises(InputError, match="50 and 40 patients"):
        adversarial_accuracy(*code_tables(TRAIN[:50], INDEPENDENT[:40]))
