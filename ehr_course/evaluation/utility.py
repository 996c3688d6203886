"""Is a synthetic cohort of use? Learn from it to predict real patients' next visits.

The value is what a model learned from synthetic patients reaches on real test patients, the floor
what it reaches when learned from as many real ones. Each code's frequency alone is the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.linear_model import LogisticRegression

from ehr_course.batches.ragged import places
from ehr_course.evaluation.code_table import CodeTable, code_tables, unknown_in
from ehr_course.evaluation.measure import (
    FEWEST,
    GROUPS,
    RESAMPLES,
    SHARE,
    Judgement,
    Measure,
    check_patients,
    drawn_counts,
    interval_around,
    jackknife_error,
    random_groups,
    rows_at_random,
    weighted_ranking,
)
from ehr_course.records import AnyRecord

CODES = 25
"""The most codes predicted: the most frequent ones in the training patients' next visits."""

POSITIVES = 10
"""The fewest next visits of test patients that must contain a code for it to be predicted."""

FIRST = 10
"""Among how many of the codes, the likeliest first, the next visit's are looked for."""

MOST_PAIRS = 20_000
"""The most next visits to learn from, and the most to predict; of more, a sample is drawn."""

MOST_FOR_ERRORS = 2_000
"""The most visits in each of the repeated trainings that show how far luck goes."""

_MEANINGS = {
    "AUROC": "For each code, how well its predicted probability tells the next visits with it "
    "from those without; the mean over codes. 0.5 is a guess.",
    "average precision": "For each code, the precision averaged over the next visits that have "
    "it, likeliest first; the mean over codes. A guess gives the code's share of visits.",
    "recall at 10": "Of those of the frequent codes that the next visits have, the share that "
    "stands among the ten likeliest for its visit.",
}
"""The three scores, and what each says."""

BY_FREQUENCY = " by frequency alone"

NAMES = tuple(
    f"next visit {score}{how}"
    for how in ("", BY_FREQUENCY)
    for score in _MEANINGS
    if not (how and score == "AUROC")
)
"""The measures, in their order."""


def utility(
    train: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    test: Sequence[AnyRecord],
    *,
    seed: int = 0,
) -> Judgement:
    """Learn to predict the next visit from synthetic patients, and from as many real ones.

    Predicted are the most frequent codes, from age, sex (if all cohorts have them) and the codes
    before. Intervals reflect the luck of the test patients, who are drawn again, and of those
    learned from, a tenth of them left out at a time.

    Args:
        train: real patients to learn from.
        test: real patients to predict, none of them in train.

    Returns:
        The measures; none, with a warning, where a cohort has no patient with two visits.
    """
    check_patients("utility", {"train": train, "synthetic": synthetic, "test": test})
    rng = np.random.default_rng(seed)
    # A code of synthetic patients alone predicts nothing in real ones; left out, it cannot change
    # what is learned from real ones either.
    tables = code_tables(train, synthetic, test, codes_of=(train, test))
    named = dict(zip(("training", "synthetic", "held-out"), tables, strict=True))
    unknown = unknown_in(named)
    # All three must say the same of a patient, so what one of them lacks nobody has.
    if "age" in unknown:
        tables = tuple(replace(table, ages=None) for table in tables)
    if "sex" in unknown:
        tables = tuple(replace(table, sexes=None) for table in tables)
    without = [
        f"The next visit is predicted without the {what}, for the floor too: {reason}."
        for what, reason in unknown.items()
    ]
    size = min(len(train), len(synthetic))
    # The synthetic ones last: what is drawn for the floor does not depend on them.
    real, asked = _pairs(tables[0], size, rng), _pairs(tables[2], len(test), rng)
    written = _pairs(tables[1], size, rng)
    pairs_of = {"training": real, "synthetic": written, "test": asked}
    missing = " and ".join(name for name, pairs in pairs_of.items() if not len(pairs))
    if missing:
        return Judgement((), (f"No {missing} patient has a second visit: nothing is predicted.",))
    columns = _columns(real, asked)
    if not len(columns):
        why = (
            f"No code of the training patients' {len(real)} next visits stands in {POSITIVES} of "
            f"the test patients' {len(asked)} next visits and is absent from {POSITIVES} others: "
            "nothing is predicted."
        )
        return Judgement((), (why,))
    judge = _Judge(asked, columns, rng)
    measures = []
    for learn, how in ((predict, ""), (frequencies, BY_FREQUENCY)):
        ours, floor = (judge.scores(learn(pairs, asked, columns)) for pairs in (written, real))
        errors = judge.errors_of_learning(learn, written, real, rng)
        measures += [
            _measure(score, values, floors, error, how)
            for score, values, floors, error in zip(_MEANINGS, ours, floor, errors, strict=True)
            if not (how and score == "AUROC")
        ]
    warnings = (*without, *_warnings(real, written, asked, columns))
    return Judgement(tuple(measures), warnings)


