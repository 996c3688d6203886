"""What a synthetic cohort or its model gives away: who, what codes, which records.

Attribute disclosure asks the question of Choi et al. 2017, https://arxiv.org/abs/1703.06490, who
take the k nearest patients; here it is all who are equally near.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln
from sklearn.metrics import roc_auc_score

from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.distances import Metric, check_tables, nearest_distances, similarities
from ehr_course.evaluation.likelihood import record_log_likelihood
from ehr_course.evaluation.measure import (
    FEWEST,
    GROUPS,
    RESAMPLES,
    check_patients,
    drawn_counts,
    interval,
    weighted_ranking,
)
from ehr_course.records import AnyRecord, PatientRecord

if TYPE_CHECKING:
    from ehr_course.models.prefix_tuning import PrefixTuned
    from ehr_course.models.prompt_bart import PromptBart
    from ehr_course.tokenizers.codes import CodeTokenizer


# ------------------------------------------------------------------ membership


def distance_scores(
    patients: CodeTable, synthetic: CodeTable, *, metric: Metric = "jaccard"
) -> np.ndarray:
    """Minus the distance to the nearest synthetic patient: larger for a likelier member.

    Both tables are from one call of ``code_tables``; the result is float64 (patients,), 0 or less.
    """
    return -nearest_distances(patients, synthetic, metric=metric)[0]


def likelihood_scores(
    model: PromptBart | PrefixTuned, tokenizer: CodeTokenizer, records: Sequence[PatientRecord]
) -> np.ndarray:
    """The model's log-likelihood of each record in nats per token: larger for a likelier member.

    Float64 (records,), 0 or less. Per token, because long records are less likely as a whole. The
    tokenizer must know every code.
    """
    # <BOS> is given, all other tokens are scored.
    lengths = [len(tokenizer.encode(record)) - 1 for record in records]
    return record_log_likelihood(model, tokenizer, records) / np.array(lengths)


def membership_auroc(members: np.ndarray, others: np.ndarray) -> float:
    """How well a score tells members from others: the area under the ROC curve, 0.5 for a guess.

    It is the probability, 0 to 1, that a patient that the model learned from, float (members,),
    scores higher than another, float (others,); equal scores count a half.

    >>> membership_auroc(np.array([-0.1, -0.4]), np.array([-0.4, -0.9]))
    0.875
    """
    scores, labels = _labelled(members, others)
    return float(roc_auc_score(labels, scores))


def membership_interval(
    members: np.ndarray,
    others: np.ndarray,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """The 95 % bootstrap interval of ``membership_auroc``; ``nan`` below 30 members or others."""
    scores, labels = _labelled(members, others)
    if min(len(members), len(others)) < FEWEST:
        return math.nan, math.nan
    values = []
    for first in range(0, resamples, 50):  # bounds the memory
        some = min(50, resamples - first)
        weights = [drawn_counts(len(part), some, rng).T for part in (members, others)]
        values.append(weighted_ranking(scores, labels, np.concatenate(weights))[0])
    return interval(np.concatenate(values))


def _labelled(members: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    check_patients("membership inference", {"members": members, "others": others})
    labels = np.arange(len(members) + len(others)) < len(members)
    return np.concatenate([members, others]), labels


# ------------------------------------------------------------------ attributes


@dataclass(frozen=True)
class Disclosure:
    """What the attack found of each target's hidden codes.

    Attributes:
        right, wrong: int64 (targets,): codes guessed that the patient has, or does not have.
        missed: int64 (targets,): codes not guessed that the patient has.
    """

    right: np.ndarray
    wrong: np.ndarray
    missed: np.ndarray

    @property
    def f1(self) -> tuple[np.ndarray, np.ndarray]:
        """Each target's two parts of 2 right / (2 right + wrong + missed)."""
        return 2 * self.right, 2 * self.right + self.wrong + self.missed

    @property
    def sensitivity(self) -> tuple[np.ndarray, np.ndarray]:
        """The same of right / (right + missed), the share of hidden codes that are guessed."""
        return self.right, self.right + self.missed


def ratio(parts: tuple[np.ndarray, np.ndarray]) -> float:
    """F1 or sensitivity over all targets; ``nan`` without any code."""
    above, below = (part.sum() for part in parts)
    return float(above / below) if below else math.nan


def common_columns(table: CodeTable, *, share: float = 0.5) -> np.ndarray:
    """The columns of the most frequent codes that make up a share of all codes of patients.

    Int64 (common,), rising, at least one; each patient counts once for a code.
    """
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

    All patients at the smallest distance are asked; a code that at least half of them have is
    guessed. The attacker knows the columns ``known``, int64 (known,), of each target.
    """
    check_tables(targets, cohort, metric)
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
        asked[rows][better] = 0  # those whom a nearer one has replaced
        votes[rows][better] = 0
        near = similarity == best[rows, None]
        asked[rows] += near.sum(axis=1)
        votes[rows] += (csr_array(near.astype(np.float32)) @ answers[columns]).toarray()
    guessed = 2 * votes >= asked[:, None]
    true = targets.patients[:, hidden].toarray() > 0
    return Disclosure(
        (guessed & true).sum(axis=1), (guessed & ~true).sum(axis=1), (~guessed & true).sum(axis=1)
    )


# ------------------------------------------------------------------ copies and rare codes


Visits = tuple[tuple[str, ...], ...]


def visits_of(record: AnyRecord) -> Visits:
    """What a copy is compared by: the codes of each visit, sorted, visits in their order."""
    return tuple(tuple(sorted(visit.codes)) for visit in record.visits)


def copies_by_group(
    written: Sequence[AnyRecord], train: Sequence[AnyRecord], groups: np.ndarray
) -> np.ndarray:
    """In which training groups each written patient has a twin: bool (written, groups).

    A twin has exactly the same visits in the same order; the order of codes within a visit, age,
    sex and times do not matter. ``groups`` is int64 (train,).
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
    """How likely each code is to be absent from n patients drawn at random: float64 (codes,).

    Of N patients with c carriers, n drawn without replacement hold none with the probability
    C(N - c, n) / C(N, n). So cohorts of different sizes are compared at one size.
    """
    total = len(table)
    without = total - table.patients.sum(axis=0)[columns].astype(np.float64)

    def log_choose(n: np.ndarray | int) -> np.ndarray:
        # C(n, k) is 0 below k: there the argument is kept in range and the answer set below.
        n = np.maximum(n, n_patients)
        return gammaln(n + 1) - gammaln(n_patients + 1) - gammaln(n - n_patients + 1)

    chance = np.exp(log_choose(without) - log_choose(total))
    return np.where(without < n_patients, 0.0, np.minimum(chance, 1.0))
