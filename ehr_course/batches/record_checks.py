r"""Checks that rows of token ids are full records: <BOS> <v> codes <\v> ... <EOS>."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

FIRST_CODE = len(SPECIAL_TOKENS)
"""The smallest id of a code; all smaller ones are special tokens."""


SHORTEST = 5
"""The tokens of the shortest record: <BOS>, one visit of one code with its markers, <EOS>."""


def check_records(records: Ragged, *, n_tokens: int, names: Sequence[str] | None = None) -> None:
    r"""Check that every row is a full record, as CodeTokenizer encodes it.

    Args:
        records: one record a row, with one visit or more.
        n_tokens: the size of the vocabulary, special tokens included.
        names: what to call each record in an error; by default its row.

    Raises:
        InputError: that names the first row that is something else, has a visit without codes, or
            an id that is not in the vocabulary.

    >>> check_records(Ragged.from_lists([[1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2]]), n_tokens=10)
    >>> check_records(Ragged.from_lists([[1, 3, 4, 2]]), n_tokens=10)
    Traceback (most recent call last):
    ehr_course.errors.InputError: record, row 0: visit 1 has no codes. Leave such visits out.
    """
    if _are_full(records) and not (records.values >= n_tokens).any():
        return
    for number, row in enumerate(records.to_lists()):
        problem, remedy = _what_is_wrong(row, n_tokens)
        if problem:
            name = names[number] if names is not None else f"row {number}"
            raise InputError("record", name, problem, remedy)
    raise AssertionError("a record was refused, and nothing is wrong with it")


def _are_full(records: Ragged) -> bool:
    """Whether all rows are, visits without codes excluded; all rows at once."""
    values, offsets = records.values, records.offsets
    if not len(records):
        return True
    if records.lengths.min() < SHORTEST:
        return False
    starts = np.flatnonzero(values == CodeTokenizer.visit_start_id)
    ends = np.flatnonzero(values == CodeTokenizer.visit_end_id)
    row_of = np.repeat(np.arange(len(records)), records.lengths)
    n_codes = np.count_nonzero(values >= FIRST_CODE)
    # Each token is accounted for: the two ends of each row, the markers in pairs, and the codes,
    # as many as there are between the markers of the pairs.
    return bool(
        (values[offsets[:-1]] == CodeTokenizer.bos_id).all()
        and (values[offsets[1:] - 1] == CodeTokenizer.eos_id).all()
        and len(starts) == len(ends)
        and len(values) == 2 * len(records) + 2 * len(starts) + n_codes
        and (starts + 1 < ends).all()
        and (starts[1:] > ends[:-1]).all()
        and (row_of[starts] == row_of[ends]).all()
        and (ends - starts - 1).sum() == n_codes
    )


def _what_is_wrong(row: list[int], n_tokens: int) -> tuple[str, str]:
    """What keeps one row from being a full record, and the remedy; empty texts if nothing."""
    not_full = (
        f"{row} is not a full record",
        r"A full record is <BOS> <v> codes <\v> ... <EOS>, without padding, as "
        "CodeTokenizer.encode writes it.",
    )
    if len(row) < 2 or row[0] != CodeTokenizer.bos_id or row[-1] != CodeTokenizer.eos_id:
        return not_full
    inside, visit, codes = False, 0, 0
    for token in row[1:-1]:
        if token >= n_tokens:
            return (
                f"id {token} is not in a vocabulary of {n_tokens} tokens",
                "Use the tokenizer that encoded it: n_tokens is len(tokenizer).",
            )
        if token == CodeTokenizer.visit_start_id and not inside:
            inside, visit, codes = True, visit + 1, 0
        elif token == CodeTokenizer.visit_end_id and inside:
            if not codes:
                return f"visit {visit} has no codes", "Leave such visits out."
            inside = False
        elif token >= FIRST_CODE and inside:
            codes += 1
        else:
            return not_full
    return not_full if inside or not visit else ("", "")
