r"""Damage a patient record the way BART does, so that a model can learn to repair it.

Text infilling, deletion and replacement (Lewis et al. 2020, https://arxiv.org/abs/1910.13461,
and BERT's random replacement), each within one visit, on token ids. All functions work on a whole
batch at once, take their randomness from the generator that they are given, and return new
arrays: the clean record stays what it was, because it is the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.random import Generator

from ehr_course.errors import InputError
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

STRATEGIES = ("infill", "delete", "replace")
"""The ways to corrupt a visit, by the names that Corruption takes."""

EMPTY_RECORD = (CodeTokenizer.bos_id, CodeTokenizer.mask_id, CodeTokenizer.eos_id)
"""A record of which nothing is known: the input from which age and sex alone make a patient."""

FIRST_CODE = len(SPECIAL_TOKENS)
"""The smallest id of a code; all smaller ones are special tokens."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths in one flat array.

    Attributes:
        values: int64 (n,), the rows one after the other.
        lengths: int64 (rows,), how many values each row has; they sum to n.

    Raises:
        InputError: if values or lengths is not flat, or the lengths do not sum to n.

    >>> rows = Ragged.from_lists([[8, 9], [], [7, 7, 7]])
    >>> rows.values, rows.lengths, rows.offsets
    (array([8, 9, 7, 7, 7]), array([2, 0, 3]), array([0, 2, 2, 5]))
    >>> rows.take([2, 0]).to_lists()
    [[7, 7, 7], [8, 9]]
    """

    values: np.ndarray
    lengths: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.int64))
        object.__setattr__(self, "lengths", np.asarray(self.lengths, dtype=np.int64))
        if self.values.ndim != 1 or self.lengths.ndim != 1:
            raise InputError(
                "Ragged",
                "",
                f"values has {self.values.ndim} dimensions and lengths {self.lengths.ndim}",
                "Both are flat; use Ragged.from_lists for a list of rows.",
            )
        if self.lengths.sum() != len(self.values) or (self.lengths < 0).any():
            raise InputError(
                "Ragged",
                "lengths",
                f"they sum to {self.lengths.sum()}, and there are {len(self.values)} values",
                "Give the length of every row; none is negative.",
            )

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int]]) -> Self:
        """Lay rows one after the other."""
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = (value for row in rows for value in row)
        return cls(np.fromiter(flat, np.int64, lengths.sum()), lengths)

    def to_lists(self) -> list[list[int]]:
        """The rows as lists."""
        values, ends = self.values.tolist(), self.offsets.tolist()
        return [values[ends[i] : ends[i + 1]] for i in range(len(self))]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.lengths)

    @property
    def offsets(self) -> np.ndarray:
        """int64 (rows + 1,): row i is ``values[offsets[i]:offsets[i + 1]]``."""
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    def take(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Some of the rows, in the order asked for, as a copy."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[rows]
        return type(self)(self.values[_places(self.offsets[rows], lengths)], lengths)

    def replaced(self, rows: np.ndarray, others: Ragged) -> Self:
        """All rows as a copy, those at ``rows`` exchanged for the rows of others.

        >>> Ragged.from_lists([[7], [8, 8]]).replaced([0], Ragged.from_lists([[9, 9]])).to_lists()
        [[9, 9], [8, 8]]
        """
        lengths = self.lengths.copy()
        lengths[rows] = others.lengths
        starts = self.offsets[:-1]
        starts[rows] = others.offsets[:-1] + len(self.values)
        both = np.concatenate([self.values, others.values])
        return type(self)(both[_places(starts, lengths)], lengths)


def span_lengths(count: int, *, mean: float = 3.0, rng: Generator) -> np.ndarray:
    """Draw lengths of masked spans: Poisson, a 0 made a 1.

    With mean 3 a span has one code with probability 0.199, four or more with 0.353.

    Args:
        count: how many to draw.
        mean: of the Poisson distribution, before the clamp.
        rng: the source of randomness.

    Returns:
        int64 (count,), each 1 or more.

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
    [[6, 9, 10, 11], [6]]
    """
    _check_codes(visits)
    span = span_lengths(len(visits), mean=mean_span, rng=rng)
    span = np.minimum(span, np.maximum(visits.lengths - 1, 1))
    first = visits.offsets[:-1] + rng.integers(0, visits.lengths - span + 1)
    values = visits.values.copy()
    values[first] = CodeTokenizer.mask_id
    keep = np.ones(len(values), bool)
    keep[_places(first + 1, span - 1)] = False  # the <mask> stands in the span's first place
    return Ragged(values[keep], visits.lengths - span + 1)


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
    keep = rng.random(len(visits.values)) >= p
    survivor = visits.offsets[:-1] + rng.integers(0, visits.lengths)
    row = np.repeat(np.arange(len(visits)), visits.lengths)
    emptied = np.bincount(row[keep], minlength=len(visits)) == 0
    keep[survivor[emptied]] = True
    return Ragged(visits.values[keep], np.bincount(row[keep], minlength=len(visits)))


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
    _check_codes(visits, n_tokens)
    if n_tokens < FIRST_CODE + 2:
        raise InputError(
            "replace_codes",
            "n_tokens",
            f"a vocabulary of {n_tokens} tokens has no second code to replace the first by",
            f"Use {FIRST_CODE + 2} or more, or strategies without 'replace'.",
        )
    values = visits.values.copy()
    hit = np.flatnonzero(rng.random(len(values)) < p)
    # Draw among all codes but one, and step over the code itself: uniform over the others.
    drawn = rng.integers(FIRST_CODE, n_tokens - 1, len(hit))
    values[hit] = drawn + (drawn >= values[hit])
    return Ragged(values, visits.lengths.copy())


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
        InputError: if a probability is not in 0 to 1, mean_span is negative, or strategies is
            empty or names something else.
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
        object.__setattr__(self, "strategies", tuple(self.strategies))
        if not self.strategies or not set(self.strategies) <= set(STRATEGIES):
            raise InputError(
                "Corruption",
                "strategies",
                f"{self.strategies!r} is not a choice of strategies",
                f"Use one or more of {STRATEGIES}; p_visit=0 corrupts nothing.",
            )

    def apply(self, records: Ragged, *, n_tokens: int, rng: Generator) -> Ragged:
        r"""Corrupt the visits of some records.

        <BOS>, <EOS> and the markers of every visit stay, in their order, and between two markers
        at least one token stays.

        Args:
            records: full records as CodeTokenizer encodes them, one a row. Never written to.
            n_tokens: the size of the vocabulary, special tokens included: ``len(tokenizer)``.
            rng: the source of randomness.

        Returns:
            As many rows, in new arrays; none is longer than it was.

        Raises:
            InputError: if a row is not <BOS> <v> codes <\v> ... <EOS>, has an empty visit or an
                id that is not in the vocabulary.

        >>> record = Ragged.from_lists([[1, 3, 7, 8, 9, 10, 4, 3, 11, 12, 4, 2]])
        >>> infilling = Corruption(p_visit=1, strategies=["infill"])
        >>> infilling.apply(record, n_tokens=13, rng=np.random.default_rng(1)).to_lists()
        [[1, 3, 7, 6, 4, 3, 11, 6, 4, 2]]
        """
        found = find_visits(records, n_tokens=n_tokens)
        # Drawn whether or not it is used, so that p_empty does not change the other visits.
        empty = np.flatnonzero(rng.random(len(records)) < self.p_empty)
        corrupted = rng.random(len(found.rows)) < self.p_visit
        strategy = np.where(corrupted, rng.integers(0, len(self.strategies), len(corrupted)), -1)

        # The flat ids cut at every visit: what lies between codes, codes, what lies between, ...
        cuts = np.column_stack([found.starts, found.ends]).ravel()
        lengths = np.diff(cuts, prepend=0, append=len(records.values))
        pieces = Ragged(records.values, lengths)
        order, parts = [], []
        for number, name in enumerate(self.strategies):
            chosen = 2 * np.flatnonzero(strategy == number) + 1
            order.append(chosen)
            parts.append(self._corrupt(name, pieces.take(chosen), n_tokens, rng))
        order = np.concatenate(order)
        pieces = pieces.replaced(order, _joined(parts))

        change = (pieces.lengths - lengths)[1::2]
        shorter = np.zeros(len(records), np.int64)
        np.add.at(shorter, found.rows, change)
        result = Ragged(pieces.values, records.lengths + shorter)
        return result.replaced(empty, Ragged.from_lists([EMPTY_RECORD] * len(empty)))

    def _corrupt(self, name: str, visits: Ragged, n_tokens: int, rng: Generator) -> Ragged:
        if name == "infill":
            return infill_masks(visits, mean_span=self.mean_span, rng=rng)
        if name == "delete":
            return delete_codes(visits, p=self.p_delete, rng=rng)
        return replace_codes(visits, p=self.p_replace, n_tokens=n_tokens, rng=rng)


class Found(NamedTuple):
    """Where the visits of some records are, visit by visit.

    Attributes:
        rows: int64 (visits,), the record that each visit belongs to.
        starts: int64 (visits,), the place of its first code in the flat values.
        ends: int64 (visits,), the place after its last code: that of its end marker.
    """

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def find_visits(records: Ragged, *, n_tokens: int | None = None) -> Found:
    r"""Find the visits in full records, and refuse what is not a full record.

    Args:
        records: <BOS> <v> codes <\v> ... <EOS> in each row.
        n_tokens: the size of the vocabulary, if ids are to be checked against it.

    Raises:
        InputError: if a row is something else, has an empty visit, or an id is too large.

    >>> find_visits(Ragged.from_lists([[1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2]]))
    Found(rows=array([0, 1]), starts=array([2, 8]), ends=array([4, 9]))
    """
    values, offsets = records.values, records.offsets
    first, last = offsets[:-1], offsets[1:] - 1
    starts = np.flatnonzero(values == CodeTokenizer.visit_start_id) + 1
    ends = np.flatnonzero(values == CodeTokenizer.visit_end_id)
    row_of = np.repeat(np.arange(len(records)), records.lengths)
    # Each token is accounted for: the two ends of each row, the markers in pairs, and codes,
    # all of them between the markers of a pair.
    n_codes = np.count_nonzero(values >= FIRST_CODE)
    well_formed = (
        len(starts) == len(ends)
        and (records.lengths >= 2).all()
        and (values[first] == CodeTokenizer.bos_id).all()
        and (values[last] == CodeTokenizer.eos_id).all()
        and len(values) == 2 * len(records) + 2 * len(starts) + n_codes
        and (starts <= ends).all()
        and (starts[1:] > ends[:-1]).all()
        and (row_of[starts - 1] == row_of[ends]).all()
        and (ends - starts).sum() == n_codes
    )
    if not well_formed:
        raise _what_is_wrong(records)
    if (starts == ends).any():
        visit = int(np.flatnonzero(starts == ends)[0])
        raise InputError(
            "record",
            f"row {row_of[ends[visit]]}",
            r"a visit is empty: <v> is followed by <\v>",
            "Leave out visits without codes before you encode.",
        )
    if n_tokens is not None and (values >= n_tokens).any():
        place = int(np.flatnonzero(values >= n_tokens)[0])
        raise InputError(
            "record",
            f"row {row_of[place]}",
            f"id {values[place]} is not in a vocabulary of {n_tokens} tokens",
            "Give the n_tokens of the tokenizer that encoded it: len(tokenizer).",
        )
    return Found(row_of[ends], starts, ends)


def _what_is_wrong(records: Ragged) -> InputError:
    """Name the first row that is no full record; slow, and only needed once."""
    for number, row in enumerate(records.to_lists()):
        # One letter a token: a record is B (v c* w)* E.
        kinds = "".join("pBEvwxm"[token] if 0 <= token < FIRST_CODE else "c" for token in row)
        inside = kinds[1:-1].replace("c", "").replace("vw", "")
        stray = any(not piece.startswith("v") for piece in kinds[1:-1].split("w")[:-1])
        if kinds[:1] != "B" or kinds[-1:] != "E" or inside or stray or kinds[-2:] == "cE":
            return InputError(
                "record",
                f"row {number}",
                f"{row} is not a full record",
                r"A full record is <BOS> <v> codes <\v> ... <EOS>, without padding, as "
                "CodeTokenizer.encode writes it.",
            )
    raise AssertionError("every row is a full record")


def _places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The flat places of rows that begin at starts and have these lengths, row after row."""
    ends = np.cumsum(lengths)
    count = ends[-1] if len(ends) else 0
    return np.repeat(starts - ends + lengths, lengths) + np.arange(count)


def _joined(parts: Sequence[Ragged]) -> Ragged:
    return Ragged(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )


def _check_codes(visits: Ragged, n_tokens: int | None = None) -> None:
    if (visits.lengths == 0).any():
        raise InputError(
            "visits",
            f"row {int(np.flatnonzero(visits.lengths == 0)[0])}",
            "a visit is empty",
            "Leave out visits without codes before you corrupt.",
        )
    if len(visits.values) == 0:
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
            "Give the n_tokens of the tokenizer that encoded it: len(tokenizer).",
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
