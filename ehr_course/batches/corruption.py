r"""Damage a patient record the way BART does, so that a model can learn to repair it.

Text infilling and token deletion (Lewis et al. 2020, https://arxiv.org/abs/1910.13461) and random
replacement (as in BERT), each within one visit. The functions leave their input as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ehr_course.batches.ragged import Ragged as Ragged
from ehr_course.batches.ragged import places
from ehr_course.errors import InputError
from ehr_course.tokenizers.codes import CodeTokenizer

STRATEGIES = ("infill", "delete", "replace")
"""The ways to corrupt a visit."""

EMPTY_RECORD = (CodeTokenizer.bos_id, CodeTokenizer.mask_id, CodeTokenizer.eos_id)
"""The input from which patients are made by age and sex alone, in the course's own vocabulary;
``tokenizer.empty_record`` gives it for any."""


# ------------------------------------------------------------------ one strategy, some visits


def span_lengths(count: int, *, mean: float = 3.0, rng: Generator) -> np.ndarray:
    """Draw lengths of masked spans, int64 (count,): Poisson, with 0 raised to 1."""
    return np.maximum(rng.poisson(mean, count), 1)


def infill_masks(
    visits: Ragged,
    *,
    mean_span: float = 3.0,
    mask_id: int = CodeTokenizer.mask_id,
    rng: Generator,
) -> Ragged:
    """Replace one span of codes in each visit, uniformly placed, by one <mask>.

    At least one code of a visit stays, unless it is the only one. The <mask> does not tell how
    many codes are missing.

    Args:
        visits: the codes of each visit, without markers, at least one.
        mean_span: of the Poisson distribution of span lengths.
        mask_id: of <mask>; by default that of the course's own vocabulary.
        rng: the source of randomness.

    >>> visits = Ragged.from_lists([[7, 8, 9, 10, 11], [12]])
    >>> infill_masks(visits, rng=np.random.default_rng(0)).to_lists()
    [[7, 8, 9, 6], [6]]
    """
    values, keep = visits.values.copy(), np.ones(len(visits.values), bool)
    _infill(values, keep, visits.offsets[:-1], visits.lengths, mean_span, mask_id, rng)
    return _kept(values, keep, visits)


def delete_codes(visits: Ragged, *, p: float = 0.15, rng: Generator) -> Ragged:
    """Delete each code with probability p, but never all codes of a visit.

    >>> visits = Ragged.from_lists([[7, 8, 9, 10, 11], [12]])
    >>> delete_codes(visits, p=0.5, rng=np.random.default_rng(0)).to_lists()
    [[7, 11], [12]]
    """
    keep = np.ones(len(visits.values), bool)
    _delete(keep, np.arange(len(keep)), visits.lengths, p, rng)
    return _kept(visits.values, keep, visits)


def replace_codes(
    visits: Ragged,
    *,
    p: float = 0.15,
    n_tokens: int,
    first_code_id: int = CodeTokenizer.first_code_id,
    rng: Generator,
) -> Ragged:
    """Replace each code with probability p by any other code, drawn uniformly.

    Args:
        visits: the codes of each visit, without markers.
        p: 0 to 1.
        n_tokens: the size of the vocabulary, special tokens included: ``len(tokenizer)``.
        first_code_id: where codes begin; by default as in the course's own vocabulary.
        rng: the source of randomness.

    >>> visits = Ragged.from_lists([[7, 8, 9, 10, 11], [12]])
    >>> replace_codes(visits, p=0.5, n_tokens=100, rng=np.random.default_rng(0)).to_lists()
    [[7, 54, 63, 97, 11], [12]]
    """
    values, all_codes = visits.values.copy(), np.arange(len(visits.values))
    _replace(values, all_codes, p, first_code_id, n_tokens, rng)
    return Ragged(values, visits.lengths.copy())


# ------------------------------------------------------------------ all strategies, whole records


@dataclass(frozen=True)
class Corruption:
    """How much of a record is corrupted, and how.

    Attributes:
        p_visit: the probability that a visit is corrupted at all.
        p_empty: the probability that a whole record becomes EMPTY_RECORD instead, which a model
            has to see in training to make patients from age and sex alone.
        mean_span: see infill_masks.
        p_delete: see delete_codes.
        p_replace: see replace_codes.
        strategies: a corrupted visit gets one of these, drawn uniformly.
    """

    p_visit: float = 0.5
    p_empty: float = 0.0
    mean_span: float = 3.0
    p_delete: float = 0.15
    p_replace: float = 0.15
    strategies: tuple[str, ...] = STRATEGIES

    def __post_init__(self) -> None:
        for name in ("p_visit", "p_empty", "p_delete", "p_replace"):
            if not 0 <= getattr(self, name) <= 1:
                problem = f"{getattr(self, name)!r} is not a probability"
                raise InputError("corruption", name, problem, "Use a number from 0 to 1.")
        if not (self.mean_span >= 0 and math.isfinite(self.mean_span)):
            problem = f"{self.mean_span!r} is not a mean length"
            raise InputError("corruption", "mean_span", problem, "Use 0 or more.")
        if (
            isinstance(self.strategies, str)
            or not set(self.strategies) <= set(STRATEGIES)
            or not len(set(self.strategies)) == len(self.strategies) > 0
        ):
            raise InputError(
                "corruption",
                "strategies",
                f"{self.strategies!r} is not a choice of strategies",
                f"Use one or more of {STRATEGIES}; p_visit=0 corrupts nothing.",
            )
        object.__setattr__(self, "strategies", tuple(self.strategies))

    def apply(self, records: Ragged, tokenizer: CodeTokenizer, *, rng: Generator) -> Ragged:
        """Corrupt encoded records, one per row, and return as many rows in new arrays.

        All visits keep their markers and at least one token, except in an EMPTY_RECORD.

        >>> tokenizer = CodeTokenizer([f"{number:03}" for number in range(10)])
        >>> record = Ragged.from_lists([[1, 3, 7, 8, 9, 10, 4, 3, 11, 12, 4, 2]])
        >>> infilling = Corruption(p_visit=1, strategies=["infill"])
        >>> infilling.apply(record, tokenizer, rng=np.random.default_rng(1)).to_lists()
        [[1, 3, 7, 8, 6, 4, 3, 11, 6, 4, 2]]
        """
        values, keep = records.values.copy(), np.ones(len(records.values), bool)
        starts = (values == tokenizer.visit_start_id).nonzero()[0] + 1
        ends = (values == tokenizer.visit_end_id).nonzero()[0]
        codes = (values >= tokenizer.first_code_id).nonzero()[0]
        lengths = ends - starts if len(starts) == len(ends) else np.zeros(1, np.int64)
        if lengths.min(initial=1) < 1 or lengths.sum() != len(codes):
            raise InputError(
                "corruption",
                "records",
                "a row is not a full record",
                r"Give <BOS> <v> codes <\v> ... <EOS>, without padding, as encode writes it.",
            )
        # One number per visit says whether it is corrupted, and how: the numbers below p_visit
        # are shared out evenly among the strategies.
        shares = self.p_visit * np.arange(1, len(self.strategies) + 1) / len(self.strategies)
        of_visit = shares.searchsorted(rng.random(len(starts)), side="right")
        of_code = of_visit.repeat(lengths)
        mask_id, first_code = tokenizer.mask_id, tokenizer.first_code_id
        for number, name in enumerate(self.strategies):
            visits = of_visit == number
            if name == "infill":
                span = self.mean_span
                _infill(values, keep, starts[visits], lengths[visits], span, mask_id, rng)
            elif name == "delete":
                _delete(keep, codes[of_code == number], lengths[visits], self.p_delete, rng)
            else:
                chosen = codes[of_code == number]
                _replace(values, chosen, self.p_replace, first_code, len(tokenizer), rng)
        # Drawn last, so that p_empty does not change the visits of other records.
        if self.p_empty:
            empty = rng.random(len(records)) < self.p_empty
            firsts, sizes = records.offsets[:-1][empty], records.lengths[empty]
            values[firsts + 1] = mask_id  # behind <BOS>, before <EOS>
            keep[places(firsts + 2, sizes - 3)] = False
        return _kept(values, keep, records)

    def check_vocabulary(self, tokenizer: CodeTokenizer) -> None:
        """Raise an InputError if a code is to be replaced by another, and there is only one."""
        if "replace" in self.strategies and len(tokenizer.codes) < 2:
            raise InputError(
                "corruption",
                "tokenizer",
                "its vocabulary has no second code to replace the first by",
                "Use strategies without 'replace'.",
            )


# The following corrupt visits of a flat array in place: `starts` and `lengths` say where the codes
# of each visit are, `codes` lists all these places, and `keep` becomes False where a token goes.


def _infill(
    values: np.ndarray,
    keep: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    mean_span: float,
    mask_id: int,
    rng: Generator,
) -> None:
    span = span_lengths(len(starts), mean=mean_span, rng=rng)
    span = np.minimum(span, np.maximum(lengths - 1, 1))
    first = starts + _below(lengths - span + 1, rng)
    values[first] = mask_id  # the <mask> stands in the span's first place
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
    values: np.ndarray, codes: np.ndarray, p: float, first_code: int, n_tokens: int, rng: Generator
) -> None:
    hit = codes[rng.random(len(codes)) < p]
    # Draw among all codes but one, and step over the code itself: this is uniform over the others.
    drawn = rng.integers(first_code, n_tokens - 1, len(hit))
    values[hit] = drawn + (drawn >= values[hit])


def _below(sizes: np.ndarray, rng: Generator) -> np.ndarray:
    """Draw whole numbers from 0 to below each size, three times as fast as rng.integers."""
    return (rng.random(len(sizes)) * sizes).astype(np.int64)


def _kept(values: np.ndarray, keep: np.ndarray, rows: Ragged) -> Ragged:
    """The rows without the values that go, at least one of each row staying."""
    if not len(rows):
        return Ragged(values, rows.lengths.copy())
    return Ragged(values[keep], np.add.reduceat(keep, rows.offsets[:-1], dtype=np.int64))
