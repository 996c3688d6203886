"""A filter of the rows of a table: each is kept, or dropped for a reason that is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import product

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.cohort import Drop, Malformed, Reason, TableReport

OLDEST = 130
"""The highest plausible age: many tables write 999 for an unknown one."""

_NOT_WHOLE = ("is not a whole number", "Write digits alone.")
_FAULTS = {
    Reason.BAD_ID: _NOT_WHOLE,
    Reason.BAD_SEQ_NUM: _NOT_WHOLE,
    Reason.BAD_AGE: _NOT_WHOLE,
    Reason.NO_AGE: (
        "is not an age in years",
        f"Write 0 to {OLDEST} or > 89, or leave the column out.",
    ),
    Reason.BAD_SEX: ("is not a sex that the records know", "Write F or M."),
    Reason.BAD_DATE: ("is not a date", "Write it as 2101-01-31 17:05:00."),
    Reason.BAD_CODE: (
        "does not have the shape of an ICD diagnosis code",
        "Keep codes as text, with their leading zeros.",
    ),
    Reason.BAD_VERSION: ("is not an ICD version", "Write 9 or 10."),
    Reason.BEFORE_BIRTH: (
        "belongs to a visit that begins before the patient's birth",
        "Correct one of them.",
    ),
    Reason.ROWS_DIFFER: ("stands in two rows that differ", "Keep the right one."),
    Reason.WRONG_PATIENT: (
        "is not the patient whom ADMISSIONS names for this admission",
        "Correct one of them.",
    ),
    Reason.NO_PATIENT: ("stands where a row needs its patient", "Write it for every code."),
    Reason.NO_VISIT: ("stands where a row needs its visit", "Write it for every code."),
}
"""What an error says of a malformed value, after the value, and what the reader can do."""

_DATE_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")

# The date formats that an error proposes: a day, then perhaps an hour.
_DAYS = """
    %m/%d/%Y %d/%m/%Y %m/%d/%y %d/%m/%y %d.%m.%Y %d.%m.%y %m-%d-%Y %d-%m-%Y %m-%d-%y %d-%m-%y
    %d-%b-%Y %d-%b-%y %d%b%Y %Y/%m/%d %Y-%m-%d %Y%m%d %Y
"""
_HOURS = (
    *("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p"),
    *(":%H:%M:%S", "T%H:%M:%S.%f", "T%H:%M:%S%z"),
)
_DATES_LOOKED_AT = 100

_EXAMPLES = 3  # places that a report names for one reason


class RowFilter:
    """The rows of a table that are still kept, and an account of the others.

    Attributes:
        name: the table's name in the report.
        file: what errors call the table.
        frame: the kept rows; its column "line" says where each stands.
        place: turns a number of the column "line" into words.
    """

    def __init__(
        self,
        name: str,
        frame: pl.DataFrame,
        *,
        malformed: Malformed,
        file: str | None = None,
        place: Callable[[int], str] = "line {}".format,
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        """Start with all rows kept; spelling says how the file spells a column of frame."""
        self.name = name
        self.file = file or name
        self.frame = frame
        self.rows_read = frame.height
        self.place = place
        self._malformed = malformed
        self._spelling = spelling or {}
        self._drops: dict[Reason, Drop] = {}

    def add(self, **columns: pl.Expr | pl.Series) -> None:
        """Add columns to the frame, or replace them."""
        self.frame = self.frame.with_columns(**columns)

    def drop(self, bad: pl.Expr, reason: Reason) -> None:
        """Drop the rows for which bad holds, counted under the reason."""
        mask = self.frame.select(bad.fill_null(False).alias("bad"))["bad"]
        if mask.any():
            self._count(reason, self.frame.filter(mask)["line"])
            self.frame = self.frame.filter(~mask)

    def count_unread(self, reason: Reason, lines: pl.Series) -> None:
        """Count rows that were dropped before they reached the frame."""
        if len(lines):
            self._count(reason, lines)
            self.rows_read += len(lines)

    def _count(self, reason: Reason, lines: pl.Series) -> None:
        before = self._drops.get(reason, Drop(reason, 0, ()))
        examples = (*before.examples, *self.examples(lines))[:_EXAMPLES]
        self._drops[reason] = Drop(reason, before.count + len(lines), examples)

    def examples(self, lines: pl.Series) -> tuple[str, ...]:
        """The places of the first few lines."""
        return tuple(map(self.place, lines.sort().head(_EXAMPLES)))

    def refuse(
        self,
        bad: pl.Expr,
        reason: Reason,
        column: str,
        problem: str | None = None,
        remedy: str | None = None,
        *,
        among: pl.Expr | None = None,
    ) -> None:
        """Raise at the first row for which bad holds, or drop all such rows if malformed="drop".

        Args:
            bad: true for the malformed rows. The error suggests dropping them unless they are
                most.
            reason: what the report calls it.
            column: the column at fault.
            problem: what is wrong with its value, after the value; by default that of the reason.
            remedy: what the reader can do; by default that of the reason.
            among: true for the rows that could have such a value; by default all.
        """
        rows = self.frame.filter(bad) if self._malformed == "raise" else None
        if rows is None or rows.is_empty():
            self.drop(bad, reason)
            return
        first = rows.row(rows["line"].arg_min(), named=True)
        value = first[column]
        shown = "an empty value" if value in (None, "") else repr(str(value)[:200])
        n_rows = self.frame.height if among is None else self.frame.filter(among).height
        drop_them = 'Or leave such rows out: --malformed drop, or malformed="drop".'
        if 2 * rows.height > n_rows:
            drop_them = (
                f"{rows.height:,} of {n_rows:,} rows have this fault, too many to leave out."
            )
        what, advice = _FAULTS.get(reason, ("", ""))
        raise InputError(
            self.file,
            f"{self.place(first['line'])}, column {self.spelled(column)!r}",
            f"{shown} {problem or what}",
            f"{remedy or advice} {drop_them}",
        )

    def spelled(self, column: str) -> str:
        """Return the name of a column as the file spells it."""
        return self._spelling.get(column, column)

    def numbers_in(self, column: str) -> pl.Series:
        """The whole numbers in a column of text or numbers, null where a value is not one."""
        values = self.frame[column]
        if values.dtype == pl.String:
            values = values.str.strip_chars()
        return values.cast(pl.Int64, strict=False)

    def parse_numbers(self, column: str, reason: Reason) -> None:
        """Turn a column of text into whole numbers."""
        self._parse(self.numbers_in(column), reason)

    def parse_dates(self, column: str, date_format: str | None = None) -> None:
        """Turn a column of text into times of microsecond precision."""
        parsed = parsed_dates(self.frame[column], date_format)
        unread = self.frame[column].filter(parsed.is_null())
        self._parse(parsed, Reason.BAD_DATE, _how_to_read(unread))

    def _parse(self, parsed: pl.Series, reason: Reason, remedy: str | None = None) -> None:
        column = parsed.name
        self.add(parsed=parsed)
        self.refuse(pl.col("parsed").is_null(), reason, column, remedy=remedy)
        self.frame = self.frame.drop(column).rename({"parsed": column})

    def one_row_each(self, column: str) -> None:
        """Drop repeated rows, and refuse all rows of an id that has several others."""
        self.drop_repeated_rows(name for name in self.frame.columns if name != "line")
        bad = pl.col(column).is_duplicated()
        rows = self.frame.filter(bad).sort("line")
        problem, _ = _FAULTS[Reason.ROWS_DIFFER]
        if not rows.is_empty():
            twice = rows.filter(pl.col(column) == rows[column][0])["line"]
            problem += f" ({' and '.join(self.examples(twice))})"
        self.refuse(bad, Reason.ROWS_DIFFER, column, problem)

    def drop_repeated_rows(self, columns: Iterable[str]) -> None:
        """Drop rows that repeat an earlier row in these columns."""
        self.drop(~pl.struct(*columns).is_first_distinct(), Reason.SAME_ROW)

    def account(self) -> TableReport:
        """Return the table's account; kept rows count as used."""
        drops = tuple(self._drops.values())
        return TableReport(self.name, self.rows_read, self.frame.height, drops)


