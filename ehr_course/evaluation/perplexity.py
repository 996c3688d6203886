r"""Perplexity: how many codes a model hesitates between, per code and per visit.

With p(x | given) the softmax over the whole vocabulary and K codes in V visits:

* **longitudinal, per code**: exp(-1/K sum over codes of log p(code | what comes before it)).
  Given are the patient's age and sex, the visits before, and the codes before it in its visit;
* **longitudinal, per visit**: exp(-1/V sum over visits of log p(visit | visits before it)), where
  log p(visit) sums its codes and its end ``<\v>``. Whether there is another visit, which ``<v>``
  and ``<EOS>`` say, is not counted;
* **cross-sectional, per code**: exp(-1/K sum over codes of log p(code | others of its visit)).
  Given are age and sex, the other codes in their order, and the place of the code among them;
* **cross-sectional, per visit**: exp(-1/V sum over visits of the sum over its codes of the same
  log p). These are no factors of one probability (each code is given all others), so it is a
  pseudo-likelihood (Besag 1975), and not to be compared with the longitudinal one;
* **unigram**, for comparison: every code and every ``<\v>`` by its frequency in the training
  records, each counted once more than it is there (add-one). A model that has learned anything
  is below it;
* **relative to the unigram**: the longitudinal perplexity per code over the unigram's. 1 is no
  better than a table of frequencies; at 0.1 the model chooses between a tenth as many codes.

Nothing that is scored is read: see evaluation.likelihood.

Three perplexities tell whether a model has learned its training patients by heart: it predicts
these well, and held-out patients worse than a unigram does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.likelihood import ScoredRecords
from ehr_course.evaluation.measure import (
    RESAMPLES,
    Judgement,
    Measure,
    check_patients,
    generator,
    share_interval,
    too_few,
)
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

RELATIVE = "perplexity per code relative to the unigram"
"""The name of the measure that says whether a model beats a table of frequencies."""

_RELATIVE_MEANING = (
    "The longitudinal perplexity per code over that of a unigram, which draws each code by its "
    "frequency in the training records; on the same patients. Below 1 the model beats a table of "
    "frequencies."
)

_GIVEN = {
    "longitudinal": "given age, sex, the visits before and the codes before it",
    "cross-sectional": "given age, sex and the other codes of its visit",
    "unigram": "by its frequency in the training records alone",
}


MOST_PATIENTS = 500
"""A report measures perplexity on so many patients of a cohort at most; more are drawn from."""

BY_HEART = 1.5
"""Where a model has learned its patients by heart, the perplexity on held-out ones is at least so
many times that on training patients; nearer to each other, it has learned little of either."""


def perplexity(
    model: Any,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    train: Sequence[PatientRecord] | None = None,
    seed: int = 0,
    batch_size: int = 64,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    progress: bool = False,
) -> Judgement:
    """Measure a model's perplexity on patients, best on those it has not learned from.

    Args:
        model: a trained PromptBart, or one with a prefix; it is left as it was.
        tokenizer: the one that it was trained with. With unseen="raise" a code that it does not
            know is an error. With unseen="skip" such a code is neither read nor scored, and a
            warning counts them: the perplexity is then that of the known codes, too low.
        records: the patients to predict.
        train: the patients that the model learned from, for the unigram perplexities.
        batch_size: how many sequences go through the model at a time, at most.
        seed, resamples, confidence: of the bootstrap intervals.
        progress: whether to show a bar.

    Returns:
        "longitudinal perplexity per code" and "... per visit"; where training records were given
        the same two for "unigram", and "perplexity per code relative to the unigram"; then the
        same two for "cross-sectional". A record too long for the model is scored as far as its
        visits fit; a warning counts them.
    """
    scored = ScoredRecords(model, tokenizer, records, batch_size=batch_size, progress=progress)
    ids, offsets = scored.tokens.values, scored.tokens.offsets
    _check_known("perplexity", "records", ids, tokenizer)
    nats = {"longitudinal": scored.nats_in_order()}
    if train is not None:
        check_patients("perplexity", {"train": train})
        nats["unigram"] = unigram_nats(tokenizer, train)[ids]
    nats["cross-sectional"] = scored.nats_in_visits()
    codes, ends = ids >= tokenizer.first_code_id, ids == tokenizer.visit_end_id
    rng = generator(seed)

    def measured(name: str, costs: np.ndarray, of: np.ndarray, meaning: str) -> Measure:
        """exp of the mean of what tokens cost: (tokens,), of as many as ``of`` says."""
        costs, of = (np.add.reduceat(x.astype(np.float64), offsets[:-1]) for x in (costs, of))
        bounds = share_interval(costs, of, rng=rng, resamples=resamples, confidence=confidence)
        with np.errstate(over="ignore"):  # a long visit of a poor model comes to infinity
            value, low, high = np.exp([costs.sum() / of.sum(), *bounds])
        return Measure(name, value, low=low, high=high, better="low", meaning=meaning)

    measures = []
    for kind, each in nats.items():
        in_visit = codes if kind == "cross-sectional" else codes | ends
        for unit, costs, of in (("code", each * codes, codes), ("visit", each * in_visit, ends)):
            name = f"{kind} perplexity per {unit}"
            measures.append(measured(name, costs, of, _meaning(kind, unit)))
        if kind == "unigram":
            saved = (nats["longitudinal"] - each) * codes
            measures.append(measured(RELATIVE, saved, codes, _RELATIVE_MEANING))
    return Judgement(tuple(measures), tuple(_warnings(scored, tokenizer, records)))


def _meaning(kind: str, unit: str) -> str:
    if unit == "code":
        return f"Between how many equally likely codes the choice of a code lies, {_GIVEN[kind]}."
    end = "its codes" if kind == "cross-sectional" else "its codes and its end"
    return f"exp of the mean over visits of what {end} cost in nats, each {_GIVEN[kind]}."


def unigram_nats(tokenizer: CodeTokenizer, train: Sequence[PatientRecord]) -> np.ndarray:
    """What each token costs by frequency: float64 (vocabulary,); 0 for what is not counted."""
    known = tokenizer.skipping_unseen()
    ids = np.concatenate([np.array(known.encode(record)) for record in train])
    counts = np.bincount(ids, minlength=len(tokenizer)) + 1.0
    counted = np.arange(len(tokenizer)) >= tokenizer.first_code_id
    counted[tokenizer.visit_end_id] = True
    return np.where(counted, np.log(counts[counted].sum() / counts), 0.0)


def _warnings(
    scored: ScoredRecords, tokenizer: CodeTokenizer, records: Sequence[PatientRecord]
) -> list[str]:
    warnings = too_few("cohort to predict", len(records))
    unseen = tokenizer.unseen_codes(records)
    if unseen:
        code, count = unseen.most_common(1)[0]
        warnings.append(
            f"{unseen.total()} codes of these patients the model never saw, such as {code!r} "
            f"({count} times); they are left out, and the perplexity is that of the others."
        )
    if scored.cut:
        warnings.append(
            f"Records longer than the {scored.model.max_tokens} tokens that the model can read: "
            f"{scored.cut}. Their last visits are not scored."
        )
    return warnings


def _check_known(where: str, name: str, ids: np.ndarray, tokenizer: CodeTokenizer) -> None:
    if not (ids >= tokenizer.first_code_id).any():
        raise InputError(
            where,
            name,
            "none of the codes of these patients is in the vocabulary",
            "Use the tokenizer and the patients of one hospital.",
        )


# ------------------------------------------------------------------ learned by heart


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

    Codes that the tokenizer does not know are left out.

    Args:
        held_out: patients that the model did not learn from.
        train: those that it learned from.
        seed: of what is drawn.
    """
    known = tokenizer.skipping_unseen()
    table = unigram_nats(known, train)
    found = []
    for name, cohort in (("held_out", held_out), ("train", train)):
        scored = ScoredRecords(model, known, at_most_500(cohort, seed))
        ids = scored.tokens.values
        _check_known("overfitting", name, ids, tokenizer)
        codes = ids >= tokenizer.first_code_id
        found.append(_exp(scored.nats_in_order()[codes].mean(dtype=np.float64)))
        if name == "held_out":
            unigram = _exp(table[ids][codes].mean())
    of_held_out, of_train = found
    return Overfitting(of_held_out, of_train, unigram)


def at_most_500(cohort: Sequence[PatientRecord], seed: int) -> list[PatientRecord]:
    """The cohort, or 500 of it, drawn without replacement, in their order."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(cohort))[:MOST_PATIENTS])
    return [cohort[row] for row in rows.tolist()]


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf


def _number(value: float) -> str:
    """A perplexity with as many digits as say something."""
    if math.isinf(value):
        return "more than 1e+300"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"
