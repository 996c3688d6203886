"""How long a line may be: what is longer is refused before it takes memory.

A reader of tables needs several times the memory of the longest row. One line of 500 MB, which is
what a file without line ends is, would take gigabytes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from ehr_course.errors import InputError

LONGEST_LINE = 16 * 2**20
"""The most bytes of a line, or of a row of a CSV that quoted line breaks make several lines long:
16 MiB. A long discharge note has a thousandth of that."""

_CHUNK = 1 << 20

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"

BAD_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
"""What a damaged .gz file raises while it is read."""


def check_not_lfs_pointer(path: Path) -> None:
    """Refuse a file that Git LFS has put in the place of the real one.

    Raises:
        InputError: it names the remedy.
    """
    with path.open("rb") as file:
        is_pointer = file.read(len(_LFS_POINTER)) == _LFS_POINTER
    if is_pointer:
        raise InputError(
            path.name,
            "",
            "this is a Git LFS pointer: it stands for a file that was not downloaded",
            "Run 'git lfs pull' in the repository that it comes from.",
        )


def open_text(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a file to read its bytes, unpacked where its name ends in .gz."""
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def check_row_lengths(path: Path, *, longest: int = LONGEST_LINE) -> None:
    """Refuse a CSV file with a row that is too long, holding a piece of it in memory at a time.

    A line end between quotation marks belongs to its row. A damaged .gz file is read to where it
    is damaged, and not complained of.

    Args:
        path: the file, .csv or .csv.gz.
        longest: the most bytes of a row.

    Raises:
        InputError: it names the line on which the first row that is too long begins.
    """
    begins = offset = n_lines = 0  # begins: where the row that is being read does
    first_line = 1  # of that row
    inside = False
    with open_text(path) as file:
        while True:
            try:
                piece = file.read(_CHUNK)
            except BAD_GZIP:
                return
            if not piece:
                return
            chunk = np.frombuffer(piece, dtype=np.uint8)
            line_ends = np.flatnonzero(chunk == ord("\n"))
            quotes = np.flatnonzero(chunk == ord('"'))
            # An odd number of quotation marks before a line end: it is inside a value.
            outside = (np.searchsorted(quotes, line_ends) + inside) % 2 == 0
            ends = np.append(line_ends[outside] + offset, offset + len(piece))
            lengths = ends - np.append(begins, ends[:-1] + 1)
            wrong = np.flatnonzero(lengths > longest)
            before = np.flatnonzero(outside) + n_lines + 2  # the line after each row's end
            if wrong.size:
                line = first_line if wrong[0] == 0 else before[wrong[0] - 1]
                raise too_long(path.name, int(line), "row", longest)
            if before.size:
                begins, first_line = int(ends[-2]) + 1, int(before[-1])
            inside ^= quotes.size % 2 == 1
            offset += len(piece)
            n_lines += line_ends.size


def read_lines(path: Path, *, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes]]:
    """Read a file line by line, each of at most so many bytes.

    Args:
        path: the file, packed where its name ends in .gz.
        longest: the most bytes of a line.

    Yields:
        the number of each line, from 1, and its bytes without the line end.

    Raises:
        InputError: if a line is too long, or a .gz file is damaged.
    """
    with open_text(path) as file:
        number = 0
        while True:
            try:
                line = file.readline(longest + 2)  # "\r\n" may follow
            except BAD_GZIP as error:
                cut = isinstance(error, EOFError)
                raise InputError(
                    path.name,
                    "",
                    "the file is cut: it ends before its end mark"
                    if cut
                    else "this is not a sound gzip file",
                    "Copy or download it again.",
                ) from None
            if not line:
                return
            number += 1
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if len(line) > longest:
                raise too_long(path.name, number, "line", longest)
            yield number, line


def too_long(file: str, line: int, what: str, longest: int = LONGEST_LINE) -> InputError:
    """The error about a line or a row that is too long.

    Args:
        file: its name.
        line: where the line or row begins, from 1.
        what: "line" or "row".
        longest: the most bytes that are read.
    """
    remedy = (
        "Look for a quotation mark that is never closed, or for missing line ends."
        if what == "row"
        else "Write one note on a line, or cut this one into several."
    )
    return InputError(
        file,
        f"line {line}",
        f"the {what} that begins here is longer than {longest:,} bytes, the most that is read",
        remedy,
    )
