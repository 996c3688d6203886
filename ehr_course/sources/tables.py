"""Reading one CSV table so that every fault has a place and every row an account.

All values are read as text and parsed afterwards. A reader that guesses types turns the code
0389 into the number 389, and a missing code into the text "nan".
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.cohort import Reason
from ehr_course.sources.column_names import check_is_header
from ehr_course.sources.long_lines import LONGEST_LINE, check_not_lfs_pointer, too_long
from ehr_course.sources.row_filter import Malformed, RowFilter

# Bytes that are looked at together: bounds the memory of counting commas.
_CHUNK = 1 << 20

_UNCLOSED = "a quotation mark is opened and never closed"


def find_tables(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Find each table's file in a folder: NAME.csv or NAME.csv.gz, in upper or lower case.

    Args:
        folder: where to look; folders inside it are not searched.
        names: the tables, as ("PATIENTS", "ADMISSIONS").

    Returns:
        the path of each table, by its name as given.

    Raises:
        InputError: if the folder is missing or not a folder, or if a table has no file, or has
            two (a .csv beside a .csv.gz may be an older or a cut copy: which one counts is not
            for a loader to guess).
    """
    if not folder.exists():
        raise InputError(folder, "", "there is no such folder", "Check the path.")
    if not folder.is_dir():
        raise InputError(folder, "", "this is a file", "Name the folder that holds the tables.")
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    found: dict[str, Path] = {}
    for name in names:
        wanted = {f"{name}.csv".lower(), f"{name}.csv.gz".lower()}
        matches = [path for path in files if path.name.lower() in wanted]
        if len(matches) > 1:
            both = " and ".join(path.name for path in matches)
            raise InputError(
                folder, "", f"{both} are both here", "Keep one of them: they may differ."
            )
        if matches:
            found[name] = matches[0]
    missing = [name for name in names if name not in found]
    if missing:
        looked = ", ".join(f"{name}.csv or {name}.csv.gz" for name in missing)
        raise InputError(
            folder,
            "",
            f"no file for {_listed(missing)}; found: {_contents(folder)}",
            f"Put {looked} there (in upper or lower case).",
        )
    return found


def _contents(folder: Path) -> str:
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return _listed(names) if names else "nothing, the folder is empty"


def _listed(names: Sequence[str], at_most: int = 12) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def read_header(path: Path) -> list[str]:
    """Return the column names of a table, in lower case."""
    return [name.strip().lower() for name in _split_header(_read_bytes(path), path.name)]


