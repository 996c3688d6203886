"""Files of tables, CSV or parquet: found in a folder, and read so that every fault has a place.

CSV values are read as text: a reader that guesses types turns the code 0389 into the number 389,
and a missing code into the text "nan".
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.cohort import Malformed
from ehr_course.sources.row_filter import RowFilter

LONGEST_LINE = 16 * 2**20
"""The most bytes of a line, or of a row of a CSV whose quoted line ends span several lines.

A file without line ends is refused before its one row takes several times its memory.
"""

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BAD_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
_LOOK_FOR_MARKS = "Look for a quotation mark that is never closed, or for missing line ends."

# ------------------------------------------------------------------ files in a folder


def find_tables(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Find each table's file: NAME.csv or NAME.csv.gz, in upper or lower case, but not both."""
    if not folder.exists():
        raise InputError(folder, "", "there is no such folder", "Check the path.")
    if not folder.is_dir():
        raise InputError(folder, "", "this is a file", "Name the folder that holds the tables.")
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    found = {name: [path for path in files if is_table(path, name)] for name in names}
    for matches in found.values():
        if len(matches) > 1:
            both = " and ".join(path.name for path in matches)
            remedy = "Keep one of them: they may differ."
            raise InputError(folder, "", f"{both} are both here", remedy)
    missing = [name for name, matches in found.items() if not matches]
    if missing:
        there = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
        more = f", ... ({len(there)} in all)" if len(there) > 12 else ""
        contents = ", ".join(there[:12]) + more or "nothing, the folder is empty"
        looked = ", ".join(f"{name}.csv or {name}.csv.gz" for name in missing)
        raise InputError(
            folder,
            "",
            f"no file for {', '.join(missing)}; found: {contents}",
            f"Put {looked} there (in upper or lower case).",
        )
    return {name: matches[0] for name, matches in found.items()}


def is_table(path: Path, name: str) -> bool:
    """Whether a file is NAME.csv or NAME.csv.gz, in upper or lower case."""
    return path.name.lower() in (f"{name}.csv".lower(), f"{name}.csv.gz".lower())


def check_not_lfs_pointer(path: Path) -> None:
    """Refuse a Git LFS pointer, which stands for the real file."""
    with path.open("rb") as file:
        is_pointer = file.read(len(_LFS_POINTER)) == _LFS_POINTER
    if is_pointer:
        raise InputError(
            path.name,
            "",
            "this is a Git LFS pointer: it stands for a file that was not downloaded",
            "Run 'git lfs pull' in the repository that it comes from.",
        )


# ------------------------------------------------------------------ parquet and lines


def parquet_columns(path: Path, file: str | None = None) -> dict[str, pl.DataType]:
    """Return the type of each column of a parquet file, which errors call file, by name."""
    check_not_lfs_pointer(path)
    # By default polars reads "shard[1].parquet" as a pattern for "shard1.parquet".
    scan = pl.scan_parquet(path, glob=False)
    return dict(_of_parquet(file or path.name, scan.collect_schema))


def read_parquet(path: Path, columns: Sequence[str], file: str | None = None) -> pl.DataFrame:
    """Read columns of a parquet file, which errors call file."""
    name, scan = file or path.name, pl.scan_parquet(path, glob=False)
    there = _of_parquet(name, scan.collect_schema)
    missing = ", ".join(column for column in columns if column not in there)
    if missing:
        problem = f"it has no column {missing}"
        raise InputError(name, "", problem, "Export or copy it again.")
    return _of_parquet(name, scan.select(columns).collect)


def _of_parquet(file: str, read: Callable[[], Any]) -> Any:
    with suppress(pl.exceptions.PolarsError, OSError):
        return read()
    # Raised outside the handler: the reader's error can quote a value.
    problem = "it is cut or not a parquet file that can be read"
    raise InputError(file, "", problem, "Export or copy it again.")


def read_lines(path: Path, *, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes]]:
    """Yield each line's number, from 1, and its bytes without the line end."""
    packed = path.name.lower().endswith(".gz")
    with gzip.open(path) if packed else path.open("rb") as file:
        number = 0
        while True:
            try:
                line = file.readline(longest + 2)  # "\r\n" may follow
            except _BAD_GZIP as error:
                raise _damaged(path.name, error) from None
            if not line:
                return
            number += 1
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if len(line) > longest:
                remedy = "Write one note on a line, or cut this one into several."
                raise _too_long(path.name, number, "line", remedy, longest)
            yield number, line


