r"""Damage a patient record the way BART does, so that a model can learn to repair it.

Text infilling and token deletion (Lewis et al. 2020, https://arxiv.org/abs/1910.13461) and random
replacement (as in BERT), each within one visit, on token ids. All functions work on a whole batch
at once, take their randomness from the generator that they are given, and return new arrays: the
clean record stays what it was, because it is the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ehr_course.batches.ragged import Ragged, places
from ehr_course.batches.record_checks import FIRST_CODE, check_records
from ehr_course.errors import InputError
from ehr_course.tokenizers.codes import CodeTokenizer

STRATEGIES = ("infill", "delete", "replace")
"""The ways to corrupt a visit, by the names that Corruption takes."""

EMPTY_RECORD = (CodeTokenizer.bos_id, CodeTokenizer.mask_id, CodeTokenizer.eos_id)
"""A record of which nothing is known: the input from which age and sex alone make a patient."""


def span_lengths(count: int, *, mean: float = 3.0, rng: Generator) -> np.ndarray:
    """Draw lengths of masked spans: Poisson, a 0 made a 1.

    With mean 3 a span has one code with probability 0.199, four or more with 0.353.

    Args:
        count: how many to draw.
        mean: of the Poisson distribution, before the clamp; 0 or more.
        rng: the source of randomness.

    Returns:
        int64 (count,), each 1 or more.

    Raises:
        InputError: if mean is negative or not finite.

    >>> span_lengths(8, rng=np.random.default_rng(0))
    array([2, 1, 7, 1, 4, 1, 3, 6])
    """
    _check_mean(mean)
    return np.maximum(rng.poisson(mean, count), 1)


def infill_masks(visits: Ragged, *, mean_span: float = 3.0, rng: Generator) -> Ragged:
    """Replace one span of codes in each visit by one <mask>.

    A span is never the whole visit, so that something of it can still be read: its length is at
    most one less than the number of codes. The exception is a visit with one code, of which the
    <mask> is all that remains. BART too masks a span wherever it falls, and so the model learns
    to write a code that nothing in its own visit announces. The one <mask> does not tell how many
    codes are missing; that is for the model to find out.

    Args:
        visits: the codes of each visit, without markers; none is empty.
        mean_span: of the Poisson distribution that span lengths are drawn from.
        rng: the source of randomness; where a span begins is uniform over the places it fits.

    Raises:
        InputError: if a visit is empty or holds something that is not a code.

    >>> visits = Ragged.from_lists([[7, 8, 9, 10, 11], [12]])
    >>> infill_masks(visits, rng=np.random.default_rng(0)).to_lists()
    [[7, 8, 9, 6], [6]]
    """
    _check_mean(mean_span)
    _check_codes(visits)
    values, keep = visits.values.copy(), np.ones(len(visits.values), bool)
    _infill(values, keep, visits.offsets[:-1], visits.lengths, mean_span, rng)
    return _kept(values, keep, visits)


def delete_codes(visits: Ragged, *, p: float = 0.15, rng: Generator) -> Ragged:
    """Delete each code with probability p; every visit keeps at least one.

    Where all codes of a visit would go, one of them stays, each with the same chance.

    Args:
        visits: the codes of each visit, without markers; none is empty.
        p: 0 to 1.
        rng: the source of randomness.

    Raises:
        InputError: if p is no probability, or a visit is empty or holds something that is not a
            code.

    >>> visits = Ragged.from_lists([[7, 8, 9, 10, 11], [12]])
    >>> delete_codes(visits, p=0.5, rng=np.random.default_rng(0)).to_lists()
    [[7, 11], [12]]
    """
    _check_probability("p", p)
    _check_codes(visits)
    keep = np.ones(len(visits.values), bool)
    _delete(keep, np.arange(len(keep)), visits.lengths, p, rng)
    return _kept(visits.values, keep, visits)


def replace_codes(visits: Ragged, *, p: float = 0.15, n_tokens: int, rng: Generator) -> Ragged:
    """Replace each code with probability p by another one.

    The other one is any other code of the vocabulary, each with the same chance: never a special
    token, never the code itself. It may be one that the visit already has.

    Args:
        visits: the codes of each visit, without markers; none is empty.
        p: 0 to 1.
        n_tokens: the size of the vocabulary, special tokens included: ``len(tokenizer)``.
        rng: the source of randomness.

    Raises:
        InputError: if p is no probability, the vocabulary has fewer than two codes, or a visit is
            empty or holds something that is not a code of the vocabulary.

    >>> visits = Ragged.from_lists([[7, 8, 9, 10, 11], [12]])
    >>> replace_codes(visits, p=0.5, n_tokens=100, rng=np.random.default_rng(0)).to_lists()
    [[7, 54, 63, 97, 11], [12]]
    """
    _check_probability("p", p)
    _check_vocabulary(n_tokens)
    _check_codes(visits, n_tokens)
    values = visits.values.copy()
    _replace(values, np.arange(len(values)), p, n_tokens, rng)
    return Ragged.unchecked(values, visits.lengths.copy())


@dataclass(frozen=True)
class Corruption:
    """How much of a record is corrupted, and how.

    Attributes:
        p_visit: the chance that a visit is corrupted at all.
        p_empty: the chance that a whole record becomes EMPTY_RECORD instead. A model that is to
            write patients from age and sex alone has to see such inputs while it learns.
        mean_span: see infill_masks.
        p_delete: see delete_codes.
        p_replace: see replace_codes.
        strategies: a corrupted visit gets one of these, each with the same chance.

    Raises:
        InputError: if a probability is not in 0 to 1, mean_span is negative or not finite, or
            strategies is empty, has a repetition, or names something else.
    """

    p_visit: float = 0.5
    p_empty: float = 0.0
    mean_span: float = 3.0
    p_delete: float = 0.15
    p_replace: float = 0.15
    strategies: tuple[str, ...] = STRATEGIES

    def __post_init__(self) -> None:
        for name in ("p_visit", "p_empty", "p_delete", "p_replace"):
            _check_probability(name, getattr(self, name))
        _check_mean(self.mean_span)
        if (
            isinstance(self.strategies, str)
            or not set(self.strategies) <= set(STRATEGIES)
            or not len(set(self.strategies)) == len(self.strategies) > 0
        ):
            raise InputError(
                "Corruption",
                "strategies",
                f"{self.strategies!r} is not a choice of strategies",
                f"Use one or more of {STRATEGIES}; p_visit=0 corrupts nothing.",
            )
        object.__setattr__(self, "strategies", tuple(self.strategies))

    def apply(self, records: Ragged, *, n_tokens: int, rng: Generator) -> Ragged:
        r"""Corrupt the visits of some records.

        <BOS>, <EOS> and the markers of every visit stay, in their order, and between two markers
        at least one token stays. Only EMPTY_RECORD, where p_empty asks for it, has no visits.

        Args:
            records: full records as CodeTokenizer encodes them, one a row. Never written to.
            n_tokens: the size of the vocabulary, special tokens included: ``len(tokenizer)``.
            rng: the source of randomness.

        Returns:
            As many rows, in new arrays.

        Raises:
            InputError: if a row is not <BOS> <v> codes <\v> ... <EOS>, has a visit without codes
                or an id that is not in the vocabulary.

        >>> record = Ragged.from_lists([[1, 3, 7, 8, 9, 10, 4, 3, 11, 12, 4, 2]])
        >>> infilling = Corruption(p_visit=1, strategies=["infill"])
        >>> infilling.apply(record, n_tokens=13, rng=np.random.default_rng(1)).to_lists()
        [[1, 3, 7, 8, 6, 4, 3, 11, 6, 4, 2]]
        """
        check_records(records, n_tokens=n_tokens)
        self.check_vocabulary(n_tokens)
        return self.apply_unchecked(records, n_tokens=n_tokens, rng=rng)

    def apply_unchecked(self, records: Ragged, *, n_tokens: int, rng: Generator) -> Ragged:
        """Do what apply does, for records and a vocabulary that were checked before."""
        values, keep = records.values.copy(), np.ones(len(records.values), bool)
        starts = (values == CodeTokenizer.visit_start_id).nonzero()[0] + 1
        lengths = (values == CodeTokenizer.visit_end_id).nonzero()[0] - starts
        codes = (values >= FIRST_CODE).nonzero()[0]
        # One number a visit says whether it is corrupted, and how: what lies below p_visit is
        # shared out evenly among the strategies.
        shares = self.p_visit * np.arange(1, len(self.strategies) + 1) / len(self.strategies)
        of_visit = shares.searchsorted(rng.random(len(starts)), side="right")
        of_code = of_visit.repeat(lengths)
        for number, name in enumerate(self.strategies):
            if name == "replace":
                _replace(values, codes[of_code == number], self.p_replace, n_tokens, rng)
                continue
            chosen = of_visit == number
            if name == "infill":
                _infill(values, keep, starts[chosen], lengths[chosen], self.mean_span, rng)
            else:
                _delete(keep, codes[of_code == number], lengths[chosen], self.p_delete, rng)
        # Drawn last, so that p_empty does not change what happens to the visits of other records.
        if self.p_empty:
            empty = rng.random(len(records)) < self.p_empty
            _empty(values, keep, records.offsets[:-1][empty], records.lengths[empty])
        return _kept(values, keep, records)

    def check_vocabulary(self, n_tokens: int) -> None:
        """Check that the vocabulary has codes enough for the strategies.

        Raises:
            InputError: if it has one code, and that is to be replaced by another.
        """
        if "replace" in self.strategies:
            _check_vocabulary(n_tokens)


# What follows corrupts visits of a flat array in place: `starts` and `lengths` say where the codes
# of a visit are, `codes` is the places of them all, and `keep` becomes False where a token goes.


def _infill(
    values: np.ndarray,
    keep: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    mean_span: float,
    rng: Generator,
) -> None:
    span = np.maximum(rng.poisson(mean_span, len(starts)), 1)
    span = np.minimum(span, np.maximum(lengths - 1, 1))
    first = starts + _below(lengths - span + 1, rng)
    values[first] = CodeTokenizer.mask_id  # the <mask> stands in the span's first place
    keep[places(first + 1, span - 1)] = False


def _delete(
    keep: np.ndarray, codes: np.ndarray, lengths: np.ndarray, p: float, rng: Generator
) -> None:
    if not len(codes):
        return
    stays = rng.random(len(codes)) >= p
    first = lengths.cumsum() - lengths
    emptied = (~np.logical_or.reduceat(stays, first)).nonzero()[0]
    stays[first[emptied] + _below(lengths[emptied], rng)] = True
    keep[codes] = stays


def _replace(
    values: np.ndarray, codes: np.ndarray, p: float, n_tokens: int, rng: Generator
) -> None:
    hit = codes[rng.random(len(codes)) < p]
    # Draw among all codes but one, and step over the code itself: uniform over the others.
    drawn = rng.integers(FIRST_CODE, n_tokens - 1, len(hit))
    values[hit] = drawn + (drawn >= values[hit])


def _empty(values: np.ndarray, keep: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
    """Leave of whole records <BOS>, one <mask> and <EOS>."""
    keep[places(starts + 2, lengths - 3)] = False
    values[starts + 1] = CodeTokenizer.mask_id


def _below(sizes: np.ndarray, rng: Generator) -> np.ndarray:
    """Draw a whole number from 0 to below each size; rng.integers takes three times as long."""
    return (rng.random(len(sizes)) * sizes).astype(np.int64)


def _kept(values: np.ndarray, keep: np.ndarray, rows: Ragged) -> Ragged:
    """The rows without the values that go; a row may become shorter, not empty."""
    if not len(rows):
        return Ragged.unchecked(values, rows.lengths.copy())
    lengths = np.add.reduceat(keep, rows.offsets[:-1], dtype=np.int64)
    return Ragged.unchecked(values[keep], lengths)


def _check_codes(visits: Ragged, n_tokens: int | None = None) -> None:
    if not visits.lengths.all():
        raise InputError(
            "visits",
            f"row {int((visits.lengths == 0).nonzero()[0][0])}",
            "the visit has no codes",
            "Leave such visits out before you corrupt.",
        )
    if not len(visits.values):
        return
    if visits.values.min() < FIRST_CODE:
        raise InputError(
            "visits",
            "",
            f"id {visits.values.min()} is not a code: codes start at {FIRST_CODE}",
            "Give the codes of each visit without markers, or full records to Corruption.apply.",
        )
    if n_tokens is not None and visits.values.max() >= n_tokens:
        raise InputError(
            "visits",
            "",
            f"id {visits.values.max()} is not in a vocabulary of {n_tokens} tokens",
            "Use the tokenizer that encoded it: n_tokens is len(tokenizer).",
        )


def _check_vocabulary(n_tokens: int) -> None:
    if n_tokens < FIRST_CODE + 2:
        raise InputError(
            "corruption",
            "n_tokens",
            f"a vocabulary of {n_tokens} tokens has no second code to replace the first by",
            f"Use {FIRST_CODE + 2} or more, or strategies without 'replace'.",
        )


def _check_probability(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise InputError(
            "corruption", name, f"{p!r} is no probability", "Use a number from 0 to 1."
        )


def _check_mean(mean: float) -> None:
    if not (mean >= 0 and math.isfinite(mean)):
        raise InputError(
            "corruption", "mean span", f"{mean!r} is no mean length", "Use 0 or more."
        )