def _pairs(table: CodeTable, size: int, rng: np.random.Generator) -> NextVisits:
    """The next visits of some patients, at most MOST_PAIRS of them."""
    return next_visits(table.draw(size, rng)).draw(MOST_PAIRS, rng)


def _columns(real: NextVisits, asked: NextVisits) -> np.ndarray:
    """The most frequent codes of real next visits that can be judged, the most frequent first."""
    carriers, to_find = (pairs.next.sum(axis=0) for pairs in (real, asked))
    order = np.argsort(-carriers, kind="stable")
    enough = (
        (carriers[order] > 0)
        & (to_find[order] >= POSITIVES)
        & (to_find[order] <= len(asked) - POSITIVES)
    )
    return order[enough][:CODES]


def _warnings(
    real: NextVisits, written: NextVisits, asked: NextVisits, columns: np.ndarray
) -> list[str]:
    warnings = []
    n_patients = len(np.unique(asked.owner))
    if n_patients < FEWEST:
        warnings.append(
            f"{n_patients} test patients have a second visit: no interval is given below "
            f"{FEWEST}, and the numbers say little."
        )
    if len(columns) <= FIRST:
        warnings.append(
            f"{len(columns)} codes are frequent enough to be predicted: recall at {FIRST} needs "
            "more and is not given."
        )
    warnings += [
        f"There are only {len(pairs)} {name} next visits to learn from: no interval is given "
        f"below {FEWEST}."
        for name, pairs in (("training", real), ("synthetic", written))
        if len(pairs) < FEWEST
    ]
    never = int((written.next[:, columns].sum(axis=0) == 0).sum())
    if never:
        warnings.append(
            f"{never} of the {len(columns)} codes stand in no synthetic next visit: nothing can "
            "be learned about them."
        )
    return warnings