def _damaged(file: str, error: Exception) -> InputError:
    cut = isinstance(error, EOFError)
    problem = "the file is cut: it ends before its end mark"
    return InputError(
        file,
        "",
        problem if cut else "this is not a sound gzip file",
        "Copy or download it again.",
    )


def _too_long(file: str, line: int, what: str, remedy: str, longest: int) -> InputError:
    problem = (
        f"the {what} that begins here is longer than {longest:,} bytes, the most that is read"
    )
    return InputError(file, f"line {line}", problem, remedy)


# ------------------------------------------------------------------ CSV


def read_header(path: Path) -> list[str]:
    """Return the column names of a CSV file, in lower case."""
    return [name.strip().lower() for name in _header(_read_bytes(path), path.name)]


def check_is_header(file: str, place: str, names: Sequence[str]) -> None:
    """Refuse column names that are a comment, or are not separated by commas."""
    if names and names[0].lstrip().startswith("#"):
        raise InputError(
            file,
            place,
            "a comment stands where the names of the columns should be",
            "Take out the lines above the names, and any '#' before them.",
        )
    for sign, separator in _SEPARATORS.items():
        if len(names) == 1 and sign in names[0]:
            raise InputError(
                file,
                place,
                f"its columns are separated by {separator}, not by commas",
                "Export it again, separated by commas.",
            )


def read_table(
    path: Path,
    *,
    malformed: Malformed,
    name: str | None = None,
    text: Mapping[str, str] | None = None,
    numbers: Mapping[str, str] | None = None,
    verbatim: Sequence[str] = (),
) -> RowFilter:
    """Read columns of a CSV file, whose names may be in upper or lower case.

    Args:
        path: the file.
        malformed: what the rows' `refuse` does.
        name: the table's name in the report; by default the file's.
        text: the file's text columns, by the names they get; a missing value is "".
        numbers: its columns of whole numbers, by the names they get; call `parse_numbers` before
            use.
        verbatim: text columns that keep the spaces around a value.
    """
    file = path.name
    raw = _read_bytes(path)
    text, numbers = text or {}, numbers or {}
    _check_lines(raw, file)
    spelling = _match_columns({**text, **numbers}, _header(raw, file), file)
    if b"\n" not in raw.rstrip():
        problem = "it has column names but no rows"
        raise InputError(file, "", problem, "Export or copy it again.")
    # Without quotation marks, blank lines and lone carriage returns, each line is a row.
    is_plain = not any(mark in raw for mark in (b'"', b"\n\n", b"\n\r\n"))
    is_plain = is_plain and raw.count(b"\r") == raw.count(b"\r\n")
    rows = None if is_plain else _rows(raw, file)
    frame = _parse(raw, file, spelling, numbers, rows)
    if rows is None:
        frame = frame.with_row_index("line", offset=2)
    else:
        frame = pl.concat([frame, rows[1:]], how="horizontal").filter(~pl.col("blank"))
    stripped = [name for name in text if name not in verbatim]
    frame = frame.with_columns(pl.col(stripped).str.strip_chars())
    return RowFilter(name or file, frame, file=file, malformed=malformed, spelling=spelling)


def _read_bytes(path: Path) -> bytes:
    check_not_lfs_pointer(path)
    raw, file = path.read_bytes(), path.name
    if path.name.lower().endswith(".gz"):
        try:
            raw = gzip.decompress(raw)
        except _BAD_GZIP as error:
            raise _damaged(file, error) from error
    elif raw.startswith(b"\x1f\x8b"):
        raise InputError(file, "", "it is compressed", f"Rename it to {file}.gz, or unpack it.")
    if not raw or raw.isspace():
        raise InputError(file, "", "the file is empty", "Export or copy it again.")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(file, "", "it is UTF-16 text", "Save it as UTF-8.")
    try:
        if not raw.isascii():
            raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = raw[error.start : error.start + 1]
        problem = f"the byte 0x{byte.hex().upper()} ({byte.decode('latin-1')!r} in Latin-1)"
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            file, f"line {line}", f"{problem} is not UTF-8", "Save the file as UTF-8."
        ) from None
    if b"\r" in raw and b"\n" not in raw:
        problem = "its lines end in carriage returns"
        raise InputError(file, "", problem, "Save it with line feeds.")
    # Windows makes such line ends of "\r\n" that is written as text.
    return raw.replace(b"\r\r\n", b"\r\n") if b"\r\r\n" in raw else raw


def _check_lines(raw: bytes, file: str) -> None:
    """Refuse a line that is longer than LONGEST_LINE."""
    begin = 0
    while len(raw) - begin > LONGEST_LINE:
        end = raw.rfind(b"\n", begin, begin + LONGEST_LINE)
        if end < 0:
            line = raw.count(b"\n", 0, begin) + 1
            raise _too_long(file, line, "row", _LOOK_FOR_MARKS, LONGEST_LINE)
        begin = end + 1


