"""Membership inference: was this patient among those that the model learned from?

An attacker holds the records of some patients and guesses for each. By distance, the attacker
has the synthetic cohort alone and takes a patient with a near synthetic one for a member. By
likelihood, the attacker has the model itself and takes a patient whom it finds likely for one;
that says what must not happen to the model's weights, and little about the cohort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import roc_auc_score

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable
from ehr_course.evaluation.likelihood import record_log_likelihood
from ehr_course.evaluation.measure import FEWEST, drawn_counts, interval, weighted_ranking
from ehr_course.evaluation.nearest_neighbours import Metric, nearest_distances
from ehr_course.records import PatientRecord

if TYPE_CHECKING:
    from ehr_course.models.prefix_tuning import PrefixTuned
    from ehr_course.models.prompt_bart import PromptBart
    from ehr_course.tokenizers.codes import CodeTokenizer


def distance_scores(
    patients: CodeTable, synthetic: CodeTable, *, metric: Metric = "jaccard"
) -> np.ndarray:
    """Minus the distance to the nearest synthetic patient: larger for a likelier member.

    Args:
        patients: those whom the attacker asks about.
        synthetic: the cohort; of the same call of ``code_tables``.
        metric: as for ``nearest_distances``.

    Returns:
        float64 (patients,), 0 or less.
    """
    return -nearest_distances(patients, synthetic, metric=metric)[0]


def likelihood_scores(
    model: PromptBart | PrefixTuned, tokenizer: CodeTokenizer, records: Sequence[PatientRecord]
) -> np.ndarray:
    """The model's log-likelihood of each record, per token: larger for a likelier member.

    Per token, because a long record is less likely as a whole, member or not.

    Args:
        model: a trained PromptBart, or one with a prefix.
        tokenizer: the one that it was trained with; it must know every code.
        records: those whom the attacker asks about.

    Returns:
        float64 (records,), nats a token, 0 or less.
    """
    # <BOS> is given, all other tokens are scored.
    lengths = [len(tokenizer.encode(record)) - 1 for record in records]
    nats = np.asarray(record_log_likelihood(model, tokenizer, records), dtype=np.float64)
    return nats / np.array(lengths)


def membership_auroc(members: np.ndarray, others: np.ndarray) -> float:
    """How well a score tells members from others: the area under the ROC curve.

    Args:
        members: float (members,): the scores of patients whom the model learned from.
        others: float (others,): those of patients whom it never saw.

    Returns:
        0 to 1: the probability that a member scores higher than another patient, equal scores
        counting a half. 0.5 is a guess.

    Raises:
        InputError: if there are no members or no others.

    >>> membership_auroc(np.array([-0.1, -0.4]), np.array([-0.4, -0.9]))
    0.875
    """
    scores, labels = _labelled(members, others)
    return float(roc_auc_score(labels, scores))


def membership_interval(
    members: np.ndarray, others: np.ndarray, *, rng: np.random.Generator, resamples: int = 200
) -> tuple[float, float]:
    """The bootstrap interval of ``membership_auroc``: members and others are each drawn again.

    Args:
        members, others: as for ``membership_auroc``.
        rng: gives the draws.
        resamples: how often patients are drawn.

    Returns:
        low and high, 95 %; both ``nan`` with fewer than 30 members or others.
    """
    scores, labels = _labelled(members, others)
    if min(len(members), len(others)) < FEWEST:
        return float("nan"), float("nan")
    values = []
    for first in range(0, resamples, 50):  # bounds the memory
        some = min(50, resamples - first)
        weights = [drawn_counts(len(part), some, rng).T for part in (members, others)]
        values.append(weighted_ranking(scores, labels, np.concatenate(weights))[0])
    return interval(np.concatenate(values))


def _labelled(members: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    for name, part in (("members", members), ("others", others)):
        if not len(part):
            raise InputError(
                "membership inference", name, "there are none", "Give at least one of each."
            )
    labels = np.arange(len(members) + len(others)) < len(members)
    return np.concatenate([members, others]), labels