class _Judge:
    """What really stood in the next visits, and how often each test patient is drawn."""

    def __init__(self, asked: NextVisits, columns: np.ndarray, rng: np.random.Generator) -> None:
        self.asked, self.columns = asked, columns
        self.true = asked.next[:, columns].toarray() > 0  # (pairs, codes)
        owners, owner = np.unique(asked.owner, return_inverse=True)
        drawn = np.empty((0, len(owners)), dtype=np.float32)
        if len(owners) >= FEWEST:
            drawn = drawn_counts(len(owners), RESAMPLES, rng)
        # The first column is the patients as they are: (pairs, 1 + resamples).
        as_they_are = np.ones((1, len(owners)), dtype=np.float32)
        self.weights = np.ascontiguousarray(np.concatenate([as_they_are, drawn]).T)[owner]

    def scores(self, predicted: np.ndarray, *, resampled: bool = True) -> np.ndarray:
        """The three scores of float (pairs, codes): float64 (3, 1 + resamples), or (3, 1)."""
        weights = self.weights if resampled else self.weights[:, :1]
        each = [
            weighted_ranking(scores, labels, weights)
            for scores, labels in zip(predicted.T, self.true.T, strict=True)
        ]
        auroc, precision = np.array(each).transpose(1, 0, 2)  # (codes, resamples) each
        recall = self._recall(predicted, weights)
        return np.stack([_mean_over_codes(auroc), _mean_over_codes(precision), recall])

    def errors_of_learning(
        self,
        learn: Callable[..., np.ndarray],
        written: NextVisits,
        real: NextVisits,
        rng: np.random.Generator,
    ) -> list[float]:
        """How far each score may lie from its floor by the luck of the patients learned from.

        Of many, some are enough: a standard error falls with the square root of how many.
        """
        size = min(len(written), len(real))
        if size < FEWEST:
            return [math.nan] * len(_MEANINGS)
        some = [pairs.draw(min(size, MOST_FOR_ERRORS), rng) for pairs in (written, real)]
        groups = []  # of each pair; those of one patient are in one group
        for pairs in some:
            owners, row = np.unique(pairs.owner, return_inverse=True)
            groups.append(random_groups(len(owners), rng)[row])
        left_out = []
        for group in range(GROUPS):
            kept = [
                pairs.select(np.flatnonzero(of != group))
                for pairs, of in zip(some, groups, strict=True)
            ]
            ours, floor = (
                self.scores(learn(pairs, self.asked, self.columns), resampled=False)
                for pairs in kept
            )
            left_out.append((ours - floor)[:, 0])
        shrink = math.sqrt(len(some[0]) / size)
        return [shrink * jackknife_error(values) for values in np.array(left_out).T]

    def _recall(self, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if predicted.shape[1] <= FIRST:
            return np.full(weights.shape[1], math.nan)
        first = np.argsort(-predicted, axis=1, kind="stable")[:, :FIRST]
        found = np.take_along_axis(self.true, first, axis=1).sum(axis=1)
        parts = np.stack([found, self.true.sum(axis=1)]).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(*(parts @ weights))


def _mean_over_codes(values: np.ndarray) -> np.ndarray:
    """The mean over the codes that have a value, (resamples,)."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0).sum(axis=0) / known.sum(axis=0)


def _measure(
    score: str, ours: np.ndarray, floor: np.ndarray, of_learning: float, how: str
) -> Measure:
    of_test = float((ours - floor)[1:].std()) if len(ours) > 1 else math.nan
    low, high = interval_around(float(ours[0]), of_test, of_learning)
    meaning = _MEANINGS[score]
    if how:
        meaning += " Here everyone gets each code's frequency in the patients learned from."
    return Measure(
        f"next visit {score}{how}",
        ours[0],
        low,
        high,
        floor=floor[0],
        unit=SHARE if score == "recall at 10" else "",
        better="high",
        meaning=meaning,
    )


# ------------------------------------------------------------------ the task


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
        ages, sexes = (
            None if values is None else values[rows] for values in (self.ages, self.sexes)
        )
        return NextVisits(self.before[rows], self.next[rows], self.owner[rows], ages, sexes)

    def draw(self, n: int, rng: np.random.Generator) -> NextVisits:
        """n pairs drawn without replacement, in their order; all of them if there are fewer."""
        return self if n >= len(self) else self.select(rows_at_random(n, len(self), rng))

    def features(self) -> csr_array:
        """What a prediction starts from, codes, age and sex if known: float64 (pairs, codes + 2).

        The age is in units of 25 years from 50, fixed so that all cohorts are scaled alike.
        """
        known = [] if self.ages is None else [(self.ages - 50) / 25]
        known += [] if self.sexes is None else [self.sexes == "F"]
        columns = [csr_array(column[:, None].astype(np.float64)) for column in known]
        features = hstack([self.before.astype(np.float64), *columns], format="csr")
        # scikit-learn takes no others; SciPy chooses int64 for some products.
        features.indices = features.indices.astype(np.int32)
        features.indptr = features.indptr.astype(np.int32)
        return features


def next_visits(table: CodeTable) -> NextVisits:
    """Pair every visit but the first of each patient with the visits before it."""
    first = np.searchsorted(table.owner, table.owner)  # (visits,): the patient's first visit
    place = np.arange(len(table.owner)) - first
    chosen = np.flatnonzero(place > 0)
    pair = np.repeat(np.arange(len(chosen)), place[chosen])
    earlier = places(first[chosen], place[chosen])
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
    """The probability of each code in each next visit: float64 (pairs of test, codes).

    One logistic regression a code, with a ridge penalty (C = 0.1); a code that all training pairs
    have, or none, gets 1 or 0 for everyone.
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
