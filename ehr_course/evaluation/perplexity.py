"""Perplexity: how many codes a model hesitates between, per code and per visit.

A token is scored given age, sex and the tokens before it; or, with its visit alone in the encoder
and ``<mask>`` in its place, given the other codes of the visit. Held-out patients predicted worse
than by a table of frequencies, and training patients much better, say that a model has learned
these by heart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ehr_course.batches.collate import demographics
from ehr_course.batches.datasets import cut_record
from ehr_course.batches.ragged import Ragged, places
from ehr_course.errors import InputError
from ehr_course.evaluation.measure import (
    RESAMPLES,
    Judgement,
    Measure,
    check_patients,
    generator,
    rows_at_random,
    share_interval,
    too_few,
)
from ehr_course.generation.beam_search import evaluating
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
"""The most patients of a cohort a report measures perplexity on; of more, a sample is drawn."""

BY_HEART = 1.5
"""The least ratio of the perplexity on held-out patients to that on training patients at which a
model has learned by heart; below it, the model has learned little of either.
"""

MOST_SEQUENCES, MOST_LOGITS = 64, 2**25
"""The most sequences, and the most logits (128 MiB), in memory at a time."""


def perplexity(
    model: Any,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    train: Sequence[PatientRecord] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Judgement:
    r"""Measure a model's perplexity on patients, best on those it has not learned from.

    A record too long for the model is cut, with a warning. Each is exp of the mean cost -log p in
    nats, with p from the softmax over the whole vocabulary:

    * longitudinal, per code: given age, sex, the visits before and the codes before in the visit;
    * longitudinal, per visit: its codes and its end ``<\v>``, but not whether a visit follows;
    * cross-sectional, per code: given age, sex, the visit's other codes and the code's place;
    * cross-sectional, per visit: the sum of these over its codes, a pseudo-likelihood (Besag
      1975), which cannot be compared with the longitudinal one;
    * unigram: each code and ``<\v>`` by its frequency in ``train``, with add-one counts;
    * relative to the unigram, per code: at 1 the model is no better than a table of frequencies,
      at 0.1 it chooses between a tenth as many codes.

    Args:
        tokenizer: the model's; with unseen="raise" an unknown code is an error, with "skip" it is
            left out with a warning, and the perplexity is then too low.
        train: the patients that the model learned from, for the unigram perplexities.
    """
    scored = ScoredRecords(model, tokenizer, records)
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
        bounds = share_interval(costs, of, rng=rng, resamples=resamples)
        with np.errstate(over="ignore"):  # a long visit under a poor model is infinite
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


# ------------------------------------------------------------------ the costs of tokens


class ScoredRecords:
    """Records as a model reads them, ready to be scored.

    Args:
        tokenizer: unseen="raise" raises at a code that it does not know, "skip" leaves it out.

    Attributes:
        tokens: Ragged, the ids of each record, without the last visits of one that is too long; a
            patient without a known code has <BOS> and <EOS>.
        cut: how many records were cut.
    """

    def __init__(
        self, model: Any, tokenizer: CodeTokenizer, records: Sequence[PatientRecord]
    ) -> None:
        if not len(records):
            raise InputError("records", "", "the list is empty", "Give at least one patient.")
        if model.config.vocab_size != len(tokenizer):
            raise InputError(
                "tokenizer",
                "",
                f"it has {len(tokenizer)} tokens, the model {model.config.vocab_size}",
                "Use the tokenizer that the model was trained with.",
            )
        rows = [tokenizer.encode(record) for record in records]
        self.cut = sum(len(row) > model.max_tokens for row in rows)
        limit = model.max_tokens
        self.tokens = Ragged.from_lists([cut_record(row, limit, tokenizer) for row in rows])
        self.model, self.tokenizer = model, tokenizer
        self._people = demographics([r.age for r in records], [r.sex for r in records])

    def nats_in_order(self) -> np.ndarray:
        """What each token costs given those before it: -log of its probability, in nats.

        float64, flat, one for each token in ``tokens``; 0 for <BOS>, which is given.
        """
        lengths, offsets = self.tokens.lengths, self.tokens.offsets
        nats = np.zeros(len(self.tokens.values))
        order = np.argsort(lengths, kind="stable")
        with evaluating(self.model):
            for rows in self._batches(order, lengths[order]):
                ids, inside = self.tokens.take(rows).padded(self.tokenizer.pad_id)
                inside[:, 0] = False
                clean = torch.from_numpy(ids)
                start = torch.full((len(rows), 1), self.tokenizer.eos_id)
                logits = self._logits(
                    torch.tensor([self.tokenizer.empty_record] * len(rows)),
                    torch.cat([start, clean[:, :-1]], dim=1),
                    rows,
                )  # (batch, target, vocabulary)
                cost = _nats(logits, clean.to(logits.device))
                row, place = np.nonzero(inside)
                nats[offsets[rows][row] + place] = cost[row, place]
        return nats

    def nats_in_visits(self) -> np.ndarray:
        """What each code costs given the other codes of its visit, in nats.

        float64, flat, one for each token in ``tokens``; 0 for every other token.
        """
        ids = self.tokens.values
        nats = np.zeros(len(ids))
        starts = np.flatnonzero(ids == self.tokenizer.visit_start_id)
        n_codes = np.flatnonzero(ids == self.tokenizer.visit_end_id) - starts - 1
        owner = np.searchsorted(self.tokens.offsets, starts, side="right") - 1
        # One sequence a code: visit and place in it. Visits of one length lie side by side.
        order = np.argsort(n_codes, kind="stable")
        visit = np.repeat(order, n_codes[order])
        place = places(np.zeros_like(order), n_codes[order])
        with evaluating(self.model):
            for chosen in self._batches(np.arange(len(visit)), n_codes[visit] + 4, alike=True):
                rows, at = visit[chosen], place[chosen]
                n = n_codes[rows[0]]
                codes = ids[starts[rows][:, None] + 1 + np.arange(n)]
                logits = self._logits(*_one_code_hidden(codes, at, self.tokenizer), owner[rows])
                each = torch.arange(len(rows), device=logits.device)
                last = torch.from_numpy(at + 2).to(logits.device)
                scored = ids[starts[rows] + 1 + at]
                target = torch.from_numpy(scored).to(logits.device)
                nats[starts[rows] + 1 + at] = _nats(logits[each, last], target)
        return nats

    def _logits(self, encoder: Tensor, decoder: Tensor, patients: np.ndarray) -> Tensor:
        """The logits of a batch; a decoder never looks ahead, so its padding needs no mask."""
        batch = {
            "input_ids": encoder,
            "attention_mask": torch.ones_like(encoder),
            "decoder_input_ids": decoder,
            "x_num": self._people["x_num"][patients],
            "x_cat": self._people["x_cat"][patients],
        }
        device = self.model.device
        return self.model(**{name: part.to(device) for name, part in batch.items()}).logits

    def _batches(
        self, order: np.ndarray, lengths: np.ndarray, *, alike: bool = False
    ) -> Iterator[np.ndarray]:
        """Runs of what is sorted by length, small enough; with ``alike`` of one length each."""
        vocabulary = self.model.config.vocab_size
        first = 0
        while first < len(order):
            last = min(first + MOST_SEQUENCES, len(order))
            if alike:
                last = first + int(np.searchsorted(lengths[first:last], lengths[first], "right"))
            while last - first > 1 and (
                (last - first) * int(lengths[last - 1]) * vocabulary > MOST_LOGITS
            ):
                last = first + (last - first) // 2
            yield order[first:last]
            first = last


def _one_code_hidden(
    codes: np.ndarray, at: np.ndarray, tokenizer: CodeTokenizer
) -> tuple[Tensor, Tensor]:
    """What the encoder and the decoder read: (batch, codes + 4) and (batch, codes + 2).

    ``codes`` are int64 (batch, codes), ``at`` int64 (batch,) the place of the hidden code in each.
    """
    n = codes.shape[1]

    def column(token: int) -> np.ndarray:
        return np.full((len(codes), 1), token)

    eos, ends = column(tokenizer.eos_id), column(tokenizer.visit_end_id)
    begins = [column(tokenizer.bos_id), column(tokenizer.visit_start_id)]
    encoder = np.concatenate([*begins, codes, ends, eos], axis=1)
    # BART starts with <EOS>; the last code of a visit is never read, only asked for.
    shifted = np.concatenate([eos, encoder[:, : n + 1]], axis=1)
    decoder = np.where(np.arange(n + 2) < at[:, None] + 3, shifted, tokenizer.pad_id)
    encoder[np.arange(len(codes)), at + 2] = tokenizer.mask_id
    return torch.from_numpy(encoder), torch.from_numpy(decoder)


def _nats(logits: Tensor, target: Tensor) -> np.ndarray:
    """-log softmax at the target: logits (..., vocabulary), target int64 (...)."""
    flat = functional.cross_entropy(
        logits.float().flatten(0, -2), target.flatten(), reduction="none"
    )
    return flat.view(target.shape).double().cpu().numpy()


# ------------------------------------------------------------------ learned by heart


@dataclass(frozen=True)
class Overfitting:
    """Longitudinal perplexities per code, 1 or more; the unigram's is on held-out patients."""

    held_out: float
    training: float
    unigram: float

    def in_words(self, apart: str = "held-out") -> str:
        """What the model did wrong and what to do; "" where it beats the table.

        Args:
            apart: what the held-out patients are called.

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
    """Measure a model's perplexity on at most 500 held-out and 500 training patients.

    Codes that the tokenizer does not know are left out.
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
    rows = rows_at_random(MOST_PATIENTS, len(cohort), generator(seed))
    return [cohort[row] for row in rows.tolist()]


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf


def _number(value: float) -> str:
    """A perplexity with as many digits as say something."""
    if math.isinf(value):
        return "more than 1e+300"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"
