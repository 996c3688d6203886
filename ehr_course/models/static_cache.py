"""A cache of keys, values or ids that is written in place, one position of all rows at a time."""

from __future__ import annotations

import torch
from torch import Tensor

ROOM = 32
"""How many positions there is room for at first; where it is full, it doubles."""


class StaticCache:
    """Something of each position and row: (positions, batch, width).

    Time comes first, so that what a step reads lies together, and a step writes in one place. The
    room is kept from one batch to the next.

    >>> cache = StaticCache()
    >>> cache.fill(torch.tensor([[[1.0], [2.0]]]), torch.tensor([0, 0, 0]))  # one, for three rows
    >>> cache.append(torch.tensor([[3.0], [4.0], [5.0]])).shape
    torch.Size([3, 3, 1])
    >>> cache.keep(torch.tensor([0, 2]), torch.tensor([1]))
    >>> cache.seen()[..., 0]
    tensor([[1., 1.],
            [2., 2.],
            [3., 5.]])
    """

    def __init__(self) -> None:
        self.room: Tensor | None = None
        self.length = self.rows = 0

    def fill(self, read: Tensor, rows: Tensor) -> None:
        """Begin again with what was read so far.

        Args:
            read: (sequences, positions, width).
            rows: int64 (batch,): which of the sequences each row goes on from.
        """
        self.rows, self.length = len(rows), 0
        columns = read.transpose(0, 1)  # (positions, sequences, width)
        room = self._make_room(len(columns), columns)
        room[: len(columns), : self.rows] = columns.index_select(1, rows)
        self.length = len(columns)

    def append(self, column: Tensor) -> Tensor:
        """Write one position, (batch, width), and return all: (positions, batch, width)."""
        room = self._make_room(self.length + 1, column)
        room[self.length, : self.rows] = column
        self.length += 1
        return self.seen()

    def seen(self) -> Tensor:
        """All that is held: (positions, batch, width)."""
        assert self.room is not None  # `fill` or `append` comes first
        return self.room[: self.length, : self.rows]

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep some of the rows.

        Args:
            rows: int64 (kept,): no row twice.
            moved: int64: the places of ``rows`` that hold another number than their own.
        """
        assert self.room is not None
        seen = self.room[: self.length]
        seen.index_copy_(1, moved, seen.index_select(1, rows[moved]))
        self.rows = len(rows)

    def _make_room(self, positions: int, like: Tensor) -> Tensor:
        room = self.room
        if room is not None and room.shape[1] >= self.rows and room.dtype == like.dtype:
            if len(room) >= positions:
                return room
            positions = max(positions, 2 * len(room))
        grown = like.new_empty(max(positions, ROOM), self.rows, like.shape[-1])
        if self.length:
            grown[: self.length] = self.seen()
        self.room = grown
        return grown


def moved_by(rows: Tensor) -> Tensor:
    """The places that hold another row than their own: what ``keep`` asks for.

    >>> moved_by(torch.tensor([0, 4, 2]))
    tensor([1])
    """
    return (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
