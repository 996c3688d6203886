"""A filter of the rows of a table: each is kept, or dropped for a reason that is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

import polars as pl

from ehr_course.errors import InputError
from ehr_course.sources.cohort import Drop, Reason, TableReport

Malformed = Literal["raise", "drop"]
"""What to do with a row that holds a malformed value."""

_DATE_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")

EXAMPLES = 3
"""How many places a report names for one reason."""


def check_malformed(malformed: str) -> None:
    """Raise InputError unless malformed is "raise" or "drop"."""
    if malformed not in get_args(Malformed):
        raise InputError("malformed", "", f"{malformed!r} is no policy", 'Use "raise" or "drop".')


class RowFilter:
    """The rows of a table that are still kept, and an account of the others.

    Attributes:
        name: the table's name in the report.
        file: what errors call the table.
        frame: the kept rows; its column "line" says where each stands.
        rows_read: how many rows there were.
        place: turns a number of the column "line" into words.
    """

    def __init__(
        self,
        name: str,
        frame: pl.DataFrame,
        *,
        file: str,
        place: Callable[[int], str],
        malformed: Malformed,
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        """Start with all rows kept.

        Args:
            name: the table's name in the report.
            frame: the rows, with a column "line" of whole numbers.
            file: what errors call the table.
            place: turns a number of the column "line" into words.
            malformed: what `refuse` does.
            spelling: how the file spells a column, where that is not its name in the frame.
        """
        self.name = name
        self.frame = frame
        self.rows_read = frame.height
        self.file = file
        self.place = place
        self._malformed = malformed
        self._spelling = spelling or {}
        self._drops: dict[Reason, Drop] = {}

    def drop(self, bad: pl.Expr, reason: Reason) -> None:
        """Drop the rows for which bad holds, and count them under the reason."""
        mask = self.frame.select(bad.alias("bad"))["bad"]
        if mask.any():
            lines = self.frame.filter(mask)["line"]
            self._count(reason, len(lines), lines.sort().head(EXAMPLES))
            self.frame = self.frame.filter(~mask)

    def count_unread(self, reason: Reason, lines: pl.Series) -> None:
        """Count rows that were dropped before they came into the frame."""
        if len(lines):
            self._count(reason, len(lines), lines.head(EXAMPLES))
            self.rows_read += len(lines)

    def _count(self, reason: Reason, count: int, lines: Iterable[int]) -> None:
        before = self._drops.get(reason, Drop(reason, 0, ()))
        examples = before.examples + tuple(self.place(line) for line in lines)
        self._drops[reason] = Drop(reason, before.count + count, examples[:EXAMPLES])

    def refuse(
        self, bad: pl.Expr, reason: Reason, *, column: str, problem: str, remedy: str
    ) -> None:
        """Raise at the first row for which bad holds, or drop them all if malformed="drop".

        Args:
            bad: true for the malformed rows.
            reason: what the report calls it.
            column: the column at fault.
            problem: what is wrong with its value, after the value: "is not a date".
            remedy: what the reader can do.
        """
        if self._malformed == "raise":
            rows = self.frame.filter(bad)
            if not rows.is_empty():
                first = rows.row(rows["line"].arg_min(), named=True)
                value = first[column]
                shown = "an empty value" if value in (None, "") else repr(str(value))
                raise InputError(
                    self.file,
                    f"{self.place(first['line'])}, column {self.spelled(column)!r}",
                    f"{shown} {problem}",
                    f'{remedy} Or leave such rows out: --malformed drop, or malformed="drop".',
                )
        self.drop(bad, reason)

    def spelled(self, column: str) -> str:
        """Return the name of a column as the file spells it."""
        return self._spelling.get(column, column)

    def take(self, columns: Mapping[str, str]) -> None:
        """Keep some columns under other names; errors spell them as the file does.

        Args:
            columns: the present name of each, by its new one; "line" is kept anyway.
        """
        self.frame = self.frame.select(
            "line", *(pl.col(now).alias(new) for new, now in columns.items())
        )
        self._spelling = {new: self._spelling.get(now, now) for new, now in columns.items()}

    def parse_numbers(self, column: str, reason: Reason) -> None:
        """Turn a column of text into whole numbers."""
        number = self._as_number(column)
        self.refuse(
            number.is_null(),
            reason,
            column=column,
            problem="is not a whole number",
            remedy="Write digits alone.",
        )
        self.frame = self.frame.with_columns(number)

    def _as_number(self, column: str) -> pl.Expr:
        number = pl.col(column)
        if self.frame.schema[column] == pl.String:
            number = number.str.strip_chars()
        return number.cast(pl.Int64, strict=False)

    def parse_dates(self, column: str) -> None:
        """Turn a column of text into times of microsecond precision, years 1 to 9999."""
        first, *others = (
            pl.col(column).str.to_datetime(shape, strict=False, time_unit="us")
            for shape in _DATE_FORMATS
        )
        self.frame = self.frame.with_columns(first.alias("parsed"))
        if self.frame["parsed"].has_nulls():
            self.frame = self.frame.with_columns(pl.coalesce("parsed", *others).alias("parsed"))
        self.refuse(
            pl.col("parsed").is_null(),
            Reason.BAD_DATE,
            column=column,
            problem="is not a date",
            remedy="Write it as 2101-01-31 17:05:00.",
        )
        self.frame = self.frame.drop(column).rename({"parsed": column})

    def drop_repeated_rows(self, columns: Iterable[str]) -> None:
        """Drop rows that say in these columns what an earlier row says."""
        self.drop(~pl.struct(*columns).is_first_distinct(), Reason.SAME_ROW)

    def refuse_differing_rows(self, column: str, *, problem: str) -> None:
        """Refuse all rows of an id that has more than one; call drop_repeated_rows first."""
        bad = pl.col(column).is_duplicated()
        rows = self.frame.filter(bad).sort("line")
        if not rows.is_empty():
            same = rows.filter(pl.col(column) == rows[column][0])["line"]
            problem += f" ({' and '.join(self.place(line) for line in same.head(EXAMPLES))})"
        self.refuse(
            bad,
            Reason.ROWS_DIFFER,
            column=column,
            problem=problem,
            remedy="Keep the right one.",
        )

    def account(self) -> TableReport:
        """Return what became of the rows, the kept ones counted as used."""
        return TableReport(
            self.name, self.rows_read, self.frame.height, tuple(self._drops.values())
        )
