"""Rows of different lengths in one flat array, so that NumPy can process them all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ehr_course.errors import InputError


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths in one flat array.

    Attributes:
        values: int64 (n,), the rows one after the other.
        lengths: int64 (rows,), which sum to n.

    >>> rows = Ragged.from_lists([[8, 9], [], [7, 7, 7]])
    >>> rows.values, rows.lengths, rows.offsets
    (array([8, 9, 7, 7, 7]), array([2, 0, 3]), array([0, 2, 2, 5]))
    >>> rows.take([2, 0]).to_lists()
    [[7, 7, 7], [8, 9]]
    """

    values: np.ndarray
    lengths: np.ndarray

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

    @cached_property
    def offsets(self) -> np.ndarray:
        """int64 (rows + 1,): row i is ``values[offsets[i]:offsets[i + 1]]``."""
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        self.lengths.cumsum(out=offsets[1:])
        return offsets

    def take(self, rows: Sequence[int] | np.ndarray) -> Self:
        """A copy of some rows, in the given order."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[rows]
        return type(self)(self.values[places(self.offsets[rows], lengths)], lengths)

    def chosen(self, rows: Sequence[int], thing: str) -> Self:
        """The same for rows that a user gives; an error names the ``thing``."""
        places = np.asarray(rows)
        is_list = places.ndim == 1 and len(places) and np.issubdtype(places.dtype, np.integer)
        if not is_list or places.min() < 0 or places.max() >= len(self):
            raise InputError(
                thing,
                "indices",
                f"{rows!r} is not a choice of rows",
                f"Give a list of one or more numbers from 0 to {len(self) - 1}.",
            )
        return self.take(places)

    def padded(self, padding: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows, padded on the right to the longest.

        Returns:
            int64 (rows, width), and bool (rows, width): where it is not padding.
        """
        inside = np.arange(self.lengths.max()) < self.lengths[:, None]
        padded = np.full(inside.shape, padding, np.int64)
        padded[inside] = self.values
        return padded, inside


def places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The flat places of rows with these starts and lengths, row after row.

    >>> places(np.array([10, 3]), np.array([2, 3]))
    array([10, 11,  3,  4,  5])
    """
    ends = lengths.cumsum()
    count = ends[-1] if len(ends) else 0
    return (starts - ends + lengths).repeat(lengths) + np.arange(count)
