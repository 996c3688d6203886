"""Predict the codes of the next visit from age, sex and the codes of the visits before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.linear_model import LogisticRegression

from ehr_course.evaluation.code_table import CodeTable


@dataclass(frozen=True)
class NextVisits:
    """Every visit but the first of each patient, with what was known before it.

    Attributes:
        before: float32 (pairs, codes): 1 where an earlier visit of the patient has the code.
        next: float32 (pairs, codes): 1 where the visit has the code.
        owner: int64 (pairs,): the row of the patient.
        ages: int64 (pairs,): years at the first visit, or None.
        sexes: str (pairs,): "F" or "M", or None.
    """

    before: csr_array
    next: csr_array
    owner: np.ndarray
    ages: np.ndarray | None
    sexes: np.ndarray | None

    def __len__(self) -> int:
        return self.before.shape[0]

    def select(self, rows: np.ndarray) -> NextVisits:
        """Some of the pairs, in the order of ``rows``, int64 (chosen,)."""
        return NextVisits(
            self.before[rows],
            self.next[rows],
            self.owner[rows],
            None if self.ages is None else self.ages[rows],
            None if self.sexes is None else self.sexes[rows],
        )

    def features(self) -> csr_array:
        """What a prediction starts from: float64 (pairs, codes + 2).

        The codes before, the age and the sex; what is None has no column. The age is in units of
        25 years from 50, about its spread in a hospital: fixed numbers, so that cohorts are
        scaled alike.
        """
        known = []
        if self.ages is not None:
            known.append((self.ages - 50) / 25)
        if self.sexes is not None:
            known.append(self.sexes == "F")
        columns = [csr_array(column[:, None].astype(np.float64)) for column in known]
        features = hstack([self.before.astype(np.float64), *columns], format="csr")
        # scikit-learn takes no others; SciPy chooses int64 for some products.
        features.indices = features.indices.astype(np.int32)
        features.indptr = features.indptr.astype(np.int32)
        return features


def next_visits(table: CodeTable) -> NextVisits:
    """Pair every visit but the first of each patient with the visits before it.

    >>> from ehr_course.evaluation.code_table import code_tables
    >>> from ehr_course.records import PatientRecord, Visit
    >>> visits = Visit(("4019",)), Visit(("4280",)), Visit(("486",))
    >>> (table,) = code_tables([PatientRecord(1, "F", 50, visits)])
    >>> table.codes
    ('4019', '4280', '486')
    >>> pairs = next_visits(table)
    >>> pairs.before.toarray().astype(int).tolist(), pairs.next.toarray().astype(int).tolist()
    ([[1, 0, 0], [1, 1, 0]], [[0, 1, 0], [0, 0, 1]])
    """
    first = np.searchsorted(table.owner, table.owner)  # (visits,): the patient's first visit
    place = np.arange(len(table.owner)) - first
    chosen = np.flatnonzero(place > 0)
    pair = np.repeat(np.arange(len(chosen)), place[chosen])
    starts = np.cumsum(place[chosen]) - place[chosen]
    earlier = first[chosen][pair] + np.arange(len(pair)) - starts[pair]
    among = csr_array(
        (np.ones(len(pair), dtype=np.float32), (pair, earlier)),
        shape=(len(chosen), len(table.owner)),
    )
    before = csr_array(among @ table.visits)
    before.data[:] = 1.0
    owner = table.owner[chosen]
    ages, sexes = (
        None if values is None else values[owner] for values in (table.ages, table.sexes)
    )
    return NextVisits(before, table.visits[chosen], owner, ages, sexes)


def predict(train: NextVisits, test: NextVisits, columns: np.ndarray) -> np.ndarray:
    """The probability of each code in each next visit, by logistic regression.

    One regression a code, with a ridge penalty (C = 0.1 in scikit-learn's words). A code that all
    of the training pairs have, or none, gets 1 or 0 for everyone.

    Args:
        train: pairs to learn from, at least one.
        test: pairs to predict, of the same call of ``code_tables``.
        columns: int64 (codes,): which codes to predict.

    Returns:
        float64 (pairs of test, codes).
    """
    features, asked = train.features(), test.features()
    answers = train.next[:, columns].toarray() > 0
    predicted = np.empty((len(test), len(columns)))
    for number, answer in enumerate(answers.T):
        if answer.all() or not answer.any():
            predicted[:, number] = answer[0]
            continue
        model = LogisticRegression(C=0.1, max_iter=1_000).fit(features, answer)
        predicted[:, number] = model.predict_proba(asked)[:, 1]
    return predicted


def frequencies(train: NextVisits, test: NextVisits, columns: np.ndarray) -> np.ndarray:
    """The same from nothing: each code's share of the training pairs, for everyone."""
    shares = train.next[:, columns].toarray().mean(axis=0, dtype=np.float64)
    return np.tile(shares, (len(test), 1))
