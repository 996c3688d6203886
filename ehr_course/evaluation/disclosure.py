"""What a synthetic cohort discloses: attributes of patients, whole records, and rare codes.

**Attribute disclosure.** The attacker knows which of the common codes a training patient has,
looks up the synthetic patients who are nearest in these codes, and takes the other codes that at
least half of them have for the patient's own. Statistics alone let such guesses come true now and
then: what real patients who were never in the training data would give in place of the synthetic
ones is the baseline, and only what goes beyond it is disclosed by the cohort. (The question is
that of Choi et al. 2017, https://arxiv.org/abs/1703.06490, who take the k nearest; here it is all
who are equally near.)

**Copies** are synthetic records that stand in the training data. **Rare codes** of the training
data can be absent from the synthetic cohort, by chance or because the model never writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.measure import GROUPS
from ehr_course.evaluation.nearest_neighbours import Metric, similarities
from ehr_course.records import AnyRecord


@dataclass(frozen=True)
class Disclosure:
    """What the attack gave for each target, as counts of hidden codes.

    Attributes:
        right: int64 (targets,): guessed, and the patient has them.
        wrong: int64 (targets,): guessed, and the patient has them not.
        missed: int64 (targets,): not guessed, and the patient has them.
    """

    right: np.ndarray
    wrong: np.ndarray
    missed: np.ndarray

    @property
    def f1(self) -> float:
        """2 right / (2 right + wrong + missed), over all targets; ``nan`` without any code."""
        return _ratio(*self.f1_parts())

    @property
    def sensitivity(self) -> float:
        """The share of all hidden codes of the targets that are guessed; ``nan`` without any."""
        return _ratio(*self.sensitivity_parts())

    def f1_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """What each target adds to the numerator and to the denominator of F1."""
        return 2 * self.right, 2 * self.right + self.wrong + self.missed

    def sensitivity_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """What each target adds to the numerator and to the denominator of the sensitivity."""
        return self.right, self.right + self.missed


def common_columns(table: CodeTable, *, share: float = 0.5) -> np.ndarray:
    """The columns of the most frequent codes that make up a share of all codes of patients.

    Args:
        table: the cohort; each patient counts once for a code.
        share: above 0 and below 1.

    Returns:
        int64 (common,), rising; at least one.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> def patient(*codes):
    ...     return PatientRecord(1, "F", 50, (Visit(codes),))
    >>> (table,) = code_tables([patient("4019"), patient("4019", "486"), patient("4280")])
    >>> [table.codes[column] for column in common_columns(table)]
    ['4019']
    """
    if not 0 < share < 1:
        raise InputError("common_columns", "share", f"{share!r} is no share", "Use 0 to 1.")
    carriers = table.patients.sum(axis=0, dtype=np.float64)
    order = np.argsort(-carriers, kind="stable")
    enough = np.searchsorted(np.cumsum(carriers[order]), share * carriers.sum()) + 1
    return np.sort(order[:enough])


def attribute_disclosure(
    targets: CodeTable,
    cohort: CodeTable,
    known: np.ndarray,
    *,
    metric: Metric = "jaccard",
    block: int = 1024,
) -> Disclosure:
    """Guess the hidden codes of the targets from the nearest patients of a cohort.

    Args:
        targets: the patients whom the attacker asks about.
        cohort: whom the attacker looks up; of the same call of ``code_tables``.
        known: int64 (known,): the columns that the attacker knows of each target; all others are
            to be guessed.
        metric: of the known codes; as for ``nearest_distances``. All patients at the smallest
            distance are asked, and a code is guessed when at least half of them have it.
        block: how many patients of each are compared at a time.

    Returns:
        Counts for each target.

    Raises:
        InputError: if the columns differ.
    """
    if targets.codes != cohort.codes:
        raise InputError(
            "attribute_disclosure",
            "",
            "the tables have other columns",
            "Make both with one call of code_tables.",
        )
    hidden = np.setdiff1d(np.arange(len(targets.codes)), known)
    answers = cohort.patients[:, hidden]
    best = np.full(len(targets), -np.inf, dtype=np.float32)
    asked = np.zeros(len(targets), dtype=np.float32)
    votes = np.zeros((len(targets), len(hidden)), dtype=np.float32)
    for rows, columns, similarity in similarities(
        targets.patients[:, known], cohort.patients[:, known], metric=metric, block=block
    ):
        nearest = similarity.max(axis=1)
        better = nearest > best[rows]
        best[rows] = np.maximum(best[rows], nearest)
        asked[rows][better] = 0  # whom a nearer one has replaced
        votes[rows][better] = 0
        near = similarity == best[rows, None]
        asked[rows] += near.sum(axis=1)
        votes[rows] += (csr_array(near.astype(np.float32)) @ answers[columns]).toarray()
    guessed = 2 * votes >= asked[:, None]
    true = targets.patients[:, hidden].toarray() > 0
    return Disclosure(
        (guessed & true).sum(axis=1), (guessed & ~true).sum(axis=1), (~guessed & true).sum(axis=1)
    )


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> float:
    below = denominators.sum()
    return float(numerators.sum() / below) if below else float("nan")


# ------------------------------------------------------------------ copies and rare codes


Visits = tuple[tuple[str, ...], ...]


def visits_of(record: AnyRecord) -> Visits:
    """What a copy is compared by: the codes of each visit, sorted, visits in their order."""
    return tuple(tuple(sorted(visit.codes)) for visit in record.visits)


def copies_by_group(
    written: Sequence[AnyRecord], train: Sequence[AnyRecord], groups: np.ndarray
) -> np.ndarray:
    """In which groups of the training patients each written patient has a twin.

    A twin has exactly the same visits. The order of codes within a visit does not matter, that of
    the visits does; age, sex and times are not looked at.

    Args:
        written: the patients to judge.
        train: those that the model learned from.
        groups: int64 (train,), as ``random_groups`` makes them.

    Returns:
        bool (written, groups); any of a row says whether the patient is a copy.

    >>> from ehr_course.records import PatientRecord, Visit
    >>> train = [PatientRecord(1, "F", 50, (Visit(("4280", "4019")),))]
    >>> written = [PatientRecord(0, "M", 70, (Visit(("4019", "4280")),))]
    >>> copies_by_group(written, train, np.array([2])).nonzero()
    (array([0]), array([2]))
    """
    known: dict[Visits, np.ndarray] = {}
    for record, group in zip(train, groups.tolist(), strict=True):
        known.setdefault(visits_of(record), np.zeros(GROUPS, dtype=bool))[group] = True
    nowhere = np.zeros(GROUPS, dtype=bool)
    return np.array([known.get(visits_of(record), nowhere) for record in written])


def rare_columns(table: CodeTable, *, most: int) -> np.ndarray:
    """The columns of codes that 1 to ``most`` patients of the cohort have, int64 (rare,)."""
    carriers = table.patients.sum(axis=0)
    return np.flatnonzero((carriers >= 1) & (carriers <= most))


def chance_of_absence(table: CodeTable, columns: np.ndarray, n_patients: int) -> np.ndarray:
    """How likely each code is to be absent from some patients of a cohort, drawn at random.

    Of N patients with c carriers, n drawn without replacement hold none with the probability
    C(N - c, n) / C(N, n). Cohorts of different sizes are compared at one size by it, without the
    luck of a single draw.

    Args:
        table: the cohort.
        columns: of the codes, int64 (codes,).
        n_patients: how many patients are drawn, at most the cohort's.

    Returns:
        float64 (codes,).

    Raises:
        InputError: if more patients are drawn than there are.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> cohort = [PatientRecord(i, "F", 50, (Visit((c,)),)) for i, c in enumerate(["486", "4019"])]
    >>> (table,) = code_tables(cohort)
    >>> chance_of_absence(table, np.array([0]), 1).round(6)
    array([0.5])
    """
    total = len(table)
    if not 0 <= n_patients <= total:
        raise InputError(
            "chance_of_absence",
            "n_patients",
            f"{n_patients!r} of {total} patients cannot be drawn",
            f"Use 0 to {total}.",
        )
    without = total - table.patients.sum(axis=0)[columns].astype(np.float64)

    def log_choose(n: np.ndarray | int) -> np.ndarray:
        # C(n, k) is 0 below k: there the argument is kept in range and the answer set below.
        n = np.maximum(n, n_patients)
        return gammaln(n + 1) - gammaln(n_patients + 1) - gammaln(n - n_patients + 1)

    chance = np.exp(log_choose(without) - log_choose(total))
    return np.where(without < n_patients, 0.0, np.minimum(chance, 1.0))
