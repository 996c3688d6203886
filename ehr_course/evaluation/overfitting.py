"""Has a model learned its training patients by heart? Three perplexities tell.

A model that knows what is common to patients predicts held-out patients better than a unigram,
which knows how frequent each code is and nothing else. One that does worse has learned too little,
or the wrong thing: the training patients themselves. It then predicts those well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.errors import InputError
from ehr_course.evaluation.likelihood import ScoredRecords
from ehr_course.evaluation.perplexity import unigram_nats
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

MOST = 500
"""Perplexity is measured on so many patients of a cohort at most; more are drawn from."""


BY_HEART = 1.5
"""Where a model has learned its patients by heart, the perplexity on held-out ones is at least so
many times that on training patients; nearer to each other, it has learned little of either."""


@dataclass(frozen=True)
class Overfitting:
    """How many codes a model hesitates between: longitudinal perplexities per code, 1 or more.

    Attributes:
        held_out: on patients that it did not learn from.
        training: on patients that it learned from.
        unigram: that of a table of the codes' frequencies, on the held-out patients.
    """

    held_out: float
    training: float
    unigram: float

    def in_words(self, apart: str = "held-out") -> str:
        """What the model did wrong and what to do; "" where it beats the table.

        Args:
            apart: what the patients are called that it did not learn from.

        >>> Overfitting(held_out=30, training=25, unigram=200).in_words()
        ''
        >>> print(Overfitting(held_out=2072.4, training=1.3, unigram=223.7).in_words())
        The model has learned its training patients by heart (overfitting): its perplexity is 1.3
        a code on them and 2,072 on held-out patients, where a table of the codes' frequencies has
        224. Keep patients apart with 'prepare --validation 0.1' and leave --steps out: 'train'
        then stops in time. Where it did, there are too few patients to learn from.
        """
        if not self.held_out > self.unigram:
            return ""
        on_both = (
            f"its perplexity is {_number(self.training)} a code on them and "
            f"{_number(self.held_out)} on {apart} patients, where a table of the codes' "
            f"frequencies has {_number(self.unigram)}"
        )
        if self.training < min(self.unigram, self.held_out / BY_HEART):
            return (
                "The model has learned its training patients by heart (overfitting): "
                f"{on_both}. Keep patients apart with 'prepare --validation 0.1' and leave "
                "--steps out: 'train' then stops in time. Where it did, there are too few "
                "patients to learn from."
            )
        return (
            "The model has learned too little from its training patients: "
            f"{on_both}. Train it with more --steps."
        )


def overfitting(
    model: Any,
    tokenizer: CodeTokenizer,
    held_out: Sequence[PatientRecord],
    train: Sequence[PatientRecord],
    *,
    seed: int = 0,
) -> Overfitting:
    """Measure a model's perplexity on held-out and on training patients, at most 500 of each.

    Args:
        model: a trained PromptBart, or one with a prefix; it is left as it was.
        tokenizer: the one that it was trained with. Codes that it does not know are left out.
        held_out: patients that the model did not learn from.
        train: those that it learned from.
        seed: of what is drawn.

    Raises:
        InputError: if there are no patients, or none of their codes is known.
    """
    known = tokenizer.skipping_unseen()
    table = unigram_nats(known, train)
    perplexities: dict[str, float] = {}
    for name, cohort in (("held_out", held_out), ("train", train)):
        scored = ScoredRecords(model, known, drawn(cohort, seed))
        ids = scored.tokens.values
        codes = ids >= FIRST_CODE
        if not codes.any():
            raise InputError(
                "overfitting",
                name,
                "none of the codes of these patients is in the vocabulary",
                "Use the tokenizer and the patients of one hospital.",
            )
        perplexities[name] = _exp(scored.nats_in_order()[codes].mean(dtype=np.float64))
        if name == "held_out":
            unigram = _exp(table[ids][codes].mean())
    return Overfitting(perplexities["held_out"], perplexities["train"], unigram)


def drawn(cohort: Sequence[PatientRecord], seed: int) -> list[PatientRecord]:
    """The cohort, or 500 of it, drawn without replacement, in their order."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(cohort))[:MOST])
    return [cohort[row] for row in rows.tolist()]


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf


def _number(value: float) -> str:
    """A perplexity with as many digits as say something.

    >>> _number(1.284), _number(30.4), _number(2072.4), _number(float("inf"))
    ('1.3', '30', '2,072', 'more than 1e+300')
    """
    if math.isinf(value):
        return "more than 1e+300"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"
