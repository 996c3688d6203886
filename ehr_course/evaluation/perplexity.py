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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.errors import InputError
from ehr_course.evaluation.likelihood import ScoredRecords, record_log_likelihood
from ehr_course.evaluation.measure import (
    RESAMPLES,
    Measure,
    generator,
    measure_named,
    share_interval,
    too_few,
)
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

__all__ = ["RELATIVE", "Perplexity", "perplexity", "record_log_likelihood"]

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


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts records that it does not read.

    Attributes:
        measures: "longitudinal perplexity per code" and "... per visit"; where training records
            were given the same two for "unigram", and "perplexity per code relative to the
            unigram"; then the same two for "cross-sectional".
        warnings: what the reader must know before the numbers are used; empty if nothing.
    """

    measures: tuple[Measure, ...]
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Measure:
        """The measure of a name."""
        return measure_named(self.measures, name)


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
) -> Perplexity:
    """Measure a model's perplexity on patients, best on those it has not learned from.

    Args:
        model: a trained PromptBart, or one with a prefix; it is left as it was.
        tokenizer: the one that it was trained with. With unseen="raise" a code that it does not
            know is an error. With unseen="skip" such a code is neither read nor scored, and a
            warning counts them: the perplexity is then that of the known codes, too low.
        records: the patients to predict.
        train: the patients that the model learned from, for the unigram perplexities.
        seed: of the bootstrap, 0 or more.
        batch_size: how many sequences go through the model at a time, at most.
        resamples: how often patients are drawn for the intervals.
        confidence: of the intervals, above 0 and below 1.
        progress: whether to show a bar.

    Returns:
        the measures; no interval with fewer than 30 patients, and a warning says so. A record
        too long for the model is scored as far as its visits fit; a warning counts them.

    Raises:
        InputError: if there are no records, none of their codes is known, a code is unknown and
            the tokenizer does not skip, or model and tokenizer do not fit each other.
    """
    scored = ScoredRecords(model, tokenizer, records, batch_size=batch_size, progress=progress)
    ids, offsets = scored.tokens.values, scored.tokens.offsets
    if not (ids >= FIRST_CODE).any():
        raise InputError(
            "perplexity",
            "records",
            f"none of the codes of these {len(records)} patients is in the vocabulary",
            "Use the tokenizer and the patients of one hospital.",
        )
    nats = {"longitudinal": scored.nats_in_order()}
    if train is not None:
        if not len(train):
            raise InputError(
                "perplexity", "train", "there are none", "Leave it out, or give some."
            )
        nats["unigram"] = unigram_nats(tokenizer, train)[ids]
    nats["cross-sectional"] = scored.nats_in_visits()
    codes, ends = ids >= FIRST_CODE, ids == CodeTokenizer.visit_end_id
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
    return Perplexity(tuple(measures), tuple(_warnings(scored, tokenizer, records)))


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
    counted = np.arange(len(tokenizer)) >= FIRST_CODE
    counted[CodeTokenizer.visit_end_id] = True
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