def is_in(column: str, ids: pl.Series) -> pl.Expr:
    """Whether a value of the column is among the ids."""
    return pl.col(column).is_in(ids.unique().implode())


def parsed_dates(texts: pl.Series, date_format: str | None) -> pl.Series:
    """Times of microsecond precision, read by the format or as ISO 8601; null where not a date."""
    if date_format is None:
        parsed = pl.Series(texts.name, [None] * len(texts), dtype=pl.Datetime("us"))
    else:
        _check_date_format(date_format)
        each = texts.unique()
        dates = pl.Series([_date(text, date_format) for text in each], dtype=pl.Datetime("us"))
        parsed = texts.replace_strict(each, dates)
    for shape in _DATE_FORMATS:
        if parsed.has_nulls():
            others = texts.str.to_datetime(shape, strict=False, time_unit="us")
            parsed = parsed.zip_with(parsed.is_not_null(), others)
    return parsed


def _check_date_format(date_format: str) -> None:
    try:
        datetime.strptime(datetime(2101, 1, 31, tzinfo=UTC).strftime(date_format), date_format)
        problem = "" if "%" in date_format else "it names no part of a date"
    except ValueError as error:
        problem = str(error)
    if problem:
        raise InputError(
            "--date-format",
            "",
            f"{date_format!r} is not a format of dates ({problem})",
            "Write it as Python's strptime has it: '%m/%d/%Y %H:%M' for 1/31/2101 17:05.",
        )


def _date(text: str, date_format: str) -> datetime | None:
    try:
        return datetime.strptime(text, date_format).replace(tzinfo=None)
    except ValueError:
        return None


def _how_to_read(texts: pl.Series) -> str:
    """Advise on texts that are not dates in the known formats."""
    _, remedy = _FAULTS[Reason.BAD_DATE]
    some = texts.filter(texts != "").unique().sort().head(_DATES_LOOKED_AT).to_list()
    read = {
        day + hour: sum(_date(text, day + hour) is not None for text in some)
        for day, hour in product(_DAYS.split(), _HOURS)
    }
    most = max(read.values())
    if 2 * most <= len(some):
        return remedy
    first, *others = (f'"{shape}"' for shape, count in read.items() if count == most)
    remedy += f" Or say how dates are written: --date-format {first}, or date_format={first}"
    remedy += f" (it could also be {' or '.join(others)})." if others else "."
    return remedy + " Years of two digits are read as 1969 to 2068." * ("%y" in first)