def _header(raw: bytes, file: str) -> list[str]:
    end = raw.find(b"\n") + 1 or len(raw)
    first_line = raw[:end].decode("utf-8-sig")
    try:
        return next(csv.reader(io.StringIO(first_line), strict=True), [])
    except csv.Error as error:
        problem = f"the column names cannot be read ({error})"
        raise InputError(file, "line 1", problem, "Repair the line.") from error


def _match_columns(wanted: Mapping[str, str], header: list[str], file: str) -> dict[str, str]:
    """Return how the file spells each wanted column."""
    found = [name.strip().lower() for name in header]
    missing = [column for column in wanted.values() if column not in found]
    if missing:
        check_is_header(file, "line 1", header)
        columns = " and ".join(repr(column.upper()) for column in missing)
        raise InputError(
            file,
            "line 1",
            f"column {columns} is missing (found: {', '.join(header)})",
            "Is this the right table? Column names may be in upper or lower case.",
        )
    for column in wanted.values():
        if found.count(column) > 1:
            problem = f"there are two columns {column.upper()!r}"
            raise InputError(file, "line 1", problem, "Keep one.")
    return {name: header[found.index(column)] for name, column in wanted.items()}


def _rows(raw: bytes, file: str) -> pl.DataFrame:
    """Return the "line" on which each row begins, header included, and whether it is "blank".

    Slower than the other reader, it refuses misplaced quotation marks.
    """
    limit = csv.field_size_limit(LONGEST_LINE)
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="\n")
    reader = csv.reader(text, strict=True)
    lines, blank = [1], []
    try:
        for row in reader:
            blank.append(not row)
            lines.append(reader.line_num + 1)
        problem = None
    except csv.Error as error:
        problem = str(error)
    finally:
        csv.field_size_limit(limit)
    if problem is None:
        kinds = {"line": pl.UInt32, "blank": pl.Boolean}
        return pl.DataFrame({"line": lines[:-1], "blank": blank}, schema=kinds)
    if "limit" in problem:
        raise _too_long(file, lines[-1], "row", _LOOK_FOR_MARKS, LONGEST_LINE)
    if "end of data" in problem:
        raise _wrong_row(file, lines[-1], "a quotation mark is opened and never closed")
    if "new-line" in problem:
        problem = "a carriage return stands inside a value"
        remedy = "Take it out, or put quotation marks around the value."
        raise InputError(file, f"line {lines[-1]}", problem, remedy)
    raise _wrong_row(file, lines[-1], "text follows a closing quotation mark")


def _parse(
    raw: bytes,
    file: str,
    spelling: Mapping[str, str],
    numbers: Iterable[str],
    rows: pl.DataFrame | None,
) -> pl.DataFrame:
    """Read columns, by their spelling in the file, under the names of the mapping."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "error"

    table = None
    as_text = dict.fromkeys(spelling.values(), pa.string())
    as_numbers = as_text | {spelling[n]: pa.int64() for n in numbers}
    # If a value is not a number, it is read as text so that it can be found and named. So are
    # numbers in hexadecimal, which the reader would take.
    for kinds in (as_text,) if b"0x" in raw or b"0X" in raw else (as_numbers, as_text):
        try:
            table = arrow.read_csv(
                pa.py_buffer(raw),
                # Threads would lose the numbers of rows.
                read_options=arrow.ReadOptions(use_threads=False, block_size=LONGEST_LINE),
                parse_options=arrow.ParseOptions(
                    newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=note
                ),
                convert_options=arrow.ConvertOptions(
                    include_columns=list(kinds), column_types=kinds, null_values=[""]
                ),
            )
            break
        except pa.ArrowInvalid:
            if wrong:
                break
    # Raised outside the handler: the reader's error can quote a value.
    if wrong:
        [row] = wrong
        line = row.number if rows is None else rows["line"][row.number - 1]
        values = "1 value" if row.actual_columns == 1 else f"{row.actual_columns} values"
        count = f"{values}, where line 1 names {row.expected_columns} columns"
        raise _wrong_row(file, line, count)
    if table is not None:
        return pl.DataFrame(pl.from_arrow(table)).select(**spelling)
    raise InputError(file, "", "it cannot be read as CSV", "Look for stray quotation marks.")


def _wrong_row(file: str, line: int, problem: str) -> InputError:
    remedy = "Repair the line, or copy the file again if it is cut there."
    return InputError(file, f"line {line}", problem, remedy)