class Table(RowFilter):
    """The rows of one CSV file while they are sifted; a place is "line 17".

    Attributes:
        ids_read: the columns that `parse_ids` read, rows that were dropped since included.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        text: Sequence[str] = (),
        verbatim: Sequence[str] = (),
        numbers: Sequence[str] = (),
        malformed: Malformed,
    ) -> None:
        """Read columns of a CSV file, whose names may be in upper or lower case.

        Args:
            name: the table's name in the report.
            path: the file.
            text: columns to read as text, spaces around a value removed, "" where it is missing.
            verbatim: columns to read as text with the spaces around it, "" where it is missing.
            numbers: columns of whole numbers; hand them to `parse_numbers` before use.
            malformed: what `refuse` does.

        Raises:
            InputError: if the file is empty, cut, not UTF-8, not separated by commas, lacks a
                column, has no rows, or has a row with too few or too many values or of more than
                LONGEST_LINE bytes.
        """
        self.file = path.name
        self.ids_read: dict[str, pl.Series] = {}
        frame = self._read(path, (*text, *verbatim, *numbers), numbers)
        frame = frame.with_columns(
            *(pl.col(column).fill_null("").str.strip_chars() for column in text),
            *(pl.col(column).fill_null("") for column in verbatim),
        )
        super().__init__(
            name,
            frame,
            file=self.file,
            place="line {}".format,
            spelling=self._spelling,
            malformed=malformed,
        )

    def _read(self, path: Path, columns: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
        raw = _read_bytes(path)
        header = _split_header(raw, self.file)
        self._spelling = _match_columns(columns, header, self.file)
        rows = _find_rows(raw, self.file, n_columns=len(header))
        if rows["blank"].all():
            raise InputError(
                self.file, "", "it has column names but no rows", "Export or copy it again."
            )
        frame = self._parse(raw, numbers)
        if frame.height != rows.height:
            raise _unreadable(self.file, f"{rows.height} rows look like {frame.height}")
        frame = frame.with_columns(rows["line"])
        return frame.filter(~rows["blank"]) if rows["blank"].any() else frame

    def _parse(self, raw: bytes, numbers: Sequence[str]) -> pl.DataFrame:
        columns = list(self._spelling.values())
        as_numbers = {self._spelling[column]: pl.Int64 for column in numbers}
        try:
            try:
                frame = pl.read_csv(
                    raw, columns=columns, infer_schema=False, schema_overrides=as_numbers
                )
            except pl.exceptions.ComputeError:
                # Some value is no number: as text, it can be found and named.
                frame = pl.read_csv(raw, columns=columns, infer_schema=False)
        except pl.exceptions.PolarsError as error:
            raise _unreadable(self.file, str(error).splitlines()[0]) from error
        return frame.rename({spelling: column for column, spelling in self._spelling.items()})

    def parse_ids(self, *columns: str) -> None:
        """Turn columns of ids into numbers, and remember every id that was read."""
        for column in columns:
            self.ids_read[column] = self.frame.select(self._as_number(column))[column]
        for column in columns:
            self.parse_numbers(column, Reason.BAD_ID)


def _read_bytes(path: Path) -> bytes:
    check_not_lfs_pointer(path)
    raw = path.read_bytes()
    compressed = path.name.lower().endswith(".gz")
    if compressed and raw:
        try:
            raw = gzip.decompress(raw)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            cut = isinstance(error, EOFError)
            raise InputError(
                path.name,
                "",
                "the file is cut: it ends before its end mark"
                if cut
                else f"this is not a sound gzip file ({error})",
                "Copy or download it again.",
            ) from error
    elif raw.startswith(b"\x1f\x8b"):
        raise InputError(
            path.name, "", "it is compressed", f"Rename it to {path.name}.gz, or unpack it."
        )
    if not raw or raw.isspace():
        raise InputError(path.name, "", "the file is empty", "Export or copy it again.")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(path.name, "", "it is UTF-16 text", "Save it as UTF-8.")
    if not raw.isascii():
        _check_utf8(raw, path.name)
    if b"\r" in raw and b"\n" not in raw:
        raise InputError(
            path.name, "", "its lines end in carriage returns", "Save it with line feeds."
        )
    return raw


def _check_utf8(raw: bytes, file: str) -> None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = raw[error.start : error.start + 1]
        raise InputError(
            file,
            f"line {line}",
            f"the byte 0x{byte.hex().upper()} ({byte.decode('latin-1')!r} in Latin-1) "
            "is not UTF-8",
            "Save the file as UTF-8.",
        ) from None


def _split_header(raw: bytes, file: str) -> list[str]:
    # A header is one line, so there is no need to decode the whole file.
    end = raw.find(b"\n") + 1 or len(raw)
    if end > LONGEST_LINE:
        raise too_long(file, 1, "row")
    first_line = raw[:end].decode("utf-8-sig")
    try:
        return next(csv.reader(io.StringIO(first_line), strict=True), [])
    except csv.Error as error:
        raise InputError(
            file, "line 1", f"the column names cannot be read ({error})", "Repair the line."
        ) from error


def _match_columns(wanted: Sequence[str], header: list[str], file: str) -> dict[str, str]:
    """Return how the file spells each wanted column."""
    found = [name.strip().lower() for name in header]
    missing = [column for column in wanted if column not in found]
    if not missing:
        twice = [column for column in wanted if found.count(column) > 1]
        if twice:
            raise InputError(
                file, "line 1", f"there are two columns {twice[0].upper()!r}", "Keep one."
            )
        return {column: header[found.index(column)] for column in wanted}
    check_is_header(file, "line 1", header)
    columns = " and ".join(repr(column.upper()) for column in missing)
    raise InputError(
        file,
        "line 1",
        f"column {columns} is missing (found: {', '.join(header)})",
        "Is this the right table? Column names may be in upper or lower case.",
    )


def _find_rows(raw: bytes, file: str, *, n_columns: int) -> pl.DataFrame:
    """Find where each row begins, and refuse rows of the wrong length.

    Returns:
        for each row but the header: "line", on which it begins, counted from 1; and whether it is
        "blank".
    """
    unclosed = raw.count(b'"') % 2 == 1
    lines, blank = [], []
    start, commas_so_far, line = 0, 0, 1  # of the row that comes next
    for ends, commas_before, lines_before in _row_ends(raw):
        starts = np.append(start, ends[:-1] + 1)
        n_values = np.diff(commas_before, prepend=commas_so_far) + 1
        # A row begins on the line after the one on which the row before it ends.
        lines.append(np.append(line, lines_before[:-1] + 2).astype(np.uint32))
        blank.append(_are_blank(raw, starts, ends))
        long = np.flatnonzero(ends - starts > LONGEST_LINE)
        if long.size:
            raise too_long(file, lines[-1][long[0]], "row")
        wrong = np.flatnonzero((n_values != n_columns) & ~blank[-1])
        if wrong.size:
            at, count = lines[-1][wrong[0]], n_values[wrong[0]]
            problem = f"{count} values, where line 1 names {n_columns} columns"
            raise _wrong_row(file, at, _UNCLOSED if unclosed else problem)
        start, commas_so_far, line = ends[-1] + 1, commas_before[-1], lines_before[-1] + 2
    if unclosed:
        raise _wrong_row(file, lines[-1][-1], _UNCLOSED)
    return pl.DataFrame({"line": np.concatenate(lines)[1:], "blank": np.concatenate(blank)[1:]})


def _row_ends(raw: bytes) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Find where rows end, a piece of the text at a time.

    A quoted value may hold commas and line ends. They are told apart by counting: a byte with an
    odd number of quotation marks before it is inside a value.

    Yields:
        for the rows that end in the piece: where, and how many commas that separate values and
        how many line ends of any kind come before.
    """
    n_commas = n_lines = 0
    inside = False
    text = np.frombuffer(raw, dtype=np.uint8)
    for offset in range(0, len(raw), _CHUNK):
        chunk = text[offset : offset + _CHUNK]
        line_ends = row_ends = np.flatnonzero(chunk == ord("\n"))
        commas = np.flatnonzero(chunk == ord(","))
        quotes = np.flatnonzero(chunk == ord('"'))
        if quotes.size or inside:
            row_ends = line_ends[_are_outside(line_ends, quotes, inside)]
            commas = commas[_are_outside(commas, quotes, inside)]
            inside ^= quotes.size % 2 == 1
        if row_ends.size:
            yield (
                row_ends + offset,
                n_commas + np.searchsorted(commas, row_ends),
                n_lines + np.searchsorted(line_ends, row_ends),
            )
        n_commas += commas.size
        n_lines += line_ends.size
    if inside or not raw.endswith(b"\n"):
        yield np.array([len(raw)]), np.array([n_commas]), np.array([n_lines])


def _are_outside(places: np.ndarray, quotes: np.ndarray, inside: bool) -> np.ndarray:
    return (np.searchsorted(quotes, places) + inside) % 2 == 0


def _are_blank(raw: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    blank = starts == ends
    for row in np.flatnonzero(ends - starts == 1):
        blank[row] = raw[starts[row]] == ord("\r")
    return blank


def _wrong_row(file: str, line: int, problem: str) -> InputError:
    return InputError(
        file,
        f"line {line}",
        problem,
        "Repair the line, or copy the file again if it is cut there.",
    )


def _unreadable(file: str, why: str) -> InputError:
    return InputError(
        file, "", f"it cannot be read as CSV ({why})", "Look for stray quotation marks."
    )
